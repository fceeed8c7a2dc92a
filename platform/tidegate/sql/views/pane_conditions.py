"""WHERE of plain windows: comparisons of columns and constants of one type, and their combinations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from sqlglot import exp

from tidegate.sql.views.groups import is_bound
from tidegate.watermark import RowCondition, Value

if TYPE_CHECKING:
    from tidegate.sql.catalog.objects import Relation
    from tidegate.watermark import Operand

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


class Operands(Protocol):
    """What may stand in a condition. None where it says more than `RowCondition` can."""

    def value(self, node: exp.Expr) -> Operand | None:
        """A column, a constant, or what is computed from them."""

    def pair(self, left: exp.Expr, right: exp.Expr) -> tuple[Operand, Operand] | None:
        """Two values of one type, which can be compared."""

    def is_boolean(self, operand: Operand) -> bool:
        """Whether it is true or false: then it has no order, and a column of it is a condition by itself."""


def plain_condition(relation: Relation, node: exp.Expr) -> RowCondition | Value | None:
    """What a resolved boolean expression over the relation's columns says, or None if it says more than `RowCondition`
    can: then the view is SQL."""
    return condition_of(node, _PaneOperands(relation))


def condition_of(node: exp.Expr, operands: Operands) -> RowCondition | Value | None:
    """What a boolean expression over these operands says, or None if it says more than `RowCondition` can."""
    node = node.unnest()
    if isinstance(node, exp.And | exp.Or):
        left, right = condition_of(node.this, operands), condition_of(node.expression, operands)
        operator = "and" if isinstance(node, exp.And) else "or"
        return None if left is None or right is None else RowCondition(operator, (left, right))
    if isinstance(node, exp.Not):
        inner = condition_of(node.this, operands)
        return None if inner is None else RowCondition("not", (inner,))
    if isinstance(node, exp.Is):
        value = operands.value(node.this)
        if isinstance(value, Value) and isinstance(node.expression, exp.Null):
            return RowCondition("is null", (value,))
        return None
    if isinstance(node, exp.Column):
        value = operands.value(node)
        return value if isinstance(value, Value) and operands.is_boolean(value) else None
    if isinstance(node, exp.Between):
        low = _compared(operands, node, ">=", node.args["low"])
        high = _compared(operands, node, "<=", node.args["high"])
        if node.args.get("symmetric") or low is None or high is None:
            return None
        return RowCondition("and", (low, high))
    if isinstance(node, exp.In):
        return _in(operands, node)
    sign = _COMPARISONS.get(type(node))
    return None if sign is None else _compared(operands, node, sign, node.expression)


def _compared(operands: Operands, node: exp.Expr, sign: str, other: exp.Expr) -> RowCondition | None:
    pair = operands.pair(node.this, other)
    if pair is None or (operands.is_boolean(pair[0]) and sign not in ("=", "<>")):
        return None
    return RowCondition(sign, pair)


def _in(operands: Operands, node: exp.In) -> RowCondition | None:
    pairs = [operands.pair(node.this, one) for one in node.expressions]
    known = [pair for pair in pairs if pair is not None and not isinstance(pair[1], RowCondition | Value)]
    if not pairs or len(known) < len(pairs):
        return None
    return RowCondition("in", (known[0][0], *(constant for _, constant in known)))


@dataclass(frozen=True)
class _PaneOperands:
    """Columns and constants of a few types, and the rest of a division by a constant."""

    relation: Relation

    def value(self, node: exp.Expr) -> Operand | None:
        node = node.unnest()
        if isinstance(node, exp.Column):
            found = None if is_bound(node) else self.relation.column(node.name)
            return Value(found.name, found.type) if found is not None and found.type in _TYPES else None
        if isinstance(node, exp.Mod):
            value, divisor = self.value(node.this), self.value(node.expression)
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

    def pair(self, left: exp.Expr, right: exp.Expr) -> tuple[Operand, Operand] | None:
        first, second = self.value(left), self.value(right)
        if first is None or second is None or _kind(first) != _kind(second):
            return None
        return first, second

    def is_boolean(self, operand: Operand) -> bool:
        return _kind(operand) == "boolean"


def _kind(operand: Operand) -> str:
    if isinstance(operand, Value):
        return _TYPES[operand.type]
    if isinstance(operand, bool):
        return "boolean"
    return "text" if isinstance(operand, str) else "number"
