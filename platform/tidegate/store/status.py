"""How far every source, table and view of a project is: rows, watermarks, frontiers, who holds back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from tidegate.project.storage import Storage
from tidegate.store.metadata import Progress, TableState, load_table, read_progress
from tidegate.watermark import TimeKind

if TYPE_CHECKING:
    from tidegate.project import Project
    from tidegate.sql.catalog import Relation, View

#: Where the engine counts rejected rows whose partition could not be read.
UNKNOWN_PARTITION = "(unknown)"


@dataclass(frozen=True)
class PartitionStatus:
    """One partition of a source. Times are in the unit of its time column; `*_text` is the same for
    people.
    """

    partition: str
    watermark: int | None
    watermark_text: str
    next_offset: int
    on_time: int
    late: int
    rejected: int
    state: str | None
    max_event_time: int | None
    max_event_time_text: str


@dataclass(frozen=True)
class RelationStatus:
    """One source or table. `ran` is False before its first commit; then all counts are 0.

    `raw = on_time + late + rejected` (W5). `behind_newest`: how far the watermark trails the newest event
    time, `lag`: how far it trails the clock (a TIMESTAMP is compared as if it were UTC); seconds, None where
    there is no watermark yet or the column is an integer epoch. `holds_back`: the partitions that keep the
    watermark where it is; empty if all stand at the same point. `committed_at`: ISO, UTC.
    """

    name: str
    kind: str
    ran: bool
    raw: int
    on_time: int
    late: int
    rejected: int
    epoch: int | None
    time_column: str | None
    time_kind: str | None
    watermark: int | None
    watermark_text: str
    behind_newest: float | None
    lag: float | None
    holds_back: tuple[str, ...]
    partitions: tuple[PartitionStatus, ...]
    snapshot_id: int | None
    committed_at: str | None


@dataclass(frozen=True)
class ViewStatus:
    """One view. `frontier`: up to where its windows are final; `groups`: result rows of final windows;
    `open`: of open ones. `behind`: upstream watermark − frontier, seconds (None: undefined, or an integer
    epoch). `current`: nothing that its upstream has committed is still to be taken in.
    """

    name: str
    ran: bool
    upstream: str
    emit_on_window_close: bool
    frontier: int | None
    frontier_text: str
    groups: int
    open: int
    upstream_epoch: int | None
    current: bool
    behind: float | None
    snapshot_id: int | None
    committed_at: str | None


@dataclass(frozen=True)
class ProjectStatus:
    """All of a project, in the order in which it is computed."""

    project: str
    environment: str
    warehouse: str
    relations: tuple[RelationStatus, ...]
    views: tuple[ViewStatus, ...]

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return asdict(self)


def read_status(
    project: Project, names: Sequence[str] | None = None, now: datetime | None = None
) -> ProjectStatus:
    """Status of the project, or of `names` of it, without a JVM. `now` replaces the clock (with a time zone).

    Raises the errors of the project's SQL, and TG620 if tables can't be read.
    """
    from tidegate.sql.catalog import SystemTable, View

    catalog = project.catalog()
    wanted = [catalog.get(name) for name in names] if names else [*catalog.relations, *catalog.views]
    clock = now or datetime.now(UTC)
    relations: dict[str, RelationStatus] = {}
    views: list[ViewStatus] = []
    for found in wanted:
        item = found.relation if isinstance(found, SystemTable) else found
        if isinstance(item, View):
            upstream = relations.get(item.upstream)
            if upstream is None:
                upstream = _relation(project.storage, catalog.get(item.upstream), clock)
            views.append(_view(project.storage, item, upstream))
        else:
            relations[item.name] = _relation(project.storage, item, clock)
    return ProjectStatus(
        project.name, project.env_name, project.storage.warehouse, tuple(relations.values()), tuple(views)
    )


def _relation(storage: Storage, relation: Relation, clock: datetime) -> RelationStatus:
    kind = relation.watermark.kind if relation.watermark else None
    table = load_table(storage, relation.name)
    rows = read_progress(storage, table) if table else []
    partitions = [r for r in rows if r.partition is not None]
    watermark = table.integer("tidegate.watermark") if table else None
    counts = [(table and table.integer(f"tidegate.{x}")) or 0 for x in ("on_time", "late", "rejected")]
    newest = max((r.max_event_time for r in rows if r.max_event_time is not None), default=None)
    behind = None if watermark is None or newest is None else _seconds(kind, newest - watermark)
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
        holds_back=holding_back(watermark, partitions),
        partitions=tuple(_partition(kind, r) for r in partitions),
        snapshot_id=table.snapshot_id if table else None,
        committed_at=_committed(table),
    )


def _partition(kind: TimeKind | None, row: Progress) -> PartitionStatus:
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
    )


def _view(storage: Storage, view: View, upstream: RelationStatus) -> ViewStatus:
    table = load_table(storage, view.name)
    frontier = table.integer("tidegate.frontier") if table else None
    epoch = table.integer("tidegate.upstream-epoch") if table else None
    behind = None
    if frontier is not None and upstream.watermark is not None:
        behind = _seconds(view.kind, upstream.watermark + view.shift - frontier)
    return ViewStatus(
        name=view.name,
        ran=bool(table and table.snapshot_id is not None),
        upstream=view.upstream,
        emit_on_window_close=view.emit_on_window_close,
        frontier=frontier,
        frontier_text=_text(view.kind, frontier),
        groups=(table and table.integer("tidegate.groups")) or 0,
        open=(table and table.integer("tidegate.open")) or 0,
        upstream_epoch=epoch,
        current=epoch is not None
        and (epoch == upstream.epoch or _nothing_to_close(view, frontier, upstream)),
        behind=behind,
        snapshot_id=table.snapshot_id if table else None,
        committed_at=_committed(table),
    )


def _nothing_to_close(view: View, frontier: int | None, upstream: RelationStatus) -> bool:
    """With EMIT ON WINDOW CLOSE, commits that close no window are not the view's business."""
    if not view.emit_on_window_close or frontier is None or upstream.watermark is None:
        return False
    open_now = view.window.watermark_end(upstream.watermark + view.shift)
    return open_now == view.window.watermark_end(frontier)


def holding_back(published: int | None, partitions: Sequence[Progress]) -> tuple[str, ...]:
    """Names of the partitions that keep G where it is (W6).

    Before there is a G: those without a watermark. Afterwards: the lowest ones; nobody when all stand at the
    same point. Idle partitions (W7) and the one of rows whose partition is unreadable have no say.
    """
    voting = [p for p in partitions if p.state != "idle" and p.partition != UNKNOWN_PARTITION]
    if published is None:
        return tuple(p.partition or "" for p in voting if p.watermark is None)
    marks = {p.watermark for p in voting if p.watermark is not None}
    if len(marks) < 2:
        return ()
    lowest = min(marks)
    return tuple(p.partition or "" for p in voting if p.watermark == lowest)


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


def _committed(table: TableState | None) -> str | None:
    if table is None or table.committed_ms is None:
        return None
    return datetime.fromtimestamp(table.committed_ms / 1000, UTC).isoformat(timespec="seconds")
