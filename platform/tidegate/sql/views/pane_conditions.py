"""WHERE of plain windows: comparisons of columns and constants of one type, and their combinations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from tidegate.sql.views.groups import is_bound
from tidegate.watermark import RowCondition, Value

if TYPE_CHECKING:
    from tidegate.sql.catalog.objects import Relation

    Operand = RowCondition | Value | int | str | bool

_COMPARISONS: dict[type[exp.Expr], str] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
}
_TYPES = {"int": "number", "bigint": "number", "string": "text", "boolean": "boolean"}
_LARGEST = 2**63 - 1


def plain_condition(relation: Relation, node: exp.Expr) -> RowCondition | Value | None:
    """What a resolved boolean expression over the relation's columns says, or None if it says more than `RowCondition`
    can: then the view is SQL."""
    node = node.unnest()
    if isinstance(node, exp.And | exp.Or):
        left, right = plain_condition(relation, node.this), plain_condition(relation, node.expression)
        operator = "and" if isinstance(node, exp.And) else "or"
        return None if left is None or right is None else RowCondition(operator, (left, right))
    if isinstance(node, exp.Not):
        inner = plain_condition(relation, node.this)
        return None if inner is None else RowCondition("not", (inner,))
    if isinstance(node, exp.Is):
        value = _operand(relation, node.this)
        if isinstance(value, Value) and isinstance(node.expression, exp.Null):
            return RowCondition("is null", (value,))
        return None
    if isinstance(node, exp.Column):
        value = _operand(relation, node)
        return value if isinstance(value, Value) and value.type == "boolean" else None
    if isinstance(node, exp.Between):
        low = _compared(relation, node, ">=", node.args["low"])
        high = _compared(relation, node, "<=", node.args["high"])
        if node.args.get("symmetric") or low is None or high is None:
            return None
        return RowCondition("and", (low, high))
    if isinstance(node, exp.In):
        return _in(relation, node)
    sign = _COMPARISONS.get(type(node))
    return None if sign is None else _compared(relation, node, sign, node.expression)


def _compared(relation: Relation, node: exp.Expr, sign: str, other: exp.Expr) -> RowCondition | None:
    left, right = _operand(relation, node.this), _operand(relation, other)
    if left is None or right is None or _kind(left) != _kind(right):
        return None
    if _kind(left) == "boolean" and sign not in ("=", "<>"):
        return None
    return RowCondition(sign, (left, right))


def _in(relation: Relation, node: exp.In) -> RowCondition | None:
    value = _operand(relation, node.this)
    listed = [_operand(relation, one) for one in node.expressions]
    constants = [one for one in listed if isinstance(one, int | str)]
    if value is None or not listed or len(constants) < len(listed):
        return None
    if any(_kind(one) != _kind(value) for one in constants):
        return None
    return RowCondition("in", (value, *constants))


def _operand(relation: Relation, node: exp.Expr) -> Operand | None:
    """A column or a constant, or the rest of a division by one."""
    node = node.unnest()
    if isinstance(node, exp.Column):
        found = None if is_bound(node) else relation.column(node.name)
        return Value(found.name, found.type) if found is not None and found.type in _TYPES else None
    if isinstance(node, exp.Mod):
        value, divisor = _operand(relation, node.this), _operand(relation, node.expression)
        if value is None or _kind(value) != "number" or not isinstance(divisor, int) or divisor <= 0:
            return None
        return RowCondition("%", (value, divisor))
    if isinstance(node, exp.Boolean):
        return bool(node.this)
    negative = isinstance(node, exp.Neg)
    constant = node.this.unnest() if negative else node
    if not isinstance(constant, exp.Literal):
        return None
    if constant.is_string:
        return None if negative else str(constant.this)
    if not constant.this.isdigit() or int(constant.this) > _LARGEST:
        return None
    return -int(constant.this) if negative else int(constant.this)


def _kind(operand: Operand) -> str:
    if isinstance(operand, Value):
        return _TYPES[operand.type]
    if isinstance(operand, bool):
        return "boolean"
    return "text" if isinstance(operand, str) else "number"
