"""Errors that come from a ; that is missing: said where it is missing, or with a hint where that is only likely."""

from __future__ import annotations

from itertools import pairwise

from sqlglot.tokens import Token, TokenType

from tidegate.errors import TidegateError
from tidegate.sql.dialect.codes import error
from tidegate.sql.dialect.dialect import EMIT
from tidegate.sql.dialect.text import Text, token_span
from tidegate.sql.grammar.cursor import CLOSE, OPEN, is_word

#: Words that stand at the beginning of a line only where a statement begins.
BEGINS = ("CREATE", "ALTER", "INSERT", "UPDATE", "DELETE", "FLUSH", "DROP", "SHOW", "DESCRIBE", "EXPLAIN")
#: Words that begin a query, which may be a statement or a part of one.
_BEGINS_QUERY = ("SELECT", "WITH", "VALUES")
#: What can be the end of a statement, beside words.
_ENDS = (
    *(TokenType.IDENTIFIER, TokenType.NUMBER, TokenType.STRING, TokenType.STAR),
    *(TokenType.R_PAREN, TokenType.R_BRACKET, EMIT),
)
#: Words after which a statement goes on.
_GOES_ON = (
    *(
        "ALL",
        "AND",
        "AS",
        "BETWEEN",
        "BY",
        "CASE",
        "DISTINCT",
        "ELSE",
        "EXCEPT",
        "FROM",
        "HAVING",
        "IN",
        "INTERSECT",
    ),
    *(
        "INTO",
        "IS",
        "JOIN",
        "LIKE",
        "LIMIT",
        "NOT",
        "OFFSET",
        "ON",
        "OR",
        "SELECT",
        "SET",
        "THEN",
        "UNION",
        "USING",
    ),
    *("VALUES", "WHEN", "WHERE", "WITH"),
)
#: What names the object that a query defines: a query right behind the name lacks the word AS.
_NAMED_BY = ("VIEW", "SINK", "EXISTS")


def missing_semicolon(text: Text, before: Token, token: Token) -> TidegateError:
    """TG102 at the end of a statement, behind which another begins with `token`."""
    hint = f"end the statement before {token.text} with ;"
    return error("TG102", 'a ";" is missing after this', text.at((before.end, before.end)), hint)


def because_of_semicolon(text: Text, tokens: list[Token], refused: TidegateError) -> TidegateError | None:
    """What to say instead of `refused`, if the next statement begins at the place that could not be understood."""
    for before, token in pairwise(tokens):
        begins = (
            token.text.upper() in BEGINS and is_word(token) and "\n" in text.sql[before.end : token.start]
        )
        if begins and text.at(token_span(token)) == refused.location:
            return missing_semicolon(text, before, token)
    return _query_behind(text, tokens, refused)


def _query_behind(text: Text, tokens: list[Token], refused: TidegateError) -> TidegateError | None:
    """The same error with a hint, if a query stands where the statement may be complete."""
    if refused.code != "TG102" or refused.hint is not None:
        return None
    depth = 0
    for i, token in enumerate(tokens):
        depth += (token.token_type in OPEN) - (token.token_type in CLOSE)
        if text.at(token_span(token)) != refused.location:
            continue
        begins = is_word(token) and token.text.upper() in _BEGINS_QUERY
        if not begins or depth or i == 0 or not _may_end(tokens[:i]):
            return None
        hint = f"is a ; missing before {token.text}?"
        return TidegateError(refused.code, refused.message, hint=hint, location=refused.location)
    return None


def _may_end(tokens: list[Token]) -> bool:
    """Whether a statement may be complete with the last of these tokens."""
    last = tokens[-1]
    if len(tokens) > 1 and tokens[-2].text.upper() in _NAMED_BY:
        return False
    return last.token_type in _ENDS or (is_word(last) and last.text.upper() not in _GOES_ON)
