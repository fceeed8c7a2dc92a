"""X2, C7: functions that make much of little. Where a row asks one of them for more than a task can hold, that would
end the task, and every task that tries the row again: it gets NULL instead, as from an expression that fails."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from tidegate.sql.dialect.infer import Lookup, infer
from tidegate.sql.dialect.types import SparkType

#: Elements of an array, and bytes of a text, that one call may make.
MOST_ELEMENTS, MOST_BYTES = 1_000_000, 16_777_216
#: A constant up to these many is small enough: of elements, digits or blanks; of copies of the longest text of a row.
_FEW, _FEW_COPIES = 1000, 10
_TIMES = ("timestamp_ntz", "timestamp", "date")
#: Widths in a format that is not a constant.
_WIDE = "%[^a-zA-Z%]*[0-9]{6}"

_Types = list[SparkType | None]
_Condition = Callable[[list[exp.Expr], _Types], exp.Expr | None]


def how_much(call: exp.Expr, resolved: exp.Expr, lookup: Lookup) -> exp.Expr | None:
    """Under which condition a call may be computed at all; None if it always may. `resolved`: the call as it was
    written, which says the types of its arguments."""
    if not isinstance(call, exp.Anonymous) or call.name.lower() not in _CONDITIONS:
        return None
    types = [infer(one, lookup) for one in resolved.expressions]
    return _CONDITIONS[call.name.lower()](call.expressions, types)


def _call(name: str, *arguments: exp.Expr) -> exp.Anonymous:
    return exp.Anonymous(this=name, expressions=[one.copy() for one in arguments])


def _double(node: exp.Expr) -> exp.Expr:
    return exp.Cast(this=node.copy(), to=exp.DataType.build("DOUBLE"))


def _at_most(value: exp.Expr, most: int) -> exp.Expr:
    return exp.LTE(this=value, expression=exp.Literal.number(most))


def _is_few(node: exp.Expr, most: int = _FEW) -> bool:
    while isinstance(node, exp.Neg | exp.Paren):
        node = node.this
    return isinstance(node, exp.Literal) and not node.is_string and node.is_int and int(node.name) <= most


def _count(place: int, most: int) -> _Condition:
    """The argument at `place` says how much."""

    def condition(arguments: list[exp.Expr], _: _Types) -> exp.Expr | None:
        if len(arguments) <= place or _is_few(arguments[place]):
            return None
        return _at_most(_call("abs", _double(arguments[place])), most)

    return condition


def _text_copies(arguments: list[exp.Expr], _: _Types) -> exp.Expr | None:
    if len(arguments) != 2 or _is_few(arguments[1], _FEW_COPIES):
        return None
    # Of a NULL, one can make many as well.
    length = _call("greatest", _call("octet_length", arguments[0]), exp.Literal.number(1))
    return _at_most(exp.Mul(this=length, expression=_double(arguments[1])), MOST_BYTES)


def _copies(arguments: list[exp.Expr], types: _Types) -> exp.Expr | None:
    elements = _count(1, MOST_ELEMENTS)(arguments, types)
    is_text = bool(types) and types[0] is not None and types[0].name in ("string", "binary")
    size = _text_copies(arguments, types) if is_text else None
    return exp.And(this=elements, expression=size) if elements and size else elements or size


def _formatted(arguments: list[exp.Expr], _: _Types) -> exp.Expr | None:
    if not arguments or isinstance(arguments[0], exp.Literal):
        return None
    return exp.Not(this=exp.Paren(this=_call("regexp_like", arguments[0], exp.Literal.string(_WIDE))))


def _places(arguments: list[exp.Expr], types: _Types) -> exp.Expr | None:
    """The second argument says how many digits; or it is a pattern."""
    given = types[1] if len(types) == 2 else None
    return _count(1, _FEW)(arguments, types) if given is not None and given.is_integer else None


def _sequence(arguments: list[exp.Expr], types: _Types) -> exp.Expr | None:
    """By how far the ends are apart, in steps."""
    if len(arguments) not in (2, 3) or types[0] is None or all(map(_is_few, arguments)):
        return None
    if types[0].name not in _TIMES:
        step = _call("abs", _double(arguments[2])) if len(arguments) == 3 else exp.Literal.number(1)
        return _few_steps(_distance(_double(arguments[1]), _double(arguments[0])), step)
    day = exp.Interval(this=exp.Literal.string("1"), unit=exp.var("DAY"))
    start = exp.Cast(this=exp.Literal.string("2000-01-01"), to=exp.DataType.build("TIMESTAMPTZ"))
    length = _distance(_micros(_call("try_add", start, (*arguments, day)[2])), _micros(start))
    return _few_steps(_distance(_micros(arguments[1]), _micros(arguments[0])), length)


def _micros(time: exp.Expr) -> exp.Expr:
    moment = exp.Cast(this=time.copy(), to=exp.DataType.build("TIMESTAMPTZ"))
    return _double(_call("unix_micros", moment))


def _distance(a: exp.Expr, b: exp.Expr) -> exp.Expr:
    return _call("abs", exp.Sub(this=a, expression=b))


def _few_steps(distance: exp.Expr, step: exp.Expr) -> exp.Expr:
    return exp.LTE(this=distance, expression=exp.Mul(this=exp.Literal.number(MOST_ELEMENTS), expression=step))


def _same_length(arguments: list[exp.Expr], _: _Types) -> exp.Expr | None:
    """Spark takes this one for a fault of its own, which nothing catches."""
    if len(arguments) != 2:
        return None
    return exp.EQ(this=_call("array_size", arguments[0]), expression=_call("array_size", arguments[1]))


_CONDITIONS: dict[str, _Condition] = {
    "repeat": _text_copies,
    "space": _count(0, MOST_BYTES),
    "lpad": _count(1, MOST_BYTES // 4),
    "rpad": _count(1, MOST_BYTES // 4),
    "array_repeat": _copies,
    "array_insert": _count(1, MOST_ELEMENTS),
    "format_number": _places,
    "format_string": _formatted,
    "map_from_arrays": _same_length,
    "printf": _formatted,
    "sequence": _sequence,
}
