"""Which ticks Spark had better interpret: those of few rows.

The bounds of a tick are literals of its queries (by them Iceberg skips files), so Spark compiles the queries of each
tick that its SQL computes, once for the driver and once for the tasks: about 0.1 s of CPU. To interpret them costs as
much with some hundred thousand rows. So rows are estimated from above, without reading any, and where that is not
possible at a low price, the queries are compiled.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from math import inf, prod
from typing import TYPE_CHECKING

from tidegate.iceberg.planned import KEPT_FILES
from tidegate.jvm.within import settings
from tidegate.sql.catalog.objects import Relation
from tidegate.sql.statements.queries import GENERATORS
from tidegate.sql.views.window_sql import MOST_EXPANDED
from tidegate.watermark import Hop, TimeKind, Tumble

if TYPE_CHECKING:
    from tidegate.runtime.context import Context
    from tidegate.sql.catalog.objects import View
    from tidegate.views.inputs import Cut, Pinned

#: So many rows are few, counted once for each window, and for each row that they may be joined with.
FEW_ROWS = 50_000
_INTERPRETED = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
#: One task for them behind each exchange: another one costs more than it takes off the first.
_TOGETHER = {"spark.sql.shuffle.partitions": "1"}


def interpreted_if_few(context: Context, view: View, cut: Cut) -> AbstractContextManager[None]:
    """While the block runs, Spark interprets queries instead of compiling them, and exchanges rows between as few tasks
    as possible, if those of this tick see few rows."""
    few = most_rows(context, view, cut) <= FEW_ROWS
    return settings(context.spark, _INTERPRETED | _TOGETHER if few else {})


def most_rows(context: Context, view: View, cut: Cut) -> float:
    """As many rows as a tick's queries see at most; infinite if that is not known at a low price."""
    text = str(view.query_sql if view.over is None else view.over.rows_sql).casefold()
    # What is emitted again is compared with the view's own rows.
    if cut.again or any(f"{name}(" in text for name in GENERATORS):
        return inf
    windows = 1
    if "window(" in text:
        window = None if view.accounts is None else view.accounts.window
        windows = window.size // window.slide if isinstance(window, Tumble | Hop) else MOST_EXPANDED
    carried = 0 if view.over is None else inf if cut.carried is None else cut.carried
    return windows * prod(max(1, _most_read(context, view, cut, entry)) for entry in cut.pinned) + carried


def _most_read(context: Context, view: View, cut: Cut, entry: Pinned) -> float:
    """How many rows the files of an input have that a cut reads; all files of one that is no log, or whose time does
    not have 64 bits."""
    if entry.table is None or entry.snapshot.id is None:
        return 0
    total, files = (
        float(entry.snapshot.summary.get(f"total-{what}", inf)) for what in ("records", "data-files")
    )
    low, high = entry.bounds(view, cut.start, cut.reached if view.emit_on_window_close else None)
    # (The snapshot of a table with a key is its state's, of which `opened`, its log, knows nothing.)
    is_log = isinstance(entry.source, Relation) and not entry.source.primary_key
    exact = entry.kind in (TimeKind.TIMESTAMP, TimeKind.TIMESTAMPTZ) and (low, high) != (None, None)
    # (Of more files, a listing would not be kept for the next tick.)
    if not (is_log and exact and entry.opened is not None and files <= KEPT_FILES):
        return total
    target = entry.opened.target(context.project.storage, reading=True)
    name = entry.input.time_column or ""
    column = name if entry.called is None else entry.called.get(name) or ""
    if column not in target.schema.names:
        return total
    found = entry.opened.files(entry.snapshot.id, column, target.field_id(column), low, high)
    return total if found is None else sum(file["rows"] for file in found)
