"""A store of files in memory, as pyarrow's file system and as pyiceberg's. Every question and every change is a step of
the outside. A file appears when it is closed, whole; only a fault leaves a part of it."""

from __future__ import annotations

import io
import weakref
from collections.abc import Callable
from datetime import datetime
from typing import Any

import pyarrow as pa
import pyarrow.fs as pafs
from pyiceberg.io import FileIO, InputFile, OutputFile

from tests.simulate.world.outside import FULL, HIDDEN, KILLED_HALFWAY, TORN, InjectedError, Outside

#: Seconds for which a file that is missing until later is missing.
_LATER = 30


class Store:
    """Files by path. `role`: what a path is to the engine, for the names of steps."""

    def __init__(self, outside: Outside, role: Callable[[str], str]) -> None:
        self.outside, self._role = outside, role
        self.files: dict[str, bytes] = {}
        self.times: dict[str, datetime] = {}
        self.folders: set[str] = set()
        self._hidden: dict[str, datetime] = {}
        #: Called with the path of each file that goes, and of each that comes.
        self.watcher: Callable[[str, str], None] = lambda what, path: None

    # -- without steps: what the world does, and what checks look at --------------------------------------------

    def put(self, path: str, content: bytes) -> None:
        self.files[path], self.times[path] = content, self.outside.now
        folder = path.rpartition("/")[0]
        while folder and folder not in self.folders:
            self.folders.add(folder)
            folder = folder.rpartition("/")[0]
        self.watcher("came", path)

    def take(self, path: str) -> None:
        if self.files.pop(path, None) is None:
            raise FileNotFoundError(path)
        self.watcher("went", path)

    def below(self, folder: str) -> list[str]:
        return [path for path in self.files if path.startswith(f"{folder}/")]

    def has_hidden(self) -> bool:
        """Whether a file was ever missing until later: then who looked did not know of it."""
        return bool(self._hidden)

    # -- steps -------------------------------------------------------------------------------------------------

    def read(self, path: str) -> bytes:
        def effect(fault: str | None) -> bytes:
            if fault == HIDDEN:
                self._hide(path)
            if path not in self.files or self._is_hidden(path):
                raise FileNotFoundError(path)
            return self.files[path]

        found: bytes = self.outside.step(f"read {self._role(path)}", effect)
        return found

    def write(self, path: str, content: bytes) -> None:
        def effect(fault: str | None) -> None:
            part = fault in (TORN, FULL, KILLED_HALFWAY)
            self.put(path, content[: len(content) // 2] if part else content)
            if fault in (TORN, FULL):
                raise InjectedError(f"{fault}: {path}")

        self.outside.step(f"write {self._role(path)}", effect)

    def delete(self, path: str) -> None:
        self.outside.step(f"delete {self._role(path)}", lambda _: self.take(path))

    def delete_folder(self, folder: str) -> None:
        def effect(_: str | None) -> None:
            for path in self.below(folder):
                self.take(path)
            self.folders = {one for one in self.folders if one != folder and not one.startswith(f"{folder}/")}

        self.outside.step(f"delete {self._role(folder)}", effect)

    def move(self, source: str, target: str) -> None:
        def effect(_: str | None) -> None:
            if source not in self.files:
                raise FileNotFoundError(source)
            content = self.files[source]
            self.put(target, content)
            self.take(source)

        self.outside.step(f"move {self._role(target)}", effect)

    def look(self, path: str) -> pafs.FileInfo:
        found: pafs.FileInfo = self.outside.step(f"look {self._role(path)}", lambda _: self._info(path))
        return found

    def list(self, folder: str, recursive: bool, allow_missing: bool) -> list[pafs.FileInfo]:
        def effect(_: str | None) -> list[pafs.FileInfo]:
            if folder not in self.folders:
                if allow_missing:
                    return []
                raise FileNotFoundError(folder)
            start = f"{folder}/"
            inside = [p for p in (*self.files, *self.folders) if p.startswith(start)]
            found = [p for p in sorted(inside) if recursive or "/" not in p[len(start) :]]
            # A store promises no order.
            self.outside.rng.shuffle(found)
            return [self._info(path) for path in found if not self._is_hidden(path)]

        listed: list[pafs.FileInfo] = self.outside.step(f"list {self._role(folder)}", effect)
        return listed

    def make_folder(self, folder: str) -> None:
        while folder and folder not in self.folders:
            self.folders.add(folder)
            folder = folder.rpartition("/")[0]

    def _hide(self, path: str) -> None:
        from datetime import timedelta

        self._hidden[path] = self.outside.now + timedelta(seconds=_LATER)

    def _is_hidden(self, path: str) -> bool:
        until = None if self.outside.quiet else self._hidden.get(path)
        return until is not None and self.outside.now < until

    def _info(self, path: str) -> pafs.FileInfo:
        if path in self.files:
            return pafs.FileInfo(path, pafs.FileType.File, size=len(self.files[path]), mtime=self.times[path])
        kind = pafs.FileType.Directory if path in self.folders else pafs.FileType.NotFound
        return pafs.FileInfo(path, kind)


class Handler(pafs.FileSystemHandler):
    """The store as pyarrow's file system."""

    def __init__(self, store: Store) -> None:
        # (What Arrow holds, Python's garbage collection does not see: a world would hold itself for ever.)
        self._store = weakref.ref(store)

    @property
    def store(self) -> Store:
        found = self._store()
        assert found is not None, "its world has ended"
        return found

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Handler) and other.store is self.store

    def __ne__(self, other: object) -> bool:
        return not self == other

    def get_type_name(self) -> str:
        return "simulated"

    def normalize_path(self, path: str) -> str:
        return path

    def get_file_info(self, paths: list[str]) -> list[pafs.FileInfo]:
        return [self.store.look(path.rstrip("/")) for path in paths]

    def get_file_info_selector(self, selector: pafs.FileSelector) -> list[pafs.FileInfo]:
        return self.store.list(selector.base_dir.rstrip("/"), selector.recursive, selector.allow_not_found)

    def create_dir(self, path: str, recursive: bool) -> None:
        self.store.make_folder(path.rstrip("/"))

    def delete_dir(self, path: str) -> None:
        self.store.delete_folder(path.rstrip("/"))

    def delete_dir_contents(self, path: str, missing_dir_ok: bool = False) -> None:
        self.store.delete_folder(path.rstrip("/"))

    def delete_root_dir_contents(self) -> None:
        raise NotImplementedError

    def delete_file(self, path: str) -> None:
        self.store.delete(path)

    def move(self, src: str, dest: str) -> None:
        self.store.move(src, dest)

    def copy_file(self, src: str, dest: str) -> None:
        raise NotImplementedError

    def open_input_stream(self, path: str) -> pa.NativeFile:
        return pa.BufferReader(self.store.read(path))

    def open_input_file(self, path: str) -> pa.NativeFile:
        return pa.BufferReader(self.store.read(path))

    def open_output_stream(self, path: str, metadata: Any) -> pa.NativeFile:
        return pa.PythonFile(_Writing(self.store, path), mode="w")

    def open_append_stream(self, path: str, metadata: Any) -> pa.NativeFile:
        raise NotImplementedError


class _Writing(io.BytesIO):
    """A file that is being written, which the store gets when it is closed."""

    def __init__(self, store: Store, path: str) -> None:
        super().__init__()
        self._store, self._path = store, path
        self._driver = store.outside.driver
        self._task = self._driver.task

    def close(self) -> None:
        if not self.closed:
            content = self.getvalue()
            super().close()
            # (What a process had not written when it was killed, it does not write; nor does a task that has failed,
            # whose process ends with it.)
            if not self._driver.dead and self._task is self._driver.task:
                self._store.write(self._path, content)

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        # What nobody closed, nobody has written.
        super().close()


class StoreIO(FileIO):
    """The store as pyiceberg's."""

    def __init__(self, store: Store) -> None:
        super().__init__({})
        self.store = store

    def new_input(self, location: str) -> InputFile:
        return _Input(location, self.store)

    def new_output(self, location: str) -> OutputFile:
        return _Output(location, self.store)

    def delete(self, location: str | InputFile | OutputFile) -> None:
        self.store.delete(path_in(location if isinstance(location, str) else location.location))


def path_in(location: str) -> str:
    return location.removeprefix("file://").removeprefix("file:")


class _Input(InputFile):
    def __init__(self, location: str, store: Store) -> None:
        super().__init__(location)
        self._store = store

    def __len__(self) -> int:
        return len(self._store.files[path_in(self.location)])

    def exists(self) -> bool:
        return path_in(self.location) in self._store.files

    def open(self, seekable: bool = True) -> Any:
        return io.BytesIO(self._store.read(path_in(self.location)))


class _Output(OutputFile):
    def __init__(self, location: str, store: Store) -> None:
        super().__init__(location)
        self._store = store

    def __len__(self) -> int:
        return len(self._store.files[path_in(self.location)])

    def exists(self) -> bool:
        return path_in(self.location) in self._store.files

    def to_input_file(self) -> InputFile:
        return _Input(self.location, self._store)

    def create(self, overwrite: bool = False) -> Any:
        return _Writing(self._store, path_in(self.location))
