"""A catalog that is a folder: a table's folder has numbered files of metadata, and a hint which one is the newest."""

from __future__ import annotations

import contextlib
import re
from pathlib import Path

_VERSION = re.compile(r"^v(\d+)(?:\.gz)?\.metadata\.json(?:\.gz)?$")


def is_of_folder(folder: Path, uri: str) -> bool:
    """Whether a metadata file is a version that a catalog which is a folder has written into this one."""
    path = Path(uri.removeprefix("file://"))
    return path.parent == folder and _VERSION.match(path.name) is not None


def current_file(folder: Path) -> str | None:
    """In a catalog that is a folder. The hint may lag behind a commit."""
    start = 0
    with contextlib.suppress(FileNotFoundError, ValueError):
        start = int((folder / "version-hint.text").read_text().strip())
    if start == 0:
        # No usable hint (its writer was killed): the highest number is the newest commit.
        names = (p.name for p in folder.glob("*.metadata.json*")) if folder.is_dir() else iter(())
        start = max((int(m.group(1)) for n in names if (m := _VERSION.match(n))), default=0)
        if start == 0:
            return None
    current = _version_file(folder, start)
    while (newer := _version_file(folder, start + 1)) is not None:
        current, start = newer, start + 1
    return str(current or folder / f"v{start}.metadata.json")


def _version_file(folder: Path, version: int) -> Path | None:
    for name in (f"v{version}.metadata.json", f"v{version}.gz.metadata.json", f"v{version}.metadata.json.gz"):
        if (folder / name).is_file():
            return folder / name
    return None
