"""Where stored tables lie while they are used. Iceberg's metadata hold absolute paths, so they are unpacked to where
they were made, one process at a time."""

from __future__ import annotations

import contextlib
import fcntl
import json
import lzma
import os
import shutil
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

#: What is kept of each release.
KEPT = Path(__file__).parent / "releases"


@contextlib.contextmanager
def place(release: str) -> Iterator[Path]:
    """The release's own folder, empty; nobody else on this machine has it meanwhile, and it is removed at the end."""
    folder = made_at(release)
    # Nobody removes the lock: who waits for it would hold another one than who comes later.
    lock = os.open(f"{folder}.lock", os.O_CREAT | os.O_RDONLY, 0o644)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def made_at(release: str) -> Path:
    """The folder that a release's tables were made in, as the metadata of one of them says; for a release of which
    nothing is kept yet, where to make them."""
    kept = KEPT / f"{release}.tar.xz"
    if not kept.exists():
        return Path(tempfile.gettempdir()) / f"tidegate-stored-{release}"
    with tarfile.open(kept) as archive:
        entry = next(e for e in archive if e.name.endswith(".metadata.json"))
        content = archive.extractfile(entry)
        assert content is not None
        location = json.load(content)["location"]
    inside = Path(entry.name).parent.parent.as_posix()
    assert location.endswith(f"/{inside}"), (location, inside)
    return Path(location.removeprefix("file:").removesuffix(f"/{inside}"))


def pack(folder: Path, release: str) -> Path:
    """Keep a folder; the times of its files are part of it, since a source knows its files by them."""
    KEPT.mkdir(exist_ok=True)
    file = KEPT / f"{release}.tar.xz"
    with tarfile.open(file, "w:xz", format=tarfile.PAX_FORMAT, preset=9) as archive:
        archive.add(folder, arcname=".", filter=_anonymous)
    return file


def unpack(release: str, folder: Path) -> None:
    with tarfile.open(KEPT / f"{release}.tar.xz") as archive:
        # (Before Python 3.11.4 there is no filter.)
        archive.extractall(folder, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))


def keep_answers(said: dict[str, Any], release: str) -> None:
    """Keep what a release answered."""
    (KEPT / f"{release}.json.xz").write_bytes(lzma.compress(json.dumps(said).encode(), preset=9))


def kept_answers(release: str) -> dict[str, Any]:
    return json.loads(lzma.decompress((KEPT / f"{release}.json.xz").read_bytes()))


def _anonymous(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    return entry
