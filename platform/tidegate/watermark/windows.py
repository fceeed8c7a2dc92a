"""Tumbling, hopping and cumulating windows of a fixed length (C1): window_start inclusive, window_end exclusive,
aligned to epoch + offset. Those of calendar months are in calendar_windows.py and answer the same questions.

Times and lengths are integers in the unit of the time column's kind. Everything is one integer division;
scalars are Python integers and can't overflow, arrays are int64 and hold as long as the window starts do.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from tidegate.watermark.calendar_windows import CalendarHop, CalendarTumble
from tidegate.watermark.timekind import TimeKind

Times = TypeVar("Times", int, np.ndarray)


class _Windows:
    """What tumbling and hopping windows share; both say `slide`, `size` and `offset`."""

    function: str
    slide: int
    size: int
    offset: int

    def starts(self, t: int | np.ndarray) -> list[int] | np.ndarray:
        """The starts of all windows that contain `t`, ascending: a list of size // slide integers, or for
        int64[n] an int64[n, size // slide].
        """
        back = range(self.size - self.slide, -1, -self.slide)
        if isinstance(t, np.ndarray):
            starts: np.ndarray = self._last_start(t)[:, None] - np.array(back, dtype=np.int64)
            return starts
        last = self._last_start(t)
        return [last - b for b in back]

    def end(self, start: Times) -> Times:
        """The (exclusive) end of the window that starts there."""
        return start + self.size

    def bounds(self, t: int) -> list[tuple[int, int]]:
        """(start, end) of all windows that contain `t`, ascending."""
        return [(start, self.end(start)) for start in self.starts(t)]

    def watermark_start(self, watermark: int) -> int:
        """The watermark of window_start (D1): the start of the earliest window still open at `watermark`."""
        # The earliest window that contains W is the earliest one that ends after it.
        return self._last_start(watermark) - self.size + self.slide

    def watermark_end(self, watermark: int) -> int:
        """The watermark of window_end (D1): the end of the earliest window still open at `watermark`."""
        return self.end(self.watermark_start(watermark))

    def closed_end(self, watermark: int) -> int:
        """The end of the last window that is closed at `watermark` (C2)."""
        return self._last_start(watermark)

    @property
    def reach(self) -> int:
        """The longest that a window can be, in ticks."""
        return self.size

    @property
    def shortest(self) -> int:
        """The shortest that a window can be, in ticks."""
        return self.size

    def lengths(self, kind: TimeKind | None) -> list[str]:
        """The lengths as the call says them, the offset last if there is one; with `kind`, as intervals."""
        lengths = [self.size] if isinstance(self, Tumble) else [self.slide, self.size]
        return _texts([*lengths, *([self.offset] if self.offset else [])], kind)

    def describe(self, kind: TimeKind) -> str:
        """`TUMBLE 1 hour`, `HOP 15 minutes / 1 hour`, with the offset if there is one."""
        return _described(self.function, self.lengths(kind), bool(self.offset))

    def _last_start(self, t: Times) -> Times:
        # The remainder comes first: t - offset could leave int64 for the very first times.
        last: Times = t - (t % self.slide - self.offset) % self.slide
        return last

    def _validate(self) -> None:
        if self.slide <= 0 or self.size <= 0:
            raise ValueError("the lengths of a window must be positive")
        if self.size % self.slide:
            raise ValueError(f"the size of a HOP must be a multiple of its slide: {self.size}, {self.slide}")


@dataclass(frozen=True)
class Tumble(_Windows):
    """`TUMBLE(rel, t, size[, offset])`: windows side by side. Raises ValueError unless size > 0."""

    size: int
    offset: int = 0
    function = "TUMBLE"

    def __post_init__(self) -> None:
        self._validate()

    @property
    def slide(self) -> int:  # type: ignore[override]  # what others are given as a field, this one knows
        """A new window starts where the last one ends."""
        return self.size


@dataclass(frozen=True)
class Hop(_Windows):
    """`HOP(rel, t, slide, size[, offset])`: a window of `size` starts every `slide`. Raises ValueError
    unless both are positive and size is a multiple of slide.
    """

    slide: int
    size: int
    offset: int = 0
    function = "HOP"

    def __post_init__(self) -> None:
        self._validate()


@dataclass(frozen=True)
class Cumulate:
    """`CUMULATE(rel, t, step, size)`: from every multiple of `size` (plus `offset`) on, windows that start there
    together and end one `step` after the other, the last after `size`. A row is in those that end after it.
    Raises ValueError unless both are positive and size is a multiple of step.
    """

    step: int
    size: int
    offset: int = 0
    function = "CUMULATE"

    def __post_init__(self) -> None:
        if self.step <= 0 or self.size <= 0:
            raise ValueError("the lengths of a window must be positive")
        if self.size % self.step:
            raise ValueError(
                f"the size of a CUMULATE must be a multiple of its step: {self.size}, {self.step}"
            )

    def starts(self, t: int | np.ndarray) -> list[int] | np.ndarray:
        """The starts of all windows that contain `t`, each once: always one. A list, or for int64[n] an int64[n, 1]."""
        return self.watermark_start(t)[:, None] if isinstance(t, np.ndarray) else [self.watermark_start(t)]

    def bounds(self, t: int) -> list[tuple[int, int]]:
        """(start, end) of all windows that contain `t`, the shortest first."""
        start = self.watermark_start(t)
        first = (t - start) // self.step + 1
        return [(start, start + n * self.step) for n in range(first, self.size // self.step + 1)]

    def watermark_start(self, watermark: Times) -> Times:
        """The watermark of window_start (D1): the start of the earliest window still open at `watermark`."""
        start: Times = watermark - (watermark % self.size - self.offset) % self.size
        return start

    def watermark_end(self, watermark: int) -> int:
        """The watermark of window_end (D1): the end of the earliest window still open at `watermark`."""
        return self.closed_end(watermark) + self.step

    def closed_end(self, watermark: int) -> int:
        """The end of the last window that is closed at `watermark` (C2)."""
        return watermark - (watermark % self.step - self.offset) % self.step

    @property
    def reach(self) -> int:
        """The longest that a window can be, in ticks."""
        return self.size

    @property
    def shortest(self) -> int:
        """The shortest that a window can be, in ticks."""
        return self.step

    def lengths(self, kind: TimeKind | None) -> list[str]:
        """The lengths as the call says them, the offset last if there is one; with `kind`, as intervals."""
        return _texts([self.step, self.size, *([self.offset] if self.offset else [])], kind)

    def describe(self, kind: TimeKind) -> str:
        """`CUMULATE 1 hour / 1 day`, with the offset if there is one."""
        return _described(self.function, self.lengths(kind), bool(self.offset))


@dataclass(frozen=True)
class Sessions:
    """`SESSION(rel, t, [key, …,] gap)`: rows of a key that are less than `gap` ticks apart (C3); their bounds follow
    from the rows. Raises ValueError unless gap > 0.
    """

    gap: int
    function = "SESSION"

    def __post_init__(self) -> None:
        if self.gap <= 0:
            raise ValueError("the gap of a session must be positive")

    def end(self, last: Times) -> Times:
        """The (exclusive) end of a session whose last row is there."""
        return last + self.gap

    def describe(self, kind: TimeKind) -> str:
        """`SESSION 30 minutes`."""
        return _described(self.function, _texts([self.gap], kind), False)


Window = Tumble | Hop | Cumulate | CalendarTumble | CalendarHop


def _texts(ticks: list[int], kind: TimeKind | None) -> list[str]:
    return [str(t) if kind is None else kind.format_duration(t) for t in ticks]


def _described(function: str, lengths: list[str], shifted: bool) -> str:
    shift = f", offset {lengths.pop()}" if shifted else ""
    return f"{function} {' / '.join(lengths)}{shift}"
