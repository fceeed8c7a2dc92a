"""The catalog of new projects, a file of SQLite: commits of threads and processes, and who else finds its tables."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyiceberg.catalog import load_catalog

from tests.conftest import ROOT
from tidegate.errors import TidegateError
from tidegate.iceberg.layout import NewTable
from tidegate.project import Project
from tidegate.project import storage as storage_module
from tidegate.project.storage import CATALOG
from tidegate.session.session import Session
from tidegate.store.listing import table_names
from tidegate.store.metadata import load_table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tidegate.iceberg.tables import StoredTable


EPOCH = "tidegate.epoch"
WAREHOUSE = {"catalog": {"type": "jdbc", "uri": "jdbc:sqlite:.tidegate/warehouse/catalog.db"}}
#: Commits of another process, by pyiceberg: as many as asked for, each tried until it is in.
OTHER = """
import sys
from pyiceberg.catalog import load_catalog
from pyiceberg.exceptions import CommitFailedException
from tidegate.project import Project
storage = Project.load(sys.argv[1]).storage
table = load_catalog("tidegate", **storage.pyiceberg_properties()).load_table(("main", "shared"))
done = lost = 0
while done < int(sys.argv[2]):
    try:
        with table.transaction() as transaction:
            transaction.set_properties({f"other.{done}": "yes"})
        done += 1
    except CommitFailedException:
        lost += 1
        table.refresh()
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    # A folder whose name has what addresses give a meaning to.
    root = tmp_path / "a shop & more"
    for folder in ("assets", "resources"):
        (root / folder).mkdir(parents=True)
    (root / "resources" / "local.yaml").write_text(json.dumps({"warehouse": WAREHOUSE}))
    return root


@pytest.fixture
def session(root: Path, spark: SparkSession) -> Session:
    return Session.open(Project.load(root), spark=spark)


def made(session: Session, name: str) -> StoredTable:
    identifier = session.identifier(name)
    columns = (("id", "bigint"), ("_open", "boolean"))
    session.tables.create_table(NewTable(identifier, columns, ("_open",), {"format-version": "2"}))
    return session.tables.open(identifier)


def committed(table: StoredTable, summary: dict[str, str]) -> bool:
    """Whether nobody was faster."""
    try:
        table.append([], None, summary, table.current())
    except TidegateError as error:
        if error.code != "TG502":
            raise
        return False
    return True


def epochs(table: StoredTable) -> list[int]:
    table.refresh()
    return sorted(int(summary[EPOCH]) for summary in table.summaries().values())


def test_R2_commits_of_threads_and_processes_at_once_are_each_stored_once(
    session: Session, root: Path, spark: SparkSession
) -> None:
    """Each thread has a session, and so a catalog with connections, of its own; all commit to one table, and each to
    one of its own, while two processes commit to the shared one."""
    threads, commits, others = 3, 4, 2
    made(session, "shared")
    command = [sys.executable, "-c", OTHER, str(root), str(commits)]
    processes = [
        subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True) for _ in range(others)
    ]

    def work(number: int) -> int:
        mine = Session.open(Project.load(root), spark=spark)
        own, shared = made(mine, f"own{number}"), mine.tables.open(mine.identifier("shared"))
        lost = 0
        for commit in range(commits):
            own.append([], None, {EPOCH: str(commit)}, own.current())
            while not committed(shared, {EPOCH: str(number * commits + commit)}):
                lost += 1
        return lost

    with ThreadPoolExecutor(threads) as pool:
        lost = list(pool.map(work, range(threads)))
    for process in processes:
        _, told = process.communicate(timeout=120)
        assert process.returncode == 0, told
    shared = session.tables.open(session.identifier("shared"))
    assert epochs(shared) == list(range(threads * commits)), lost
    assert {f"other.{n}" for n in range(commits)} <= shared.properties().keys()
    for number in range(threads):
        assert epochs(session.tables.open(session.identifier(f"own{number}"))) == list(range(commits))


def test_names_are_read_by_others_without_a_path(session: Session, root: Path) -> None:
    session.spark.sql(f"CREATE TABLE {CATALOG}.main.plain (id BIGINT)")
    session.spark.sql(f"INSERT INTO {CATALOG}.main.plain VALUES (1), (2)")
    storage = Project.load(root).storage
    assert table_names(storage, "main") == ["plain"]
    catalog = load_catalog(CATALOG, **storage.pyiceberg_properties())
    assert catalog.list_tables("main") == [("main", "plain")]
    assert sorted(catalog.load_table("main.plain").scan().to_arrow()["id"].to_pylist()) == [1, 2]
    found = load_table(storage, "plain")
    assert found is not None
    assert (found.columns, Path(found.location.removeprefix("file:")).is_dir()) == ((("id", "long"),), True)
    session.tables.drop_table(session.identifier("plain"))
    assert (load_table(storage, "plain"), table_names(storage, "main")) == (None, [])


def locked(file: Path, seconds: float) -> threading.Thread:
    """Somebody who keeps the catalog's file locked for writing for so long."""
    held = threading.Event()

    def hold() -> None:
        with closing(sqlite3.connect(file, isolation_level=None)) as database:
            database.execute("BEGIN IMMEDIATE")
            held.set()
            time.sleep(seconds)
            database.execute("ROLLBACK")

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    return thread


def test_a_commit_waits_for_who_has_the_file_locked(session: Session, root: Path) -> None:
    """The driver itself would wait for three seconds."""
    table = made(session, "t")
    base = table.current()
    file = root / ".tidegate" / "warehouse" / "catalog.db"
    holder = locked(file, 4)
    began = time.monotonic()
    table.append([], None, {EPOCH: "1"}, base)
    assert time.monotonic() - began > 3
    holder.join()
    assert epochs(table) == [1]


def test_R1_a_commit_that_found_the_file_locked_for_too_long_is_not_stored_and_can_be_repeated(
    root: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storage_module, "BUSY_SECONDS", 0)
    session = Session.open(Project.load(root), spark=spark)
    table = made(session, "t")
    base = table.current()
    holder = locked(root / ".tidegate" / "warehouse" / "catalog.db", 2)
    with pytest.raises(TidegateError, match="SQLITE_BUSY") as caught:
        table.append([], None, {EPOCH: "1"}, base)
    assert caught.value.code == "TG620"
    holder.join()
    assert epochs(table) == []
    table.append([], None, {EPOCH: "1"}, table.current())
    assert epochs(table) == [1]


def test_a_dropped_table_leaves_nothing_in_the_warehouse_and_can_be_made_anew(
    session: Session, root: Path
) -> None:
    made_again = "CREATE TABLE t (v INT, ts TIMESTAMP) APPEND ONLY; INSERT INTO t VALUES (1, '2026-01-01')"
    session.execute(made_again)
    folder = root / ".tidegate" / "warehouse" / "main"
    (folder / "t" / "data" / "of-a-killed-task.parquet").write_text("nobody's")
    session.execute("DROP TABLE t", yes=True)
    assert list(folder.iterdir()) == []
    session.execute(made_again)
    assert list(session.execute("SELECT v FROM t")) == [(1,)]


def test_hadoop_writes_no_sums_beside_the_files_of_a_commit(session: Session, root: Path) -> None:
    """With each of them it would start two processes more for the access rights of a file."""
    table = made(session, "t")
    table.append([], None, {EPOCH: "1"}, table.current())
    assert len(list(root.rglob("*.metadata.json"))) == 2
    assert not list(root.rglob("*.crc"))
