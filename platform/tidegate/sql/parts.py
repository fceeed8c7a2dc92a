"""Parts of a SELECT that a view does not have: what they are called, where their word stands, what to write instead."""

from __future__ import annotations

from sqlglot import exp

from tidegate.errors import Location
from tidegate.sql.codes import unsupported
from tidegate.sql.text import Text, node_span

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
_INSTEAD = {
    "order": "order when you read the view; EMIT ON WINDOW CLOSE releases rows in event time",
    "limit": "row_number() OVER (PARTITION BY window_start ORDER BY …) in a subquery, and WHERE … <= n",
    "offset": "number the rows with row_number() OVER (…) in a subquery",
    "qualify": "SELECT … FROM (SELECT …, row_number() OVER (…) AS n FROM …) WHERE n = 1",
    "sort": "order when you read the view",
    "version": "FOR SYSTEM_TIME AS OF PROCTIME() stands behind a table that is joined",
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
    """The last `word` before a part of the query; where the part itself starts if there is none."""
    start, end = node_span(part)
    before = text.sql.upper().rfind(word, 0, start + 1)
    if before < 0 or ";" in text.sql[before:start]:
        return text.at((start, end))
    return text.at((before, before + len(word) - 1))
