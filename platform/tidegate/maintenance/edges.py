"""Where the retention of a table ends: what may go by its policy, and what readers still hold."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from tidegate.iceberg.layout import PROGRESS
from tidegate.iceberg.retire import Edge, day_floor
from tidegate.iceberg.shape import TableShape
from tidegate.project.jobs.maintenance import Policy
from tidegate.sql.catalog.objects import Relation, View
from tidegate.sql.options.connectors import FilesystemOptions, ReplayOptions
from tidegate.tables.table import EVERYTHING
from tidegate.views.retention import needs, taken
from tidegate.watermark import TimeKind

if TYPE_CHECKING:
    from tidegate.runtime.context import Context

_DAY = 86_400
#: Expiry is worth a commit from this many old snapshots on.
MANY_SNAPSHOTS = 50
NOTHING = Edge(None, None, None, None)


def edge_of(
    context: Context,
    source: Relation | View,
    identifier: str,
    shape: TableShape,
    policy: Policy,
    now: float,
    history: bool = True,
) -> tuple[Edge, list[str]]:
    """What may go now, and who holds what else would.

    Event time counts behind the watermark (a view: its frontier) or the clock, whichever is earlier: a recording of an
    old year does not vanish as it is read, and a source that is far ahead takes nothing with it. `history`: also ask
    when commits came, which reads the history of the watermarks.
    """
    if policy.retention is None and policy.history is None:
        return NOTHING, []
    summary = next((s for _, ours, s in reversed(shape.snapshots) if ours), None)
    if summary is None:
        return NOTHING, []
    if kind_of(source) is TimeKind.EPOCH and policy.retention is not None:
        return NOTHING, ["no row is removed: an event time that is a number has no days"]
    notes: list[str] = []
    before = arrived = None
    upto = _upto(context, source, notes) if policy.retention is not None else None
    if policy.retention is not None:
        before = _before(context, source, summary, policy.retention, now, notes)
        if history and isinstance(source, Relation) and not (before is None and notes):
            arrived = _epoch_at(context, identifier, now - policy.retention)
    past = None
    if policy.history is not None and isinstance(source, Relation) and history:
        if isinstance(source.connector, FilesystemOptions | ReplayOptions):
            notes.append("the history of the watermarks is kept: it lists the files that have been read")
        else:
            past = _epoch_at(context, identifier, now - policy.history)
            past = None if past is None else min(past, int(summary.get("tidegate.epoch") or 0) - 1)
    return Edge(before, arrived, past, upto), notes


def _before(
    context: Context,
    source: Relation | View,
    summary: dict[str, str],
    retention: int,
    now: float,
    notes: list[str],
) -> int | None:
    """The event time before which whole days may go, ticks; None if none may."""
    kind = kind_of(source)
    mark = summary.get("tidegate.frontier" if isinstance(source, View) else "tidegate.watermark")
    wanted = None
    if kind is not None and mark is not None:
        clock = kind.clock(datetime.fromtimestamp(now, UTC))
        length = retention // _DAY if kind is TimeKind.DATE else retention * 1_000_000
        wanted = day_floor(kind, min(int(mark), clock if clock is not None else int(mark)) - length)
    for name, needed in needs(context, source):
        if needed == EVERYTHING:
            notes.append(f'no row is removed: "{name}" may read all of them, or has never run')
            return None
        if kind is not None and wanted is not None and needed < wanted:
            held = day_floor(kind, needed)
            notes.append(f'rows from {kind.format(held)} on are kept: "{name}" needs them')
            wanted = held
    return wanted


def kind_of(source: Relation | View) -> TimeKind | None:
    """What its event time counts in; None where it has none."""
    if isinstance(source, View):
        return source.kind
    return source.watermark.kind if source.watermark is not None else None


def _upto(context: Context, source: Relation | View, notes: list[str]) -> int | None:
    """The last commit that everybody has taken who follows the table commit by commit; None: nobody does."""
    found = taken(context, source)
    for name, commit in found:
        if commit == 0:
            notes.append(f'no row is removed: "{name}" has not read any of them yet')
    return min((commit for _, commit in found), default=None)


def _epoch_at(context: Context, identifier: str, moment: float) -> int | None:
    """The newest epoch that was committed before a moment (seconds), as the history of the watermarks says."""
    from pyspark.sql import functions as F

    at = F.lit(datetime.fromtimestamp(moment, UTC))
    history = context.tables.rows(identifier).where(
        (F.col("_outcome") == PROGRESS) & F.col("_source_partition").isNull() & (F.col("_arrival") < at)
    )
    row = history.agg(F.max("_epoch")).first()
    return None if row is None else row[0]


def worth_expiring(shape: TableShape, policy: Policy, now: float) -> int:
    """How many old snapshots an expiry would forget, if it is worth a commit: there are many, or they have been old for
    as long as they were kept. A view that closes a window an hour would else keep them for days."""
    bound = shape.bound(now, policy.keep_snapshots, policy.most_snapshots)
    old = shape.expirable(bound)
    overdue = old > 0 and shape.snapshots[0][0] < (now - 2 * policy.keep_snapshots) * 1000
    return old if old >= MANY_SNAPSHOTS or overdue else 0


def bounds_of(source: Relation | View) -> list[str]:
    """The columns by whose bounds slices skip files."""
    if isinstance(source, View):
        return ["_window_end", "_tick"]
    own = [source.watermark.column] if source.watermark is not None else []
    return ["_epoch", "_offset", *own]
