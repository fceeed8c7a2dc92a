"""Windows of whole calendar months (C1): a month, a quarter, a fiscal year.

Months are counted from 1970-01, in UTC, and a window starts where that number is a multiple of the slide: quarters
begin in January, April, July and October, years in January. The offset moves that grid by whole months, by a fixed
length, or by both: 3 months and 5 days for years that begin on April 6.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TypeVar

import numpy as np

from tidegate.watermark.timekind import DAY_MICROS, TimeKind

Times = TypeVar("Times", int, np.ndarray)

#: The Gregorian calendar repeats after 400 years.
_CYCLE = 400 * 12


class _CalendarWindows:
    """What both classes share: they say `kind`, `slide_months`, `size_months`, `offset_months` and `offset` (ticks)."""

    function: str
    kind: TimeKind
    slide_months: int
    size_months: int
    offset_months: int
    offset: int

    def starts(self, t: int | np.ndarray) -> list[int] | np.ndarray:
        """The starts of all windows that contain `t`, ascending: a list of size // slide integers, or for
        int64[n] an int64[n, size // slide].
        """
        back = range(self.size_months - self.slide_months, -1, -self.slide_months)
        if isinstance(t, np.ndarray):
            return self._tick(self._last_month(t)[:, None] - np.array(back, dtype=np.int64))
        last = self._last_month(t)
        return [self._tick(last - b) for b in back]

    def end(self, start: Times) -> Times:
        """The (exclusive) end of the window that starts there."""
        return self._tick(self._month(start) + self.size_months)

    def bounds(self, t: int) -> list[tuple[int, int]]:
        """(start, end) of all windows that contain `t`, ascending."""
        return [(start, self.end(start)) for start in self.starts(t)]

    def watermark_start(self, watermark: int) -> int:
        """The watermark of window_start (D1): the start of the earliest window still open at `watermark`."""
        return self._tick(self._last_month(watermark) - self.size_months + self.slide_months)

    def watermark_end(self, watermark: int) -> int:
        """The watermark of window_end (D1): the end of the earliest window still open at `watermark`."""
        return self._tick(self._last_month(watermark) + self.slide_months)

    def closed_end(self, watermark: int) -> int:
        """The end of the last window that is closed at `watermark` (C2)."""
        return self._tick(self._last_month(watermark))

    @property
    def reach(self) -> int:
        """The longest that a window can be, in ticks: 31 days for a month, 366 for a year."""
        return _days(self.slide_months, self.size_months, self.offset_months)[1] * _day(self.kind)

    @property
    def shortest(self) -> int:
        """The shortest that a window can be, in ticks: 28 days for a month, 365 for a year."""
        return _days(self.slide_months, self.size_months, self.offset_months)[0] * _day(self.kind)

    def lengths(self, kind: TimeKind | None) -> list[str]:
        """The lengths as the call says them, the offset last if there is one; `kind` says how to write ticks."""
        months = [self.size_months]
        if self.size_months != self.slide_months:
            months.insert(0, self.slide_months)
        return [*(_months(m) for m in months), *self._offset_texts()]

    def describe(self, kind: TimeKind) -> str:
        """`TUMBLE 1 month`, `HOP 1 month / 1 year`, with the offset if there is one."""
        shift = self._offset_texts()
        lengths = self.lengths(kind)
        shown = " / ".join(lengths[: len(lengths) - len(shift)])
        return f"{self.function} {shown}{f', offset {shift[0]}' if shift else ''}"

    def _offset_texts(self) -> list[str]:
        parts = [_months(self.offset_months)] if self.offset_months else []
        parts += [self.kind.format_duration(self.offset)] if self.offset else []
        return [" ".join(parts)] if parts else []

    def _last_month(self, t: Times) -> Times:
        """The month at which the last window starts that starts at or before `t`."""
        month = self._month(t)
        last: Times = month - (month - self.offset_months) % self.slide_months
        return last

    def _month(self, t: Times) -> Times:
        """The number of the month that holds `t`, on the grid that the fixed part of the offset has moved."""
        days = (t - self.offset) // _day(self.kind)
        months = np.asarray(days, dtype="datetime64[D]").astype("datetime64[M]").astype(np.int64)
        return months if isinstance(t, np.ndarray) else int(months)

    def _tick(self, month: Times) -> Times:
        days = np.asarray(month, dtype="datetime64[M]").astype("datetime64[D]").astype(np.int64)
        if isinstance(month, np.ndarray):
            return days * _day(self.kind) + self.offset
        return int(days) * _day(self.kind) + self.offset

    def _validate(self) -> None:
        if self.kind is TimeKind.EPOCH:
            raise ValueError("an integer column has no months: its unit is not known")
        if self.slide_months <= 0 or self.size_months <= 0:
            raise ValueError("the lengths of a window must be positive")
        if self.size_months % self.slide_months:
            shown = f"{self.size_months}, {self.slide_months} months"
            raise ValueError(f"the size of a HOP must be a multiple of its slide: {shown}")


@dataclass(frozen=True)
class CalendarTumble(_CalendarWindows):
    """`TUMBLE(rel, t, INTERVAL 'n months'[, offset])`. `kind` says what a tick is; `offset` is in ticks and comes on
    top of `offset_months`. Raises ValueError unless size_months > 0, and for EPOCH.
    """

    kind: TimeKind
    size_months: int
    offset_months: int = 0
    offset: int = 0
    function = "TUMBLE"

    def __post_init__(self) -> None:
        self._validate()

    @property
    def slide_months(self) -> int:  # type: ignore[override]  # what others are given as a field, this one knows
        """A new window starts where the last one ends."""
        return self.size_months


@dataclass(frozen=True)
class CalendarHop(_CalendarWindows):
    """`HOP(rel, t, INTERVAL 'm months', INTERVAL 'n months'[, offset])`. Raises ValueError unless both are positive
    and the size is a multiple of the slide, and for EPOCH.
    """

    kind: TimeKind
    slide_months: int
    size_months: int
    offset_months: int = 0
    offset: int = 0
    function = "HOP"

    def __post_init__(self) -> None:
        self._validate()


def _day(kind: TimeKind) -> int:
    return 1 if kind is TimeKind.DATE else DAY_MICROS


@cache
def _days(slide: int, size: int, offset: int) -> tuple[int, int]:
    """Days in the shortest and in the longest window of the grid."""
    # A grid has at most as many different positions in the cycle as the cycle has months.
    starts = np.arange(offset, offset + _CYCLE * slide, slide, dtype=np.int64)
    days = [(starts + m).astype("datetime64[M]").astype("datetime64[D]").astype(np.int64) for m in (0, size)]
    lengths = days[1] - days[0]
    return int(lengths.min()), int(lengths.max())


def _months(count: int) -> str:
    count, unit = (count // 12, "year") if count % 12 == 0 else (count, "month")
    return f"{count} {unit}" if abs(count) == 1 else f"{count} {unit}s"
