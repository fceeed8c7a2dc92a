"""INSERT into a table: the rows go through the gate like any other, as one batch of partition "0"."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import chain
from typing import TYPE_CHECKING

from tidegate.engine.layout import quote
from tidegate.engine.shape import add_generated
from tidegate.engine.sources import Rows
from tidegate.engine.sources.reasons import misfit
from tidegate.sql.types import display

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import DataType

    from tidegate.engine.ingest import Log
    from tidegate.plan.events import BatchCommitted

#: The one partition of a table with INSERTs.
PARTITION = "0"


def insert(spark: SparkSession, log: Log, sql: str, op: str | None = None) -> BatchCommitted:
    """Append the rows of a query, in its order. `sql` yields the table's stored columns, not yet cast. `op`: what the
    rows do to a table with a PRIMARY KEY, 'upsert' (also None) or 'delete'.

    A row with a value that does not convert is rejected with its text, not lost and not an error.
    """
    arrived = datetime.now(UTC)
    rows = _converted(spark.sql(sql), log, arrived, op)
    log.progress.enumerate([PARTITION])
    return log.add(log.progress.epoch + 1, rows, arrived)


def _lost(value: Column, converted: Column, given: DataType, wanted: DataType) -> Column:
    """Whether a value, or one inside it, is there before the conversion and NULL after it."""
    from pyspark.sql import functions as F
    from pyspark.sql.types import ArrayType, MapType, StructType

    lost = value.isNotNull() & converted.isNull()
    if isinstance(given, StructType) and isinstance(wanted, StructType):
        for before, after in zip(given.fields, wanted.fields, strict=True):
            inner = value.getField(before.name), converted.getField(after.name)
            lost = lost | _lost(*inner, before.dataType, after.dataType)
    elif isinstance(given, ArrayType) and isinstance(wanted, ArrayType):
        kinds = given.elementType, wanted.elementType
        inside = F.zip_with(value, converted, lambda before, after: _lost(before, after, *kinds))
        lost = lost | F.coalesce(F.exists(inside, lambda bad: bad), F.lit(False))
    elif isinstance(given, MapType) and isinstance(wanted, MapType):
        values, kinds = (F.map_values(value), F.map_values(converted)), (given.valueType, wanted.valueType)
        lost = lost | _lost(*values, *map(ArrayType, kinds))
    return lost


def _converted(given: DataFrame, log: Log, arrived: datetime, op: str | None) -> Rows:
    from pyspark.sql import functions as F

    stored = [c for c in log.relation.columns if c.generated is None]
    pairs = [(F.col(quote(c.name)), F.col(quote(c.name)).try_cast(c.type)) for c in stored]
    # Spark is asked for all types at once: every question is a planning of its own.
    both = given.select(*(c.alias(f"c{i}") for i, c in enumerate(chain.from_iterable(pairs))))
    kinds = iter([field.dataType for field in both.schema.fields])
    problems = [
        F.when(_lost(value, converted, next(kinds), next(kinds)), F.lit(misfit(c.name, display(c.type))))
        for c, (value, converted) in zip(stored, pairs, strict=True)
    ]
    why = F.coalesce(*problems)
    text = F.when(why.isNotNull(), F.to_json(F.struct(*[F.col(quote(c.name)) for c in stored])))
    frame = given.select(
        *[F.col(quote(c.name)).try_cast(c.type).alias(c.name) for c in stored],
        text.alias("_raw"),
        why.alias("_why"),
    )
    frame = add_generated(frame, log.relation)
    # The statement's order is kept: one task, numbered as it comes.
    frame = frame.coalesce(1)
    if op is not None:
        # Of UPDATE and DELETE nobody said an order. In event time, no row makes another expire before its turn.
        watermark, key = log.relation.watermark, log.relation.primary_key
        names = dict.fromkeys([*([watermark.column] if watermark is not None else []), *key])
        frame = frame.sortWithinPartitions(*map(quote, names))
    frame = frame.select(
        "*",
        F.lit(PARTITION).alias("_source_partition"),
        F.lit(None).cast("bigint").alias("_offset"),
        F.lit(arrived).alias("_arrival"),
        *([F.lit(op).alias("_op")] if op is not None else []),
    )
    return Rows(lambda: frame, (), numbering=True, aligned=True)
