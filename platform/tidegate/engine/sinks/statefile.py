"""A small JSON file that is either the old one or the new one, whenever the process is killed."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tidegate.project import Storage


class StateFile:
    """One JSON document at a URI."""

    def __init__(self, storage: Storage, uri: str) -> None:
        self._filesystem, self._path = storage.filesystem(uri)

    def read(self) -> dict[str, Any] | None:
        """The document, or None if there is none."""
        if not self._filesystem.get_file_info(self._path).is_file:
            return None
        with self._filesystem.open_input_stream(self._path) as stream:
            return json.loads(stream.read())

    def write(self, document: dict[str, Any]) -> None:
        """Put the document in the place of the one before."""
        folder = self._path.rpartition("/")[0]
        self._filesystem.create_dir(folder, recursive=True)
        # Written beside and renamed; in object storage both steps are whole already.
        with self._filesystem.open_output_stream(f"{self._path}.new") as stream:
            stream.write(json.dumps(document).encode())
        self._filesystem.move(f"{self._path}.new", self._path)

    def remove(self) -> None:
        """Delete the file, if it is there."""
        if self._filesystem.get_file_info(self._path).is_file:
            self._filesystem.delete_file(self._path)
