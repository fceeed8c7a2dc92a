"""`run`: sources first, then the views that can close something. Each log is written under its lease."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from tidegate.engine.result import RunReport, SourceReport, ViewReport
from tidegate.engine.sources import Connector
from tidegate.engine.sources.filesystem import FilesystemConnector
from tidegate.engine.sources.replay import ReplayConnector
from tidegate.engine.stream import catch_up
from tidegate.plan.events import (
    BatchCommitted,
    Event,
    RunFinished,
    RunStarted,
    SourceFinished,
    SourceStarted,
    ViewFinished,
)
from tidegate.sql.catalog import Relation, SystemTable, View
from tidegate.sql.connectors import FilesystemOptions, ReplayOptions

if TYPE_CHECKING:
    from tidegate.engine.ingest import Log
    from tidegate.engine.session import Session

Listener = Callable[[Event], None]


def run(
    session: Session,
    names: Iterable[str] | None = None,
    max_rows_per_batch: int | None = None,
    on_event: Listener | None = None,
    upstream: bool = True,
) -> RunReport:
    """See `Session.run`."""
    tell: Listener = on_event or (lambda event: None)
    started = time.monotonic()
    relations, views = select(session, names, upstream)
    for view in views:
        # Every query is checked by Spark before the first row of any source is read.
        resolve(session, view)
    tell(RunStarted(tuple(x.name for x in [*relations, *views])))
    report = RunReport()
    for relation in relations:
        with session.lease(relation.name):
            report.sources.append(run_source(session, relation, max_rows_per_batch, tell))
    for view in views:
        report.views.append(run_view(session, view, tell))
    report.seconds = round(time.monotonic() - started, 3)
    tell(RunFinished(report.seconds))
    return report


def select(
    session: Session, names: Iterable[str] | None, upstream: bool = True
) -> tuple[list[Relation], list[View]]:
    """The relations and views that `names` ask for, None is everything; with `upstream` a view brings its own
    along.
    """
    catalog = session.catalog
    if names is None:
        wanted = set(catalog.names())
    else:
        wanted = set()
        for name in names:
            found = catalog.get(name)
            wanted.add(found.relation.name if isinstance(found, SystemTable) else found.name)
            if upstream and isinstance(found, View):
                wanted.add(catalog.get(found.upstream).name)
    objects = [o for o in catalog.order() if o.name in wanted]
    return [o for o in objects if isinstance(o, Relation)], [o for o in objects if isinstance(o, View)]


def resolve(session: Session, view: View) -> None:
    """Raise what Spark has to say against a view's query."""
    from tidegate.engine.slices import resolve_columns

    resolve_columns(session.spark, view, session.relation(view.upstream))


def run_source(session: Session, relation: Relation, max_rows: int | None, tell: Listener) -> SourceReport:
    """Read everything that waits in one source; its lease is held by the caller."""
    log = session.log(relation)
    report = SourceReport(relation.name, watermark=log.format(log.progress.published))
    connector = connect(session, relation, log, max_rows)
    if connector is None:
        return report
    pending = connector.pending()
    log.progress.enumerate(pending.partitions)
    tell(SourceStarted(relation.name, pending.rows, pending.files))

    def on_batch(event: BatchCommitted) -> None:
        report.epochs += 1
        report.on_time += event.on_time
        report.late += event.late
        report.rejected += event.rejected
        report.watermark = event.watermark
        tell(event)

    catch_up(
        session.spark, session.project.storage, log, connector, session.work_folder(relation.name), on_batch
    )
    totals = log.progress.totals()
    tell(SourceFinished(relation.name, **totals, watermark=report.watermark, epochs=report.epochs))
    return report


def run_view(session: Session, view: View, tell: Listener) -> ViewReport:
    """Close what the upstream's watermark allows."""
    with session.lease(view.name):
        if session.stored(view.upstream) is None:
            session.log(session.relation(view.upstream))  # a table that never had an INSERT has no log yet
        table = session.view_table(view)
        _, before, _ = table.totals()
        event = table.tick()
        if event is not None:
            tell(event)
        frontier, groups, opened = table.totals()
    tell(ViewFinished(view.name, frontier, groups, opened))
    return ViewReport(view.name, groups - before, opened, frontier)


def connect(session: Session, relation: Relation, log: Log, max_rows: int | None = None) -> Connector | None:
    """The relation's connector, or None for a table (its rows come by INSERT)."""
    options = relation.connector
    if options is None:
        return None
    if isinstance(options, FilesystemOptions):
        return FilesystemConnector(session.spark, session.project, relation, options, log.consumed_files)
    if isinstance(options, ReplayOptions):
        played = sum(log.progress.totals().values())
        return ReplayConnector(
            session.spark, session.project, relation, options, log.consumed_files, played, max_rows
        )
    raise AssertionError(f"no connector for {options!r}")
