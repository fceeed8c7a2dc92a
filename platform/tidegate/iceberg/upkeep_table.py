"""What keeps one Iceberg table small: expiry, compaction, fewer manifests, orphan files. Nothing here changes a row.

None of it disturbs a writer. A stream's commits are fenced against new data (`commit.py`), and a rewrite adds none: it
REPLACEs files. What reads our state looks for the newest snapshot that tidegate wrote, so that one is never expired.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tidegate.iceberg.commit import IcebergTable
from tidegate.jvm.spark import active

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Younger snapshots stay, however many there are: a tick or a query may be reading one of them.
GUARD_SECONDS = 600
#: From this many small files of one partition on they are put together.
FEW_FILES = 5
#: Iceberg keeps column bounds of so many columns by itself; the system's columns come last.
_MANY_COLUMNS = 80
_CONFLICTS = ("ValidationException", "CommitFailedException", "CommitStateUnknownException")


@dataclass(frozen=True)
class Shape:
    """A table's metadata in figures. `snapshots`: (timestamp in ms, whether by tidegate, summary), oldest first,
    without those that a tag keeps."""

    snapshots: tuple[tuple[int, bool, dict[str, str]], ...]
    properties: dict[str, str]

    @classmethod
    def of(cls, table: IcebergTable) -> Shape:
        """As it is now, read in one call: a Java object costs a call for every field."""
        table.current()
        java = table.java
        parser = java_class(table, "org.apache.iceberg.TableMetadataParser")
        metadata = json.loads(parser.toJson(java.operations().current()))
        tagged = {r["snapshot-id"] for n, r in (metadata.get("refs") or {}).items() if n != "main"}
        kept = [s for s in metadata.get("snapshots") or [] if s["snapshot-id"] not in tagged]
        found = sorted(kept, key=lambda s: s["timestamp-ms"])
        return cls(
            tuple((s["timestamp-ms"], _ours(s["summary"]), s["summary"]) for s in found),
            metadata.get("properties") or {},
        )

    @property
    def files(self) -> int:
        """Data files of the newest snapshot."""
        return self._total("total-data-files")

    @property
    def bytes(self) -> int:
        """Their size."""
        return self._total("total-files-size")

    def _total(self, key: str) -> int:
        return int(self.snapshots[-1][2].get(key) or 0) if self.snapshots else 0

    def new_files(self, now: float, settle: float) -> int:
        """Data files that the next compaction may take, and the last one could not: what it is about has rested for
        `settle` seconds."""
        replaced = (at for at, _, s in reversed(self.snapshots) if s.get("operation") == "replace")
        since, until = next(replaced, 0) - settle * 1000, (now - settle) * 1000
        count = 0
        for at, _, summary in self.snapshots:
            if since < at <= until and summary.get("operation") != "replace":
                count += int(summary.get("added-data-files") or 0)
                count -= int(summary.get("deleted-data-files") or 0)
        return max(count, 0)

    def bound(self, now: float, keep: float, most: int | None, guard: float = GUARD_SECONDS) -> int | None:
        """Snapshots older than this (ms) can go; None: none. Never the newest that tidegate wrote."""
        newest = next((at for at, ours, _ in reversed(self.snapshots) if ours), None)
        if newest is None:
            return None
        bound = int((now - keep) * 1000)
        if most is not None and len(self.snapshots) > most:
            bound = max(bound, min(self.snapshots[-most][0], int((now - guard) * 1000)))
        return min(bound, newest)

    def expirable(self, bound: int | None) -> int:
        """How many snapshots are older."""
        return 0 if bound is None else sum(1 for at, _, _ in self.snapshots if at < bound)

    def last_before(self, key: str, before: float) -> int | None:
        """The newest number `key` (`tidegate.epoch`, `tidegate.tick`) that was committed by `before` (seconds)."""
        marks = (int(s[key]) for at, _, s in reversed(self.snapshots) if key in s and at <= before * 1000)
        return next(marks, None)


def java_class(table: IcebergTable, name: str) -> Any:
    """A class of the JVM that the table lives in."""
    found = table._jvm
    for part in name.split("."):
        found = getattr(found, part)
    return found


def expire(table: IcebergTable, bound: int | None, retain_last: int = 1) -> None:
    """Expire the snapshots older than `bound` (ms, `Shape.bound`) except for the newest `retain_last`, and delete the
    files that they alone held."""
    if bound is not None:
        table.java.expireSnapshots().expireOlderThan(bound).retainLast(retain_last).commit()
        table.current()


def compact(
    spark: SparkSession,
    table: IcebergTable,
    where: Any = None,
    target_bytes: int | None = None,
    least_files: int = FEW_FILES,
    properties: dict[str, str] | None = None,
) -> tuple[int, int]:
    """Put small files of a partition together, and rewrite those with rows marked as deleted: how many files went, and
    how many came. `where`: Iceberg's expression that a file must be able to match. Raises what Iceberg raises if files
    went meanwhile (`is_conflict`)."""
    with _actions(spark, table) as actions:
        rewrite = actions.rewriteDataFiles(table.java).binPack().option("min-input-files", str(least_files))
        rewrite.option("delete-file-threshold", "1")
        if target_bytes is not None:
            rewrite.option("target-file-size-bytes", str(target_bytes))
        if where is not None:
            rewrite.filter(where)
        for key, value in (properties or {}).items():
            rewrite.snapshotProperty(key, value)
        done = rewrite.execute()
    table.current()
    return done.rewrittenDataFilesCount(), done.addedDataFilesCount()


@contextmanager
def _actions(spark: SparkSession, table: IcebergTable) -> Iterator[Any]:
    """Iceberg's actions. They find their catalog by the active session of the thread."""
    with active(spark):
        yield java_class(table, "org.apache.iceberg.spark.actions.SparkActions").get(spark._jsparkSession)


def manifests(table: IcebergTable) -> int:
    """How many manifests the newest snapshot has."""
    current = table.java.currentSnapshot()
    return 0 if current is None else current.allManifests(table.java.io()).size()


def merge_manifests(spark: SparkSession, table: IcebergTable) -> None:
    """Write the manifests anew, few and sorted by partition."""
    with _actions(spark, table) as actions:
        actions.rewriteManifests(table.java).execute()
    table.current()


def remove_orphans(spark: SparkSession, table: IcebergTable, older_than_ms: int) -> int:
    """Delete files in the table's folders that no snapshot knows and that are older: what killed tasks left. A batch
    that is judged but not committed yet has such files, too: that is what the age is for."""
    removed = 0
    with _actions(spark, table) as actions:
        for folder in ("data", "metadata"):
            action = actions.deleteOrphanFiles(table.java).location(f"{table.location}/{folder}")
            # The file system that wrote the files lists them, too: on object storage Spark itself may know none.
            found = action.usePrefixListing(True).olderThan(older_than_ms).execute()
            removed += sum(1 for _ in found.orphanFileLocations())
    return removed


def keep_bounds(table: IcebergTable, columns: Sequence[str]) -> None:
    """Have rewritten files of a wide table keep the bounds by which slices skip files."""
    if table.java.schema().columns().size() < _MANY_COLUMNS:
        return
    wanted = {f"write.metadata.metrics.column.{name}": "full" for name in columns}
    missing = {key: value for key, value in wanted.items() if table.property(key) != value}
    if missing:
        table.set_properties(missing)
        table.current()


def is_conflict(error: Exception) -> bool:
    """Whether somebody else's commit was in the way: another try starts from what is there now."""
    java = getattr(error, "java_exception", None)
    while java is not None:
        if java.getClass().getSimpleName() in _CONFLICTS:
            return True
        java = java.getCause()
    return False


def _ours(summary: dict[str, str]) -> bool:
    return any(key.startswith("tidegate.") for key in summary)
