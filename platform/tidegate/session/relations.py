"""Everything that a SELECT can name, as DataFrames: relations, views, and the system tables `x$late` and so on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidegate.errors import TidegateError
from tidegate.evolve.kept_versions import stored_version
from tidegate.iceberg.layout import LATE, ON_TIME, PROGRESS, REJECTED, log_columns, quote, view_columns
from tidegate.sql.catalog.objects import Relation, SystemTable, View
from tidegate.sql.catalog.system_tables import version_in
from tidegate.sql.dialect.system_names import WATERMARK
from tidegate.sql.resolve.hidden import hidden_columns
from tidegate.tables.lives import current_rows
from tidegate.views.definition import same_view
from tidegate.views.inputs import empty, shown
from tidegate.views.resolve import require_columns, resolve_columns
from tidegate.views.revisions.revisions import revisions_frame
from tidegate.watermark import TimeKind

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from tidegate.iceberg.tables import Tables
    from tidegate.runtime.context import Context
    from tidegate.sql.catalog.objects import CatalogColumn


def frame_of(context: Context, name: str, hidden: bool = False) -> DataFrame:
    """See `Session.table`."""
    found = context.catalog.get(name)
    if isinstance(found, SystemTable) and (number := version_in(found.suffix)) is not None:
        return version_frame(context, found, number)
    if isinstance(found, SystemTable) and isinstance(found.relation, View):
        columns = resolve_columns(context, found.relation)
        return revisions_frame(context.tables, found, columns, context.stored(found.relation.name))
    relation = found.relation if isinstance(found, SystemTable) else found
    if isinstance(relation, Relation) and (stored := context.stored(relation.name)) is not None:
        require_columns(context, relation, context.tables.open(stored))
    if isinstance(found, SystemTable):
        return system_frame(context.tables, found, context.stored(found.relation.name), hidden)
    if isinstance(found, View):
        columns = resolve_columns(context, found)
        return view_frame(context, found, columns, context.stored(found.name))
    return relation_frame(context.tables, found, context.stored(found.name), hidden)


def version_frame(context: Context, version: SystemTable, number: int) -> DataFrame:
    """The rows of a view's version, as of the swap that followed it; of the current one, as of now (E5)."""
    from pyspark.sql import functions as F

    view = version.relation.name
    at = stored_version(context.project.storage, view, number)
    if at is None or at.current_snapshot_id is None:
        hint = "its retention has passed, or it was dropped"
        raise TidegateError("TG201", f'there is no version {number} of "{view}" any more', hint=hint)
    rows = context.tables.rows(context.identifier(view), at.current_snapshot_id)
    return rows.where(F.col("_open").isNotNull()).select(*[quote(c.name) for c in version.columns])


def relation_frame(tables: Tables, relation: Relation, table: str | None, hidden: bool = False) -> DataFrame:
    """The relation's rows: those on time (W5), with a PRIMARY KEY the last of each key that has not expired (T2, T4).
    `table`: its log, None if there is none yet (then it is empty). `hidden`: with `$rowtime` and its kin."""
    from pyspark.sql import functions as F

    if relation.primary_key and table is not None:
        if not hidden:
            return current_rows(tables, relation, table)
        # The state does not know the watermark that its rows were judged by; `$raw` does, and the analysis says so.
        stored = [c.stored for c in hidden_columns(relation, current=True)]
        rows = current_rows(tables, relation, table, *stored)
        return rows.withColumn("_wm", F.lit(None)).select(
            *[quote(c.name) for c in relation.columns], *_hidden(relation, current=True)
        )
    log = _table_or_empty(tables, table, log_columns(relation))
    own = [F.col(quote(c.name)) for c in relation.columns]
    return log.where(F.col("_outcome") == ON_TIME).select(*own, *(_hidden(relation) if hidden else ()))


def system_frame(tables: Tables, system: SystemTable, table: str | None, hidden: bool = False) -> DataFrame:
    """`$late`, `$rejected`, `$raw` (every row with its outcome) or `$watermarks` (the history of every partition).
    `hidden`: with `$rowtime` and its kin, which the history does not have."""
    from pyspark.sql import functions as F

    relation = system.relation
    assert isinstance(relation, Relation)  # a view's only one, its revisions, is a table of its own
    log = _table_or_empty(tables, table, log_columns(relation))
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
            # NULL where the two are further apart than an interval can be.
            late_by = F.try_subtract("_wm", F.col(quote(relation.watermark.column)))
        frame = log.where(outcome == LATE).withColumn("_late_by", late_by)
    names = zip(system.stored, system.columns, strict=True)
    own = [F.col(quote(stored)).alias(column.name) for stored, column in names]
    return frame.select(*own, *(_hidden(relation) if hidden else ()))


def _hidden(relation: Relation, current: bool = False) -> list[Column]:
    """The hidden columns of a log (W12, W14), as queries call them."""
    from pyspark.sql import functions as F

    columns = [F.col(c.stored).alias(c.name) for c in hidden_columns(relation, current)]
    return [*columns, F.col("_wm").alias(WATERMARK)]


def view_frame(
    context: Context, view: View, columns: tuple[CatalogColumn, ...], table: str | None
) -> DataFrame:
    """A view's rows: closed windows, and open ones for a view without EMIT ON WINDOW CLOSE. What a view releases
    sorted is read in the order of release (C4). TG506 if its results do not have the columns of its definition yet."""
    from pyspark.sql import functions as F

    tables = context.tables
    frame = _table_or_empty(tables, table, view_columns(view, columns))
    if table is not None and not {c.name for c in view.columns} <= set(frame.columns):
        same_view(context, view, tables.open(table))
    frame = frame.where(F.col("_open").isNotNull())
    if table is not None and not view.emit_on_window_close and view.clock is not None:
        frame = shown(frame, view, tables.open(table).current().summary)
    if view.order:
        frame = frame.orderBy(F.asc_nulls_last("_window_end"), "_ordinal")
    return frame.select(*[quote(c.name) for c in view.columns])


def _table_or_empty(tables: Tables, table: str | None, fields: list[tuple[str, str]]) -> DataFrame:
    if table is not None:
        return tables.rows(table)
    return empty(tables.spark, fields)


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
        F.col("_progress.note").alias("note"),
    )
