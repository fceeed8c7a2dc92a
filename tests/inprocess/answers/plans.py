"""The rows of a plan, if all that it asks is answered here."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import Any

import pyarrow as pa

from tests.inprocess.answers.columns import columns_of, term
from tests.inprocess.answers.groups import by_name, distinct, grouped, matching, united
from tests.inprocess.answers.rows import Rows, kept, of_table, selected, value_of
from tests.inprocess.answers.terms import NOT_HERE, Declined, Failed
from tests.inprocess.answers.texts import Selection, selection_of
from tests.inprocess.answers.windows import ordered

_ROWS, _COLUMNS = "_tidegate_answer", "_tidegate_columns"
_SEMI, _ANTI = 6, 5


def answer(plan: Any, for_columns: bool = False) -> Rows:
    """The rows of a plan. `for_columns`: no rows, but its columns. Raises Declined."""
    try:
        return _answer(plan, for_columns)
    except Failed as failed:
        error = failed.error
    # (Outside, since else each would be the other's reason, and who looks for the first one does not come to an end.)
    raise error


def _answer(plan: Any, for_columns: bool) -> Rows:
    slot = _COLUMNS if for_columns else _ROWS
    known = vars(plan).get(slot)
    if known is None:
        known = vars(plan)[slot] = _tried(plan, for_columns)
    if isinstance(known, Declined):
        raise Declined
    return known  # type: ignore[no-any-return]


def _tried(plan: Any, for_columns: bool) -> Rows | Declined:
    kind = type(plan).__name__
    carry_out = _NODES.get(kind)
    if carry_out is None or (plan._references and kind != "Over"):
        return Declined()
    try:
        return carry_out(plan, for_columns)
    except NOT_HERE:
        return Declined()


def _rows(plan: Any, for_columns: bool) -> Rows:
    table = plan._table
    return of_table(table.slice(0, 0) if for_columns else table)


def _fetched(plan: Any, for_columns: bool) -> Rows:
    if for_columns and plan.like is not None:
        return _answer(plan.like._plan, True)
    try:
        rows = plan.rows()
    except BaseException as error:
        raise Failed(error) from error
    return _answer(rows._plan, for_columns)


def _project(plan: Any, for_columns: bool) -> Rows:
    return selected(_answer(plan._child, for_columns), columns_of(plan._columns))


def _with_columns(plan: Any, for_columns: bool) -> Rows:
    if plan._metadata and any(plan._metadata):
        raise Declined
    rows = _answer(plan._child, for_columns)
    names, columns = list(rows.names), list(rows.columns)
    for name, column in zip(plan._columnNames, plan._columns, strict=True):
        found = rows.whole(value_of(term(column._expr), rows))
        places = [place for place, known in enumerate(names) if (known or "").lower() == name.lower()]
        if len(places) > 1:
            raise Declined
        for place in places:
            names[place], columns[place] = name, found
        if not places:
            names.append(name)
            columns.append(found)
    return replace(rows, names=tuple(names), columns=tuple(columns))


def _filter(plan: Any, for_columns: bool) -> Rows:
    return kept(_answer(plan._child, for_columns), term(plan.filter._expr))


def _sort(plan: Any, for_columns: bool) -> Rows:
    rows = _answer(plan._child, for_columns)
    orders = [column._expr for column in plan.columns]
    if any(type(order).__name__ != "SortOrder" for order in orders):
        raise Declined
    keys = [
        (rows.whole(value_of(term(order._child), rows)), order._ascending, order._nullsFirst)
        for order in orders
    ]
    return rows.taken(pa.array(ordered(keys, rows.count), pa.int64()))


def _limit(plan: Any, for_columns: bool) -> Rows:
    rows = _answer(plan._child, for_columns)
    return rows.taken(pa.array(range(min(rows.count, plan.limit)), pa.int64()))


def _drop(plan: Any, for_columns: bool) -> Rows:
    rows = _answer(plan._child, for_columns)
    if not all(isinstance(name, str) for name in plan._columns):
        raise Declined
    gone = {name.lower() for name in plan._columns}
    left = [(n, c) for n, c in zip(rows.names, rows.columns, strict=True) if (n or "").lower() not in gone]
    return replace(rows, names=tuple(n for n, _ in left), columns=tuple(c for _, c in left))


def _renamed(plan: Any, for_columns: bool) -> Rows:
    rows = _answer(plan._child, for_columns)
    if len(plan._cols) != len(rows.names):
        raise Declined
    return Rows(tuple(plan._cols), rows.columns, rows.count)


def _aliased(plan: Any, for_columns: bool) -> Rows:
    return replace(_answer(plan._child, for_columns), alias=plan._alias)


def _aggregate(plan: Any, for_columns: bool) -> Rows:
    if plan._group_type != "groupby":
        raise Declined
    rows = _answer(plan._child, for_columns)
    return grouped(rows, columns_of(plan._grouping_cols), columns_of(plan._aggregate_cols))


def _join(plan: Any, for_columns: bool) -> Rows:
    keys = [plan.on] if isinstance(plan.on, str) else plan.on
    if plan.how not in (_SEMI, _ANTI) or not isinstance(keys, list):
        raise Declined
    if not keys or not all(isinstance(key, str) for key in keys):
        raise Declined
    left, right = _answer(plan.left, for_columns), _answer(plan.right, for_columns)
    return matching(left, right, keys, plan.how == _ANTI)


def _deduplicate(plan: Any, for_columns: bool) -> Rows:
    if plan.column_names or plan.within_watermark:
        raise Declined
    return distinct(_answer(plan._child, for_columns))


def _union(plan: Any, for_columns: bool) -> Rows:
    if plan.set_op != "union" or not plan.is_all or plan.allow_missing_columns:
        raise Declined
    first, second = _answer(plan._child, for_columns), _answer(plan.other, for_columns)
    return united(first, by_name(second, first.names) if plan.by_name else second)


def _local(plan: Any, for_columns: bool) -> Rows:
    """What PySpark's own `createDataFrame` makes."""
    if not (plan._schema or "").startswith("{"):
        raise Declined
    empty = empty_of(plan._schema)
    if plan._table is None or for_columns:
        return of_table(empty)
    if plan._table.schema.types != empty.schema.types:
        raise Declined
    return of_table(plan._table.cast(empty.schema))


@lru_cache(2048)
def empty_of(schema: str) -> pa.Table:
    """No row, of Spark's types as JSON."""
    from pyspark.sql.pandas.types import to_arrow_schema
    from pyspark.sql.types import StructType

    return to_arrow_schema(StructType.fromJson(json.loads(schema))).empty_table()


def _query(plan: Any, for_columns: bool) -> Rows:
    over = type(plan).__name__ == "Over"
    text = plan._root._query if over else plan._query
    if not over and (plan._args or plan._named_args):
        raise Declined
    views = {named._alias.lower(): named for named in plan._named} if over else {}
    return _carried_out(selection_of(text), views, for_columns)


def _carried_out(selection: Selection, views: dict[str, Any], for_columns: bool) -> Rows:
    source = selection.source
    if source is None:
        rows = Rows((), (), 0 if for_columns else 1)
    elif isinstance(source, str):
        if source.lower() not in views:
            raise Declined
        rows = _answer(views[source.lower()], for_columns)
    else:
        rows = _carried_out(source, views, for_columns)
    return selected(rows if selection.where is None else kept(rows, selection.where), selection.columns)


_NODES: dict[str, Callable[[Any, bool], Rows]] = {
    "HeldRows": _rows,
    "LocalRelation": _local,
    "Fetched": _fetched,
    "Project": _project,
    "WithColumns": _with_columns,
    "Filter": _filter,
    "Sort": _sort,
    "Limit": _limit,
    "Drop": _drop,
    "ToDF": _renamed,
    "SubqueryAlias": _aliased,
    "Aggregate": _aggregate,
    "Join": _join,
    "Deduplicate": _deduplicate,
    "SetOperation": _union,
    "Over": _query,
    "SQL": _query,
    "Hint": lambda plan, for_columns: _answer(plan._child, for_columns),
}
