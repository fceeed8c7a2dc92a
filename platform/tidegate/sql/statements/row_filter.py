"""A condition on the rows of one table, for those who read it without Spark: `tidegate show --where`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING

from sqlglot import exp

from tidegate.errors import did_you_mean
from tidegate.sql.catalog.objects import CatalogColumn
from tidegate.sql.dialect.codes import error
from tidegate.sql.dialect.dialect import tokenize
from tidegate.sql.dialect.parsing import parse_expression
from tidegate.sql.dialect.text import Text
from tidegate.sql.resolve.scope import name_location
from tidegate.sql.views.pane_conditions import condition_of
from tidegate.watermark import RowCondition, TimeKind, Value

if TYPE_CHECKING:
    from tidegate.watermark import Constant, Operand

_WHOLE = ("tinyint", "smallint", "int", "bigint")
_FLOATS = ("float", "double")
_TIMES = {
    "timestamp": TimeKind.TIMESTAMPTZ,
    "timestamp_ntz": TimeKind.TIMESTAMP,
    "date": TimeKind.DATE,
}
_DECIMAL = re.compile(r"decimal\((\d+), ?(\d+)\)")
_MOST_DIGITS, _LARGEST = 38, 2**63 - 1
_WRITTEN = {
    exp.DataType.Type.DATE: "date",
    exp.DataType.Type.TIMESTAMP: "timestamp",
    exp.DataType.Type.TIMESTAMPNTZ: "timestamp",
    exp.DataType.Type.TIMESTAMPTZ: "timestamp with a zone",
}


def row_filter(sql: str, columns: Sequence[CatalogColumn], place: str) -> RowCondition | Value | None:
    """What a condition says of rows with these columns; None if it says more than `RowCondition` can.

    Raises TG101 and TG102 for what is no condition, TG202 for a column that is not there. `place`: what errors call the
    text.
    """
    text = Text(sql, place)
    node = parse_expression(text, tokenize(text))
    known = {column.name.casefold(): column for column in columns}
    for column in node.find_all(exp.Column):
        if not column.table and column.name.casefold() not in known:
            hint = did_you_mean(column.name, [c.name for c in columns])
            raise error("TG202", f'there is no column "{column.name}"', name_location(text, column), hint)
    return condition_of(node, _Operands(known))


@dataclass(frozen=True)
class _Operands:
    """Columns and constants; a constant gets the type of the column beside it, as in Spark."""

    known: dict[str, CatalogColumn]

    def value(self, node: exp.Expr) -> Operand | None:
        node = node.unnest()
        if isinstance(node, exp.Column) and not node.table:
            found = self.known[node.name.casefold()]
            return Value(found.name, found.type)
        return bool(node.this) if isinstance(node, exp.Boolean) else None

    def pair(self, left: exp.Expr, right: exp.Expr) -> tuple[Operand, Operand] | None:
        first, second = self.value(left), self.value(right)
        if isinstance(first, Value) and isinstance(second, Value):
            return (first, second) if _compares(first.type, second.type) else None
        if isinstance(first, Value):
            constant = _constant(right.unnest(), first.type)
            return None if constant is None else (first, constant)
        if isinstance(second, Value):
            constant = _constant(left.unnest(), second.type)
            return None if constant is None else (constant, second)
        return None

    def is_boolean(self, operand: Operand) -> bool:
        return isinstance(operand, bool) or (isinstance(operand, Value) and operand.type == "boolean")


def _compares(kind: str, other: str) -> bool:
    """Whether columns of these types are compared here."""
    if kind in _WHOLE:
        return other in _WHOLE
    known = kind in ("string", "boolean", *_TIMES) or _DECIMAL.fullmatch(kind) is not None
    return known and kind == other


def _constant(node: exp.Expr, kind: str) -> Constant | None:
    """What is written, as a value of a column's type; None if it is of another one."""
    if isinstance(node, exp.Boolean):
        return bool(node.this) if kind == "boolean" else None
    if kind in _TIMES:
        return _time(node, _TIMES[kind])
    if kind == "string":
        return str(node.this) if isinstance(node, exp.Literal) and node.is_string else None
    negative = isinstance(node, exp.Neg)
    literal = node.this.unnest() if negative else node
    if not isinstance(literal, exp.Literal) or literal.is_string:
        return None
    return _number(literal.name, negative, kind)


def _number(written: str, negative: bool, kind: str) -> Constant | None:
    # With an exponent it is a DOUBLE, which a whole number is not compared with exactly.
    if "e" in written.casefold() and kind not in _FLOATS:
        return None
    found = -Decimal(written) if negative else Decimal(written)
    if kind in _FLOATS:
        return float(found)
    declared = _DECIMAL.fullmatch(kind)
    if declared is None and kind not in _WHOLE:
        return None
    if declared is None and "." not in written:
        return int(found) if abs(found) <= _LARGEST else None
    digits, scale = (int(declared[1]), int(declared[2])) if declared else (19, 0)
    parts = found.as_tuple()
    assert isinstance(parts.exponent, int)
    own_scale = max(-parts.exponent, 0)
    whole = max(digits - scale, len(parts.digits) - own_scale)
    # More digits than a DECIMAL has would be rounded.
    return found if whole + max(scale, own_scale) <= _MOST_DIGITS else None


def _time(node: exp.Expr, kind: TimeKind) -> Constant | None:
    """A time that is written as a text, with its type in front or without."""
    written = None
    if isinstance(node, exp.Cast):
        written, node = _WRITTEN.get(node.to.this), node.this
        fits = ("date",) if kind is TimeKind.DATE else ("date", "timestamp", "timestamp with a zone")
        if written not in fits:
            return None
    if not isinstance(node, exp.Literal) or not node.is_string:
        return None
    try:
        # A DATE among times is its midnight.
        ticks = (TimeKind.DATE if written == "date" else kind).parse(node.name)
    except ValueError:
        return None
    if kind is TimeKind.DATE:
        return date.fromordinal(date(1970, 1, 1).toordinal() + ticks)
    micros = ticks * 86_400_000_000 if written == "date" else ticks
    zone = UTC if kind is TimeKind.TIMESTAMPTZ else None
    return datetime.fromisoformat(TimeKind.format(TimeKind.TIMESTAMP, micros)).replace(tzinfo=zone)
