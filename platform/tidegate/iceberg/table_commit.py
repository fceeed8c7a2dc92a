"""A commit of a table that asks its catalog once (R1, R2).

An update of Iceberg's Java reads what is newest when it begins, and reads back what it has stored when it ends. Each
time that can be the table's whole metadata, which grow with every snapshot. But tidegate commits on the snapshot that
it has looked at, or not at all. So a commit is made in memory of the metadata that the table's handle has, and the
catalog is asked to put it in their place: it refuses if they are not the newest any more. What was stored is known, and
is not read back (`own_metadata.py`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from typing import Any

from tidegate.iceberg.own_metadata import ask_server, is_folder, keep
from tidegate.jvm.handles import Handle, class_of, method
from tidegate.jvm.java import java_class, json_mapper, once


class TableCommit:
    """For whoever commits it, an update like any other (`attempt.py`). `transaction`: Iceberg's own, which collects all
    updates of the commit, and writes no metadata. `own`: see `attempt.py`. Without an update nothing is committed.

    Nothing is deleted, whatever the catalog answers: the manifests of an attempt that was refused may be those of a
    commit that is stored, since a client may have asked twice. Otherwise they are orphans."""

    def __init__(self, jvm: Any, table: Any) -> None:
        self._jvm, self._operations = jvm, once(table, "operations")
        self._known = self._operations.current()
        # A transaction that replaces a table begins with the metadata that it is given. (What else is special about it
        # belongs to `commitTransaction`.)
        begin = java_class(jvm, "org.apache.iceberg.Transactions").replaceTableTransaction
        self.transaction = begin(once(table, "name"), self._operations, self._known)
        self._rows: Any = None
        self.own: int | None = None

    def with_rows(self, update: Any) -> TableCommit:
        """With an update of the transaction that makes a snapshot, the last one of the commit."""
        self._rows = update
        return self

    def commit(self) -> None:
        if self._rows is not None:
            self._rows.commit()
        made = self.transaction.currentMetadata()
        if self._rows is None and made.equals(self._known):
            return
        self.own = int(made.currentSnapshot().snapshotId())
        put(self._jvm, self._operations, self._known, made)

    def discard(self) -> None:
        """Remove the manifests of a commit that is not stored, and never will be: whoever calls this has looked at the
        table after the catalog had refused the commit."""
        made, io = self.transaction.currentMetadata().currentSnapshot(), self._operations.io()
        paths = java_class(self._jvm, "java.util.ArrayList")([made.manifestListLocation()])
        for manifest in made.allManifests(io):
            if manifest.snapshotId() == self.own:
                paths.add(manifest.path())
        java_class(self._jvm, "org.apache.iceberg.CatalogUtil").deleteFiles(io, paths, "manifest", True)


def put(jvm: Any, operations: Any, known: Any, made: Any, names: bool = False) -> None:
    """Ask the catalog to put these metadata in the place of those that are known, with one request of Iceberg's
    client. Whatever it answers is raised. `names`: what is made follows from the newest snapshot and from all tags,
    also where it changes neither. (Every catalog but a REST server compares everything.)"""
    if is_folder(operations):
        # Its metadata have numbers. Of a writer who was asleep the next number may be free again, since metadata that
        # are old are removed: then this fails. If there are newer metadata, the commit does.
        operations.refresh()
    if not ask_server(jvm, operations, known, made, names):
        operations.commit(known, made)
    keep(jvm, operations, known, made)


# -- what a snapshot says ----------------------------------------------------------------------------------------------


def saying(jvm: Any, update: Any, facts: Mapping[str, str]) -> None:
    """Let the summary of an update's snapshot say these facts, however many there are in a few calls."""
    given = json_mapper(jvm).readValue(json.dumps(dict(facts)), class_of(jvm, "java.util.HashMap"))
    proxies = java_class(jvm, "java.lang.invoke.MethodHandleProxies")
    each = class_of(jvm, "java.util.function.BiConsumer")
    given.forEach(proxies.asInterfaceInstance(each, _setting(jvm).java.bindTo(update)))


@cache
def _setting(jvm: Any) -> Handle:
    """What sets a fact of an update."""
    text = class_of(jvm, "java.lang.String")
    return method(jvm, "org.apache.iceberg.SnapshotUpdate", "set", [text, text])


def said(jvm: Any, snapshot: Any) -> tuple[int, dict[str, str], int | None]:
    """The id of a snapshot, its summary, and its parent's id, in one call."""
    found = json.loads(java_class(jvm, "org.apache.iceberg.SnapshotParser").toJson(snapshot))
    # (There it has its operation, too, which is none of its summary's facts.)
    summary = {key: value for key, value in found.get("summary", {}).items() if key != "operation"}
    return found["snapshot-id"], summary, found.get("parent-snapshot-id")
