"""What a view reads, found in the catalog and pinned, and the types that Spark gives its columns."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from tidegate.errors import TidegateError
from tidegate.iceberg.layout import ddl, is_as_judged, is_of_view, relation_identity
from tidegate.iceberg.protocol import Snapshot
from tidegate.ingest.definition import require_same
from tidegate.jvm.failures import refused
from tidegate.plan.columns.changes import CHANGES, columns_now, narrowed
from tidegate.plan.gaps import RETAINED_FROM, retained_from
from tidegate.plan.resets import RESETS
from tidegate.sql.catalog.objects import Relation, View
from tidegate.sql.statements.stored_definition import stored_relation
from tidegate.tables.lives import applied_of, state_identifier
from tidegate.views.inputs import IDENTITY, Pinned, empty, require_identity, source_of
from tidegate.views.slices import evaluate

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tidegate.iceberg.tables import StoredTable
    from tidegate.runtime.context import Context
    from tidegate.sql.catalog.objects import CatalogColumn


def pin(context: Context, view: View) -> tuple[Pinned, ...]:
    """The inputs of a view as they stand now; one that is read twice stands at one snapshot."""
    found: dict[str, Pinned] = {}
    pinned = []
    for entry in view.inputs:
        if entry.name not in found:
            source = source_of(context, entry.name)
            log = context.opened(source.name)
            table = None if log is None else log.identifier
            if isinstance(source, Relation) and source.name in context.foreign:
                require_lent(context, source, table)
            seen = view.seen_as(entry.name) is not None
            snapshot = Snapshot(None, {}) if log is None else _current(context, source, log, seen)
            if isinstance(source, View) and source.name in context.foreign:
                _require_same_results(context, source, log)
            # From the same reading of the metadata.
            life = log.uuid if log is not None and isinstance(source, View) else None
            columns = _columns_of(context, source)
            one = Pinned(entry, source, columns, table, snapshot, opened=log, life=life)
            found[entry.name] = _as_seen(one, view)
        pinned.append(replace(found[entry.name], input=entry))
    return tuple(pinned)


def _as_seen(pinned: Pinned, view: View) -> Pinned:
    """An input as its view knows it, which may be as it was before its columns were changed; by the same reading of the
    metadata as the snapshot."""
    seen = view.seen_as(pinned.input.name)
    if seen is None:
        return pinned
    opened = pinned.opened
    text = None if opened is None else opened.property(CHANGES)
    return replace(
        pinned,
        identity=None if opened is None else opened.property(IDENTITY),
        source=seen.relation,
        columns=seen.relation.columns,
        called={name: now and now[0] for name, now in columns_now(seen, text).items()},
        narrowed=narrowed(view, seen, text),
    )


def standing(context: Context, view: View) -> tuple[Pinned, ...]:
    """The inputs of a view as far as their commits tell; Spark is asked for nothing of its query."""
    found = []
    for entry in view.inputs:
        source = source_of(context, entry.name)
        log = context.opened(source.name)
        snapshot = Snapshot(None, {}) if log is None else _current(context, source, log)
        table = None if log is None else log.identifier
        found.append(Pinned(entry, source, (), table, snapshot, opened=log))
    return tuple(found)


def require_lent(context: Context, relation: Relation, table: str | None) -> None:
    """TG516 unless the environment that is read has this log, judged by the very definition that this one has: its
    decisions are taken as they are."""
    lender = context.project.env.reads
    if table is None:
        what, hint = (
            f'environment "{lender}" has no log of',
            f"run it there first: tidegate run --env {lender}",
        )
    else:
        log = context.tables.open(table)
        now = log.current()
        if is_as_judged(relation, log.properties(), now.summary):
            return
        what = f'environment "{lender}" has another definition of'
        hint = "to try out another watermark or source, use an environment with a warehouse of its own"
    raise TidegateError("TG516", f'{what} "{relation.name}"', hint=hint, location=relation.location)


def _require_same_results(context: Context, view: View, table: StoredTable | None) -> None:
    """TG516 unless the environment that is read still has results of the view's definition."""
    if table is None or not is_of_view(view, table.properties()):
        raise TidegateError(
            "TG516",
            f'environment "{context.project.env.reads}" has other results of "{view.name}" now than when this session '
            "was opened",
            hint="run again: what differs from that environment is computed here",
            location=view.location,
        )


def _columns_of(context: Context, source: Relation | View) -> tuple[CatalogColumn, ...]:
    return resolve_columns(context, source) if isinstance(source, View) else source.columns


def _current(context: Context, source: Relation | View, log: StoredTable, seen: bool = False) -> Snapshot:
    """What a relation's log or a view's table said last; of a table with a key, what its state said. `seen`: it is read
    with the columns of before a change. Then TG506 if the state of a table has not the columns of its log, by which
    these are found."""
    if not isinstance(source, Relation) or not source.primary_key:
        found = log.current()
        if isinstance(source, Relation):
            require_columns(context, source, log)
        # From one reading of the metadata: what the snapshot still has, and where it ends (R5).
        edge = retained_from(found.summary, log.property(RETAINED_FROM))
        return found if edge is None else replace(found, summary=found.summary | {RETAINED_FROM: str(edge)})
    if not context.tables.exists(state_identifier(log.identifier)):
        return Snapshot(None, {})
    # What a table with a key holds is in its state; cleaning it up changes no row that a view could see.
    stored = context.tables.open(state_identifier(log.identifier))
    state = applied_of(now := stored.current())
    # Behind the reading of the state: what the log does not say of its columns now, the state did not have then.
    log.refresh()
    if seen:
        require_identity(source.name, stored, log.property(IDENTITY))
    facts = {"tidegate.watermark": state.watermark, "tidegate.cleaned": state.cleaned, RESETS: state.resets}
    facts["total-records"] = now.summary.get("total-records")
    if source.name in context.foreign and state.cleaned is not None:
        # Its cleanup waits for the views of the environment that owns it, and for none of this one (R5).
        facts[RETAINED_FROM] = state.cleaned + 1
    return Snapshot(state.snapshot, {k: str(v) for k, v in facts.items() if v is not None}, state.epoch)


def require_columns(context: Context, relation: Relation, log: StoredTable) -> None:
    """TG506 if a log does not have the columns of a definition that has changed: under a name that is theirs there may
    be other values until the log is changed, too (E2). TG516 as `require_lent`."""
    stored = log.property(IDENTITY)
    if stored is None or stored == relation_identity(relation):
        if relation.primary_key and relation.name not in context.foreign:
            _require_followed(context, relation, log.identifier, stored)
        return
    if relation.kind == "gate":
        require_same(relation, log.properties())
    old = stored_relation(log.property("tidegate.definition") or "")
    known = {(c.name, c.type) for c in old.columns} if old is not None else set()
    if old is not None and not {(c.name, c.type) for c in relation.columns} <= known:
        if relation.name in context.foreign:
            require_lent(context, relation, log.identifier)
        raise TidegateError(
            "TG506",
            f'the definition of "{relation.name}" has changed, and its log does not have these columns yet',
            hint=f"tidegate run {relation.name} changes the log, and tidegate plan {relation.name} shows how",
            location=relation.location,
        )


def _require_followed(context: Context, relation: Relation, log: str, identity: str | None) -> None:
    """TG506 if the state of a table does not have the columns of its log yet: a run was interrupted in between."""
    state = state_identifier(log)
    if not context.tables.exists(state):
        return
    require_identity(relation.name, context.tables.open(state), identity)


def changes_of(context: Context, name: str) -> str | None:
    """How the columns of an input of a view were changed, as its log records it (`plan/columns/changes.py`). TG506 if
    they are to be changed first (`require_columns`)."""
    stored, source = context.stored(name), source_of(context, name)
    if stored is None or not isinstance(source, Relation):
        return None
    log = context.tables.open(stored)
    require_columns(context, source, log)
    return log.property(CHANGES)


def resolve_columns(context: Context, view: View) -> tuple[CatalogColumn, ...]:
    """The view's columns with the types that Spark gives them, those of its inputs first; nothing runs.

    TG507 if Spark refuses the query.
    """
    known = context.resolved.get(view.name)
    if known is not None and known[0] is view:
        return known[1]
    try:
        schema = evaluate(context.spark, view, no_rows(context, view)).schema
    except TidegateError:
        raise
    except Exception as error:
        raise refused(f'the query of "{view.name}"', error, view.location) from error
    types = {field.name: ddl(field.dataType) for field in schema.fields}
    for name, kind in types.items():
        if re.search(r"\b(void|interval|variant)\b", re.sub("`[^`]*`", "", kind)):
            what = f'column "{name}" of "{view.name}" has the type {kind}, which a table can\'t store'
            raise TidegateError("TG507", what, hint="CAST it", location=view.location)
    columns = tuple(replace(c, type=types[c.name]) for c in view.columns)
    context.resolved[view.name] = (view, columns)
    return columns


def no_rows(context: Context, view: View) -> list[DataFrame]:
    """The inputs of a view as empty frames, whatever is stored of them."""
    frames = []
    for entry in view.inputs:
        seen = view.seen_as(entry.name)
        source = source_of(context, entry.name) if seen is None else seen.relation
        nothing = Pinned(entry, source, _columns_of(context, source), None, Snapshot(None, {}))
        frames.append(empty(context.spark, nothing.fields()))
    return frames
