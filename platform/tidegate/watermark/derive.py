"""How a column's watermark follows from its source's (D1): small immutable expressions that `explain` prints.

A column that keeps no order has no `Derived` at all.
"""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.watermark.timekind import TimeKind
from tidegate.watermark.windows import Tumble, Window


@dataclass(frozen=True)
class Identity:
    """The source's own watermark column, through filters and projections."""

    def at(self, watermark: int | None) -> int | None:
        """This column's watermark when the source's is `watermark`; None (undefined) gives None."""
        return watermark

    def describe(self, kind: TimeKind | None = None) -> str:
        """Readable text; with `kind`, lengths are written as intervals instead of ticks."""
        return "watermark"


@dataclass(frozen=True)
class Shift:
    """`of` + a constant, in ticks of the column's kind (negative: minus)."""

    of: Derived
    ticks: int

    def at(self, watermark: int | None) -> int | None:
        """This column's watermark when the source's is `watermark`; None (undefined) gives None."""
        inner = self.of.at(watermark)
        return None if inner is None else inner + self.ticks

    def describe(self, kind: TimeKind | None = None) -> str:
        """Readable text; with `kind`, lengths are written as intervals instead of ticks."""
        sign = "-" if self.ticks < 0 else "+"
        length = str(abs(self.ticks)) if kind is None else kind.format_duration(abs(self.ticks))
        return f"{self.of.describe(kind)} {sign} {length}"


@dataclass(frozen=True)
class WindowStart:
    """window_start of a TUMBLE or HOP over `of`: the start of the earliest window still open."""

    of: Derived
    window: Window

    def at(self, watermark: int | None) -> int | None:
        """This column's watermark when the source's is `watermark`; None (undefined) gives None."""
        inner = self.of.at(watermark)
        return None if inner is None else self.window.watermark_start(inner)

    def describe(self, kind: TimeKind | None = None) -> str:
        """Readable text; with `kind`, lengths are written as intervals instead of ticks."""
        return _window_call("start", self.of, self.window, kind)


@dataclass(frozen=True)
class WindowEnd:
    """window_end of a TUMBLE or HOP over `of`: the end of the earliest window still open."""

    of: Derived
    window: Window

    def at(self, watermark: int | None) -> int | None:
        """This column's watermark when the source's is `watermark`; None (undefined) gives None."""
        inner = self.of.at(watermark)
        return None if inner is None else self.window.watermark_end(inner)

    def describe(self, kind: TimeKind | None = None) -> str:
        """Readable text; with `kind`, lengths are written as intervals instead of ticks."""
        return _window_call("end", self.of, self.window, kind)


Derived = Identity | Shift | WindowStart | WindowEnd


def _window_call(side: str, of: Derived, window: Window, kind: TimeKind | None) -> str:
    name = "tumble" if isinstance(window, Tumble) else "hop"
    lengths = [window.size] if isinstance(window, Tumble) else [window.slide, window.size]
    lengths += [window.offset] if window.offset else []
    texts = [str(ticks) if kind is None else kind.format_duration(ticks) for ticks in lengths]
    return f"{name}_{side}({', '.join([of.describe(kind), *texts])})"
