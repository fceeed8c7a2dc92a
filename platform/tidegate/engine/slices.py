"""Views: closed slices of the log, computed once by ordinary Spark SQL and appended (C2, W3).

A slice is the windows with frontier < window_end <= W at a pinned snapshot of the log. The same query on the same
slice gives the same rows, live or as a backfill. A view without EMIT ON WINDOW CLOSE also holds its open windows,
replaced as a whole by every tick.
"""

from __future__ import annotations

import re
import time
from dataclasses import replace
from typing import TYPE_CHECKING

from tidegate.engine.commit import IcebergTable, Snapshot
from tidegate.engine.failures import refused
from tidegate.engine.ingest import same_definition
from tidegate.engine.layout import create_view_table, quote, view_identity
from tidegate.engine.writer import WriteTask, run_task
from tidegate.errors import TidegateError
from tidegate.plan.events import SliceCommitted
from tidegate.watermark import TimeKind

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import DataType

    from tidegate.project import Storage
    from tidegate.sql.catalog import Column, Relation, View

#: What the query's `{input_0}` becomes.
_SLICE = "_tidegate_slice"


def resolve_columns(spark: SparkSession, view: View, upstream: Relation) -> tuple[Column, ...]:
    """The view's columns with the types that Spark gives them; nothing runs. TG507 if Spark refuses the query."""
    fields = [f"{quote(c.name)} {c.type}" for c in upstream.columns] + [
        "_source_partition string",
        "_offset bigint",
    ]
    empty = spark.createDataFrame([], ", ".join(fields))
    try:
        schema = over(spark, view.query_sql, empty).schema
    except Exception as error:
        raise refused(f'the query of "{view.name}"', error, view.location) from error
    types = {field.name: ddl(field.dataType) for field in schema.fields}
    for name, kind in types.items():
        if re.search(r"\b(void|interval|variant)\b", re.sub("`[^`]*`", "", kind)):
            what = f'column "{name}" of "{view.name}" has the type {kind}, which a table can\'t store'
            raise TidegateError("TG507", what, hint="CAST it", location=view.location)
    return tuple(replace(c, type=types[c.name]) for c in view.columns)


def ddl(kind: DataType) -> str:
    """A type as Spark SQL reads it; PySpark's own text leaves the names of fields unquoted."""
    name = kind.typeName()
    if name == "struct":
        return f"struct<{', '.join(f'{quote(f.name)}: {ddl(f.dataType)}' for f in kind.fields)}>"
    if name == "array":
        return f"array<{ddl(kind.elementType)}>"
    if name == "map":
        return f"map<{ddl(kind.keyType)}, {ddl(kind.valueType)}>"
    return kind.simpleString()


def over(spark: SparkSession, sql: str, rows: DataFrame) -> DataFrame:
    """A view's query (or its `rows_sql`) over given on-time rows."""
    rows.createOrReplaceTempView(_SLICE)
    return spark.sql(sql.replace("{input_0}", _SLICE))


class ViewTable:
    """A view's stored results, open for writing."""

    def __init__(
        self, spark: SparkSession, storage: Storage, view: View, upstream: Relation, identifier: str, log: str
    ) -> None:
        self.view = view
        self._spark, self._upstream, self._log = spark, upstream, log
        columns = resolve_columns(spark, view, upstream)
        spark.sql(create_view_table(view, columns, identifier))
        self.table = IcebergTable(spark, identifier)
        same_definition(view.name, self.table.property("tidegate.identity"), view_identity(view))
        day = None if view.kind is TimeKind.EPOCH else "_window_end"
        self._target = self.table.target(storage, "_open", day, ("_window_end",))

    def tick(self) -> SliceCommitted | None:
        """Bring the view up to the log's newest commit. None if that closes nothing and opens nothing new."""
        started = time.monotonic()
        upstream = IcebergTable(self._spark, self._log).current()
        base = self.table.current()
        if (
            upstream.id is None
            or base.summary.get("tidegate.upstream-epoch") == upstream.summary["tidegate.epoch"]
        ):
            return None
        frontier = base.integer("tidegate.frontier")
        watermark = upstream.integer("tidegate.watermark")
        if watermark is not None:
            watermark += self.view.shift
        if self.view.emit_on_window_close and not self._closes_anything(frontier, watermark):
            return None
        files = self._write(self._result(upstream, frontier, watermark))
        groups = sum(f["rows"] for f in files if not f["split"])
        opened = sum(f["rows"] for f in files if f["split"])
        total = (base.integer("tidegate.groups") or 0) + groups
        summary = {
            "tidegate.upstream-snapshot": str(upstream.id),
            "tidegate.upstream-epoch": upstream.summary["tidegate.epoch"],
            "tidegate.groups": str(total),
            "tidegate.open": str(opened),
        }
        reached = max((mark for mark in (frontier, watermark) if mark is not None), default=None)
        if reached is not None:
            summary["tidegate.frontier"] = str(reached)
        # A view that emits on close is append-only by construction: nothing of it is ever replaced (C2).
        self.table.append(files, self._target, summary, base, replace_open=not self.view.emit_on_window_close)
        return SliceCommitted(
            view=self.view.name,
            frontier=self.view.kind.format(reached),
            groups=total,
            open=opened,
            seconds=round(time.monotonic() - started, 3),
        )

    def totals(self) -> tuple[str, int, int]:
        """Frontier as text, closed result rows so far, open result rows."""
        current = self.table.current()
        return (
            self.view.kind.format(current.integer("tidegate.frontier")),
            current.integer("tidegate.groups") or 0,
            current.integer("tidegate.open") or 0,
        )

    def _closes_anything(self, frontier: int | None, watermark: int | None) -> bool:
        """Whether a window boundary lies in (frontier, watermark]."""
        if watermark is None:
            return False
        window = self.view.window
        return frontier is None or window.watermark_end(watermark) > window.watermark_end(frontier)

    def _result(self, upstream: Snapshot, frontier: int | None, watermark: int | None) -> DataFrame:
        from pyspark.sql import functions as F

        view, kind = self.view, self.view.kind
        low = None if frontier is None else view.window.read_from(frontier)
        high = watermark if view.emit_on_window_close else None
        rows = on_time_rows(self._spark, self._log, self._upstream, upstream.id, view, low, high)
        result = over(self._spark, view.query_sql, rows)
        end = F.col("_window_end")
        if frontier is not None:
            result = result.where(end > F.expr(kind.spark_literal(frontier)))
        is_open = F.lit(True) if watermark is None else end > F.expr(kind.spark_literal(watermark))
        result = result.withColumn("_open", is_open)
        return result.where(~F.col("_open")) if view.emit_on_window_close else result

    def _write(self, result: DataFrame) -> list[dict]:
        if self.view.kind is TimeKind.EPOCH:
            result = result.repartition("_open")
        else:
            # A day's windows in one file, not one for each shuffle task.
            from pyspark.sql import functions as F

            result = result.repartition("_open", F.to_date("_window_end"))
        result = result.sortWithinPartitions("_window_end")
        return [file for files in run_task(result, WriteTask(self._target)) for file in files]


def on_time_rows(
    spark: SparkSession,
    log: str,
    upstream: Relation,
    snapshot: int | None,
    view: View,
    low: int | None,
    high: int | None,
) -> DataFrame:
    """The log's on-time rows at a snapshot, with window time in [low, high) (None: no bound), for a view's query."""
    from pyspark.sql import functions as F

    rows = spark.read.option("versionAsOf", snapshot).table(log)
    rows = rows.where(F.col("_outcome") == "on_time")
    column, kind = F.col(quote(view.time_column)), view.kind
    if low is not None:
        rows = rows.where(column >= F.expr(kind.spark_literal(low - view.shift)))
    if high is not None:
        rows = rows.where(column < F.expr(kind.spark_literal(high - view.shift)))
    return rows.select(*[quote(c.name) for c in upstream.columns], "_source_partition", "_offset")
