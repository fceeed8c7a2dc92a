"""Expressions and simple queries of texts."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import lru_cache
from typing import Any, TypeVar

import pyarrow as pa
from sqlglot import exp, parse_one
from sqlglot.errors import SqlglotError

from tests.inprocess.answers.terms import (
    NOT_HERE,
    ONE,
    Call,
    Cast,
    Declined,
    Name,
    Named,
    Star,
    Struct,
    Term,
    Value,
    Window,
    type_of,
)
from tests.inprocess.requests import quoted

Found = TypeVar("Found")


@dataclass(frozen=True)
class Selection:
    """A query that is one selection. `source`: the view or the query that it selects from; None: there is none."""

    columns: list[Named]
    source: str | Selection | None
    where: Term | None


def named_of_text(text: str) -> Named:
    """Of an expression."""
    return _required(_expression(text))


def selection_of(text: str) -> Selection:
    """Of a query."""
    return _required(_query(text))


@lru_cache(4096)
def _expression(text: str) -> Named | None:
    return _parsed(text, _named_of)


@lru_cache(4096)
def _query(text: str) -> Selection | None:
    return _parsed(text, _selection)


def _parsed(text: str, read: Callable[[Any], Found]) -> Found | None:
    # (`struct(a = 1)`, which has one field without a name, is a struct with a field `a` to sqlglot.)
    if re.search(r"(?i)(?<!named_)\bstruct\s*\(", text):
        return None
    try:
        return read(parse_one(quoted(text), dialect="spark"))
    except (*NOT_HERE, SqlglotError):
        return None


def _required(found: Found | None) -> Found:
    if found is None:
        raise Declined
    return found


def _named_of(node: Any) -> Named:
    if isinstance(node, exp.Alias):
        return _term_of(node.this), node.alias
    found = _term_of(node)
    return found, found.parts[-1] if isinstance(found, Name) else None


def _selection(query: Any) -> Selection:
    known = {"expressions", "from_", "where", "kind"}
    if not isinstance(query, exp.Select) or {key for key, value in query.args.items() if value} - known:
        raise Declined
    where, source = query.args.get("where"), query.args.get("from_")
    return Selection(
        [_named_of(one) for one in query.expressions],
        None if source is None else _source(source.this),
        None if where is None else _term_of(where.this),
    )


def _source(node: Any) -> str | Selection:
    if {key for key, value in node.args.items() if value} == {"this"}:
        if isinstance(node, exp.Subquery):
            return _selection(node.this)
        if isinstance(node, exp.Table) and isinstance(node.this, exp.Identifier):
            return str(node.name)
    raise Declined


def _term_of(node: Any) -> Term:
    read = _NODES.get(type(node))
    if read is None:
        raise Declined
    return read(node)


def _terms(*nodes: Any) -> tuple[Term, ...]:
    return tuple(_term_of(node) for node in nodes if node is not None)


def _column(node: Any) -> Term:
    if isinstance(node.this, exp.Star):
        raise Declined
    return Name(tuple(part.name for part in node.parts))


def _star(node: Any) -> Term:
    if any(node.args.values()):
        raise Declined
    return Star()


def _case(node: Any) -> Term:
    if node.this is not None:
        raise Declined
    branches = [one for branch in node.args["ifs"] for one in (branch.this, branch.args["true"])]
    return Call("when", _terms(*branches, node.args.get("default")))


def _is_null(node: Any) -> Term:
    if not isinstance(node.expression, exp.Null):
        raise Declined
    return Call("isNull", _terms(node.this))


def _among(node: Any) -> Term:
    if node.args.get("query") or node.args.get("unnest"):
        raise Declined
    return Call("in", _terms(node.this, *node.expressions))


def _by_name(node: Any) -> Term:
    if node.name.lower() not in ("timestamp_micros", "pmod", "try_sum"):
        raise Declined
    return Call(node.name.lower(), _terms(*node.expressions))


def _struct(node: Any) -> Term:
    if not all(isinstance(one, exp.PropertyEQ) for one in node.expressions):
        raise Declined
    names = tuple(one.this.name for one in node.expressions)
    return Struct(names, _terms(*(one.expression for one in node.expressions)))


def _compared(node: Any) -> Term:
    if any(type(one) in _BESIDE for one in _operands(node)):
        raise Declined  # (Spark and sqlglot read it in different orders.)
    return Call(_COMPARISONS[type(node)], _terms(node.this, node.expression))


def _operands(node: Any) -> list[Any]:
    """Of a comparison. (sqlglot puts those of `<=>` in parentheses by itself.)"""
    given = [node.this, node.expression]
    return [
        one.this if isinstance(node, exp.NullSafeEQ) and isinstance(one, exp.Paren) else one for one in given
    ]


def _group_function(node: Any) -> Term:
    name = _OF_GROUPS[type(node)]
    if {key for key, value in node.args.items() if value} - {"this", "offset", "big_int"}:
        raise Declined
    given = [node.args[key] for key in ("this", "offset") if node.args.get(key)]
    if name == "count" and isinstance(node.this, exp.Star):
        return Call(name, (ONE,))
    return Call(name, tuple(map(_term_of, given)))


def _window_of(node: Any) -> Term:
    of = _term_of(node.this)
    if not isinstance(of, Call):
        raise Declined
    if {key for key, value in node.args.items() if value} - {"this", "partition_by", "order", "spec", "over"}:
        raise Declined
    order = node.args.get("order")
    orders = tuple(
        (_term_of(one.this), not one.args.get("desc"), bool(one.args.get("nulls_first")))
        for one in (order.expressions if order is not None else ())
    )
    partition = tuple(map(_term_of, node.args.get("partition_by") or ()))
    spec = node.args.get("spec")
    return Window(of.function, of.given, partition, orders, None if spec is None else _frame_of(spec))


def _frame_of(spec: Any) -> tuple[bool, int | None, int | None]:
    ends = list[int | None]()
    for side in ("start", "end"):
        end, before = spec.args[side], spec.args.get(f"{side}_side") == "PRECEDING"
        if end == "CURRENT ROW":
            ends.append(0)
        elif end == "UNBOUNDED":
            ends.append(None)
        elif isinstance(end, exp.Literal) and end.this.isdigit():
            ends.append(-int(end.this) if before else int(end.this))
        else:
            raise Declined
    return spec.args["kind"] == "ROWS", ends[0], ends[1]


#: Nodes and their functions.
_BINARY: dict[Any, str] = {
    exp.And: "and",
    exp.Or: "or",
    exp.SafeAdd: "try_add",
    exp.SafeSubtract: "try_subtract",
    exp.Add: "+",
    exp.Sub: "-",
    exp.IntDiv: "div",
}
_UNARY: dict[Any, str] = {exp.Not: "not", exp.UnixMicros: "unix_micros", exp.Inline: "inline"}
_OF_GROUPS: dict[Any, str] = {
    exp.Count: "count",
    exp.Sum: "sum",
    exp.Min: "min",
    exp.Max: "max",
    exp.Lead: "lead",
    exp.Lag: "lag",
    exp.RowNumber: "row_number",
    exp.FirstValue: "first_value",
    exp.LastValue: "last_value",
}
_COMPARISONS: dict[Any, str] = {
    exp.EQ: "==",
    exp.NEQ: "!=",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.NullSafeEQ: "<=>",
}
#: What has to stand in parentheses in a comparison.
_BESIDE = {*_COMPARISONS, exp.In, exp.Is, exp.Between, exp.Like, exp.Not, exp.And, exp.Or}
_UNITS = {"SECOND": 1_000_000, "MINUTE": 60_000_000, "HOUR": 3_600_000_000, "DAY": 86_400_000_000}
_INT = 2**31


def _value_of(node: Any) -> Term:
    if isinstance(node, exp.Null):
        return Value(pa.scalar(None))
    if isinstance(node, exp.Boolean):
        return Value(pa.scalar(bool(node.this)))
    if isinstance(node, exp.Literal):
        if node.is_string:
            return Value(pa.scalar(node.this, pa.string()))
        if not node.this.isdigit() or int(node.this) >= _INT:
            raise Declined
        return Value(pa.scalar(int(node.this), pa.int32()))
    if isinstance(node, exp.Interval):
        return Value(_interval(node))
    if isinstance(node, exp.Neg):
        found = _term_of(node.this)
        number = found.term if isinstance(found, Cast) else found
        if not isinstance(number, Value) or not pa.types.is_integer(number.scalar.type):
            raise Declined
        if isinstance(found, Cast) and not pa.types.is_integer(found.type):
            raise Declined
        below = Value(pa.scalar(-number.scalar.as_py(), number.scalar.type))
        return Cast(below, found.type) if isinstance(found, Cast) else below
    return _cast_of(node)


def _interval(node: Any) -> Any:
    unit = _UNITS.get(node.text("unit").upper().rstrip("S"))
    count = node.this.name if node.this is not None else ""
    if unit is None or not re.fullmatch(r"\d+(\.\d{1,6})?" if unit == _UNITS["SECOND"] else r"\d+", count):
        raise Declined
    return pa.scalar(int(Decimal(count) * unit), pa.duration("us"))


def _cast_of(node: Any) -> Term:
    target, given = type_of(node.to.sql("spark")), node.this
    if isinstance(given, exp.Literal) and pa.types.is_timestamp(target):
        if not given.is_string or isinstance(node, exp.TryCast):
            raise Declined
        if not re.fullmatch(r"\d{4}-\d\d-\d\d([ T]\d\d:\d\d:\d\d(\.\d{1,6})?)?", given.this):
            raise Declined
        since = datetime.fromisoformat(given.this).replace(tzinfo=UTC) - datetime.fromtimestamp(0, UTC)
        return Value(pa.scalar(since // timedelta(microseconds=1), target))
    if isinstance(given, exp.Literal) and not given.is_string and given.this.isdigit():
        return Cast(Value(pa.scalar(int(given.this), pa.int64())), target)
    return Cast(_term_of(given), target)


_NODES: dict[Any, Callable[[Any], Term]] = {
    exp.Column: _column,
    exp.Paren: lambda node: _term_of(node.this),
    exp.Star: _star,
    exp.Case: _case,
    exp.If: lambda node: Call("when", _terms(node.this, node.args["true"], node.args.get("false"))),
    exp.Is: _is_null,
    exp.In: _among,
    exp.Anonymous: _by_name,
    exp.Window: _window_of,
    exp.Struct: _struct,
    exp.Coalesce: lambda node: Call("coalesce", _terms(node.this, *node.expressions)),
    **dict.fromkeys(
        (exp.Literal, exp.Boolean, exp.Null, exp.Interval, exp.Neg, exp.Cast, exp.TryCast), _value_of
    ),
    **dict.fromkeys(_OF_GROUPS, _group_function),
    **dict.fromkeys(_COMPARISONS, _compared),
    **dict.fromkeys(_UNARY, lambda node: Call(_UNARY[type(node)], _terms(node.this))),
    **dict.fromkeys(_BINARY, lambda node: Call(_BINARY[type(node)], _terms(node.this, node.expression))),
}
