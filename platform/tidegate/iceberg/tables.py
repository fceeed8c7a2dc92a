"""The port to stored tables: what the engine asks of Iceberg, and all that it asks.

Users' runs go through `SparkTables`, which asks Iceberg's Java in the driver's JVM. The tests have a second
implementation, on pyiceberg, for the runner without a JVM; one conformance suite holds both to the same answers.
Upkeep (compaction, expiry, orphan files) and sinks into Iceberg need actions that only Iceberg's Java has, and take an
`IcebergTable`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from tidegate.iceberg.commit import IcebergTable
from tidegate.iceberg.layout import NewTable
from tidegate.iceberg.merge import Merge
from tidegate.iceberg.protocol import Snapshot

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tidegate.project import Storage
    from tidegate.project.owner import Owner
    from tidegate.tasks.writer import Target


class Table(Protocol):
    """One stored table, for commits and for what its metadata says. Commits are fenced: one on top of a snapshot that
    is not the newest any more fails with TG502 (R2)."""

    identifier: str

    @property
    def location(self) -> str:
        """URI of its folder."""

    @property
    def uuid(self) -> str:
        """Of this table and no other, not even of one of the same name that is made later."""

    def properties(self) -> dict[str, str]:
        """All table properties, as of the last `current()`."""

    def property(self, key: str) -> str | None:
        """One of them, or None."""

    def set_properties(self, given: Mapping[str, str]) -> None:
        """Set these in a commit of their own."""

    def current(self) -> Snapshot:
        """The current snapshot, read anew. Raises TG531 for a writer who is not the owner (X3)."""

    def refresh(self) -> None:
        """Read it anew, whoever owns it."""

    def at(self, snapshot: int) -> Snapshot:
        """An earlier snapshot of it."""

    def summaries(self) -> list[dict[str, str]]:
        """The summary of every snapshot that is kept, as of the last `current()`."""

    def snapshot_ids(self) -> set[int]:
        """The snapshots that are kept, as of the last `current()`."""

    def totals(self) -> dict[str, str]:
        """The summary of the newest snapshot, whoever made it, as of the last `current()`; empty without one."""

    def tag(self, name: str) -> None:
        """Keep the current snapshot, if there is one, as `VERSION AS OF name`."""

    def target(
        self,
        storage: Storage,
        split: str = "",
        day: str | None = None,
        bounds: tuple[str, ...] = (),
        reading: bool = False,
    ) -> Target:
        """How tasks write files for this table; or, `reading`, where its files are."""

    def files(
        self, snapshot: int, column: str, field_id: int, low: int | None, high: int | None
    ) -> list[dict[str, Any]] | None:
        """Of the data files that may hold on-time rows with low <= `column` < high (ticks; None: no bound): `path`,
        `rows`, and the `least` and `greatest` value of the column, None if that is not known. None if rows of one of
        them are deleted beside it."""

    def files_named(self, paths: set[str], snapshot: int, low: int, high: int) -> list[Any]:
        """The data files of closed rows with these paths, in a snapshot, for `append(removed=…)`."""

    def files_among(self, paths: set[str], snapshot: int) -> list[Any]:
        """As `files_named`, of the rows that are nobody's result."""

    def append(
        self,
        files: list[dict[str, Any]],
        target: Target | None,
        summary: dict[str, str],
        base: Snapshot,
        replaced: Sequence[bool | None] = (),
        removed: Sequence[Any] = (),
    ) -> int:
        """Commit `files` on top of `base`; returns the new snapshot's id. See `IcebergTable.append`."""

    def merge_rows(self, merge: Merge) -> None:
        """Change rows by those of a frame, in one commit; none where nothing matches."""

    def delete_rows(self, where: str, summary: Mapping[str, str]) -> None:
        """Delete the rows for which a condition in SQL holds, in one commit at most. Whole files go without being read,
        and such a commit may say nothing of `summary`; so may one where there was nothing to delete."""


class Tables(Protocol):
    """The stored tables that one session of Spark reads and writes, by their identifiers."""

    spark: SparkSession

    def exists(self, identifier: str) -> bool:
        """Whether there is such a table."""

    def open(self, identifier: str, owner: Owner | None = None) -> Table:
        """A table. `owner`: who writes; None where it is only read, or the caller has asked (`runtime/owners.py`).
        Raises TG622 for one of a later release (E8)."""

    def create_table(self, table: NewTable) -> None:
        """Make a table unless it is there."""

    def add_stored_column(self, identifier: str, column: str, kind: str) -> None:
        """Give a table a column (or a field of one, by its path), of a Spark type; its rows read NULL there."""

    def drop_table(self, identifier: str) -> None:
        """Remove a table with its files, if it is there."""

    def replace_table(
        self,
        identifier: str,
        rows: DataFrame,
        split: str,
        day: str | None,
        properties: Mapping[str, str],
        summary: Mapping[str, str],
    ) -> None:
        """Give a table these rows, their columns, and properties, in one commit that says `summary`; what it had stays
        readable at its snapshots. It is partitioned by `split`, and by the day of the column `day`."""

    def rows(self, identifier: str, snapshot: int | None = None, with_file: bool = False) -> DataFrame:
        """The rows of a table, at a snapshot (None: the newest). `with_file`: with the path of each row's data file, in
        the column `_file`."""


class SparkTables:
    """Tables through Iceberg's Java, in the driver's JVM."""

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark

    def exists(self, identifier: str) -> bool:
        return self.spark.catalog.tableExists(identifier)

    def open(self, identifier: str, owner: Owner | None = None) -> IcebergTable:
        return IcebergTable(self.spark, identifier, owner)

    def create_table(self, table: NewTable) -> None:
        self.spark.sql(table.sql())

    def add_stored_column(self, identifier: str, column: str, kind: str) -> None:
        self.spark.sql(f"ALTER TABLE {identifier} ADD COLUMN {column} {kind}")

    def drop_table(self, identifier: str) -> None:
        self.spark.sql(f"DROP TABLE IF EXISTS {identifier} PURGE")

    def replace_table(
        self,
        identifier: str,
        rows: DataFrame,
        split: str,
        day: str | None,
        properties: Mapping[str, str],
        summary: Mapping[str, str],
    ) -> None:
        from pyspark.sql import functions as F

        writer = rows.writeTo(identifier).using("iceberg")
        for key, value in properties.items():
            writer = writer.tableProperty(key, value)
        for key, value in summary.items():
            writer = writer.option(f"snapshot-property.{key}", value)
        parts = [F.col(split), *([F.partitioning.days(F.col(day))] if day is not None else [])]
        writer.partitionedBy(*parts).replace()

    def rows(self, identifier: str, snapshot: int | None = None, with_file: bool = False) -> DataFrame:
        reader = self.spark.read if snapshot is None else self.spark.read.option("versionAsOf", snapshot)
        rows = reader.table(identifier)
        return rows.select("*", "_file") if with_file else rows


def in_java(table: Table) -> IcebergTable:
    """The table as Iceberg's Java has it, for upkeep that nothing else can do."""
    if not isinstance(table, IcebergTable):
        raise AssertionError(f"{table.identifier} is not open in Iceberg's Java")
    return table
