"""The rows of a view that come from erased rows: results, open windows, revisions and tombstones (E9).

A condition on columns that the view shows as they are finds them, and no other row of the view follows from erased rows
(`passed_columns.py`). So what is left is what the view's query gives over the rows that are left, and audits and
backfills find no difference.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidegate.iceberg.layout import ticks_of
from tidegate.iceberg.retire import OUTCOMES
from tidegate.maintenance.erase_files import GOES, write_without
from tidegate.views.definition import same_view
from tidegate.views.resolve import pin
from tidegate.views.revisions.erased_windows import MarkedWindow, mark, marked
from tidegate.views.revisions.step_back import effective_frontier
from tidegate.views.windows import assign_windows
from tidegate.watermark import TimeKind, window_is_closed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tidegate.maintenance.erase_log import LogErasure
    from tidegate.maintenance.erase_reach import ReachedView
    from tidegate.maintenance.erasing import Erasing
    from tidegate.runtime.context import Context
    from tidegate.sql.catalog.objects import View
    from tidegate.sql.statements.row_condition import RowsCondition


def mark_windows(context: Context, view: View, log: LogErasure, erasing: Erasing, recorded: int) -> None:
    """Mark the closed windows of a view that counts and sums rows of a log, and that hold rows of it which go: it keeps
    them as they are. `recorded`: how many entries of this erasure the log's record has. What was marked since the last
    of them is of rows that are still there, and is marked anew. The view's lease is held. Raises TG502 if the view has
    a newer commit than the one that was looked at, of which more windows may be closed."""
    stored = context.stored(view.name)
    assert stored is not None
    table = context.tables.open(stored, context.project.owner)
    base, part = same_view(context, view, table), f"{erasing.id}/{recorded}"
    frontier = effective_frontier(view, base.summary, pin(context, view))
    found = [] if frontier is None else _closed_windows(view, log, frontier, part)
    before = [one for one in marked(context, table) if one.erasure != part]
    # (Also without one: the commit tells that nothing newer is there.)
    mark(context, table, base, [*before, *found])


def _closed_windows(view: View, log: LogErasure, frontier: int, part: str) -> list[MarkedWindow]:
    from pyspark.sql import functions as F

    assert view.accounts is not None
    placed = assign_windows(log.going(view.accounts.time_column), view.accounts, view.kind)
    end = F.col("_window_end")
    closed = placed.where(window_is_closed(end, F.expr(view.kind.spark_literal(frontier))))
    bounds = [
        ticks_of(name, view.kind).alias(short)
        for name, short in (("_window_start", "s"), ("_window_end", "e"))
    ]
    counts = [F.count_if(F.col("_outcome") == outcome).alias(outcome) for outcome in OUTCOMES]
    # Bounded: the windows of the rows of one person.
    found = closed.select(*bounds, "_outcome").groupBy("s", "e").agg(*counts).collect()
    return [MarkedWindow(part, *row) for row in found]


class ViewErasure:
    """Works on a view's table as of its last commit, which is `base`; whoever changes it holds the view's lease.
    `condition`: on the view's columns. Raises TG506 for results of another definition: their columns may be others."""

    def __init__(self, context: Context, reached: ReachedView, condition: RowsCondition) -> None:
        self._context, self._view, self._condition = context, reached.view, condition
        self.table = context.tables.open(reached.stored, context.project.owner)
        self.base = same_view(context, reached.view, self.table)

    def find(self) -> dict[str, int]:
        """By file, how many of its rows go. Nothing is changed; what comes back is bounded by the view's files."""
        from pyspark.sql import functions as F

        if self.base.id is None:
            return {}
        # Bounded: by the files of the view.
        found = self._rows().where(F.col(GOES)).groupBy("_file").count().collect()
        return {row[0]: row[1] for row in found}

    def _rows(self) -> DataFrame:
        from pyspark.sql import functions as F

        rows = self._context.tables.rows(self.table.identifier, self.base.id, with_file=True)
        return rows.withColumn(GOES, F.coalesce(F.expr(self._condition.sql), F.lit(False)))

    def remove(self, found: dict[str, int]) -> int:
        """Replace the files in one commit; how many there were. Raises TG502 as `write_without`."""
        if not found:
            return 0
        day = None if self._view.kind is TimeKind.EPOCH else "_window_end"
        storage = self._context.project.storage
        target = self.table.target(storage, "_open", day, ("_window_end", "_tick"))
        rows, gone = self._rows(), sum(found.values())
        removed, self.base = write_without(
            self._context, self.table, self.base, rows, sorted(found), gone, target, {}
        )
        return removed
