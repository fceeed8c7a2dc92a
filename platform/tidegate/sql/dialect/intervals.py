"""INTERVAL literals as numbers: months, days and microseconds."""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal

from sqlglot import exp

from tidegate.sql.dialect.text import Text, node_span
from tidegate.watermark import TimeKind
from tidegate.watermark.timekind import DAY_MICROS

_MICROS = {
    "MICROSECOND": 1,
    "MILLISECOND": 1_000,
    "SECOND": 1_000_000,
    "MINUTE": 60_000_000,
    "HOUR": 3_600_000_000,
}
_DAYS = {"DAY": 1, "WEEK": 7}
_MONTHS = {"MONTH": 1, "QUARTER": 3, "YEAR": 12}
_SHORT = {
    "US": "MICROSECOND",
    "MS": "MILLISECOND",
    "S": "SECOND",
    "SEC": "SECOND",
    "MIN": "MINUTE",
    "H": "HOUR",
    "HR": "HOUR",
    "D": "DAY",
    "MON": "MONTH",
    "Y": "YEAR",
    "YR": "YEAR",
}
#: No times are further apart than about 290,000 years; half of that is 2^62 microseconds.
MOST_YEARS = 290_000
_MOST_MONTHS, _MOST_MICROS = MOST_YEARS * 12, 1 << 62
_PART = re.compile(r"\s*([+-]?\s*\d+(?:\.\d+)?)\s*([A-Za-z]+)\s*,?")


@dataclass(frozen=True)
class Length:
    """An interval. Days are 24 hours: session time zone is UTC."""

    months: int = 0
    days: int = 0
    micros: int = 0

    def ticks(self, kind: TimeKind) -> int:
        """In the unit of a time column. Raises ValueError if it has no fixed length in it."""
        return kind.ticks(months=self.months, days=self.days, micros=self.micros)


def read_interval(node: exp.Interval) -> Length | None:
    """`INTERVAL '90' MINUTE`, `INTERVAL '1 hour 30 minutes'`, `INTERVAL 5 SECONDS`; None for other forms
    (`DAY TO SECOND`, intervals of an expression, fractions of a microsecond)."""
    value, unit = node.this, node.args.get("unit")
    if not isinstance(value, exp.Literal) or isinstance(unit, exp.IntervalSpan):
        return None
    return read_length(f"{value.name} {unit.name}" if unit is not None else value.name)


def read_length(text: str) -> Length | None:
    """`90 minutes`, `1 day 12 hours`, `50 ms`; None for anything else, and for more than times can be apart."""
    length = _any_length(text)
    return length if length is not None and _is_possible(length) else None


def is_too_long(node: exp.Interval) -> bool:
    """Whether it is one of numbers and units, and longer than times can be apart."""
    value, unit = node.this, node.args.get("unit")
    if not isinstance(value, exp.Literal) or isinstance(unit, exp.IntervalSpan):
        return False
    length = _any_length(f"{value.name} {unit.name}" if unit is not None else value.name)
    return length is not None and not _is_possible(length)


def _is_possible(length: Length) -> bool:
    micros = length.days * DAY_MICROS + length.micros
    return abs(length.months) <= _MOST_MONTHS and abs(micros) <= _MOST_MICROS


def _any_length(text: str) -> Length | None:
    position, length = 0, Length()
    while position < len(text):
        match = _PART.match(text, position)
        if match is None:
            return None
        part = _part(Decimal(match[1].replace(" ", "")), match[2].upper())
        if part is None:
            return None
        length = Length(length.months + part.months, length.days + part.days, length.micros + part.micros)
        position = match.end()
    return length if position else None


def _part(count: Decimal, unit: str) -> Length | None:
    unit = _SHORT.get(unit, unit)
    if unit not in _MICROS and unit not in _DAYS and unit not in _MONTHS:
        unit = _SHORT.get(unit.removesuffix("S"), unit.removesuffix("S"))
    if unit in _MICROS:
        micros = count * _MICROS[unit]
        return Length(micros=int(micros)) if micros == int(micros) else None
    if count != int(count):
        return None
    if unit in _DAYS:
        return Length(days=int(count) * _DAYS[unit])
    return Length(months=int(count) * _MONTHS[unit]) if unit in _MONTHS else None


def constant_ticks(text: Text, node: exp.Expr, kind: TimeKind) -> int | None:
    """The length that an INTERVAL (or, for an integer column, an integer) has in a column's unit; None if the
    node is not such a constant. Raises ValueError if it is one without a fixed length."""
    node = node.unnest()
    if isinstance(node, exp.Neg):
        inner = constant_ticks(text, node.this, kind)
        return None if inner is None else -inner
    if isinstance(node, exp.Interval):
        length = read_interval(node)
        if length is None:
            what = text.slice(node_span(node))
            raise ValueError(
                f"{what} is not an interval of numbers and units, or is longer than the distance "
                "between any two times"
            )
        return length.ticks(kind)
    if isinstance(node, exp.Literal) and not node.is_string and node.name.isdigit():
        if kind is not TimeKind.EPOCH:
            raise ValueError("expected an INTERVAL")
        return int(node.name)
    if isinstance(node, exp.Add | exp.Sub) and isinstance(node.this.unnest(), exp.Interval):
        left, right = constant_ticks(text, node.this, kind), constant_ticks(text, node.expression, kind)
        if left is None or right is None:
            return None
        return left + right if isinstance(node, exp.Add) else left - right
    return None
