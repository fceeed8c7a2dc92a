"""`tidegate catalog migrate`: tables of a catalog that is a folder go on in one of SQLite."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner

from tests.store.tables import HadoopTable
from tidegate.audit.stored_files import verify_all
from tidegate.cli.main import app
from tidegate.errors import TidegateError
from tidegate.jvm.within import active
from tidegate.maintenance.catalog_move import move_catalog
from tidegate.project import Project
from tidegate.project.edit import write_catalog
from tidegate.project.owner import OWNER, Owner
from tidegate.runtime.lease import lease
from tidegate.session.session import Session
from tidegate.store import sqlite_catalog
from tidegate.store.listing import table_names
from tidegate.store.metadata import load_table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

URI = "jdbc:sqlite:.tidegate/warehouse/catalog.db"
CATALOG = {"type": "jdbc", "uri": URI}
SQL = """
CREATE TABLE clicks (k INT, ts TIMESTAMP, WATERMARK FOR ts AS ts) APPEND ONLY;
CREATE TABLE prices (k INT PRIMARY KEY, v INT);
CREATE MATERIALIZED VIEW hourly AS SELECT window_start, count(*) AS n FROM TUMBLE(clicks, ts, INTERVAL '1 hour')
GROUP BY window_start, window_end EMIT ON WINDOW CLOSE;
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for folder in ("assets", "resources"):
        (tmp_path / folder).mkdir()
    (tmp_path / "resources" / "local.yaml").write_text(
        "project: shop   # ours\nwarehouse:\n  namespace: main\n"
    )
    return tmp_path


def stored(root: Path, name: str, owner: Owner | None = None) -> HadoopTable:
    properties = {} if owner is None else {OWNER: owner.to_text()}
    table = HadoopTable(root / ".tidegate" / "warehouse" / "main" / name, properties)
    table.commit({"tidegate.epoch": 1})
    return table


def epoch(root: Path, name: str) -> int | None:
    table = load_table(Project.load(root).storage, name)
    return None if table is None else table.integer("tidegate.epoch")


def refused(root: Path) -> TidegateError:
    with pytest.raises(TidegateError) as caught:
        move_catalog(Project.load(root))
    return caught.value


def test_a_project_goes_on_in_the_new_catalog_with_its_rows_snapshots_and_states(
    root: Path, spark: SparkSession
) -> None:
    (root / "assets" / "all.sql").write_text(SQL)
    session = Session.open(Project.load(root), spark=spark)
    session.execute("INSERT INTO clicks VALUES (1, '2026-01-01 00:10:00'), (2, '2026-01-01 01:10:00')")
    session.execute("INSERT INTO prices VALUES (1, 10), (2, 20); FLUSH")
    session.run()
    before = session.tables.open(session.identifier("clicks")).current().id
    done = CliRunner().invoke(app, ["catalog", "migrate", "--project", str(root), "--json"])
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    assert told["tables"] == ["clicks", "hourly", "prices", "prices$state"]
    assert (told["catalog"], told["environment"]) == (URI, "resources/local.yaml")
    assert "project: shop   # ours\n" in (root / "resources" / "local.yaml").read_text()

    moved = Session.open(Project.load(root), spark=spark)
    assert moved.project.storage.sqlite == root / ".tidegate" / "warehouse" / "catalog.db"
    assert len(list(moved.execute("SELECT * FROM clicks"))) == 2
    assert moved.tables.open(moved.identifier("clicks")).current().id == before
    moved.execute(
        "INSERT INTO clicks VALUES (3, '2026-01-01 02:10:00'); INSERT INTO prices VALUES (1, 11); FLUSH"
    )
    moved.run()
    assert sorted(moved.execute("SELECT k, v FROM prices")) == [(1, 11), (2, 20)]
    assert [row[1] for row in sorted(moved.execute("SELECT window_start, n FROM hourly"))] == [1, 1]
    assert len(list(moved.execute("SELECT * FROM clicks"))) == 3
    earlier = moved.spark.read.option("versionAsOf", before).table(moved.identifier("clicks"))
    assert earlier.filter("_outcome = 'on_time'").count() == 2
    again = json.loads(
        CliRunner().invoke(app, ["catalog", "migrate", "--project", str(root), "--json"]).stdout
    )
    assert (again["tables"], again["before"], again["environment"]) == ([], told["tables"], None)


def broken_off(root: Path, monkeypatch: pytest.MonkeyPatch, at: int) -> None:
    """A move that ends when it registers its table of this number."""
    register, calls = sqlite_catalog.register, []

    def broken(*arguments: object) -> bool:
        calls.append(arguments)
        if len(calls) == at:
            raise KeyboardInterrupt
        return register(*arguments)  # type: ignore[arg-type]

    with monkeypatch.context() as patched:
        patched.setattr(sqlite_catalog, "register", broken)
        with pytest.raises(KeyboardInterrupt):
            move_catalog(Project.load(root))


def test_a_move_that_was_broken_off_leaves_the_folder_and_is_repeated(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = stored(root, "a"), stored(root, "b")
    broken_off(root, monkeypatch, 2)
    assert Project.load(root).storage.sqlite is None
    # The folder is the catalog still, and writers go on there.
    for table in (first, second):
        table.commit({"tidegate.epoch": 2})
    assert epoch(root, "a") == 2
    # Whoever names the new catalog now is told that it is behind.
    written = (root / "resources" / "local.yaml").read_text()
    write_catalog(root / "resources" / "local.yaml", CATALOG)
    for name in "ab":
        with pytest.raises(TidegateError, match="does not have its newest state"):
            epoch(root, name)
    (root / "resources" / "local.yaml").write_text(written)
    assert move_catalog(Project.load(root)).tables == ["a", "b"]
    assert (Project.load(root).storage.sqlite is not None, epoch(root, "a"), epoch(root, "b")) == (True, 2, 2)


def test_twenty_tables_with_long_histories_are_moved_by_one_row_each(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is written but the rows of the catalog, however long a history is; broken off, the move goes on."""
    names = [f"t{number:02}" for number in range(20)]
    for name in names:
        table = HadoopTable(root / ".tidegate" / "warehouse" / "main" / name, {}, version=1_999)
        table.snapshots = [
            {
                "snapshot-id": n,
                "timestamp-ms": n,
                "summary": {"operation": "append", "tidegate.epoch": str(n)},
            }
            for n in range(1, 2_000)
        ]
        table.commit({"tidegate.epoch": 2_000})
    before = _stored(root)
    broken_off(root, monkeypatch, 12)
    moved = move_catalog(Project.load(root))
    assert sorted([*moved.tables, *moved.before]) == names
    assert moved.before == names[:11]
    assert _stored(root) == before
    for name in names:
        found = load_table(Project.load(root).storage, name)
        assert found is not None
        assert (Path(found.metadata_location).name, found.integer("tidegate.epoch")) == (
            "v2000.metadata.json",
            2_000,
        )


def _stored(root: Path) -> dict[str, tuple[int, int]]:
    """Every file of the tables: its size, and when it was written."""
    files = (path for path in (root / ".tidegate" / "warehouse" / "main").rglob("*") if path.is_file())
    return {str(file): (file.stat().st_size, file.stat().st_mtime_ns) for file in files}


@pytest.mark.long_run
def test_a_log_with_a_long_history_goes_on_from_any_of_its_snapshots(root: Path, spark: SparkSession) -> None:
    """TIDEGATE_COMMITS=10000: a longer one."""
    commits = int(os.environ.get("TIDEGATE_COMMITS", "2000"))
    (root / "assets" / "all.sql").write_text(SQL)
    session = Session.open(Project.load(root), spark=spark)
    session.execute("INSERT INTO clicks VALUES (1, '2026-01-01 00:10:00')")
    log = session.log(session.relation("clicks"))
    for number in range(commits):
        after = log.progress.after(log.progress.epoch + 1, {})
        after.strategy = log.strategy
        log._commit(after, datetime.now(UTC), [], [])
        if number == commits // 2:
            session.execute("INSERT INTO clicks VALUES (2, '2026-01-01 00:20:00')")
            log = session.log(session.relation("clicks"))
    ids = session.tables.open(session.identifier("clicks")).snapshot_ids()
    assert len(ids) > commits
    done = CliRunner().invoke(app, ["catalog", "migrate", "--project", str(root), "--json"])
    assert done.exit_code == 0, done.output
    moved = Session.open(Project.load(root), spark=spark)
    with active(moved.spark):
        table = moved.tables.open(moved.identifier("clicks"))
        assert table.snapshot_ids() == ids
        oldest = min(ids, key=lambda one: table.java.snapshot(one).sequenceNumber())
        kept = [moved.tables.rows(table.identifier, one) for one in (oldest, table.current().id)]
        assert [rows.where("_outcome = 'on_time'").count() for rows in kept] == [1, 2]
    moved.execute("INSERT INTO clicks VALUES (3, '2026-01-01 02:10:00')")
    assert len(list(moved.execute("SELECT * FROM clicks"))) == 3
    storage = moved.project.storage
    assert all(one.ok for one in verify_all(storage, moved.project.owner))


def test_a_table_that_was_dropped_before_a_move_is_repeated_is_in_no_catalog(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in "abc":
        stored(root, name)

    def ended(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("tidegate.maintenance.catalog_move.write_catalog", ended)
        with pytest.raises(KeyboardInterrupt):
            move_catalog(Project.load(root))
    # What Spark does for DROP TABLE in such a catalog.
    shutil.rmtree(root / ".tidegate" / "warehouse" / "main" / "b")
    moved = move_catalog(Project.load(root))
    assert (moved.tables, moved.before) == ([], ["a", "c"])
    assert table_names(Project.load(root).storage, "main") == ["a", "c"]
    assert epoch(root, "b") is None


def test_R2_a_checkout_that_still_names_the_folder_is_told_that_a_table_has_gone_on_elsewhere(
    root: Path,
) -> None:
    """It would commit to the folder, and nobody would see it."""
    stored(root, "a")
    stored(root, "b")
    written = (root / "resources" / "local.yaml").read_text()
    move_catalog(Project.load(root))
    file = root / ".tidegate" / "warehouse" / "catalog.db"
    with closing(sqlite3.connect(file)) as database, database:
        database.execute("UPDATE iceberg_tables SET metadata_location = 'file:/x/00002-x.metadata.json'")
        database.execute("UPDATE iceberg_tables SET table_name = 'made later' WHERE table_name = 'b'")
    (root / "resources" / "local.yaml").write_text(written)
    for name in ("a", "made later"):
        with pytest.raises(TidegateError) as caught:
            epoch(root, name)
        assert (caught.value.code, "write this catalog into" in (caught.value.hint or "")) == ("TG620", True)
    assert refused(root).code == "TG620"
    # Of this one the folder has the newest state: whoever has the new catalog would be told of a commit to it.
    assert epoch(root, "b") == 1


def test_nothing_is_moved_while_somebody_writes(root: Path) -> None:
    stored(root, "a")
    with lease(root / ".tidegate" / "locks" / "main", "a"):
        assert refused(root).code == "TG508"
    assert Project.load(root).storage.sqlite is None
    assert move_catalog(Project.load(root)).tables == ["a"]


def test_X3_tables_of_others_are_not_moved(root: Path) -> None:
    stored(root, "a", Owner("shop", "local"))
    stored(root, "b", Owner("rival", "local"))
    assert refused(root).code == "TG531"
    assert not (root / ".tidegate" / "warehouse" / "catalog.db").exists()


def test_a_table_that_both_catalogs_have_with_commits_of_their_own_is_left_alone(root: Path) -> None:
    stored(root, "a")
    file = root / ".tidegate" / "warehouse" / "catalog.db"
    sqlite_catalog.prepare(file)
    elsewhere = f"file://{root}/elsewhere/00003-x.metadata.json"
    sqlite_catalog.register(file, "main", "a", elsewhere, lambda _: False)
    assert refused(root).code == "TG620"
    assert sqlite_catalog.location(file, "main", "a") == elsewhere


def test_an_environment_that_names_the_new_catalog_before_the_move_is_told_of_it(root: Path) -> None:
    """A run would begin the table again, and read everything anew."""
    stored(root, "a")
    write_catalog(root / "resources" / "local.yaml", CATALOG)
    with pytest.raises(TidegateError) as caught:
        epoch(root, "a")
    assert (caught.value.code, caught.value.hint or "") == (
        "TG620",
        "tidegate catalog migrate moves the folder's tables; or remove what is left of the table",
    )
    assert move_catalog(Project.load(root)).tables == ["a"]
    assert (epoch(root, "a"), epoch(root, "b")) == (1, None)


@pytest.mark.parametrize(
    "catalog", [{"type": "rest", "uri": "https://c"}, {"type": "jdbc", "uri": "jdbc:postgresql://h/d"}]
)
def test_another_catalog_than_a_folder_is_refused(root: Path, catalog: dict[str, str]) -> None:
    write_catalog(root / "resources" / "local.yaml", catalog)
    assert refused(root).code == "TG607"


def test_the_tables_of_a_branch_are_moved_after_those_of_the_environment_that_it_reads(root: Path) -> None:
    (root / "resources" / "dev.yaml").write_text("reads: local\nwarehouse: {namespace: dev}\n")
    stored(root, "a")
    HadoopTable(root / ".tidegate" / "warehouse" / "dev" / "v", {}).commit({"tidegate.epoch": 7})
    with pytest.raises(TidegateError) as caught:
        move_catalog(Project.load(root, "dev"))
    assert (caught.value.code, caught.value.hint) == ("TG515", "tidegate catalog migrate --env local")
    assert move_catalog(Project.load(root)).tables == ["a"]
    with pytest.raises(TidegateError, match="does not have its newest state"):
        load_table(Project.load(root, "dev").storage, "v")
    for tables, before in ((["v"], []), ([], ["v"])):
        moved = move_catalog(Project.load(root, "dev"))
        assert (moved.tables, moved.before, moved.environment) == (tables, before, None)
    found = load_table(Project.load(root, "dev").storage, "v")
    assert found is not None
    assert (found.integer("tidegate.epoch"), epoch(root, "a")) == (7, 1)


@pytest.mark.parametrize(
    ("text", "changed"),
    [
        ("", 'warehouse:\n  catalog: {"type": "jdbc"}\n'),
        (
            "# a\nspark:\n  master: x  # b\n",
            '# a\nwarehouse: {"catalog": {"type": "jdbc"}}\nspark:\n  master: x  # b\n',
        ),
        ("warehouse:\n  # a\n  path: x\n", 'warehouse:\n  # a\n  catalog: {"type": "jdbc"}\n  path: x\n'),
        ("warehouse: {path: x}\n", 'warehouse: {"catalog": {"type": "jdbc"}, path: x}\n'),
        ('{"warehouse": {}}', '{"warehouse": {"catalog": {"type": "jdbc"}}}'),
        (
            "warehouse:\n  catalog:\n    type: hadoop   # a\n  path: x\n",
            'warehouse:\n  catalog:\n    {"type": "jdbc"}   # a\n  path: x\n',
        ),
    ],
)
def test_the_file_of_an_environment_keeps_the_rest_of_its_text(
    tmp_path: Path, text: str, changed: str
) -> None:
    file = tmp_path / "local.yaml"
    if text:
        file.write_text(text)
    write_catalog(file, {"type": "jdbc"})
    assert file.read_text() == changed


def test_a_file_that_can_not_be_changed_at_one_place_stays_as_it_is(tmp_path: Path) -> None:
    file = tmp_path / "local.yaml"
    file.write_text("warehouse:\n")
    with pytest.raises(TidegateError) as caught:
        write_catalog(file, {"type": "jdbc"})
    assert (caught.value.code, file.read_text()) == ("TG605", "warehouse:\n")
