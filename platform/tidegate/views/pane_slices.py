"""A slice of a view that is nothing but windows (`View.pane_windows`), computed in tasks that read the
log's files themselves.

The same rows, the same boundaries and the same results as the view's SQL gives (`slices.py`), which still answers for
backfills, amendments and audits, and wherever a file or a number is not plain.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from tidegate.jvm.spark import cores
from tidegate.tasks.numbers import Numbers
from tidegate.tasks.pane_parts import by_position, key_names, pane_schema
from tidegate.tasks.panes import UNREAD, Both, LogFile, PaneTask, WindowTask
from tidegate.tasks.transfer import map_in_arrow
from tidegate.tasks.writer import WriteTarget, run_task
from tidegate.watermark import Sessions

if TYPE_CHECKING:
    from tidegate.iceberg.tables import Tables
    from tidegate.project import Storage
    from tidegate.views.inputs import Pinned
    from tidegate.watermark import PaneWindows

#: So many rows are one task's: to exchange their panes would cost more.
_ROWS_PER_TASK = 2_000_000


@dataclass(frozen=True)
class Slice:
    """What was written (`FileWriter.close`), and where the first session begins that is still open (D3)."""

    files: list[dict[str, Any]]
    open_since: int | None = None


def compute(
    tables: Tables,
    storage: Storage,
    pinned: Pinned,
    bounds: tuple[int | None, int | None],
    windows: WindowTask,
) -> Slice | None:
    """A view's results over the rows of `pinned` between `bounds` (ticks; None: no bound); None if they have to be
    computed by SQL."""
    from pyspark.sql.pandas.types import from_arrow_schema

    if pinned.table is None or pinned.snapshot.id is None:
        return Slice([])
    bounds = _narrowed(windows, *bounds)
    files = _files(tables, storage, pinned, windows.pane_windows, bounds)
    if files is None:
        return None
    filesystem, schema, found = files
    if not found:
        return Slice([])
    at_once = cores(tables.spark)
    tasks = dealt(found, min(at_once, max(1, sum(f.rows for f in found) // _ROWS_PER_TASK)))
    panes = PaneTask(filesystem, schema, windows.pane_windows, tasks, *bounds)
    work = Numbers(tables.spark, len(tasks))
    if len(tasks) == 1:
        reports = run_task(work, Both(panes, windows))
    else:
        pane_windows, _ = by_position(windows.pane_windows)
        schema = from_arrow_schema(pane_schema(pane_windows), prefer_timestamp_ntz=True)
        frame = map_in_arrow(work.frame, panes, schema)
        keys = key_names(pane_windows)
        # Panes of several slides make a window, several sessions one: without keys they are few, and one task's.
        apart = frame.repartition(*[f"`{k}`" for k in keys]) if keys else frame.repartition(1)
        reports = run_task(apart, windows)
    if UNREAD in reports:
        return None
    since = [report["open_since"] for report in reports if report["open_since"] is not None]
    return Slice([file for report in reports for file in report["files"]], min(since, default=None))


def _narrowed(windows: WindowTask, low: int | None, high: int | None) -> tuple[int | None, int | None]:
    """The bounds of rows, drawn to those of the windows that are computed: the first that is still open at the
    frontier, and the last that is final. Where a session ends, its rows say."""
    window = windows.pane_windows.window
    if isinstance(window, Sessions):
        return low, high
    if windows.frontier is not None:
        start = window.watermark_start(windows.frontier)
        low = start if low is None else max(low, start)
    if windows.only_closed and windows.reached is not None:
        end = window.end(window.watermark_start(windows.reached) - window.slide)
        high = end if high is None else min(high, end)
    return low, high


def dealt(files: Sequence[LogFile], tasks: int) -> tuple[tuple[LogFile, ...], ...]:
    """The files in their order, cut into runs of about as many rows: files of one commit are of about the same time, so
    that a pane is in few tasks."""
    total = sum(file.rows for file in files)
    found: list[list[LogFile]] = [[] for _ in range(tasks)]
    seen = 0
    for file in files:
        found[min(seen * tasks // max(total, 1), tasks - 1)].append(file)
        seen += file.rows
    return tuple(tuple(run) for run in found if run)


def _files(
    tables: Tables,
    storage: Storage,
    pinned: Pinned,
    pane_windows: PaneWindows,
    bounds: tuple[int | None, int | None],
) -> tuple[Any, Any, list[LogFile]] | None:
    """The file system, the log's columns, and the files that may hold such rows; None if one can't be read as it is."""
    assert pinned.table is not None
    assert pinned.snapshot.id is not None
    table, column = pinned.opened or tables.open(pinned.table), pane_windows.time_column
    target: WriteTarget = table.target(storage, reading=True)
    # Only to skip files: the tasks look at every row.
    files = table.files(pinned.snapshot.id, column, target.field_id(column), *bounds)
    if files is None or not all(file["path"].startswith(f"{target.data_uri}/") for file in files):
        return None
    found = [
        LogFile(target.data_path + f["path"].removeprefix(target.data_uri), _wanted(f, *bounds))
        for f in files
    ]
    return target.filesystem, _as_seen(target.schema, pinned), found


def _as_seen(schema: pa.Schema, pinned: Pinned) -> pa.Schema:
    """The log's columns by the names that the view has for them, each with its id."""
    if pinned.called is None:
        return schema
    names = {now: name for name, now in pinned.called.items()}
    return pa.schema([field.with_name(names[field.name]) for field in schema if field.name in names])


def _wanted(file: dict[str, Any], low: int | None, high: int | None) -> int:
    """About how many rows of a file are between the bounds, if they are spread evenly over its time."""
    least, greatest = file["least"], file["greatest"]
    rows: int = file["rows"]
    if least is None or greatest is None:
        return rows
    first = least if low is None else max(least, low)
    last = greatest if high is None else min(greatest, high - 1)
    return max(1, int(rows * (last - first + 1) // (greatest - least + 1)))
