"""Nothing is silently ignored: what the parser made of a piece of text, written out again, must hold every
word of it and mean the same.

sqlglot reads many dialects and drops some clauses on the floor; this is the guard.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from sqlglot import exp
from sqlglot.errors import ErrorLevel, ParseError
from sqlglot.tokens import Token, TokenType

from tidegate.sql.dialect import dialect
from tidegate.sql.dialect.codes import error
from tidegate.sql.dialect.text import Text, node_span, token_span
from tidegate.sql.dialect.warnings import warn

# Words that say nothing: they may come and go.
_NOISE = frozenset(
    ["AS", "INNER", "OUTER", "ASC", "ALL", "ROW", "FROM", "FOR", "IN", "BY", "TABLE", "LATERAL"]
)
# Words that come back as something else.
_SAME = {
    **dict.fromkeys(("INTEGER", "INT4"), "INT"),
    **dict.fromkeys(("VARCHAR", "TEXT", "CHARACTER", "CHAR", "JSON", "JSONB"), "STRING"),
    "FLOAT8": "DOUBLE",
    **dict.fromkeys(("REAL", "FLOAT4"), "FLOAT"),
    **dict.fromkeys(("NUMERIC", "DEC"), "DECIMAL"),
    **dict.fromkeys(("BYTEA", "VARBINARY"), "BINARY"),
    **dict.fromkeys(("INT2", "SHORT"), "SMALLINT"),
    **dict.fromkeys(("INT8", "LONG"), "BIGINT"),
    "BYTE": "TINYINT",
    "BOOL": "BOOLEAN",
    **dict.fromkeys(("TIMESTAMP_LTZ", "TIMESTAMP_NTZ", "TIMESTAMPTZ"), "TIMESTAMP"),
    "RLIKE": "REGEXP_LIKE",
    "REGEXP": "REGEXP_LIKE",
    "MINUS": "EXCEPT",
}
# `1L` is spelled out; the others are part of a type's name.
_OPTIONAL = frozenset(
    [
        "BOTH",
        "LEADING",
        "TRAILING",
        "TRIM",
        "PLACING",
        "WITHOUT",
        "WITH",
        "TIME",
        "ZONE",
        "PRECISION",
        "VARYING",
        "L",
        "S",
        "Y",
        "D",
        "F",
        "BD",
        # DESC NULLS LAST is what DESC means anyway; the tree knows, and has to read back as itself.
        "NULLS",
        "FIRST",
        "LAST",
    ]
)
_UNITS = re.compile(r"^(MICROSECOND|MILLISECOND|SECOND|MINUTE|HOUR|DAY|WEEK|MONTH|QUARTER|YEAR)S?$")
_CLOSERS = (TokenType.FROM, TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.COMMA)
_AFTER_GROUP_BY = (TokenType.HAVING, TokenType.ORDER_BY, TokenType.LIMIT, TokenType.UNION)
_SIGNIFICANT = (TokenType.STRING, TokenType.NUMBER, TokenType.IDENTIFIER)
#: An escape that means something, or what follows a backslash that means nothing.
_ESCAPE = re.compile(
    r"\\(?:[0bnrtZ'\"\\%_]|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[01][0-7]{2}|(?P<lost>.))", re.DOTALL
)


class _Rereader(dialect.TidegateParser):
    """Of what is read to be compared, nobody asks where it stands."""

    def _spanned(self, parse: Callable[[], exp.Expr | None]) -> exp.Expr | None:
        return parse()


def check_round_trip(
    text: Text, span: list[Token], node: exp.Expr, rule: Callable[[Any], exp.Expr | None]
) -> None:
    """Raises TG105 at the first token of `span` that is not in `node`, or if `node` does not read back as
    itself."""
    found = list(node.find_all(exp.Command, exp.Alias))
    if opaque := next((one for one in found if isinstance(one, exp.Command)), None):
        raise error("TG105", f"not understood: {opaque.sql()}", text.at(token_span(span[0])))
    _check_commas(text, span)
    for alias in found:
        if isinstance(alias.parent, exp.Paren):
            where = text.at(node_span(alias.args["alias"]))
            raise error(
                "TG102", f'unexpected "{alias.alias}"', where, "an alias is not allowed inside parentheses"
            )
    written = dialect.to_text(node)
    again = dialect.tokenize(Text(written))
    have = Counter(word for token in again for word in _words(token.token_type, token.text))
    for token in span:
        for word in _words(token.token_type, token.text):
            have[word] -= 1
            if have[word] < 0 and not _may_vanish(token, word):
                raise error("TG105", f'"{token.text}" is not understood here', text.at(token_span(token)))
    try:
        parser = _Rereader(error_level=ErrorLevel.IMMEDIATE, dialect=dialect.TIDEGATE)
        same = parser._parse(rule, again, written) == [node]
    except ParseError:
        same = False
    if not same:
        raise error(
            "TG105",
            "tidegate and Spark would not read this in the same way",
            text.at(token_span(span[0], span[-1])),
        )
    _warn_of_lost_backslashes(text, span)


def _check_commas(text: Text, span: list[Token]) -> None:
    """sqlglot forgives a comma too many and an operator without an operand; Spark and PostgreSQL don't."""
    for token, following in zip(span, [*span[1:], None], strict=True):
        next_type = following.token_type if following is not None else None
        dangling = next_type is None or next_type in _CLOSERS
        if token.token_type is TokenType.SELECT and (dangling or next_type is TokenType.GROUP_BY):
            raise error(
                "TG102",
                "SELECT without columns",
                text.at(token_span(token)),
                "write SELECT * to select all columns",
            )
        if token.token_type is TokenType.GROUP_BY and (dangling or next_type in _AFTER_GROUP_BY):
            raise error("TG102", f'nothing follows this "{token.text}"', text.at(token_span(token)))
        if dangling and token.token_type in (TokenType.COMMA, TokenType.PLUS, TokenType.DASH):
            raise error("TG102", f'nothing follows this "{token.text}"', text.at(token_span(token)))


def _warn_of_lost_backslashes(text: Text, span: list[Token]) -> None:
    """TG908 for each text with a backslash of which nothing is left: in a pattern it was hardly meant so."""
    for token in span:
        if token.token_type is not TokenType.STRING or "\\" not in (written := text.slice(token_span(token))):
            continue
        lost = [found["lost"] for found in _ESCAPE.finditer(written) if found["lost"] is not None]
        if lost:
            message = f"\\{lost[0]} in a text is only {lost[0]}, as in Spark: the backslash is lost"
            hint = "for a pattern write r'…', in which backslashes are what they are, or two backslashes for each one"
            warn("TG908", message, text.at(token_span(token)), hint)


@lru_cache(4096)
def _words(kind: TokenType, text: str) -> tuple[str, ...]:
    """A token as the words that must come back; signs and brackets are the parser's business."""
    if kind in (TokenType.STRING, TokenType.RAW_STRING):
        # INTERVAL '5 seconds' comes back as INTERVAL '5' SECONDS.
        return tuple(w.upper() for w in text.split()) or ("''",)
    if kind in _SIGNIFICANT:
        return (text.upper(),)
    return tuple(_SAME.get(w, w) for w in re.findall(r"\w+(?:\.\w+)*", text.upper()))


def _may_vanish(token: Token, word: str) -> bool:
    if token.token_type in _SIGNIFICANT:
        return False
    return word in _NOISE or word in _OPTIONAL or bool(_UNITS.match(word))
