"""Reads how far every source, table, view and sink of a project is: rows, watermarks, frontiers, who holds back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from tidegate.errors import TidegateError
from tidegate.plan.closing import PARTIAL, closes_anything, commits, held_back, stops
from tidegate.plan.columns.taken_in import types_taken_in
from tidegate.plan.columns.undeclared import Undeclared
from tidegate.plan.gaps import RETAINED_FROM, edge_of, gaps, hole, retained_from, with_cleaned
from tidegate.plan.lost_totals import LOST_TOTALS
from tidegate.plan.resets import Beyond, step_back
from tidegate.plan.versions import (
    BUILDING,
    HELD_AT,
    VALID_FROM,
    VersionInBuilding,
    current_version,
    held_at,
    next_of,
)
from tidegate.project.storage import Storage
from tidegate.sql.catalog.catalog import Catalog
from tidegate.sql.catalog.lineage import sources_of
from tidegate.sql.catalog.objects import Object, Relation, Sink, SystemTable, View
from tidegate.sql.options.kafka_options import KafkaOptions
from tidegate.store.gates import gates_of, is_gate, read_by
from tidegate.store.holding import holding_back
from tidegate.store.metadata import CommittedTable, ProgressRow, load_table, read_progress
from tidegate.store.once import read_once
from tidegate.store.sinks import SinkStatus, sink_status
from tidegate.store.status_values import (
    BuildingStatus,
    PartitionStatus,
    ProjectStatus,
    RelationStatus,
    ViewStatus,
)
from tidegate.store.writers import running
from tidegate.watermark import Mark, SessionMark, TimeKind

if TYPE_CHECKING:
    from tidegate.project import Project
    from tidegate.store.brokers.broker import Offsets


def read_status(
    project: Project,
    names: Sequence[str] | None = None,
    now: datetime | None = None,
    ask_brokers: bool = True,
    catalog: Catalog | None = None,
) -> ProjectStatus:
    """Status of the project, or of `names` of it, without a JVM. `now` replaces the clock (with a time zone),
    `catalog` what the project's files define.

    `ask_brokers`: whether Kafka says how much waits; a broker that does not answer is named, not an error. Raises the
    errors of the project's SQL, and TG620 if tables can't be read.
    """
    catalog = catalog or project.catalog()
    wanted = [catalog.sinks.find(name) or catalog.get(name) for name in names or ()]
    if not names:
        wanted = [*catalog.relations, *catalog.views, *catalog.sinks]
    clock = now or datetime.now(UTC)
    items = [found.relation if isinstance(found, SystemTable) else found for found in wanted]
    with read_once():
        return _read_status(project, catalog, items, clock, ask_brokers)


def _read_status(
    project: Project,
    catalog: Catalog,
    items: Sequence[Object | Sink],
    clock: datetime,
    ask_brokers: bool,
) -> ProjectStatus:
    relations: dict[str, RelationStatus] = {}
    views: list[ViewStatus] = []
    sinks: list[SinkStatus] = []
    ends = _ends(items) if ask_brokers else {}
    for item in items:
        if isinstance(item, Sink):
            sinks.append(sink_status(project.storage, item, catalog))
        elif isinstance(item, View):
            views.append(_view(project.storage, item, catalog, clock))
        else:
            relations[item.name] = _relation(project.storage, item, clock, ends, catalog)
    gates = [gate for gate in gates_of(catalog, items) if gate.name not in relations]
    return ProjectStatus(
        project.name,
        project.env_name,
        project.storage.warehouse,
        tuple(relations.values()),
        tuple(views),
        tuple(sinks),
        tuple(_relation(project.storage, gate, clock, ends, catalog) for gate in gates),
        tuple(running(project.state_dir, project.env_name)),
    )


def read_marks(storage: Storage, catalog: Catalog, found: Object) -> dict[str, Mark] | None:
    """How far everything is that `found` comes from, and itself: watermarks and frontiers by name, in their units.
    None before the first commit of any of it."""
    marks: dict[str, Mark] = {}
    ran = False
    for source in (*sources_of(catalog, found), found):
        state = load_table(storage, source.name)
        ran = ran or (state is not None and state.snapshot_id is not None)
        marks[source.name] = _mark(source, state)
    return marks if ran else None


def _relation(
    storage: Storage,
    relation: Relation,
    clock: datetime,
    brokers: Mapping[str, Offsets | TidegateError],
    catalog: Catalog,
) -> RelationStatus:
    kind = relation.watermark.kind if relation.watermark else None
    table = load_table(storage, relation.name)
    rows = read_progress(storage, table) if table else []
    partitions = [r for r in rows if r.partition is not None]
    watermark = table.integer("tidegate.watermark") if table else None
    counts = [(table and table.integer(f"tidegate.{x}")) or 0 for x in ("on_time", "late", "rejected")]
    newest = max((r.max_event_time for r in rows if r.max_event_time is not None), default=None)
    behind = None if watermark is None or newest is None else _seconds(kind, newest - watermark)
    held = holding_back(watermark, partitions)
    said = brokers.get(relation.name, {})
    problem = f"{said.code}: {said.message}" if isinstance(said, TidegateError) else None
    ends = {} if isinstance(said, TidegateError) else {str(part): end for part, (_, end) in said.items()}
    shown = tuple(_partition(kind, r, clock, ends, held) for r in partitions)
    waiting = [p.lag_rows for p in shown if p.lag_rows is not None]
    return RelationStatus(
        name=relation.name,
        kind=relation.kind,
        ran=bool(table and table.snapshot_id is not None),
        raw=sum(counts),
        on_time=counts[0],
        late=counts[1],
        rejected=counts[2],
        epoch=table.integer("tidegate.epoch") if table else None,
        time_column=relation.watermark.column if relation.watermark else None,
        time_kind=kind.name if kind else None,
        watermark=watermark,
        watermark_text=_text(kind, watermark),
        behind_newest=behind,
        lag=_lag(kind, watermark, clock),
        holds_back=held,
        partitions=shown,
        snapshot_id=table.snapshot_id if table else None,
        committed_at=_committed(table),
        lag_rows=sum(waiting) if waiting else None,
        broker_error=problem,
        undeclared=seen.columns if (seen := Undeclared.of(table.summary if table else {})) else {},
        taken_in=types_taken_in(table.properties if table else {}),
        gate=relation.definition if is_gate(relation) else None,
        read_by=read_by(catalog, relation) if is_gate(relation) else (),
    )


def _ends(items: Sequence[Object | Sink]) -> dict[str, Offsets | TidegateError]:
    """The offsets of each Kafka source at its broker, or why there are none."""
    topics = {
        item.name: item.connector
        for item in items
        if isinstance(item, Relation) and isinstance(item.connector, KafkaOptions)
    }
    if not topics:
        return {}
    from tidegate.store.brokers.broker import read_all_offsets

    return read_all_offsets(topics, timeout_s=3.0)


def _partition(
    kind: TimeKind | None, row: ProgressRow, clock: datetime, ends: Mapping[str, int], held: Sequence[str]
) -> PartitionStatus:
    end = ends.get(row.partition or "", row.end_offset)
    return PartitionStatus(
        partition=row.partition or "",
        watermark=row.watermark,
        watermark_text=_text(kind, row.watermark),
        next_offset=row.next_offset,
        on_time=row.on_time,
        late=row.late,
        rejected=row.rejected,
        state=row.state,
        max_event_time=row.max_event_time,
        max_event_time_text=_text(kind, row.max_event_time),
        end_offset=end,
        lag=_lag(kind, row.watermark, clock),
        lag_rows=None if end is None else max(end - row.next_offset, 0),
        holds_back=row.partition in held,
        quiet_since=None if row.quiet_since is None else _iso(row.quiet_since / 1e6),
    )


def _view(storage: Storage, view: View, catalog: Catalog, now: datetime) -> ViewStatus:
    table = load_table(storage, view.name)
    states = {name: load_table(storage, name) for name in view.reads}
    sources = {name: catalog.get(name) for name in view.reads}
    marks = [_mark(sources[i.name], states[i.name]) for i in view.inputs]
    clock = view.clock.at(*marks) if view.clock is not None else None
    frontier = table.integer("tidegate.frontier") if table else None
    ran = bool(table and table.snapshot_id is not None)
    held = held_at(table.properties.get(HELD_AT)) if table else None
    facts = {name: {} if state is None else state.summary for name, state in states.items()}
    back = step_back(view, table.summary, facts, marks) if table else None
    edges = {name: (_kind(sources[name]), _edge(storage, name, states[name])) for name in view.reads}
    lost = hole(view, table.summary, edges) if table else None
    if back is not None:
        current = False
    elif view.emit_on_window_close:
        upto = held_back(clock, held)
        current = ran and not closes_anything(view, frontier, upto) and not stops(frontier, upto, held)
    else:
        taken = commits(table.summary.get("tidegate.inputs")) if table else {}
        current = ran and taken == {name: _commit(sources[name], states[name]) for name in view.reads}
        # What is open is not shown yet.
        current &= table is not None and PARTIAL not in table.summary
    behind = None if frontier is None or clock is None else _seconds(view.kind, max(clock - frontier, 0))
    return ViewStatus(
        name=view.name,
        ran=ran,
        reads=view.reads,
        emit_on_window_close=view.emit_on_window_close,
        frontier=frontier,
        frontier_text=_text(view.kind if view.clock is not None else None, frontier),
        clock=clock,
        clock_text=_text(view.kind if view.clock is not None else None, clock),
        holds_back=_inputs_behind(view, sources, marks, clock),
        groups=_groups(table),
        open=(table and table.integer("tidegate.open")) or 0,
        current=current,
        behind=behind,
        snapshot_id=table.snapshot_id if table else None,
        committed_at=_committed(table),
        time_kind=view.kind.name if view.clock is not None else None,
        skipped=tuple(
            (_text(view.kind, a), _text(view.kind, b)) for a, b in gaps(table.summary if table else {})
        ),
        missing=None if lost is None else lost.describe(),
        goes_back_to=back,
        goes_back_to_text=None if back is None else _text(view.kind, back),
        emitted_beyond=_emitted_beyond(view, table),
        lost_totals=(table and table.integer(LOST_TOTALS)) or 0,
        version=current_version(table.properties) if table else 1,
        building=_building(storage, view, table, now),
        valid_from=_valid_from(view, table),
        held_at=None if held is None else _text(view.kind, held),
    )


def _valid_from(view: View, table: CommittedTable | None) -> str | None:
    found = None if table is None else table.properties.get(VALID_FROM)
    return None if found is None else _text(view.kind, int(found))


def _building(
    storage: Storage, view: View, table: CommittedTable | None, now: datetime
) -> BuildingStatus | None:
    """Of the version that is built beside a view's table (E5); None if there is none."""
    beside = None if table is None else load_table(storage, next_of(view.name))
    mark = None if beside is None else VersionInBuilding.of_text(beside.properties.get(BUILDING))
    if table is None or beside is None or mark is None or mark.number <= current_version(table.properties):
        return None
    frontier = beside.integer("tidegate.frontier")
    percent, left = round(100 * mark.done(frontier), 1), mark.seconds_left(frontier, now)
    return BuildingStatus(mark.number, percent, left, view.kind.format(frontier), mark.started)


def stored_edge(table: CommittedTable | None) -> int | None:
    """Rows of a log or view before it may be missing (R5); ticks, None: none is."""
    if table is None:
        return None
    return edge_of(table.summary, retained_from(table.summary, table.properties.get(RETAINED_FROM)))


def _edge(storage: Storage, name: str, table: CommittedTable | None) -> int | None:
    """The same of what a view reads. The cleanup of a table that is only read here waits for no view of this
    environment."""
    state = load_table(storage, f"{name}$state") if storage.is_lent(name) else None
    return stored_edge(table) if state is None else with_cleaned(stored_edge(table), state.summary)


def _emitted_beyond(view: View, table: CommittedTable | None) -> str | None:
    stale = Beyond.of(table.summary) if table else None
    return None if stale is None else _text(view.kind, stale.upto)


def _groups(table: CommittedTable | None) -> int:
    """Closed result rows: those that ticks have released, and by how many amendments have changed that (B2)."""
    if table is None:
        return 0
    return (table.integer("tidegate.groups") or 0) + (table.integer("tidegate.amended-groups") or 0)


def _mark(source: Object | SystemTable, state: CommittedTable | None) -> Mark:
    """How far an input of a view is, as the engine reads it (D2, D3)."""
    if state is None:
        return None
    if not isinstance(source, View):
        return state.integer("tidegate.watermark")
    frontier = state.integer("tidegate.frontier")
    if source.open_sql is None:
        return frontier
    return SessionMark(frontier, state.integer("tidegate.earliest-open"))


def _commit(source: Object | SystemTable, state: CommittedTable | None) -> int | None:
    """What the engine records as taken in: the epoch of a table with a key, which is stored elsewhere, else a
    snapshot."""
    if state is None:
        return None
    keyed = isinstance(source, Relation) and source.primary_key
    return state.integer("tidegate.epoch") if keyed else state.snapshot_id


def _inputs_behind(
    view: View, sources: Mapping[str, Object | SystemTable], marks: Sequence[Mark], clock: int | None
) -> tuple[str, ...]:
    """The inputs that keep the clock where it is, where others are further (D2: the minimum of several); before there
    is a clock, those without a watermark."""
    timed = [k for k, entry in enumerate(view.inputs) if not entry.lookup]
    names = {view.inputs[k].name for k in timed}
    if view.clock is None or len(names) < 2:
        return ()
    plain = {k: m.watermark if isinstance(m := marks[k], SessionMark) else m for k in timed}
    if clock is None:
        return tuple(dict.fromkeys(view.inputs[k].name for k in timed if plain[k] is None))
    if len({_kind(sources[name]) for name in names}) > 1:
        return ()  # their watermarks count in different units
    top = max(value for value in plain.values() if value is not None)
    held = []
    for k in timed:
        # Were all others as far as the furthest: would the clock still stand here?
        others = [mark if n == k else top for n, mark in enumerate(marks)]
        if view.clock.at(*others) == clock:
            held.append(view.inputs[k].name)
    return () if set(held) == names else tuple(dict.fromkeys(held))


def _kind(source: Object | SystemTable) -> TimeKind | None:
    if isinstance(source, View):
        return source.kind
    return source.watermark.kind if isinstance(source, Relation) and source.watermark else None


def _text(kind: TimeKind | None, value: int | None) -> str:
    if kind is None:
        return "none"
    return kind.format(value)


def _seconds(kind: TimeKind | None, ticks: int) -> float | None:
    if kind in (TimeKind.TIMESTAMP, TimeKind.TIMESTAMPTZ):
        return ticks / 1_000_000
    return ticks * 86_400.0 if kind is TimeKind.DATE else None


def _lag(kind: TimeKind | None, watermark: int | None, clock: datetime) -> float | None:
    if watermark is None or kind is None:
        return None
    since_epoch = _seconds(kind, watermark)
    return None if since_epoch is None else round(clock.timestamp() - since_epoch, 3)


def _committed(table: CommittedTable | None) -> str | None:
    if table is None or table.committed_ms is None:
        return None
    return _iso(table.committed_ms / 1000)


def _iso(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
