"""Many small random cases that share one run of the engine.

A case is a handful of rows with one value of column `c`; every query keeps the cases apart by it. The watermark comes
from rows of a case of their own (`DRIVER`), through the strategy `wm`, so that all cases see the same watermarks, and
each case's rows are placed around them: at the watermark, one before it, exactly a gap apart, late. Rows of all cases
are mixed, in several partitions, and cut into steps (a run of the engine) and batches (a file) at random.

Times are whole seconds. Everything follows from the `random.Random` that is given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from random import Random

from tests.oracles.oracle import Oracle, Row

DRIVER = -1
PARTITIONS = "ab"
STEPS = 4


@dataclass(frozen=True)
class Shape:
    """What is interesting for a rule. `deltas`: distances between rows of a case, the exact ones of the rule first of
    all; `keys`: values of column k; `rows`: at most so many in a case."""

    deltas: Sequence[int]
    keys: Sequence[str | None] = ("x", "x", "y")
    values: Sequence[int | None] = (0, 1, 2, 3, 4, None)
    rows: int = 12


@dataclass
class Feed:
    """One source: `steps[s]` is a list of batches, each a list of rows in order of arrival."""

    steps: list[list[list[Row]]] = field(default_factory=list)

    def rows(self, case: int | None = None) -> Iterable[tuple[int, Row]]:
        """(step, row) in order of arrival, of one case or of all."""
        for step, batches in enumerate(self.steps):
            for batch in batches:
                for row in batch:
                    if case is None or row.payload["c"] == case:
                        yield step, row

    def scaled(self, unit: int) -> Feed:
        """The same with every time `unit` times as large."""

        def scale(row: Row) -> Row:
            wm = row.payload["wm"]
            payload = row.payload | {"wm": None if wm is None else wm * unit}
            return replace(row, event_time=row.event_time * unit, payload=payload)

        return Feed([[list(map(scale, batch)) for batch in batches] for batches in self.steps])


@dataclass(frozen=True)
class Seen:
    """A source after a step: the rows that are on time so far, and its published watermark."""

    rows: list[Row]
    watermark: int | None


def marks(rng: Random, steps: int = STEPS) -> list[int]:
    """The watermark of each step, growing; sometimes it stands still."""
    out = [rng.randint(5, 15)]
    while len(out) < steps:
        out.append(out[-1] + rng.choice([0, 1, 7, 10, 10, 15, 20]))
    return out


def beside(rng: Random, watermarks: Sequence[int]) -> list[int]:
    """The watermarks of a second source: now behind the first one's, now ahead of them."""
    out: list[int] = []
    for step, mark in enumerate(watermarks):
        apart = rng.choice([7, 13]) if step % 2 else -rng.choice([0, 1, 6])
        out.append(max([mark + apart, *out]))
    return out


def feed(rng: Random, cases: int, shape: Shape, watermarks: Sequence[int], other: Feed | None = None) -> Feed:
    """`cases` random cases over the given watermarks, combined; ids are unique. `other`: a feed to be joined with,
    to whose rows the times of the same case are near."""
    near: dict[int, list[int]] = {}
    for _, row in other.rows() if other is not None else ():
        near.setdefault(row.payload["c"], []).append(row.event_time)
    by_step: list[list[tuple[str, int | None, dict]]] = [[] for _ in watermarks]
    for case in range(cases):
        for step, time, key, value in case_rows(rng, shape, watermarks, near.get(case, ())):
            payload = {"c": case, "k": key, "v": value, "wm": None}
            by_step[step].append((rng.choice(PARTITIONS), time, payload))

    out, offsets, number = Feed(), dict.fromkeys(PARTITIONS, 0), 0
    for step, arrivals in enumerate(by_step):
        rng.shuffle(arrivals)
        for partition in PARTITIONS:
            # The minimum of the partitions is the step's watermark, or an older one where a partition is silent.
            if rng.random() < 0.9:
                mark = watermarks[step] + rng.choice([0, 0, 0, 2])
                driver = {"c": DRIVER, "k": "driver", "v": 0, "wm": mark}
                arrivals.insert(rng.randint(0, len(arrivals)), (partition, mark, driver))
        rows = []
        for partition, time, payload in arrivals:
            rows.append(Row(partition, offsets[partition], time, None, payload | {"id": number}))
            offsets[partition] += 1
            number += 1
        cut = rng.choice([0, rng.randint(0, len(rows))])
        out.steps.append([batch for batch in (rows[:cut], rows[cut:]) if batch])
    return out


def case_rows(
    rng: Random, shape: Shape, watermarks: Sequence[int], near: Sequence[int] = ()
) -> list[tuple[int, int, str | None, int | None]]:
    """One case: (step, time, key, value). Nearly every row arrives while it can still be on time."""
    steps = len(watermarks)
    horizon = watermarks[-1] + 10
    times = [rng.choice(near) + rng.choice(shape.deltas) if near else rng.randint(0, horizon)]
    for _ in range(rng.randint(0, shape.rows - 1)):
        chance = rng.random()
        if chance < 0.65:
            times.append(rng.choice([*times, *near]) + rng.choice(shape.deltas) * rng.choice([1, 1, 1, -1]))
        elif chance < 0.9:
            # What the rule decides at the watermark itself: a delta before it, and one off that.
            times.append(
                rng.choice(watermarks) - rng.choice([0, *shape.deltas]) + rng.choice([-1, 0, 0, 0, 1])
            )
        else:
            times.append(rng.randint(0, horizon))
    out = []
    for time in times:
        on_time = [s for s in range(steps) if s == 0 or time >= watermarks[s - 1]]
        step = rng.choice(on_time) if rng.random() < 0.85 else rng.randrange(steps)
        out.append((step, max(time, 0), rng.choice(shape.keys), rng.choice(shape.values)))
    return out


def play(given: Feed) -> list[Seen]:
    """The oracle's gate over a feed: what there is to see after each step (W1–W6)."""
    oracle = Oracle(strategy=lambda row: row.payload["wm"])
    out = []
    for batches in given.steps:
        oracle.enumerate(sorted({row.partition for batch in batches for row in batch}))
        for batch in batches:
            for row in batch:
                oracle.read(row)
            oracle.flush()
        on_time = [d.row for d in oracle.decisions if d.outcome == "on_time"]
        out.append(Seen(on_time, oracle.g))
    return out


def by_case(rows: Iterable[Row]) -> dict[int, list[Row]]:
    """Rows of each case."""
    found: dict[int, list[Row]] = {}
    for row in rows:
        found.setdefault(row.payload["c"], []).append(row)
    return found


def grows(released: Sequence[Iterable]) -> bool:
    """C2, C4: whether what is there after a step is still there after the next one, unchanged."""
    return all(set(before) <= set(after) for before, after in pairwise(released))


def differing(
    states: Iterable[Seen],
    right: Callable[[list[Row], int], list],
    wrong: Callable[[list[Row], int], list],
) -> set[int]:
    """The cases in which a wrong rule shows something else than the right one after some step."""
    found = set()
    for state in states:
        if state.watermark is not None:
            for case, rows in by_case(state.rows).items():
                results = (sorted(rule(rows, state.watermark), key=str) for rule in (right, wrong))
                if next(results) != next(results):
                    found.add(case)
    return found
