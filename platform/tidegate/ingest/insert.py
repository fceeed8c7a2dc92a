"""INSERT into a table: the rows go through the gate like any other, as one batch of partition "0"."""

from __future__ import annotations

from datetime import datetime
from itertools import chain
from typing import TYPE_CHECKING

from tidegate.iceberg.layout import quote, string
from tidegate.ingest.connector import BatchRows
from tidegate.ingest.shape import add_generated
from tidegate.plan.stages import SourceStage
from tidegate.sql.dialect.types import display
from tidegate.tasks.decode.reasons import misfit
from tidegate.watermark import TimeKind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import DataType

    from tidegate.ingest.ingest import Log
    from tidegate.plan.events import BatchCommitted
    from tidegate.sql.catalog.objects import CatalogColumn

#: The one partition of a table with INSERTs.
PARTITION = "0"
_INSTANT = TimeKind.TIMESTAMPTZ


def insert(
    spark: SparkSession, log: Log, sql: str, arrived: datetime, op: str | None = None
) -> BatchCommitted:
    """Append the rows of a query, in its order. `sql` yields the table's stored columns, not yet cast. `arrived`: when.
    `op`: what the rows do to a table with a PRIMARY KEY, 'upsert' (also None) or 'delete'.

    A row with a value that does not convert is rejected with its text, not lost and not an error.
    """
    rows = log.stages.carry_out(SourceStage, lambda _: _converted(spark.sql(sql), log, arrived, op))
    log.progress.enumerate([PARTITION])
    return log.add(log.progress.epoch + 1, rows, arrived)


def _lost(value: str, converted: str, given: DataType, wanted: DataType, depth: int = 0) -> str:
    """Whether a value, or one inside it, is there before the conversion and NULL after it: SQL over SQL."""
    from pyspark.sql.types import ArrayType, MapType, StructType

    lost = f"({value} IS NOT NULL AND {converted} IS NULL)"
    inside = None
    if isinstance(given, StructType) and isinstance(wanted, StructType):
        for was, becomes in zip(given.fields, wanted.fields, strict=True):
            inner = f"{value}.{quote(was.name)}", f"{converted}.{quote(becomes.name)}"
            lost += f" OR {_lost(*inner, was.dataType, becomes.dataType, depth)}"
    elif isinstance(given, ArrayType) and isinstance(wanted, ArrayType):
        inside = value, converted, given.elementType, wanted.elementType
    elif isinstance(given, MapType) and isinstance(wanted, MapType):
        inside = f"map_values({value})", f"map_values({converted})", given.valueType, wanted.valueType
    if inside is not None:
        before, after = f"b{depth}", f"a{depth}"
        each = _lost(before, after, *inside[2:], depth + 1)
        bad = f"exists(zip_with({inside[0]}, {inside[1]}, ({before}, {after}) -> {each}), bad -> bad)"
        lost += f" OR coalesce({bad}, false)"
    return f"({lost})"


def _problems(given: DataFrame, columns: Sequence[CatalogColumn]) -> str:
    """What is wrong with a row that can't be converted: SQL, NULL where nothing is."""
    # Written as text, and Spark asked for types only where values lie inside of others: every question is a planning.
    pairs = [(quote(c.name), f"try_cast({quote(c.name)} AS {c.type})") for c in columns]
    nested = [pair for c, pair in zip(columns, pairs, strict=True) if str(c.type).endswith(">")]
    kinds = {}
    if nested:
        shown = given.selectExpr(*chain.from_iterable(nested)).schema.fields
        kinds = {pair: (shown[2 * i].dataType, shown[2 * i + 1].dataType) for i, pair in enumerate(nested)}
    lost = [
        _lost(*pair, *kinds[pair]) if pair in kinds else f"{pair[0]} IS NOT NULL AND {pair[1]} IS NULL"
        for pair in pairs
    ]
    texts = [string(misfit(c.name, display(c.type))) for c in columns]
    return f"CASE {' '.join(f'WHEN {w} THEN {t}' for w, t in zip(lost, texts, strict=True))} END"


def _converted(given: DataFrame, log: Log, arrived: datetime, op: str | None) -> BatchRows:
    stored = [c for c in log.relation.columns if c.generated is None]
    why = _problems(given, stored)
    text = f"to_json(struct({', '.join(quote(c.name) for c in stored)}))"
    frame = given.selectExpr("*", f"{why} AS _why").selectExpr(
        *[f"try_cast({quote(c.name)} AS {c.type}) AS {quote(c.name)}" for c in stored],
        f"CASE WHEN _why IS NOT NULL THEN {text} END AS _raw",
        "_why",
    )
    frame = add_generated(frame, log.relation)
    # The statement's order is kept: one task, numbered as it comes.
    frame = frame.coalesce(1)
    if op is not None:
        # Of UPDATE and DELETE nobody said an order. In event time, no row makes another expire before its turn.
        watermark, key = log.relation.watermark, log.relation.primary_key
        names = dict.fromkeys([*([watermark.column] if watermark is not None else []), *key])
        frame = frame.sortWithinPartitions(*map(quote, names))
    clock = _INSTANT.clock(arrived)
    assert clock is not None, "an instant has a clock"
    frame = frame.selectExpr(
        "*",
        f"'{PARTITION}' AS _source_partition",
        "CAST(NULL AS BIGINT) AS _offset",
        f"{_INSTANT.spark_literal(clock)} AS _arrival",
        *([f"'{op}' AS _op"] if op is not None else []),
    )
    return BatchRows(lambda: frame, (), numbering=True, aligned=True)
