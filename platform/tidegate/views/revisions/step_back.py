"""A view's step back behind an input whose watermark was reset (W9): how far it goes, and what its commit says.

The step is a fenced commit of its own, on record for the view's readers; it removes nothing. What was emitted
beyond the new frontier stays until it closes again (`reclose.py`).
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tidegate.errors import TidegateError
from tidegate.iceberg.layout import ticks_of
from tidegate.iceberg.protocol import ABSORBED
from tidegate.plan.gaps import RETAINED_FROM
from tidegate.plan.resets import BEYOND, RESETS, Beyond, followed, with_step
from tidegate.views.inputs import Pinned, pending
from tidegate.views.revisions.comparable import comparable_since
from tidegate.views.slices import read, run_sql
from tidegate.watermark import window_is_closed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tidegate.runtime.context import Context
    from tidegate.sql.catalog.objects import View


@dataclass(frozen=True)
class Back:
    """Where a view goes back to: `frontier`, ticks, not below `target`, what D derives from the reset (W9).
    `stays`: why what ended up to `frontier` stays as it is, if that is above the target; math.inf: the view can't
    go back."""

    target: int
    frontier: float
    stays: list[str] = field(default_factory=list)

    @property
    def is_possible(self) -> bool:
        return self.frontier != math.inf


def effective_frontier(view: View, own: Mapping[str, str], pinned: Sequence[Pinned]) -> int | None:
    """Up to where the view's rows are final: what its last commit says, or where its inputs' resets take it, which its
    next tick will record."""
    frontier = own.get("tidegate.frontier")
    target = pending(view, own, pinned)
    return target if target is not None else None if frontier is None else int(frontier)


def back(context: Context, view: View, stored: str, pinned: Sequence[Pinned], target: int) -> Back:
    """How far the view can go back: windows that need rows which are beyond their retention, or were cleaned up,
    stay as they are."""
    notes: list[str] = []
    lowest = _whole_since(context, view, stored, pinned, target, notes)
    if lowest is None or lowest <= target:
        return Back(target, target)
    return Back(target, lowest, notes)


def refused(view: View, found: Back) -> TidegateError:
    """TG543: the error of a view that can't go back."""
    return TidegateError(
        "TG543",
        (
            f'"{view.name}" can\'t go back to {view.kind.format(found.target)} after the reset '
            "of the watermark: "
        )
        + "; ".join(found.stays),
        hint=f"its results are kept; to continue, DROP MATERIALIZED VIEW {view.name} and create it again",
        location=view.location,
    )


def facts(
    view: View,
    own: Mapping[str, str],
    pinned: Sequence[Pinned],
    frontier: int,
    opened: int | None,
    stale: tuple[int, int] | None,
) -> dict[str, str]:
    """The summary of the commit. `opened`: where the earliest session begins that is open at `frontier`; `stale`: of
    what is emitted beyond it, the first tick and the last that `Beyond` is about."""
    summary = {k: v for k, v in own.items() if k.startswith("tidegate.")}
    summary |= {"tidegate.frontier": str(frontier), RESETS: with_step(own, frontier, opened)}
    summary |= followed({p.input.name: p.snapshot.summary for p in pinned})
    summary.pop("tidegate.earliest-open", None)
    if opened is not None:
        summary["tidegate.earliest-open"] = str(opened)
    if stale is not None:
        before = Beyond.of(own)
        start = frontier if before is None else min(before.start, frontier)
        summary[BEYOND] = Beyond(start, *stale).to_text()
    absorbed = json.loads(own.get(ABSORBED) or "null")
    if absorbed is not None and absorbed["frontier"] > frontier:
        # The next amendment finds the late rows of what closes again.
        summary[ABSORBED] = json.dumps(absorbed | {"frontier": frontier}, sort_keys=True)
    return summary


def emitted_beyond(rows: DataFrame, view: View, frontier: int) -> DataFrame:
    """Of a view's stored `rows` those that were final and end after `frontier`."""
    from pyspark.sql import functions as F

    bound = F.expr(view.kind.spark_literal(frontier))
    return rows.where(~F.col("_open") & ~window_is_closed(F.col("_window_end"), bound))


def extent(stale: DataFrame, view: View) -> tuple[int, int] | None:
    """The first tick and the last that `Beyond` is about; None if there is no row."""
    from pyspark.sql import functions as F

    begins = view.over is not None or view.open_sql is not None
    first = ticks_of("_window_start", view.kind) + 1 if begins else ticks_of("_window_end", view.kind)
    last = ticks_of("_window_end", view.kind)
    row = stale.agg(F.min(first).alias("first"), F.max(last).alias("last")).first()
    return None if row is None or row["last"] is None else (row["first"], row["last"])


def _whole_since(
    context: Context, view: View, stored: str, pinned: Sequence[Pinned], target: int, notes: list[str]
) -> float | None:
    """The lowest frontier, `target` or above, behind which every window's rows are there; None: any."""
    if view.open_sql is None:
        return comparable_since(context, view, stored, pinned, notes)
    edges = [p.snapshot.integer(RETAINED_FROM) for p in pinned if not p.input.lookup]
    edge = max((e for e in edges if e is not None), default=None)
    if edge is None:
        return comparable_since(context, view, stored, pinned, notes)
    own = context.tables.open(stored).property(RETAINED_FROM)
    bounds = [] if own is None else [int(own) - 1]
    # A session may have begun before the edge unless its first row is at least the gap behind it.
    found = _sessions(context, view, pinned)
    gap = found.selectExpr("min(to - from)").first()
    cut = None if gap is None or gap[0] is None else found.where(f"from < {edge + gap[0]}L")
    last = None if cut is None else cut.selectExpr("max(to)").first()
    if last is not None and last[0] is not None:
        bounds.append(last[0])
    if not bounds:
        return None
    notes.append(
        f"sessions up to {view.kind.format(max(bounds))} may need rows that are beyond their retention"
    )
    return max(bounds)


def _sessions(context: Context, view: View, pinned: Sequence[Pinned]) -> DataFrame:
    """`from`, `to`: the bounds in ticks of every session over the rows that are there."""
    assert view.open_sql is not None
    rows = read(context, view, pinned)
    found = run_sql(context.spark, view, view.open_sql, rows)
    bounds = (
        ticks_of(name, view.kind).alias(alias)
        for name, alias in (("_window_start", "from"), ("_window_end", "to"))
    )
    return found.select(*bounds)
