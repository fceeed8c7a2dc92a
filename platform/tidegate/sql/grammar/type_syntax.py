"""Types in column definitions, read token by token so that a caret can stand under the wrong one of many."""

from __future__ import annotations

from sqlglot.tokens import TokenType

from tidegate.errors import did_you_mean
from tidegate.sql.dialect.codes import error
from tidegate.sql.dialect.text import token_span
from tidegate.sql.dialect.types import (
    ABSENT,
    DECIMAL_DEFAULT,
    NAMES,
    NESTED,
    TIMESTAMP,
    TIMESTAMPTZ,
    SparkType,
    decimal_problem,
)
from tidegate.sql.grammar.cursor import Cursor


def read_type(cursor: Cursor) -> SparkType:
    """The type at the cursor. Raises TG207 for an unknown one, TG208 for one that tidegate does not have."""
    type_ = _base_type(cursor)
    while cursor.accept_sign(TokenType.L_BRACKET):
        cursor.expect_sign(TokenType.R_BRACKET, "]", "[")
        type_ = SparkType("array", args=(type_,))
    return type_


def _base_type(cursor: Cursor) -> SparkType:
    token = cursor.peek()
    word = cursor.word()
    if not word or token is None:
        cursor.fail("expected a type")
    where = cursor.here()
    if word in NESTED:
        cursor.index += 1
        return _nested(cursor, word)
    # sqlglot's tokenizer joins some names of two words.
    word = {"CHAR VARYING": "CHARACTER VARYING"}.get(word, word)
    if word in NAMES:
        cursor.index += 1
        if word in ("TIMESTAMP", "NUMERIC", "DECIMAL", "DEC"):
            return _timestamp(cursor) if word == "TIMESTAMP" else _decimal(cursor)
        if (length := cursor.peek()) is not None and length.token_type is TokenType.L_PAREN:
            hint = f"write {word}: strings have no limit of length" if str(NAMES[word]) == "string" else None
            raise error("TG208", f"{word} takes no length", cursor.here(), hint)
        return NAMES[word]
    if word in ABSENT:
        raise error("TG208", f"there is no type {word}", where, ABSENT[word])
    hint = did_you_mean(word, [*NAMES, *NESTED])
    raise error("TG207", f'unknown type "{token.text}"', where, hint)


def _timestamp(cursor: Cursor) -> SparkType:
    token = cursor.peek()
    if token is not None and token.token_type is TokenType.L_PAREN:
        hint = "write TIMESTAMP: it always has microseconds"
        raise error("TG208", "TIMESTAMP takes no precision", cursor.here(), hint)
    if cursor.accept("WITH", "TIME", "ZONE"):
        return TIMESTAMPTZ
    cursor.accept("WITHOUT", "TIME", "ZONE")
    return TIMESTAMP


def _decimal(cursor: Cursor) -> SparkType:
    start = cursor.index
    if not cursor.accept_sign(TokenType.L_PAREN):
        return SparkType("decimal", DECIMAL_DEFAULT)
    numbers = [_number(cursor)]
    if cursor.accept_sign(TokenType.COMMA):
        numbers.append(_number(cursor))
    cursor.expect_sign(TokenType.R_PAREN, ")")
    precision, scale = (*numbers, 0)[:2]
    if problem := decimal_problem(precision, scale):
        raise error("TG208", problem, cursor.text.at(cursor.span_since(start)))
    return SparkType("decimal", (precision, scale))


def _number(cursor: Cursor) -> int:
    token = cursor.peek()
    if token is None or token.token_type is not TokenType.NUMBER or not token.text.isdigit():
        cursor.fail("expected a number")
    return int(cursor.take().text)


def _nested(cursor: Cursor, word: str) -> SparkType:
    cursor.expect_sign(TokenType.LT, "<", word)
    if word == "ARRAY":
        inner = SparkType("array", args=(read_type(cursor),))
    elif word == "MAP":
        key = read_type(cursor)
        cursor.expect_sign(TokenType.COMMA, ",", "the key's type")
        inner = SparkType("map", args=(key, read_type(cursor)))
    else:
        inner = _struct(cursor)
    token = cursor.peek()
    if token is None or token.token_type is not TokenType.GT:
        missing = word == "STRUCT" and cursor.word()
        cursor.fail('expected "," or ">"', "is a comma missing?" if missing else None)
    cursor.index += 1
    return inner


def _struct(cursor: Cursor) -> SparkType:
    fields: list[str] = []
    types: list[SparkType] = []
    while True:
        token = cursor.peek()
        name = cursor.name("the name of a field")
        if name.text.casefold() in (f.casefold() for f in fields) and token is not None:
            where = cursor.text.at(token_span(token))
            raise error("TG206", f'field "{name.text}" is given twice', where)
        cursor.accept_sign(TokenType.COLON)
        fields.append(name.text)
        types.append(read_type(cursor))
        if not cursor.accept_sign(TokenType.COMMA):
            return SparkType("struct", args=tuple(types), fields=tuple(fields))
