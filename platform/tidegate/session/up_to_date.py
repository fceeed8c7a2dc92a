"""Whether a run would find anything to do, without a JVM: a schedule that fires every minute should not start Spark to
learn that nothing came.

Whatever can't be told for certain from metadata, a listing and the brokers' offsets is Spark's to find out.

What "up to date" means is decided once: of a view by `closes_anything` and the commits that it has read, which its tick
asks as `ViewStatus.current` does; of a sink by its position and that of its upstream (`store/positions.py`). Only of
what a source reads there are two: connectors plan the next batch, in a JVM, and here is asked whether that plan would
be empty. In doubt the answer is no, so that the two can differ by a run that finds nothing, never by a row that waits.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING

from tidegate.errors import TidegateError
from tidegate.iceberg.layout import is_of_view, relation_identity
from tidegate.iceberg.progress import FilesRead
from tidegate.ingest.sources.files import list_files
from tidegate.ingest.sources.replay import fingerprint_of, stage_uri
from tidegate.plan.columns.changes import other_columns
from tidegate.plan.events import Event, RunFinished, RunStarted, SourceFinished, SourceStarted, ViewFinished
from tidegate.plan.versions import STALE, replaced_below
from tidegate.project.disk import trouble
from tidegate.project.object_store import read_json
from tidegate.project.owner import OWNER
from tidegate.runtime.result import RunReport, SinkReport, SourceReport, ViewReport
from tidegate.session.deployed import changes_in
from tidegate.session.run import select, select_sinks
from tidegate.sql.options.connectors import FilesystemOptions, LogOptions, ReplayOptions
from tidegate.sql.options.kafka_options import KafkaOptions
from tidegate.store.metadata import CommittedTable, load_table
from tidegate.store.sinks import sink_status
from tidegate.store.status import read_status

if TYPE_CHECKING:
    from tidegate.project import Project
    from tidegate.sql.catalog.catalog import Catalog
    from tidegate.sql.catalog.objects import Relation, View
    from tidegate.store.status_values import RelationStatus


def up_to_date(
    project: Project,
    catalog: Catalog,
    names: Iterable[str] | None = None,
    on_event: Callable[[Event], None] | None = None,
    upstream: bool = True,
) -> RunReport | None:
    """The report of a run that has nothing to do, and its events; None if there may be something. Arguments as those of
    `Session.run`. Raises TG503 for an input that is not there, TG620 if tables can't be read, and TG624 if it is object
    storage that refuses."""
    try:
        return _report(project, catalog, names, on_event, upstream)
    except OSError as error:
        if (known := trouble(error)) is not None:
            raise known from error
        raise


def _report(
    project: Project,
    catalog: Catalog,
    names: Iterable[str] | None,
    on_event: Callable[[Event], None] | None,
    upstream: bool,
) -> RunReport | None:
    started = time.monotonic()
    names = None if names is None else list(names)
    if project.lender is not None:
        return None
    relations, views = select(catalog, names, upstream)
    sinks = select_sinks(catalog, names)
    if not relations and not views and not sinks:
        return None
    if not all(_relation_up_to_date(project, relation) for relation in relations):
        return None
    if not all(_same_results(project, view) for view in views):
        return None
    if not all(sink_status(project.storage, sink, catalog).current for sink in sinks):
        return None
    names_read = [*(r.name for r in relations), *(v.name for v in views)]
    status = read_status(project, names_read, catalog=catalog)
    if not all(view.current for view in status.views):
        return None
    if not all(
        _read_to_the_end(relation, at) for relation, at in zip(relations, status.relations, strict=True)
    ):
        return None
    notify = on_event or (lambda event: None)
    notify(RunStarted((*names_read, *(s.name for s in sinks))))
    report = RunReport()
    for relation, at in zip(relations, status.relations, strict=True):
        mark = relation.watermark.kind.format(at.watermark) if relation.watermark else str(at.watermark_text)
        report.sources.append(SourceReport(relation.name, watermark=mark))
        if relation.connector is not None:
            in_files = isinstance(relation.connector, FilesystemOptions)
            notify(SourceStarted(relation.name, None if in_files else 0, 0 if in_files else None))
            notify(SourceFinished(relation.name, at.on_time, at.late, at.rejected, mark, 0))
    for view, seen in zip(views, status.views, strict=True):
        frontier = view.kind.format(seen.frontier)
        notify(ViewFinished(view.name, frontier, seen.groups, seen.open))
        report.views.append(ViewReport(view.name, 0, seen.open, frontier))
    report.sinks += [SinkReport(sink.name) for sink in sinks]
    report.seconds = round(time.monotonic() - started, 3)
    notify(RunFinished(report.seconds))
    return report


def _relation_up_to_date(project: Project, relation: Relation) -> bool:
    """Whether its log is of this definition, nothing is planned for it, and nothing waits where it is read."""
    options, table = relation.connector, load_table(project.storage, relation.name)
    if relation.primary_key:
        # Its state may have to catch up, and rows may expire.
        return False
    if table is None or (table.snapshot_id is None and options is not None):
        return False  # a first run makes the log, also of a table that has no rows yet
    if table.properties.get("tidegate.identity") != relation_identity(relation):
        return False
    if not _may_be_ours(project, table):
        return False
    if options is None:
        return True
    if _planned(project, relation, table):
        return False
    if isinstance(options, FilesystemOptions):
        return _all_files_read(project, relation, options, table)
    if isinstance(options, ReplayOptions):
        return _all_played(project, relation, options, table)
    if isinstance(options, LogOptions):
        upstream = load_table(project.storage, options.relation)
        newest = upstream and f"{upstream.uuid}/{upstream.integer('tidegate.epoch')}"
        return newest is not None and table.summary.get("tidegate.position") == newest
    # Whoever may become idle moves G without a row (W7).
    return isinstance(options, KafkaOptions) and options.idle_timeout is None


def _may_be_ours(project: Project, table: CommittedTable) -> bool:
    """Whether this project would write it; of somebody else's the run says so (X3)."""
    return table.properties.get(OWNER) in (None, project.owner.to_text())


def _planned(project: Project, relation: Relation, table: CommittedTable) -> bool:
    """Whether a run that broke off has left a plan."""
    filesystem, path = project.storage.filesystem(f"{project.storage.work_folder(relation.name)}/plans")
    epoch = (table.integer("tidegate.epoch") or 0) + 1
    return bool(filesystem.get_file_info(f"{path}/plan-{epoch:012d}").is_file)


def _all_files_read(
    project: Project, relation: Relation, options: FilesystemOptions, table: CommittedTable
) -> bool:
    read = FilesRead.from_text(table.summary.get("tidegate.files"))
    listed = list_files(project, relation.name, options.path)
    nothing = FilesRead(timed=read is None or read.timed)
    if read == nothing.and_files(f.facts for f in listed):
        return True
    # An empty file is read when it is filled; one of Parquet is named as damaged.
    in_text = relation.format is not None and relation.format.encode != "parquet"
    return in_text and read == nothing.and_files(f.facts for f in listed if f.size)


def _all_played(project: Project, relation: Relation, options: ReplayOptions, table: CommittedTable) -> bool:
    files = list_files(project, relation.name, options.path)
    marker = f"{stage_uri(project, relation, fingerprint_of(relation, options, files))}/_staged.json"
    filesystem, path = project.storage.filesystem(marker)
    if not filesystem.get_file_info(path).is_file:
        return False
    rows = read_json(filesystem, path)["rows"]
    counts = [table.integer(f"tidegate.{name}") or 0 for name in ("on_time", "late", "rejected")]
    return bool(rows == sum(counts))


def _read_to_the_end(relation: Relation, status: RelationStatus) -> bool:
    """Of a broker's topic: whether every partition that it has is known, and read."""
    if not isinstance(relation.connector, KafkaOptions):
        return True
    from tidegate.store.brokers.broker import read_offsets

    try:
        ends = {str(partition): end for partition, (_, end) in read_offsets(relation.connector).items()}
    except TidegateError:
        return False  # the run says what is wrong with it
    return ends == {p.partition: p.next_offset for p in status.partitions}


def _same_results(project: Project, view: View) -> bool:
    """Whether its results are of this definition (R4)."""
    table = load_table(project.storage, view.name)
    return (
        table is not None
        and _may_be_ours(project, table)
        and is_of_view(view, table.properties)
        and other_columns(view, table.properties, partial(changes_in, project.storage)) is None
        and not table.properties.get(STALE)
        and replaced_below(table.summary, partial(_life, project)) is None
    )


def _life(project: Project, name: str) -> str | None:
    table = load_table(project.storage, name)
    return None if table is None else table.uuid
