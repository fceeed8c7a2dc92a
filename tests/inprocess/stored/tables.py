"""The port to stored tables (`tidegate/iceberg/tables.py`) on pyiceberg, for the runner without a JVM."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyiceberg.exceptions import CommitFailedException, CommitStateUnknownException, ValidationException
from pyiceberg.manifest import DataFile
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.table.update import RemoveSnapshotRefUpdate, SetPropertiesUpdate

from tests.inprocess.frames import frame_of
from tests.inprocess.stored.catalog import FolderCatalog
from tests.inprocess.stored.changes import changed
from tests.inprocess.stored.columns import partition_field, schema_in
from tests.inprocess.stored.files import (
    arrow_schema,
    bound_of,
    conformed,
    data_file,
    files_of,
    path_of,
    schema_of,
    split,
    summary_of,
)
from tests.inprocess.stored.merge import merged
from tests.inprocess.stored.upkeep import InProcessUpkeep
from tests.inprocess.stored.versions import OWN, make_version, swapped
from tidegate.iceberg.attempt import TRIES, committed, overtaken
from tidegate.iceberg.data_files import packed_bounds, target_in
from tidegate.iceberg.layout import ON_TIME, NewTable
from tidegate.iceberg.merge import Merge
from tidegate.iceberg.protocol import AnswerLost, Conflict, Found, Snapshot, Stored, continued, standing
from tidegate.iceberg.table_change import TableChange
from tidegate.iceberg.versions.swap import DATA_PATH, BuiltVersion, VersionStart, VersionSwap
from tidegate.project.owner import OWNER, Owner, require_owner
from tidegate.store.metadata import life
from tidegate.store.version import STORAGE_VERSION, require_known
from tidegate.tasks.writer import WriteTarget

if TYPE_CHECKING:
    from pyiceberg.table import Transaction
    from pyspark.sql import DataFrame, SparkSession

    from tidegate.project import Storage


class InProcessTables:
    """The tables of one catalog."""

    def __init__(self, spark: SparkSession, catalog: FolderCatalog) -> None:
        self.spark, self.catalog = spark, catalog

    def exists(self, identifier: str) -> bool:
        return self.catalog.exists(_parts(identifier))

    def open(self, identifier: str, owner: Owner | None = None) -> InProcessTable:
        return InProcessTable(self, identifier, owner)

    def upkeep(self, identifier: str, owner: Owner | None = None) -> InProcessUpkeep:
        return InProcessUpkeep(self.spark, self.open(identifier, owner))

    def create_table(self, table: NewTable) -> None:
        if self.exists(table.identifier):
            return
        schema = schema_in(self.spark, table.columns)
        # Buckets only spread the rows of large tables.
        parts = [part for part in table.partitions if not part.startswith("bucket(")]
        fields = [partition_field(schema, number, part) for number, part in enumerate(parts)]
        # Rows are deleted by files that are written anew, for which the format needs nothing of its third version.
        facts = {k: v for k, v in table.properties.items() if k != "format-version"} | OWN
        shape = schema, PartitionSpec(*fields), facts
        self.catalog.make(_parts(table.identifier), *shape, location=table.location)

    def add_stored_column(self, identifier: str, column: str, kind: str) -> None:
        path = tuple(re.findall(r"`([^`]+)`|([^.`]+)", column))
        names = tuple(quoted or bare for quoted, bare in path)
        (field,) = schema_in(self.spark, [("x", kind)]).fields
        with self.catalog.open(_parts(identifier)).update_schema() as update:
            update.add_column(names, field.field_type)

    def drop_table(self, identifier: str) -> None:
        self.catalog.remove(_parts(identifier))

    def rename_table(self, identifier: str, name: str) -> None:
        self.catalog.rename(_parts(identifier), name)

    def make_version(self, table: NewTable, of: str, number: int, start: VersionStart | None = None) -> None:
        wanted = schema_in(self.spark, table.columns)
        make_version(self.catalog, table, (_parts(table.identifier), _parts(of)), wanted, number, start)

    end_version = drop_table

    def rows(self, identifier: str, snapshot: int | None = None, with_file: bool = False) -> DataFrame:
        table = self.catalog.open(_parts(identifier))
        at = table.current_snapshot() if snapshot is None else table.snapshot_by_id(snapshot)
        if at is None and snapshot is not None:
            raise ValidationException(f"Cannot find snapshot with ID {snapshot} in {identifier}")
        # Who asks for a snapshot sees the columns that the table had then.
        schema = schema_of(table, None if snapshot is None or at is None else at.schema_id)
        paths = [path_of(f.file.file_path) for f in files_of(table, at.snapshot_id)] if at is not None else []
        read = [conformed(self.catalog.stored(path), schema) for path in paths] or [
            conformed(schema.empty_table(), schema)
        ]
        if with_file:
            named = zip(read, [f"file:{path}" for path in paths] or [""], strict=True)
            read = [
                rows.append_column("_file", pa.array([path] * len(rows), pa.string())) for rows, path in named
            ]
        # Each of its pieces would be converted by itself.
        return frame_of(self.spark, pa.concat_tables(read).combine_chunks())


class InProcessTable:
    """One table (`tidegate.iceberg.tables.Table`)."""

    def __init__(self, tables: InProcessTables, identifier: str, owner: Owner | None) -> None:
        self.identifier, self._owner, self._tables = identifier, owner, tables
        self._table = tables.catalog.open(_parts(identifier))
        version = self._table.properties.get(STORAGE_VERSION)
        if version is not None:
            require_known(identifier, {STORAGE_VERSION: version})

    @property
    def location(self) -> str:
        return self._table.location()

    @property
    def uuid(self) -> str:
        return life(str(self._table.metadata.table_uuid), self.properties())

    def properties(self) -> dict[str, str]:
        return dict(self._table.properties)

    def property(self, key: str) -> str | None:
        return self._table.properties.get(key)

    def set_properties(self, given: Mapping[str, str]) -> None:
        with self._table.transaction() as change:
            change.set_properties(**given)
        self.refresh()

    def current(self) -> Snapshot:
        self.refresh()
        if self._owner is not None:
            require_owner(self.identifier, self._owner, Owner.of_text(self.property(OWNER)))
        return self._at(self._table.current_snapshot())

    def refresh(self) -> None:
        self._table = self._tables.catalog.open(_parts(self.identifier))

    def at(self, snapshot: int | str) -> Snapshot:
        named = isinstance(snapshot, str)
        find: Callable[[Any], Any] = self._table.snapshot_by_name if named else self._table.snapshot_by_id
        return self._at(find(snapshot))

    def names_at(self, snapshot: int) -> dict[str, str]:
        found, known = self._table.snapshot_by_id(snapshot), self._table.schemas()
        then = {} if found is None else {f.field_id: f.name for f in known[found.schema_id or 0].fields}
        return {f.name: then[f.field_id] for f in self._table.schema().fields if f.field_id in then}

    def summaries(self) -> dict[int, dict[str, str]]:
        return {snapshot.snapshot_id: summary_of(snapshot) for snapshot in self._table.snapshots()}

    def snapshot_ids(self) -> set[int]:
        return {snapshot.snapshot_id for snapshot in self._table.snapshots()}

    def totals(self) -> dict[str, str]:
        return summary_of(self._table.current_snapshot())

    def tag(self, name: str) -> None:
        found = self.current().id
        if found is not None:
            self._table.manage_snapshots().create_tag(found, name).commit()

    def forget_tags(self, tags: Sequence[str], properties: Mapping[str, str]) -> None:
        if self._tables.catalog.open(_parts(self.identifier)).metadata != self._table.metadata:
            raise overtaken(self.identifier)
        removed = tuple(RemoveSnapshotRefUpdate(ref_name=name) for name in tags)
        with self._table.transaction() as change:
            change._apply((*removed, SetPropertiesUpdate(updates=dict(properties))), ())
        self.refresh()

    def tags(self) -> dict[str, int]:
        """The snapshot of each tag."""
        self.refresh()
        refs = self._table.metadata.refs
        return {name: ref.snapshot_id for name, ref in refs.items() if ref.snapshot_ref_type.value == "tag"}

    def _at(self, current: Any) -> Snapshot:
        return standing(None if current is None else current.snapshot_id, self._facts)

    def _facts(self, snapshot: int) -> tuple[dict[str, str], int | None]:
        found = self._table.snapshot_by_id(snapshot)
        return ({}, None) if found is None else (summary_of(found), found.parent_snapshot_id)

    def target(
        self,
        storage: Storage,
        split: str = "",
        day: str | None = None,
        bounds: tuple[str, ...] = (),
        reading: bool = False,
    ) -> WriteTarget:
        schema, elsewhere = arrow_schema(self._table), self.property(DATA_PATH)
        return target_in(self.location, schema, storage, split, day, bounds, reading, elsewhere)

    def files(
        self, snapshot: int, column: str, field_id: int, low: int | None, high: int | None
    ) -> list[dict[str, Any]] | None:
        found = []
        for task in files_of(self._table, snapshot):
            least, greatest = (
                bound_of(bounds, field_id) for bounds in (task.file.lower_bounds, task.file.upper_bounds)
            )
            outside = (low is not None and greatest is not None and greatest < low) or (
                high is not None and least is not None and least >= high
            )
            if task.file.partition[0] == ON_TIME and not outside:
                rows = task.file.record_count
                found.append(
                    {"path": task.file.file_path, "rows": rows, "least": least, "greatest": greatest}
                )
        return found

    def files_named(self, paths: set[str], snapshot: int, low: int, high: int) -> list[Any]:
        return self._named(paths, snapshot, False)

    def files_among(self, paths: set[str], snapshot: int) -> list[Any]:
        return self._named(paths, snapshot, None)

    def files_at(self, paths: set[str], snapshot: int) -> list[Any]:
        known = {path_of(path) for path in paths}
        found = files_of(self._table, snapshot)
        return [_Named(task.file) for task in found if path_of(task.file.file_path) in known]

    def _named(self, paths: set[str], snapshot: int, open_: bool | None) -> list[Any]:
        return [one for one in self.files_at(paths, snapshot) if one.file.partition[0] is open_]

    def append(
        self,
        files: list[dict[str, Any]],
        target: WriteTarget | None,
        summary: dict[str, str],
        base: Snapshot,
        replaced: Sequence[bool | None] = (),
        removed: Sequence[Any] = (),
        change: TableChange | None = None,
    ) -> int:
        gone = [one.file for one in removed]
        if replaced and base.id is not None:
            gone += [t.file for t in files_of(self._table, base.id) if t.file.partition[0] in replaced]
        new = [self._data_file(file, target) for file in files if target is not None]
        return self._commit(new, gone, summary, base, change)

    def swap(self, version: str, swap: VersionSwap, base: Snapshot) -> int:
        def attempt(_: Snapshot) -> Stored | Conflict | AnswerLost:
            beside = self._tables.open(version)
            found = BuiltVersion(beside.uuid, beside.current().id, beside.properties())
            swap.require_as_checked(self.identifier, self.properties(), found)
            made = self._tables.catalog.open(_parts(version))
            at = swap.built.snapshot
            new = [] if at is None else [task.file for task in files_of(made, at)]
            first = partial(swapped, version=made, swap=swap)
            return self._attempt(new, self._files_at(base), swap.summary, base, first)

        return committed(self.identifier, base, self._look, attempt)

    def _commit(
        self,
        new: Sequence[DataFile],
        gone: Sequence[DataFile],
        summary: Mapping[str, str],
        base: Snapshot,
        table: TableChange | None = None,
    ) -> int:
        first = None if table is None else partial(changed, change=table, spark=self._tables.spark)
        return committed(
            self.identifier, base, self._look, lambda _: self._attempt(new, gone, summary, base, first)
        )

    def _attempt(
        self,
        new: Sequence[DataFile],
        gone: Sequence[DataFile],
        summary: Mapping[str, str],
        base: Snapshot,
        first: Callable[[Transaction], None] | None,
    ) -> Stored | Conflict | AnswerLost:
        """`first`: what the transaction does before its rows."""
        own = None
        try:
            if self._table.metadata.current_snapshot_id != base.id:
                raise CommitFailedException("another snapshot is the newest")
            change = self._table.transaction()
            if first is not None:
                first(change)
            with change.update_snapshot(snapshot_properties=continued(base, summary)).overwrite() as update:
                own = update.snapshot_id
                for file in {file.file_path: file for file in gone}.values():
                    update.delete_data_file(file)
                for file in new:
                    update.append_data_file(file)
            change.commit_transaction()
        except (CommitFailedException, ValidationException) as error:
            return Conflict(error, own)
        except CommitStateUnknownException as error:
            return AnswerLost(error, own)
        finally:
            self.refresh()
        return Stored(own)

    def _look(self, commit: int | None) -> Found:
        self.refresh()
        now = self._at(self._table.current_snapshot())
        return Found(now, commit is not None and commit in self.snapshot_ids())

    def _data_file(self, file: dict[str, Any], target: WriteTarget) -> DataFile:
        packed = list(packed_bounds(file, target))
        low, high = ({one[0]: one[side] for one in packed} for side in (1, 2))
        partition = [file["split"], *([file["day"]] if target.day is not None else [])]
        return data_file(file["uri"], partition, file["rows"], file["bytes"], low, high)

    def merge_rows(self, merge: Merge, base: Snapshot) -> None:
        """Every row of the table is written anew."""

        def rows(on: Snapshot) -> Sequence[pa.Table] | None:
            return merged(self._tables.spark, self._tables.rows(self.identifier, on.id), merge)

        self._carry_out(rows, merge.summary or {}, base)

    def delete_rows(self, where: str, summary: Mapping[str, str], base: Snapshot) -> None:
        def rows(on: Snapshot) -> Sequence[pa.Table] | None:
            found = self._tables.rows(self.identifier, on.id)
            kept = found.where(f"NOT COALESCE({where}, FALSE)").toArrow()
            return [kept] if kept.num_rows != found.count() else None

        self._carry_out(rows, summary, base)

    def _carry_out(
        self,
        rows: Callable[[Snapshot], Sequence[pa.Table] | None],
        summary: Mapping[str, str],
        base: Snapshot,
    ) -> None:
        """A statement: the rows that the table has afterwards, of those that it has at a snapshot; None: the same."""

        def attempt(on: Snapshot) -> Stored | Conflict | AnswerLost:
            after = rows(on)
            if after is None:
                return Stored(on.id or 0)
            return self._attempt(self._files_of(after), self._files_at(on), summary, on, None)

        committed(self.identifier, base, self._look, attempt, TRIES)

    def schema(self) -> pa.Schema:
        return schema_of(self._table)

    def replace(self, tables: Sequence[pa.Table], summary: Mapping[str, str], base: Snapshot) -> None:
        """Have these rows and no others."""
        self._commit(self._files_of(tables), self._files_at(base), summary, base)

    def add(self, tables: Sequence[pa.Table], summary: Mapping[str, str], base: Snapshot) -> None:
        """Have these rows, too."""
        self._commit(self._files_of(tables), [], summary, base)

    def _files_at(self, snapshot: Snapshot) -> list[DataFile]:
        return [t.file for t in files_of(self._table, snapshot.id)] if snapshot.id is not None else []

    def _files_of(self, tables: Sequence[pa.Table]) -> list[DataFile]:
        rows = pa.concat_tables([conformed(table, self.schema()) for table in tables])
        return [self._written(part, partition) for part, partition in split(rows, self._table)]

    def _written(self, rows: pa.Table, partition: list[Any]) -> DataFile:
        path = f"{path_of(self.location)}/data/{uuid.uuid4().hex}.parquet"
        # With Iceberg's ids, by which the rows are found when columns have other names.
        named = pa.Table.from_arrays(rows.columns, schema=self.schema())
        size = self._tables.catalog.store(path, named)
        return data_file(f"file:{path}", partition, rows.num_rows, size, {}, {})


class _Named:
    """A data file to be removed, as Iceberg's Java has it."""

    def __init__(self, file: DataFile) -> None:
        self.file = file

    def recordCount(self) -> int:
        return int(self.file.record_count)


def _parts(identifier: str) -> tuple[str, ...]:
    """`catalog.namespace.`name`` without the catalog."""
    return tuple(quoted or bare for quoted, bare in re.findall(r"`([^`]+)`|([^.`]+)", identifier))[1:]
