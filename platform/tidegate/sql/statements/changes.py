"""UPDATE and DELETE: which rows of the table become which changes. Both read the table as SELECT shows it, and each row
that they find is one change, which the gate judges like any other (T1)."""

from __future__ import annotations

import re

from sqlglot import exp

from tidegate.errors import did_you_mean
from tidegate.sql.catalog.catalog import Catalog
from tidegate.sql.catalog.objects import CatalogColumn, Relation, View
from tidegate.sql.dialect.codes import error
from tidegate.sql.dialect.dialect import to_spark
from tidegate.sql.dialect.text import Text, node_span
from tidegate.sql.grammar.syntax import DeleteSyntax, Name, UpdateSyntax
from tidegate.sql.resolve.scope import aggregates, name_location
from tidegate.sql.statements.queries import QueryAnalysis
from tidegate.sql.statements.statements import Change


def analyse_update(text: Text, syntax: UpdateSyntax, catalog: Catalog) -> Change:
    """Raises TG201, TG202, TG206, TG210, TG213."""
    table = _table(text, syntax.table, catalog, "UPDATE")
    values: dict[str, exp.Expr] = {}
    for name, value in syntax.assignments:
        column = _assigned(text, name, table)
        if column.name in values:
            raise error("TG206", f'column "{column.name}" is given twice', text.at(name.span))
        values[column.name] = value
    return _change(text, syntax.table, table, catalog, "upsert", "updated", values, syntax.where)


def analyse_delete(text: Text, syntax: DeleteSyntax, catalog: Catalog) -> Change:
    """Raises TG201, TG202, TG210, TG213."""
    table = _table(text, syntax.table, catalog, "DELETE")
    return _change(text, syntax.table, table, catalog, "delete", "deleted", {}, syntax.where)


def _table(text: Text, name: Name, catalog: Catalog, statement: str) -> Relation:
    """The table, or TG213: only rows with a key can be changed."""
    where = text.at(name.span)
    found = catalog.get(name.text, where)
    if not isinstance(found, Relation):
        what = "a materialized view" if isinstance(found, View) else "a system table"
        raise error(
            "TG213", f'"{found.name}" is {what}', where, f"{statement} changes only the rows of a table"
        )
    if found.kind != "table":
        raise error(
            "TG213",
            f'"{found.name}" is a source: its rows cannot be changed',
            where,
            "use CREATE TABLE for rows that can be changed",
        )
    if found.connector is not None:
        hint = "change a row through the connector: send a newer row with the same key"
        raise error("TG213", f'the rows of "{found.name}" come from its connector', where, hint)
    if not found.primary_key:
        hint = (
            "a table with a key keeps one row of each key, and its rows can be changed: CREATE "
            "TABLE … (id INT PRIMARY KEY, …)"
        )
        raise error("TG213", f'"{found.name}" has no PRIMARY KEY: rows can only be added to it', where, hint)
    return found


def _assigned(text: Text, name: Name, table: Relation) -> CatalogColumn:
    """The column that SET names; TG213 for one that can't be set."""
    column, where = table.column(name.text), text.at(name.span)
    if column is None:
        hint = did_you_mean(name.text, [c.name for c in table.columns])
        raise error("TG202", f'there is no column "{name.text}" in table "{table.name}"', where, hint)
    if column.generated is not None:
        hint = "set the columns from which it is computed"
        raise error(
            "TG213", f'"{column.name}" is a generated column: it cannot be given a value', where, hint
        )
    keys = [table.column(key) for key in table.primary_key]
    touched = next((k for k in keys if k == column or (k is not None and _uses(table, k, column))), None)
    if touched is not None:
        what = f'"{column.name}" is part of the PRIMARY KEY'
        if touched != column:
            what = f'"{touched.name}" of the PRIMARY KEY is computed from "{column.name}"'
        raise error(
            "TG213", f"{what}: the key of a row cannot change", where, "DELETE the row and INSERT it again"
        )
    return column


def _uses(table: Relation, column: CatalogColumn, used: CatalogColumn) -> bool:
    """Whether a generated column is computed from another one, maybe through further generated ones."""
    if column.generated is None:
        return False
    names = {name.replace("``", "`") for name in re.findall(r"`((?:[^`]|``)+)`", column.generated)}
    sources = [c for c in table.columns if c.name in names and c != column]
    return used in sources or any(_uses(table, c, used) for c in sources)


def _change(
    text: Text,
    name: Name,
    table: Relation,
    catalog: Catalog,
    op: str,
    what: str,
    values: dict[str, exp.Expr],
    condition: exp.Expr | None,
) -> Change:
    for value in [*values.values(), *([condition] if condition is not None else [])]:
        _refuse_aggregates(text, value)
    items = [
        exp.alias_(
            values.get(c.name) or exp.column(_quoted(c.name), table=_quoted(name.text)), _quoted(c.name)
        )
        for c in table.columns
        if c.generated is None
    ]
    identifier = _quoted(name.text)
    identifier.meta["span"] = name.span
    query = exp.select(*items, copy=False).from_(exp.Table(this=identifier), copy=False)
    if condition is not None:
        query = query.where(condition, copy=False)
    analysis = QueryAnalysis(text, catalog)
    analysis.run(query)
    where, hidden = text.at(name.span), tuple(analysis.hidden)
    return Change(table.name, op, what, to_spark(query), tuple(analysis.relations), where, hidden)


def _refuse_aggregates(text: Text, value: exp.Expr) -> None:
    """TG210 for what is about several rows, outside of a subquery."""
    inside = {id(n) for query in value.find_all(exp.Query) for n in query.walk()}
    for call in aggregates(value):
        if id(call) not in inside:
            hint = "use a subquery: SET n = (SELECT … FROM …)"
            raise error(
                "TG210",
                f"{call.name} is an aggregate: it is not allowed here",
                name_location(text, call),
                hint,
            )
    for window in value.find_all(exp.Window):
        if id(window) not in inside:
            raise error("TG210", "OVER is not allowed here", text.at(node_span(window)))


def _quoted(name: str) -> exp.Identifier:
    return exp.to_identifier(name, quoted=True)
