"""A commit of a table that asks its catalog once (R1, R2).

An update of Iceberg's Java reads what is newest when it begins, and reads back what it has stored when it ends. Each
time that can be the table's whole metadata, which grow with every snapshot. But tidegate commits on the snapshot that
it has looked at, or not at all. So a commit is made in memory of the metadata that the table's handle has, and the
catalog is asked to put it in their place: it refuses if they are not the newest any more. What was stored is known, and
is not read back (`own_metadata.py`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any

from tidegate.iceberg.data_files import in_spec
from tidegate.iceberg.own_metadata import ask_server, is_folder, keep
from tidegate.iceberg.planned import Content
from tidegate.jvm.calls import Calls
from tidegate.jvm.java import java_class, json_mapper, once


class TableCommit:
    """For whoever commits it, an update like any other (`attempt.py`). `transaction`: Iceberg's own, which collects all
    updates of the commit, and writes no metadata. `own`: see `attempt.py`. Without an update nothing is committed.

    Nothing is deleted, whatever the catalog answers: the manifests of an attempt that was refused may be those of a
    commit that is stored, since a client may have asked twice. Otherwise they are orphans."""

    def __init__(self, jvm: Any, table: Any) -> None:
        self._jvm, self._operations = jvm, once(table, "operations")
        calls = Calls(jvm)
        known = calls.call(self._operations, "current")
        # A transaction that replaces a table begins with the metadata that it is given. (What else is special about it
        # belongs to `commitTransaction`.)
        begun = calls.call(
            java_class(jvm, "org.apache.iceberg.Transactions"),
            "replaceTableTransaction",
            once(table, "name"),
            self._operations,
            known,
        )
        self._known, self.transaction = calls.run(known, begun)
        self._rows: Any = None
        self.own: int | None = None

    def with_rows(
        self,
        files: Sequence[Content],
        facts: Mapping[str, str],
        base: int | None,
        replaced: Sequence[bool | None],
        removed: Sequence[Any],
    ) -> TableCommit:
        """With a snapshot, the last update of the commit: see `IcebergTable.append`. `facts`: what its summary says;
        `base`: the snapshot that it builds on."""
        expressions = java_class(self._jvm, "org.apache.iceberg.expressions.Expressions")
        spec, split, fields = self._split() if files else (None, 0, [])
        calls = Calls(self._jvm)
        update = calls.call(self.transaction, "newOverwrite")
        if base is not None:
            calls.call(update, "validateFromSnapshot", base)
        calls.call(update, "conflictDetectionFilter", calls.call(expressions, "alwaysTrue"))
        calls.call(update, "validateNoConflictingData")
        gone = [
            calls.call(expressions, "isNull", "_open")
            if value is None
            else calls.call(expressions, "equal", "_open", value)
            for value in replaced
        ]
        if gone:
            either = reduce(lambda one, other: calls.call(expressions, "or", one, other), gone)
            calls.call(update, "overwriteByRowFilter", either)
        if removed:
            calls.call(update, "validateNoConflictingDeletes")
        for file in removed:
            calls.call(update, "deleteFile", file)
        mapper, parser = json_mapper(self._jvm), java_class(self._jvm, "org.apache.iceberg.ContentFileParser")
        for content in files:
            tree = calls.call(mapper, "readTree", json.dumps(in_spec(content, split, fields)))
            calls.call(update, "addFile", calls.call(parser, "fromJson", tree, spec))
        for key, value in facts.items():
            calls.call(update, "set", key, value)
        (self._rows,) = calls.run(update)
        return self

    def _split(self) -> tuple[Any, int, list[int]]:
        """How the table splits its files: Iceberg's own object, its id, and the ids of its fields."""
        calls = Calls(self._jvm)
        spec = calls.call(self._known, "spec")
        parser = java_class(self._jvm, "org.apache.iceberg.PartitionSpecParser")
        spec, text = calls.run(spec, calls.call(parser, "toJson", spec))
        found = json.loads(text)
        return spec, found["spec-id"], [field["field-id"] for field in found["fields"]]

    def commit(self) -> None:
        calls = Calls(self._jvm)
        if self._rows is not None:
            calls.call(self._rows, "commit")
        made = calls.call(self.transaction, "currentMetadata")
        same = calls.call(made, "equals", self._known)
        newest = calls.call(made, "currentSnapshot")
        made, same, own = calls.run(made, same, calls.call(newest, "snapshotId", needs=newest))
        if self._rows is None and same:
            return
        self.own = own
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
    if not ask_server(jvm, operations, known, made, names):
        calls = Calls(jvm)
        if is_folder(operations):
            # Its metadata have numbers. Of a writer who was asleep the next number may be free again, since metadata
            # that are old are removed: then this fails. If there are newer metadata, the commit does.
            calls.call(operations, "refresh")
        calls.call(operations, "commit", known, made)
        calls.run()
    keep(jvm, operations, known, made)


# -- what a snapshot says ----------------------------------------------------------------------------------------------


def said(text: str) -> tuple[int, dict[str, str], int | None]:
    """What Iceberg's JSON of a snapshot says: its id, its summary, and its parent's id."""
    found = json.loads(text)
    # (There it has its operation, too, which is none of its summary's facts.)
    summary = {key: value for key, value in found.get("summary", {}).items() if key != "operation"}
    return found["snapshot-id"], summary, found.get("parent-snapshot-id")
