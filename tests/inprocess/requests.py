"""What goes to Sail, in the words that it knows for what Spark is asked."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

from tidegate.sql.dialect.attempts import without_attempts

#: Spark's functions that are NULL where an operator overflows. Sail has them for whole numbers only; over other types,
#: where it says so, the operator is asked itself: floats don't overflow, and decimals are NULL there by themselves.
_OPERATORS = {"try_add": "+", "try_subtract": "-", "try_multiply": "*", "try_divide": "/"}
_UNSUPPORTED = re.compile(
    r"Unsupported Data Type: Spark `(?:spark_)?(try_\w+)`|`retract_batch` is not implemented: (try_\w+)\("
)
#: Aggregates whose result is NULL where it overflows. Over a frame that moves, Sail has only those whose result wraps.
_AGGREGATES = {"try_sum": "sum", "try_avg": "avg"}
_INSTEAD = _OPERATORS | _AGGREGATES
#: An inner name, or something that is quoted already.
_INNER = re.compile(r"`[^`]*`|'(?:[^'\\]|\\.)*'|[\x1f\w]*\x1f\w+")


class Stub:
    """A client's stub whose requests are rewritten."""

    def __init__(self, stub: Any) -> None:
        self._stub = stub

    def __getattr__(self, name: str) -> Any:
        asked = getattr(self._stub, name)
        if name == "ExecutePlan":
            return lambda request, *given, **more: _answered(
                request, lambda: _all_of(asked(request, *given, **more))
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
            if named is None:
                raise
            name = named.group(1) or named.group(2)
            if name in plain or name not in _INSTEAD:
                raise
            plain |= {name}
            _rewrite(request, plain)


def _all_of(answers: Iterator[Any]) -> Iterator[Any]:
    """The answers, when all of them are there: some are refused on the way."""
    return iter(list(answers))


def _rewrite(message: Any, plain: frozenset[str]) -> None:
    """`plain`: functions of `_INSTEAD` to ask as what they have there."""
    kind = message.DESCRIPTOR.name
    if kind == "UnresolvedFunction" and message.function_name in plain:
        message.function_name = _INSTEAD[message.function_name]
    elif kind == "UnresolvedAttribute":
        message.unparsed_identifier = quoted(message.unparsed_identifier)
    elif kind == "UnresolvedStar" and message.unparsed_target:
        message.unparsed_target = quoted(message.unparsed_target)
    for field, value in message.ListFields():
        if field.type == field.TYPE_MESSAGE:
            if field.message_type.GetOptions().map_entry:
                continue
            for one in value if field.is_repeated else [value]:
                _rewrite(one, plain)
        elif field.name in ("query", "expression") and isinstance(value, str):
            text = _with_operators(without_attempts(quoted(value)), plain)
            if text != value:
                setattr(message, field.name, text)


def quoted(text: str) -> str:
    """With quotes around inner names, which Spark takes without."""
    if "\x1f" not in text:
        return text
    return _INNER.sub(lambda found: f"`{found[0]}`" if found[0][0] not in "`'" else found[0], text)


def _with_operators(sql: str, plain: frozenset[str]) -> str:
    """`try_add(a, b)` as `((a) + (b))`, `try_sum(a)` as `sum(a)`."""
    if not any(name in sql for name in plain):
        return sql
    from tidegate.sql.dialect.attempts import _closed
    from tidegate.sql.dialect.dialect import SparkText

    tokens = SparkText().tokenize(sql)
    edits: list[tuple[int, int, str]] = []
    for i, token in enumerate(tokens):
        name = token.text.lower()
        if name in plain & _AGGREGATES.keys():
            edits.append((token.start, token.end + 1, _AGGREGATES[name]))
        elif name in plain and i + 1 < len(tokens) and tokens[i + 1].text == "(":
            end, commas = _closed(tokens, i + 1)
            comma = tokens[commas[0]]
            edits += [
                (token.start, tokens[i + 1].end + 1, "(("),
                (comma.start, comma.end + 1, f") {_OPERATORS[name]} ("),
                (tokens[end].start, tokens[end].end + 1, "))"),
            ]
    made, at = [], 0
    for start, stop, text in sorted(edits):
        made += [sql[at:start], text]
        at = stop
    return "".join([*made, sql[at:]])
