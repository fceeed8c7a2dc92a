"""What Spark writes into a table by itself (MERGE, DELETE, an append), committed on one snapshot and on no other (R2).

Spark puts a statement on the snapshot that is the newest when the statement begins. But its changes, and what its
summary says, follow from an earlier look at the table, and are wrong on top of another writer's commit. So a statement
works on a branch of its own, which begins at the snapshot that it was made for. What it has written becomes the newest
snapshot of the table in a second commit, and only while the table still stands where the branch began.
"""

from __future__ import annotations

import uuid
from typing import Any

from tidegate.iceberg.attempt import attempted
from tidegate.iceberg.protocol import AnswerLost, Conflict, Stored
from tidegate.iceberg.table_commit import put
from tidegate.jvm.java import java_class

#: Expiry removes the branch of a statement whose process has ended, once its newest snapshot is as old as this (ms).
_LONGEST = 86_400_000
#: How the names of these branches begin.
_OWN = "tidegate_"


def forget_broken(jvm: Any, table: Any) -> None:
    """Remove the branches of statements that have lost their manifests, and their newest snapshots. A catalog's client
    may ask for a commit twice: then Spark takes what it has stored on the branch for another one's, removes its
    manifests, and fails. Nobody else reads the branch, but whoever reads all snapshots fails there, too."""
    names, snapshots = [], java_class(jvm, "java.util.ArrayList")()
    for name, ref in dict(table.refs()).items():
        if name.startswith(_OWN) and ref.isBranch():
            snapshot = table.snapshot(ref.snapshotId())
            if not table.io().newInputFile(snapshot.manifestListLocation()).exists():
                names.append(name)
                snapshots.add(snapshot)
    if names:
        operations = table.operations()
        known = operations.current()
        change = java_class(jvm, "org.apache.iceberg.TableMetadata").buildFrom(known)
        for name in names:
            change = change.removeRef(name)
        put(jvm, operations, known, change.removeSnapshots(snapshots).build())


class StatementBranch:
    """A branch of a table (Iceberg's own object, given anew after each look at the table) for one statement, or for
    several that belong together, begun at the snapshot `base`. No other writer has one of this `name`."""

    def __init__(self, table: Any, base: int) -> None:
        self.name, self._base = f"{_OWN}{uuid.uuid4().hex}", base
        change = table.manageSnapshots().createBranch(self.name, base)
        change.setMaxRefAgeMs(self.name, _LONGEST).commit()

    def of(self, identifier: str) -> str:
        """What the statement calls the table."""
        return f"{identifier}.`branch_{self.name}`"

    def publish(self, jvm: Any, table: Any) -> Stored | Conflict | AnswerLost:
        """Make what the statement has written the table's newest snapshot. Where it has changed nothing, nothing is
        committed, and the answer is the snapshot at which the branch began."""
        own = int(table.refs().get(self.name).snapshotId())
        if own == self._base:
            table.manageSnapshots().removeBranch(self.name).commit()
            return Stored(own)
        newest = table.currentSnapshot()
        descends = java_class(jvm, "org.apache.iceberg.util.SnapshotUtil").isAncestorOf(
            table, own, self._base
        )
        if newest is None or newest.snapshotId() != self._base or not descends:
            return Conflict(None, own)
        return attempted(_Publication(jvm, table, self.name, own))


class _Publication:
    """For whoever commits it, an update like any other (`attempt.py`). It is committed as it was made or not at all:
    a catalog refuses what was not made of its newest metadata, and here nothing repeats it on others."""

    def __init__(self, jvm: Any, table: Any, branch: str, own: int) -> None:
        self._jvm, self._operations, self.own = jvm, table.operations(), own
        self._known = self._operations.current()
        change = java_class(jvm, "org.apache.iceberg.TableMetadata").buildFrom(self._known)
        self._change = change.setBranchSnapshot(own, "main").removeRef(branch)

    def commit(self) -> None:
        put(self._jvm, self._operations, self._known, self._change.build())
