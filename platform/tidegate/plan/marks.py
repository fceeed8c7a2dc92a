"""The watermark of a column after a stage of a plan, and what it is now where that is known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tidegate.sql.catalog.objects import Object, View
from tidegate.watermark import (
    Derived,
    EarliestOpen,
    Extracted,
    Identity,
    Least,
    Mark,
    TimeKind,
)

#: How far sources, tables and views are, by name: a watermark, or a view's frontier.
Marks = Mapping[str, Mark]


@dataclass(frozen=True)
class ColumnWatermark:
    """A column that carries a watermark after a stage, and how it follows from the marks of `inputs` (D1-D3): names, in
    the order in which the query reads them."""

    column: str
    derived: Derived
    kind: TimeKind
    inputs: tuple[str, ...]

    def text(self) -> str:
        """`watermark - 1 hour`, `tumble_end(watermark, 1 hour)`, `least(watermark(a), watermark(b))`."""
        return self.derived.describe(self.kind, self.inputs)

    def at(self, marks: Marks) -> str:
        """Its value with these marks (`none yet` where one that it needs is not there)."""
        return self.kind.format(self.derived.at(*[marks.get(name) for name in self.inputs]))


def kind_of(found: Object) -> TimeKind | None:
    """What the mark of a source, table or view counts in; None if it never has one."""
    if isinstance(found, View):
        return found.kind if found.clock is not None else None
    return found.watermark.kind if found.watermark is not None else None


def derived_kind(derived: Derived, kinds: Sequence[TimeKind | None]) -> TimeKind:
    """What a derived watermark counts in, when those of the inputs count in `kinds`."""
    match derived:
        case Extracted():
            return TimeKind.EPOCH
        case Identity() | EarliestOpen():
            kind = kinds[derived.input]
            assert kind is not None, "an input without a watermark has none to derive from"
            return kind
        case Least():
            return derived_kind(derived.of[0], kinds)
    return derived_kind(derived.of, kinds)
