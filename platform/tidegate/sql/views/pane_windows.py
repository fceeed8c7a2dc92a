"""Views that are nothing but windows, keys and plain aggregates of one relation, of rows that fulfil a plain condition:
the engine needs no SQL for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from tidegate.sql.catalog.objects import Relation
from tidegate.sql.views.groups import is_bound
from tidegate.sql.views.pane_conditions import plain_condition
from tidegate.watermark import Aggregate, Hop, PaneWindows, Sessions, TimeKind, Tumble, Value

if TYPE_CHECKING:
    from tidegate.sql.resolve.flow import Item, Reader, WindowTable
    from tidegate.sql.views.selects import Selected

_TIMES = (TimeKind.TIMESTAMP, TimeKind.TIMESTAMPTZ)
_WHOLE, _NUMBERS = ("int", "bigint"), ("int", "bigint", "double")
_ORDERED = (*_WHOLE, "date", "timestamp", "timestamp_ntz")
_KEYS = (*_ORDERED, "string", "boolean")
_FUNCTIONS = {"mean": "avg", "try_avg": "avg", "try_sum": "sum"}
#: Of each function: the types of its argument.
_ARGUMENTS = {"sum": _NUMBERS, "avg": _NUMBERS, "min": _ORDERED, "max": _ORDERED}
_LONGEST = 1 << 61  # of gaps: a time and a gap more is a time of 64 bits
_STEPS = 2  # the relation, and its windows; WHERE is one more


def pane_windows(reader: Reader, selected: Selected | None) -> PaneWindows | None:
    """What a SELECT with GROUP BY comes to, or None if it says more than that."""
    if selected is None or selected.grouping is None:
        return None
    grouping, source = selected.grouping, selected.source
    relation, table = source.relation, source.window
    if (
        grouping.several
        or grouping.having is not None
        or len(source.nodes) != _STEPS + (selected.condition is not None)
        or len(reader.inputs) != 1
    ):
        return None
    if relation is None or relation.watermark is None or relation.primary_key or relation.kind == "gate":
        return None
    if relation.watermark.kind not in _TIMES or table is None:
        return None
    keys = [k for k in grouping.keys if not is_bound(k)]
    if table.time.name != relation.watermark.column or len(keys) == len(grouping.keys):
        return None
    condition = None
    if selected.condition is not None:
        condition = plain_condition(relation, selected.condition)
        if condition is None:
            return None
    columns = [_column(relation, key, _KEYS) for key in keys]
    outputs = [_output(relation, item) for item in selected.items]
    window = _window(relation, table, columns)
    if None in columns or None in outputs or window is None:
        return None
    if isinstance(window, Sessions) and condition is not None:
        return None  # sessions are of all rows, and what WHERE leaves of them is counted
    return PaneWindows(
        window=window,
        kind=relation.watermark.kind,
        time_column=relation.watermark.column,
        keys=tuple(c for c in columns if c is not None),
        outputs=tuple(o for o in outputs if o is not None),
        condition=condition,
    )


def _window(
    relation: Relation, table: WindowTable, keys: list[Value | None]
) -> Tumble | Hop | Sessions | None:
    """The window, where its panes are parts of it: sessions of the same keys as the groups, and no calendar's."""
    if isinstance(table.window, Tumble | Hop):
        return table.window
    of_sessions = [_column(relation, key, _KEYS) for key in table.keys]
    if table.sessions is None or table.sessions.gap > _LONGEST or set(of_sessions) != set(keys):
        return None
    return table.sessions


def _output(relation: Relation, item: Item) -> Aggregate | None:
    name, node = item.name.text, item.node.unnest()
    if is_bound(node):
        return Aggregate(name, node.name, None)
    if isinstance(node, exp.Column):
        column = _column(relation, node, _KEYS)
        return Aggregate(name, "key", column) if column is not None else None
    if not isinstance(node, exp.Anonymous) or len(node.expressions) != 1:
        return None
    (argument,), name_of = node.expressions, node.name.lower()
    function = _FUNCTIONS.get(name_of, name_of)
    if function == "count":
        if isinstance(argument, exp.Star):
            return Aggregate(name, "count", None)
        column = _column(relation, argument, (*_KEYS, "double", "float", "binary"))
    else:
        column = _column(relation, argument, _ARGUMENTS.get(function, ()))
    return Aggregate(name, function, column) if column is not None else None


def _column(relation: Relation, node: exp.Expr, types: tuple[str, ...]) -> Value | None:
    """The relation's own column, if it is one of these types."""
    node = node.unnest()
    found = relation.column(node.name) if isinstance(node, exp.Column) else None
    return Value(found.name, found.type) if found is not None and found.type in types else None
