"""The windows of a view that held erased rows, and that keep their counts and sums (E9).

Nobody can compute such a window again: its rows are gone. So it is marked: audits count the erased rows by the marks,
and neither audits nor backfills nor amendments compare its values. The marks are a small file beside the view's data,
which the table's properties name; they have numbers, and nothing of the rows.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable
from dataclasses import astuple, dataclass, fields
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from tidegate.iceberg.table_change import TableChange
from tidegate.plan.versions import MARKS
from tidegate.project.object_store import make_folder
from tidegate.sql.dialect.inner_names import inner
from tidegate.tasks.parquet.row_groups import open_file
from tidegate.watermark import TimeKind

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from tidegate.iceberg.protocol import Snapshot
    from tidegate.iceberg.tables import StoredTable
    from tidegate.plan.versions import KeptVersion
    from tidegate.runtime.context import Context
    from tidegate.sql.catalog.objects import View

#: Beside the bounds of a marked window: how many rows of it were erased.
ERASED = inner("erased")
FOLDER = "erased"


@dataclass(frozen=True)
class MarkedWindow:
    """Erased rows of one window, whose bounds are ticks. `erasure`: the id of the erasure, and behind a `/` how much of
    it had been done before: one that was interrupted may find rows that came since."""

    erasure: str
    start: int
    end: int
    on_time: int
    late: int
    rejected: int

    def of(self, erasure: str) -> bool:
        """Whether it is of the erasure with this id."""
        return self.erasure.partition("/")[0] == erasure


def marked(context: Context, table: StoredTable) -> list[MarkedWindow]:
    """The marks of a view's results, as of the last `current()`; of earlier results (R4) none."""
    return _marked(context, table, table.property(MARKS), table.uuid)


def _marked(context: Context, table: StoredTable, text: str | None, life: str) -> list[MarkedWindow]:
    """The marks that a property names, if they are of the results that have this life."""
    facts = json.loads(text or "{}")
    if facts.get("of") != life:
        return []
    filesystem, path = context.project.storage.filesystem(f"{table.location}/{FOLDER}/{facts['file']}")
    with open_file(filesystem, path) as file:
        rows = file.read(use_threads=False).to_pylist()
    return [MarkedWindow(*(row[f.name] for f in fields(MarkedWindow))) for row in rows]


def mark(context: Context, table: StoredTable, base: Snapshot, windows: Iterable[MarkedWindow]) -> None:
    """Have these marks and no others, in a commit of their own, which says what `base` said. (What had marks before may
    be read just now: a file that no property names any more is small, and has nothing of anybody.) Raises TG502 if
    another process has committed to the table since `base`: more windows may be closed then."""
    marks = json.dumps({"of": table.uuid, "file": _written(context, table, windows)})
    # (A commit of other marks says what the one before it said, too.)
    change = TableChange(properties={MARKS: marks}, expected={MARKS: table.property(MARKS)})
    table.append([], None, base.facts, base, change=change)


def marks_of_past(
    context: Context,
    table: StoredTable,
    number: int,
    upto: int,
    after: int | None = None,
    continued: KeptVersion | None = None,
) -> dict[str, str]:
    """What version `number` of a view says of its windows, if it keeps those of the current one that end up to there
    (ticks); beside those of a version that is `continued`, those that end after this one's frontier."""
    kept = [one for one in marked(context, table) if one.end <= upto and (after is None or one.end > after)]
    if continued is not None:
        kept += _marked(context, table, continued.definition.get(MARKS), _life_of(continued, table))
    base, _, _ = table.uuid.partition("/")
    facts = {"of": f"{base}/{number}", "file": _written(context, table, kept)} if kept else {}
    return {MARKS: json.dumps(facts)} if facts else {}


def _written(context: Context, table: StoredTable, windows: Iterable[MarkedWindow]) -> str:
    """The name of a new file with these marks."""
    filesystem, folder = context.project.storage.filesystem(f"{table.location}/{FOLDER}")
    make_folder(filesystem, folder)
    name = f"windows-{uuid.uuid4().hex}.parquet"
    kinds = {f.name: pa.string() if f.name == "erasure" else pa.int64() for f in fields(MarkedWindow)}
    columns = list(zip(*map(astuple, windows), strict=True)) or [()] * len(kinds)
    rows = pa.table([pa.array(c, k) for c, k in zip(columns, kinds.values(), strict=True)], names=list(kinds))
    pq.write_table(rows, f"{folder}/{name}", filesystem=filesystem)
    return name


def marks_of_continued(kept: KeptVersion, table: StoredTable, number: int) -> dict[str, str]:
    """What version `number` of a view says of its windows, if it continues a kept one: the rows of the windows that are
    marked there are here, and in no log."""
    facts = json.loads(kept.definition.get(MARKS) or "{}")
    if facts.get("of") != _life_of(kept, table):
        return {}
    base, _, _ = table.uuid.partition("/")
    return {MARKS: json.dumps({**facts, "of": f"{base}/{number}"})}


def _life_of(kept: KeptVersion, table: StoredTable) -> str:
    """The life that an earlier version of a table has had."""
    base, _, _ = table.uuid.partition("/")
    return base if kept.number == 1 else f"{base}/{kept.number}"


def marked_windows(context: Context, view: View, table: StoredTable) -> DataFrame | None:
    """The bounds of the marked windows, each once, with `ERASED`; None if there are none."""
    from pyspark.sql import functions as F

    found = marked(context, table)
    if not found:
        return None
    rows = [(one.start, one.end, one.on_time + one.late + one.rejected) for one in found]
    frame = context.spark.createDataFrame(rows, "s bigint, e bigint, n bigint")
    sums = frame.groupBy("s", "e").agg(F.sum("n").alias(ERASED))
    bounds = [_time("s", view.kind).alias("_window_start"), _time("e", view.kind).alias("_window_end")]
    return sums.select(*bounds, ERASED)


def _time(column: str, kind: TimeKind) -> Column:
    """Ticks as a time."""
    from pyspark.sql import functions as F

    ticks = F.col(column)
    if kind is TimeKind.DATE:
        return F.date_from_unix_date(ticks.cast("int"))
    if kind is TimeKind.EPOCH:
        return ticks
    # The session's zone is UTC, so the wall time is that of UTC.
    time = F.timestamp_micros(ticks)
    return time if kind is TimeKind.TIMESTAMPTZ else time.cast("timestamp_ntz")
