"""The folder that has a copy of what is stored: it is replaced as a whole, and nothing else is ever removed for it.

    tidegate-backup.json   says that the folder is one of `tidegate backup`, and of which tables
    copy/                  the newest copy
    former/                the one before, while the newest takes its place
    .new/                  a copy that is being made

The new copy is made beside the one that is there, and takes its place by renames when it is whole. A process that is
killed at any moment leaves a whole one, in `copy` or in `former`.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tidegate.errors import TidegateError
from tidegate.project.disk import private_folder

MARKER, COPY, FORMER, NEW = "tidegate-backup.json", "copy", "former", ".new"
_OTHER = "name a new or empty folder elsewhere, or one that has an earlier copy of the same tables"


def require_outside(target: Path, kept: Iterable[tuple[str, Path]]) -> None:
    """TG607 for a target that is one of these folders (what it is, where), lies in one, or contains one."""
    resolved = target.resolve()
    for what, folder in kept:
        there = folder.resolve()
        if resolved.is_relative_to(there) or there.is_relative_to(resolved):
            how = "lies in" if resolved.is_relative_to(there) else "contains"
            raise TidegateError(
                "TG607", f"{target} {how} {what}, {folder}: no copy is put there", hint=_OTHER
            )


class CopyPlace:
    """A target that this process has to itself, while `opened` lasts. `made`: files that the copy which was there did
    not have."""

    def __init__(self, target: Path) -> None:
        self.new, self._copy, self._former = (target / name for name in (NEW, COPY, FORMER))
        self.made: set[Path] = set()

    @classmethod
    @contextmanager
    def opened(cls, target: Path, warehouse: Path) -> Iterator[CopyPlace]:
        """Raises TG607 for a folder that has something else, or the copy of another warehouse, or that another process
        copies into."""
        private_folder(target)
        names = os.listdir(target)
        if names and MARKER not in names:
            what = (
                f"{target} is not empty, and has no copy that tidegate backup has made: {min(names)} is there"
            )
            raise TidegateError("TG607", what, hint=_OTHER)
        with open(target / MARKER, "a+", encoding="utf-8") as marker:
            try:
                fcntl.flock(marker, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                what = f"another process copies into {target}"
                raise TidegateError("TG607", what, hint="wait for it, or name another folder") from None
            except OSError:
                pass  # a file system without locks
            marker.seek(0)
            if text := marker.read():
                _require_same(target, text, warehouse)
            else:
                marker.write(json.dumps({"warehouse": str(warehouse.resolve())}))
                marker.flush()
            place = cls(target)
            if not os.path.lexists(place._copy) and os.path.lexists(place._former):
                # Killed between the two renames.
                place._former.rename(place._copy)
            try:
                _remove(place._former)
                _remove(place.new)
                private_folder(place.new)
                yield place
            finally:
                _remove(place.new)

    def switch(self) -> None:
        """The new copy takes the place of the one that is there. From the first rename on until the second one that is
        in `former`."""
        os.sync()
        if os.path.lexists(self._copy):
            self._copy.rename(self._former)
        self.new.rename(self._copy)
        _remove(self._former)

    def take(self, path: Path, into: Path, is_named: bool = False) -> None:
        """Have a file that nobody changes in the new copy, there linked to that of the copy before where both are the
        same file. `is_named`: it is what the name says, also where only the copy before has it yet. Raises
        FileNotFoundError."""
        there, before = self.new / into, _facts(self._copy / into)
        facts = _facts(path) or (before if is_named else None)
        if facts is None:
            raise FileNotFoundError(path)
        if facts == _facts(there):
            return
        _prepare(there)
        if facts == before:
            # (Not every file system has links.)
            with suppress(OSError):
                os.link(self._copy / into, there)
                return
        shutil.copy2(path, there)
        self.made.add(there)

    def take_new(self, path: Path, into: Path) -> None:
        """Have a copy of its own of a file. Raises FileNotFoundError."""
        there = self.new / into
        _prepare(there)
        # A link that leads nowhere is a link in the copy, too.
        shutil.copy2(path, there, follow_symlinks=path.exists())
        self.made.add(there)

    def put(self, content: bytes, like: Path, into: Path) -> None:
        """Have a file with this content, and the times of another one."""
        there = self.new / into
        _prepare(there)
        there.write_bytes(content)
        shutil.copystat(like, there)
        self.made.add(there)

    def keep_only(self, folder: str, wanted: set[Path]) -> None:
        """Remove from a folder of the new copy what an earlier try has left, and folders that are empty then."""
        for where, _, names in os.walk(self.new / folder, topdown=False):
            for name in names:
                if (path := Path(where, name)).relative_to(self.new) not in wanted:
                    path.unlink()
            if not os.listdir(where):
                os.rmdir(where)


def files_below(folder: Path) -> Iterator[Path]:
    """Those in a folder and below, also through links to folders, and links that lead nowhere; none if it is not there,
    or goes."""
    seen: set[tuple[int, int]] = set()
    for where, folders, names in os.walk(folder, followlinks=True):
        try:
            facts = os.stat(where)
        except FileNotFoundError:
            continue
        if (facts.st_dev, facts.st_ino) in seen:
            folders[:] = []
            continue
        seen.add((facts.st_dev, facts.st_ino))
        for path in (Path(where, name) for name in names):
            if path.is_file() or path.is_symlink():
                yield path


def _require_same(target: Path, text: str, warehouse: Path) -> None:
    """TG607 for a copy of other tables: it would be lost."""
    try:
        other = json.loads(text)["warehouse"]
    except (ValueError, KeyError, TypeError):
        what = f"{target / MARKER} can't be read, so it is not known what is in {target}"
        raise TidegateError("TG607", what, hint=_OTHER) from None
    if other != str(warehouse.resolve()):
        raise TidegateError("TG607", f"{target} has a copy of other tables, those in {other}", hint=_OTHER)


def _facts(path: Path) -> tuple[int, int] | None:
    """By which two files of one name are known to be the same; None if it is not there."""
    try:
        facts = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return facts.st_size, facts.st_mtime_ns


def _prepare(there: Path) -> None:
    private_folder(there.parent)
    there.unlink(missing_ok=True)


def _remove(folder: Path) -> None:
    if folder.is_symlink():
        folder.unlink()
    elif folder.exists():
        shutil.rmtree(folder)
