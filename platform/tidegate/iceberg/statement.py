"""What Spark writes into a table by itself (MERGE, DELETE, an append), committed on one snapshot and on no other (R2).

Spark puts a statement on the snapshot that is the newest when the statement begins. But its changes, and what its
summary says, follow from an earlier look at the table, and are wrong on top of another writer's commit. So a statement
works on a branch of its own, which begins at the snapshot that it was made for. What it has written becomes the newest
snapshot of the table in a second commit, and only while the table still stands where the branch began.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

from tidegate.iceberg.attempt import TRIES, attempted, overtaken
from tidegate.iceberg.protocol import AnswerLost, Conflict, Stored
from tidegate.iceberg.table_commit import put
from tidegate.jvm.java import java_class
from tidegate.project.catalog_failures import comes_from

#: Expiry removes the branch of a statement whose process has ended, once its newest snapshot is as old as this (ms).
_LONGEST = 86_400_000
#: How the names of these branches begin.
_OWN = "tidegate_"


def forget_broken(jvm: Any, table: Any) -> None:
    """Remove the branches of statements that have lost their manifests, and their newest snapshots. A catalog's client
    may ask for a commit twice: then Spark takes what it has stored on the branch for another one's, removes its
    manifests, and fails. Nobody else reads the branch, but whoever reads all snapshots fails there, too."""
    operations = table.operations()
    known = operations.current()
    made = _without_broken(jvm, table, known).build()
    if not made.changes().isEmpty():
        put(jvm, operations, known, made)


def _without_broken(jvm: Any, table: Any, known: Any) -> Any:
    """A builder of metadata like `known` without these branches."""
    change = _builder(jvm, known)
    snapshots = java_class(jvm, "java.util.ArrayList")()
    for name, ref in dict(known.refs()).items():
        if name.startswith(_OWN) and ref.isBranch():
            snapshot = known.snapshot(ref.snapshotId())
            if not table.io().newInputFile(snapshot.manifestListLocation()).exists():
                change = change.removeRef(name)
                snapshots.add(snapshot)
    return change.removeSnapshots(snapshots) if not snapshots.isEmpty() else change


def _builder(jvm: Any, known: Any) -> Any:
    return java_class(jvm, "org.apache.iceberg.TableMetadata").buildFrom(known)


class StatementBranch:
    """A branch of a table (Iceberg's own object, given anew after each look at the table) for one statement, or for
    several that belong together, begun at the snapshot `base`. No other writer has one of this `name`. Branches that
    have lost their manifests go when it begins. Raises TG502 if others commit all the time."""

    def __init__(self, jvm: Any, table: Any, base: int) -> None:
        self.name, self._base = f"{_OWN}{uuid.uuid4().hex}", base
        for _ in range(TRIES):
            answer = attempted(_Change(jvm, table, self._begun))
            if isinstance(answer, Stored):
                return
            # Its client may have asked twice, or have heard nothing: the catalog knows whether the branch is there.
            table.refresh()
            if table.refs().containsKey(self.name):
                return
            if isinstance(answer, AnswerLost):
                raise answer.error
        raise overtaken(str(table.name()))

    def _begun(self, jvm: Any, table: Any, known: Any) -> Any:
        begin = java_class(jvm, "org.apache.iceberg.SnapshotRef").branchBuilder(self._base)
        return _without_broken(jvm, table, known).setRef(self.name, begin.maxRefAgeMs(_LONGEST).build())

    def of(self, identifier: str) -> str:
        """What the statement calls the table."""
        return f"{identifier}.`branch_{self.name}`"

    def carry_out(self, work: Callable[[], Any]) -> Conflict | None:
        """Do what writes to the branch. A conflict if the catalog has refused it: nobody else writes there, so its
        client has asked twice. The branch is good for nothing then, and the table stands where it stood."""
        try:
            work()
        except Exception as error:
            if not comes_from(error, ("ValidationException", "CommitFailedException")):
                raise
            return Conflict(error)
        return None

    def publish(self, jvm: Any, table: Any) -> Stored | Conflict | AnswerLost:
        """Make what the statement has written the table's newest snapshot. Where it has changed nothing, nothing is
        committed, and the answer is the snapshot at which the branch began."""
        own = int(table.refs().get(self.name).snapshotId())
        if own == self._base:
            # (If that is not answered, the branch goes when it is old.)
            attempted(_Change(jvm, table, self._without))
            return Stored(own)
        newest = table.currentSnapshot()
        descends = java_class(jvm, "org.apache.iceberg.util.SnapshotUtil").isAncestorOf(
            table, own, self._base
        )
        if newest is None or newest.snapshotId() != self._base or not descends:
            return Conflict(None, own)
        return attempted(_Change(jvm, table, self._published, own))

    def _published(self, jvm: Any, table: Any, known: Any) -> Any:
        own = known.ref(self.name).snapshotId()
        return _builder(jvm, known).setBranchSnapshot(own, "main").removeRef(self.name)

    def _without(self, jvm: Any, table: Any, known: Any) -> Any:
        return _builder(jvm, known).removeRef(self.name)


class _Change:
    """For whoever commits it, an update like any other (`attempt.py`). It is committed as it was made or not at all:
    a catalog refuses what was not made of its newest metadata, and here nothing repeats it on others. `of`: what gives
    a builder of the new metadata; `own`: the snapshot that becomes the table's newest, if one does."""

    def __init__(
        self, jvm: Any, table: Any, of: Callable[[Any, Any, Any], Any], own: int | None = None
    ) -> None:
        self._jvm, self._operations, self.own = jvm, table.operations(), own
        self._known = self._operations.current()
        self._made = of(jvm, table, self._known).build()

    def commit(self) -> None:
        put(self._jvm, self._operations, self._known, self._made)
