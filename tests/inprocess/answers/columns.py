"""Expressions of PySpark's columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import pyarrow as pa

from tests.inprocess.answers.terms import (
    ONE,
    Call,
    Cast,
    Declined,
    Name,
    Named,
    Star,
    Term,
    Value,
    Window,
    Work,
    arrow_type,
    type_of,
)
from tests.inprocess.answers.texts import named_of_text

_INT = 2**31


def named(expression: Any) -> Named:
    """Of an expression of Spark Connect."""
    kind = type(expression).__name__
    if kind == "SQLExpression":
        return named_of_text(expression._expr)
    if kind == "ColumnAlias":
        if len(expression._alias) != 1 or expression._metadata is not None:
            raise Declined
        return term(expression._child), expression._alias[0]
    found = term(expression)
    return found, found.parts[-1] if isinstance(found, Name) else None


def term(expression: Any) -> Term:
    """Of an expression of Spark Connect that needs no name."""
    read = _READ.get(type(expression).__name__)
    if read is None:
        raise Declined
    return read(expression)


def _column(expression: Any) -> Term:
    if expression._plan_id is not None or expression._is_metadata_column:
        raise Declined
    return Name(_parts(expression._unparsed_identifier))


def _star(expression: Any) -> Term:
    if expression._plan_id is not None:
        raise Declined
    target = expression._unparsed_target
    return Star() if target is None else Star(Name(_parts(target.removesuffix(".*"))))


def _function(expression: Any) -> Term:
    if expression._is_distinct and expression._name != "count":
        raise Declined
    name = "count_distinct" if expression._is_distinct else expression._name
    given = tuple(map(term, expression._args))
    return Call(name, (ONE,) if name == "count" and given == (Star(),) else given)


def _case(expression: Any) -> Term:
    given = [term(one) for branch in expression._branches for one in branch]
    return Call("when", (*given, *([term(expression._else_value)] if expression._else_value else ())))


def _cast(expression: Any) -> Term:
    if expression._eval_mode not in (None, "try", "legacy"):
        raise Declined
    kind = expression._data_type
    return Cast(term(expression._expr), type_of(kind) if isinstance(kind, str) else arrow_type(kind))


def _literal(expression: Any) -> Term:
    return Value(pa.scalar(expression._value, arrow_type(expression._dataType)))


def _lambda(expression: Any) -> Term:
    return Star()  # of `aggregate`, which is answered only where nothing is to be aggregated


def _extracted(expression: Any) -> Term:
    name = term(expression._extraction)
    if not isinstance(name, Value) or not pa.types.is_string(name.scalar.type):
        raise Declined
    return Call("field", (term(expression._child), name))


def _window(expression: Any) -> Term:
    spec, of = expression._windowSpec, term(expression._windowFunction)
    if not isinstance(of, Call) or any(type(one).__name__ != "SortOrder" for one in spec._orderSpec):
        raise Declined
    orders = tuple((term(one._child), one._ascending, one._nullsFirst) for one in spec._orderSpec)
    frame = None
    if spec._frame is not None:
        low, high = (None if abs(end) > _INT else end for end in (spec._frame._start, spec._frame._end))
        frame = spec._frame._isRowFrame, low, high
    return Window(of.function, of.given, tuple(map(term, spec._partitionSpec)), orders, frame)


def _work(expression: Any) -> Term:
    from pyspark.util import PythonEvalType

    function = expression._function
    if getattr(function, "_eval_type", None) != PythonEvalType.SQL_SCALAR_ARROW_ITER_UDF:
        raise Declined
    if len(expression._arguments) != 1:
        raise Declined
    return Work(function._func, function._output_type, term(expression._arguments[0]))


_READ: dict[str, Callable[[Any], Term]] = {
    "SQLExpression": lambda expression: named_of_text(expression._expr)[0],
    "ColumnAlias": lambda expression: term(expression._child),
    "ColumnReference": _column,
    "UnresolvedStar": _star,
    "UnresolvedFunction": _function,
    "CaseWhen": _case,
    "CastExpression": _cast,
    "LiteralExpression": _literal,
    "LambdaFunction": _lambda,
    "UnresolvedExtractValue": _extracted,
    "CommonInlineUserDefinedFunction": _work,
    "WindowExpression": _window,
}


@lru_cache(4096)
def _parts(text: str) -> tuple[str, ...]:
    if "`" not in text and "\x1f" not in text:
        return tuple(text.split("."))
    found = named_of_text(text)[0]
    if not isinstance(found, Name):
        raise Declined
    return found.parts


def columns_of(columns: Sequence[Any]) -> list[Named]:
    """Of PySpark's columns."""
    return [named(column._expr) for column in columns]
