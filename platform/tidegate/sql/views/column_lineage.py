"""From which columns of what a view reads its columns come: one step back, in the tree that Spark computes the view by.
Its names are resolved there already."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import cast

from sqlglot import exp, parse_one

from tidegate.sql.catalog.catalog import Catalog
from tidegate.sql.catalog.objects import Object, Relation, Sink, View
from tidegate.sql.dialect.dialect import Fragment, Read
from tidegate.sql.dialect.query import OVER, SLICE, input_role
from tidegate.sql.options.connectors import LogOptions
from tidegate.sql.resolve.hidden import hidden_columns


@dataclass(frozen=True, order=True)
class Origin:
    """A column of a source, table or view."""

    relation: str
    column: str


Origins = frozenset[Origin]
#: The columns that a part of FROM shows.
Shown = Mapping[str, Origins]


def column_lineage(catalog: Catalog, item: View | Sink) -> dict[str, tuple[Origin, ...]]:
    """For each column: the columns of what the view reads that its expression names, sorted; () for what is counted or
    constant. What only filters, joins or groups is not among them. A sink delivers its columns as they are."""
    view = item.view if isinstance(item, Sink) else item
    if view is None:
        upstream = catalog.get(cast(Sink, item).upstream)
        return {c.name: (Origin(upstream.name, c.name),) for c in upstream.columns}
    gates = {gate.name: gate for gate in view.gates}
    reads = {
        input_role(number): _stored(catalog, gates.get(one.name) or cast(Object, catalog.get(one.name)))
        for number, one in enumerate(view.inputs)
    }
    if (over := view.over) is not None:
        rows = _made(over.rows_sql.tree, reads)
        calls = {f.name: _texts((*f.keys, *f.order, f.call), rows) for f in over.functions}
        reads = {OVER: {**rows, **calls}}
    shown = _made(view.query_sql.tree, reads)
    return {c.name: tuple(sorted(shown[c.name])) for c in view.columns}


def _stored(catalog: Catalog, found: Object) -> Shown:
    """What a relation or view shows: its own columns, and the hidden ones of its log under their names inside.
    CURRENT_WATERMARK (W14) comes from the column that carries the watermark."""
    if isinstance(found, Relation) and isinstance(found.connector, LogOptions):
        below = catalog.get(found.connector.relation)
        shown = _made(found.connector.sql.tree, {SLICE: _stored(catalog, cast(Object, below))})
    else:
        shown = {c.name: frozenset([Origin(found.name, c.name)]) for c in found.columns}
        if isinstance(found, Relation):
            shown |= {c.stored: frozenset([Origin(found.name, c.name)]) for c in hidden_columns(found)}
    if isinstance(found, Relation) and found.watermark is not None:
        shown = {**shown, "_wm": shown[found.watermark.column]}
    return shown


def _made(query: exp.Expr, reads: Mapping[str, Shown]) -> Shown:
    """The columns of a query over what it `reads`, by role."""
    if isinstance(query, exp.Union):
        left, right = (_made(side, reads) for side in (query.this, query.expression))
        return {name: left[name] | right[other] for name, other in zip(left, right, strict=True)}
    source: dict[str, Origins] = {}
    for item in (query.args["from_"].this, *(join.this for join in query.args.get("joins") or ())):
        source |= reads[item.name] if isinstance(item, Read) else _made(item.this, reads)
    found: dict[str, Origins] = {}
    for item in query.expressions:
        found |= (
            source if isinstance(item, exp.Star) else {item.alias_or_name: _origins(_names(item), source)}
        )
    return found


def _texts(texts: Iterable[str], source: Shown) -> Origins:
    return frozenset().union(*(_origins(_names(Fragment(this=text)), source) for text in texts))


def _origins(names: Iterable[str], source: Shown) -> Origins:
    return frozenset().union(*(source.get(name, frozenset()) for name in names))


def _names(item: exp.Expr) -> Iterator[str]:
    """The columns that a user's expression names; of tidegate's own those that neither only group nor only sort."""
    for part in item.find_all(exp.Column, Fragment):
        if isinstance(part, exp.Column):
            yield part.parts[0].name
            continue
        if isinstance(part.parent, exp.Order):
            continue
        tree = parse_one(part.name, read="spark")
        for window in tree.find_all(exp.Window):
            window.set("partition_by", None)
        yield from (column.parts[0].name for column in tree.find_all(exp.Column))
