"""What a materialization says about itself. All of it is optional: a fact that can't be had is named, and left out."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from logging import Logger
from typing import TYPE_CHECKING, Any

from dagster import MetadataValue, TableColumn, TableRecord, TableSchema

from tidegate.dagster.markdown import picture
from tidegate.dagster.translator import table_schema
from tidegate.masking import masked
from tidegate.plan.columns.taken_in import not_declared_text
from tidegate.plan.columns.undeclared import undeclared_text
from tidegate.project.reading.durations import format_duration
from tidegate.runtime.result import SinkReport, SourceReport, ViewReport
from tidegate.sql.catalog.lineage import reads_of
from tidegate.sql.catalog.objects import Relation, Sink, View
from tidegate.store.status import read_status
from tidegate.store.status_values import RelationStatus, ViewStatus

if TYPE_CHECKING:
    from tidegate.session.session import Session

#: Rows of the partition table in the UI; a source may have thousands of partitions.
SHOWN_PARTITIONS = 100

_PARTITION_COLUMNS = {
    "partition": "string",
    "watermark": "string",
    "newest event": "string",
    "on time": "int",
    "late": "int",
    "rejected": "int",
    "next offset": "int",
    "holds back": "string",
}


def soft(log: Logger, what: str, make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """`make()`, or one entry that says why there is none: metadata never fails a run that has committed."""
    try:
        return make()
    except Exception as error:
        first = masked((str(error).splitlines() or [""])[0])
        log.warning(f"no {what}: {first or type(error).__name__}")
        return {f"tidegate/no {what}": first or type(error).__name__}


def table(columns: dict[str, str], rows: list[dict[str, Any]]) -> MetadataValue:
    """A metadata table; `columns`: name to type (`string`, `int`, `float`)."""
    schema = TableSchema([TableColumn(name, type_) for name, type_ in columns.items()])
    return MetadataValue.table([TableRecord(row) for row in rows], schema)


def relation_metadata(session: Session, relation: Relation, report: SourceReport) -> dict[str, Any]:
    """Rows of this run and in all, completeness (share on time), watermarks in all and per partition, epochs."""
    status = read_status(session.project, [relation.name]).relations[0]
    judged = status.on_time + status.late
    metadata: dict[str, Any] = {
        "dagster/row_count": status.on_time,
        "rows": status.raw,
        "on time": status.on_time,
        "late": status.late,
        "rejected": status.rejected,
        "rows of this run": report.on_time + report.late + report.rejected,
        "on time of this run": report.on_time,
        "late of this run": report.late,
        "rejected of this run": report.rejected,
        "epochs of this run": report.epochs,
        "watermark": status.watermark_text,
    }
    if judged:
        metadata["completeness (%)"] = round(100 * status.on_time / judged, 3)
    if status.epoch is not None:
        metadata["epoch"] = status.epoch
    if status.behind_newest is not None:
        metadata["watermark behind newest event"] = format_duration(status.behind_newest)
    if status.holds_back:
        metadata["held back by"] = ", ".join(status.holds_back[:SHOWN_PARTITIONS])
    if status.undeclared:
        metadata["columns that are not declared"] = undeclared_text(status.undeclared)
    if status.taken_in:
        metadata["columns that were taken in"] = not_declared_text(status.taken_in)
    if status.partitions:
        metadata["partitions"] = partition_table(status)
    return metadata


def partition_table(status: RelationStatus) -> MetadataValue:
    """The partitions of a source; the ones that hold the watermark back first."""
    rows = sorted(status.partitions, key=lambda p: (p.partition not in status.holds_back, p.partition))
    return table(
        _PARTITION_COLUMNS,
        [
            {
                "partition": p.partition,
                "watermark": p.watermark_text,
                "newest event": p.max_event_time_text,
                "on time": p.on_time,
                "late": p.late,
                "rejected": p.rejected,
                "next offset": p.next_offset,
                "holds back": "yes" if p.partition in status.holds_back else "",
            }
            for p in rows[:SHOWN_PARTITIONS]
        ],
    )


def view_metadata(session: Session, view: View, report: ViewReport) -> dict[str, Any]:
    """Frontier, result rows that are final and that are open, and how far the inputs are."""
    from tidegate.views.resolve import resolve_columns

    sources = reads_of(session.catalog, view)
    status = read_status(session.project, [*(o.name for o in sources), view.name])
    own = next(v for v in status.views if v.name == view.name)
    metadata: dict[str, Any] = {
        "dagster/column_schema": table_schema(view, resolve_columns(session, view)),
        "dagster/row_count": _visible(own),
        "frontier": own.frontier_text,
        "final result rows": own.groups,
        "final result rows of this run": report.groups,
        "open result rows": own.open,
    }
    if own.holds_back:
        metadata["held back by"] = ", ".join(own.holds_back)
    # With one source, which is the rule, its facts stand there without its name.
    for relation in status.relations:
        prefix = "source" if len(sources) == 1 else relation.name
        metadata |= {
            f"{prefix} watermark": relation.watermark_text,
            f"{prefix} rows late": relation.late,
            f"{prefix} rows rejected": relation.rejected,
        }
        judged = relation.on_time + relation.late
        if judged:
            metadata[f"{prefix} completeness (%)"] = round(100 * relation.on_time / judged, 3)
        if relation.epoch is not None:
            metadata[f"{prefix} epoch"] = relation.epoch
    for upstream in status.views:
        if upstream.name != view.name:
            metadata[f"{upstream.name} final up to"] = upstream.frontier_text
    return metadata


def _visible(status: ViewStatus) -> int:
    return status.groups if status.emit_on_window_close else status.groups + status.open


def sink_metadata(session: Session, sink: Sink, report: SinkReport) -> dict[str, Any]:
    """Where to, rows delivered by this run and in all, up to which commit, and when last."""
    from tidegate.views.resolve import resolve_columns

    upstream = session.catalog.get(sink.upstream)
    assert isinstance(upstream, Relation | View)
    columns = resolve_columns(session, upstream) if isinstance(upstream, View) else upstream.columns
    status = read_status(session.project, [sink.name]).sinks[0]
    metadata: dict[str, Any] = {
        "dagster/column_schema": table_schema(upstream, columns),
        "dagster/row_count": status.delivered,
        "connector": status.connector,
        "place": status.place,
        "delivered rows": status.delivered,
        "delivered rows of this run": report.rows,
    }
    if status.amendments_waiting is not None:
        metadata["amended windows of this run"] = report.amended
    if status.tick is not None and status.delivered_at is not None:
        metadata["position"] = status.tick
        metadata["last delivery"] = MetadataValue.timestamp(datetime.fromisoformat(status.delivered_at))
    return metadata


def completeness_plot(session: Session, relation: Relation, up_to_rows: int) -> dict[str, Any]:
    """The completeness curve as a picture in markdown, and the clause that the rows ask for; nothing for a log without
    a watermark or a row, or a large one."""
    from tidegate.advise.advice import advise
    from tidegate.plots import pictures

    if relation.watermark is None or relation.ttl:
        return {}
    status = read_status(session.project, [relation.name]).relations[0]
    if status.on_time + status.late == 0:
        return {}
    if status.raw > up_to_rows:
        return {"completeness": f"not measured above {up_to_rows:,} rows (plot_up_to_rows of the resource)"}
    advice = advise(session, relation.name)
    drawn = pictures.of_advice(advice, width=5.6, height=3.0, only=("completeness",))
    share = f"{100 * advice.choice.share:.2f} % on time"
    return {
        "completeness": picture(f"completeness of {relation.name}", drawn["completeness"]),
        "advised": f"{advice.clause} ({share})",
    }


def timeline_plots(session: Session, relation: Relation) -> dict[str, Any]:
    """Watermarks over time, with idle spans and closes, and how far the watermark trails, as pictures in markdown;
    nothing for a log without a watermark. From the history in the log, without Spark."""
    from tidegate.plots import pictures

    if relation.watermark is None:
        return {}
    readers = [v.name for v in session.catalog.views if relation.name in v.reads]
    drawn = pictures.of_history(session.project, relation, readers)
    names = {"watermarks": "watermarks over time", "lag": "lag over time"}
    return {names[n]: picture(f"{names[n]} of {relation.name}", png) for n, png in drawn.items()}
