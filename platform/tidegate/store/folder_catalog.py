"""A catalog that is a folder: a table's folder has numbered files of metadata, and a hint which one is the newest."""

from __future__ import annotations

import contextlib
import re
from pathlib import Path

from tidegate.errors import TidegateError
from tidegate.store.once import location
from tidegate.store.places import record

#: What `tidegate catalog migrate` moves such a catalog to. In the folder of the warehouse, so that whoever shares or
#: copies that has the catalog, too.
SUCCESSOR = "catalog.db"
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


def newest_in_folder(folder: Path, namespace: str, name: str) -> str | None:
    """Of a warehouse whose catalog is its folder. TG620 for a table that was moved and goes on in its new catalog: what
    is committed to the folder would be lost."""
    metadata, moved = folder / namespace / name / "metadata", folder / SUCCESSOR
    elsewhere = location(moved, namespace, name)
    if elsewhere is None and (folder / record(namespace, name)).exists():
        elsewhere = ""  # it has another name there
    if elsewhere is not None and not is_of_folder(metadata, elsewhere):
        raise TidegateError(
            "TG620",
            f'"{name}" is in the catalog {moved}, which has its newest state, and not in the folder {folder}',
            hint=f"write this catalog into the environment's file, below warehouse: catalog: {{type: jdbc, uri: \""
            f'jdbc:sqlite:{moved}"}}',
        )
    return current_file(metadata)


def newest_in_sqlite(file: Path, folder: Path | None, namespace: str, name: str) -> str | None:
    """What a catalog in SQLite says. TG620 for a table that the warehouse's folder has as a catalog, and has newer: a
    run would begin it again, and read everything anew. `folder`: None if the warehouse is not on this machine."""
    found = location(file, namespace, name)
    if folder is None:
        return found
    metadata = folder / namespace / name / "metadata"
    if found is None and (folder / record(namespace, name)).exists():
        return None  # it has another name now
    if found is None or is_of_folder(metadata, found):
        left = current_file(metadata)
        if left is not None and found != f"file://{left}" and Path(left).is_file():
            raise TidegateError(
                "TG620",
                f'"{name}" is a table of the folder {folder}, and the catalog {file} does not have its newest state',
                hint="tidegate catalog migrate moves the folder's tables; or remove what is left of the table",
            )
    return found
