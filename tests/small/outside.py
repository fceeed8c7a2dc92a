"""What is outside of the engine in a small world: files and one table, as values. Each change is an effect with a name;
before it the world is noted as a crash would leave it, so that one run shows all crashes that it can meet.

A state is a value: whoever plays on from it starts an `Outside` of it, as a new process does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import pyarrow.fs as pafs

from tidegate.iceberg.attempt import committed
from tidegate.iceberg.protocol import AnswerLost, Conflict, Found, Snapshot, Stored, standing


@dataclass(frozen=True)
class Kept:
    """A snapshot of the table: what its summary says, and the files that it added."""

    id: int
    parent: int | None
    summary: tuple[tuple[str, str], ...]
    files: tuple[tuple[str, Any], ...]


@dataclass(frozen=True)
class Durable:
    """What is left when every process has ended. `late`: a commit of a process that is gone, whose request is on its
    way yet. `ids`: snapshots get numbers that were never given before."""

    plans: tuple[tuple[str, bytes], ...] = ()
    commits: tuple[Kept, ...] = ()
    late: Kept | None = None
    ids: int = 0

    @property
    def newest(self) -> int | None:
        return self.commits[-1].id if self.commits else None

    def landed(self) -> Durable:
        """The late commit arrives: it is stored iff nobody has committed since its base."""
        late = self.late
        if late is None or late.parent != self.newest:
            return replace(self, late=None)
        return replace(self, late=None, commits=(*self.commits, late))


@dataclass(frozen=True)
class Crash:
    """The world as a crash before the effect of this name leaves it."""

    before: str
    left: Durable


class Outside:
    """One process's view. `land_at`: before which effect of it the late commit arrives. `lost`: of its first commit the
    answer is lost, and it is there, or is not ("stored", "not stored")."""

    def __init__(self, durable: Durable, land_at: int | None = None, lost: str | None = None) -> None:
        self.durable, self._land_at, self._lost = durable, land_at, lost
        self.crashes: list[Crash] = []
        #: For each crash the commit whose request was on its way then.
        self.requests: list[Kept | None] = []
        #: What no process reads any more once its writer is gone.
        self.scratch: dict[str, Any] = {}

    def effect(self, name: str, change: Callable[[Durable], Durable]) -> None:
        """Do something that lasts."""
        self.crashes.append(Crash(name, self.durable))
        self.requests.append(self.scratch.pop("request", None))
        if len(self.crashes) - 1 == self._land_at:
            self.durable = self.durable.landed()
        self.durable = change(self.durable)

    # -- the folder of plans, as pyarrow's file systems ------------------------------------------------------------

    def create_dir(self, path: str, recursive: bool = True) -> None:
        """Folders are everywhere."""

    def get_file_info(self, asked: Any) -> Any:
        if isinstance(asked, str):
            kind = pafs.FileType.File if asked in dict(self.durable.plans) else pafs.FileType.NotFound
            return SimpleNamespace(type=kind, path=asked)
        return [
            SimpleNamespace(type=pafs.FileType.File, path=path, base_name=path.rpartition("/")[2])
            for path, _ in self.durable.plans
        ]

    def open_input_stream(self, path: str) -> _Stream:
        return _Stream(self, path, dict(self.durable.plans)[path])

    def open_output_stream(self, path: str) -> _Stream:
        return _Stream(self, path, None)

    def move(self, source: str, target: str) -> None:
        content = self.scratch.pop(source)
        self.effect("move plan", lambda d: _with_plan(d, target, content))

    def delete_file(self, path: str) -> None:
        self.effect("delete plan", lambda d: _with_plan(d, path, None))


def _with_plan(durable: Durable, path: str, content: bytes | None) -> Durable:
    plans = {name: found for name, found in durable.plans if name != path}
    if content is not None:
        plans[path] = content
    return replace(durable, plans=tuple(sorted(plans.items())))


class _Stream:
    """A file that is read, or one that is there when it is closed; its hidden name is nobody's until it is moved."""

    def __init__(self, outside: Outside, path: str, content: bytes | None) -> None:
        self._outside, self._path, self._content = outside, path, content

    def __enter__(self) -> _Stream:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def read(self) -> bytes:
        assert self._content is not None
        return self._content

    def write(self, content: bytes) -> None:
        self._outside.effect("write plan", lambda d: d)
        self._outside.scratch[self._path] = content


class Table:
    """The port to stored tables (`tidegate.iceberg.tables.Table`), as far as a log asks: one list of snapshots, to
    which the engine's own protocol commits. `step`: the name of the effect."""

    identifier, uuid = "small.`log`", "log"

    def __init__(self, outside: Outside, step: str) -> None:
        self._outside, self._step = outside, step

    def current(self) -> Snapshot:
        return self._standing(self._outside.durable.newest)

    def property(self, key: str) -> None:
        """It has none."""

    def at(self, snapshot: int) -> Snapshot:
        return self._standing(snapshot)

    def _standing(self, snapshot: int | None) -> Snapshot:
        return standing(snapshot, self._facts)

    def _facts(self, snapshot: int) -> tuple[Mapping[str, str], int | None]:
        found = next(one for one in self._outside.durable.commits if one.id == snapshot)
        return dict(found.summary), found.parent

    def append(
        self, files: Any, target: Any, summary: dict[str, str], base: Snapshot, change: None = None
    ) -> int:
        return committed(self.identifier, base, self._look, lambda at: self._attempt(files, summary, at))

    def _look(self, commit: int | None) -> Found:
        return Found(self.current(), any(one.id == commit for one in self._outside.durable.commits))

    def _attempt(self, files: Any, summary: dict[str, str], base: Snapshot) -> Stored | Conflict | AnswerLost:
        outside = self._outside
        number = outside.durable.ids + 1
        outside.durable = replace(outside.durable, ids=number)
        content = tuple((file["uri"], outside.scratch[file["uri"]]) for file in files)
        new = Kept(number, base.id, tuple(sorted(summary.items())), content)
        outside.scratch["request"] = new
        lost, outside._lost = outside._lost, None
        if lost == "not stored":
            return AnswerLost(ConnectionError("no answer"), number)
        outside.effect(
            self._step, lambda d: replace(d, late=new).landed() if d.late is None else _raced(d, new)
        )
        if not any(one.id == number for one in outside.durable.commits):
            return Conflict(None, number)
        return AnswerLost(ConnectionError("no answer"), number) if lost else Stored(number)


def _raced(durable: Durable, new: Kept) -> Durable:
    """The new one is there first; the late one is on its way yet."""
    late = durable.late
    return replace(replace(durable, late=new).landed(), late=late)
