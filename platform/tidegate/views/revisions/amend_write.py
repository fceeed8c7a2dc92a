"""The files of an amendment: rows that stay, rows that were replaced, those that replace them, and what says so
(B2)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from tidegate.iceberg.differences import comparable
from tidegate.iceberg.layout import REVISION_TYPE, quote
from tidegate.iceberg.protocol import Snapshot
from tidegate.iceberg.retire import day_floor
from tidegate.iceberg.tables import with_columns
from tidegate.sql.dialect.inner_names import inner
from tidegate.tasks.writer import WriteTarget, WriteTask, run_task
from tidegate.views.revisions.amend_report import LATE_ROWS
from tidegate.views.revisions.revisions import (
    NUMBER,
    ROW,
    TOMBSTONE,
    UPTO,
    WINDOW,
    beside_units,
    has_revisions,
    units,
    with_units,
    without_units,
)
from tidegate.watermark import TimeKind
from tidegate.watermark.timekind import DAY_MICROS

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType

    from tidegate.iceberg.tables import StoredTable
    from tidegate.runtime.context import Context
    from tidegate.sql.catalog.objects import View

#: Of a row that a window holds now: the commit that it counts to, if that is not its window's.
OWN_TICK = inner("own_tick")
_PATH = inner("path")
_ABOUT = ("_tick", NUMBER, LATE_ROWS, UPTO)


class AmendmentWriter:
    """Writes one amendment, number `number` of a view, on top of the snapshot `base`."""

    def __init__(
        self, context: Context, view: View, table: StoredTable, base: Snapshot, number: int, at: datetime
    ) -> None:
        self._spark, self._view, self._table, self._base = context.spark, view, table, base
        self._number, self._at = number, at
        self._tables = context.tables
        table.current()
        day = None if view.kind is TimeKind.EPOCH else "_window_end"
        target = partial(table.target, context.project.storage, "_open", day, ("_window_end", "_tick"))
        self.target: WriteTarget = with_columns(self._tables, table, target, _missing)
        stored = {f.name: f.dataType for f in self._tables.rows(table.identifier).schema.fields}
        # Of the table as the catalog has it now, which may be that from before the first amendment.
        self._columns: dict[str, DataType | str] = {**stored, "_revision": REVISION_TYPE}

    def write(
        self, now: DataFrame, changed: DataFrame, low: int, high: int
    ) -> tuple[list[dict[str, Any]], list[Any], int]:
        """The new files, the files that they replace, and by how many rows the view grows. `now`: what hit windows
        should hold; `changed`: those windows, see `_Amendment._changed`, which end from `low` to `high`."""
        from pyspark.sql import functions as F

        view = self._view
        then = self._stored(low, high)
        # Bounded: the files of the days that are amended.
        paths = {row[0] for row in with_units(then, changed, view).select("_file").distinct().collect()}
        chosen = self._spark.createDataFrame([(path,) for path in sorted(paths)], f"{quote(_PATH)} string")
        then = then.join(F.broadcast(chosen), F.col("_file") == F.col(_PATH), "left_semi")
        kept = without_units(then, changed, view)
        gone = beside_units(then.drop("_tick"), changed, view, _ABOUT)
        came = beside_units(now, changed, view, _ABOUT)
        if OWN_TICK in came.columns:
            came = came.withColumn("_tick", F.coalesce(OWN_TICK, "_tick")).drop(OWN_TICK)
        came = self._ordered(came)
        was = F.coalesce(F.col("_revision"), self._mark(ROW, live=True))
        nobodys = F.lit(None).cast("boolean")
        frames = [
            kept,
            came.withColumns({"_open": F.lit(False), "_revision": self._mark(ROW)}),
            with_units(then, changed, view).withColumns({"_open": nobodys, "_revision": was}),
            self._tombstones(gone, came).withColumns(
                {"_open": nobodys, "_revision": self._mark(TOMBSTONE), "_rows": F.lit(0)}
            ),
            changed.withColumns({"_open": nobodys, "_revision": self._mark(WINDOW)}),
        ]
        whole = self._shaped(frames[0])
        for frame in frames[1:]:
            whole = whole.unionByName(self._shaped(frame))
        day = [] if view.kind is TimeKind.EPOCH else [F.to_date("_window_end")]
        whole = whole.repartition("_open", *day).sortWithinPartitions("_window_end")
        files = [file for task in run_task(whole, WriteTask(self.target)) for file in task]
        assert self._base.id is not None
        removed = self._table.files_named(paths, self._base.id, low, high)
        if len(removed) != len(paths):
            raise AssertionError(f"{self._table.identifier}: files of hit windows are not in its manifests")
        closed = sum(f["rows"] for f in files if f["split"] is False)
        return files, removed, closed - sum(file.recordCount() for file in removed)

    def _stored(self, low: int, high: int) -> DataFrame:
        """The closed rows of the days in which hit windows end, with the file of each."""
        from pyspark.sql import functions as F

        kind = self._view.kind
        rows = self._tables.rows(self._table.identifier, self._base.id, with_file=True)
        rows = rows.where(~F.col("_open"))
        if not has_revisions(rows):
            rows = rows.withColumn("_revision", F.lit(None).cast(REVISION_TYPE))
        if kind is TimeKind.EPOCH:
            return rows
        end, length = F.col("_window_end"), 1 if kind is TimeKind.DATE else DAY_MICROS
        first, last = day_floor(kind, low), day_floor(kind, high) + length
        literals = [F.expr(kind.spark_literal(mark)) for mark in (first, last)]
        return rows.where((end >= literals[0]) & (end < literals[1]))

    def _ordered(self, came: DataFrame) -> DataFrame:
        """C4: with the order of release inside each tick."""
        from pyspark.sql import functions as F

        if not self._view.order:
            return came
        came = came.orderBy("_window_end", *[quote(name) for name in self._view.order])
        return came.withColumn("_ordinal", F.monotonically_increasing_id())

    def _tombstones(self, gone: DataFrame, came: DataFrame) -> DataFrame:
        """One row for each group of the revision before that is not in this one; of a view without groups, for each
        row."""
        from pyspark.sql import functions as F

        view = self._view
        keys = [*units(view), *(view.group_columns or (() if view.over else (c.name for c in view.columns)))]
        keys = list(dict.fromkeys(keys))
        there = came.select(*[comparable(came, name).alias(inner(f"key{i}")) for i, name in enumerate(keys)])
        same = F.lit(True)
        for i, name in enumerate(keys):
            same = same & comparable(gone, name).eqNullSafe(F.col(inner(f"key{i}")))
        lost = gone.join(there, same, "left_anti")
        return lost.select(*[quote(name) for name in keys], *_ABOUT)

    def _mark(self, kind: str, live: bool = False) -> Column:
        """`_revision` of a row of this amendment, or (`live`) of what a tick has released."""
        from pyspark.sql import functions as F

        if live:
            values: Sequence[Any] = (F.lit(kind), F.lit(1), *[F.lit(None)] * 4)
        else:
            values = (
                F.lit(kind),
                F.col(NUMBER),
                F.lit(self._at),
                F.col(LATE_ROWS),
                F.col(UPTO),
                F.lit(self._number),
            )
        names = ("kind", "number", "amended_at", "late", "upto", "amendment")
        return F.struct(*[v.alias(n) for v, n in zip(values, names, strict=True)]).cast(REVISION_TYPE)

    def _shaped(self, frame: DataFrame) -> DataFrame:
        """The columns of the view's table, NULL where the frame has none."""
        from pyspark.sql import functions as F

        return frame.select(
            *[
                (F.col(quote(name)) if name in frame.columns else F.lit(None)).cast(kind).alias(name)
                for name, kind in self._columns.items()
            ]
        )


def _missing(schema: pa.Schema) -> list[tuple[str, str]]:
    """What a view's table lacks before its first amendment."""
    return [] if "_revision" in schema.names else [("_revision", REVISION_TYPE)]
