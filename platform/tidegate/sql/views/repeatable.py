"""Columns of a view that the same rows can fill with different values: what depends on the order in which rows come."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

import sqlglot
from sqlglot import exp

from tidegate.sql.catalog.objects import View
from tidegate.sql.dialect.dialect import Fragment, to_spark
from tidegate.sql.dialect.query import Query

#: Aggregates that pick or line up rows, or give one of several right answers.
_ORDERED = (
    "any_value|first|first_value|last|last_value|collect_list|collect_set|array_agg|listagg|string_agg|max_by|min_by"
    "|mode|approx_percentile|percentile_approx|approx_top_k|approx_top_k_accumulate|approx_top_k_combine|histogram_numeric"
    "|hll_sketch_agg|hll_union_agg|theta_sketch_agg|theta_union_agg|theta_intersection_agg"
)
_CALL = re.compile(rf"\b({_ORDERED})\s*\(", re.IGNORECASE)


def order_dependent(view: View) -> frozenset[str]:
    """The view's columns that are computed, over any number of steps, with an aggregate that depends on the order of
    rows. By name and therefore rather one too many: a recount must not compare them (C7)."""
    queries = [view.query_sql] if view.over is None else [view.over.rows_sql, view.over.query_sql]
    return _following(view, queries, set(), lambda item: _CALL.search(to_spark(item)) is not None)


def not_over(view: View) -> tuple[str, ...]:
    """The columns of a view with `over` that follow from one source row alone: no call with OVER is part of them."""
    assert view.over is not None
    calls = {function.name for function in view.over.functions}
    computed = _following(view, [view.over.query_sql], calls, lambda item: False)
    return tuple(c.name for c in view.columns if c.name not in computed)


def _following(
    view: View, queries: Sequence[Query], known: set[str], begins: Callable[[exp.Expr], bool]
) -> frozenset[str]:
    """The view's columns that are computed, over any number of steps of `queries`, from a column in `known`, or by an
    expression that `begins` a chain of them."""
    found = set(known)
    while True:
        before = len(found)
        for query in queries:
            for select in query.tree.find_all(exp.Select):
                found |= {
                    item.alias_or_name
                    for item in select.expressions
                    if begins(item) or any(name in found for name in _names(item))
                }
        if len(found) == before:
            return frozenset(c.name for c in view.columns if c.name in found)


def _names(item: exp.Expr) -> Iterator[str]:
    """The columns that an item of SELECT names."""
    for part in item.find_all(exp.Column, Fragment):
        if isinstance(part, exp.Column):
            yield part.name
        else:
            yield from (c.name for c in sqlglot.parse_one(part.name, read="spark").find_all(exp.Column))
