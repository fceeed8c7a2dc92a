"""Completeness against delay: the curve, its knee, and the delay to choose. Plain numbers, no engine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

#: The knee is looked for up to this share of the rows that any delay could save: stragglers would hide it.
_KNEE_UP_TO = 0.999


@dataclass(frozen=True)
class Curve:
    """Rows on time (`counts`, cumulative, ascending) for each delay (`delays`, ascending ticks of the time column), of
    `rows` rows in all. Between two delays the curve is flat. Exact at every one of `delays`, and at those of the grid.
    """

    delays: Sequence[int]
    counts: Sequence[int]
    rows: int

    @classmethod
    def of(cls, histogram: Mapping[int, int], rows: int) -> Curve:
        """From how many rows need which delay to be on time; rows that no delay saves are in `rows` alone."""
        points, counts, seen = [0], [histogram.get(0, 0)], histogram.get(0, 0)
        for delay in sorted(d for d in histogram if d > 0):
            seen += histogram[delay]
            points.append(delay)
            counts.append(seen)
        return cls(points, counts, rows)

    @property
    def shares(self) -> list[float]:
        """Share of rows on time (0 to 1) for each delay."""
        return [count / self.rows if self.rows else 1.0 for count in self.counts]

    def on_time(self, delay: int) -> int:
        """Rows on time if the strategy were `column - delay`; negative delays run ahead, and are not measured."""
        if delay < 0:
            raise ValueError("a negative delay is not on the curve")
        found = 0
        for point, count in zip(self.delays, self.counts, strict=True):
            if point > delay:
                break
            found = count
        return found

    def at(self, delay: int) -> float:
        """Share of rows on time (0 to 1) if the strategy were `column - delay`."""
        return self.on_time(delay) / self.rows if self.rows else 1.0

    def needed(self, target: float) -> int | None:
        """The shortest delay with at least this share of rows on time (0 to 1), or None if no delay reaches it."""
        for point, count in zip(self.delays, self.counts, strict=True):
            # Counts, not shares: 999 of 1,000 rows are 99.9 %, whatever floating point says.
            if count * 1_000_000 >= round(target * 1_000_000) * self.rows:
                return point
        return None

    @property
    def knee(self) -> int:
        """Where more delay begins to buy little: the point of the curve that is furthest above the straight line from
        its beginning to 99.9 % of the rows that any delay saves (Kneedle); its end where it does not bend, 0 where
        there is nothing to gain.
        """
        first, most = self.counts[0], self.counts[-1]
        gain = _KNEE_UP_TO * most
        end = next(i for i, count in enumerate(self.counts) if count >= gain)
        width, height = self.delays[end], self.counts[end] - first
        if width == 0 or height <= 0:
            return 0
        rises = [
            (count - first) / height - point / width
            for point, count in zip(self.delays[: end + 1], self.counts[: end + 1], strict=True)
        ]
        top = max(rises)
        return max(d for d, rise in zip(self.delays, rises, strict=False) if rise >= top - 1e-12)


@dataclass(frozen=True)
class Choice:
    """One delay that could be declared, and why it is listed. `late`: rows that would be late; `share`: on time, of 1.

    `waits`: (median, 95th percentile) of how long after its end a window closes by the wall clock, seconds; None where
    that can't be told.
    """

    why: str
    delay: int
    on_time: int
    late: int
    share: float
    waits: tuple[float, float] | None = None


def choices(
    curve: Curve, declared: int | None, target: float, others: Sequence[float] = (0.95, 0.99, 0.999)
) -> list[Choice]:
    """What is worth a look, by delay: no delay, the knee, the declared one, and the usual shares; one line for each
    delay. The one that `target` asks for is called `recommended`."""
    wanted: dict[int, list[str]] = {0: ["no delay"]}

    def add(delay: int | None, why: str) -> None:
        if delay is not None:
            wanted.setdefault(delay, []).append(why)

    add(curve.knee, "knee")
    if declared is not None and declared >= 0:
        add(declared, "declared")
    for share in sorted({*others}):
        add(curve.needed(share), f"{percent(share)} on time")
    add(recommended(curve, target), "recommended")
    add(curve.delays[-1], "the best that a delay can do")
    found = []
    for delay in sorted(wanted):
        on_time = curve.on_time(delay)
        why = ", ".join(dict.fromkeys(wanted[delay]))
        found.append(Choice(why, delay, on_time, curve.rows - on_time, curve.at(delay)))
    return found


def recommended(curve: Curve, target: float) -> int:
    """The shortest delay that reaches the target; where none does, the shortest of the best."""
    delay = curve.needed(target)
    return curve.delays[-1] if delay is None else delay


def percent(share: float) -> str:
    """`99.9 %`, with no more digits than it has."""
    return f"{round(100 * share, 4):g} %"
