"""A small JSON file that is either the old one or the new one, whenever the process is killed."""

from __future__ import annotations

import json
import uuid
from contextlib import suppress
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import pyarrow.fs as pafs

from tidegate.errors import TidegateError
from tidegate.project.object_store import (
    is_object_store,
    make_folder,
    put_whole,
    read_json,
    version_of,
    whole_name,
)
from tidegate.project.owner import Owner, require_owner
from tidegate.store.version import NEWEST, STORAGE_VERSION, require_known

if TYPE_CHECKING:
    from tidegate.project import Storage
    from tidegate.runtime.runner import Conditions


class StateFile:
    """One JSON document at a URI. That of a `sink` says whose it is (X3). `conditions`: it is written only in the place
    of the one that was read or written here last; a machine that does not see this one's lease may have written it
    since (TG502)."""

    def __init__(
        self, storage: Storage, uri: str, sink: str = "", conditions: Conditions | None = None
    ) -> None:
        self._filesystem, self._path = storage.filesystem(uri)
        on_s3 = conditions is not None and is_object_store(self._filesystem)
        self._put = conditions(storage) if conditions is not None and on_s3 else None
        #: That of the document that was read or written last.
        self._version: str | None = None
        self._writer, self._written = uuid.uuid4().hex if self._put is not None else "", 0
        self._owner, self._sink = storage.owner if sink else None, sink

    def read(self) -> dict[str, Any] | None:
        """The document, or None if there is none. Raises TG531 for somebody else's, TG622 for that of a later
        release."""
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
            self._version = None
            return None
        if self._put is not None:
            # Asked before: a version that is too old is refused.
            self._version = version_of(self._filesystem, self._path)
        document: dict[str, Any] = read_json(self._filesystem, self._path)
        if self._sink:
            require_known(f'the position of sink "{self._sink}"', document)
        return document

    def write(self, document: dict[str, Any]) -> None:
        """Put the document in the place of the one before."""
        if self._owner is not None:
            document = document | {"owner": asdict(self._owner), STORAGE_VERSION: str(NEWEST)}
        if self._put is not None:
            # No two of them are the same, see `ConditionalPut`.
            self._written += 1
            document = document | {"writer": f"{self._writer}-{self._written}"}
            version = self._put(self._path, json.dumps(document).encode(), self._version)
            if version is None:
                raise self._overtaken()
            self._version = version
            return
        make_folder(self._filesystem, self._path.rpartition("/")[0])
        if not self._written:
            self.tidy()
        self._written += 1
        put_whole(self._filesystem, self._path, json.dumps(document).encode())

    def tidy(self) -> None:
        """Remove what writers that broke off have left of it; hold the lease. In object storage they leave nothing."""
        if is_object_store(self._filesystem):
            return
        folder, _, name = self._path.rpartition("/")
        for info in self._filesystem.get_file_info(pafs.FileSelector(folder)):
            if whole_name(info.base_name) == name:
                with suppress(FileNotFoundError):
                    self._filesystem.delete_file(info.path)

    def take(self, document: dict[str, Any]) -> None:
        """From here on whoever read the document before can't write it any more. (On a disk that is the lease's.)"""
        if self._put is not None:
            self.write(document)

    def _overtaken(self) -> TidegateError:
        return TidegateError(
            "TG502",
            f'another process has delivered for sink "{self._sink}" in the meantime; its position stays as that one '
            "has written it",
            hint="run again: it continues from there. Let one machine deliver for a sink",
        )

    def remove(self) -> None:
        """Delete the file, if it is there."""
        if self._filesystem.get_file_info(self._path).is_file:
            self._filesystem.delete_file(self._path)
