"""SQL in `quality/*.yaml`: it is Spark's, and reaches what other SQL of a project reaches (X1).

It is read and written again, so that Spark gets what was looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from string import Formatter

from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import TokenError
from sqlglot.tokens import Token

from tidegate.sql.dialect.attempts import cut_all
from tidegate.sql.dialect.codes import error
from tidegate.sql.dialect.dialect import to_spark
from tidegate.sql.dialect.parsing import parse_expression, parse_query
from tidegate.sql.dialect.text import Text, node_span
from tidegate.sql.resolve.scope import check_functions, require_scalar

_BATCH = "batch"


def row_condition(sql: str) -> str:
    """A condition on one row. Raises TG102 and its like for what is none, TG221 for what reaches the machine."""
    text = Text(sql)
    node = parse_expression(text, _tokens(text))
    require_scalar(text, node, "in a condition on rows")
    check_functions(text, node)
    cut_all(root := exp.Paren(this=node))
    return to_spark(root.this)


def rows_query(sql: str) -> str:
    """A query that reads `{batch}`, the rows to check, and nothing else. Raises as `row_condition` does, TG201 for any
    other relation. The slot is that of Great Expectations, which formats the text: while the query is read, a name that
    it does not hold stands there."""
    place = "tidegate_batch"
    while place in sql.casefold():
        place += "_"
    text = Text(_with_place(sql, place).rstrip("; \t\r\n\v\f"))
    node = parse_query(text, _tokens(text))
    check_functions(text, node)
    own = {cte.alias.casefold() for cte in node.find_all(exp.CTE)} | {place}
    for table in node.find_all(exp.Table):
        if isinstance(table.this, exp.Anonymous):
            continue
        if table.args.get("db") or table.name.casefold() not in own:
            where = text.at(node_span(table))
            raise error(
                "TG201", f'"{table.name}" is not known here', where, "read {batch}: the rows to check"
            )
    cut_all(node)
    spelled = to_spark(node).replace("{", "{{").replace("}", "}}")
    return spelled.replace(f"`{place}`", "{batch}").replace(place, "{batch}")


#: Parameters of expectations that are SQL.
PARAMETERS: Mapping[str, Callable[[str], str]] = {
    "row_condition": row_condition,
    "unexpected_rows_query": rows_query,
}


def as_spark(arguments: Mapping[str, object]) -> dict[str, object]:
    """The arguments of an expectation, with its SQL as Spark gets it."""
    return {
        key: PARAMETERS[key](value) if key in PARAMETERS and isinstance(value, str) else value
        for key, value in arguments.items()
    }


def _with_place(sql: str, place: str) -> str:
    """The query as it is formatted, with a name for `{batch}`."""
    try:
        parts = list(Formatter().parse(sql))
    except ValueError as problem:
        raise error(
            "TG102", f"a brace is not closed: {problem}", None, "write {{ and }} for braces"
        ) from None
    for _, name, layout, conversion in parts:
        if name is not None and (name, layout, conversion) != (_BATCH, "", None):
            raise error("TG102", f"{{{name}}} is not known here", None, "write {{ and }} for braces")
    return "".join(before + ("" if name is None else place) for before, name, _, _ in parts)


def _tokens(text: Text) -> list[Token]:
    try:
        # Spark's own: "…" is a text there, as it has always been in these files.
        return list(Spark().tokenize(text.sql))
    except TokenError as problem:
        raise error("TG101", f"this is not SQL: {problem}", text.at((0, 0))) from None
