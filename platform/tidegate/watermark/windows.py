"""Tumbling and hopping windows (C1): window_start inclusive, window_end exclusive, aligned to epoch + offset.

Times and lengths are integers in the unit of the time column's kind. Everything is one integer division;
scalars are Python integers and can't overflow, arrays are int64 and hold as long as the window starts do.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from tidegate.watermark.timekind import TimeKind

Times = TypeVar("Times", int, np.ndarray)


class _Windows:
    """What tumbling and hopping windows share; both say `slide`, `size` and `offset`."""

    slide: int
    size: int
    offset: int

    def starts(self, t: int | np.ndarray) -> list[int] | np.ndarray:
        """The starts of all windows that contain `t`, ascending: a list of size // slide integers, or for
        int64[n] an int64[n, size // slide].
        """
        last = self._last_start(t)
        back = range(self.size - self.slide, -1, -self.slide)
        if isinstance(last, np.ndarray):
            return last[:, None] - np.array(back, dtype=np.int64)
        return [last - b for b in back]

    def end(self, start: Times) -> Times:
        """The (exclusive) end of the window that starts there."""
        return start + self.size

    def watermark_start(self, watermark: int) -> int:
        """The watermark of window_start (D1): the start of the earliest window still open at `watermark`."""
        # The earliest window that contains W is the earliest one that ends after it.
        return self._last_start(watermark) - self.size + self.slide

    def watermark_end(self, watermark: int) -> int:
        """The watermark of window_end (D1): the end of the earliest window still open at `watermark`."""
        return self.end(self.watermark_start(watermark))

    def read_from(self, frontier: int) -> int:
        """The lowest event time (inclusive) that can be in a window closing after `frontier`, that is with
        window_end > frontier. Rows before it are only in windows that are already final.
        """
        return self.watermark_start(frontier)

    def describe(self, kind: TimeKind) -> str:
        """`TUMBLE 1 hour`, `HOP 15 minutes / 1 hour`, with the offset if there is one."""
        lengths = kind.format_duration(self.size)
        if isinstance(self, Hop):
            lengths = f"{kind.format_duration(self.slide)} / {lengths}"
        shifted = f", offset {kind.format_duration(self.offset)}" if self.offset else ""
        return f"{type(self).__name__.upper()} {lengths}{shifted}"

    def _last_start(self, t: Times) -> Times:
        # The remainder comes first: t - offset could leave int64 for the very first times.
        return t - (t % self.slide - self.offset) % self.slide

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

    def __post_init__(self) -> None:
        self._validate()

    @property
    def slide(self) -> int:  # type: ignore[override]
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

    def __post_init__(self) -> None:
        self._validate()


Window = Tumble | Hop
