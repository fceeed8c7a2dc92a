"""Everything that a SELECT can name, as DataFrames: relations, views, and the system tables `x$late` and so on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidegate.engine.layout import LATE, ON_TIME, PROGRESS, REJECTED, log_columns, quote, view_columns
from tidegate.watermark import TimeKind

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from tidegate.sql.catalog import Column as CatalogColumn
    from tidegate.sql.catalog import Relation, SystemTable, View


def relation_frame(spark: SparkSession, relation: Relation, table: str | None) -> DataFrame:
    """The relation's rows: those on time (W5). `table`: its log, None if there is none yet (then it is empty)."""
    from pyspark.sql import functions as F

    log = _table_or_empty(spark, table, log_columns(relation))
    return log.where(F.col("_outcome") == ON_TIME).select(*[quote(c.name) for c in relation.columns])


def system_frame(spark: SparkSession, system: SystemTable, table: str | None) -> DataFrame:
    """`$late`, `$rejected`, `$raw` (every row with its outcome) or `$watermarks` (the history of every partition)."""
    from pyspark.sql import functions as F

    relation = system.relation
    log = _table_or_empty(spark, table, log_columns(relation))
    outcome = F.col("_outcome")
    if system.suffix == "watermarks":
        frame = _history(log.where(outcome == PROGRESS), relation)
    elif system.suffix == "raw":
        frame = log.where(outcome != PROGRESS)
    elif system.suffix == "rejected":
        frame = log.where(outcome == REJECTED)
    else:
        late_by = F.lit(None).cast("bigint")
        if relation.watermark is not None:
            late_by = F.col("_wm") - F.col(quote(relation.watermark.column))
        frame = log.where(outcome == LATE).withColumn("_late_by", late_by)
    names = zip(system.stored, system.columns, strict=True)
    return frame.select(*[F.col(quote(stored)).alias(column.name) for stored, column in names])


def view_frame(
    spark: SparkSession, view: View, columns: tuple[CatalogColumn, ...], table: str | None
) -> DataFrame:
    """A view's rows: closed windows, and open ones for a view without EMIT ON WINDOW CLOSE."""
    frame = _table_or_empty(spark, table, view_columns(view, columns))
    return frame.select(*[quote(c.name) for c in view.columns])


def _table_or_empty(spark: SparkSession, table: str | None, fields: list[tuple[str, str]]) -> DataFrame:
    if table is not None:
        return spark.table(table)
    return spark.createDataFrame([], ", ".join(f"{quote(n)} {t}" for n, t in fields))


def _history(log: DataFrame, relation: Relation) -> DataFrame:
    """One row for each batch and partition, and one with partition NULL for the source as a whole."""
    from pyspark.sql import functions as F

    kind = relation.watermark.kind if relation.watermark is not None else TimeKind.EPOCH

    def time(name: str) -> Column:
        value = F.col(f"_progress.{name}")
        if kind is TimeKind.TIMESTAMPTZ:
            value = F.timestamp_micros(value)
        elif kind is TimeKind.TIMESTAMP:
            # The session's zone is UTC, so the wall time is that of UTC.
            value = F.timestamp_micros(value).cast("timestamp_ntz")
        elif kind is TimeKind.DATE:
            value = F.date_from_unix_date(value.cast("int"))
        return value.alias(name)

    plain = [
        F.col(f"_progress.{n}").alias(n) for n in ("state", "next_offset", "on_time", "late", "rejected")
    ]
    return log.select(
        F.col("_epoch").alias("epoch"),
        F.col("_arrival").alias("at"),
        F.col("_source_partition").alias("partition"),
        time("watermark"),
        time("published"),
        time("max_event_time"),
        *plain,
    )
