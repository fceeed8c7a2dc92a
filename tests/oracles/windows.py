"""Windows of every kind and what is grouped by them, in plain Python (C1, C2, C6): slow, and obviously right.
Imports nothing of tidegate.

A window kind is a function from a time to the (start, end) of every window it is in. Times are integers in one unit,
except for `months`, which takes and gives datetimes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from tests.oracles.oracle import Row

Windows = Callable[[Any], list[tuple[Any, Any]]]


@dataclass(frozen=True)
class Group:
    """The rows of one window and key."""

    start: Any
    end: Any
    keys: tuple
    rows: tuple[Row, ...]


def hop(slide: int, size: int, offset: int = 0) -> Windows:
    """HOP; a tumble is a hop whose slide is its size."""

    def windows(time: int) -> list[tuple[int, int]]:
        last = time - (time - offset) % slide
        starts = range(last, time - size, -slide)
        return [(start, start + size) for start in starts]

    return windows


def tumble(size: int, offset: int = 0) -> Windows:
    """TUMBLE."""
    return hop(size, size, offset)


def cumulate(step: int, size: int) -> Windows:
    """CUMULATE: windows that begin together at a multiple of `size` and end one `step` after the other, up to
    `size`. A row is in those that end after it."""

    def windows(time: int) -> list[tuple[int, int]]:
        start = time - time % size
        ends = range(start + step, start + size + 1, step)
        return [(start, end) for end in ends if time < end]

    return windows


def months(size: int, slide: int | None = None) -> Windows:
    """Windows of whole calendar months, beginning at multiples of `slide` (default `size`) months of 1970-01."""
    every = slide or size

    def windows(time: datetime) -> list[tuple[datetime, datetime]]:
        month = (time.year - 1970) * 12 + time.month - 1
        last = month - month % every
        return [(_month(start), _month(start + size)) for start in range(last, month - size, -every)]

    return windows


def instant(time: int) -> list[tuple[int, int]]:
    """GROUP BY the watermark column itself: every time is a group of its own, see `is_final`."""
    return [(time, time)]


def is_final(start: Any, end: Any, watermark: Any) -> bool:
    """C2: watermark ≥ window_end. C6, for groups that are an instant: the watermark is beyond it."""
    if watermark is None:
        return False
    return watermark > start if start == end else watermark >= end


def grouped(
    rows: Iterable[Row], windows: Windows, keys: Sequence[str] = (), time: Callable[[Row], Any] | None = None
) -> list[Group]:
    """Every group of the rows, whether final or not; `rows` are on time (W3). `time`: default the event time."""
    when = time or (lambda row: row.event_time)
    members: dict[tuple, list[Row]] = {}
    for row in rows:
        for start, end in windows(when(row)):
            key = tuple(row.payload[k] for k in keys)
            members.setdefault((start, end, key), []).append(row)
    return [Group(start, end, key, tuple(found)) for (start, end, key), found in members.items()]


def final(groups: Iterable[Group], watermark: Any) -> list[Group]:
    """C2: what a view that EMITs ON WINDOW CLOSE has emitted by the time of this watermark."""
    return [group for group in groups if is_final(group.start, group.end, watermark)]


def top(rows: Iterable[Row], k: int, order: Callable[[Row], Any]) -> list[tuple[Row, int]]:
    """`row_number() OVER (… ORDER BY …) <= k`: the first k rows with their numbers. `order` leaves no ties."""
    return [(row, n) for n, row in enumerate(sorted(rows, key=order), 1) if n <= k]


def _month(number: int) -> datetime:
    return datetime(1970 + number // 12, number % 12 + 1, 1)
