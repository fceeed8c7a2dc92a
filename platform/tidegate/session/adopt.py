"""`tidegate adopt`: what is stored of others, or of nobody, becomes this project's (X3)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from tidegate.iceberg.layout import quote
from tidegate.project.owner import OWNER, Owner
from tidegate.project.storage import CATALOG
from tidegate.runtime.owners import move
from tidegate.sinks.statefile import StateFile
from tidegate.sql.catalog.objects import Sink, View
from tidegate.sql.options.sink_connectors import IcebergSinkOptions
from tidegate.store.positions import position_file, sink_table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from tidegate.iceberg.tables import StoredTable
    from tidegate.runtime.context import Context


class _Stored(NamedTuple):
    """A table, or a position of a sink: its name, whose it is, and how it is moved."""

    name: str
    owner: Owner | None
    take: Callable[[], None]


def adopt(context: Context, names: Iterable[str]) -> list[tuple[str, Owner | None]]:
    """Make the tables of sources, tables and views, and the tables or positions of sinks this project's, on record in
    each table, after `context.confirm` was asked. Returns (name, owner until now) of those that were not.

    Raises TG515 for what is only read here, TG532 if nobody agrees.
    """
    owner, found = context.project.owner, []
    for name in names:
        context.require_unlent(name)
        found += [one for one in _all_of(context, name) if one.owner != owner]
    if found:
        lines = [f"{one.name}: {one.owner or 'nobody'}" for one in found]
        what = f"these tables will belong to {owner}; their former owner can only read them from then on:"
        context.ask("TG532", "\n  ".join([what, *lines]), "tidegate adopt --yes")
    for one in found:
        one.take()
    return [(one.name, one.owner) for one in found]


def _all_of(context: Context, name: str) -> list[_Stored]:
    sink = context.catalog.sinks.find(name)
    view = context.catalog.get(name) if sink is None else sink.view
    gates = [gate.name for gate in view.gates] if isinstance(view, View) else []
    below = [] if view is None else [*gates, view.name]
    tables = [table for one in below for table in context.owners.tables_of(one)]
    found = [_of_table(table, context.project.owner) for table in tables]
    return found if sink is None else [*found, *_of_sink(context, sink)]


def _of_sink(context: Context, sink: Sink) -> list[_Stored]:
    storage = context.project.storage
    if isinstance(sink.connector, IcebergSinkOptions):
        identifier = ".".join((CATALOG, *(quote(part) for part in sink_table(storage, sink))))
        there = context.tables.exists(identifier)
        return [_of_table(context.tables.open(identifier), context.project.owner)] if there else []
    state = StateFile(storage, position_file(storage, sink), sink.name)
    there, owner = state.owner()
    return [_Stored(sink.name, owner, state.adopt)] if there else []


def _of_table(table: StoredTable, owner: Owner) -> _Stored:
    table.refresh()
    was = Owner.of_text(table.property(OWNER))
    name = table.identifier.rpartition(".")[2].strip("`")
    return _Stored(name, was, partial(move, table, owner, was))
