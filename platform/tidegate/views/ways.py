"""How the rows of a tick are computed: one port, three ways. The plan chooses (`plan.view_stages.way_of`).

Each way gets a cut, the rows of windows between two frontiers at a snapshot of each input, and gives the same rows:
tests/views/property/test_property_queries.py holds them against each other on random queries. Tasks that make panes of
the log's files cost the least; where a file or a number is not what they can read, the query answers. Backfills,
amendments and audits ask the query alone (`slices.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from tidegate.iceberg.layout import ticks_of
from tidegate.tasks.panes import WindowTask
from tidegate.views.few_rows import interpreted_if_few
from tidegate.views.over import evaluate as evaluate_over
from tidegate.views.pane_slices import compute
from tidegate.views.slices import evaluate, read, run_sql, with_bounds
from tidegate.watermark import window_is_closed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tidegate.plan.view_stages import Way
    from tidegate.runtime.context import Context
    from tidegate.sql.catalog.objects import View
    from tidegate.tasks.writer import WriteTarget
    from tidegate.views.inputs import Cut


@dataclass(frozen=True)
class Computed:
    """What a tick has computed: `files` that its tasks have written, or else `rows` that are still to be stored, with
    `_open`. `carried`: what the next tick's frames need of the rows so far. `open_since`: where the first session
    begins that stays open (D3). Let go of it by `close`."""

    files: list[dict[str, Any]] | None = None
    rows: DataFrame | None = None
    carried: DataFrame | None = None
    open_since: int | None = None
    close: Callable[[], None] = lambda: None


def computed(
    context: Context,
    view: View,
    way: Way,
    cut: Cut,
    target: WriteTarget,
    carried: Callable[[], DataFrame | None],
) -> Computed:
    """A cut, computed in this way. `target`: where tasks write; `carried`: what the tick before has carried."""
    if way == "panes":
        found = _by_panes(context, view, cut, target)
        if found is not None:
            return found
    with ExitStack() as stack:
        # Until the rows are stored, which is when Spark works.
        stack.enter_context(interpreted_if_few(context, view, cut))
        done = _by_frames(context, view, cut, carried()) if way == "frames" else _by_query(context, view, cut)
        stack.callback(done.close)
        return replace(done, close=stack.pop_all().close)


def earliest_open(context: Context, view: View, rows: Sequence[DataFrame], reached: int | None) -> int | None:
    """Where the earliest session starts that is still open, in ticks: rows before it are needed no more (D3)."""
    from pyspark.sql import functions as F

    if view.open_sql is None or reached is None:
        return None
    sessions = run_sql(context.spark, view, view.open_sql, rows)
    still_open = ~window_is_closed(F.col("_window_end"), F.expr(view.kind.spark_literal(reached)))
    found = sessions.where(still_open).agg(F.min(ticks_of("_window_start", view.kind))).first()
    return None if found is None else found[0]


def _rows(context: Context, view: View, cut: Cut) -> list[DataFrame]:
    return read(context, view, cut.pinned, cut.start, cut.reached if view.emit_on_window_close else None)


def _by_panes(context: Context, view: View, cut: Cut, target: WriteTarget) -> Computed | None:
    """By tasks that read the log's files; None where they can't."""
    assert view.pane_windows is not None
    emit = view.emit_on_window_close
    (entry,) = cut.pinned
    if entry.narrowed:
        return None  # its values are looked at first
    bounds = entry.bounds(view, cut.start, cut.reached if emit else None)
    windows = WindowTask(view.pane_windows, target, cut.frontier, cut.reached, emit, cut.number)
    found = compute(context.tables, context.project.storage, entry, bounds, windows)
    return None if found is None else Computed(found.files, open_since=found.open_since)


def _by_frames(context: Context, view: View, cut: Cut, carried: DataFrame | None) -> Computed:
    """The rows whose frames are complete (C5)."""
    assert view.over is not None
    arrived = run_sql(context.spark, view, view.over.rows_sql, _rows(context, view, cut))
    tick = evaluate_over(context.spark, view, arrived, carried, cut.frontier, cut.reached)
    return Computed(rows=with_bounds(tick.result, view), carried=tick.carried, close=tick.close)


def _by_query(context: Context, view: View, cut: Cut) -> Computed:
    """What becomes final, and what is open if the view shows that."""
    from pyspark.sql import functions as F

    rows, end = _rows(context, view, cut), F.col("_window_end")
    result, since = evaluate(context.spark, view, rows), earliest_open(context, view, rows, cut.reached)
    if cut.frontier is not None:
        beyond = ~window_is_closed(end, F.expr(view.kind.spark_literal(cut.frontier)))
        result = result.where(beyond if view.emit_on_window_close else beyond | end.isNull())
    if cut.reached is None or view.clock is None:
        return Computed(rows=result.withColumn("_open", F.lit(True)), open_since=since)
    closed = window_is_closed(end, F.expr(view.kind.spark_literal(cut.reached)))
    if view.emit_on_window_close:
        result = result.where(closed).withColumn("_open", F.lit(False))
    else:
        # Nobody knows when a row without a time would be final.
        result = result.withColumn("_open", F.coalesce(~closed, F.lit(True)))
    return Computed(rows=result, open_since=since)
