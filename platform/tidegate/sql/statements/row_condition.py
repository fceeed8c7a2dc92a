"""A condition on the rows of a source's log, for those who change the log by it: `tidegate erase … WHERE …`."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from tidegate.sql.catalog.objects import Relation
from tidegate.sql.dialect.dialect import tokenize
from tidegate.sql.dialect.parsing import parse_expression
from tidegate.sql.dialect.rewrite import safe_sql
from tidegate.sql.dialect.text import Text
from tidegate.sql.resolve.hidden import scope_columns
from tidegate.sql.resolve.scope import ColumnScope, ScopeColumn, known, require_scalar, require_type


@dataclass(frozen=True)
class LogCondition:
    """`text`: as it was written. `sql`: Spark SQL over the log's rows, NULL where a row does not tell. `columns`: those
    of the relation that it names."""

    text: str
    sql: str
    columns: tuple[str, ...]


def log_condition(sql: str, relation: Relation, place: str) -> LogCondition:
    """What a condition says of a relation's rows. It gives the same at every look: no clock, no chance, no other
    relation. Raises TG1xx and TG2xx. `place`: what errors call the text."""
    text = Text(sql, place)
    node = parse_expression(text, tokenize(text))
    columns = [ScopeColumn(column.name, known(column.type)) for column in relation.columns]
    scope = ColumnScope(
        text,
        (*columns, *scope_columns(relation)),
        frozenset([relation.name.casefold()]),
        f'in {relation.kind} "{relation.name}"',
    )
    resolved = scope.resolve(node)
    require_scalar(text, resolved, "in WHERE")
    require_type(text, node, scope.type(resolved), ("boolean",), "WHERE")
    named = dict.fromkeys(column.name for column in resolved.find_all(exp.Column))
    return LogCondition(sql, safe_sql(resolved, scope.lookup), tuple(named))
