"""A view's query over given rows.

The same query on the same rows gives the same result: what a tick closes live is what a backfill or an audit of the
same slice finds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING

from tidegate.runtime.queries import run_query
from tidegate.sql.dialect.query import input_role
from tidegate.views.inputs import Pinned, bound_type

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tidegate.runtime.context import Context
    from tidegate.sql.catalog.objects import View
    from tidegate.sql.dialect.query import Query


def evaluate(
    spark: SparkSession, view: View, frames: Sequence[DataFrame], watermark: int | None = None
) -> DataFrame:
    """The view's query over the rows of its inputs: the view's columns, `_window_start` and `_window_end` in the type
    of the view's time, `_rows`, and the columns of `View.order`. `watermark`: which rows a frame that reaches ahead
    can count on (C5); of no consequence for a view without `over`."""
    if view.over is None:
        return with_bounds(run_sql(spark, view, view.query_sql, frames), view)
    from tidegate.views.over import evaluate as evaluate_over

    rows = run_sql(spark, view, view.over.rows_sql, frames)
    once = evaluate_over(spark, view, rows, None, None, watermark)
    once.close()
    return with_bounds(once.result, view)


def with_bounds(result: DataFrame, view: View) -> DataFrame:
    """`_window_start` and `_window_end` in the type in which the view stores them."""
    from pyspark.sql import functions as F

    bound = bound_type(view.kind)
    bounds = {name: F.col(name).cast(bound) for name in ("_window_start", "_window_end")}
    return result.withColumns(bounds)


def run_sql(spark: SparkSession, view: View, query: Query, frames: Sequence[DataFrame]) -> DataFrame:
    """One of a view's queries, with `frames` as its inputs."""
    return run_query(spark, view.name, query, {input_role(n): frame for n, frame in enumerate(frames)})


def read(
    context: Context,
    view: View,
    pinned: Sequence[Pinned],
    base: int | None = None,
    clock: int | None = None,
    late: Mapping[str, int] = MappingProxyType({}),
) -> list[DataFrame]:
    """The rows that each of a view's inputs gives it (`Pinned.rows`); `late` by name of the input."""
    return [p.rows(context.tables, view, base, clock, late.get(p.input.name)) for p in pinned]
