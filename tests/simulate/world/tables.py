"""A catalog in memory: the newest metadata of each table, changed by compare-and-set, as a catalog with a server does.
Files are in the store. Every question and every change is a step."""

from __future__ import annotations

import io
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq
from pyiceberg.exceptions import (
    CommitFailedException,
    CommitStateUnknownException,
    NoSuchTableError,
)
from pyiceberg.table import CommitTableResponse, Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.update import TableRequirement, TableUpdate, update_table_metadata

from tests.inprocess.stored.catalog import FolderCatalog, FolderTable
from tests.simulate.world.outside import CONFLICT, LOST, LOST_REQUEST, STALE
from tests.simulate.world.store import Store, StoreIO

Identifier = tuple[str, ...]

#: So long a catalog may answer with the state before the last commit. Upkeep relies on such a bound: it removes files
#: that no snapshot needs when they are a day old, and what is newer than the answer is not.
_STALE_FOR = timedelta(hours=1)


class SimulatedCatalog(FolderCatalog):
    """Tables below `warehouse`. `role`: what a table is to the engine, for the names of steps; `conflicting` makes
    another commit to a table, as compaction does, and says whether it did."""

    def __init__(self, warehouse: Path, store: Store, role: Callable[[str], str]) -> None:
        super().__init__(warehouse)
        self._io = StoreIO(store)
        self.outside, self._files, self._role = store.outside, store, role
        self.tables: dict[Identifier, list[TableMetadata]] = {}
        self._changed: dict[Identifier, datetime] = {}
        self._stored: dict[str, pa.Table] = {}
        self.conflicting: Callable[[Identifier], bool] = lambda identifier: False
        #: Told of every commit: the table, and its metadata before and after.
        self.watcher: Callable[[Identifier, TableMetadata | None, TableMetadata | None], None] = lambda *_: (
            None
        )

    def newest(self, identifier: Identifier) -> TableMetadata | None:
        """Without a step."""
        known = self.tables.get(identifier)
        return known[-1] if known else None

    def table(self, identifier: Identifier, metadata: TableMetadata) -> Table:
        """Without a step."""
        return FolderTable(identifier, metadata, f"{metadata.location}/metadata", self._io, self)

    def exists(self, identifier: Identifier) -> bool:
        step = f"load {self._role(identifier[-1])}"
        return bool(self.outside.step(step, lambda _: identifier in self.tables))

    def open(self, identifier: Identifier) -> Table:
        def effect(fault: str | None) -> TableMetadata | None:
            known = self.tables.get(identifier)
            if not known:
                return None
            stale = fault == STALE and self.outside.now - self._changed[identifier] <= _STALE_FOR
            return known[-2] if stale and len(known) > 1 else known[-1]

        metadata = self.outside.step(f"load {self._role(identifier[-1])}", effect)
        if metadata is None:
            raise NoSuchTableError(".".join(identifier))
        return self.table(identifier, metadata)

    def commit_table(
        self, table: Table, requirements: tuple[TableRequirement, ...], updates: tuple[TableUpdate, ...]
    ) -> CommitTableResponse:
        identifier = table.name()

        def effect(fault: str | None) -> TableMetadata:
            if fault == LOST_REQUEST:
                raise CommitStateUnknownException("the request was lost")
            if fault == CONFLICT:
                self.conflicting(identifier)
            now = self.newest(identifier)
            if now is None:
                raise NoSuchTableError(".".join(identifier))
            for requirement in requirements:
                requirement.validate(now)
            after = update_table_metadata(now, updates)
            self._became(identifier, now, after)
            if fault == LOST:
                raise CommitStateUnknownException("the answer was lost")
            return after

        try:
            metadata = self.outside.step(f"commit {self._role(identifier[-1])}", effect)
        except OSError as error:
            # A server that is not there has done nothing, and nobody knows.
            raise CommitStateUnknownException(str(error)) from error
        return CommitTableResponse(metadata=metadata, metadata_location=f"{metadata.location}/metadata")

    def remove(self, identifier: Identifier) -> None:
        folder = str(self.folder(identifier))

        def effect(_: str | None) -> None:
            before = self.newest(identifier)
            self.tables.pop(identifier, None)
            if before is not None:
                self.watcher(identifier, before, None)
            for path in self._files.below(folder):
                self._files.take(path)

        self.outside.step(f"drop {self._role(identifier[-1])}", effect)

    def stored(self, path: str) -> pa.Table:
        content = self._files.read(path)
        return self.parsed(path, content)

    def parsed(self, path: str, content: bytes) -> pa.Table:
        """Without a step: the rows of a data file. No file is ever written again."""
        if path not in self._stored:
            # (A third of the time that `read_table` takes, of a file so small.)
            self._stored[path] = pq.ParquetFile(pa.BufferReader(content)).read(use_threads=False)
        return self._stored[path]

    def store(self, path: str, rows: pa.Table) -> int:
        out = io.BytesIO()
        pq.write_table(rows, out)
        self._files.write(path, out.getvalue())
        return len(out.getvalue())

    def listed(self, folder: str) -> list[pafs.FileInfo]:
        found = self._files.list(folder, recursive=True, allow_missing=True)
        return [file for file in found if file.type is pafs.FileType.File]

    def _write(self, identifier: Identifier, metadata: TableMetadata, version: int) -> str:
        """A new table."""

        def effect(_: str | None) -> None:
            if identifier in self.tables:
                raise CommitFailedException(f"{'.'.join(identifier)} is there already")
            self._became(identifier, None, metadata)

        self.outside.step(f"create {self._role(identifier[-1])}", effect)
        return f"{metadata.location}/metadata"

    def _became(self, identifier: Identifier, before: TableMetadata | None, after: TableMetadata) -> None:
        self.tables.setdefault(identifier, []).append(after)
        self._changed[identifier] = self.outside.now
        self.watcher(identifier, before, after)
