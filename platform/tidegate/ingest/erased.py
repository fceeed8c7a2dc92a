"""The record of what was erased from a log (E9): who asked, when, and how many rows of which partition and hour of
event time. Of the rows themselves, and of what they were found by, it has nothing.

It is a small file beside the data, which the table's properties name. The commit that removes the rows names it, so
that an audit adds up at every instant: raw = found + retired + erased (W5).
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from tidegate.iceberg.retire import Gone
from tidegate.project.object_store import make_folder
from tidegate.tasks.parquet.row_groups import open_file

if TYPE_CHECKING:
    from tidegate.iceberg.tables import Described, StoredTable
    from tidegate.project import Storage

#: Table properties: the file of the record; rows that were erased in all.
RECORD, ROWS = "tidegate.erased", "tidegate.erased-rows"
FOLDER = "erased"
_COUNTS = ("on_time", "late", "rejected", "offsets", "without_time")
_SCHEMA = pa.schema(
    [
        ("erasure", pa.string()),
        ("at", pa.timestamp("us", tz="UTC")),
        ("by", pa.string()),
        ("partition", pa.string()),
        ("hour", pa.int64()),
        *((name, pa.int64()) for name in _COUNTS),
    ]
)


@dataclass(frozen=True)
class ErasedRows:
    """Rows of one partition and one hour of event time that one erasure has removed. `erasure`: its id. `by`: who
    asked. `hour`: where it begins, in ticks (of a DATE the day); None: the rows have no event time, or one whose unit
    nobody knows."""

    erasure: str
    at: datetime
    by: str
    partition: str
    hour: int | None
    gone: Gone


@dataclass(frozen=True)
class Erased:
    """All that was erased from one log."""

    entries: tuple[ErasedRows, ...] = ()
    partitions: Mapping[str, Gone] = field(default_factory=dict)

    @classmethod
    def of(cls, entries: Iterable[ErasedRows]) -> Erased:
        """With the sums by partition."""
        entries, sums = tuple(entries), dict[str, Gone]()
        for one in entries:
            sums[one.partition] = sums.get(one.partition, Gone()).plus(one.gone)
        return cls(entries, sums)

    @property
    def rows(self) -> int:
        return sum(gone.rows for gone in self.partitions.values())

    @property
    def on_time(self) -> int:
        return sum(gone.on_time for gone in self.partitions.values())


def erased(table: Described, storage: Storage) -> Erased:
    """What was erased, as of the table's last `current()`."""
    name = table.property(RECORD)
    if name is None:
        return Erased()
    filesystem, path = storage.filesystem(f"{table.location}/{FOLDER}/{name}")
    with open_file(filesystem, path) as file:
        rows = file.read(use_threads=False).to_pylist()
    return Erased.of(
        ErasedRows(
            row["erasure"],
            row["at"],
            row["by"],
            row["partition"],
            row["hour"],
            Gone(*(row[name] for name in _COUNTS)),
        )
        for row in rows
    )


def recorded(storage: Storage, table: StoredTable, entries: Iterable[ErasedRows]) -> dict[str, str]:
    """Write the record with these entries behind those that it has. What a commit has to say of it: table
    properties."""
    every = Erased.of([*erased(table, storage).entries, *entries])
    columns: dict[str, Any] = {
        name: [getattr(one, name) for one in every.entries]
        for name in ("erasure", "at", "by", "partition", "hour")
    }
    columns |= {name: [getattr(one.gone, name) for one in every.entries] for name in _COUNTS}
    filesystem, folder = storage.filesystem(f"{table.location}/{FOLDER}")
    make_folder(filesystem, folder)
    name = f"{uuid.uuid4().hex}.parquet"
    pq.write_table(pa.table(columns, schema=_SCHEMA), f"{folder}/{name}", filesystem=filesystem)
    return {RECORD: name, ROWS: str(every.rows)}


def forget_superseded(storage: Storage, table: StoredTable, names: Collection[str | None]) -> None:
    """Remove all records but these, when a commit names the newest of them. (Somebody may be reading the one before
    it.)"""
    filesystem, folder = storage.filesystem(f"{table.location}/{FOLDER}")
    for info in filesystem.get_file_info(pafs.FileSelector(folder, allow_not_found=True)):
        if info.is_file and info.base_name not in names:
            filesystem.delete_file(info.path)
