"""How a column's watermark follows from those of its inputs (D1-D3): small immutable expressions that `explain` prints.

A column that keeps no order has no `Derived` at all. Every `at` takes one mark for each input, in the order in which
the query reads them: the watermark of a relation, or the frontier of a view.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from tidegate.watermark.timekind import DAY_MICROS, TimeKind
from tidegate.watermark.windows import Window


class SessionMark(NamedTuple):
    """What a view of sessions says to its readers (D3): its frontier, and the start of its earliest open session
    (None: none is open)."""

    watermark: int | None
    earliest_open: int | None


Mark = int | None | SessionMark
"""A watermark in the unit of its time column, None while undefined."""


@dataclass(frozen=True)
class Identity:
    """The input's own watermark: its column, through filters and projections."""

    input: int = 0

    def at(self, *marks: Mark) -> int | None:
        """This column's watermark when those of the inputs are `marks`; None (undefined) gives None."""
        mark = marks[self.input]
        return mark.watermark if isinstance(mark, SessionMark) else mark

    def describe(self, kind: TimeKind | None = None, inputs: Sequence[str] = ()) -> str:
        """Readable text; with `kind`, lengths are intervals instead of ticks; with more than one of `inputs`,
        watermarks are named after them."""
        return f"watermark({inputs[self.input]})" if len(inputs) > 1 else "watermark"


@dataclass(frozen=True)
class EarliestOpen:
    """window_start of a view of sessions (D3): the smaller of its frontier and the start of its earliest open one."""

    input: int = 0

    def at(self, *marks: Mark) -> int | None:
        """This column's watermark when those of the inputs are `marks`; None (undefined) gives None."""
        mark = marks[self.input]
        if not isinstance(mark, SessionMark):
            return mark
        if mark.watermark is None or mark.earliest_open is None:
            return mark.watermark
        return min(mark.watermark, mark.earliest_open)

    def describe(self, kind: TimeKind | None = None, inputs: Sequence[str] = ()) -> str:
        """Readable text."""
        of = f" of {inputs[self.input]}" if len(inputs) > 1 else ""
        return f"least(watermark{of}, earliest open session{of})"


@dataclass(frozen=True)
class Shift:
    """`of` + a constant, in ticks of the column's kind (negative: minus)."""

    of: Derived
    ticks: int

    def at(self, *marks: Mark) -> int | None:
        """This column's watermark when those of the inputs are `marks`; None (undefined) gives None."""
        inner = self.of.at(*marks)
        return None if inner is None else inner + self.ticks

    def describe(self, kind: TimeKind | None = None, inputs: Sequence[str] = ()) -> str:
        """Readable text; with `kind`, lengths are written as intervals instead of ticks."""
        sign = "-" if self.ticks < 0 else "+"
        length = str(abs(self.ticks)) if kind is None else kind.format_duration(abs(self.ticks))
        return f"{self.of.describe(kind, inputs)} {sign} {length}"


@dataclass(frozen=True)
class Least:
    """The smallest of several, once all are defined (D2: UNION ALL and joins)."""

    of: tuple[Derived, ...]

    def at(self, *marks: Mark) -> int | None:
        """This column's watermark when those of the inputs are `marks`; None while any of them is undefined."""
        values = [derived.at(*marks) for derived in self.of]
        return None if None in values else min(v for v in values if v is not None)

    def describe(self, kind: TimeKind | None = None, inputs: Sequence[str] = ()) -> str:
        """Readable text."""
        return f"least({', '.join(d.describe(kind, inputs) for d in self.of)})"


@dataclass(frozen=True)
class WindowStart:
    """window_start of a window over `of`: the start of the earliest window still open."""

    of: Derived
    window: Window

    def at(self, *marks: Mark) -> int | None:
        """This column's watermark when those of the inputs are `marks`; None (undefined) gives None."""
        inner = self.of.at(*marks)
        return None if inner is None else self.window.watermark_start(inner)

    def describe(self, kind: TimeKind | None = None, inputs: Sequence[str] = ()) -> str:
        """Readable text; with `kind`, lengths are written as intervals instead of ticks."""
        return _window_call("start", self.of, self.window, kind, inputs)


@dataclass(frozen=True)
class WindowEnd:
    """window_end of a window over `of`: the end of the earliest window still open."""

    of: Derived
    window: Window

    def at(self, *marks: Mark) -> int | None:
        """This column's watermark when those of the inputs are `marks`; None (undefined) gives None."""
        inner = self.of.at(*marks)
        return None if inner is None else self.window.watermark_end(inner)

    def describe(self, kind: TimeKind | None = None, inputs: Sequence[str] = ()) -> str:
        """Readable text; with `kind`, lengths are written as intervals instead of ticks."""
        return _window_call("end", self.of, self.window, kind, inputs)


@dataclass(frozen=True)
class Truncated:
    """`date_trunc(unit, of)`: the start of the unit that `of` is in. `window`: that unit as windows side by side."""

    of: Derived
    unit: str
    window: Window

    def at(self, *marks: Mark) -> int | None:
        """This column's watermark when those of the inputs are `marks`; None (undefined) gives None."""
        inner = self.of.at(*marks)
        return None if inner is None else self.window.watermark_start(inner)

    def describe(self, kind: TimeKind | None = None, inputs: Sequence[str] = ()) -> str:
        """Readable text."""
        return f"date_trunc({self.unit}, {self.of.describe(kind, inputs)})"


@dataclass(frozen=True)
class Extracted:
    """EXTRACT of `epoch` (whole seconds) or `year`, the parts that keep order (D1), of a time of `kind`: an integer."""

    of: Derived
    part: str
    kind: TimeKind

    def at(self, *marks: Mark) -> int | None:
        """This column's watermark when those of the inputs are `marks`; None (undefined) gives None."""
        inner = self.of.at(*marks)
        if inner is None:
            return None
        micros = inner * DAY_MICROS if self.kind is TimeKind.DATE else inner
        if self.part == "epoch":
            return micros // 1_000_000
        # Not Python's dates, which end at the year 9999.
        return int(np.datetime64(micros, "us").astype("datetime64[Y]").astype(np.int64)) + 1970

    def describe(self, kind: TimeKind | None = None, inputs: Sequence[str] = ()) -> str:
        """Readable text."""
        return f"{self.part}({self.of.describe(self.kind, inputs)})"


Derived = Identity | EarliestOpen | Shift | Least | WindowStart | WindowEnd | Truncated | Extracted


def shift(derived: Derived, ticks: int) -> Derived:
    """`derived` + a constant, in as few words as can be."""
    if isinstance(derived, Shift):
        ticks, derived = derived.ticks + ticks, derived.of
    return Shift(derived, ticks) if ticks else derived


def least(*found: Derived) -> Derived:
    """The smallest of several (D2), each said once: of those that only a constant keeps apart, the smaller one."""
    lowest: dict[Derived, int] = {}
    for derived in found:
        for part in derived.of if isinstance(derived, Least) else (derived,):
            of, ticks = (part.of, part.ticks) if isinstance(part, Shift) else (part, 0)
            lowest[of] = min(ticks, lowest.get(of, ticks))
    several = tuple(shift(of, ticks) for of, ticks in lowest.items())
    return several[0] if len(several) == 1 else Least(several)


def substitute(derived: Derived, marks: Mapping[int, Derived]) -> Derived:
    """The same derivation with other marks in the place of inputs: `marks` by the number of the input."""
    match derived:
        case Identity():
            return marks.get(derived.input, derived)
        case EarliestOpen():
            found = marks.get(derived.input, Identity(derived.input))
            if isinstance(found, Identity):
                return replace(derived, input=found.input)
            return least(derived, found)
        case Least():
            return least(*(substitute(d, marks) for d in derived.of))
    return replace(derived, of=substitute(derived.of, marks))


def _window_call(side: str, of: Derived, window: Window, kind: TimeKind | None, inputs: Sequence[str]) -> str:
    arguments = [of.describe(kind, inputs), *window.lengths(kind)]
    return f"{window.function.lower()}_{side}({', '.join(arguments)})"
