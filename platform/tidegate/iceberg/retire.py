"""Rows beyond their retention: whole files go, unread and uncopied, and what went is written down (A1, R5, T3).

One commit deletes the files and says, in the table's properties, up to which event time rows may be gone and how many
there were; the counts of each partition are in a small file beside the data that the properties name. So an audit still
adds up: raw = found + retired. A deletion does not conflict with a stream's commit: that fears new data.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from tidegate.iceberg.layout import PROGRESS, REJECTED, quote
from tidegate.plan.gaps import RETAINED_FROM
from tidegate.project.object_store import make_folder
from tidegate.tasks.parquet.row_groups import open_file
from tidegate.watermark import TimeKind
from tidegate.watermark.timekind import DAY_MICROS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tidegate.iceberg.tables import Described, StoredTable, Tables, Upkeep
    from tidegate.project import Storage

OUTCOMES = ("on_time", "late", "rejected")
#: Table properties beside RETAINED_FROM: the file of the counts; rows that went in all.
ACCOUNTS, ROWS = "tidegate.retired", "tidegate.retired-rows"
FOLDER = "retired"


@dataclass(frozen=True)
class Gone:
    """Retired rows of one partition. `offsets`: different ones among them."""

    on_time: int = 0
    late: int = 0
    rejected: int = 0
    offsets: int = 0
    without_time: int = 0

    @property
    def rows(self) -> int:
        return self.on_time + self.late + self.rejected

    def plus(self, other: Gone) -> Gone:
        """The sum of both."""
        return Gone(*(getattr(self, n) + getattr(other, n) for n in _FIELDS))


_FIELDS = ("on_time", "late", "rejected", "offsets", "without_time")


@dataclass(frozen=True)
class Retired:
    """What retention has removed from one table so far. `before`: ticks; rows with a time below it may be gone."""

    before: int | None = None
    rows: int = 0
    partitions: Mapping[str, Gone] = field(default_factory=dict)

    @property
    def on_time(self) -> int:
        return sum(gone.on_time for gone in self.partitions.values())

    @property
    def without_time(self) -> int:
        """Rejected rows that had no event time."""
        return sum(gone.without_time for gone in self.partitions.values())


@dataclass(frozen=True)
class Edge:
    """What may go: rows with an event time in whole days below `before` (ticks), rows without one of commits up to
    `arrived`, history up to commit `history`; of all of them only commits up to `upto`. None: nothing of the kind."""

    before: int | None
    arrived: int | None
    history: int | None
    upto: int | None


def retired(table: Described, storage: Storage) -> Retired:
    """What has been retired, as of the table's last `current()`."""
    before, name = table.property(RETAINED_FROM), table.property(ACCOUNTS)
    found = {}
    if name is not None:
        filesystem, path = storage.filesystem(f"{table.location}/{FOLDER}/{name}")
        with open_file(filesystem, path) as file:
            rows = file.read(use_threads=False).to_pylist()
        for row in rows:
            found[row["partition"]] = Gone(*(row[n] for n in _FIELDS))
    return Retired(None if before is None else int(before), int(table.property(ROWS) or 0), found)


def day_floor(kind: TimeKind, ticks: int) -> int:
    """The start of the day that a time lies in; ticks."""
    return ticks if kind is TimeKind.DATE else ticks // DAY_MICROS * DAY_MICROS


def condemned(upkeep: Upkeep, kind: TimeKind | None, edge: Edge, number: str) -> DataFrame:
    """The files that lie beyond the edge as a whole: `file_path`, `record_count`, `split`. From the manifests alone.

    `number`: the column that numbers commits; a file whose numbers nobody knows stays.
    """
    from pyspark.sql import functions as F

    files = upkeep.data_files(number)
    split, day, newest = F.col("split"), F.col("day"), F.col("newest")
    nothing = F.lit(False)
    is_view = number == "_tick"
    # Of a view also what amendments have replaced; what it carries from tick to tick has no day.
    data = split.isNull() | ~split if is_view else split.isin(*OUTCOMES)
    whole_days = timeless = past = nothing
    if edge.before is not None and kind is not None:
        days = edge.before if kind is TimeKind.DATE else edge.before // DAY_MICROS
        whole_days = data & (F.unix_date(day) < F.lit(days))
    if edge.arrived is not None and not is_view:
        # A table without days has every row here; of one with days those that were rejected since they have no time.
        without = data if kind in (None, TimeKind.EPOCH) else (split == F.lit(REJECTED)) & day.isNull()
        timeless = without & (newest <= F.lit(edge.arrived))
    if edge.upto is not None:
        whole_days, timeless = (c & (newest <= F.lit(edge.upto)) for c in (whole_days, timeless))
    if edge.history is not None and not is_view:
        past = (split == F.lit(PROGRESS)) & (newest <= F.lit(edge.history))
    return files.where(F.coalesce(whole_days | timeless | past, nothing)).select(
        "file_path", "record_count", split.cast("string").alias("split")
    )


def retire(
    tables: Tables,
    storage: Storage,
    upkeep: Upkeep,
    kind: TimeKind | None,
    time_column: str | None,
    edge: Edge,
    number: str,
    now: float,
) -> int:
    """Delete what is beyond the edge and account for it, in one commit; how many rows (of history, too) went.

    `now`: seconds since the epoch. Raises what the port raises if a compaction took one of the files meanwhile
    (`Upkeep.is_conflict`).
    """
    table = upkeep.table
    snapshot = table.current().id
    before = retired(table, storage)
    # Bounded: the files of the days that go.
    files = [tuple(row) for row in condemned(upkeep, kind, edge, number).collect()]
    if not files:
        return 0
    data = [path for path, _, split in files if split != PROGRESS]
    counted = _count(tables, table.identifier, snapshot, data, time_column, number) if data else {}
    rows = sum(rows for _, rows, split in files if split != PROGRESS)
    if rows != sum(gone.rows for gone in counted.values()):
        raise AssertionError(
            f"{table.identifier}: its manifests and its files disagree on how many rows there are"
        )
    after = dict(before.partitions)
    for name, gone in counted.items():
        after[name] = after.get(name, Gone()).plus(gone)
    said = {}
    if data:
        said[ROWS] = str(before.rows + rows)
        if edge.before is not None:
            mark = edge.before if before.before is None else max(edge.before, before.before)
            said[RETAINED_FROM] = str(mark)
        said[ACCOUNTS] = _write(storage, table, after, now)
    upkeep.remove_files([path for path, _, _ in files], said)
    if data:
        _forget(storage, table)
    return sum(rows for _, rows, _ in files)


def _count(
    tables: Tables,
    identifier: str,
    snapshot: int | None,
    files: list[str],
    time_column: str | None,
    number: str,
) -> dict[str, Gone]:
    """Rows of some files by partition; of a view as one. What comes back is bounded by the number of partitions."""
    from pyspark.sql import functions as F

    chosen = tables.spark.createDataFrame([(path,) for path in files], "_file string")
    rows = tables.rows(identifier, snapshot, with_file=True).join(F.broadcast(chosen), "_file", "left_semi")
    if number == "_tick":
        return {"": Gone(on_time=rows.count())}
    timeless = F.lit(False) if time_column is None else F.col(quote(time_column)).isNull()
    found = rows.groupBy("_source_partition").agg(
        *[F.count_if(F.col("_outcome") == o).alias(o) for o in OUTCOMES],
        F.count_distinct("_offset").alias("offsets"),
        F.count_if(timeless).alias("without_time"),
    )
    # Bounded: a row for each source partition.
    return {row[0] or "": Gone(*row[1:]) for row in found.collect()}


def _write(storage: Storage, table: StoredTable, partitions: Mapping[str, Gone], now: float) -> str:
    """The counts as a file beside the data; its name."""
    filesystem, folder = storage.filesystem(f"{table.location}/{FOLDER}")
    make_folder(filesystem, folder)
    name = f"{int(now * 1000):015d}-{uuid.uuid4().hex[:12]}.parquet"
    columns: dict[str, Any] = {"partition": list(partitions)}
    columns |= {n: [getattr(gone, n) for gone in partitions.values()] for n in _FIELDS}
    pq.write_table(pa.table(columns), f"{folder}/{name}", filesystem=filesystem)
    return name


def _forget(storage: Storage, table: StoredTable) -> None:
    """Remove counts that are superseded, but for the newest few: somebody may be reading those of just now."""
    import pyarrow.fs as pafs

    filesystem, folder = storage.filesystem(f"{table.location}/{FOLDER}")
    names = sorted(f.base_name for f in filesystem.get_file_info(pafs.FileSelector(folder)))
    for name in names[:-3]:
        if name != table.property(ACCOUNTS):
            filesystem.delete_file(f"{folder}/{name}")
