"""What an erasure that has begun has to finish: a small file that is there before anything is changed, and that goes
when nothing is left to do (R2). As long as it is there it says by what the rows are found; the record does not."""

from __future__ import annotations

import getpass
import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING

import pyarrow.fs as pafs

from tidegate.errors import TidegateError
from tidegate.project.object_store import make_folder, put_whole, read_json

if TYPE_CHECKING:
    from tidegate.project import Storage

_FOLDER, _NAME = "erasing", "erasing.json"
#: Where it is in the folder of a source's plans.
ERASING = f"{_FOLDER}/{_NAME}"


@dataclass(frozen=True)
class DroppedTable:
    """The table of a branch `environment` that is dropped, with what belongs to it. `folders`: URIs."""

    namespace: str
    environment: str
    name: str
    folders: tuple[str, ...] = ()

    @property
    def table(self) -> str:
        """With its namespace."""
        return f"{self.namespace}.{self.name}"


@dataclass(frozen=True)
class Erasing:
    """`id`: of the erasure. `where`: its condition, as written. `raw`: texts that the raw text of a rejected row may
    have. `by`: who asked; `at`: when, ISO in UTC. `keep`: whether counts and sums over the rows stay;
    `recompute`: until they are computed from the rows that are left. `again`: the views that are computed again whether
    or not they have a marked window, each with the life of the version (`StoredTable.uuid`) that has no row that goes,
    "" until there is one. `drop`: whether tables of branches are dropped; `dropped`: which."""

    id: str
    where: str
    raw: tuple[str, ...]
    by: str
    at: str
    keep: bool = False
    recompute: bool = False
    again: Mapping[str, str] = field(default_factory=dict)
    drop: bool = False
    dropped: tuple[DroppedTable, ...] = ()


def same_erasure(
    name: str, begun: Erasing | None, wanted: tuple[str, tuple[str, ...], bool, bool] | None
) -> Erasing | None:
    """The erasure that was interrupted. Raises TG573 if another one is wanted."""
    if (
        begun is not None
        and wanted is not None
        and (begun.where, begun.raw, begun.keep, begun.recompute) != wanted
    ):
        raise TidegateError(
            "TG573",
            f'another erasure of rows of "{name}" was interrupted, and has to be finished first: {begun.by} '
            f"asked for it at {begun.at}",
            hint=f"tidegate erase {name} --resume",
        )
    return begun


def asking() -> str:
    """Who runs this process, for the record."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return f"user {os.getuid()}"


class ErasingFile:
    """The file of one source, in a folder of its own."""

    def __init__(self, storage: Storage, name: str) -> None:
        self._filesystem, self._folder = storage.filesystem(f"{storage.work_folder(name)}/{_FOLDER}")

    def seen(self) -> Erasing | None:
        """As `read`, for one who does not hold the source's lease."""
        try:
            return self.read()
        except FileNotFoundError:
            return None  # it has been finished just now

    def read(self) -> Erasing | None:
        """What was begun and is not finished; None: nothing. Who goes on by it holds the lease of the source: nobody
        else has finished what is there and can't be read now (R2)."""
        path = f"{self._folder}/{_NAME}"
        if not self._filesystem.get_file_info(path).is_file:
            return None
        found = read_json(self._filesystem, path)
        dropped = [
            DroppedTable(**{**one, "folders": tuple(one["folders"])}) for one in found.get("dropped", ())
        ]
        return Erasing(**{**found, "raw": tuple(found["raw"]), "dropped": tuple(dropped)})

    def write(self, erasing: Erasing) -> None:
        """From here on the erasure is finished by whoever comes."""
        make_folder(self._filesystem, self._folder)
        put_whole(self._filesystem, f"{self._folder}/{_NAME}", json.dumps(asdict(erasing)).encode())

    def remove(self) -> None:
        """With what writers that broke off have left beside it, which first: they say the same."""
        selector = pafs.FileSelector(self._folder, allow_not_found=True)
        paths = [info.path for info in self._filesystem.get_file_info(selector) if info.is_file]
        for path in sorted(paths, key=lambda path: path.endswith(f"/{_NAME}")):
            self._filesystem.delete_file(path)
