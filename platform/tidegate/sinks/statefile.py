"""A small JSON file that is either the old one or the new one, whenever the process is killed."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from tidegate.iceberg.commit import require_owner
from tidegate.project.object_store import make_folder, put_whole, read_whole
from tidegate.project.owner import Owner

if TYPE_CHECKING:
    from tidegate.project import Storage


class StateFile:
    """One JSON document at a URI. That of a `sink` says whose it is (X3)."""

    def __init__(self, storage: Storage, uri: str, sink: str = "") -> None:
        self._filesystem, self._path = storage.filesystem(uri)
        self._owner, self._sink = storage.owner if sink else None, sink

    def read(self) -> dict[str, Any] | None:
        """The document, or None if there is none. Raises TG531 for somebody else's."""
        document = self._load()
        if document is not None and self._owner is not None:
            require_owner(self._sink, self._owner, Owner.of(document.get("owner")))
        return document

    def owner(self) -> tuple[bool, Owner | None]:
        """Whether there is a document, and whose it is; None: nobody's."""
        document = self._load()
        return document is not None, None if document is None else Owner.of(document.get("owner"))

    def adopt(self) -> None:
        """Make it the storage's owner's."""
        self.write(self._load() or {})

    def _load(self) -> dict[str, Any] | None:
        if not self._filesystem.get_file_info(self._path).is_file:
            return None
        document: dict[str, Any] = json.loads(read_whole(self._filesystem, self._path))
        return document

    def write(self, document: dict[str, Any]) -> None:
        """Put the document in the place of the one before."""
        if self._owner is not None:
            document = document | {"owner": asdict(self._owner)}
        make_folder(self._filesystem, self._path.rpartition("/")[0])
        put_whole(self._filesystem, self._path, f"{self._path}.new", json.dumps(document).encode())

    def remove(self) -> None:
        """Delete the file, if it is there."""
        if self._filesystem.get_file_info(self._path).is_file:
            self._filesystem.delete_file(self._path)
