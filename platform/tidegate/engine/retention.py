"""How long rows of a table WITH TTL are kept: until they have expired (T2) and no view needs them any more (T3)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from tidegate.engine.commit import IcebergTable
from tidegate.engine.table import EVERYTHING, KEEP_SECONDS, Cleaned, is_untidy
from tidegate.errors import TidegateError
from tidegate.sql.catalog import Relation
from tidegate.watermark import TimeKind

if TYPE_CHECKING:
    from tidegate.engine.session import Session
    from tidegate.sql.catalog import Input, View

_MICROS = (TimeKind.TIMESTAMP, TimeKind.TIMESTAMPTZ)


def needed_from(session: Session, relation: Relation) -> int | None:
    """The lowest event time that a view over the table may still read, in ticks; None if no view reads it in time.

    EVERYTHING if one may read all of it. A view reads from its own frontier on; one that has never run reads all.
    """
    lowest = None
    for view in session.catalog.readers(relation.name):
        for entry in view.inputs:
            if entry.name.casefold() == relation.name.casefold() and not entry.lookup:
                needed = _needs(session, relation, view, entry)
                lowest = needed if lowest is None else min(lowest, needed)
    return lowest


def tidy(session: Session, relations: Iterable[Relation]) -> list[Cleaned]:
    """What a run does at its end with those that have a TTL: whole days go, and old snapshots."""
    found = []
    for relation in relations:
        log = session.stored(relation.name) if relation.ttl else None
        if log is None or session.stored(f"{relation.name}$state") is None:
            continue
        needed = needed_from(session, relation)
        if is_untidy(session.spark, relation, log, needed):
            with session.lease(relation.name):
                state = session.log(relation).state
                assert state is not None
                found.append(state.tidy(needed))
    return found


def cleanup(
    session: Session, names: Iterable[str] | None = None, keep_seconds: float = KEEP_SECONDS
) -> list[Cleaned]:
    """See `Session.cleanup`."""
    if names is None:
        chosen = [r for r in session.catalog.relations if r.primary_key]
    else:
        chosen = [_table(session, name) for name in names]
    found = []
    for relation in chosen:
        if session.stored(relation.name) is None:
            continue
        with session.lease(relation.name):
            state = session.log(relation).state
            assert state is not None
            found.append(state.cleanup(needed_from(session, relation)))
            state.compact()
            state.vacuum(keep_seconds)
    return found


def _table(session: Session, name: str) -> Relation:
    found = session.relation(name)
    if not found.primary_key:
        raise TidegateError(
            "TG509", f'"{name}" has no PRIMARY KEY: its rows are kept', hint="tables WITH TTL are cleaned up"
        )
    return found


def _needs(session: Session, relation: Relation, view: View, entry: Input) -> int:
    """The lowest event time that one input of one view may still read."""
    table = session.stored(view.name)
    assert relation.watermark is not None
    kind = relation.watermark.kind
    if (
        table is None
        or entry.low is None
        or not (kind is view.kind or (kind in _MICROS and view.kind in _MICROS))
    ):
        return EVERYTHING
    stood = IcebergTable(session.spark, table).current()
    marks = [stood.integer("tidegate.frontier"), stood.integer("tidegate.earliest-open")]
    known = [mark for mark in marks if mark is not None]
    return min(known) + entry.low if marks[0] is not None else EVERYTHING
