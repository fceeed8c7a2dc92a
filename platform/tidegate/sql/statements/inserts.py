"""INSERT INTO a table: which value goes to which column. Values stay as written; the engine converts them,
and rejects the rows where that fails (W5)."""

from __future__ import annotations

from sqlglot import exp

from tidegate.errors import did_you_mean
from tidegate.sql.catalog.catalog import Catalog
from tidegate.sql.catalog.objects import Relation, View
from tidegate.sql.dialect.attempts import cut_all
from tidegate.sql.dialect.codes import error
from tidegate.sql.dialect.dialect import to_spark
from tidegate.sql.dialect.text import Text, node_span
from tidegate.sql.grammar.syntax import InsertSyntax
from tidegate.sql.resolve.scope import ColumnScope, require_scalar
from tidegate.sql.statements.queries import QueryAnalysis
from tidegate.sql.statements.statements import InsertSelect, InsertValues


def analyse_insert(text: Text, syntax: InsertSyntax, catalog: Catalog) -> InsertValues | InsertSelect:
    """Raises TG201, TG202, TG206, TG212, TG213."""
    table = _table(text, syntax, catalog)
    columns = tuple(c.name for c in table.columns if c.generated is None)
    targets = _targets(text, syntax, table, columns)
    where = text.at(syntax.table.span)
    if syntax.rows is None:
        assert syntax.query is not None
        query = syntax.query.copy()
        analysis = QueryAnalysis(text, catalog)
        output = analysis.run(query)
        if output is not None and len(output) != len(targets):
            message = f"this yields {_count(len(output))} for {_count(len(targets), 'column')}"
            raise error("TG212", message, text.at(syntax.query_span), f"the columns are {', '.join(targets)}")
        sql = _reordered(columns, targets, f"({to_spark(query)})")
        return InsertSelect(
            table.name, columns, sql, tuple(analysis.relations), where, tuple(analysis.hidden)
        )
    scope = ColumnScope(text, (), what="in VALUES", repeatable=False)
    rows = []
    for span, values in syntax.rows:
        if len(values) != len(targets):
            surplus = values[len(targets)] if len(values) > len(targets) else None
            at = text.at(node_span(surplus) if surplus is not None else span)
            message = f"{_count(len(values))} for {_count(len(targets), 'column')}"
            raise error("TG212", message, at, f"the columns are {', '.join(targets)}")
        resolved = [scope.resolve(value) for value in values]
        for value in resolved:
            require_scalar(text, value, "in VALUES")
        rows.append(resolved)
    columns_of_values = [_alike(column) for column in zip(*rows, strict=True)]
    for column in columns_of_values:
        for value in column:
            cut_all(value)
    tuples = (f"({', '.join(map(to_spark, row))})" for row in zip(*columns_of_values, strict=True))
    return InsertValues(
        table.name, columns, _reordered(columns, targets, f"VALUES {', '.join(tuples)}"), where
    )


def _alike(values: tuple[exp.Expression, ...]) -> list[exp.Expression]:
    """One column of VALUES. Spark wants one type in it; where texts and other values meet, all become text, and each
    row is converted, or rejected, on its own."""
    given = [value for value in values if not isinstance(value, exp.Null)]
    texts = [value for value in given if isinstance(value, exp.Literal) and value.is_string]
    if not texts or len(texts) == len(given):
        return list(values)
    return [
        value if isinstance(value, exp.Null) else exp.TryCast(this=value, to=exp.DataType.build("string"))
        for value in values
    ]


def _table(text: Text, syntax: InsertSyntax, catalog: Catalog) -> Relation:
    where = text.at(syntax.table.span)
    found = catalog.get(syntax.table.text, where)
    if isinstance(found, Relation) and found.kind == "table":
        if found.connector is not None:
            hint = "only a table without a connector takes INSERT"
            raise error("TG213", f'the rows of "{found.name}" come from its connector', where, hint)
        return found
    if isinstance(found, Relation):
        raise error(
            "TG213",
            f'"{found.name}" is a source: its rows come from its connector',
            where,
            "use INSERT INTO with a table",
        )
    what = "a materialized view" if isinstance(found, View) else "a system table"
    raise error("TG213", f'"{found.name}" is {what}', where, "use INSERT INTO with a table")


def _targets(text: Text, syntax: InsertSyntax, table: Relation, columns: tuple[str, ...]) -> list[str]:
    if syntax.columns is None:
        return list(columns)
    targets: list[str] = []
    for name in syntax.columns:
        column = table.column(name.text)
        if column is None:
            hint = did_you_mean(name.text, columns)
            message = f'there is no column "{name.text}" in table "{table.name}"'
            raise error("TG202", message, text.at(name.span), hint)
        if column.generated is not None:
            message = f'"{column.name}" is a generated column: it cannot be given a value'
            raise error("TG213", message, text.at(name.span), f"leave out {column.name}")
        if column.name in targets:
            raise error("TG206", f'column "{column.name}" is given twice', text.at(name.span))
        targets.append(column.name)
    return targets


def _reordered(columns: tuple[str, ...], targets: list[str], source: str) -> str:
    """The table's columns in its order, from those of `source` in the order of `targets`."""
    names = [f"`_{i + 1}`" for i in range(len(targets))]
    place = dict(zip(targets, names, strict=True))
    selected = [f"{place.get(c, 'NULL')} AS {to_spark(exp.to_identifier(c, quoted=True))}" for c in columns]
    return f"SELECT {', '.join(selected)} FROM {source} AS `_v`({', '.join(names)})"


def _count(number: int, what: str = "value") -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
