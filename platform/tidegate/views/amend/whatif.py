"""What if the watermark waited longer: the late rows of a log judged again under another delay. Nothing is written."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tidegate.errors import TidegateError
from tidegate.iceberg.layout import LATE, ON_TIME, quote, ticks_of
from tidegate.sql.catalog.objects import Relation, View
from tidegate.sql.dialect.inner_names import inner
from tidegate.sql.statements.analysis import analyse
from tidegate.sql.statements.statements import AlterWatermark
from tidegate.views.windows import assign_windows
from tidegate.watermark import Column as NewestSeen
from tidegate.watermark import Delay, window_is_closed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tidegate.runtime.context import Context
    from tidegate.sql.catalog.objects import Accounts, Watermark
    from tidegate.watermark import TimeKind

SHOWN_WINDOWS = 50


#: Inside, beside a log's columns: its time in ticks, whether a row was late, and whether it would be.
_TICKS, _WAS, _WOULD = inner("ticks"), inner("was"), inner("would")


@dataclass(frozen=True)
class WindowWhatIf:
    """One closed window that late rows hit. `late`: as it was judged; `late_then`: under the other strategy."""

    window_start: str
    window_end: str
    late: int
    late_then: int


@dataclass(frozen=True)
class WhatIf:
    """`late` rows of `rows` as they were judged by `was`, and `late_then` by `strategy`; closed `windows` that late
    rows hit, and how many of these would be `complete`. `examples`: the first windows."""

    view: str
    source: str
    was: str
    strategy: str
    rows: int
    late: int
    late_then: int
    windows: int
    complete: int
    examples: list[WindowWhatIf] = field(default_factory=list)


def what_if(context: Context, view: View, strategy: str) -> WhatIf:
    """Judge the log of the one source that a view's windows are over again, each row against the watermark of its own
    partition as `strategy` makes it. What is not judged again: rows that were late by the published watermark alone,
    after their partition had been idle, count as if they were on time if their own partition's allows it.

    Raises TG564 for a view without such windows, and for a strategy that is not a constant delay behind the newest row;
    TG3xx, with a caret, for one that is no strategy of the source.
    """
    from pyspark.sql import functions as F

    relation, accounts, stored = _windows_of_rows(context, view)
    mark = relation.watermark
    assert mark is not None
    judged = _judged_again(context, relation, mark, _delay(context, relation, strategy)).persist()
    try:
        sums = judged.agg(
            F.count(F.lit(1)).alias("rows"),
            F.count_if(_WAS).alias("late"),
            F.count_if(_WOULD).alias("late_then"),
        ).first()
        assert sums is not None
        frontier = context.tables.open(stored).current().integer("tidegate.frontier")
        windows = _closed_windows(judged, accounts, view.kind, frontier).persist()
        try:
            found = windows.agg(
                F.count(F.lit(1)).alias("windows"), F.count_if(F.col("late_then") == 0).alias("complete")
            ).first()
            assert found is not None
            # Bounded: SHOWN_WINDOWS rows.
            shown = windows.orderBy("_window_end").limit(SHOWN_WINDOWS).collect()
        finally:
            windows.unpersist()
    finally:
        judged.unpersist()
    examples = [
        WindowWhatIf(str(r["_window_start"]), str(r["_window_end"]), r["late"], r["late_then"]) for r in shown
    ]
    return WhatIf(
        view.name,
        relation.name,
        mark.expression,
        strategy,
        sums["rows"],
        sums["late"],
        sums["late_then"],
        found["windows"],
        found["complete"],
        examples,
    )


def _windows_of_rows(context: Context, view: View) -> tuple[Relation, Accounts, str]:
    """The source that a view's windows are over, these windows, and the view's table. Raises TG564."""
    relation = None if view.accounts is None else context.catalog.get(view.inputs[0].name)
    stored = None if relation is None else context.stored(view.name)
    if (
        view.accounts is None
        or not isinstance(relation, Relation)
        or relation.watermark is None
        or stored is None
    ):
        raise TidegateError(
            "TG564",
            f'"{view.name}" has no closed windows over the rows of one source',
            hint="use a view over TUMBLE, HOP or CUMULATE of a source, after its first run",
            location=view.location,
        )
    return relation, view.accounts, stored


def _delay(context: Context, relation: Relation, strategy: str) -> int:
    """By how many ticks the watermark of `strategy` is behind the newest row. Raises TG564, TG3xx."""
    mark = relation.watermark
    assert mark is not None
    altered = f'ALTER {relation.kind} "{relation.name}" ALTER WATERMARK FOR "{mark.column}" AS {strategy}'
    [statement] = analyse(altered, context.catalog, "--what-if")
    assert isinstance(statement, AlterWatermark)
    assert statement.relation.watermark is not None
    other = statement.relation.watermark.strategy
    if not isinstance(other, Delay | NewestSeen) or mark.by_batch:
        raise TidegateError(
            "TG564",
            f"{strategy} is not a constant delay behind the newest row",
            hint=(
                f"write for example {mark.column} - INTERVAL '1 hour'; tidegate advise "
                f"{relation.name} compares all delays"
            ),
        )
    return other.ticks if isinstance(other, Delay) else 0


def _judged_again(context: Context, relation: Relation, mark: Watermark, delay: int) -> DataFrame:
    """Of each judged row of the log its time, whether it was late, and whether it would be by `delay`."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    log = context.tables.rows(context.identifier(relation.name))
    before = (
        Window.partitionBy("_source_partition").orderBy("_offset").rowsBetween(Window.unboundedPreceding, -1)
    )
    judged = log.where(F.col("_outcome").isin(ON_TIME, LATE))
    judged = judged.withColumn(_TICKS, ticks_of(mark.column, mark.kind))
    behind = F.coalesce(F.max(_TICKS).over(before) - F.col(_TICKS) > F.lit(delay), F.lit(False))
    return judged.select(quote(mark.column), (F.col("_outcome") == LATE).alias(_WAS), behind.alias(_WOULD))


def _closed_windows(judged: DataFrame, accounts: Accounts, kind: TimeKind, frontier: int | None) -> DataFrame:
    """The closed windows that late rows hit, with how many were late and would be."""
    from pyspark.sql import functions as F

    placed = assign_windows(judged.where(F.col(_WAS) | F.col(_WOULD)), accounts, kind)
    windows = placed.groupBy("_window_start", "_window_end").agg(
        F.count_if(_WAS).alias("late"), F.count_if(_WOULD).alias("late_then")
    )
    final = F.lit(False)
    if frontier is not None:
        final = window_is_closed(F.col("_window_end"), F.expr(kind.spark_literal(frontier)))
    return windows.where(final & (F.col("late") > 0))
