"""`run`: sources first, then the views that can close something, each after the views that it reads: a chain of views
closes in one run. Each log and each view is written under its lease.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING

from tidegate.evolve.apply import open_log
from tidegate.ingest.connector import Connector
from tidegate.ingest.ingest import StoredLog
from tidegate.ingest.sources.filesystem import FilesystemConnector
from tidegate.ingest.sources.kafka import KafkaConnector
from tidegate.ingest.sources.log import LogConnector, follow
from tidegate.ingest.sources.replay import ReplayConnector
from tidegate.ingest.stream import SourceFeed, catch_up
from tidegate.plan.columns.gates import GATE, gate_columns
from tidegate.plan.events import (
    BatchCommitted,
    Event,
    RunFinished,
    RunStarted,
    SourceFinished,
    SourceStarted,
    ViewFinished,
)
from tidegate.runtime.result import RunReport, SinkReport, SourceReport, ViewReport
from tidegate.runtime.steps import Steps, together
from tidegate.sinks.deliver import begin, deliver
from tidegate.sql.catalog.lineage import sources_of
from tidegate.sql.catalog.objects import Relation, SystemTable, View
from tidegate.sql.options.connectors import FilesystemOptions, LogOptions, ReplayOptions
from tidegate.sql.options.kafka_options import KafkaOptions
from tidegate.views.resolve import require_lent, resolve_columns
from tidegate.views.retention import state_upkeep
from tidegate.views.versions.in_force import open_current, require_decided

if TYPE_CHECKING:
    from tidegate.runtime.context import Context
    from tidegate.sql.catalog.catalog import Catalog
    from tidegate.sql.catalog.objects import Sink

Listener = Callable[[Event], None]


def run(
    context: Context,
    names: Iterable[str] | None = None,
    max_rows_per_batch: int | None = None,
    on_event: Listener | None = None,
    upstream: bool = True,
    fail_fast: bool = True,
) -> RunReport:
    """See `Session.run`."""
    notify: Listener = on_event or (lambda event: None)
    started = time.monotonic()
    names = None if names is None else list(names)
    relations, views = select(context.catalog, names, upstream)
    # What another environment ingests or computes is read as it stands there.
    relations = [relation for relation in relations if relation.name not in context.foreign]
    views = [view for view in views if view.name not in context.foreign]
    sinks = select_sinks(context.catalog, names)
    notify(RunStarted((*(r.name for r in relations), *(v.name for v in views), *(s.name for s in sinks))))
    report, steps = RunReport(), Steps(fail_fast, notify)
    for view in views:
        # Every query is checked by Spark before the first row of any source is read.
        steps.do(view, partial(resolve, context, view), needed=True)
    for sink in sinks:
        steps.do(sink, partial(begin, context, sink))
    for relation in relations:
        report.sources.append(SourceReport(relation.name))
        steps.do(relation, partial(_read, context, relation, max_rows_per_batch, notify, report.sources[-1]))

    def close(view: View) -> None:
        report.views.append(run_view(context, view, notify))
        require_decided(context, view)

    def send(sink: Sink) -> None:
        report.sinks.append(deliver(context, sink, on_event))

    for view in views:
        steps.do(view, partial(close, view))
    for sink in sinks:
        steps.do(sink, partial(send, sink))
    for relation in relations:
        steps.do(relation, partial(state_upkeep, context, [relation]))
    report.failed, report.skipped = steps.failures, steps.skipped
    report.seconds = round(time.monotonic() - started, 3)
    failed, skipped = (tuple(one.name for one in found) for found in (report.failed, report.skipped))
    notify(RunFinished(report.seconds, failed, skipped))
    return report


def _read(
    context: Context, relation: Relation, max_rows: int | None, notify: Listener, report: SourceReport
) -> None:
    with context.lease(relation.name):
        run_source(context, relation, max_rows, notify, report)


def select(
    catalog: Catalog, names: Iterable[str] | None, upstream: bool = True
) -> tuple[list[Relation], list[View]]:
    """The relations and views that `names` ask for (None: everything), each after what it reads.

    With `upstream` a view brings along all that its rows come from, over any number of views; without it only the
    implicit relations of its own WATERMARK(…) (W14), which exist for its sake.
    """
    objects = catalog.order()
    if names is not None:
        wanted: set[str] = set()
        for name in names:
            sink = catalog.sinks.find(name)
            if sink is not None and sink.view is None and not upstream:
                continue
            found = catalog.get(name if sink is None else sink.upstream)
            asked = found.relation if isinstance(found, SystemTable) else found
            wanted.add(asked.name)
            if isinstance(asked, View):
                wanted |= {o.name for o in sources_of(catalog, asked)} if upstream else _gates(asked)
        objects = [o for o in objects if o.name in wanted]
    return [o for o in objects if isinstance(o, Relation)], [o for o in objects if isinstance(o, View)]


def select_sinks(catalog: Catalog, names: Iterable[str] | None) -> list[Sink]:
    """The sinks that `names` ask for; None: all. What a view closes stays where it is until its sink is asked for."""
    sinks = catalog.sinks
    if names is None:
        return list(sinks)
    wanted = {name.casefold() for name in names}
    return [sink for sink in sinks if sink.name.casefold() in wanted]


def resolve(context: Context, view: View) -> None:
    """Raise what Spark has to say against a view's query."""
    resolve_columns(context, view)


def refresh(
    context: Context, view: View, max_rows: int | None = None, notify: Listener = lambda event: None
) -> ViewReport:
    """Close what the inputs' watermarks allow, after the implicit relations of the view have taken in their rows."""
    report = _refreshed(context, view, max_rows, notify)
    require_decided(context, view)
    return report


def _refreshed(context: Context, view: View, max_rows: int | None, notify: Listener) -> ViewReport:
    for gate in view.gates:
        with context.lease(gate.name):
            # (The view may know it as it was.)
            run_source(context, context.relation(gate.name), max_rows, notify)
    return run_view(context, view, notify)


def run_sink(context: Context, sink: Sink, max_rows: int | None, notify: Listener) -> SinkReport:
    """Deliver what is stored, after the sink's own query has closed what it can. The caller has let the sink `begin`,
    before it ran what the sink delivers."""
    if sink.view is None:
        return deliver(context, sink, notify)
    _refreshed(context, sink.view, max_rows, notify)
    report = deliver(context, sink, notify)
    # Only now: what a view adds that continues with the columns of before is delivered all the same.
    require_decided(context, sink.view)
    return report


def run_source(
    context: Context,
    relation: Relation,
    max_rows: int | None,
    notify: Listener,
    report: SourceReport | None = None,
) -> SourceReport:
    """Read everything that waits in one source; its lease is held by the caller. `report` is filled as batches are
    committed. Raises what is wrong with single inputs (TG505) when all others are read."""
    report = report or SourceReport(relation.name)
    log = open_log(context, relation, notify)
    report.watermark = log.format(log.progress.published)
    connector = connect(context, log, max_rows)
    if connector is None:
        return report

    def on_batch(event: BatchCommitted) -> None:
        report.epochs += 1
        report.on_time += event.on_time
        report.late += event.late
        report.rejected += event.rejected
        report.watermark = event.watermark
        notify(event)

    with closing(connector):
        pending = connector.pending()
        log.progress.enumerate(pending.partitions)
        notify(SourceStarted(relation.name, pending.rows, pending.files))
        if isinstance(connector, LogConnector):
            follow(log, connector, on_batch, context.clock)
        else:
            folder = context.work_folder(relation.name)
            feed = SourceFeed(context.project.storage, log, connector, folder, context.clock, notify)
            catch_up(feed, on_batch)
        problems = connector.problems()
    if problems:
        raise together(problems)
    totals = log.progress.totals()
    notify(SourceFinished(relation.name, **totals, watermark=report.watermark, epochs=report.epochs))
    return report


def run_view(context: Context, view: View, notify: Listener) -> ViewReport:
    """Close what the watermarks of its inputs allow."""
    with context.lease(view.name):
        table = open_current(context, view)
        _, before, _ = table.totals()
        event = table.tick()
        if event is not None:
            notify(event)
        frontier, groups, opened = table.totals()
    notify(ViewFinished(view.name, frontier, groups, opened))
    return ViewReport(view.name, groups - before, opened, frontier)


def connect(context: Context, log: StoredLog, max_rows: int | None = None) -> Connector | None:
    """The connector of a log's relation, or None for a table (its rows come by INSERT)."""
    relation = log.relation
    options = relation.connector
    if options is None:
        return None
    if isinstance(options, FilesystemOptions):
        return FilesystemConnector(context.spark, context.project, relation, options, log.consumed_files)
    if isinstance(options, ReplayOptions):
        played = sum(log.progress.totals().values())
        return ReplayConnector(
            context.spark, context.project, relation, options, log.consumed_files, played, max_rows
        )
    if isinstance(options, KafkaOptions):
        return KafkaConnector(
            context.spark, context.project, relation, options, log, context.runner.topics, max_rows
        )
    if isinstance(options, LogOptions):
        upstream, followed = context.relation(options.relation), gate_columns(log.table.property(GATE))
        stored, lent = context.stored(upstream.name), upstream.name in context.foreign
        if lent:
            require_lent(context, upstream, stored)
        return LogConnector(
            context.tables,
            context.project.storage,
            relation,
            options,
            upstream,
            stored,
            log.progress.position,
            max_rows,
            lent,
            None if relation.made_of is not None or followed is None else followed.number,
        )
    raise AssertionError(f"no connector for {options!r}")


def _gates(view: View) -> set[str]:
    return {gate.name for gate in view.gates}
