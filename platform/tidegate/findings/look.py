"""Gathers what a diagnosis needs, without a JVM: metadata, a few progress files, brokers, locks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from tidegate.errors import TidegateError
from tidegate.findings import partitions
from tidegate.findings.diagnose import LimitsOf, diagnose
from tidegate.findings.facts import Past, ProjectFacts, SinkFacts, SourceFacts, StrategyKind, ViewFacts
from tidegate.findings.lag import judge
from tidegate.findings.memory import EarlierLooks
from tidegate.findings.model import Finding
from tidegate.findings.skews import is_skewed
from tidegate.plan.closing import closes_anything, window_of
from tidegate.plan.columns.undeclared import Undeclared
from tidegate.plan.crashes import Crashes
from tidegate.plan.versions import kept_versions
from tidegate.project.jobs.live import live_members
from tidegate.project.jobs.stalls import StallLimits, limits_of
from tidegate.project.kafka import java_properties, topic
from tidegate.sql.catalog.catalog import Catalog
from tidegate.sql.catalog.lineage import computed, sources_of
from tidegate.sql.catalog.objects import Relation, Sink, View, reads
from tidegate.sql.options.kafka_options import KafkaOptions
from tidegate.store.gates import gates_of, is_gate
from tidegate.store.history import find_offset, read_history
from tidegate.store.metadata import CommittedTable, StoredCommit, load_table
from tidegate.store.positions import final_keys
from tidegate.store.sinks import AMENDMENTS, sink_status
from tidegate.store.status import read_status
from tidegate.store.status_values import RelationStatus, ViewStatus
from tidegate.store.writers import read_writer
from tidegate.watermark import Expression, SourceWatermark, TimeKind

if TYPE_CHECKING:
    from tidegate.project import Project
    from tidegate.project.jobs.jobs import Jobs

#: Partitions whose row from the future is looked for in one look: each is a scan of a few files.
_SOUGHT = 3

#: Seconds of history that are read at least: a skewed clock shows in several commits.
_LEAST_HISTORY = 900


@dataclass(frozen=True)
class LookResult:
    """One look: what was found, and what the next look needs to know. `names`: what was asked for."""

    facts: ProjectFacts
    findings: tuple[Finding, ...]
    memory: EarlierLooks
    names: tuple[str, ...]

    def of(self, name: str) -> tuple[Finding, ...]:
        """The findings about one asset."""
        return tuple(f for f in self.findings if f.asset == name)


def look(
    project: Project,
    names: Sequence[str] | None = None,
    memory: EarlierLooks | None = None,
    now: datetime | None = None,
    ask_brokers: bool = True,
) -> LookResult:
    """Findings about the project, or about `names` and all that they come from. `now` replaces the clock (with a time
    zone).

    Raises the errors of the project's SQL and of `jobs/`, and TG620 if tables can't be read; a broker that does not
    answer is a finding.
    """
    catalog, jobs = project.catalog(), project.jobs()
    at = now or datetime.now(UTC)

    def limits(name: str) -> StallLimits:
        found = catalog.find(name)
        # An inline gate has those of what it judges.
        if isinstance(found, Relation) and is_gate(found):
            return limits_of(jobs.stalls, reads(found)[0])
        return limits_of(jobs.stalls, name)

    wanted = _wanted(catalog, names)
    facts = _gather(project, catalog, jobs, limits, at, ask_brokers, set(wanted))
    findings, after = diagnose(facts, limits, memory)
    return LookResult(facts, tuple(f for f in findings if f.asset in wanted), after, wanted)


def watched(catalog: Catalog) -> tuple[str, ...]:
    """The names of all that can have findings: sources and tables with a watermark, views and sinks; in the order of
    computation."""
    return tuple(
        o.name
        for o in computed(catalog)
        if isinstance(o, View | Sink) or (isinstance(o, Relation) and o.watermark is not None)
    )


def _wanted(catalog: Catalog, names: Sequence[str] | None) -> tuple[str, ...]:
    every = *watched(catalog), *_gates(catalog)
    if not names:
        return every
    chosen: set[str] = set()
    for name in names:
        sink = catalog.sinks.find(name)
        if sink is not None:
            chosen.add(sink.name)
        found = catalog.get(name if sink is None else sink.upstream)
        obj = found if isinstance(found, Relation | View) else found.relation
        chosen |= {obj.name, *(o.name for o in sources_of(catalog, obj))}
        chosen |= {gate.name for gate in gates_of(catalog, [obj])}
    return tuple(name for name in every if name in chosen)


def _gates(catalog: Catalog) -> tuple[str, ...]:
    """The inline gates of all views (W14)."""
    return tuple(o.name for o in catalog.order() if is_gate(o))


def _gather(
    project: Project,
    catalog: Catalog,
    jobs: Jobs,
    limits: LimitsOf,
    at: datetime,
    ask_brokers: bool,
    wanted: set[str],
) -> ProjectFacts:
    expected = {name: run.name for run in jobs.live if run.enabled for name in live_members(catalog, run)}
    # All views: which windows wait for a source is seen there.
    relations = [
        o.name
        for o in computed(catalog)
        if isinstance(o, Relation) and o.name in wanted and o.watermark is not None
    ]
    relations += [name for name in _gates(catalog) if name in wanted]
    views = [o.name for o in computed(catalog) if isinstance(o, View)]
    # An environment that reads another one's sources delivers nothing.
    sinks = [s for s in catalog.sinks if project.lender is None]
    # A sink's own query is a view that is called like the sink, where people are told of it.
    own = {s.view.name: s.name for s in sinks if s.view is not None}
    locks = project.state_dir / "locks" / project.env.warehouse.namespace
    # Without names it would read everything.
    asked = [*relations, *views, *own]
    status = read_status(project, asked, at, ask_brokers) if asked else None
    found_sources, found_views = [], []
    for relation in status.relations if status else ():
        definition = catalog.get(relation.name)
        assert isinstance(definition, Relation)
        below = catalog.get(reads(definition)[0]) if is_gate(definition) else definition
        live = isinstance(below, Relation) and isinstance(below.connector, KafkaOptions)
        source = _source(project, definition, relation, jobs, limits, live)
        source = replace(
            source, writer=read_writer(locks, relation.name), expected=expected.get(relation.name)
        )
        found_sources.append(_suspected(project, definition, source, limits, at, ask_brokers))
    for view in status.views if status else ():
        definition = catalog.get(view.name)
        assert isinstance(definition, View)
        facts, called = _view(project, catalog, definition, view), own.get(view.name, view.name)
        facts = replace(facts, status=replace(view, name=called))
        found_views.append(
            replace(facts, writer=read_writer(locks, view.name), expected=expected.get(called))
        )
    found_sinks = []
    for sink in sinks:
        if sink.name in wanted:
            writer = read_writer(locks, sink.name)
            found_sinks.append(
                replace(_sink(project, catalog, sink), writer=writer, expected=expected.get(sink.name))
            )
    return ProjectFacts(
        at.timestamp(),
        tuple(found_sources),
        tuple(found_views),
        tuple(found_sinks),
        status.live if status else (),
    )


def _source(
    project: Project, relation: Relation, status: RelationStatus, jobs: Jobs, limits: LimitsOf, live: bool
) -> SourceFacts:
    mark, own = relation.watermark, limits(relation.name)
    assert mark is not None
    kind: StrategyKind = "plain"
    if isinstance(mark.strategy, SourceWatermark):
        kind = "source_watermark"
    elif isinstance(mark.strategy, Expression):
        kind = "expression"
    table = load_table(project.storage, relation.name) if status.ran else None
    span = max(own.all_late, own.strategy_null, own.backlog_for, _LEAST_HISTORY)
    history = read_history(project.storage, table, span) if table is not None else []
    reset_as = relation.name
    if is_gate(relation):
        # It goes back with what it judges, unless it has another time (W9).
        reset_as = f'"{relation.name}"' if relation.follows is None else reads(relation)[0]
    return SourceFacts(
        status=status,
        kind=mark.kind,
        live=live,
        strategy=mark.expression,
        strategy_kind=kind,
        max_future_skew=mark.max_future_skew,
        history=tuple(Past(when, {p.partition or "": p for p in rows}) for when, rows in history),
        lag=judge(relation, status, jobs.thresholds),
        crashes=Crashes.of(table.summary) if table is not None else None,
        undeclared=Undeclared.of(table.summary) if table is not None else None,
        reset_as=reset_as,
    )


def _suspected(
    project: Project,
    relation: Relation,
    source: SourceFacts,
    limits: LimitsOf,
    at: datetime,
    ask_brokers: bool,
) -> SourceFacts:
    """What is asked only where there is a suspicion: which offset is from the future, what messages are stamped."""
    if not source.history:
        return source
    own, mark = limits(relation.name), relation.watermark
    assert mark is not None
    ahead = partitions.ahead_of_clock(source, own, at.timestamp())
    if ahead and (table := load_table(project.storage, relation.name)) is not None:
        culprits = {}
        for name, value in ahead[:_SOUGHT]:
            offset = _sought(project, table, name, mark.column, mark.kind, value)
            if offset is not None:
                culprits[name] = offset
        source = replace(source, culprits=culprits)
    if ask_brokers and source.status.broker_error is None and is_skewed(source, own):
        source = replace(source, newest=_newest(relation))
    return source


def _sought(
    project: Project, table: CommittedTable, partition: str, column: str, kind: TimeKind, value: int
) -> int | None:
    try:
        return find_offset(project.storage, table, partition, column, kind, value)
    except Exception:
        # The offset is a help; a file that compaction takes away meanwhile must not hide the cause itself.
        return None


def _newest(relation: Relation) -> dict[str, float]:
    from tidegate.store.brokers.broker import BrokerConnection

    options = relation.connector
    assert isinstance(options, KafkaOptions)
    try:
        with BrokerConnection(java_properties(options), 3.0, options.properties) as broker:
            return {str(p): ms / 1000 for p, ms in broker.newest(topic(options)).items()}
    except TidegateError:
        return {}  # read_status has said whether it answers


def _view(project: Project, catalog: Catalog, view: View, status: ViewStatus) -> ViewFacts:
    upstream = tuple(o.name for o in sources_of(catalog, view))
    if view.clock is None:
        return ViewFacts(status, upstream)
    kind, window = view.kind, window_of(view)

    def end(mark: int) -> str:
        return kind.format(mark if window is None else window.watermark_end(mark))

    due, since = None, None
    if not status.current and status.clock is not None:
        due = f"up to {kind.format(status.clock)}" if status.frontier is None else end(status.frontier)
        since = _due_since(project, view, status.frontier)
    held = [load_table(project.storage, name) for name in status.holds_back]
    committed = [t.committed_ms / 1000 for t in held if t is not None and t.committed_ms is not None]
    return ViewFacts(
        status=status,
        upstream=upstream,
        next_end=None if status.clock is None else end(status.clock),
        in_windows=window is not None,
        one_tick=window is None and view.open_sql is None,
        due_end=due,
        due_since=since,
        held_since=min(committed, default=None),
    )


def _due_since(project: Project, view: View, frontier: int | None) -> float | None:
    """When the watermark of its one input first allowed what is not final; None with several inputs."""
    if len(view.inputs) != 1 or not view.emit_on_window_close or view.clock is None:
        return None
    table = load_table(project.storage, view.inputs[0].name)
    since = None
    for commit in table.commits if table is not None else ():
        mark = commit.integer("tidegate.watermark")
        if mark is None or not closes_anything(view, frontier, view.clock.at(mark)):
            break
        since = commit.at_ms / 1000
    return since


def _sink(project: Project, catalog: Catalog, sink: Sink) -> SinkFacts:
    status = sink_status(project.storage, sink, catalog)
    upstream = catalog.get(sink.upstream)
    assert isinstance(upstream, View | Relation)
    called = "its query" if sink.view is not None else upstream.name
    table = load_table(project.storage, upstream.name)
    if table is not None and status.goes_on:
        swaps = [datetime.fromisoformat(one.until).timestamp() for one in kept_versions(table.properties)]
        return SinkFacts(status, called, due_since=max(swaps, default=None))
    if table is None or status.waiting is None:
        return SinkFacts(status, called)
    kind = upstream.kind if isinstance(upstream, View) else upstream.watermark and upstream.watermark.kind
    mark = "tidegate.frontier" if isinstance(upstream, View) else "tidegate.watermark"

    def upto(commit: CommittedTable | StoredCommit) -> str | None:
        found = commit.integer(mark)
        return kind.format(found) if isinstance(kind, TimeKind) and found is not None else None

    _, rows = final_keys(upstream)
    since, delivered = None, None
    for commit in table.commits:
        behind = (table.integer(rows) or 0) - (commit.integer(rows) or 0)
        older = (table.integer(AMENDMENTS) or 0) - (commit.integer(AMENDMENTS) or 0)
        if behind >= status.waiting and older >= (status.amendments_waiting or 0):
            delivered = commit
            break
        since = commit.at_ms / 1000
    return SinkFacts(
        status,
        called,
        delivered_upto=None if delivered is None else upto(delivered),
        final_upto=upto(table),
        due_since=since,
        since_is_exact=delivered is not None,
    )
