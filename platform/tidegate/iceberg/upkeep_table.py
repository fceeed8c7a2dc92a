"""Upkeep of one table by Iceberg's Java: expiry, compaction, manifests, orphan files, files that go as a whole."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from tidegate.iceberg.attempt import TRIES, overtaken
from tidegate.iceberg.commit import IcebergTable
from tidegate.iceberg.shape import FEW_FILES, Rested, TableShape
from tidegate.iceberg.statement import forget_broken
from tidegate.iceberg.table_commit import TableCommit, put
from tidegate.jvm.exit_hooks import remove_ended_hooks
from tidegate.jvm.java import java_class
from tidegate.jvm.within import active
from tidegate.project.catalog_failures import UNANSWERED, comes_from

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tidegate.iceberg.protocol import Snapshot

#: Iceberg keeps column bounds of so many columns by itself; the system's columns come last.
_MANY_COLUMNS = 80
_SETS = "org.apache.iceberg.relocated.com.google.common.collect.Sets"
_CONFLICTS = ("ValidationException", "CommitFailedException", "CommitStateUnknownException")


class SparkUpkeep:
    """Upkeep of one table (`tables.Upkeep`)."""

    def __init__(self, spark: SparkSession, table: IcebergTable) -> None:
        self.table, self._spark = table, spark

    def shape(self) -> TableShape:
        """Read in one call: a Java object costs a call for every field."""
        self.table.current()
        parser = self._class("org.apache.iceberg.TableMetadataParser")
        return TableShape.of(json.loads(parser.toJson(self.table.java.operations().current())))

    def manifests(self) -> int:
        java = self.table.java
        current = java.currentSnapshot()
        return 0 if current is None else int(current.allManifests(java.io()).size())

    def expire(self, bound: int, retain_last: int = 1) -> None:
        self.table.current()
        # It reads the manifests of every snapshot that stays.
        forget_broken(self._spark._jvm, self.table.java)
        for left in reversed(range(TRIES)):
            operations = self.table.java.operations()
            known = operations.current()
            made = self._expired(known, bound, retain_last, False)
            if made.changes().isEmpty():
                break
            try:
                put(self._spark._jvm, operations, known, made, names=True)
            except Exception as error:
                # Its client may have asked twice, or have heard nothing. Iceberg would leave the files then.
                self.table.current()
                if not comes_from(error, (*_CONFLICTS, *UNANSWERED)):
                    raise
                if not self._lacks(known, made):
                    if left and self.is_conflict(error):
                        continue
                    raise
            self._expired(known, bound, retain_last, True)
            break
        self.table.current()

    def _expired(self, known: Any, bound: int, retain_last: int, files: bool) -> Any:
        """These metadata without what has expired, in memory. `files`: remove the files that only that has named."""
        begin = self._class("org.apache.iceberg.Transactions").replaceTableTransaction
        java = self.table.java
        operations = begin(java.name(), java.operations(), known).table().operations()
        update = self._class("org.apache.iceberg.BaseTable")(operations, java.name()).expireSnapshots()
        update.expireOlderThan(bound).retainLast(retain_last).cleanExpiredFiles(files).commit()
        return operations.current()

    def _lacks(self, known: Any, made: Any) -> bool:
        """Whether the table has none of the snapshots that `made` has no more."""
        stay = {snapshot.snapshotId() for snapshot in made.snapshots()}
        gone = {snapshot.snapshotId() for snapshot in known.snapshots()} - stay
        return not gone & self.table.snapshot_ids()

    def compact(
        self,
        rested: Rested | None = None,
        target_bytes: int | None = None,
        least_files: int = FEW_FILES,
        bounds: Sequence[str] = (),
    ) -> tuple[int, int]:
        self._keep_bounds(bounds)
        commit = self._begun()
        with self._actions() as actions:
            rewrite = actions.rewriteDataFiles(self._inside(commit)).binPack()
            rewrite.option("min-input-files", str(least_files)).option("delete-file-threshold", "1")
            if target_bytes is not None:
                rewrite.option("target-file-size-bytes", str(target_bytes))
            if rested is not None:
                rewrite.filter(self._expression(rested))
            done = rewrite.execute()
        remove_ended_hooks(self._spark._jvm)
        self._put_rewritten(commit)
        return done.rewrittenDataFilesCount(), done.addedDataFilesCount()

    def _put_rewritten(self, commit: TableCommit) -> None:
        """Commit rewritten files, on top of what others have committed meanwhile, if the files before are there."""
        made = commit.transaction.currentMetadata().currentSnapshot()
        start, files = self.table.java.currentSnapshot(), list[Any]()
        for left in reversed(range(TRIES)):
            try:
                commit.commit()
                break
            except Exception as error:
                if not files:
                    io, set_of = self.table.java.io(), self._class(_SETS).newHashSet
                    files = [set_of(made.removedDataFiles(io)), set_of(made.addedDataFiles(io))]
                if self._is_stored(commit, error):
                    break
                if not left or not self.is_conflict(error):
                    raise
            commit = self._begun()
            update = self._inside(commit).newRewrite().validateFromSnapshot(start.snapshotId())
            update.rewriteFiles(*files, start.sequenceNumber()).commit()
        self.table.current()

    def _is_stored(self, commit: TableCommit, error: Exception) -> bool:
        """Whether a commit is stored of which the catalog has said that it is not, or has not said whether: its client
        may have asked twice. If it was refused, its manifests go."""
        if commit.own is None or not comes_from(error, (*_CONFLICTS, *UNANSWERED)):
            return False
        self.table.current()
        if self.table.java.snapshot(commit.own) is not None:
            return True
        if comes_from(error, ("CommitFailedException",)):
            commit.discard()
        return False

    def _keep_bounds(self, columns: Sequence[str]) -> None:
        """Have rewritten files of a wide table keep these bounds."""
        if self.table.java.schema().columns().size() < _MANY_COLUMNS:
            return
        wanted = {f"write.metadata.metrics.column.{name}": "full" for name in columns}
        missing = {key: value for key, value in wanted.items() if self.table.property(key) != value}
        if missing:
            self.table.set_properties(missing)
            self.table.current()

    def _expression(self, rested: Rested) -> Any:
        """What a file must be able to match."""
        expressions = self._class("org.apache.iceberg.expressions.Expressions")
        both, either = getattr(expressions, "and"), getattr(expressions, "or")
        where = expressions.lessThanOrEqual(rested.number, rested.upto)
        if rested.open is None:
            return where
        among = expressions.alwaysFalse()
        for value in rested.open:
            one = expressions.isNull("_open") if value is None else expressions.equal("_open", value)
            among = either(among, one)
        return both(where, among)

    def merge_manifests(self) -> None:
        """They are sorted by partition."""
        with self._one_commit() as table, self._actions() as actions:
            actions.rewriteManifests(table).execute()

    def remove_orphans(self, older_than_ms: int) -> int:
        removed = 0
        # What was committed since this handle was read is no orphan.
        self.table.current()
        with self._actions() as actions:
            for folder in ("data", "metadata"):
                action = actions.deleteOrphanFiles(self.table.java).location(
                    f"{self.table.location}/{folder}"
                )
                # The file system that wrote the files lists them, too: on object storage Spark itself may know none.
                found = action.usePrefixListing(True).olderThan(older_than_ms).execute()
                removed += sum(1 for _ in found.orphanFileLocations())
        return removed

    def forget_names(self) -> int:
        names = [name for name in self.table.java.refs().keySet() if name != "main"]
        for name in names:
            manage, ref = self.table.java.manageSnapshots(), self.table.java.refs().get(name)
            (manage.removeTag if ref.isTag() else manage.removeBranch)(name).commit()
        self.table.current()
        return len(names)

    def forget_removed(self, base: Snapshot) -> None:
        """Iceberg's action leaves a single manifest as it is; this asks for each of them. A manifest of the commit that
        has removed a file keeps the bounds of its columns."""
        if self.table.current().id != base.id:
            raise overtaken(self.table.identifier)
        if base.id is None:
            return
        one_of_all = self._class("com.google.common.base.Functions").constant("all")
        # (A commit is refused where others have committed since its table was read.)
        with self._one_commit() as table:
            current = table.currentSnapshot()
            if current is None or int(current.snapshotId()) != base.id:
                raise overtaken(self.table.identifier)
            rewrite = table.rewriteManifests().clusterBy(one_of_all)
            for key, value in base.facts.items():
                rewrite = rewrite.set(key, value)
            rewrite.commit()

    def data_files(self, number: str) -> DataFrame:
        from pyspark.sql import functions as F

        fields = [f"partition.`{field.name()}`" for field in self.table.java.spec().fields()]
        split, day = (F.col(name) for name in fields) if len(fields) > 1 else (F.col(fields[0]), F.lit(None))
        files = self._spark.table(f"{self.table.identifier}.files").where(F.col("content") == 0)
        newest = F.col(f"readable_metrics.`{number}`.upper_bound")
        return files.select(
            "file_path",
            "record_count",
            split.alias("split"),
            day.cast("date").alias("day"),
            newest.alias("newest"),
        )

    def remove_files(self, paths: Sequence[str], properties: Mapping[str, str]) -> None:
        text = self._class("java.lang.StringBuilder")
        with self._one_commit() as table:
            delete = table.newDelete()
            delete.validateFilesExist()
            for path in paths:
                # Not as a String: Py4J would then choose Iceberg's protected method of this name, which removes the
                # file itself and leaves it in the table.
                delete.deleteFile(text(path))
            delete.commit()
            if properties:
                update = table.updateProperties()
                for key, value in properties.items():
                    update = update.set(key, value)
                update.commit()

    def is_conflict(self, error: Exception) -> bool:
        return comes_from(error, _CONFLICTS)

    @contextmanager
    def _one_commit(self) -> Iterator[Any]:
        """The table, for updates that are one commit when the block has ended (`TableCommit`). An update by itself, to
        which a catalog's client has asked twice, would take what it has stored for another one's, and remove the
        manifests of the table's newest snapshot."""
        commit = self._begun()
        yield self._inside(commit)
        try:
            commit.commit()
        except Exception as error:
            if not self._is_stored(commit, error):
                raise
        self.table.current()

    def _begun(self) -> TableCommit:
        """A commit on top of the newest state."""
        self.table.current()
        return TableCommit(self._spark._jvm, self.table.java)

    def _inside(self, commit: TableCommit) -> Any:
        """The table as it is in a commit that is not made yet. (A table of a transaction can't be scanned.)"""
        operations = commit.transaction.table().operations()
        return self._class("org.apache.iceberg.BaseTable")(operations, self.table.java.name())

    @contextmanager
    def _actions(self) -> Iterator[Any]:
        """Iceberg's actions. They find their catalog by the active session of the thread."""
        with active(self._spark):
            yield self._class("org.apache.iceberg.spark.actions.SparkActions").get(self._spark._jsparkSession)

    def _class(self, name: str) -> Any:
        return java_class(self._spark._jvm, name)
