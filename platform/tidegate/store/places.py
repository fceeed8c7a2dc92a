"""Folders of tables that have another name now.

A renamed table stays in its folder, which has its former name. So whatever is given this name later gets a folder of
its own: upkeep and DROP remove what they find in the folder of a table. The record stays for ever, since a catalog
would put a new table into that folder at any time.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING
from uuid import uuid4

from tidegate.project.object_store import make_folder, put_whole, read_json

if TYPE_CHECKING:
    from tidegate.project import Storage

#: Table property: the names that a table had before, oldest first (JSON).
FORMER = "tidegate.former-names"


def former_names(text: str | None) -> list[str]:
    """What the property `FORMER` says."""
    found: list[str] = json.loads(text or "[]")
    return found


def record(namespace: str, name: str) -> str:
    """The file that says it, as seen from the warehouse."""
    return f"_renamed/{namespace}/{name}.json"


def leave(storage: Storage, namespace: str, name: str, location: str) -> None:
    """Record that the table at `location`, a URI, will have another name than this one."""
    filesystem, path = storage.filesystem(_record(storage, namespace, name))
    make_folder(filesystem, path.rpartition("/")[0])
    put_whole(filesystem, path, json.dumps({"location": location.rstrip("/")}).encode())


def is_left(storage: Storage, namespace: str, name: str) -> bool:
    """Whether a renamed table had this name, and may still be in its folder."""
    return _left(storage, namespace, name) is not None


def new_place(storage: Storage, namespace: str, name: str) -> str | None:
    """Where a new table of this name is to be, a URI; None where the catalog decides."""
    left = _left(storage, namespace, name)
    # (What is left may have a folder of an earlier name yet.)
    return None if left is None else f"{left.rpartition('/')[0]}/{name}-{uuid4().hex[:8]}"


def _left(storage: Storage, namespace: str, name: str) -> str | None:
    if storage.has_folder_catalog:
        return None  # there tables are not renamed
    filesystem, path = storage.filesystem(_record(storage, namespace, name))
    if not filesystem.get_file_info(path).is_file:
        return None
    return str(read_json(filesystem, path)["location"])


def _record(storage: Storage, namespace: str, name: str) -> str:
    return f"{storage.warehouse}/{record(namespace, name)}"
