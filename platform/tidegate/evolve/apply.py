"""A log is changed in place where its definition has changed, and asks for no more than that (E1)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from tidegate.errors import TidegateError
from tidegate.evolve.differences import Evolution, Stored, pending
from tidegate.iceberg.layout import log_columns, relation_identity
from tidegate.iceberg.table_change import TableChange
from tidegate.ingest.definition import require_same
from tidegate.ingest.ingest import Log
from tidegate.plan.columns.as_seen import BEFORE, with_columns_before
from tidegate.plan.columns.changes import CHANGES, inside, with_step
from tidegate.plan.columns.gates import GATE, GateColumns, gate_columns
from tidegate.plan.columns.taken_in import TAKEN_IN, taken_in, to_text, with_taken_in
from tidegate.plan.events import DefinitionChanged, Event
from tidegate.sql.catalog.objects import Relation, reads
from tidegate.sql.resolve.gate_names import first_name
from tidegate.views.resolve import require_lent

if TYPE_CHECKING:
    from tidegate.errors import Location
    from tidegate.runtime.context import Context


def open_log(
    context: Context, relation: Relation, notify: Callable[[Event], None] = lambda event: None
) -> Log:
    """The relation's log, opened for writing, after it was changed in place if the definition asks for it; hold its
    `lease`. Raises as `Log.of`, and TG506 for a change that is more than that."""
    stored = context.stored(relation.name)
    facts = _of_gate(context, relation, stored is not None) if relation.kind == "gate" else None
    was_so = stored is not None and _bring_up(
        context, relation, context.tables.open(stored).properties(), notify
    )
    log = _again(context, relation) if was_so else Log.of(context, relation, facts)
    before, now = log.progress.strategy, log.strategy
    if before is not None and now is not None and before.identity != now.identity:
        # Nor is a watermark's strategy taken back (W13).
        require_current(context, relation)
    return log


def _bring_up(
    context: Context, relation: Relation, properties: Mapping[str, str], notify: Callable[[Event], None]
) -> bool:
    """Change a log with these table properties in place. Whether it is of the definition then."""
    found = pending(relation, properties, context.catalog, properties_in(context))
    if found is None:
        return properties.get("tidegate.identity") == relation_identity(relation)
    old, wanted = found
    if wanted.refused or not wanted.text:
        raise refused(relation, wanted)
    require_current(context, _edited(context, relation))
    # The name as it is written today is the table's, and a gate is judged by what it was.
    log = _again(context, replace(old, name=relation.name, location=relation.location))
    identity = relation_identity(relation)
    epoch = log.progress.epoch + 1
    steps = wanted.steps(epoch, relation_identity(old), identity)
    facts = {
        "tidegate.definition": relation.definition,
        "tidegate.identity": identity,
        BEFORE: with_columns_before(log.table.properties(), old),
        CHANGES: with_step(log.table.property(CHANGES), *steps),
    }
    change = _table_change(log, relation, wanted, facts)
    if (known := gate_columns(properties.get(GATE))) is not None:
        # (Columns that go and come may give the same definition, by which nobody sees that this was done.)
        now = GateColumns(known.number + len(steps), relation.columns)
        change = replace(change, properties={**facts, GATE: now.text}, expected={GATE: properties[GATE]})
    new = [c.column for c in wanted.changes if c.kind == "add"]
    log.change_columns(change, new, f"definition changed: {wanted.text}")
    notify(DefinitionChanged(relation.name, epoch, wanted.text))
    return True


def properties_in(context: Context) -> Stored:
    """What stored tables say, by name."""

    def found(name: str) -> Mapping[str, str] | None:
        table = context.opened(name)
        return None if table is None else table.properties()

    return found


def _edited(context: Context, relation: Relation) -> Relation:
    """The one whose definition decides the columns of a relation: a gate has those of what it reads."""
    return relation if relation.kind != "gate" else context.relation(reads(relation)[0])


def _of_gate(context: Context, gate: Relation, is_stored: bool) -> dict[str, str]:
    """What the log of a gate says if it is made now. Raises TG506 if the log that it reads is not of its definition
    yet (TG516 for another environment's), or if the gate is stored under another name than this session knows."""
    below = _edited(context, gate)
    said = properties_in(context)(below.name) or {}
    if below.name in context.foreign:
        require_lent(context, below, context.stored(below.name))
    require_same(below, said)
    # (One of the first release that was dropped is made by its name of now, under which it follows.)
    is_dropped = gate.name in context.catalog.gate_names.values()
    if not is_stored and (
        is_dropped or (gate.made_of is None and context.stored(first_name(gate)) is not None)
    ):
        raise TidegateError(
            "TG506",
            f'the log of "{gate.definition}" has another name than this session knows',
            hint="open a new session, or start the process again",
            location=gate.location,
        )
    return {GATE: GateColumns.of(gate, said.get(CHANGES)).text}


def _table_change(log: Log, relation: Relation, wanted: Evolution, facts: dict[str, str]) -> TableChange:
    """How the table of a log becomes one of the new definition, which may declare what the log has taken in."""
    text = log.table.property(TAKEN_IN)
    rest = tuple(one for one in taken_in(text) if one not in wanted.adopted.values())
    # (What was taken in stays in the table, whether more is taken in from now on or not.)
    order = [name for name, _ in log_columns(with_taken_in(relation, to_text(rest)))]
    change = TableChange.of(wanted.changes, order, facts)
    if text is None:
        return change
    names = [(one.column, name) for name, one in wanted.adopted.items() if one.column != name]
    widened, added = list(change.widened), [one for one in change.added if one[0][0] not in wanted.adopted]
    for path, kind in change.added:
        if (was := wanted.adopted.get(path[0])) is not None:
            wider, new = inside(path[0], was.type, kind)
            widened += wider
            added += new
    return replace(
        change,
        renamed=(*change.renamed, *names),
        widened=tuple(widened),
        added=tuple(added),
        properties={**facts, TAKEN_IN: to_text(rest)},
        expected={TAKEN_IN: text},
    )


def _again(context: Context, relation: Relation) -> Log:
    """The log, which had this definition when it was read before. If it has another one now, somebody has changed it in
    between, or one of the two answers was of an older state: another try may fare better."""
    try:
        return Log.of(context, relation)
    except TidegateError as error:
        error.curable = error.curable or error.code == "TG506"
        raise


def require_current(context: Context, relation: Relation, location: Location | None = None) -> None:
    """A log and a definition are changed towards the newest definition only. Raises TG506 if another process has
    changed the definition since this one read it: this one would take that change back, and the values with it."""
    what = "has changed since this session was opened"
    # Of the files as they are now, whatever this session goes by.
    try:
        now = replace(context.project, texts=None).catalog().find(relation.name)
        if isinstance(now, Relation) and now.definition == relation.definition:
            return
    except TidegateError as problem:
        what = f"can't be compared with the files as they are now ({problem.code}: {problem.message})"
    error = TidegateError(
        "TG506",
        f'the definition of "{relation.name}" {what}, so the session can\'t change the log or the definition',
        hint="open a new session, or start the process again: it reads the new definition; live mode: tidegate reload",
        location=location or relation.location,
    )
    # A reload, or a file that is corrected, makes it right.
    error.curable = True
    raise error


def refused(relation: Relation, wanted: Evolution) -> TidegateError:
    """TG506, with what stands in the way of a change in place."""
    why = "".join(f"\n  {reason}" for reason in wanted.refused)
    again = f'DROP "{relation.name}" and run again to read everything again'
    if relation.kind == "gate":
        again = f"DROP the views with {relation.definition}, and create them again"
    return TidegateError(
        "TG506",
        f'the definition of "{relation.name}" has changed since its table was made, and its log can\'t be changed '
        f"in place{':' if why else ''}{why}",
        hint=f"undo the change; or give the new definition another name; or {again}",
        location=relation.location,
    )
