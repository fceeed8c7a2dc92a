"""The port to upkeep (`tidegate/iceberg/tables.py`) on pyiceberg, for the runner without a JVM.

Each step that leaves something behind is one call: `_write`, `_commit`, `_delete`. Commits are fenced more strictly
than Iceberg's Java fences upkeep: any other commit is in the way.
"""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.exceptions import CommitFailedException, CommitStateUnknownException, ValidationException
from pyiceberg.manifest import DataFile, ManifestEntry, ManifestEntryStatus, ManifestFile
from pyiceberg.table.snapshots import Operation, Summary
from pyiceberg.table.update import (
    RemoveSnapshotRefUpdate,
    RemoveSnapshotsUpdate,
    ValidatableTableRequirement,
)
from pyiceberg.table.update.snapshot import _OverwriteFiles

from tests.inprocess.frames import frame_of
from tests.inprocess.stored.catalog import FolderCatalog
from tests.inprocess.stored.files import (
    bound_of,
    conformed,
    data_file,
    files_of,
    forget_files,
    path_of,
    schema_of,
    summary_of,
)
from tidegate.iceberg.attempt import overtaken
from tidegate.iceberg.data_files import packed_bounds
from tidegate.iceberg.shape import FEW_FILES, Rested, TableShape
from tidegate.tasks.writer import WriteTarget, _as_integers

if TYPE_CHECKING:
    from pyiceberg.io import FileIO
    from pyiceberg.table import Table as PyTable
    from pyiceberg.table import Transaction
    from pyiceberg.table.metadata import TableMetadata
    from pyspark.sql import DataFrame, SparkSession

    from tests.inprocess.stored.tables import InProcessTable
    from tidegate.iceberg.protocol import Snapshot

#: Of the size that files should have; smaller ones are put together, and larger ones taken apart.
_SMALL, _LARGE, _SIZE = 0.75, 1.8, 512 << 20


class InProcessUpkeep:
    """Upkeep of one table (`tidegate.iceberg.tables.Upkeep`)."""

    def __init__(self, spark: SparkSession, table: InProcessTable) -> None:
        self.table, self._spark = table, spark

    @property
    def _py(self) -> PyTable:
        """As pyiceberg has it, as of the last look."""
        return self.table._table

    @property
    def _catalog(self) -> FolderCatalog:
        assert isinstance(self._py.catalog, FolderCatalog)
        return self._py.catalog

    def shape(self) -> TableShape:
        self.table.current()
        metadata = self._py.metadata
        return TableShape.of(
            {
                "properties": metadata.properties,
                "refs": {name: {"snapshot-id": ref.snapshot_id} for name, ref in metadata.refs.items()},
                "snapshots": [
                    {
                        "snapshot-id": s.snapshot_id,
                        "parent-snapshot-id": s.parent_snapshot_id,
                        "timestamp-ms": s.timestamp_ms,
                        "summary": summary_of(s),
                    }
                    for s in metadata.snapshots
                ],
            }
        )

    def manifests(self) -> int:
        return len(self._manifests())

    def _manifests(self) -> list[ManifestFile]:
        current = self._py.current_snapshot()
        return [] if current is None else current.manifests(self._py.io)

    # -- expiry ----------------------------------------------------------------------------------------------------

    def expire(self, bound: int, retain_last: int = 1) -> None:
        before = self._py.metadata
        gone = [s for s in before.snapshots if s.snapshot_id not in _kept(before, bound, retain_last)]
        if not gone:
            return
        ids, change = [s.snapshot_id for s in gone], self._py.transaction()
        change._apply((RemoveSnapshotsUpdate(snapshot_ids=ids),), (_StillThere(ids=ids),))
        self._commit(change)
        known = set(_files(self._py, self._py.metadata.snapshots))
        # A list goes after what it names: what a crash leaves behind is no worse than orphans.
        for path in dict.fromkeys(_files(self._py, gone)):
            if path not in known:
                self._delete(path)

    # -- compaction ------------------------------------------------------------------------------------------------

    def compact(
        self,
        rested: Rested | None = None,
        target_bytes: int | None = None,
        least_files: int = FEW_FILES,
        bounds: Sequence[str] = (),
    ) -> tuple[int, int]:
        groups: dict[tuple[Any, ...], list[DataFile]] = defaultdict(list)
        size = target_bytes or _SIZE
        for file in self._data_files():
            if (
                self._may_match(file, rested)
                and not _SMALL * size <= file.file_size_in_bytes <= _LARGE * size
            ):
                groups[tuple(file.partition)].append(file)
        gone: list[DataFile] = []
        new: list[DataFile] = []
        for partition, files in groups.items():
            if len(files) > 1 and len(files) >= least_files:
                gone += files
                new.append(self._together(files, list(partition), bounds))
        if new:
            self._replace(gone, new)
        return len(gone), len(new)

    def _data_files(self) -> list[DataFile]:
        current = self._py.current_snapshot()
        return [] if current is None else [task.file for task in files_of(self._py, current.snapshot_id)]

    def _may_match(self, file: DataFile, rested: Rested | None) -> bool:
        if rested is None:
            return True
        least = bound_of(file.lower_bounds, self._id(rested.number))
        return (least is None or least <= rested.upto) and (
            rested.open is None or file.partition[0] in rested.open
        )

    def _id(self, column: str) -> int:
        return self._py.schema().find_field(column).field_id

    def _together(self, files: list[DataFile], partition: list[Any], bounds: Sequence[str]) -> DataFile:
        """A file with the rows of these, in the order in which they came."""
        schema = schema_of(self._py)
        named = {int(field.metadata[b"PARQUET:field_id"]): field.name for field in schema}
        known = {number for file in files for number in file.lower_bounds or {}}
        columns = dict.fromkeys([*bounds, *(named[number] for number in sorted(known))])
        first = [number for number in map(self._id, bounds) if number in known]
        files = sorted(files, key=lambda file: (_least(file, first), file.file_path))
        stored = self._catalog.stored
        rows = pa.concat_tables([conformed(stored(path_of(file.file_path)), schema) for file in files])
        path = f"{self.table.location}/data/{uuid.uuid4().hex}.parquet"
        size = self._write(path, rows.cast(schema))
        found = {name: bound for name in columns if (bound := _bounds_in(rows, name)) is not None}
        packed = list(packed_bounds({"bounds": found}, WriteTarget(None, "", "", schema, "", None, ())))  # type: ignore[arg-type]
        low, high = ({one[0]: one[side] for one in packed} for side in (1, 2))
        return data_file(path, partition, rows.num_rows, size, low, high)

    def merge_manifests(self) -> None:
        if self.manifests() > 1:
            self._replace((), (), _Gathering)

    def forget_names(self) -> int:
        names = [name for name in self._py.metadata.refs if name != "main"]
        for name in names:
            change = self._py.transaction()
            change._apply((RemoveSnapshotRefUpdate(ref_name=name),))
            self._commit(change)
        return len(names)

    def forget_removed(self, base: Snapshot) -> None:
        if self.table.current().id != base.id:
            raise overtaken(self.table.identifier)
        if base.id is not None:
            self._replace((), (), _Gathering, base.facts)

    def _replace(
        self,
        gone: Iterable[DataFile],
        new: Iterable[DataFile],
        producer: type[_Replacing] | None = None,
        summary: Mapping[str, str] | None = None,
    ) -> None:
        change = self._py.transaction()
        kind, facts = producer or _Replacing, dict(summary or {})
        with kind(Operation.REPLACE, change, self._py.io, snapshot_properties=facts) as update:
            for file in gone:
                update.delete_data_file(file)
            for file in new:
                update.append_data_file(file)
        self._commit(change)

    # -- orphan files ----------------------------------------------------------------------------------------------

    def remove_orphans(self, older_than_ms: int) -> int:
        folder = path_of(self.table.location)
        # What is committed after this look is known by the next one.
        found = [file for part in ("data", "metadata") for file in self._catalog.listed(f"{folder}/{part}")]
        self.table.refresh()
        known = {path_of(path) for path in files_known(self._py)}
        gone = [f.path for f in found if f.path not in known and f.mtime_ns < older_than_ms * 1_000_000]
        for path in gone:
            self._delete(f"file:{path}")
        return len(gone)

    # -- files that go as a whole ----------------------------------------------------------------------------------

    def data_files(self, number: str) -> DataFrame:
        files, newest = self._data_files(), self._id(number)
        fields = self._py.spec().fields
        split = schema_of(self._py).field(self._py.schema().find_column_name(fields[0].source_id)).type
        columns = {
            "file_path": pa.array([file.file_path for file in files], pa.string()),
            "record_count": pa.array([file.record_count for file in files], pa.int64()),
            "split": pa.array([file.partition[0] for file in files], split),
            "day": pa.array([file.partition[1] if len(fields) > 1 else None for file in files], pa.date32()),
            "newest": pa.array([bound_of(file.upper_bounds, newest) for file in files], pa.int64()),
        }
        return frame_of(self._spark, pa.table(columns))

    def remove_files(self, paths: Sequence[str], properties: Mapping[str, str]) -> None:
        wanted = set(paths)
        files = [file for file in self._data_files() if file.file_path in wanted]
        if len(files) < len(wanted):
            raise ValidationException(f"{len(wanted) - len(files)} of the files are gone")
        change = self._py.transaction()
        with _OverwriteFiles(Operation.DELETE, change, self._py.io) as update:
            for file in files:
                update.delete_data_file(file)
        if properties:
            change.set_properties(**properties)
        self._commit(change)

    def is_conflict(self, error: Exception) -> bool:
        return isinstance(error, CommitFailedException | ValidationException | CommitStateUnknownException)

    # -- what leaves something behind ------------------------------------------------------------------------------

    def _write(self, path: str, rows: pa.Table) -> int:
        """Write a data file; its size."""
        return self._catalog.store(path_of(path), rows)

    def _commit(self, change: Transaction) -> None:
        try:
            change.commit_transaction()
        finally:
            self.table.refresh()

    def _delete(self, path: str) -> None:
        forget_files()
        # Somebody else may have been faster.
        with suppress(FileNotFoundError):
            self._py.io.delete(path)


class _StillThere(ValidatableTableRequirement):
    """These snapshots are still there, and the newest is none of them."""

    type: Literal["assert-snapshots"] = "assert-snapshots"
    ids: list[int]

    def validate(self, base_metadata: TableMetadata | None) -> None:  # type: ignore[override]  # pydantic's old one
        there = {s.snapshot_id for s in base_metadata.snapshots} if base_metadata is not None else set()
        held = (
            {ref.snapshot_id for ref in base_metadata.refs.values()} if base_metadata is not None else set()
        )
        if not set(self.ids) <= there - held:
            raise CommitFailedException("others have expired some of the snapshots, or given one a name")


class _Replacing(_OverwriteFiles):
    """Puts files in the place of others with the same rows."""

    def _summary(self, snapshot_properties: Mapping[str, str] = {}) -> Summary:
        # pyiceberg counts for no operation of this name.
        self._operation = Operation.OVERWRITE
        found = super()._summary(dict(snapshot_properties))
        return Summary(Operation.REPLACE, **found.additional_properties)


class _Gathering(_Replacing):
    """Has all files in one manifest."""

    def _existing_manifests(self) -> list[ManifestFile]:
        entries = [
            entry
            for manifest in super()._existing_manifests()
            for entry in manifest.fetch_manifest_entry(self._io, discard_deleted=True)
        ]
        if not entries:
            return []
        with self.new_manifest_writer(self.spec(0)) as writer:
            for entry in sorted(entries, key=lambda entry: entry.data_file.file_path):
                writer.add_entry(
                    ManifestEntry.from_args(
                        status=ManifestEntryStatus.EXISTING,
                        snapshot_id=entry.snapshot_id,
                        sequence_number=entry.sequence_number,
                        file_sequence_number=entry.file_sequence_number,
                        data_file=entry.data_file,
                    )
                )
        return [writer.to_manifest_file()]


def _kept(metadata: TableMetadata, bound: int, retain_last: int) -> set[int]:
    """The snapshots that an expiry leaves, as Iceberg's Java chooses them: of the line of the newest one those from the
    bound on, and so many in any case; those with a name; of the others those from the bound on."""
    kept = {ref.snapshot_id for name, ref in metadata.refs.items() if name != "main"}
    line = []
    current = metadata.current_snapshot_id
    while current is not None and (snapshot := metadata.snapshot_by_id(current)) is not None:
        line.append(snapshot)
        current = snapshot.parent_snapshot_id
    for number, snapshot in enumerate(line):
        if number >= max(retain_last, 1) and snapshot.timestamp_ms < bound:
            break
        kept.add(snapshot.snapshot_id)
    among = {snapshot.snapshot_id for snapshot in line}
    return kept | {
        s.snapshot_id for s in metadata.snapshots if s.snapshot_id not in among and s.timestamp_ms >= bound
    }


def files_known(table: PyTable) -> Iterator[str]:
    """The paths of every file that is a part of the table: of its snapshots, and of its metadata."""
    yield from _files(table, table.metadata.snapshots)
    for entry in table.metadata.metadata_log:
        yield entry.metadata_file
    yield table.metadata_location
    assert isinstance(table.catalog, FolderCatalog)
    yield table.catalog.hint(table.name())


def _files(table: PyTable, snapshots: Iterable[Any]) -> Iterator[str]:
    """The paths of what snapshots are made of: data files, manifests, lists of manifests."""
    lists = [_Written(snapshot.manifest_list, snapshot, table.io) for snapshot in snapshots]
    manifests = {one.manifest_path: one for written in lists for one in _manifests_in(written)}
    for path, manifest in manifests.items():
        yield from _paths_in(_Written(path, manifest, table.io))
    yield from manifests
    for written in lists:
        yield written.path


@dataclass(frozen=True)
class _Written:
    """A file of metadata, which is never written again: it is read once."""

    path: str
    file: Any = field(compare=False)
    io: FileIO = field(compare=False)


@lru_cache(4096)
def _manifests_in(written: _Written) -> tuple[ManifestFile, ...]:
    return tuple(written.file.manifests(written.io))


@lru_cache(4096)
def _paths_in(written: _Written) -> tuple[str, ...]:
    entries = written.file.fetch_manifest_entry(written.io, discard_deleted=True)
    return tuple(entry.data_file.file_path for entry in entries)


def forget_manifests() -> None:
    """Read everything anew: the same paths have other files now."""
    _manifests_in.cache_clear()
    _paths_in.cache_clear()


def _least(file: DataFile, columns: Sequence[int]) -> tuple[int, ...]:
    """The least values of the columns; of one that nobody knows a lower one."""
    bounds = file.lower_bounds or {}
    return tuple(
        int.from_bytes(bounds[c], "little", signed=True) if c in bounds else -(2**63) for c in columns
    )


def _bounds_in(rows: pa.Table, column: str) -> tuple[int, int] | None:
    low, high = pc.min_max(_as_integers(rows.column(column))).values()
    return (low.as_py(), high.as_py()) if low.is_valid else None
