"""Iceberg's folder catalog in Python: the layout that Iceberg's HadoopCatalog writes, so that everything that reads a
project's tables without a JVM reads these, too. A commit is a new file that must not be there yet."""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
from pathlib import Path

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq
from pyiceberg.catalog.noop import NoopCatalog
from pyiceberg.exceptions import CommitFailedException, NoSuchTableError
from pyiceberg.io import load_file_io
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import CommitTableResponse, Table, Transaction
from pyiceberg.table.metadata import (
    TableMetadata,
    TableMetadataUtil,
    TableMetadataV1,
    TableMetadataV2,
    TableMetadataV3,
    new_table_metadata,
)
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
from pyiceberg.table.update import TableRequirement, TableUpdate, update_table_metadata

from tests.inprocess.stored.avro import work_out_once
from tests.inprocess.stored.files import stored
from tidegate.iceberg.attempt import overtaken
from tidegate.store import sqlite_catalog

_HINT = "version-hint.text"

#: What is in a file of metadata, by its path and what says that it is still the same file.
_KNOWN: dict[str, tuple[tuple[int, int, int], TableMetadata]] = {}
_AT_MOST = 1_000

work_out_once()

# Metadata never changes, nor does anything in it: what follows from it is a copy that differs in one thing. pyiceberg
# copies all of it with everything in it after each change, which is most of what a commit costs.
for _kind in (TableMetadataV1, TableMetadataV2, TableMetadataV3):
    _kind.__deepcopy__ = lambda metadata, memo=None: metadata.__copy__()  # type: ignore[method-assign]


def _facts(path: str) -> tuple[int, int, int]:
    stat = os.stat(path)
    return stat.st_ino, stat.st_mtime_ns, stat.st_size


def _remember(path: str, facts: tuple[int, int, int], metadata: TableMetadata) -> None:
    if len(_KNOWN) >= _AT_MOST:
        _KNOWN.clear()
    _KNOWN[path] = facts, metadata


class _Change(Transaction):
    """A transaction that works its metadata out once for each step of it."""

    _seen: tuple[tuple[TableUpdate, ...], TableMetadata] | None = None

    @property
    def table_metadata(self) -> TableMetadata:
        if not self._updates:
            return self._table.metadata
        if self._seen is None or self._seen[0] is not self._updates:
            self._seen = self._updates, super().table_metadata
        return self._seen[1]


class FolderTable(Table):
    def transaction(self) -> Transaction:
        return _Change(self)


class FolderCatalog(NoopCatalog):
    """Tables below `warehouse`, each in the folder namespace/name."""

    def __init__(self, warehouse: Path) -> None:
        super().__init__("folder")
        self._warehouse = warehouse
        self._io = load_file_io({}, f"file:{warehouse}")

    def stored(self, path: str) -> pa.Table:
        """The rows of a data file."""
        return stored(path)

    def store(self, path: str, rows: pa.Table) -> int:
        """Write a data file; its size in bytes."""
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(rows, path)
        return os.stat(path).st_size

    def folder(self, identifier: tuple[str, ...]) -> Path:
        return self._warehouse.joinpath(*identifier)

    def exists(self, identifier: tuple[str, ...]) -> bool:
        return self._version(identifier) is not None

    def make(
        self,
        identifier: tuple[str, ...],
        schema: Schema,
        spec: PartitionSpec,
        properties: dict[str, str],
        keep_ids: bool = False,
        location: str | None = None,
    ) -> None:
        """Make a table unless it is there. `keep_ids`: its columns have the ids of `schema` and not new ones.
        `location`: its folder, a URI, if that is not the one of its name."""
        if self.exists(identifier):
            return
        metadata = new_table_metadata(
            location=location or f"file:{self.folder(identifier)}",
            schema=schema,
            partition_spec=spec,
            sort_order=UNSORTED_SORT_ORDER,
            properties=properties,
        )
        if keep_ids:
            as_given = {
                "schemas": [schema],
                "partition_specs": [spec],
                "last_column_id": schema.highest_field_id,
            }
            metadata = metadata.model_copy(update=as_given)
        self._write(identifier, metadata, 1)

    def open(self, identifier: tuple[str, ...]) -> Table:
        """Its newest version. Raises NoSuchTableError."""
        version = self._version(identifier)
        if version is None:
            raise NoSuchTableError(".".join(identifier))
        path = self._path(identifier, version)
        facts, known = _facts(path), _KNOWN.get(path)
        if known is not None and known[0] == facts:
            metadata = known[1]
        else:
            metadata = TableMetadataUtil.parse_raw(Path(path).read_text(encoding="utf-8"))
            _remember(path, facts, metadata)
        return FolderTable(identifier, metadata, path, self._io, self)

    def load_table(self, identifier: str | tuple[str, ...]) -> Table:
        return self.open(tuple(identifier.split(".")) if isinstance(identifier, str) else identifier)

    def commit_table(
        self, table: Table, requirements: tuple[TableRequirement, ...], updates: tuple[TableUpdate, ...]
    ) -> CommitTableResponse:
        """Raises CommitFailedException if a requirement does not hold, or somebody was faster."""
        now = self.open(table.name())
        for requirement in requirements:
            requirement.validate(now.metadata)
        metadata = update_table_metadata(now.metadata, updates, metadata_location=now.metadata_location)
        path = self._write(table.name(), metadata, (self._version(table.name()) or 0) + 1)
        return CommitTableResponse(metadata=metadata, metadata_location=path)

    def remove(self, identifier: tuple[str, ...]) -> None:
        """With all of its files, if it is there."""
        shutil.rmtree(self.folder(identifier), ignore_errors=True)

    def rename(self, identifier: tuple[str, ...], name: str) -> None:
        """Give a table another name, in one step. Raises TG502 if it is not there, or one of this name is."""
        raise NotImplementedError("a folder says by its name which table it has")

    def listed(self, folder: str) -> list[pafs.FileInfo]:
        """The files in a folder, however deep."""
        selector = pafs.FileSelector(folder, allow_not_found=True, recursive=True)
        found = pafs.LocalFileSystem().get_file_info(selector)
        return [file for file in found if file.type is pafs.FileType.File]

    def hint(self, identifier: tuple[str, ...]) -> str:
        """The file that says which version is the newest."""
        return str(self.folder(identifier) / "metadata" / _HINT)

    def _path(self, identifier: tuple[str, ...], version: int) -> str:
        return str(self.folder(identifier) / "metadata" / f"v{version}.metadata.json")

    def _version(self, identifier: tuple[str, ...]) -> int | None:
        folder = self.folder(identifier) / "metadata"
        try:
            version = int((folder / _HINT).read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        # The hint is written behind the version: one that a crash has left behind is looked for further on.
        while (folder / f"v{version + 1}.metadata.json").exists():
            version += 1
        return version

    def _write(self, identifier: tuple[str, ...], metadata: TableMetadata, version: int) -> str:
        folder = Path(metadata.location.removeprefix("file:")) / "metadata"
        path = str(folder / f"v{version}.metadata.json")
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        try:
            handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            raise CommitFailedException(
                f"version {version} of {'.'.join(identifier)} is there already"
            ) from None
        with os.fdopen(handle, "w", encoding="utf-8") as out:
            out.write(metadata.model_dump_json(exclude_none=True))
        _remember(path, _facts(path), metadata)
        (Path(path).parent / _HINT).write_text(str(version), encoding="utf-8")
        return path


class SqliteCatalog(FolderCatalog):
    """The same, with a file of SQLite that says where each table is, which so can have another name."""

    def __init__(self, warehouse: Path, file: Path) -> None:
        super().__init__(warehouse)
        self._file = file
        sqlite_catalog.prepare(file)

    def folder(self, identifier: tuple[str, ...]) -> Path:
        found = self._found(identifier)
        return super().folder(identifier) if found is None else Path(found.removeprefix("file:")).parents[1]

    def exists(self, identifier: tuple[str, ...]) -> bool:
        return self._found(identifier) is not None

    def remove(self, identifier: tuple[str, ...]) -> None:
        if (found := self._found(identifier)) is not None:
            super().remove(identifier)
            sqlite_catalog.forget(self._file, *identifier, found)

    def rename(self, identifier: tuple[str, ...], name: str) -> None:
        where = "WHERE table_namespace = ? AND table_name = ?"
        with contextlib.closing(sqlite3.connect(self._file)) as database, database:
            question = f"UPDATE OR IGNORE iceberg_tables SET table_name = ? {where}"
            if not database.execute(question, (name, *identifier)).rowcount:
                raise overtaken(".".join(identifier))

    def _found(self, identifier: tuple[str, ...]) -> str | None:
        return sqlite_catalog.location(self._file, *identifier)

    def _version(self, identifier: tuple[str, ...]) -> int | None:
        return super()._version(identifier) if self.exists(identifier) else None

    def _write(self, identifier: tuple[str, ...], metadata: TableMetadata, version: int) -> str:
        path = super()._write(identifier, metadata, version)
        sqlite_catalog.register(self._file, *identifier, f"file:{path}", lambda older: True)
        return path
