"""Whoever would write passes here: a table is written, altered, dropped and tidied by its owner alone (X3).

`Session.lease`, `Session.log` and `Session.forget` ask before anything happens; tables that are open for writing ask
again at every commit (`IcebergTable`), since `tidegate adopt` may have moved them meanwhile.
"""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from tidegate.engine.commit import IcebergTable, require_owner
from tidegate.engine.layout import quote
from tidegate.engine.lives import state_identifier
from tidegate.engine.sinks.statefile import StateFile
from tidegate.errors import TidegateError
from tidegate.project.owner import ADOPTED, OWNER, Owner, adoption
from tidegate.project.storage import CATALOG
from tidegate.sql.catalog.objects import Sink, View
from tidegate.sql.sink_connectors import IcebergSinkOptions
from tidegate.store.metadata import load_properties
from tidegate.store.owners import owners_in
from tidegate.store.positions import position_file, sink_table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from tidegate.engine.session import Session


def require(session: Session, name: str) -> None:
    """Raise TG531 if somebody else owns what is stored of `name`, or, where nothing is, its namespace. A table that is
    nobody's yet, of a release that knew no owners, becomes this project's, on record."""
    owner, properties = session.project.owner, _properties(session, name)
    if properties is None:
        require_namespace(session, session.project.storage.namespace_of(name))
        return
    require_owner(name, owner, Owner.of_text(properties.get(OWNER)))
    if OWNER not in properties:
        for one in tables_of(session, name):
            take(one, owner)


def _properties(session: Session, name: str) -> Mapping[str, str] | None:
    """Of the table as it is now; None without one."""
    storage = session.project.storage
    if storage.settings.catalog.type == "hadoop":
        return load_properties(storage, name)  # a file, where the JVM would be asked several times
    identifier = session.identifier(name)
    if not session.spark.catalog.tableExists(identifier):
        return None
    table = IcebergTable(session.spark, identifier)
    table.refresh()
    return table.properties()


def require_namespace(session: Session, namespace: str) -> None:
    """Raise TG531 if others own tables of a namespace, and this project none."""
    if namespace in session.at_home:
        return
    owner, other = session.project.owner, None
    for name, found in owners_in(session.project.storage, namespace):
        if found == owner:
            other = None
            break
        other = other or (name, found)
    if other is not None:
        name, found = other
        raise TidegateError(
            "TG531",
            f'namespace "{namespace}" belongs to {found}, which made "{name}"; this is {owner}',
            hint="give this environment a namespace of its own (warehouse.namespace), or adopt what is in this one",
        )
    session.at_home.add(namespace)


def take(table: IcebergTable, owner: Owner) -> None:
    """Raise TG531 for a table of somebody else's; make one that is nobody's this project's."""
    if table.property(OWNER) is None:
        _move(table, owner, None)
    require_owner(table.identifier, owner, Owner.of_text(table.property(OWNER)))


def tables_of(session: Session, name: str) -> list[IcebergTable]:
    """What is stored of a source, table or view: its state and unfinished results, and last the table itself, which is
    the one that is asked for its owner."""
    own = session.identifier(name)
    every = (state_identifier(own), session.identifier(f"{name}$next"), own)
    return [IcebergTable(session.spark, one) for one in every if session.spark.catalog.tableExists(one)]


class _Stored(NamedTuple):
    """A table, or a position of a sink: its name, whose it is, and how it is moved."""

    name: str
    owner: Owner | None
    take: Callable[[], None]


def adopt(session: Session, names: Iterable[str]) -> list[tuple[str, Owner | None]]:
    """Make the tables of sources, tables and views, and the tables or positions of sinks this project's, on record in
    each table, after `session.confirm` was asked. Returns (name, owner until now) of those that were not.

    Raises TG515 for what is only read here, TG532 if nobody agrees.
    """
    owner, found = session.project.owner, []
    for name in names:
        session.require_unlent(name)
        found += [one for one in _all_of(session, name) if one.owner != owner]
    if found:
        lines = [f"{one.name}: {one.owner or 'nobody'}" for one in found]
        what = f"these tables become those of {owner}; whoever owned them can only read them from then on:"
        session.ask("TG532", "\n  ".join([what, *lines]), "tidegate adopt --yes")
    for one in found:
        one.take()
    return [(one.name, one.owner) for one in found]


def _all_of(session: Session, name: str) -> list[_Stored]:
    sink = session.catalog.sinks.find(name)
    view = session.catalog.get(name) if sink is None else sink.view
    gates = [gate.name for gate in view.gates] if isinstance(view, View) else []
    below = [] if view is None else [*gates, view.name]
    tables = [table for one in below for table in tables_of(session, one)]
    found = [_of_table(table, session.project.owner) for table in tables]
    return found if sink is None else [*found, *_of_sink(session, sink)]


def _of_sink(session: Session, sink: Sink) -> list[_Stored]:
    storage = session.project.storage
    if isinstance(sink.connector, IcebergSinkOptions):
        identifier = ".".join((CATALOG, *(quote(part) for part in sink_table(storage, sink))))
        there = session.spark.catalog.tableExists(identifier)
        return [_of_table(IcebergTable(session.spark, identifier), session.project.owner)] if there else []
    state = StateFile(storage, position_file(storage, sink), sink.name)
    there, owner = state.owner()
    return [_Stored(sink.name, owner, state.adopt)] if there else []


def _of_table(table: IcebergTable, owner: Owner) -> _Stored:
    table.refresh()
    was = Owner.of_text(table.property(OWNER))
    name = table.identifier.rpartition(".")[2].strip("`")
    return _Stored(name, was, partial(_move, table, owner, was))


def _move(table: IcebergTable, owner: Owner, was: Owner | None) -> None:
    now = datetime.now(UTC).isoformat(timespec="seconds")
    update = table.java.updateProperties().set(OWNER, owner.to_text())
    update.set(ADOPTED, adoption(table.property(ADOPTED), was, now)).commit()
    table.refresh()
