"""What an audit can't know yet (A1): up to where the inputs of a view have closed what the view's rows follow from.

The clock by which a view emits follows from the derivations (D1-D3). An audit that asked this clock alone would repeat
its mistakes; so it also asks the reach of every input: which times may still come there, and how far those are from
the times of the result.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidegate.sql.catalog.objects import View
from tidegate.views.inputs import clock_of
from tidegate.watermark import Identity, TimeKind, WindowEnd, WindowStart, window_is_closed

if TYPE_CHECKING:
    from pyspark.sql import Column

    from tidegate.views.inputs import Pinned


@dataclass(frozen=True)
class Known:
    """Of a view's rows, in ticks (None: before all times). A row that ends after `until` may still be changed by an
    input, for all that the audit can tell; one that ends after `final` should not have been emitted. `notes`: which
    inputs hold `until` back."""

    kind: TimeKind
    until: int | None
    final: int | None
    notes: list[str]

    def knows(self, window_end: Column) -> Column:
        """Whether no input can change a row any more."""
        return self._within(window_end, self.until)

    def is_early(self, window_end: Column) -> Column:
        """Whether a row that was emitted is one that an input has not closed."""
        return ~self._within(window_end, self.final)

    def _within(self, window_end: Column, bound: int | None) -> Column:
        from pyspark.sql import functions as F

        literal = None if bound is None else F.expr(self.kind.spark_literal(bound))
        return F.coalesce(window_is_closed(window_end, literal), F.lit(False))


def known(view: View, pinned: Sequence[Pinned]) -> Known:
    """Of a view whose rows become final, by its inputs as they are pinned."""
    until = final = clock = clock_of(view, pinned)
    bounds: list[tuple[Pinned, int | None]] = []
    for one in pinned:
        if one.input.high is None or one.kind is None or not one.kind.same_ticks(view.kind):
            continue
        first = first_to_come(one)
        bound = None if first is None else first - one.input.high
        bounds.append((one, bound))
        until = _least(until, bound)
        if one.input.low == one.input.high:
            # Exactly so far from the result's time are the input's rows: this is no estimate.
            final = _least(final, bound)
    several = until != clock or len(bounds) > 1 or any(isinstance(p.source, View) for p in pinned)
    holding = {one.input.name: one for one, bound in bounds if several and bound == until}
    return Known(view.kind, until, final, [_said(view, one, until) for one in holding.values()])


def first_to_come(one: Pinned) -> int | None:
    """The smallest time that a row of an input may have which is not there yet: `_window_end` of a view, the watermark
    column of a relation; None: any."""
    if not isinstance(one.source, View):
        return one.snapshot.integer("tidegate.watermark")
    frontier = one.snapshot.integer("tidegate.frontier")
    if frontier is None:
        return None
    # Windows of one length end at some instants only.
    ends = [frontier + 1]
    for column in one.source.watermarks:
        derived, low = column.derived, column.low
        if isinstance(derived, WindowStart | WindowEnd) and derived.of == Identity() and low == column.high:
            end = derived.at(frontier)
            if end is not None and low is not None:
                ends.append(end + low)
    return max(ends)


def _least(a: int | None, b: int | None) -> int | None:
    return None if a is None or b is None else min(a, b)


def _said(view: View, one: Pinned, until: int | None) -> str:
    if until is None:
        return f"nothing can be known yet: {one.input.name} has not closed anything"
    stands = (
        one.kind.format(first)
        if one.kind is not None and (first := first_to_come(one)) is not None
        else "none"
    )
    what = "windows" if isinstance(one.source, View) else "rows"
    return (
        f"not known yet: rows that end after {view.kind.format(until)}, because {what} of "
        f"{one.input.name} may still arrive from {stands} on"
    )
