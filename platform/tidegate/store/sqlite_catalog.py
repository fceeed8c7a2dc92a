"""A catalog in one file of SQLite, with the tables of Iceberg's JDBC catalog: which metadata of each table is current.

Iceberg's Java commits to it, by the driver for SQLite, and everything else by Python's own sqlite3: pyiceberg's
catalog answers the same questions, and takes a second to be imported.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from tidegate.errors import TidegateError
from tidegate.project.disk import private_folder, trouble
from tidegate.project.storage import BUSY_SECONDS, CATALOG

if TYPE_CHECKING:
    import sqlite3

#: As Iceberg's Java and pyiceberg make them (`jdbc.schema-version` V1). Two processes of Iceberg that make them at the
#: same time disturb each other: the second one fails with "duplicate column name".
_TABLES = (
    """CREATE TABLE IF NOT EXISTS iceberg_tables (catalog_name VARCHAR(255) NOT NULL,
        table_namespace VARCHAR(255) NOT NULL, table_name VARCHAR(255) NOT NULL, metadata_location VARCHAR(1000),
        previous_metadata_location VARCHAR(1000), iceberg_type VARCHAR(5),
        PRIMARY KEY (catalog_name, table_namespace, table_name))""",
    """CREATE TABLE IF NOT EXISTS iceberg_namespace_properties (catalog_name VARCHAR(255) NOT NULL,
        namespace VARCHAR(255) NOT NULL, property_key VARCHAR(255) NOT NULL, property_value VARCHAR(1000),
        PRIMARY KEY (catalog_name, namespace, property_key))""",
)
#: What a question is about, of a namespace that is given.
_OF_NAMESPACE = "catalog_name = ? AND table_namespace = ?"


def prepare(file: Path) -> None:
    """Make the catalog's file with its tables, if they are not there.

    Its write-ahead log lets status read while a commit is under way; SQLite notes in the file that it has one. Raises
    TG620 if this is no file of SQLite, TG623 where it can't be written.
    """
    try:
        private_folder(file.parent)
    except OSError as error:
        raise trouble(error) or error from None
    with _open(file, "rwc") as database:
        database.execute("PRAGMA journal_mode = WAL")
        for table in _TABLES:
            database.execute(table)


def location(file: Path, namespace: str, name: str) -> str | None:
    """Where the newest metadata of a table are, or None if there is no such table. Raises TG620."""
    found = _rows(file, "metadata_location", f"{_OF_NAMESPACE} AND table_name = ?", (namespace, name))
    return str(found[0][0]) if found else None


def locations(file: Path, namespace: str) -> dict[str, str]:
    """Where the newest metadata are of all tables of a namespace, by name. Raises TG620."""
    values = _rows(file, "table_name, metadata_location", _OF_NAMESPACE, (namespace,))
    return {str(name): str(where) for name, where in values if where is not None}


def namespaces(file: Path) -> list[str]:
    """The namespaces that have tables, in their order of name. Raises TG620."""
    return [str(one) for (one,) in _rows(file, "DISTINCT table_namespace", "catalog_name = ? ORDER BY 1", ())]


def names(file: Path, namespace: str) -> list[str]:
    """The tables of a namespace, in their order of name. Raises TG620."""
    return [
        str(one) for (one,) in _rows(file, "table_name", f"{_OF_NAMESPACE} ORDER BY table_name", (namespace,))
    ]


def copy(file: Path, target: Path) -> dict[tuple[str, str], str]:
    """Copy the catalog as it is at one moment, with commits that are in its write-ahead log only. Where the newest
    metadata are of all tables in the copy, by namespace and name. Raises TG620."""
    import sqlite3

    with _open(file, "ro") as database:
        # (If it is no catalog, that is said of it, and not of the copy.)
        database.execute("SELECT count(*) FROM sqlite_master").fetchone()
        try:
            with contextlib.closing(sqlite3.connect(target, isolation_level=None)) as copied:
                database.backup(copied)
                return _all_locations(copied)
        except sqlite3.Error as error:
            raise TidegateError(
                "TG620",
                f"the catalog in {file} can't be copied to {target}: {error}",
                hint="check the disk of the copy, and then the catalog",
            ) from None


def _all_locations(database: sqlite3.Connection) -> dict[tuple[str, str], str]:
    if not _has_tables(database):
        return {}
    question = "SELECT table_namespace, table_name, metadata_location FROM iceberg_tables"
    rows = database.execute(f"{question} WHERE metadata_location IS NOT NULL")
    return {(str(namespace), str(name)): str(where) for namespace, name, where in rows}


def _has_tables(database: sqlite3.Connection) -> bool:
    """Whether the catalog is made: its file is empty before."""
    question = "SELECT 1 FROM sqlite_master WHERE name = 'iceberg_tables'"
    return database.execute(question).fetchone() is not None


def register(file: Path, namespace: str, name: str, where: str, is_older: Callable[[str], bool]) -> bool:
    """Make a metadata file the newest one of a table: of one that is not in the catalog, or whose newest one there
    `is_older`. False if it is that already.

    Raises TG620 for a table of which the catalog knows other metadata: somebody has committed to it.
    """
    with _open(file, "rw") as database:
        # The lock is taken before the row is read, so that no commit comes in between.
        database.execute("BEGIN IMMEDIATE")
        question = f"SELECT metadata_location FROM iceberg_tables WHERE {_OF_NAMESPACE} AND table_name = ?"
        row = database.execute(question, (CATALOG, namespace, name)).fetchone()
        if row is not None and row[0] == where:
            return False
        if row is not None and not is_older(row[0]):
            raise TidegateError(
                "TG620",
                f'"{name}" is in the catalog already, with commits of its own: its metadata are {row[0]}',
                hint=f"the folder's are {where}. If another copy of this project has moved the table, write its "
                "catalog into this environment's file, too",
            )
        values = (CATALOG, namespace, name, where, "TABLE")
        database.execute(
            "INSERT OR REPLACE INTO iceberg_tables (catalog_name, table_namespace, table_name, metadata_location, "
            "iceberg_type) VALUES (?, ?, ?, ?, ?)",
            values,
        )
        database.execute("COMMIT")
        return True


def forget(file: Path, namespace: str, name: str, where: str) -> None:
    """Take a table out of the catalog, if its newest metadata are those. Raises TG620."""
    with _open(file, "rw") as database:
        question = (
            f"DELETE FROM iceberg_tables WHERE {_OF_NAMESPACE} AND table_name = ? AND metadata_location = ?"
        )
        database.execute(question, (CATALOG, namespace, name, where))


def _rows(file: Path, columns: str, where: str, values: Sequence[str]) -> list[tuple[Any, ...]]:
    """The values of columns of the catalog's tables; empty before the catalog is made."""
    if not file.is_file():
        return []
    with _open(file, "ro") as database:
        if not _has_tables(database):
            return []
        question = f"SELECT {columns} FROM iceberg_tables WHERE {where}"
        return list(database.execute(question, (CATALOG, *values)))


@contextlib.contextmanager
def _open(file: Path, mode: str) -> Iterator[sqlite3.Connection]:
    """A connection in which each statement is a transaction. `mode`: SQLite's, "ro", "rw" or "rwc"."""
    import sqlite3

    try:
        where = f"file:{quote(str(file))}?mode={mode}"
        database = sqlite3.connect(where, uri=True, timeout=BUSY_SECONDS, isolation_level=None)
        with contextlib.closing(database):
            yield database
    except sqlite3.Error as error:
        raise TidegateError(
            "TG620",
            f"the catalog in {file} does not answer: {error}",
            hint="check warehouse.catalog of the environment; the file has to be on a disk of this machine",
        ) from None
