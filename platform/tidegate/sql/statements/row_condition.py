"""A condition on the rows of a source's log, for those who change what is stored by it: `tidegate erase … WHERE …`."""

from __future__ import annotations

from collections.abc import Mapping
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
class RowsCondition:
    """`text`: as it was written. `sql`: Spark SQL over stored rows, NULL where a row does not tell. `columns`: those
    that it names, as the rows call them. `values`: the texts in it."""

    text: str
    sql: str
    columns: tuple[str, ...]
    values: tuple[str, ...] = ()


def log_condition(sql: str, relation: Relation, place: str) -> RowsCondition:
    """What a condition says of the rows of a relation's log. It gives the same at every look: no clock, no chance, no
    other relation. Raises TG1xx and TG2xx. `place`: what errors call the text."""
    columns = [ScopeColumn(column.name, known(column.type)) for column in relation.columns]
    return _condition(sql, relation, place, (*columns, *scope_columns(relation)))


def passed_condition(sql: str, relation: Relation, place: str, names: Mapping[str, str]) -> RowsCondition:
    """What it says of rows that have the relation's columns under other names: by those in the relation, `names`."""
    columns = [
        ScopeColumn(names[column.name], known(column.type), written=column.name)
        for column in relation.columns
        if column.name in names
    ]
    return _condition(sql, relation, place, tuple(columns))


def _condition(sql: str, relation: Relation, place: str, columns: tuple[ScopeColumn, ...]) -> RowsCondition:
    text = Text(sql, place)
    node = parse_expression(text, tokenize(text))
    what = f'in {relation.kind} "{relation.name}"'
    scope = ColumnScope(text, columns, frozenset([relation.name.casefold()]), what)
    resolved = scope.resolve(node)
    require_scalar(text, resolved, "in WHERE")
    require_type(text, node, scope.type(resolved), ("boolean",), "WHERE")
    named = dict.fromkeys(column.name for column in resolved.find_all(exp.Column))
    values = dict.fromkeys(one.this for one in resolved.find_all(exp.Literal) if one.is_string)
    return RowsCondition(sql, safe_sql(resolved, scope.lookup), tuple(named), tuple(values))
