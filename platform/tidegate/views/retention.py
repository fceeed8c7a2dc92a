"""What readers still need of a log or view, so that nothing of it is removed too early (T3, R5); and the cleanup of
tables WITH TTL: rows go when they have expired (T2) and no view needs them any more."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from tidegate.errors import TidegateError
from tidegate.iceberg.layout import is_of_view
from tidegate.iceberg.progress import LogPosition
from tidegate.ingest.ingest import Log
from tidegate.plan.gaps import RETAINED_FROM, Edges, Hole, beginning, edge_of, hole, same_scale, with_cleaned
from tidegate.plan.upkeep_stages import (
    CleanupStage,
    CompactStage,
    ExpireStage,
    cleanup_stages,
    expiry_stages,
)
from tidegate.plan.versions import next_of
from tidegate.runtime.steps import Steps
from tidegate.sql.catalog.objects import Relation, View
from tidegate.store.positions import read_position
from tidegate.tables.lives import applied_state
from tidegate.tables.table import (
    EVERYTHING,
    KEEP_SECONDS,
    MANY_SNAPSHOTS,
    Cleaned,
    KeyedTable,
    needs_upkeep,
)
from tidegate.views.definition import as_stored, is_of_results
from tidegate.views.inputs import Pinned, pending
from tidegate.views.resolve import standing

if TYPE_CHECKING:
    from tidegate.runtime.context import Context
    from tidegate.sql.catalog.objects import Input


def needed_from(context: Context, source: Relation | View) -> int | None:
    """The lowest event time that a view over a relation or view may still read, in ticks; None if no view reads it in
    time. EVERYTHING if one may read all of it. A view reads from its own frontier on; one that has never run reads
    all."""
    return min((needed for _, needed in needs(context, source)), default=None)


def needs(context: Context, source: Relation | View) -> list[tuple[str, int]]:
    """By view that reads it, the lowest event time that it may still read (see `needed_from`)."""
    found = list(_needs_of_next(context, source))
    for view in _readers(context, source):
        for entry in view.inputs:
            if entry.name.casefold() != source.name.casefold():
                continue
            if not entry.lookup:
                found.append((view.name, _needs(context, source, view, entry)))
            elif not (isinstance(source, Relation) and source.primary_key):
                # What a table with a key holds now is in its state; of anything else every row is looked up.
                found.append((view.name, EVERYTHING))
    return found


def _readers(context: Context, source: Relation | View) -> Iterator[View]:
    """Who reads it; of a view whose results are of another definition also that, which may be continued (E5)."""
    for view in context.catalog.readers(source.name):
        yield view
        table = context.opened(view.name)
        if table is not None and not is_of_results(context, view, properties := table.properties()):
            before = as_stored(context, view, properties)
            yield from () if before is None else (before,)


def taken(context: Context, source: Relation | View) -> list[tuple[str, int]]:
    """By whoever follows it commit by commit (a sink, a gate of WATERMARK(…), its own state), the last one taken."""
    found = []
    table = context.stored(source.name)
    if table is None:
        return []
    uuid = context.tables.open(table).uuid
    for sink in context.catalog.sinks:
        if sink.upstream.casefold() == source.name.casefold():
            position = read_position(context.project.storage, sink)
            # One that never began may still want everything.
            there = position is not None and position[0].table == uuid
            found.append((sink.name, position[0].tick if position is not None and there else 0))
    if isinstance(source, View):
        return found
    for gate in context.catalog.order():
        upstream = getattr(gate.connector, "relation", None) if isinstance(gate, Relation) else None
        if upstream is not None and upstream.casefold() == source.name.casefold():
            log = context.stored(gate.name)
            summary = {} if log is None else context.tables.open(log).current().summary
            at = LogPosition.from_text(summary.get("tidegate.position"))
            found.append((gate.name, at.epoch if at is not None and at.table == uuid else 0))
    if source.primary_key:
        state = context.stored(f"{source.name}$state")
        found.append(
            (f"{source.name}$state", 0 if state is None else applied_state(context.tables, table).epoch)
        )
    return found


def begin(view: View, pinned: Sequence[Pinned]) -> int | None:
    """R5: the frontier that a new view begins with: nothing that ends at or before it can be computed, because rows
    that it needs may be beyond an input's retention. None if all rows that there ever were are there.

    TG543 for a session, which may have begun before that, and for frames that reach back over all rows.
    """
    frontier, unknown = beginning(view, first_edges(pinned))
    if unknown is not None:
        raise TidegateError(
            "TG543",
            f'"{view.name}" can\'t begin: rows of "{unknown}" are beyond their retention, '
            "and it is not known to which results they belong",
            hint="only windows of a fixed length and sorted rows can begin at the oldest rows that are kept",
            location=view.location,
        )
    return frontier


def edges_of(pinned: Sequence[Pinned]) -> Edges:
    """Before which time rows of each input may be missing."""
    return {
        p.input.name: (p.kind, edge_of(p.snapshot.summary, p.snapshot.integer(RETAINED_FROM))) for p in pinned
    }


def first_edges(pinned: Sequence[Pinned]) -> Edges:
    """The same for a view that has read nothing of them, for which no cleanup has waited."""
    cleaned = {p.input.name: p.snapshot.summary for p in pinned}
    return {
        name: (kind, with_cleaned(edge, cleaned[name])) for name, (kind, edge) in edges_of(pinned).items()
    }


def missing(view: View, own: Mapping[str, str], pinned: Sequence[Pinned]) -> Hole | None:
    """What is missing for the next tick of a view whose last commit says `own` (R5). TG543 where nobody can tell
    which of its results that concerns: it would read over the hole as if nothing had been there."""
    found = hole(view, own, edges_of(pinned))
    if found is not None and found.upto is None:
        raise TidegateError(
            "TG543",
            f'"{view.name}" can\'t continue from {view.kind.format(int(own["tidegate.frontier"]))}: '
            f"{found.describe()}, and it is not known to which results they belong",
            hint="its stored results are kept; run it more often than rows are retired, or keep rows "
            "longer (jobs/maintenance.yaml of the environment that owns them)",
            location=view.location,
        )
    return found


def state_upkeep(context: Context, relations: Iterable[Relation]) -> list[Cleaned]:
    """What a run does at its end with those that have a TTL: whole days go, and old snapshots."""
    found = []
    for relation in relations:
        if relation.name in context.foreign:
            continue
        log = context.stored(relation.name) if relation.ttl else None
        if log is None or context.stored(f"{relation.name}$state") is None:
            continue
        needed = needed_from(context, relation)
        if needs_upkeep(context.tables, relation, log, needed):
            planned = expiry_stages(relation, context.project.storage.namespace_of)
            with context.lease(relation.name):
                state, stages = _state(context, relation), context.stages(planned)
                found.append(stages.carry_out(CleanupStage, partial(_clean_days, state, needed)))
                stages.carry_out(ExpireStage, partial(_expire_many, state))
    return found


def _clean_days(state: KeyedTable, needed: int | None, _: CleanupStage) -> Cleaned:
    return state.cleanup(needed, rewrite=False)


def _expire_many(state: KeyedTable, _: ExpireStage) -> None:
    state.expire_snapshots(many=MANY_SNAPSHOTS)


def cleanup(
    context: Context,
    names: Iterable[str] | None = None,
    keep_seconds: float = KEEP_SECONDS,
    steps: Steps | None = None,
) -> list[Cleaned]:
    """See `Session.cleanup`."""
    if names is None:
        chosen = [r for r in context.catalog.relations if r.primary_key and r.name not in context.foreign]
    else:
        chosen = [_table(context, name) for name in names]
    found: list[Cleaned] = []

    def one(relation: Relation) -> None:
        if context.stored(relation.name) is None:
            return
        planned = cleanup_stages(relation, context.project.storage.namespace_of)
        with context.lease(relation.name):
            state, stages = _state(context, relation), context.stages(planned)
            needed = needed_from(context, relation)
            cleaned = stages.carry_out(CleanupStage, lambda _: state.cleanup(needed))
            stages.carry_out(CompactStage, lambda _: state.compact())
            stages.carry_out(ExpireStage, lambda _: state.expire_snapshots(keep_seconds))
            found.append(cleaned)

    steps = steps or Steps(fail_fast=True)
    for relation in chosen:
        steps.do(relation, partial(one, relation))
    return found


def _state(context: Context, relation: Relation) -> KeyedTable:
    """What a table with a PRIMARY KEY holds, as of its newest commit, open for writing; its lease is held."""
    state = Log.of(context, relation).state
    assert state is not None
    return state


def _table(context: Context, name: str) -> Relation:
    found = context.relation(name)
    if not found.primary_key:
        raise TidegateError(
            "TG509",
            f'"{name}" has no PRIMARY KEY: its rows are kept',
            hint="only tables WITH TTL are cleaned up",
        )
    return found


def _needs_of_next(context: Context, source: Relation | View) -> Iterator[tuple[str, int]]:
    """As `needs`, of the versions of views that are built: what the slices to come read (E5)."""
    for view in context.catalog.views:
        beside = context.opened(next_of(view.name))
        if beside is None or not context.is_building(view.name):
            continue
        properties, frontier = beside.properties(), beside.current().integer("tidegate.frontier")
        names = {name.casefold() for name in json.loads(properties.get("tidegate.inputs") or "[]")}
        if source.name.casefold() not in names:
            continue
        lows = [one.low for one in view.inputs if one.name.casefold() == source.name.casefold()]
        kind = source.kind if isinstance(source, View) else source.watermark and source.watermark.kind
        known = is_of_view(view, properties) and view.open_sql is None and same_scale(kind or None, view.kind)
        if frontier is None or not known or None in lows:
            yield view.name, EVERYTHING
        else:
            yield view.name, frontier + min(low for low in lows if low is not None)


def _needs(context: Context, source: Relation | View, view: View, entry: Input) -> int:
    """The lowest event time that one input of one view may still read."""
    table = context.stored(view.name)
    kind = source.kind if isinstance(source, View) else source.watermark.kind if source.watermark else None
    if table is None or entry.low is None or not same_scale(kind, view.kind):
        return EVERYTHING
    stood = context.tables.open(table).current()
    back = pending(view, stood.summary, standing(context, view))
    if back is not None:
        # It will step back behind a reset, and read from there again (W9).
        return back + entry.low if view.open_sql is None else EVERYTHING
    marks = [stood.integer("tidegate.frontier"), stood.integer("tidegate.earliest-open")]
    known = [mark for mark in marks if mark is not None]
    return min(known) + entry.low if marks[0] is not None else EVERYTHING
