"""The two oracles against each other, on every small world: the one in plain Python goes row by row, the one in SQL
asks about all worlds at once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from tests.oracles.amend import Amended
from tests.oracles.oracle import Oracle, Row, View
from tests.oracles.sessions import closed, sessions
from tests.oracles.sql import SqlOracle
from tests.oracles.tables import Change, Table
from tests.small.histories import DELAY, PARTITIONS, History, Time

Answers = dict[str, set[tuple[Any, ...]]]

SIZE, SLIDE, GAP = 4, 2, 2


def delayed(time: int) -> int | None:
    return time - DELAY


def ahead(time: int) -> int | None:
    """Beyond the event time: here a late row could raise the watermark (W2)."""
    return time + 1 if time % 2 else time - 1


def with_holes(time: int) -> int | None:
    """NULL for one time, which raises nothing (W2)."""
    return None if time == 2 else time


STRATEGIES: dict[str, Callable[[int], int | None]] = {
    one.__name__: one for one in (delayed, ahead, with_holes)
}


@dataclass(frozen=True)
class World:
    """One history, and what is asked of it. `strategy`: by name; `deletes`: the places of its changes that delete;
    `keys`: of how many keys these are, one after the other in each partition. (Of one key alone no row ever expires
    before it is changed.)"""

    history: History
    strategy: str = "delayed"
    deletes: frozenset[tuple[str, int]] = frozenset()
    keys: int = 1

    def offered(self, time: Time) -> int | None:
        return None if time is None else STRATEGIES[self.strategy](time)


def by_sql(worlds: Sequence[World], *, expires: bool) -> tuple[SqlOracle, pa.Table]:
    """The worlds as DuckDB has them, each by its number; and the batches after which each is amended."""
    rows: dict[str, list[Any]] = {
        name: [] for name in ("world", "batch", "p", "o", "t", "offered", "k", "deleted")
    }
    begins: dict[str, list[Any]] = {name: [] for name in ("world", "batch", "p")}
    amends: dict[str, list[Any]] = {name: [] for name in ("world", "batch")}
    for number, world in enumerate(worlds):
        for batch, partition, offset, time in world.history.rows():
            deleted = (partition, offset) in world.deletes
            found = (
                number,
                batch,
                int(partition),
                offset,
                time,
                world.offered(time),
                offset % world.keys,
                deleted,
            )
            for name, value in zip(rows, found, strict=True):
                rows[name].append(value)
        for partition, batch in world.history.begins().items():
            for name, value in zip(begins, (number, batch, int(partition)), strict=True):
                begins[name].append(value)
        for batch in amended_after(world.history):
            amends["world"].append(number)
            amends["batch"].append(batch)
    kinds = {"deleted": pa.bool_()}
    given = pa.table({n: pa.array(v, kinds.get(n, pa.int64())) for n, v in rows.items()})
    return SqlOracle(given, pa.table(begins), expires=expires), pa.table(amends)


def amended_after(history: History) -> list[int]:
    """Every other batch, and the last one: what was late in between waits."""
    last = len(history.batches)
    return sorted({*range(1, last + 1, 2), last})


def answers_by_sql(worlds: Sequence[World]) -> Answers:
    """Of worlds without deletes."""
    oracle, amends = by_sql(worlds, expires=False)
    return {
        "W1 W2 W5": set(oracle.decisions()),
        "W6": set(oracle.published()),
        "C2 tumble": set(oracle.windows(SLIDE, SLIDE)),
        "C2 hop": set(oracle.windows(SIZE, SLIDE)),
        "C3": set(oracle.sessions(GAP)),
        "C4": set(oracle.sorted()),
        "B1 B2 B3": set(oracle.amended(SLIDE, SLIDE, amends)),
        "B3 hop": set(oracle.amended(SIZE, SLIDE, amends)),
    }


def tables_by_sql(worlds: Sequence[World]) -> Answers:
    oracle, _ = by_sql(worlds, expires=True)
    late = {row[:3] for row in oracle.decisions() if row[3] == "late"}
    return {"T1": late, "T2 T4": set(oracle.table()), "T2 history": set(oracle.left())}


def answers_by_steps(worlds: Iterable[World]) -> Answers:
    """The same, from `tests.oracles.oracle`."""
    found: Answers = defaultdict(set)
    for number, world in enumerate(worlds):
        for rule, answer in _answers(world):
            found[rule].add((number, *answer))
    return found


def tables_by_steps(worlds: Iterable[World]) -> Answers:
    """The same, from `tests.oracles.tables`."""
    found: Answers = defaultdict(set)
    for number, world in enumerate(worlds):
        table = Table(DELAY)
        for batch, rows in _batches(world.history):
            table.enumerate(p for p, first in world.history.begins().items() if first <= batch)
            for partition, offset, time in rows:
                if time is not None:
                    deleted = (partition, offset) in world.deletes
                    table.read(Change(partition, offset, offset % world.keys, time, deleted))
            table.publish()
            for key, change in table.rows().items():
                found["T2 T4"].add((number, batch, key, change.time, int(change.partition), change.offset))
            for partition, offset in table.history():
                found["T2 history"].add((number, batch, int(partition), offset))
        found["T1"] |= {(number, int(change.partition), change.offset) for change, _ in table.late}
    return found


def _batches(history: History) -> Iterator[tuple[int, list[tuple[str, int, Time]]]]:
    found: dict[int, list[tuple[str, int, Time]]] = defaultdict(list)
    for batch, partition, offset, time in history.rows():
        found[batch].append((partition, offset, time))
    yield from found.items()


def _answers(world: World) -> Iterator[tuple[str, tuple[Any, ...]]]:
    counting = {"aggregates": {"n": ("count", None)}}
    tumble, hop = View("tumble", SLIDE, **counting), View("hop", SIZE, SLIDE, **counting)  # type: ignore[arg-type]
    oracle = Oracle(lambda row: world.offered(row.event_time), [tumble, hop])
    amended = {name: Amended(oracle, name) for name in oracle.views}
    released: set[tuple[str, int]] = set()
    for batch, rows in _batches(world.history):
        oracle.enumerate(p for p in PARTITIONS if world.history.begins().get(p, 99) <= batch)
        for partition, offset, time in rows:
            made = oracle.read(Row(partition, offset, time, None if time is not None else "null_event_time"))
            yield "W1 W2 W5", (int(partition), offset, made.outcome, made.found, made.watermark)
        before = {name: len(groups) for name, groups in oracle.emitted.items()}
        oracle.flush()
        yield "W6", (batch, oracle.g)
        for name, groups in oracle.emitted.items():
            for group in groups[before[name] :]:
                yield f"C2 {name}", (group["window_start"], group["window_end"], group["n"], batch)
        on_time = [one.row for one in oracle.decisions if one.outcome == "on_time"]
        for session in closed(sessions(on_time, GAP), oracle.g):
            yield "C3", (batch, session.start, session.end, len(session.rows))
        for row in on_time:
            place = row.partition, row.offset
            if oracle.g is not None and row.event_time < oracle.g and place not in released:
                released.add(place)
                yield "C4", (batch, row.event_time, int(row.partition), row.offset)
        if batch in amended_after(world.history):
            for one in amended.values():
                one.amend()
    for rule, name in (("B1 B2 B3", "tumble"), ("B3 hop", "hop")):
        one = amended[name]
        for group in one.shows():
            start = group["window_start"]
            yield rule, (start, group["n"], one.revisions[start][-1].number if start in one.revisions else 1)


def differences(one: Answers, other: Answers, worlds: Sequence[World]) -> list[str]:
    """Where they differ: the rule, the world, and what only one of them says."""
    found = []
    for rule in sorted(one.keys() | other.keys()):
        mine, its = one.get(rule, set()), other.get(rule, set())
        for number in sorted({answer[0] for answer in mine ^ its})[:3]:
            only = [
                sorted((a for a in x - y if a[0] == number), key=repr) for x, y in ((mine, its), (its, mine))
            ]
            found.append(f"{rule}: {worlds[number]}: in SQL {only[0]}, step by step {only[1]}")
    return found
