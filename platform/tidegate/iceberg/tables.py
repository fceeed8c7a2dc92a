"""The port to stored tables: what the engine asks of Iceberg, and all that it asks.

Users' runs go through `SparkTables`, which asks Iceberg's Java in the driver's JVM. The tests have a second
implementation, on pyiceberg, for the runner without a JVM; one conformance suite holds both to the same answers.
Sinks into Iceberg need what only Iceberg's Java has, and take an `IcebergTable`. An implementation writes a signature
of the port again, since a type checker compares the two, and has nothing else of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from tidegate.errors import TidegateError
from tidegate.iceberg.attempt import overtaken
from tidegate.iceberg.commit import IcebergTable
from tidegate.iceberg.layout import NewTable, placed, quote
from tidegate.iceberg.merge import Merge
from tidegate.iceberg.planned import Planned
from tidegate.iceberg.protocol import Snapshot
from tidegate.iceberg.shape import FEW_FILES, Rested, TableShape
from tidegate.iceberg.table_change import TableChange
from tidegate.iceberg.upkeep_table import SparkUpkeep
from tidegate.iceberg.versions.swap import VersionStart, VersionSwap, make_version
from tidegate.project.catalog_failures import comes_from, lacks_namespace

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from tidegate.project import Storage
    from tidegate.project.owner import Owner
    from tidegate.tasks.writer import WriteTarget

#: How often a table is read again that does not show a column yet.
_LOOKS = 4


class Described(Protocol):
    """What a table says of itself, whoever has read it."""

    @property
    def location(self) -> str:
        """URI of its folder."""

    def property(self, key: str) -> str | None:
        """A table property, or None."""


class StoredTable(Described, Protocol):
    """One stored table, for commits and for what its metadata says. Commits are fenced: one on top of a snapshot that
    is not the newest any more fails with TG502 (R2)."""

    identifier: str

    @property
    def uuid(self) -> str:
        """Of this table and no other, not even of one of the same name that is made later."""

    def properties(self) -> dict[str, str]:
        """All table properties, as of the last `current()`."""

    def set_properties(self, given: Mapping[str, str]) -> None:
        """Set these in a commit of their own."""

    def current(self) -> Snapshot:
        """The current snapshot, read anew. Raises TG531 for a writer who is not the owner (X3)."""

    def refresh(self) -> None:
        """Read it anew, whoever owns it."""

    def at(self, snapshot: int | str) -> Snapshot:
        """An earlier snapshot of it, by its id or a tag."""

    def names_at(self, snapshot: int) -> dict[str, str]:
        """By the names of its columns, as of the last `current()`, what they are called at an earlier snapshot, by
        Iceberg's ids (E2); without those that have come since."""

    def summaries(self) -> dict[int, dict[str, str]]:
        """The summary of every snapshot that is kept, by its id, as of the last `current()`."""

    def snapshot_ids(self) -> set[int]:
        """The snapshots that are kept, as of the last `current()`."""

    def totals(self) -> dict[str, str]:
        """The summary of the newest snapshot, whoever made it, as of the last `current()`; empty without one."""

    def tag(self, name: str) -> None:
        """Keep the current snapshot, if there is one, as `VERSION AS OF name`."""

    def forget_tags(self, tags: Sequence[str], properties: Mapping[str, str]) -> None:
        """Let go of tags, and set properties, in one commit. Raises TG502 if anybody has committed since
        `current()`."""

    def target(
        self,
        storage: Storage,
        split: str = "",
        day: str | None = None,
        bounds: tuple[str, ...] = (),
        reading: bool = False,
    ) -> WriteTarget:
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

    def files_at(self, paths: set[str], snapshot: int) -> list[Any]:
        """As `files_named`, of all rows."""

    def append(
        self,
        files: list[dict[str, Any]],
        target: WriteTarget | None,
        summary: dict[str, str],
        base: Snapshot,
        replaced: Sequence[bool | None] = (),
        removed: Sequence[Any] = (),
        change: TableChange | None = None,
    ) -> int:
        """Commit `files` on top of `base`; returns the new snapshot's id. See `IcebergTable.append`."""

    def swap(self, version: str, swap: VersionSwap, base: Snapshot) -> int:
        """Have the rows, the columns and the properties of a version (`Tables.make_version`) instead of one's own, in
        one commit on top of `base`, which copies no row; what it had stays readable under a tag. Returns the new
        snapshot's id. Raises TG502 as `append`."""

    def merge_rows(self, merge: Merge, base: Snapshot) -> None:
        """Change rows by those of a frame, in one commit on top of `base`; none where nothing matches. Raises TG502 if
        tidegate has committed to the table since `base`; upkeep that came in between is no conflict."""

    def delete_rows(self, where: str, summary: Mapping[str, str], base: Snapshot) -> None:
        """Delete the rows for which a condition in SQL holds, in one commit at most, as `merge_rows`. Whole files go
        without being read, and such a commit may say nothing of `summary`; so may one where there was nothing to
        delete."""


class Upkeep(Protocol):
    """What upkeep asks of one stored table. Nothing of it disturbs a writer: a stream's commits are fenced against new
    data, and here none is added; files are replaced by others with the same rows, or removed. What is due, which
    snapshots and rows may go, and the account of them is decided above this port.

    What changes the table raises whatever was in its way; `is_conflict` says whether
    that was a commit of somebody else."""

    @property
    def table(self) -> StoredTable:
        """The table itself."""

    def shape(self) -> TableShape:
        """Its metadata in figures, read anew."""

    def manifests(self) -> int:
        """How many manifests the newest snapshot has, as of the last `shape()` or the last change by this port."""

    def expire(self, bound: int, retain_last: int = 1) -> None:
        """Expire the snapshots older than `bound` (ms, `TableShape.bound`) except for the newest `retain_last` and
        those that a tag keeps, and delete the files that they alone held."""

    def compact(
        self,
        rested: Rested | None = None,
        target_bytes: int | None = None,
        least_files: int = FEW_FILES,
        bounds: Sequence[str] = (),
    ) -> tuple[int, int]:
        """Put small files of a partition together, `least_files` or more, and rewrite those with rows marked as
        deleted, in one commit: how many files went, and how many came. Rows of one file keep their order. `rested`: of
        these files alone. `bounds`: the columns by whose bounds slices skip files, which must not be lost.
        """

    def merge_manifests(self) -> None:
        """Write the manifests anew, few of them."""

    def remove_orphans(self, older_than_ms: int) -> int:
        """Delete files in the table's folders that no snapshot knows and that are older: what killed tasks left. How
        many. A batch that is judged but not committed yet has such files, too: that is what the age is for."""

    def forget_names(self) -> int:
        """Remove every tag and every branch beside the table's own line of snapshots; how many."""

    def forget_removed(self, base: Snapshot) -> None:
        """Write all manifests anew, with the files that are there and without a word of those that are gone, in a
        commit that says what `base` said. Raises TG502 if `base` is not the newest snapshot."""

    def data_files(self, number: str) -> DataFrame:
        """The data files of the newest snapshot, a row each, from the manifests alone: `file_path`, `record_count`,
        `split` and `day` (of their partition; NULL where there is none), and `newest`, the upper bound of the column
        `number`, NULL where nobody knows it."""

    def remove_files(self, paths: Sequence[str], properties: Mapping[str, str]) -> None:
        """Remove these data files from the table and set these properties of it, in one commit. It does not happen if
        one of the files is gone meanwhile."""

    def is_conflict(self, error: Exception) -> bool:
        """Whether somebody else's commit was in the way: another try starts from what is there now."""


class Tables(Protocol):
    """The stored tables that one session of Spark reads and writes, by their identifiers."""

    spark: SparkSession

    def exists(self, identifier: str) -> bool:
        """Whether there is such a table."""

    def open(self, identifier: str, owner: Owner | None = None) -> StoredTable:
        """A table. `owner`: who writes; None where it is only read, or the caller has asked (`runtime/owners.py`).
        Raises TG622 for one of a later release (E8)."""

    def upkeep(self, identifier: str, owner: Owner | None = None) -> Upkeep:
        """The upkeep of a table; as `open`."""

    def create_table(self, table: NewTable) -> None:
        """Make a table unless it is there."""

    def add_stored_column(self, identifier: str, column: str, kind: str) -> None:
        """Give a table a column (or a field of one, by its path), of a Spark type; its rows read NULL there."""

    def drop_table(self, identifier: str) -> None:
        """Remove a table with its files, if it is there."""

    def rename_table(self, identifier: str, name: str) -> None:
        """Let a table have another name in its namespace, in one step; its files stay where they are. Raises TG502 if
        it is not there, or a table of that name is."""

    def make_version(self, table: NewTable, of: str, number: int, start: VersionStart | None = None) -> None:
        """Make the table of version `number` of the table `of`, unless it is there: its files are in the other one's
        folder, and its columns have ids that fit into it, for `StoredTable.swap`. `start`: what it begins with."""

    def end_version(self, identifier: str) -> None:
        """Remove the table of a version, if it is there; its files stay."""

    def rows(self, identifier: str, snapshot: int | None = None, with_file: bool = False) -> DataFrame:
        """The rows of a table, at a snapshot (None: the newest). `with_file`: with the path of each row's data file, in
        the column `_file`."""


class SparkTables:
    """Tables through Iceberg's Java, in the driver's JVM."""

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark
        self._planned = Planned()

    def exists(self, identifier: str) -> bool:
        return self.spark.catalog.tableExists(identifier)

    def open(self, identifier: str, owner: Owner | None = None) -> IcebergTable:
        return IcebergTable(self.spark, identifier, owner, self._planned)

    def upkeep(self, identifier: str, owner: Owner | None = None) -> SparkUpkeep:
        return SparkUpkeep(self.spark, self.open(identifier, owner))

    def create_table(self, table: NewTable) -> None:
        try:
            self.spark.sql(table.sql())
        except Exception as error:
            if not lacks_namespace(error):
                raise
            self._create_first_table(table)
        if table.location is not None and table.location.startswith("file:///"):
            self._write_place(table, table.location)

    def _write_place(self, table: NewTable, location: str) -> None:
        """Spark writes file:/ where all else is in a folder of file:///."""
        java = IcebergTable(self.spark, table.identifier).java
        if str(java.location()) == location.replace("file:///", "file:/", 1):
            java.updateLocation().setLocation(location).commit()

    def _create_first_table(self, table: NewTable) -> None:
        """Servers want a namespace to be made before its first table. Where several make it at the same moment, one of
        them may be told that it can't; what counts is whether it is there."""
        failed: Exception | None = None
        try:
            self.spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {table.namespace}")
        except Exception as error:
            failed = error
        try:
            self.spark.sql(table.sql())
        except Exception as error:
            raise failed if failed is not None and lacks_namespace(error) else error from None

    def add_stored_column(self, identifier: str, column: str, kind: str) -> None:
        self.spark.sql(f"ALTER TABLE {identifier} ADD COLUMN {column} {kind}")

    def drop_table(self, identifier: str) -> None:
        self.spark.sql(f"DROP TABLE IF EXISTS {identifier} PURGE")

    def rename_table(self, identifier: str, name: str) -> None:
        if not self.exists(identifier):
            raise overtaken(identifier)
        to, before = renamed(identifier, name), self.open(identifier).uuid
        try:
            self.spark.sql(f"ALTER TABLE {identifier} RENAME TO {quote(name)}")
        except Exception as error:
            # Its client may have asked twice, or have heard nothing.
            if not self.exists(identifier) and self.exists(to) and self.open(to).uuid == before:
                return
            if comes_from(error, ("AlreadyExistsException", "NoSuchTableException")) or self.exists(to):
                raise overtaken(identifier) from None
            raise

    def make_version(self, table: NewTable, of: str, number: int, start: VersionStart | None = None) -> None:
        make_version(self.spark, table, self.open(of).java, number, start)

    def end_version(self, identifier: str) -> None:
        self.spark.sql(f"DROP TABLE IF EXISTS {identifier}")

    def rows(self, identifier: str, snapshot: int | None = None, with_file: bool = False) -> DataFrame:
        reader = self.spark.read if snapshot is None else self.spark.read.option("versionAsOf", snapshot)
        rows = reader.table(identifier)
        return rows.select("*", "_file") if with_file else rows


def renamed(identifier: str, name: str) -> str:
    """The identifier of a table of this name beside another one."""
    # (A name may have dots.)
    return ".".join([*identifier.split(".", 2)[:2], quote(name)])


def make_table(tables: Tables, table: NewTable, storage: Storage) -> None:
    """Make a table unless it is there, in a folder that no renamed table has."""
    tables.create_table(table if tables.exists(table.identifier) else placed(table, storage))


def with_columns(
    tables: Tables,
    table: StoredTable,
    target: Callable[[], WriteTarget],
    missing: Callable[[pa.Schema], Sequence[tuple[str, str]]],
) -> WriteTarget:
    """How tasks write files for a table that has every column that they fill; what it lacks is added to it. `target`:
    as of the last `current()`; `missing`: what a schema lacks, as (path, Spark type).

    A new column comes without a snapshot, so no commit is refused because its files were made for the table from
    before (R2), and the tasks leave out what that table has no column for. A catalog may still answer with that table,
    and another process may have added the column: so what was seen of the table afterwards decides, and nothing else.
    Raises TG502 if it never shows the columns."""
    found = target()
    if not (added := missing(found.schema)):
        return found
    failed: Exception | None = None
    try:
        for column, kind in added:
            tables.add_stored_column(table.identifier, column, kind)
    except Exception as error:
        failed = error
    for _ in range(_LOOKS):
        table.refresh()
        found = target()
        if not missing(found.schema):
            return found
    names = " and ".join(column for column, _ in added)
    raise failed or TidegateError(
        "TG502",
        f"the catalog does not show {names} of {table.identifier} yet, which was just added; nothing was stored",
        hint="run again: it continues from what is stored",
    )
