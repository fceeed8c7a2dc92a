"""Expressions and queries from their tokens, as trees; what is not understood is an error with a hint."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from sqlglot import exp
from sqlglot import parser as library
from sqlglot.errors import ErrorLevel
from sqlglot.tokens import Token, TokenType

from tidegate.errors import Location, TidegateError, did_you_mean
from tidegate.sql.dialect.codes import error, unsupported
from tidegate.sql.dialect.dialect import TIDEGATE, Later, NotUnderstood, TidegateParser
from tidegate.sql.dialect.roundtrip import check_round_trip
from tidegate.sql.dialect.text import Text, token_span
from tidegate.sql.dialect.types import ABSENT, NAMES

# What a misspelt word in a query may have been meant to be.
_CLAUSES = (
    *(
        "FROM",
        "WHERE",
        "GROUP",
        "GROUP BY",
        "HAVING",
        "ORDER",
        "ORDER BY",
        "LIMIT",
        "OFFSET",
        "JOIN",
        "INNER",
    ),
    *("LEFT", "RIGHT", "FULL", "OUTER", "CROSS", "ON", "USING", "UNION", "INTERSECT", "EXCEPT", "PARTITION"),
    *("PARTITION BY", "QUALIFY", "NULLS FIRST", "NULLS LAST", "ASC", "DESC", "BETWEEN", "ESCAPE"),
)
# What can stand before a clause.
_ENDS = (
    *(TokenType.VAR, TokenType.IDENTIFIER, TokenType.NUMBER, TokenType.STRING, TokenType.STAR),
    *(TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.END, TokenType.NULL, TokenType.TRUE, TokenType.FALSE),
)


def is_interpreted() -> bool:
    """Whether sqlglot's parser is Python, as its classes must be for those here to inherit from them."""
    return str(library.__file__).endswith(".py")


def parse_expression(text: Text, span: list[Token]) -> exp.Expr:
    """One scalar expression that takes all of these tokens. Raises TG102 at the token that it does not
    understand, TG105 for parts that sqlglot drops."""
    # Not _parse_expression: it would take a word too many for an alias.
    return _parse(text, span, TidegateParser._parse_disjunction)


def parse_query(text: Text, span: list[Token]) -> exp.Expr:
    """One query (SELECT, WITH, VALUES, set operations) that takes all of these tokens. Raises like
    `parse_expression`."""
    return _parse(text, span, TidegateParser._parse_query)


def _parse(text: Text, span: list[Token], rule: Callable[[Any], exp.Expr | None]) -> exp.Expr:
    parser = TidegateParser(error_level=ErrorLevel.IMMEDIATE, dialect=TIDEGATE)
    try:
        nodes = parser._parse(rule, span, text.sql)
        if len(nodes) == 1 and nodes[0] is not None:
            check_round_trip(text, span, nodes[0], rule)
            return nodes[0]
    except Later as problem:
        raise unsupported(str(problem), text.at(problem.span), problem.instead) from None
    except NotUnderstood as problem:
        raise _syntax_error(text, span, problem) from None
    except RecursionError:
        raise too_deep(text.at(token_span(span[0]))) from None
    raise error("TG102", "expected an expression", text.at(token_span(span[0])))


def too_deep(where: Location) -> TidegateError:
    """TG102 for what Python can't walk through."""
    return error(
        "TG102",
        "this is nested too deeply",
        where,
        "use IN (…) for many values, and a view of its own for a part of the expression",
    )


def _syntax_error(text: Text, span: list[Token], problem: NotUnderstood) -> Exception:
    index = next((i for i, t in enumerate(span) if t.start == problem.span[0]), len(span) - 1)
    token = span[index]
    found = text.slice(token_span(token))
    message = re.sub(r" but got .*|\.$", "", str(problem))
    message = re.sub(r"^Expecting (\W)$", r'expected "\1"', message)
    hint = None
    if found != "$" and (misspelt := _misspelt(span, index)) is not None:
        word, hint = misspelt
        return error("TG104", f'"{word.text}" in a query', text.at(token_span(word)), hint)
    if message.startswith("expected") and _starts_a_value(token):
        hint = "is a comma missing?"
    if message.startswith("Expected END"):
        message, hint = "this CASE has no END", "CASE WHEN … THEN … ELSE … END"
    elif message.startswith(("Invalid expression", "Required keyword")):
        message = f'unexpected "{found}"'
    else:
        message = f'{message[0].lower()}{message[1:]}, found "{found}"'
    if "TYPE" in str(problem):
        message, hint = f'unknown type "{found}"', did_you_mean(found, NAMES) or ABSENT.get(found.upper())
        return error("TG207", message, text.at(problem.span), hint)
    if found == "$":
        hint = 'write names that contain $ in double quotes: "flights$late"'
    return error("TG102", message, text.at(problem.span), hint)


def _misspelt(span: list[Token], index: int) -> tuple[Token, str] | None:
    """The word at fault, and a hint, if the parser stumbled over a misspelt clause: `FROM t WEHRE id` takes WEHRE
    for an alias and stumbles one word later."""
    for at in (index - 1, index):
        word = span[at] if at >= 0 else None
        if word is None or word.token_type is not TokenType.VAR or word.text.upper() in _CLAUSES:
            continue
        by = at + 1 < len(span) and span[at + 1].text.upper() == "BY"
        # A clause follows something that is complete; `orders` is a name, `ORDERS BY` is not.
        if not by and (at == 0 or span[at - 1].token_type not in _ENDS or word.text.upper()[:-1] in _CLAUSES):
            continue
        if hint := did_you_mean(word.text, _CLAUSES, cutoff=0.7):
            return word, hint
    return None


def _starts_a_value(token: Token) -> bool:
    return token.token_type in (
        TokenType.VAR,
        TokenType.IDENTIFIER,
        TokenType.NUMBER,
        TokenType.STRING,
        TokenType.INTERVAL,
    )
