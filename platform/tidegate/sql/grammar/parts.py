"""Parts of a SELECT that a view does not have: what they are called, where their word stands, what to write instead."""

from __future__ import annotations

from itertools import pairwise

from sqlglot import exp
from sqlglot.tokens import TokenType

from tidegate.errors import Location
from tidegate.sql.dialect.codes import unsupported
from tidegate.sql.dialect.dialect import tokenize
from tidegate.sql.dialect.text import Text, node_span, token_span

_PARTS = {
    "having": "HAVING",
    "order": "ORDER BY",
    "limit": "LIMIT",
    "offset": "OFFSET",
    "distinct": "DISTINCT",
    "joins": "JOIN",
    "group": "GROUP BY",
    "laterals": "LATERAL",
    "qualify": "QUALIFY",
    "windows": "WINDOW",
    "sort": "SORT BY",
    "cluster": "CLUSTER BY",
    "distribute": "DISTRIBUTE BY",
    "hint": "a hint",
    "pivots": "PIVOT",
    "sample": "TABLESAMPLE",
    "exclude": "EXCEPT",
    "into": "INTO",
    "kind": "SELECT AS",
    "version": "time travel",
    "when": "time travel",
}
_QUOTED = (TokenType.STRING, TokenType.IDENTIFIER)
_INSTEAD = {
    "order": (
        "use ORDER BY when you read the view; EMIT ON WINDOW CLOSE releases rows in the order of event time"
    ),
    "limit": "use row_number() OVER (PARTITION BY window_start ORDER BY …) in a subquery, and WHERE … <= n",
    "offset": "number the rows with row_number() OVER (…) in a subquery",
    "qualify": "write SELECT … FROM (SELECT …, row_number() OVER (…) AS n FROM …) WHERE n = 1",
    "sort": "use ORDER BY when you read the view",
    "version": "FOR SYSTEM_TIME AS OF PROCTIME() is only allowed after a joined table",
}


def refuse_arguments(text: Text, node: exp.Expr, allowed: tuple[str, ...], where: str = "in a view") -> None:
    """TG106 for every part of a query that is not in `allowed`."""
    for key, value in node.args.items():
        if key in allowed or not value:
            continue
        name = _PARTS.get(key, key.upper())
        part = value[0] if isinstance(value, list) else value
        if isinstance(part, exp.Hint):
            # The parser reads a hint apart, and counts its offsets from there.
            raise unsupported(f"{name} {where}", keyword_location(text, node.expressions[0], "/*+"))
        location = (
            keyword_location(text, part, name) if isinstance(part, exp.Expr) else text.at(node_span(node))
        )
        raise unsupported(f"{name} {where}", location, _INSTEAD.get(key))


def keyword_location(text: Text, part: exp.Expr, word: str) -> Location:
    """The last `word` in front of a part of the query (or where that starts), in the same statement; the part itself if
    there is none."""
    start, end = node_span(part)
    before = [token for token in tokenize(text) if token.start <= start]
    for token in reversed(before):
        if token.token_type is TokenType.SEMICOLON:
            break
        # Not by offsets in a text in upper case: "ß" has two letters there.
        if token.token_type not in _QUOTED and token.text.upper().startswith(word):
            return text.at((token.start, min(token.end, token.start + len(word) - 1)))
    return text.at((start, end))


def group_by_all(text: Text, select: exp.Select) -> Location:
    """The ALL of a SELECT's GROUP BY ALL: it leaves no place of its own in the tree."""
    start, _ = node_span(select)
    tokens = [token for token in tokenize(text) if token.start >= start]
    pairs = pairwise(tokens)
    found = next(b for a, b in pairs if a.token_type is TokenType.GROUP_BY and b.token_type is TokenType.ALL)
    return text.at(token_span(found))
