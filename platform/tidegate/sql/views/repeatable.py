"""Columns of a view that the same rows can fill with different values: what depends on the order in which rows come."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import sqlglot
from sqlglot import exp

from tidegate.sql.catalog.objects import View

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
    texts = [view.query_sql] if view.over is None else [view.over.rows_sql, view.over.query_sql]
    return _following(view, texts, set(), lambda item: _CALL.search(item.sql(dialect="spark")) is not None)


def not_over(view: View) -> tuple[str, ...]:
    """The columns of a view with `over` that follow from one source row alone: no call with OVER is part of them."""
    assert view.over is not None
    calls = {function.name for function in view.over.functions}
    computed = _following(view, [view.over.query_sql], calls, lambda item: False)
    return tuple(c.name for c in view.columns if c.name not in computed)


def _following(
    view: View, texts: Sequence[str], known: set[str], begins: Callable[[exp.Expression], bool]
) -> frozenset[str]:
    """The view's columns that are computed, over any number of steps of `texts`, from a column in `known`, or by an
    expression that `begins` a chain of them."""
    found = set(known)
    while True:
        before = len(found)
        for text in texts:
            tree = sqlglot.parse_one(re.sub(r"\{(\w+)\}", r"_\1", text), read="spark")
            for select in tree.find_all(exp.Select):
                found |= {
                    item.alias_or_name
                    for item in select.expressions
                    if begins(item) or any(column.name in found for column in item.find_all(exp.Column))
                }
        if len(found) == before:
            return frozenset(c.name for c in view.columns if c.name in found)
