"""From which columns of what a view reads its columns come: one step back, through CTEs, subqueries and joins."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sqlglot import exp

from tidegate.sql.catalog.catalog import Catalog
from tidegate.sql.catalog.objects import Relation, Sink, SystemTable, View
from tidegate.sql.dialect.dialect import WINDOW_FUNCTIONS
from tidegate.sql.dialect.text import Text
from tidegate.sql.grammar.grammar import read_statement, split
from tidegate.sql.grammar.syntax import CreateSinkSyntax, CreateViewSyntax


@dataclass(frozen=True, order=True)
class Origin:
    """A column of a source, table or view."""

    relation: str
    column: str


Origins = frozenset[Origin]
#: The columns that a part of FROM shows, by their names in lower case.
Shown = dict[str, Origins]


def column_lineage(catalog: Catalog, item: View | Sink) -> dict[str, tuple[Origin, ...]]:
    """For each column: the columns of what the view reads that its expression names, sorted; () for what is counted or
    constant. What only filters, joins or groups is not among them. A sink delivers its columns as they are."""
    if isinstance(item, Sink) and item.view is None:
        upstream = catalog.get(item.upstream)
        return {c.name: (Origin(upstream.name, c.name),) for c in upstream.columns}
    text = Text(item.definition)
    (tokens, _), *_ = split(text)
    statement = read_statement(text, tokens)
    assert isinstance(statement, CreateViewSyntax | CreateSinkSyntax)
    assert statement.query is not None
    shown = _query(catalog, statement.query, {})
    view = item.view if isinstance(item, Sink) else item
    columns = view.columns if view is not None else ()
    return {c.name: tuple(sorted(shown.get(c.name.casefold(), frozenset()))) for c in columns}


def _query(catalog: Catalog, query: exp.Expr, outer: Mapping[str, Shown]) -> Shown:
    ctes = dict(outer)
    with_ = query.args.get("with_")
    for cte in with_.expressions if with_ is not None else ():
        ctes[cte.alias.casefold()] = _query(catalog, cte.this, ctes)
    if isinstance(query, exp.SetOperation):
        left, right = (_query(catalog, side, ctes) for side in (query.this, query.expression))
        # The names are those of the first; which column belongs to which is a matter of place.
        others = list(right.values())
        return {
            name: origins | (others[i] if i < len(others) else frozenset())
            for i, (name, origins) in enumerate(left.items())
        }
    if isinstance(query, exp.Subquery):
        return _query(catalog, query.this, ctes)
    return _select(catalog, query, ctes)


def _select(catalog: Catalog, select: exp.Expr, ctes: Mapping[str, Shown]) -> Shown:
    parts: dict[str, Shown] = {}
    from_ = select.args.get("from_")
    if from_ is not None:
        joins = [*(from_.this.args.get("joins") or ()), *(select.args.get("joins") or ())]
        for node in [from_.this, *(join.this for join in joins)]:
            name, shown = _part(catalog, node, ctes)
            parts[name] = shown
    found: Shown = {}
    for projection in select.expressions:
        inner = projection.unalias()
        if isinstance(inner, exp.Star):
            for shown in parts.values():
                found |= {name: origins for name, origins in shown.items() if name not in found}
        elif isinstance(inner, exp.Column) and isinstance(inner.this, exp.Star):
            shown = parts.get(inner.table.casefold(), {})
            found |= {name: origins for name, origins in shown.items() if name not in found}
        else:
            found[projection.alias_or_name.casefold()] = _origins(inner, parts)
    return found


def _origins(node: exp.Expr, parts: Mapping[str, Shown]) -> Origins:
    found: set[Origin] = set()
    for column in node.find_all(exp.Column):
        names = [part.name.casefold() for part in column.parts]
        qualified = len(names) > 1 and names[0] in parts
        wanted = names[1] if qualified else names[0]
        for name, shown in parts.items():
            if not qualified or name == names[0]:
                found |= shown.get(wanted, frozenset())
    return frozenset(found)


def _part(catalog: Catalog, node: exp.Expr, ctes: Mapping[str, Shown]) -> tuple[str, Shown]:
    """(the name that qualifies its columns, its columns) of one part of FROM, or of a window function's argument."""
    alias = node.alias.casefold() if node.alias else ""
    if isinstance(node, exp.Subquery):
        return alias, _query(catalog, node.this, ctes)
    call = node.this if isinstance(node, exp.Table) else node
    if isinstance(call, exp.Anonymous) and call.expressions:
        name, shown = _part(catalog, call.expressions[0], ctes)
        if call.name.upper() in WINDOW_FUNCTIONS and len(call.expressions) > 1:
            times = _origins(call.expressions[1], {name: shown})
            shown = shown | {"window_start": times, "window_end": times}
        return alias or name, shown
    written = node.name.casefold()
    if written in ctes:
        return alias or written, ctes[written]
    found = catalog.find(written)
    columns = found.columns if isinstance(found, Relation | View | SystemTable) else ()
    name = found.name if found is not None else written
    shown = {c.name.casefold(): frozenset({Origin(name, c.name)}) for c in columns}
    if isinstance(found, Relation):
        shown |= {h: frozenset({Origin(name, h)}) for h in ("$rowtime",) if h not in shown}
    return alias or written, shown
