"""What goes to Sail, in the words that it knows for what Spark is asked."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import chain, islice
from typing import Any

from tidegate.sql.dialect.attempts import without_attempts

#: Spark's functions that are NULL where an operator overflows. Sail has them for whole numbers only; over other types,
#: where it says so, the operator is asked itself: floats don't overflow, and decimals are NULL there by themselves.
_OPERATORS = {"try_add": "+", "try_subtract": "-", "try_multiply": "*", "try_divide": "/"}
_UNSUPPORTED = re.compile(r"Unsupported Data Type: Spark `(?:spark_)?(try_\w+)`")


class Stub:
    """A client's stub whose requests are rewritten."""

    def __init__(self, stub: Any) -> None:
        self._stub = stub

    def __getattr__(self, name: str) -> Any:
        asked = getattr(self._stub, name)
        if name == "ExecutePlan":
            return lambda request, *given, **more: _answered(
                request, lambda: _started(asked(request, *given, **more))
            )
        if name == "AnalyzePlan":
            return lambda request, *given, **more: _answered(request, lambda: asked(request, *given, **more))
        return asked


def _answered(request: Any, ask: Callable[[], Any]) -> Any:
    from grpc import RpcError

    _rewrite(request, frozenset())
    plain: frozenset[str] = frozenset()
    while True:
        try:
            return ask()
        except RpcError as error:
            named = _UNSUPPORTED.search(str(error))
            if named is None or named.group(1) in plain or named.group(1) not in _OPERATORS:
                raise
            plain |= {named.group(1)}
            _rewrite(request, plain)


def _started(answers: Iterator[Any]) -> Iterator[Any]:
    """The answers, when the first one is there: what is refused is refused by then."""
    return chain(list(islice(answers, 1)), answers)


def _rewrite(message: Any, plain: frozenset[str]) -> None:
    """`plain`: functions of `_OPERATORS` to ask as operators."""
    kind = message.DESCRIPTOR.name
    if kind == "UnresolvedFunction" and message.function_name in plain:
        message.function_name = _OPERATORS[message.function_name]
    elif kind == "UnresolvedAttribute" and "\x1f" in message.unparsed_identifier:
        name = message.unparsed_identifier
        if "`" not in name:
            message.unparsed_identifier = ".".join(f"`{part}`" for part in name.split("."))
    for field, value in message.ListFields():
        if field.type == field.TYPE_MESSAGE:
            if field.message_type.GetOptions().map_entry:
                continue
            for one in value if field.is_repeated else [value]:
                _rewrite(one, plain)
        elif field.name in ("query", "expression") and isinstance(value, str):
            text = _with_operators(without_attempts(value), plain)
            if text != value:
                setattr(message, field.name, text)


def _with_operators(sql: str, plain: frozenset[str]) -> str:
    """`try_add(a, b)` as `((a) + (b))`."""
    if not any(name in sql for name in plain):
        return sql
    from tidegate.sql.dialect.attempts import _closed
    from tidegate.sql.dialect.dialect import SparkText

    tokens = SparkText().tokenize(sql)
    edits: list[tuple[int, int, str]] = []
    for i, token in enumerate(tokens):
        if token.text.lower() in plain and i + 1 < len(tokens) and tokens[i + 1].text == "(":
            end, commas = _closed(tokens, i + 1)
            comma = tokens[commas[0]]
            edits += [
                (token.start, tokens[i + 1].end + 1, "(("),
                (comma.start, comma.end + 1, f") {_OPERATORS[token.text.lower()]} ("),
                (tokens[end].start, tokens[end].end + 1, "))"),
            ]
    made, at = [], 0
    for start, stop, text in sorted(edits):
        made += [sql[at:start], text]
        at = stop
    return "".join([*made, sql[at:]])
