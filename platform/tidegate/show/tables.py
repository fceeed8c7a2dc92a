"""What `tidegate show` reads of each source, table, view and system table: the same rows as a SELECT of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.iceberg.layout import LATE, ON_TIME, PROGRESS, REJECTED
from tidegate.iceberg.protocol import Snapshot
from tidegate.plan.resets import Beyond
from tidegate.sql.catalog.objects import CatalogColumn, Relation, SystemTable, View
from tidegate.sql.catalog.system_tables import version_in
from tidegate.sql.dialect.inner_names import inner
from tidegate.sql.resolve.hidden import hidden_columns
from tidegate.tables.lives import applied_of
from tidegate.watermark import RowCondition, TimeKind, Value, window_is_closed

if TYPE_CHECKING:
    from tidegate.store.metadata import CommittedTable

#: What a column is made of: the batch, to an array.
Made = Callable[[pa.RecordBatch], pa.Array]

#: The column that amendments add to a view's table (`layout.REVISION_TYPE`), and what a row of it is.
MARK, ROW, TOMBSTONE = "_revision", "row", "tombstone"
UP, DOWN = "ascending", "descending"
_OUTCOME, _OPEN = Value("_outcome", "string"), Value("_open", "boolean")
_ARROW = {
    TimeKind.TIMESTAMP: pa.timestamp("us"),
    TimeKind.TIMESTAMPTZ: pa.timestamp("us", "UTC"),
    TimeKind.DATE: pa.date32(),
}


@dataclass(frozen=True)
class ShownColumn:
    """One that is shown, or that a condition may name. `stored`: the columns that it is made of; `made`: how, None for
    the only one of them as it is. `type`: Spark DDL where it is not that of the stored one."""

    name: str
    stored: tuple[str, ...]
    made: Made | None = None
    type: str | None = None

    def of(self, batch: pa.RecordBatch) -> pa.Array:
        """Its values."""
        return batch.column(self.stored[0]) if self.made is None else self.made(batch)


@dataclass(frozen=True)
class Shown:
    """`table`: the one that stores it. `columns`: those of `SELECT *`; `hidden`: others that a condition may name.

    `condition`: of the rows that are shown, over the stored columns, which the files' partitions decide if `by_file`;
    `keep`: what else is shown of them, and the columns that it needs. `order`: newest first, by these columns; files
    have bounds of the first one. `largest`: of the rows with the same first columns only the one that is the largest by
    the second ones counts (T4).
    """

    table: str
    columns: tuple[ShownColumn, ...]
    order: tuple[tuple[ShownColumn, str], ...]
    condition: RowCondition | None = None
    by_file: bool = True
    keep: tuple[Made, tuple[str, ...]] | None = None
    hidden: tuple[ShownColumn, ...] = field(default=())
    largest: tuple[tuple[str, ...], tuple[str, ...]] | None = None


def shown_of(found: Relation | View | SystemTable) -> Shown:
    """What is read of it; what depends on the commit that is read comes with `at`."""
    if isinstance(found, SystemTable) and version_in(found.suffix) is not None:
        condition = RowCondition("not", (RowCondition("is null", (_OPEN,)),))
        columns = _own(found.columns)
        return Shown(found.relation.name, columns, ((_column("_window_end"), DOWN),), condition)
    if isinstance(found, SystemTable) and isinstance(found.relation, View):
        return _revisions(found, found.relation)
    if isinstance(found, SystemTable):
        return _system(found)
    if isinstance(found, View):
        return _view(found)
    return _keyed(found) if found.primary_key else _log(found)


def at(found: Relation | View | SystemTable, shown: Shown, table: CommittedTable) -> Shown:
    """The same, of a table as it stands: what has expired there (T2), and what is not final now (W9)."""
    if isinstance(found, View):
        stale, frontier = Beyond.of(table.summary), table.integer("tidegate.frontier")
        stands = found.emit_on_window_close or found.clock is None
        if stands or stale is None or frontier is None:
            return shown
        return replace(shown, keep=(_final(frontier), ("_open", "_window_end")), by_file=False)
    if isinstance(found, Relation) and found.primary_key and found.ttl:
        assert found.watermark is not None
        column, mark = found.watermark.column, applied_of(Snapshot(None, dict(table.summary))).watermark
        if mark is not None:
            shown = replace(shown, keep=(_above(column, mark), (column,)))
        if found.connector is not None:
            # Only a connector has several partitions; in one partition what is not expired is one row per key.
            shown = replace(shown, largest=(found.primary_key, (column, "_source_partition", "_offset")))
    return shown


def _final(frontier: int) -> Made:
    def made(batch: pa.RecordBatch) -> pa.Array:
        closed = window_is_closed(
            _ticks(batch.column("_window_end")).fill_null(2**63 - 1).to_numpy(), frontier
        )
        return pc.or_(batch.column("_open"), pa.array(closed))

    return made


def _above(column: str, mark: int) -> Made:
    return lambda batch: pc.greater(_ticks(batch.column(column)), pa.scalar(mark, pa.int64()))


def _column(stored: str) -> ShownColumn:
    return ShownColumn(stored, (stored,))


def _log(relation: Relation) -> Shown:
    condition = RowCondition("=", (_OUTCOME, ON_TIME))
    return Shown(relation.name, _own(relation.columns), _PLACE, condition, hidden=_hidden(relation))


#: The order of a log, the newest first: batches are numbered, and rows inside each partition of one.
_PLACE = tuple((_column(name), DOWN) for name in ("_epoch", "_offset", "_source_partition"))


def _keyed(relation: Relation) -> Shown:
    condition = RowCondition("not", (Value("_tombstone", "boolean"),))
    hidden = _hidden(relation, current=True)
    return Shown(
        f"{relation.name}$state", _own(relation.columns), _PLACE, condition, by_file=False, hidden=hidden
    )


def _view(view: View) -> Shown:
    order = [(_column("_window_end"), DOWN), (_column("_ordinal"), DOWN)]
    condition = RowCondition("not", (RowCondition("is null", (_OPEN,)),))
    return Shown(view.name, _own(view.columns), tuple(order[: 2 if view.order else 1]), condition)


def _system(system: SystemTable) -> Shown:
    relation = system.relation
    assert isinstance(relation, Relation)
    if system.suffix == "watermarks":
        order = ((_column("_epoch"), DOWN), (_column("_source_partition"), UP))
        condition = RowCondition("=", (_OUTCOME, PROGRESS))
        return Shown(relation.name, tuple(_history(system, relation)), order, condition)
    outcomes = {"raw": ("<>", PROGRESS), "rejected": ("=", REJECTED), "late": ("=", LATE)}
    sign, outcome = outcomes[system.suffix]
    columns = []
    for stored, column in zip(system.stored, system.columns, strict=True):
        if stored == "_late_by":
            columns.append(_late_by(column, relation))
        else:
            columns.append(ShownColumn(column.name, (stored,)))
    condition = RowCondition(sign, (_OUTCOME, outcome))
    return Shown(relation.name, tuple(columns), _PLACE, condition, hidden=_hidden(relation))


def _late_by(column: CatalogColumn, relation: Relation) -> ShownColumn:
    if relation.watermark is None:
        return ShownColumn(column.name, ("_wm",), lambda batch: pa.nulls(batch.num_rows, pa.int64()))
    time, kind = relation.watermark.column, relation.watermark.kind

    def made(batch: pa.RecordBatch) -> pa.Array:
        apart = _apart(batch.column("_wm"), batch.column(time))
        if kind is TimeKind.DATE:
            # An interval of days, which Python has as one of microseconds.
            return pc.multiply(apart, pa.scalar(86_400_000_000)).cast(pa.duration("us"))
        return apart if kind is TimeKind.EPOCH else apart.cast(pa.duration("us"))

    return ShownColumn(column.name, ("_wm", time), made, "bigint" if kind is TimeKind.EPOCH else "interval")


def _apart(left: pa.Array, right: pa.Array) -> pa.Array:
    """The difference of two times, NULL where it is none that 64 bits have."""
    known = pc.and_(pc.is_valid(left), pc.is_valid(right)).to_numpy(zero_copy_only=False)
    a, b = (_ticks(side).fill_null(0).to_numpy() for side in (left, right))
    with np.errstate(over="ignore"):
        found = a - b
    beyond = ((a ^ b) & (a ^ found)) < 0
    return pa.array(found, pa.int64(), mask=beyond | ~known)


def _ticks(times: pa.Array) -> pa.Array:
    return (times.cast(pa.int32()) if pa.types.is_date(times.type) else times).cast(pa.int64())


def _history(system: SystemTable, relation: Relation) -> list[ShownColumn]:
    stored = {"epoch": "_epoch", "at": "_arrival", "partition": "_source_partition"}
    kind = relation.watermark.kind if relation.watermark is not None else TimeKind.EPOCH
    columns = []
    for column in system.columns:
        if column.name in stored:
            columns.append(ShownColumn(column.name, (stored[column.name],)))
        else:
            time = kind if column.name in ("watermark", "published", "max_event_time") else TimeKind.EPOCH
            columns.append(ShownColumn(column.name, ("_progress",), _fact(column.name, time), column.type))
    return columns


def _fact(name: str, kind: TimeKind) -> Made:
    def made(batch: pa.RecordBatch) -> pa.Array:
        value = pc.struct_field(batch.column("_progress"), name)
        if kind is TimeKind.EPOCH:
            return value
        return (value.cast(pa.int32()) if kind is TimeKind.DATE else value).cast(_ARROW[kind])

    return made


def _revisions(system: SystemTable, view: View) -> Shown:
    columns = []
    for stored, column in zip(system.stored, system.columns, strict=True):
        made = _REVISION.get(stored)
        needed = (stored,) if made is None else ("_open", MARK)
        columns.append(ShownColumn(column.name, needed, made, None if made is None else column.type))
    number = ShownColumn("", ("_open", MARK), _REVISION[_NUMBER])
    order = [(_column("_window_end"), DOWN), (number, DOWN)]
    order += [(_column("_ordinal"), DOWN)] if view.order else []
    return Shown(view.name, tuple(columns), tuple(order), keep=(_is_revision, ("_open", MARK)), by_file=False)


def _mark(batch: pa.RecordBatch, name: str, kind: pa.DataType) -> pa.Array:
    """What an amendment says of each row; NULL where there was none yet."""
    if MARK not in batch.schema.names:
        return pa.nulls(batch.num_rows, kind)
    return pc.struct_field(batch.column(MARK), name)


def _is_revision(batch: pa.RecordBatch) -> pa.Array:
    among = pc.is_in(_mark(batch, "kind", pa.string()), value_set=pa.array([ROW, TOMBSTONE]))
    return pc.coalesce(pc.invert(batch.column("_open")), among)


_NUMBER = inner("number")
_REVISION: dict[str, Made] = {
    _NUMBER: lambda batch: pc.coalesce(_mark(batch, "number", pa.int64()), pa.scalar(1, pa.int64())),
    inner("amended_at"): lambda batch: _mark(batch, "amended_at", pa.timestamp("us", "UTC")),
    inner("late"): lambda batch: _mark(batch, "late", pa.int64()),
    inner("is_current"): lambda batch: pc.coalesce(pc.invert(batch.column("_open")), pa.scalar(False)),
    inner("is_tombstone"): lambda batch: pc.fill_null(
        pc.equal(_mark(batch, "kind", pa.string()), TOMBSTONE), False
    ),
}


def _own(columns: Sequence[CatalogColumn]) -> tuple[ShownColumn, ...]:
    return tuple(ShownColumn(c.name, (c.name,)) for c in columns)


def _hidden(relation: Relation, current: bool = False) -> tuple[ShownColumn, ...]:
    return tuple(ShownColumn(c.name, (c.stored,), type=c.type) for c in hidden_columns(relation, current))
