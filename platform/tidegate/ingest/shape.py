"""From input columns to a relation's columns: generated columns, and why a row must be rejected (W5)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidegate.iceberg.layout import quote, string
from tidegate.store.holding import UNKNOWN_PARTITION
from tidegate.tasks.decode.reasons import not_null
from tidegate.tasks.preceding import add_preceding, argument_column
from tidegate.tasks.reading import LOOKED
from tidegate.watermark import PROC_TIME, Expression

if TYPE_CHECKING:
    from datetime import datetime

    from pyspark.sql import Column, DataFrame

    from tidegate.sql.catalog.objects import Relation
    from tidegate.tasks.preceding import PrecedingTask


def add_generated(frame: DataFrame, relation: Relation) -> DataFrame:
    """Add the generated columns, in their order: a later one may use an earlier one."""
    from pyspark.sql import functions as F

    for column in relation.columns:
        if column.generated is not None:
            frame = frame.withColumn(column.name, F.expr(column.generated).cast(column.type))
    return frame


def reason(relation: Relation, decoded: bool = False) -> str:
    """Why a row is rejected, or NULL, as SQL: what its decoder says in `_why` (if it was `decoded`), `null_event_time`,
    `not_null: …`, in this order; else `unparseable` where it has a raw text (as in copies of recordings that earlier
    versions made)."""
    cases = ["WHEN _why IS NOT NULL THEN _why"] if decoded else []
    if relation.watermark is not None:
        cases.append(f"WHEN {quote(relation.watermark.column)} IS NULL THEN 'null_event_time'")
    cases += [
        f"WHEN {quote(column.name)} IS NULL THEN {string(not_null(column.name))}"
        for column in relation.columns
        if not column.nullable
    ]
    cases.append("WHEN _raw IS NOT NULL THEN 'unparseable'")
    return f"CASE {' '.join(cases)} END"


def gate_input(
    frame: DataFrame, relation: Relation, arrived: datetime, preceding: PrecedingTask | None = None
) -> DataFrame:
    """What the gate reads: the relation's own columns, `_source_partition`, `_offset`, `_raw`, what the log keeps of
    messages, `_reason`; and `_arrival` and `LOOKED`, if they are there.

    With `_strategy` where the strategy is an expression that Spark evaluates (W11); a value that fails is NULL
    and raises nothing (W2). `arrived`: the clock of the batch's plan, for PROC_TIME(). `preceding`: computes the
    strategy's windows, if it has any; their arguments stay beside the rows.
    """
    found = frame.columns
    columns = [quote(c.name) for c in relation.columns]
    if relation.primary_key:
        # A connector's rows are upserts; UPDATE and DELETE bring theirs.
        columns.append("_op" if "_op" in found else "'upsert' AS _op")
    columns += ["_source_partition", "CAST(_offset AS BIGINT) AS _offset", "_raw"]
    columns += [name for name, _ in relation.message_columns]
    columns.append(f"{reason(relation, decoded='_why' in found)} AS _reason")
    columns += [quote(name) for name in ("_arrival", LOOKED) if name in found]
    strategy = relation.watermark.strategy if relation.watermark is not None else None
    if not isinstance(strategy, Expression):
        return frame.selectExpr(*columns)
    value = f"{strategy.sql} AS _strategy"
    frame = _with_clock(frame, arrived)
    if preceding is None:
        return frame.selectExpr(*columns, value)
    for index, window in enumerate(strategy.preceding):
        columns.append(f"{window.sql} AS {quote(argument_column(index))}")
    shaped = frame.selectExpr(*columns)
    kept = [quote(name) for name in shaped.columns]
    return _with_clock(add_preceding(shaped, preceding), arrived).selectExpr(*kept, value)


def _with_clock(frame: DataFrame, arrived: datetime) -> DataFrame:
    """With the column that PROC_TIME() reads."""
    from pyspark.sql import functions as F

    return frame.withColumn(PROC_TIME, F.lit(arrived))


def partition_name(columns: tuple[str, ...]) -> Column:
    """The source partition as text: the columns' values joined by "/"."""
    from pyspark.sql import functions as F

    parts = [F.coalesce(F.col(quote(c)).cast("string"), F.lit("(null)")) for c in columns]
    if len(parts) > 1:
        # 'a/b', 'c' and 'a', 'b/c' are two partitions.
        parts = [F.replace(F.replace(p, F.lit("%"), F.lit("%25")), F.lit("/"), F.lit("%2F")) for p in parts]
    # A row that does not parse has no trustworthy columns: it belongs to no partition that has a say in G.
    return F.when(F.col("_why").isNotNull(), F.lit(UNKNOWN_PARTITION)).otherwise(F.concat_ws("/", *parts))
