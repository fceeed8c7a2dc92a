"""What a view reads before its windows: a source or table, through projections and filters (CTEs,
subqueries).

Every step knows which of its columns still carry the watermark, and why the others do not (D1).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from sqlglot import exp

from tidegate.errors import Location
from tidegate.sql.catalog import Catalog, Node, Relation
from tidegate.sql.codes import error, unsupported
from tidegate.sql.dialect import to_spark
from tidegate.sql.intervals import constant_ticks
from tidegate.sql.relations import check_column_name
from tidegate.sql.rewrite import safe_sql
from tidegate.sql.scope import Lost, Scope, ScopeColumn, known, require_scalar, require_type
from tidegate.sql.syntax import Name
from tidegate.sql.text import Text, node_span
from tidegate.watermark import Identity, Shift

SLICE = "{input_0}"
HIDDEN = ("_source_partition", "_offset")


@dataclass(frozen=True)
class Flow:
    """`sql` is a FROM item that yields `columns` and the hidden ones; `name` is what the query may call
    it."""

    relation: Relation
    name: str
    columns: tuple[ScopeColumn, ...]
    sql: str
    nodes: tuple[Node, ...]

    def scope(self, text: Text, alias: str | None) -> Scope:
        """Its columns in sight, under the alias or else its own name."""
        name = alias or self.name
        what = f'in {self.relation.kind} "{name}"' if name == self.relation.name else f'in "{name}"'
        return Scope(text, self.columns, frozenset([name.casefold()]), what)


def read_flow(text: Text, node: exp.Expr, catalog: Catalog, ctes: Mapping[str, Flow], clause: str) -> Flow:
    """The relation, CTE or subquery that stands in FROM or as the first argument of a window function."""
    if isinstance(node, exp.Subquery):
        refuse_arguments(text, node, ("this", "alias"))
        if node.alias_column_names:
            raise unsupported("a list of column names", text.at(node_span(node)), "name them in the SELECT")
        flow = read_projection(text, node.this, catalog, ctes)
        return replace(flow, name=node.alias or flow.name)
    name = _relation_name(text, node, clause)
    if name.text.casefold() in ctes:
        return ctes[name.text.casefold()]
    where = text.at(name.span)
    found = catalog.get(name.text, where)
    if not isinstance(found, Relation):
        what = "a view over a view" if not hasattr(found, "suffix") else "a view over a system table"
        raise unsupported(what, where, "read its source or table")
    time = found.watermark.column if found.watermark else None
    columns = tuple(
        ScopeColumn(c.name, known(c.type), Identity() if c.name == time else None) for c in found.columns
    )
    return Flow(found, found.name, columns, SLICE, (_node(f"{found.kind} {found.name}", columns),))


def read_ctes(text: Text, query: exp.Expr, catalog: Catalog, outer: Mapping[str, Flow]) -> dict[str, Flow]:
    """WITH … AS (…), each seeing those before it."""
    ctes = dict(outer)
    with_ = query.args.get("with_")
    if with_ is None:
        return ctes
    if with_.args.get("recursive"):
        raise unsupported("WITH RECURSIVE", text.at(node_span(with_)))
    for cte in with_.expressions:
        if cte.args["alias"].args.get("columns"):
            raise unsupported(
                "a list of column names", text.at(node_span(cte.args["alias"])), "name them inside"
            )
        flow = read_projection(text, cte.this, catalog, ctes)
        ctes[cte.alias.casefold()] = replace(flow, name=cte.alias)
    return ctes


def read_projection(text: Text, query: exp.Expr, catalog: Catalog, ctes: Mapping[str, Flow]) -> Flow:
    """`SELECT … FROM rel [WHERE …]` and nothing else."""
    if isinstance(query, exp.Subquery):
        return read_projection(text, query.this, catalog, ctes)
    select = require_select(text, query)
    refuse_arguments(
        text, select, ("with_", "expressions", "from_", "where"), "inside a windowed view's input"
    )
    ctes = read_ctes(text, select, catalog, ctes)
    from_ = select.args.get("from_")
    if from_ is None:
        raise error("TG102", "this SELECT reads nothing", text.at(node_span(select)))
    source = from_.this
    flow = read_flow(text, source, catalog, ctes, "FROM")
    scope = flow.scope(text, source.alias or None)
    columns: list[ScopeColumn] = []
    items: list[str] = []
    for item in select.expressions:
        if _is_star(text, item, scope):
            columns += flow.columns
            items += [_quoted(c.name) for c in flow.columns]
            continue
        column, sql = _project(text, item, scope, flow)
        columns.append(column)
        items.append(sql if sql == _quoted(column.name) else f"{sql} AS {_quoted(column.name)}")
    _check_twice(text, select, columns)
    where = where_sql(text, select.args.get("where"), scope)
    hidden = ", ".join(_quoted(h) for h in HIDDEN)
    sql = f"(SELECT {', '.join(items)}, {hidden} FROM {flow.sql}{where})"
    node = _node("project" + (" and filter" if where else ""), tuple(columns))
    return Flow(flow.relation, flow.name, tuple(columns), sql, (*flow.nodes, node))


def where_sql(text: Text, where: exp.Expr | None, scope: Scope) -> str:
    """` WHERE …` or nothing."""
    if where is None:
        return ""
    condition = scope.resolve(where.this)
    require_scalar(text, condition, "in WHERE")
    require_type(text, where.this, scope.type(condition), ("boolean",), "WHERE")
    return f" WHERE {safe_sql(condition, scope.lookup)}"


def require_select(text: Text, query: exp.Expr) -> exp.Select:
    """TG106 for UNION and its kin, VALUES and the rest."""
    if isinstance(query, exp.SetOperation):
        where = keyword_location(text, query.expression, query.key.upper())
        raise unsupported(f"{query.key.upper()} in a view", where)
    if not isinstance(query, exp.Select):
        where = keyword_location(text, query, "VALUES")
        raise unsupported(f"{query.key.upper()} in a view", where, "write a SELECT")
    return query


# Parts of a SELECT that a view does not have yet: what they are called, where their word stands.
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
    "having": "filter when you read the view",
    "order": "order when you read the view",
    "limit": "limit when you read the view",
    "distinct": "GROUP BY makes rows distinct",
    "joins": "join when you read the view",
}


def refuse_arguments(text: Text, node: exp.Expr, allowed: tuple[str, ...], where: str = "in a view") -> None:
    """TG106 for every part of a query that is not in `allowed`."""
    for key, value in node.args.items():
        if key in allowed or not value:
            continue
        name = _PARTS.get(key, key.upper())
        part = value[0] if isinstance(value, list) else value
        if key == "joins" and isinstance(part, exp.Expr) and part.args.get("kind") == "CROSS":
            name = "JOIN"
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


def _relation_name(text: Text, node: exp.Expr, clause: str) -> Name:
    """A table in FROM, or a name as an argument, which the parser takes for a column."""
    if isinstance(node, exp.Table):
        if isinstance(node.this, exp.Func):
            raise unsupported(f"{node.this.name.upper()}(…) in {clause}", text.at(node_span(node.this)))
        refuse_arguments(text, node, ("this", "db", "catalog", "alias"))
    elif not isinstance(node, exp.Column):
        hint = "a source, a table, a CTE or (SELECT …)"
        raise error("TG310", f"{clause} needs a relation", text.at(node_span(node)), hint)
    parts = node.parts
    if len(parts) > 1:
        raise error("TG201", "names have no schema before them", text.at(node_span(node)), parts[-1].name)
    return Name(parts[0].name, node_span(parts[0]))


def _project(text: Text, item: exp.Expr, scope: Scope, flow: Flow) -> tuple[ScopeColumn, str]:
    written = item.unalias()
    name = output_name(text, item)
    node = scope.resolve(written)
    require_scalar(text, node, "in a windowed view's input")
    type_ = scope.type(node)
    column = _derive(text, node, written, scope, flow)
    return replace(column, name=name.text, type=type_), safe_sql(node, scope.lookup)


def output_name(text: Text, item: exp.Expr) -> Name:
    """The name of an item of SELECT: its alias, its column's or field's name, or that of its function."""
    value = item.unalias().unnest() if not isinstance(item, exp.Alias) else item
    if isinstance(item, exp.Alias):
        identifier = item.args["alias"]
        name = Name(identifier.name, node_span(identifier))
    elif isinstance(value, exp.Column | exp.Dot):
        last = value.this if isinstance(value, exp.Column) else value.expression
        name = Name(last.name, node_span(last))
    else:
        call = value.this if isinstance(value, exp.Filter) else value
        if not isinstance(call, exp.Anonymous):
            raise error(
                "TG216", "this column has no name", text.at(node_span(item)), "write AS name after it"
            )
        name = Name(call.name.lower(), call.meta.get("name_span") or node_span(item))
    check_column_name(text, name)
    return name


def _derive(text: Text, node: exp.Expr, written: exp.Expr, scope: Scope, flow: Flow) -> ScopeColumn:
    """Whether the item still carries the watermark (D1)."""
    bare = node.unnest()
    if isinstance(bare, exp.Column):
        found = scope.find(bare.name)
        assert found is not None
        return found
    if isinstance(bare, exp.Add | exp.Sub) and isinstance(bare.this.unnest(), exp.Column):
        column = scope.find(bare.this.unnest().name)
        if column is not None and column.derived is not None and flow.relation.watermark is not None:
            try:
                ticks = constant_ticks(text, bare.expression, flow.relation.watermark.kind)
            except ValueError as problem:
                return _lost(text, written, f"{text.slice(node_span(written))}: {problem}")
            if ticks is not None:
                ticks = ticks if isinstance(bare, exp.Add) else -ticks
                derived = Shift(column.derived, ticks)
                return replace(column, derived=derived, shift=column.shift + ticks)
    used = [scope.find(c.name) for c in bare.find_all(exp.Column)]
    if any(c is not None and (c.derived is not None or c.lost is not None) for c in used):
        earlier = next((c.lost for c in used if c is not None and c.lost is not None), None)
        if earlier is not None:
            return ScopeColumn("", None, lost=earlier)
        return _lost(text, written, f"a watermark does not travel through {_called(bare)}")
    return ScopeColumn("", None)


def _lost(text: Text, written: exp.Expr, reason: str) -> ScopeColumn:
    return ScopeColumn("", None, lost=Lost(reason, text.at(node_span(written))))


def _called(node: exp.Expr) -> str:
    """What an expression is, for people."""
    if isinstance(node, exp.Anonymous):
        return f"{node.name}()"
    if isinstance(node, exp.Binary):
        return "this arithmetic" if isinstance(node, exp.Add | exp.Sub | exp.Mul | exp.Div) else "this"
    return node.key.upper().replace("TRYCAST", "TRY_CAST")


def _is_star(text: Text, item: exp.Expr, scope: Scope) -> bool:
    if isinstance(item, exp.Column) and isinstance(item.this, exp.Star):
        if item.table.casefold() not in scope.qualifiers:
            raise error("TG202", f'there is no relation "{item.table}" here', text.at(node_span(item)))
        item = item.this
    if not isinstance(item, exp.Star):
        return False
    refuse_arguments(text, item, ())
    return True


def _check_twice(text: Text, select: exp.Select, columns: list[ScopeColumn]) -> None:
    seen: set[str] = set()
    for column in columns:
        if column.name.casefold() in seen:
            items = [i for i in select.expressions if i.alias_or_name.casefold() == column.name.casefold()]
            where = text.at(node_span(items[-1] if items else select))
            raise error("TG206", f'column "{column.name}" is there twice', where)
        seen.add(column.name.casefold())


def _node(name: str, columns: tuple[ScopeColumn, ...]) -> Node:
    return Node(name, tuple((c.name, c.derived) for c in columns if c.derived is not None))


def _quoted(name: str) -> str:
    return to_spark(exp.to_identifier(name, quoted=True))
