"""Files as input: where they are, and which there are."""

from __future__ import annotations

import fnmatch
import importlib.util
import os
import re
from collections.abc import Container, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.fs as pafs

from tidegate.errors import TidegateError
from tidegate.ingest.connector import no_input
from tidegate.project.disk import private_folder

if TYPE_CHECKING:
    from tidegate.iceberg.progress import ConsumedFile
    from tidegate.project import Project
    from tidegate.sql.catalog.objects import Relation

_WILDCARDS = "*?["
#: Names of files and folders that are still being written, copied or edited, or were left by that (docs/files.md): how
#: they begin; how they end, compressed or not; and what mktemp makes of `x.tmp.XXXXXX`, which is neither a word nor a
#: number (`x.tmp.json` is data).
_LEFTOVER = re.compile(
    r"^~"
    r"|(?i:(~|#|\.(tmp|temp|part|partial|filepart|crdownload|download|aria2|incomplete|inprogress|pending|uploading"
    r"|writing|lock|lck|bak|orig|rej|save|sw[a-px]|crc|md5|_copying_))(\.(gz|bz2|lz4|zst))?$)"
    r"|(^|\.)tmp\.(?![a-z]+$|[A-Z]+$|[0-9]+$)[A-Za-z0-9]{6,12}$"
)
#: Files that editors and file managers make; a folder may be called so (a number is a usual name of one).
_NO_DATA = ("4913", "desktop.ini", "thumbs.db")


@dataclass(frozen=True)
class InputFile:
    """`path`: relative to the source's base folder; `uri`: for Spark; `modified`: ms since the epoch."""

    path: str
    uri: str
    size: int
    modified: int

    @property
    def folder(self) -> str:
        """Folder below the base."""
        return folder_of(self.path)

    @property
    def facts(self) -> tuple[str, int, int]:
        """What a listing knows it by."""
        return self.path, self.size, self.modified


def folder_of(path: str) -> str:
    """The folder of a file below the base, "." for files directly in it."""
    return path.rpartition("/")[0] or "."


def resolve(project: Project, path: str) -> str:
    """URI of a source's `path`. `dataset:NAME/FILE` names a file that `assets/NAME.py` brings when it is missing."""
    if path.startswith("dataset:"):
        name, _, rest = path.removeprefix("dataset:").partition("/")
        return project.storage.uri(str(_dataset(project, name) / rest))
    return project.storage.uri(path)


def _dataset(project: Project, name: str) -> Path:
    """Folder of a dataset, fetched at first use by `fetch(target: Path)` of `assets/<name>.py`."""
    folder = project.state_dir / "datasets" / name
    if (folder / ".complete").is_file():
        return folder
    script = project.root / "assets" / f"{name}.py"
    if not script.is_file():
        raise TidegateError(
            "TG503",
            f'dataset "{name}" has no script assets/{name}.py that creates it',
            hint="write assets/NAME.py with a function fetch(target: Path)",
        )
    if not project.env.allow.python:
        raise TidegateError(
            "TG614",
            f"assets/{name}.py would have to run for it, but Python is not allowed",
            hint=(
                f"the operator of tidegate can allow it in resources/{project.env_name}.yaml, allow: "
                "{python: true}"
            ),
        )
    spec = importlib.util.spec_from_file_location(f"tidegate_dataset_{name}", script)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    private_folder(folder)
    module.fetch(folder)
    (folder / ".complete").touch()
    return folder


def list_files(project: Project, relation: str, path: str, known: Container[str] = ()) -> list[InputFile]:
    """Files below `path` (a file, a folder, or a pattern), ordered by path.

    Hidden ones (`.x`, `_x`) and leftovers (`x.tmp`, `x.part`, `x~`, …), and what is in folders that are called so, are
    not input, unless `path` names one itself, a pattern asks for such names, or it is `known` to be read.
    Raises TG503 if the path does not exist.
    """
    uri = resolve(project, path)
    project.storage.require_object_store(f'source "{relation}"', uri)
    base, pattern = _split(uri)
    filesystem, root = project.storage.filesystem(base)
    info = filesystem.get_file_info(root)
    if info.type == pafs.FileType.File:
        folder = root.rpartition("/")[0]
        return [_input_file(info, folder, base.rpartition("/")[0])]
    if info.type != pafs.FileType.Directory:
        raise no_input(relation, path)
    asked = pattern is not None and (".tmp." in pattern or _is_leftover(pattern))
    files = []
    for entry in filesystem.get_file_info(pafs.FileSelector(root, recursive=True)):
        if entry.type != pafs.FileType.File:
            continue
        file = _input_file(entry, root, base)
        hidden = any(part.startswith((".", "_")) for part in file.path.split("/"))
        if (hidden or (not asked and _is_leftover(file.path))) and file.path not in known:
            continue
        if pattern is None or fnmatch.fnmatchcase(file.path, pattern):
            files.append(file)
    _refuse_links(project, relation, root, files)
    return sorted(files, key=lambda f: f.path)


def _refuse_links(project: Project, relation: str, root: str, files: list[InputFile]) -> None:
    """Raise TG614 for a file that is read through a link out of its folder, to where SQL may not reach (X1)."""
    if not files or not files[0].uri.startswith("file:"):
        return
    links = set(_links(root, ""))
    if not links:
        return
    base = os.path.realpath(root)
    for file in files:
        parts = file.path.split("/")
        if links.isdisjoint("/".join(parts[: i + 1]) for i in range(len(parts))):
            continue
        target = os.path.realpath(f"{root}/{file.path}")
        if target.startswith(f"{base}/"):
            continue
        for problem in project.reach.path(target):
            why = problem.message.removeprefix("path: ")
            message = f'source "{relation}": {file.path} is a link: {why}'
            raise TidegateError(problem.code, message, hint=problem.hint)


def _links(root: str, below: str) -> Iterator[str]:
    """The links in a folder, relative to it: looked for in its entries, since to follow each file would cost more than
    to list it."""
    with suppress(OSError), os.scandir(f"{root}/{below}") as entries:
        for entry in entries:
            if entry.is_symlink():
                yield below + entry.name
            elif entry.is_dir(follow_symlinks=False):
                yield from _links(root, f"{below}{entry.name}/")


def _is_leftover(path: str) -> bool:
    """Whether a file, or a folder that it is in, has the name of a leftover."""
    *folders, name = path.split("/")
    return name.lower() in _NO_DATA or any(_LEFTOVER.search(part) for part in (*folders, name))


def _input_file(entry: pafs.FileInfo, root: str, base: str) -> InputFile:
    relative = entry.path.removeprefix(root).lstrip("/")
    modified = int(entry.mtime_ns // 1_000_000) if entry.mtime_ns is not None else 0
    return InputFile(relative, f"{base}/{relative}", entry.size, modified)


def _split(uri: str) -> tuple[str, str | None]:
    """A pattern's folder without wildcards, and the rest as the pattern."""
    parts = uri.split("/")
    for i, part in enumerate(parts):
        if any(w in part for w in _WILDCARDS):
            return "/".join(parts[:i]), "/".join(parts[i:])
    return uri, None


def folder_read(uri: str) -> str:
    """The folder of a source's `resolve`d path, or its only file."""
    return _split(uri)[0]


def paths_of(project: Project, uris: list[str]) -> tuple[pafs.FileSystem, list[str]]:
    """The file system of a source's files, and their paths in it."""
    # All are of one source, so of one file system: one client for all of them.
    filesystem, first = project.storage.filesystem(uris[0])
    cut = len(uris[0]) - len(first)
    return filesystem, [uri[cut:] for uri in uris]


def changed(relation: Relation, before: ConsumedFile, now: InputFile) -> TidegateError:
    """The error for a file that is another one since it was read."""
    name = relation.name
    what = f"had {before.size:,} bytes when it was read, but has {now.size:,} now"
    if before.size == now.size:
        what = (
            f"was written again after it was read; it still has {now.size:,} bytes, but may "
            "contain other rows"
        )
    return TidegateError(
        "TG505",
        f'source "{name}": {now.path} {what}',
        hint="a file is read only once, and all other files are read. There are three ways to "
        "continue: restore the file as it was, with its time; or remove it, and write its new rows "
        f"into a file with another name (rename it into place); or DROP SOURCE {name} and run "
        "again, which reads all files again",
        location=relation.location,
    )
