"""What is left of a plan for the server: rows are in the place of those parts that are answered here."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import copy
from typing import Any

import pyarrow as pa

from tests.inprocess.answers.plans import answer
from tests.inprocess.answers.terms import Declined

_INPUTS = ("_child", "left", "right", "other")
_NODES = {
    "Project",
    "WithColumns",
    "Filter",
    "Sort",
    "Limit",
    "Drop",
    "ToDF",
    "SubqueryAlias",
    "Aggregate",
    "Join",
    "Deduplicate",
    "SetOperation",
    "Hint",
    "Over",
    "SQL",
    "Fetched",
    "LocalRelation",
}
_EXPRESSIONS = ("_columns", "columns", "filter", "_grouping_cols", "_aggregate_cols", "on", "_parameters")


class _Whole(Exception):
    """A part names a column of a plan by the number of that plan: it is asked in whole."""


def rest_of(plan: Any, held: Callable[[pa.Table], Any]) -> Any:
    """`held`: makes a plan of rows."""
    try:
        return _rest(plan, held)
    except _Whole:
        return plan


def _rest(plan: Any, held: Callable[[pa.Table], Any]) -> Any:
    if type(plan).__name__ == "HeldRows":
        return plan
    try:
        rows = None if _is_named(plan) else answer(plan).table()
    except Declined:
        rows = None
    if rows is None or any(map(pa.types.is_null, rows.schema.types)):
        return _over_less(plan, held)
    found = held(rows)
    found._root_plan_id, found._plan_id_with_rel = plan._root_plan_id, plan._plan_id_with_rel
    return found


def _over_less(plan: Any, held: Callable[[pa.Table], Any]) -> Any:
    """The same node over what is left of its inputs."""
    if type(plan).__name__ not in _NODES:
        raise _Whole
    for expression in _expressions(plan):
        expression.foreach(_require_no_number)
    found = copy(plan)
    for name in _INPUTS:
        if getattr(plan, name, None) is not None:
            setattr(found, name, _rest(getattr(plan, name), held))
    if type(plan).__name__ == "Over":
        found._named = [_rest(one, held) for one in plan._named]
    elif plan._references:
        raise _Whole
    return found


def _is_named(plan: Any) -> bool:
    """Whether columns of it may be named by an alias that is inside of it."""
    if type(plan).__name__ == "SubqueryAlias":
        return True
    inputs = (getattr(plan, name, None) for name in _INPUTS)
    return any(_is_named(one) for one in inputs if one is not None)


def _expressions(plan: Any) -> Iterator[Any]:
    for name in _EXPRESSIONS:
        given = getattr(plan, name, None)
        for one in given if isinstance(given, (list, tuple)) else [given]:
            if hasattr(one, "_expr"):
                yield one._expr


def _require_no_number(expression: Any) -> None:
    if getattr(expression, "_plan_id", None) is not None:
        raise _Whole
