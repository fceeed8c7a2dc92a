"""A copy of everything that is stored, of one moment, while runs and live mode write.

The catalog names the newest metadata of every table, these name all files of the table, and no file is ever changed. So
a copy of the catalog's file is the moment, and all that it names is copied after it, with the memories of partitions
that its logs' newest commits name, and the accounts of rows that are gone. What else is kept beside the tables (plans,
positions of sinks) is copied before it: a run makes up for a plan or position that is older than the tables; with a
newer position it would leave rows out. What an erasure has to finish must not be older, so none may be under way.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyarrow.fs import LocalFileSystem

from tidegate.audit.account_files import named_by
from tidegate.audit.backup_place import CopyPlace, files_below, require_outside
from tidegate.audit.memory_files import FOLDER as MEMORIES
from tidegate.audit.memory_files import PROGRESS, named_in
from tidegate.errors import TidegateError
from tidegate.ingest.sources.files import folder_read, resolve
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
_WAREHOUSE, _SINKS, _DEFINITIONS = Path("warehouse"), Path("sinks"), Path("definitions")
#: What is kept beside the tables has such names. A recording can be read again.
_BESIDE, _CACHE = "_", "_replay"


@dataclass
class Backup:
    """What a copy has. `at`: the moment that it is of, s since 1970; `copied`: files that the copy before did not have;
    `left_out`: sinks whose folder is on object storage."""

    target: str
    at: float = 0.0
    tables: list[str] = field(default_factory=list)
    sinks: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    files: int = 0
    bytes: int = 0
    copied: int = 0


class _GoneError(Exception):
    """A file that the copied catalog names is not there any more."""

    def __init__(self, path: Path) -> None:
        super().__init__(str(path))
        self.path = path


def back_up(project: Project, target: Path) -> Backup:
    """Copy what is stored into `copy` in a folder: `warehouse`, `definitions` and `sinks`. The copy that is there is
    replaced when the new one is whole. Raises TG607 where the tables are not in a folder with a catalog in SQLite, or
    the target has something else; TG573 while an erasure is not finished; TG620 if the catalog can't be read, names a
    file that is missing, or changes faster than it can be copied."""
    storage = project.storage
    warehouse, catalog = storage.local_warehouse, storage.sqlite
    if warehouse is None or catalog is None:
        raise TidegateError(
            "TG607",
            f'environment "{project.env_name}" does not have its tables in a folder with a catalog in SQLite',
            hint="docs/backup.md says how the tables of other catalogs are copied; tidegate catalog migrate moves a "
            "catalog that is a folder to one in SQLite",
        )
    if not catalog.resolve().is_relative_to(warehouse.resolve()):
        raise TidegateError(
            "TG607",
            f"the catalog {catalog} is not in the folder of the tables, {warehouse}",
            hint="move it there, and change warehouse.catalog of the environment, while nothing runs",
        )
    folders = dict(_sink_folders(project))
    require_outside(
        target,
        [
            ("the folder of the tables", warehouse),
            ("the folder that tidegate itself uses", project.state_dir),
            *(
                (f'the folder of sink "{name}"', folder)
                for name, folder in folders.items()
                if folder is not None
            ),
            *_read_folders(project),
        ],
    )
    with CopyPlace.opened(target, warehouse) as place:
        copy, missed = _Copy(project, warehouse, catalog, place, folders), set[Path]()
        for _ in range(_TRIES):
            try:
                found = copy.made()
            except _GoneError as gone:
                # What upkeep has removed, the next catalog does not name: it commits first.
                if gone.path in missed:
                    raise TidegateError(
                        "TG620",
                        f"{gone.path}, which the catalog names, is missing: there is no whole copy of these tables",
                        hint="tidegate verify --files lists all that is missing; restore it from an earlier copy",
                    ) from None
                missed.add(gone.path)
                continue
            place.switch()
            found.target = str(target)
            return found
    raise TidegateError(
        "TG620", f"the tables in {warehouse} change faster than they can be copied", hint="try again"
    )


def _sink_folders(project: Project) -> Iterator[tuple[str, Path | None]]:
    """By sink the folder that it delivers into; None where that is on object storage."""
    storage = project.storage
    for sink in project.catalog().sinks:
        if isinstance(sink.connector, FilesystemSinkOptions):
            uri = storage.uri(sink.connector.path)
            yield sink.name, Path(storage.filesystem(uri)[1]) if uri.startswith("file:") else None


def _read_folders(project: Project) -> Iterator[tuple[str, Path]]:
    """Folders that sources read, also all below: what is put there becomes input."""
    for relation in project.catalog().relations:
        path = getattr(relation.connector, "path", None)
        # (A dataset is in the folder that tidegate itself uses.)
        if path is not None and not path.startswith("dataset:"):
            uri = folder_read(resolve(project, path))
            if uri.startswith("file:"):
                yield f'the folder that "{relation.name}" reads', Path(project.storage.filesystem(uri)[1])


class _Copy:
    """A new copy, in as many tries as it needs: what one of them has copied and read, the next ones know."""

    def __init__(
        self,
        project: Project,
        warehouse: Path,
        catalog: Path,
        place: CopyPlace,
        sinks: dict[str, Path | None],
    ) -> None:
        self._project, self._warehouse, self._catalog = project, warehouse, catalog
        self._place, self._folders = place, sinks
        #: By list of manifests those in it, and by manifest the files in it; and what is copied. None of it changes.
        self._lists: dict[str, list[str]] = {}
        self._entries: dict[str, list[str]] = {}
        self._there: dict[str, Path] = {}
        self._wanted: set[Path] = set()

    def made(self) -> Backup:
        """One try. Raises _GoneError if a file was removed before it was copied."""
        done, new = Backup(""), self._place.new
        self._wanted.clear()
        for name, folder in self._folders.items():
            if folder is None:
                done.left_out.append(name)
            elif folder.is_dir():
                self._sink(folder, _SINKS / name)
                done.sinks.append(name)
        beside = [one for one in sorted(self._warehouse.iterdir()) if one.name.startswith(_BESIDE)]
        for one in beside:
            if one.is_dir() and one.name != _CACHE:
                self._records(one, _WAREHOUSE / one.name)
        _require_no_erasure(new / _WAREHOUSE)
        done.at = time.time()
        catalog = _WAREHOUSE / self._catalog.resolve().relative_to(self._warehouse.resolve())
        private_folder((new / catalog).parent)
        for left in ("", "-wal", "-shm"):
            (new / catalog).with_name(catalog.name + left).unlink(missing_ok=True)
        tables = sqlite_catalog.copy(self._catalog, new / catalog)
        # One that began after the records were copied has perhaps removed files already.
        _require_no_erasure(self._warehouse)
        for (namespace, name), where in sorted(tables.items()):
            self._table(where, MEMORIES.format(namespace=namespace, name=name))
            done.tables.append(f"{namespace}.{name}")
        # After the catalog: the next run changes a log in place to a newer definition, but not back.
        self._records(self._project.state_dir / "definitions", _DEFINITIONS)
        done.files = len(self._wanted)
        done.bytes = sum((new / path).lstat().st_size for path in self._wanted)
        done.copied = len(self._place.made & {new / path for path in self._wanted})
        others = {
            path.relative_to(new) for one in beside for path in files_below(new / _WAREHOUSE / one.name)
        }
        self._place.keep_only(str(_WAREHOUSE), self._wanted | others | {catalog})
        return done

    # -- tables ------------------------------------------------------------------------------------------------

    def _table(self, metadata: str, memories: str) -> None:
        """All files that the metadata of a table name: first those that name others. (Earlier metadata, which they name
        as well, nobody needs, and commits remove them.) `memories`: the folder of a log's."""
        from pyiceberg.table import StaticTable
        from pyiceberg.table.snapshots import ancestors_of

        static = StaticTable.from_metadata(
            str(self._copied(metadata)), self._project.storage.pyiceberg_properties()
        )
        told = static.metadata
        plain = {one.statistics_path for one in (*told.statistics, *told.partition_statistics)}
        plain.update(named_by(told.location, told.properties))
        files = self._reading()
        for snapshot in told.snapshots:
            self._copied(snapshot.manifest_list)
            if snapshot.manifest_list not in self._lists:
                manifests = snapshot.manifests(files)
                for manifest in manifests:
                    self._copied(manifest.manifest_path)
                    if manifest.manifest_path not in self._entries:
                        entries = manifest.fetch_manifest_entry(files, discard_deleted=True)
                        self._entries[manifest.manifest_path] = [one.data_file.file_path for one in entries]
                self._lists[snapshot.manifest_list] = [one.manifest_path for one in manifests]
            for path in self._lists[snapshot.manifest_list]:
                self._copied(path)
                plain.update(self._entries[path])
        with ThreadPoolExecutor(_THREADS) as pool:
            for _ in pool.map(self._copied, sorted(plain)):
                pass
        for snapshot in ancestors_of(static.current_snapshot(), told):
            if snapshot.summary is not None and (progress := snapshot.summary.get(PROGRESS)):
                for name in named_in(LocalFileSystem(), str(self._copied(progress))):
                    self._memory(Path(memories) / name)
                break

    def _memory(self, path: Path) -> None:
        """One that was written after what is beside the tables was copied. Raises _GoneError."""
        if not (self._place.new / _WAREHOUSE / path).exists():
            try:
                self._place.take(self._warehouse / path, _WAREHOUSE / path, is_named=True)
            except FileNotFoundError:
                raise _GoneError(self._warehouse / path) from None

    def _reading(self) -> Any:
        """Iceberg's files, each copied before it is read: the original may go meanwhile."""
        from pyiceberg.io.pyarrow import PyArrowFileIO

        copied = self._copied

        class Copying(PyArrowFileIO):
            def new_input(self, location: str) -> PyArrowFile:
                return super().new_input(str(copied(location)))

        return Copying(self._project.storage.pyiceberg_properties())

    def _copied(self, uri: str) -> Path:
        """Where the copy of a file of a table is. Raises _GoneError."""
        if uri not in self._there:
            path = Path(self._project.storage.filesystem(uri)[1])
            into = _WAREHOUSE / self._relative(path)
            try:
                self._place.take(path, into, is_named=True)
            except FileNotFoundError:
                raise _GoneError(path) from None
            self._there[uri] = into
        self._wanted.add(self._there[uri])
        return self._place.new / self._there[uri]

    def _relative(self, path: Path) -> Path:
        """As seen from the folder of the tables, which may be named through links."""
        if path.is_relative_to(self._warehouse):
            return path.relative_to(self._warehouse)
        folder, warehouse = path.parent.resolve(), self._warehouse.resolve()
        if not folder.is_relative_to(warehouse):
            raise TidegateError(
                "TG607",
                f"the catalog names {path}, which is not in the folder of the tables, {self._warehouse}",
                hint="copy the tables while nothing runs (docs/backup.md)",
            )
        return folder.relative_to(warehouse) / path.name

    # -- beside the tables -------------------------------------------------------------------------------------

    def _records(self, folder: Path, into: Path) -> None:
        """Small files, each of which may be replaced or removed meanwhile."""
        shutil.rmtree(self._place.new / into, ignore_errors=True)
        private_folder(self._place.new / into)
        for path in files_below(folder):
            # A plan that is gone is of a batch that is committed.
            with suppress(FileNotFoundError):
                self._place.take_new(path, into / path.relative_to(folder))

    def _sink(self, folder: Path, into: Path) -> None:
        """The folder of a sink as it is between two deliveries: the position is the same before and after all other
        files were copied, and that one is written."""
        own = folder / "_tidegate"
        position = own / "position.json"
        for _ in range(_DELIVERIES):
            before, wanted = _content(position), set[Path]()
            with suppress(FileNotFoundError):
                # What is staged is renamed into place: it is found here or there.
                for path in dict.fromkeys([*files_below(own), *files_below(folder)]):
                    if path == position:
                        continue
                    there = into / path.relative_to(folder)
                    wanted.add(there)
                    if path.is_relative_to(own) or not path.exists():
                        self._place.take_new(path, there)
                    else:
                        self._place.take(path, there)
                if _content(position) == before:
                    if before is not None:
                        there = into / position.relative_to(folder)
                        self._place.put(before, position, there)
                        wanted.add(there)
                    self._place.keep_only(str(into), wanted)
                    self._wanted |= wanted
                    return
        raise TidegateError("TG620", f"{folder} changes faster than it can be copied", hint="try again")


def _require_no_erasure(warehouse: Path) -> None:
    """TG573 if an erasure of this catalog's rows is not finished: a copy may have files of before it, and not know that
    it has to be finished."""
    from tidegate.maintenance.erasing import ERASING

    for path in sorted(warehouse.glob(f"_streams/*/*/{ERASING}")):
        name = path.parent.parent.name
        raise TidegateError(
            "TG573",
            f'an erasure of rows of "{name}" is not finished, so nothing is copied',
            hint=f"wait for it; or, if it was interrupted: tidegate erase {name} --resume",
        )


def _content(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
