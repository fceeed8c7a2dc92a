"""Whether all files of a stored table are there and whole, by pyiceberg and Arrow: no JVM.

Nobody notices that a copy of a warehouse lacks a file until a query or a run needs it. Here every file that a snapshot
names is looked at: whether it is there, as long as Iceberg says, and whether its Parquet footer says as many rows; and
whether a log has the memories of its partitions, without which its next batch can't be judged, and each table the
accounts of its rows that are gone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any

from tidegate.audit.account_files import named_by
from tidegate.audit.memory_files import PROGRESS, named_in
from tidegate.errors import TidegateError
from tidegate.project.disk import trouble
from tidegate.project.owner import OWNER, Owner
from tidegate.store.listing import table_names
from tidegate.store.metadata import CommittedTable, load_table

if TYPE_CHECKING:
    from pyiceberg.io import FileIO
    from pyiceberg.manifest import DataFile, ManifestFile

    from tidegate.project import Storage

#: Problems of one table that are listed; all are counted.
SHOWN = 100
#: Files that are looked at side by side, most of the time waiting for an object store; and in one portion.
_THREADS, _PORTION = 16, 1000
#: How often a table that lacks a file is looked at anew, because somebody has committed to it meanwhile.
_AGAIN = 5


@dataclass(frozen=True)
class FileProblem:
    """A file that metadata name, and what is wrong with it."""

    file: str
    what: str


@dataclass
class VerifiedTable:
    """What was looked at, of all snapshots together: `files` and `rows` are those of data and of deletes, `bytes` their
    length. `problems`: the first of them; `wrong`: how many there are."""

    name: str
    snapshots: int = 0
    files: int = 0
    rows: int = 0
    bytes: int = 0
    wrong: int = 0
    problems: list[FileProblem] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Whether every file is there and whole."""
        return not self.wrong

    def add(self, problem: FileProblem) -> None:
        """Count it, and list it while the list is short."""
        self.wrong += 1
        if len(self.problems) < SHOWN:
            self.problems.append(problem)

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return asdict(self) | {"ok": self.ok}


def verify_all(storage: Storage, owner: Owner) -> Iterator[VerifiedTable]:
    """Look at all files of the stored tables of a project's namespace that this owner has, or that have none. A table
    whose newest metadata can't be read, or that the catalog does not have, is a problem, too: a copy may have the
    catalog of another moment. Raises TG620 if the catalog does not answer, TG624 as `verify`."""
    namespace = storage.settings.namespace
    names, places = table_names(storage, namespace), set[str]()
    for name in names:
        try:
            table = load_table(storage, name)
        except TidegateError as error:
            if error.code != "TG620":
                raise
            found = VerifiedTable(name)
            found.add(FileProblem("the newest metadata", error.message))
            yield found
            continue
        # (One that was renamed is in the folder of its former name.)
        places |= set() if table is None else {table.location.rstrip("/").rpartition("/")[2]}
        if table is not None and _is_of(table, owner):
            yield verify(storage, table)
    if storage.sqlite is None or storage.local_warehouse is None:
        return
    folders = sorted((storage.local_warehouse / namespace).glob("*/metadata"))
    # (Read again: a table may have been made meanwhile. DROP removes the whole folder.)
    names = [*names, *places, *table_names(storage, namespace)]
    for metadata in folders:
        if metadata.parent.name not in names and any(metadata.glob("*.metadata.json*")):
            found = VerifiedTable(metadata.parent.name)
            found.add(
                FileProblem(str(metadata.parent), f"the catalog {storage.sqlite} does not have this table")
            )
            yield found


def _is_of(table: CommittedTable, owner: Owner) -> bool:
    return Owner.of_text(table.properties.get(OWNER)) in (None, owner)


def verify(storage: Storage, table: CommittedTable) -> VerifiedTable:
    """Look at every file of every snapshot of a table. What can't be read is a problem, too; not what upkeep has
    removed meanwhile. (Nobody reads earlier metadata, which the newest ones name as well.) Raises TG624 if object
    storage does not answer or refuses the credentials, since that says nothing about the files."""
    found = _looked_at(storage, table)
    for _ in range(_AGAIN):
        newer = None if found.ok else load_table(storage, table.name)
        if newer is None or newer.metadata_location == table.metadata_location:
            break
        table, found = newer, _looked_at(storage, newer)
    return found


def _looked_at(storage: Storage, table: CommittedTable) -> VerifiedTable:
    from pyiceberg.table import StaticTable

    found = VerifiedTable(table.name)
    static = StaticTable.from_metadata(table.metadata_location, storage.pyiceberg_properties())
    found.snapshots = len(static.metadata.snapshots)
    looking = _Looking(storage, found, static.io)
    with ThreadPoolExecutor(_THREADS) as pool:
        for portion in _portions(looking.manifests(static.metadata.snapshots)):
            for problem in pool.map(looking.at_manifest, portion):
                if problem is not None:
                    found.add(problem)
        for files in _portions(looking.files()):
            for problem in pool.map(looking.at_file, files):
                if problem is not None:
                    found.add(problem)
        beside = [*looking.memories(table), *named_by(table.location, table.properties)]
        for problem in pool.map(looking.at_beside, beside):
            if problem is not None:
                found.add(problem)
    return found


def _portions(given: Iterable[Any]) -> Iterator[list[Any]]:
    rest = iter(given)
    while portion := list(islice(rest, _PORTION)):
        yield portion


class _Looking:
    """At the files of one table. A file that several snapshots or manifests name is looked at once."""

    def __init__(self, storage: Storage, found: VerifiedTable, io: FileIO) -> None:
        self._storage, self._found, self._io = storage, found, io
        self._manifests: dict[str, ManifestFile] = {}

    def manifests(self, snapshots: Iterable[Any]) -> Iterator[ManifestFile]:
        """Those of all snapshots. A list of manifests that can't be read is a problem."""
        for snapshot in snapshots:
            try:
                listed = snapshot.manifests(self._io)
            except Exception as error:
                self._found.add(_unreadable(snapshot.manifest_list, error))
                continue
            for manifest in listed:
                if manifest.manifest_path not in self._manifests:
                    self._manifests[manifest.manifest_path] = manifest
                    yield manifest

    def at_manifest(self, manifest: ManifestFile) -> FileProblem | None:
        """Whether it is there and as long as its list says."""
        return self._length(manifest.manifest_path, manifest.manifest_length)

    def files(self) -> Iterator[DataFile]:
        """Those that the manifests name and have not removed."""
        seen: set[str] = set()
        for path, manifest in self._manifests.items():
            try:
                entries = manifest.fetch_manifest_entry(self._io, discard_deleted=True)
            except Exception as error:
                if self.at_manifest(manifest) is None:
                    self._found.add(_unreadable(path, error))
                continue
            for entry in entries:
                file = entry.data_file
                if file.file_path not in seen:
                    seen.add(file.file_path)
                    self._found.files += 1
                    self._found.rows += file.record_count
                    self._found.bytes += file.file_size_in_bytes
                    yield file

    def at_file(self, file: DataFile) -> FileProblem | None:
        """Whether it is there, as long as its manifest says, and has as many rows."""
        problem = self._length(file.file_path, file.file_size_in_bytes)
        if problem is not None or str(file.file_format.value).upper() != "PARQUET":
            return problem
        try:
            rows = self._rows(file.file_path)
        except Exception as error:
            return _unreadable(file.file_path, error)
        if rows != file.record_count:
            return FileProblem(file.file_path, f"it has {rows} rows instead of {file.record_count}")
        return None

    def memories(self, table: CommittedTable) -> list[str]:
        """The files with memories that the newest commit of a log names."""
        progress = table.summary.get(PROGRESS)
        if progress is None:
            return []
        folder = f"{self._storage.work_folder(table.name)}/memory"
        try:
            return [f"{folder}/{name}" for name in named_in(*self._storage.filesystem(progress))]
        except Exception as error:
            # It is one of the table's files. (Upkeep may have moved its rows.)
            _unreadable(progress, error)
            return []

    def at_beside(self, uri: str) -> FileProblem | None:
        """Whether it is there, and whole."""
        try:
            self._rows(uri)
        except Exception as error:
            return _unreadable(uri, error)
        return None

    def _rows(self, uri: str) -> int:
        from pyarrow import parquet

        filesystem, path = self._storage.filesystem(uri)
        with filesystem.open_input_file(path) as opened:
            rows: int = parquet.read_metadata(opened).num_rows
            return rows

    def _length(self, path: str, wanted: int) -> FileProblem | None:
        from pyarrow.fs import FileType

        try:
            info = self._info(path)
        except Exception as error:
            return _unreadable(path, error)
        if info.type is not FileType.File:
            return FileProblem(path, "it is missing")
        if info.size != wanted:
            return FileProblem(path, f"it has {info.size} bytes instead of {wanted}")
        return None

    def _info(self, uri: str) -> Any:
        # A REST server may put tables elsewhere than the warehouse is.
        filesystem, path = self._storage.filesystem(uri)
        return filesystem.get_file_info(path)


def _unreadable(file: str, error: Exception) -> FileProblem:
    """What an attempt to read a file says of it. Raises TG624 if it is the store that fails, and not the file."""
    if isinstance(error, FileNotFoundError):
        return FileProblem(file, "it is missing")
    if (known := trouble(error)) is not None and known.code == "TG624":
        raise known from error
    first = str(error).splitlines()[0] if str(error) else type(error).__name__
    return FileProblem(file, f"it can't be read: {first}")
