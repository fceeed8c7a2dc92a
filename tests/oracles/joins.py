"""Joins and unions of semantics.md in plain Python (D2, C4): slow, and obviously right. Imports nothing of tidegate.

Two inputs a and b, each with rows that are on time and a watermark. Times are integers in one unit; a watermark of
None is undefined: then nothing is released (D2: "once all have one").
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from tests.oracles.oracle import Row

Pair = tuple[Row | None, Row | None]


@dataclass(frozen=True)
class Join:
    """`a.t BETWEEN b.t - before AND b.t + after`, and equal `keys` (a NULL equals nothing), and `condition`, if there
    is one. `kind`: inner, left, right or full. Equal times are before = after = 0."""

    before: int
    after: int
    keys: Sequence[str] = ()
    kind: str = "inner"
    condition: Callable[[Row, Row], bool] = lambda a, b: True

    def matches(self, a: Row, b: Row) -> bool:
        """The ON clause."""
        alike = all(a.payload[k] is not None and a.payload[k] == b.payload[k] for k in self.keys)
        in_time = b.event_time - self.before <= a.event_time <= b.event_time + self.after
        return alike and in_time and self.condition(a, b)

    def pairs(self, left: Iterable[Row], right: Iterable[Row]) -> list[Pair]:
        """The join of all rows there are, as SQL defines it."""
        left, right = list(left), list(right)
        found: list[Pair] = [(a, b) for a in left for b in right if self.matches(a, b)]
        if self.kind in ("left", "full"):
            found += [(a, None) for a in left if not any(self.matches(a, b) for b in right)]
        if self.kind in ("right", "full"):
            found += [(None, b) for b in right if not any(self.matches(a, b) for a in left)]
        return found

    def watermarks(self, wa: int | None, wb: int | None) -> tuple[int, int] | None:
        """D2: a.t gets min(Wa, Wb - before), b.t gets min(Wb, Wa - after)."""
        if wa is None or wb is None:
            return None
        return min(wa, wb - self.before), min(wb, wa - self.after)

    def released(
        self, left: Iterable[Row], right: Iterable[Row], wa: int | None, wb: int | None, by: str = "a"
    ) -> list[Pair]:
        """C4: the pairs whose time is below the time's derived watermark. `by` says which side's time that is. Where
        that side may be missing it is the time of either side, and its watermark the smaller of both: with less, rows
        would not be released in order."""
        marks = self.watermarks(wa, wb)
        if marks is None:
            return []
        mark = marks[0] if by == "a" else marks[1]
        if self.kind == "full" or self.kind == ("right" if by == "a" else "left"):
            mark = min(marks)

        def time(a: Row | None, b: Row | None) -> int:
            first, second = (a, b) if by == "a" else (b, a)
            return (first if first is not None else second).event_time

        return [(a, b) for a, b in self.pairs(left, right) if time(a, b) < mark]


def union(inputs: Sequence[Sequence[Row]], watermarks: Sequence[int | None]) -> tuple[list[Row], int | None]:
    """D2: UNION ALL: all rows, and the minimum of the watermarks once all have one."""
    rows = [row for rows in inputs for row in rows]
    return rows, None if any(w is None for w in watermarks) else min(watermarks)
