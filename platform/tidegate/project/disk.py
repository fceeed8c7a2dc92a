"""Folders that are their owner's alone, files that are there as a whole or not at all, and what disks and file systems
refuse as errors that say what to do."""

from __future__ import annotations

import errno
import os
import re
import tempfile
import time
import uuid
from contextlib import suppress
from pathlib import Path

from tidegate.errors import Location, TidegateError
from tidegate.project.catalog_failures import UNANSWERED, catalog_failure, origins
from tidegate.project.object_store import store_refuses

_KEPT = (
    "what was committed is kept, and nothing is half done: when this is repaired, run the same command again"
)
_FULL = (
    "the disk is full",
    f"free some space there (tidegate upkeep, tidegate cleanup, a larger disk); {_KEPT}",
)
_READ_ONLY = ("the file system is read-only", f"mount it writable, or use another location; {_KEPT}")
_DENIED = ("permission is denied", f"give the user that runs tidegate write permission there; {_KEPT}")
_NO_TEMPORARY = (
    "there is no space for temporary files",
    f"set TMPDIR, and spark.local.dir if spark.conf contains it, to a folder with free space; {_KEPT}",
)
#: Bytes that must fit in there: what Spark needs to start is more, and what it spills is known to nobody.
_LEAST_ROOM = 1 << 20
_UNUSED_SECONDS = 30 * 86_400
_BY_NUMBER = {
    errno.ENOSPC: _FULL,
    errno.EDQUOT: _FULL,
    errno.EFBIG: _FULL,
    errno.EROFS: _READ_ONLY,
    errno.EACCES: _DENIED,
    errno.EPERM: _DENIED,
}
#: In the words of the JVM, of pyarrow and of Python. The first that fits counts.
_BY_WORDS = (
    (
        re.compile(r"No usable temporary directory|Failed to create (?:a temp|local dir)", re.IGNORECASE),
        _NO_TEMPORARY,
    ),
    (re.compile(r"No space left on device|Disk quota exceeded|File too large"), _FULL),
    (re.compile(r"Read-only file system"), _READ_ONLY),
    (re.compile(r"\(Permission denied\)|Errno 13\b|errno: 13\b|AccessDeniedException"), _DENIED),
)
_PLACE = re.compile(r"(?:file:)?(/[^\s:'\",;()\]]+)")


def private_folder(folder: Path) -> Path:
    """The folder, made if it is not there, with those above it that are missing: only their owner enters them."""
    for missing in reversed([one for one in (folder, *folder.parents) if not one.exists()]):
        missing.mkdir(mode=0o700, exist_ok=True)
    return folder


def write_whole(path: Path, content: str | bytes, private: bool = False) -> None:
    """Write a file so that whoever reads it sees what it was or what it is: also where the process is killed, or
    threads write the same file. `private`: only its owner reads and writes it. Raises OSError."""
    fresh = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    try:
        if private:
            fresh.touch(mode=0o600)
        fresh.write_bytes(content.encode() if isinstance(content, str) else content)
        fresh.replace(path)
    finally:
        fresh.unlink(missing_ok=True)


def user_cache(name: str) -> Path | None:
    """The folder tidegate/NAME in the user's cache (`$XDG_CACHE_HOME`, else `~/.cache`), which may not be there yet.
    None for a user without a home folder, as in some containers, and for a relative path, as its specification asks."""
    try:
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    except RuntimeError:
        return None
    return cache / "tidegate" / name if cache.is_absolute() else None


def forget_unused(folder: Path, pattern: str) -> None:
    """Remove files of a cache that were neither written nor used for a month: of a version or a project that is
    gone."""
    before = time.time() - _UNUSED_SECONDS
    for file in folder.glob(pattern):
        with suppress(OSError):
            if file.stat().st_mtime < before:
                file.unlink()


def temporary_space(folder: str | None = None, make: bool = False) -> str:
    """The folder for temporary files, in which there is room: `folder`, else that of TMPDIR, else what the machine has.
    TG623 where there is none, before anything is begun: Python would take another one than TMPDIR without a word.
    `make`: it need not be there yet."""
    folder = folder or os.environ.get("TMPDIR")
    try:
        folder = folder or tempfile.gettempdir()
        if make:
            private_folder(Path(folder))
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(bytes(_LEAST_ROOM))
            file.flush()
    except OSError as error:
        what, todo = _NO_TEMPORARY
        where = f"{folder} can't be used: " if folder else ""
        raise TidegateError("TG623", f"{where}{what}: {error.strerror or error}", hint=todo) from None
    return folder


def trouble(error: BaseException, location: Location | None = None) -> TidegateError | None:
    """TG623 if an exception, or what it comes from, is a disk's or a file system's refusal to write; TG624 if it is an
    object store's answer, or lack of one; TG620 if it is a catalog's that gives no usable answer."""
    for seen in origins(error, lambda one: one.__cause__ or one.__context__):
        if isinstance(seen, TidegateError):
            break
        java = getattr(seen, "java_exception", None)
        text = str(java.toString()) if java is not None else str(seen)
        # Of a commit that may be stored the catalog's answer counts, whatever it came from.
        if UNANSWERED[0] not in text and (store := store_refuses(text)) is not None:
            what, detail, todo = store
            return TidegateError("TG624", f"object storage {what}: {detail}", hint=todo, location=location)
        words = next(((what, found) for pattern, what in _BY_WORDS if (found := pattern.search(text))), None)
        refusal = words[0] if words else None
        if refusal is None and isinstance(seen, OSError):
            refusal = _BY_NUMBER.get(seen.errno or 0)
        if refusal is not None:
            place = getattr(seen, "filename", None) or _named(text, words[1].start() if words else 0)
            where = os.fsdecode(place) if place else "the location of a file that tidegate writes"
            return TidegateError(
                "TG623", f"{where} can't be used: {refusal[0]}", hint=refusal[1], location=location
            )
        if (failure := catalog_failure(java, location)) is not None:
            return failure
    return None


def _named(text: str, at: int) -> str | None:
    """The path that stands last before, else first behind, the words at `at`."""
    before, behind = _PLACE.findall(text[:at].rpartition("\n")[2]), _PLACE.findall(text[at:])
    return before[-1] if before else behind[0] if behind else None
