"""A copy of everything that is stored, of one moment, while runs and live mode write.

The catalog names the newest metadata of every table, these name all files of the table, and no file is ever changed. So
a copy of the catalog's file is the moment, and all that it names is copied after it. What is kept beside the tables
(plans, positions of sinks) is copied before it: a run makes up for a plan or position that is older than the tables;
with a newer position it would leave rows out.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidegate.errors import TidegateError
from tidegate.project.disk import private_folder
from tidegate.sql.options.sink_connectors import FilesystemSinkOptions
from tidegate.store import sqlite_catalog

if TYPE_CHECKING:
    from pyiceberg.io.pyarrow import PyArrowFile

    from tidegate.project import Project

#: How often a copy is begun anew because upkeep has removed files that were still to be copied; each time there is less
#: to copy. And how often that of a sink's folder, because it was delivered to.
_TRIES, _DELIVERIES = 20, 200
_THREADS = 4
_PART, _NEW = ".part", ".new"


@dataclass
class Backup:
    """What a copy has. `at`: the moment that it is of, s since 1970; `copied`: files that an earlier copy in the same
    place did not have; `left_out`: sinks whose folder is on object storage."""

    target: str
    at: float = 0.0
    tables: list[str] = field(default_factory=list)
    sinks: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    files: int = 0
    bytes: int = 0
    copied: int = 0


def back_up(project: Project, target: Path) -> Backup:
    """Copy what is stored into a folder: `warehouse`, `definitions` and `sinks`. An earlier copy there is replaced when
    the new one is whole. Raises TG607 where the tables are not in a folder with a catalog in SQLite, TG620 if the
    catalog can't be read, or changes faster than it can be copied."""
    storage = project.storage
    warehouse, catalog = storage.local_warehouse, storage.sqlite
    if warehouse is None or catalog is None:
        raise TidegateError(
            "TG607",
            f'environment "{project.env_name}" does not have its tables in a folder with a catalog in SQLite',
            hint="docs/backup.md says how the tables of other catalogs are copied; tidegate catalog migrate moves a "
            "catalog that is a folder to one in SQLite",
        )
    if not catalog.is_relative_to(warehouse):
        raise TidegateError(
            "TG607",
            f"the catalog {catalog} is not in the folder of the tables, {warehouse}",
            hint="move it there, and change warehouse.catalog of the environment, while nothing runs",
        )
    private_folder(target)
    for _ in range(_TRIES):
        # (What upkeep has removed since is in the next catalog no longer.)
        with suppress(FileNotFoundError):
            return _Copy(project, warehouse, catalog, target).made()
    raise TidegateError(
        "TG620", f"the tables in {warehouse} change faster than they can be copied", hint="try again"
    )


class _Copy:
    """One try. A file that is in the target already is not copied again."""

    def __init__(self, project: Project, warehouse: Path, catalog: Path, target: Path) -> None:
        self._project, self._warehouse, self._catalog = project, warehouse, catalog
        self._target, self._into = target, target / "warehouse"
        self._wanted: set[Path] = set()
        self._sizes: dict[Path, int] = {}
        self._done = Backup(str(target))

    def made(self) -> Backup:
        """Raises FileNotFoundError if a file was removed before it was copied."""
        self._sinks()
        streams = self._fresh(self._warehouse / "_streams", self._into / f"_streams{_NEW}")
        self._done.at = time.time()
        catalog = self._into / self._catalog.relative_to(self._warehouse)
        new = catalog.with_name(catalog.name + _NEW)
        new.unlink(missing_ok=True)
        private_folder(new.parent)
        tables = sqlite_catalog.copy(self._catalog, new)
        for (namespace, name), where in sorted(tables.items()):
            self._table(where)
            self._done.tables.append(f"{namespace}.{name}")
        # After the catalog: the next run changes a log in place to a newer definition, but not back.
        definitions = self._fresh(
            self._project.state_dir / "definitions", self._target / f"definitions{_NEW}"
        )
        _replace(definitions, self._target / "definitions")
        _replace(streams, self._into / "_streams")
        for left in ("-wal", "-shm"):
            catalog.with_name(catalog.name + left).unlink(missing_ok=True)
        os.replace(new, catalog)
        self._wanted.add(catalog)
        _remove_others(self._into, self._wanted, self._into / "_streams")
        self._done.files, self._done.bytes = len(self._sizes), sum(self._sizes.values())
        return self._done

    # -- tables ------------------------------------------------------------------------------------------------

    def _table(self, metadata: str) -> None:
        """All files that the metadata of a table name: first those that name others."""
        from pyiceberg.table import StaticTable

        storage = self._project.storage
        static = StaticTable.from_metadata(str(self._copied(metadata)), storage.pyiceberg_properties())
        files = self._reading()
        plain = [entry.metadata_file for entry in static.metadata.metadata_log]
        plain += [one.statistics_path for one in static.metadata.statistics]
        seen: set[str] = set()
        for snapshot in static.metadata.snapshots:
            for manifest in snapshot.manifests(files):
                if manifest.manifest_path not in seen:
                    seen.add(manifest.manifest_path)
                    entries = manifest.fetch_manifest_entry(files, discard_deleted=True)
                    plain += [entry.data_file.file_path for entry in entries]
        with ThreadPoolExecutor(_THREADS) as pool:
            for _ in pool.map(self._copied, sorted(set(plain))):
                pass

    def _reading(self) -> Any:
        """Iceberg's files, each copied before it is read: the original may go meanwhile."""
        from pyiceberg.io.pyarrow import PyArrowFileIO

        copied = self._copied

        class Copying(PyArrowFileIO):
            def new_input(self, location: str) -> PyArrowFile:
                return super().new_input(str(copied(location)))

        return Copying(self._project.storage.pyiceberg_properties())

    def _copied(self, uri: str) -> Path:
        """Where the copy of a file of a table is."""
        path = Path(self._project.storage.filesystem(uri)[1])
        if not path.is_relative_to(self._warehouse):
            raise TidegateError(
                "TG607",
                f"the catalog names {path}, which is not in the folder of the tables, {self._warehouse}",
                hint="copy the tables while nothing runs (docs/backup.md)",
            )
        into = self._into / path.relative_to(self._warehouse)
        if into not in self._wanted:
            self._wanted.add(into)
            self._copy(path, into)
        return into

    def _copy(self, path: Path, into: Path) -> None:
        """Raises FileNotFoundError for a file that is neither there nor in an earlier copy."""
        there = into.stat() if into.is_file() else None
        try:
            facts = path.stat()
            if there is None or (there.st_size, int(there.st_mtime)) != (facts.st_size, int(facts.st_mtime)):
                private_folder(into.parent)
                part = into.with_name(into.name + _PART)
                shutil.copy2(path, part)
                os.replace(part, into)
                self._done.copied += 1
        except FileNotFoundError:
            if there is None:
                raise
        self._sizes[into] = into.stat().st_size

    # -- beside the tables -------------------------------------------------------------------------------------

    def _fresh(self, folder: Path, into: Path) -> Path:
        """A copy of small files, each of which may be replaced or removed meanwhile."""
        shutil.rmtree(into, ignore_errors=True)
        private_folder(into)
        for path in _files(folder):
            copy = into / path.relative_to(folder)
            private_folder(copy.parent)
            # A plan that is gone is of a batch that is committed.
            with suppress(FileNotFoundError):
                shutil.copy2(path, copy)
        return into

    def _sinks(self) -> None:
        """The folders into which sinks deliver, each as it is between two deliveries."""
        storage = self._project.storage
        for sink in self._project.catalog().sinks:
            if not isinstance(sink.connector, FilesystemSinkOptions):
                continue
            uri = storage.uri(sink.connector.path)
            if not uri.startswith("file:"):
                self._done.left_out.append(sink.name)
                continue
            folder = Path(storage.filesystem(uri)[1])
            if folder.is_dir():
                self._sink(folder, self._target / "sinks" / sink.name)
                self._done.sinks.append(sink.name)
        _remove_folders(self._target / "sinks", set(self._done.sinks))

    def _sink(self, folder: Path, into: Path) -> None:
        position = folder / "_tidegate" / "position.json"
        for _ in range(_DELIVERIES):
            before, wanted = _content(position), set()
            with suppress(FileNotFoundError):
                # What is staged is renamed into place: it is found here or there.
                for path in dict.fromkeys([*_files(position.parent), *_files(folder)]):
                    wanted.add(into / path.relative_to(folder))
                    self._copy(path, into / path.relative_to(folder))
                if _content(position) == before:
                    # (Files of a try before may be in other places by now.)
                    gone = [path for path in self._sizes if path.is_relative_to(into) and path not in wanted]
                    for path in gone:
                        del self._sizes[path]
                    _remove_others(into, wanted)
                    return
        raise TidegateError("TG620", f"{folder} changes faster than it can be copied", hint="try again")


def _content(path: Path) -> bytes | None:
    return path.read_bytes() if path.is_file() else None


def _files(folder: Path) -> Iterator[Path]:
    """Those in a folder and below; none if it is not there, or goes."""
    for where, _, names in os.walk(folder):
        yield from (Path(where, name) for name in names)


def _replace(new: Path, old: Path) -> None:
    shutil.rmtree(old, ignore_errors=True)
    os.replace(new, old)


def _remove_folders(folder: Path, wanted: set[str]) -> None:
    """Those of sinks that are no longer there."""
    for one in folder.iterdir() if folder.is_dir() else ():
        if one.name not in wanted:
            shutil.rmtree(one)


def _remove_others(folder: Path, wanted: set[Path], but: Path | None = None) -> None:
    """Files of an earlier copy that this one does not have, and folders that are empty then."""
    for where, _, names in os.walk(folder, topdown=False):
        if but is None or not Path(where).is_relative_to(but):
            for name in names:
                if (path := Path(where, name)) not in wanted:
                    path.unlink()
            if not os.listdir(where):
                os.rmdir(where)
