"""INSERT into a table: the rows go through the gate like any other, as one batch of partition "0"."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from tidegate.engine.layout import quote
from tidegate.engine.shape import add_generated
from tidegate.engine.sources import Rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tidegate.engine.ingest import Log
    from tidegate.plan.events import BatchCommitted

#: The one partition of a table with INSERTs.
PARTITION = "0"


def insert(spark: SparkSession, log: Log, sql: str) -> BatchCommitted:
    """Append the rows of a query, in its order. `sql` yields the table's stored columns, not yet cast.

    A row with a value that does not convert is rejected with its text, not lost and not an error.
    """
    arrived = datetime.now(UTC)
    rows = _converted(spark.sql(sql), log, arrived)
    log.progress.enumerate([PARTITION])
    return log.add(log.progress.epoch + 1, rows, arrived)


def _converted(given: DataFrame, log: Log, arrived: datetime) -> Rows:
    from pyspark.sql import functions as F

    stored = [c for c in log.relation.columns if c.generated is None]
    bad = F.lit(False)
    for column in stored:
        value = F.col(quote(column.name))
        bad = bad | (value.isNotNull() & value.try_cast(column.type).isNull())
    text = F.when(bad, F.to_json(F.struct(*[F.col(quote(c.name)) for c in stored])))
    frame = given.select(
        *[F.col(quote(c.name)).try_cast(c.type).alias(c.name) for c in stored], text.alias("_raw")
    )
    frame = add_generated(frame, log.relation)
    # The statement's order is kept: one task, numbered as it comes.
    frame = frame.coalesce(1).select(
        "*",
        F.lit(PARTITION).alias("_source_partition"),
        F.lit(None).cast("bigint").alias("_offset"),
        F.lit(arrived).alias("_arrival"),
    )
    return Rows(frame, (), numbering=True, aligned=True)
