"""`tidegate backup` in single steps, and copies of several moments, which `tidegate verify` finds."""

from __future__ import annotations

import json
import shutil
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner

from tests.conftest import Workbench
from tests.maintenance.backups.restoring import stored
from tidegate.audit.backup import back_up
from tidegate.audit.stored_files import verify_all
from tidegate.cli.main import app
from tidegate.errors import TidegateError
from tidegate.project import Project
from tidegate.store import sqlite_catalog

if TYPE_CHECKING:
    from tidegate.session.session import Session

pytestmark = pytest.mark.spark

SQL = """CREATE TABLE t (id INT, ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL '5 seconds') APPEND ONLY;
CREATE MATERIALIZED VIEW v AS SELECT window_end, count(*) AS n FROM TUMBLE(t, ts, INTERVAL '10 seconds')
GROUP BY window_end EMIT ON WINDOW CLOSE;
CREATE SINK s FROM v WITH (connector = 'filesystem', path = 'out') FORMAT PLAIN ENCODE JSON;
"""
CATALOG = {"type": "jdbc", "uri": "jdbc:sqlite:.tidegate/warehouse/catalog.db"}


def insert(session: Session, minute: int) -> None:
    session.execute(f"INSERT INTO t VALUES (1, '2026-01-01 10:{minute:02}:00'), (2, NULL); FLUSH")


@pytest.fixture
def session(workbench: Workbench) -> Session:
    session = workbench.assets(t=SQL).with_catalog(CATALOG).session()
    for minute in range(2):
        insert(session, minute)
    return session


@pytest.fixture
def project(session: Session, workbench: Workbench) -> Project:
    return Project.load(workbench.root)


def files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def restored(project: Project, copy: Path, *but: str) -> None:
    """All of a copy in its place, but these files and folders of the tables, which are not touched."""
    warehouse = project.root / ".tidegate" / "warehouse"
    for one in warehouse.iterdir():
        if one.name not in but:
            shutil.rmtree(one) if one.is_dir() else one.unlink()
    skip = shutil.ignore_patterns(*but)
    shutil.copytree(copy / "copy" / "warehouse", warehouse, ignore=skip, dirs_exist_ok=True)
    shutil.rmtree(project.root / "out")
    shutil.copytree(copy / "copy" / "sinks" / "s", project.root / "out")


def verify(project: Project) -> tuple[int, dict[str, list[str]], dict[str, str]]:
    """Exit code, what is wrong by table, and by sink."""
    done = CliRunner().invoke(app, ["--project", str(project.root), "--json", "verify", "--files"])
    found = json.loads(done.stdout)
    wrong = {one["name"]: [p["what"] for p in one["problems"]] for one in found["tables"] if not one["ok"]}
    return done.exit_code, wrong, found["sinks"]


def test_R2_a_copy_has_all_files_that_are_named_and_is_replaced_as_a_whole(
    project: Project, session: Session, tmp_path: Path
) -> None:
    copy = tmp_path / "copies" / "shop"
    first = back_up(project, copy)
    assert (first.tables, first.sinks, first.copied) == (["main.t", "main.v"], ["s"], first.files)
    (copy / "copy" / "warehouse" / "main" / "gone").mkdir()
    (copy / "copy" / "warehouse" / "main" / "gone" / "old.parquet").write_bytes(b"")
    insert(session, 2)
    second = back_up(project, copy)
    assert 0 < second.copied < second.files
    assert "copy/warehouse/main/gone/old.parquet" not in files(copy)
    assert not [name for name in files(copy) if name.startswith(("former", ".new")) or name.endswith("-wal")]
    before = stored(project.root, "v", "window_end", "n")
    insert(session, 3)
    restored(project, copy)
    assert verify(project) == (0, {}, {})
    assert stored(project.root, "v", "window_end", "n") == before
    assert (files(copy / "copy" / "sinks" / "s"), len(before)) == (files(project.root / "out"), 2)


def test_R2_commits_that_are_in_the_write_ahead_log_only_are_copied(project: Project, tmp_path: Path) -> None:
    file = project.storage.sqlite
    assert file is not None
    with closing(sqlite3.connect(file)) as held:
        # Whoever reads keeps SQLite from moving its log into the file.
        held.execute("BEGIN")
        held.execute("SELECT count(*) FROM iceberg_tables").fetchall()
        with closing(sqlite3.connect(file)) as other, other:
            other.execute("UPDATE iceberg_tables SET metadata_location = metadata_location || '?'")
        plain, whole = tmp_path / "plain.db", tmp_path / "whole.db"
        shutil.copy(file, plain)
        found = sqlite_catalog.copy(file, whole)
    assert all(where.endswith("?") for where in found.values())
    assert sqlite_catalog.locations(whole, "main").keys() == {"t", "v"}
    assert not any(where.endswith("?") for where in sqlite_catalog.locations(plain, "main").values())


def test_R2_a_catalog_that_was_copied_later_than_its_tables_is_found(
    project: Project, session: Session, tmp_path: Path
) -> None:
    back_up(project, tmp_path / "copy")
    insert(session, 2)
    restored(project, tmp_path / "copy", "catalog.db", "catalog.db-wal", "catalog.db-shm")
    code, wrong, sinks = verify(project)
    assert (code, wrong.keys(), sinks) == (1, {"t", "v"}, {"s": wrong["v"][0]})
    assert all(what[0].endswith(".metadata.json is missing") for what in wrong.values())


@pytest.mark.long_run
def test_R2_a_catalog_that_was_copied_earlier_than_its_tables_or_not_at_all_is_found(
    project: Project, session: Session, tmp_path: Path
) -> None:
    back_up(project, tmp_path / "copy")
    session.execute("CREATE TABLE u (id INT, ts TIMESTAMP, WATERMARK FOR ts AS ts) APPEND ONLY")
    session.execute("INSERT INTO u VALUES (1, '2026-01-01 10:00:00')")
    shutil.copytree(
        project.root / ".tidegate" / "warehouse" / "main" / "u", tmp_path / "copy/copy/warehouse/main/u"
    )
    restored(project, tmp_path / "copy")
    code, wrong, _ = verify(project)
    assert (code, wrong.keys()) == (1, {"u"})
    assert wrong["u"] == [f"the catalog {project.storage.sqlite} does not have this table"]
    (project.root / ".tidegate" / "warehouse" / "catalog.db").unlink()
    code, wrong, sinks = verify(project)
    assert (code, wrong.keys(), sinks.keys()) == (1, {"t", "u", "v"}, {"s"})


def test_R2_memories_of_a_batch_between_the_two_copies_are_in_the_copy_and_missing_ones_are_found(
    workbench: Workbench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a log remembers of its partitions is beside the tables, and its newest commit names it (S1)."""
    sql = "CREATE TABLE m (ts TIMESTAMP, WATERMARK FOR ts AS SOURCE_WATERMARK()) APPEND ONLY"
    session = workbench.assets(m=sql).with_catalog(CATALOG).session()

    def insert_many(minute: int) -> None:
        times = (f"('2026-01-01 10:{minute:02}:{second % 60:02}')" for second in range(80))
        session.execute(f"INSERT INTO m VALUES {', '.join(times)}; FLUSH")

    insert_many(0)
    project, minutes = Project.load(workbench.root), iter([1])
    copied = sqlite_catalog.copy

    def later(source: Path, target: Path) -> dict[tuple[str, str], str]:
        for minute in minutes:
            insert_many(minute)
        found = copied(source, target)
        for path in (project.root / ".tidegate" / "warehouse").glob("_streams/main/m/memory/*"):
            assert not (tmp_path / "copy/.new/warehouse/_streams/main/m/memory" / path.name).exists()
        return found

    monkeypatch.setattr(sqlite_catalog, "copy", later)
    back_up(project, tmp_path / "copy")
    warehouse = project.root / ".tidegate" / "warehouse"
    shutil.rmtree(warehouse)
    shutil.copytree(tmp_path / "copy" / "copy" / "warehouse", warehouse)
    assert all(one.ok for one in verify_all(project.storage, project.owner))
    session = workbench.session()
    insert_many(2)
    assert session.execute("SELECT count(*) FROM m").rows()[0][0] == 240
    # (One of before the copy is there until it is a day old.)
    memory = max((warehouse / "_streams/main/m/memory").iterdir(), key=lambda path: path.stat().st_mtime_ns)
    for spoil, what in (
        (lambda: memory.write_bytes(b"PAR1"), "it can't be read: "),
        (memory.unlink, "it is missing"),
    ):
        spoil()
        ((problem,),) = (
            one.problems for one in verify_all(project.storage, project.owner) if one.name == "m"
        )
        assert problem.file.endswith(memory.name)
        assert problem.what.startswith(what)


def test_a_view_is_read_as_it_was_at_a_time(project: Project, session: Session) -> None:
    """By the lines of docs/backup.md."""
    before = session.execute("SELECT window_end, n FROM v ORDER BY window_end").rows()
    time.sleep(0.05)
    then = time.time()
    insert(session, 2)
    assert len(session.execute("SELECT * FROM v").rows()) == len(before) + 1
    text = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(then)) + f"{then % 1:.3f}"[1:]
    found = (
        session.spark.read.option("timestampAsOf", text).table("tidegate.main.v").select("window_end", "n")
    )
    found.writeTo("tidegate.main.v_then").create()
    kept = session.spark.table("tidegate.main.v_then").orderBy("window_end").collect()
    assert [tuple(row) for row in kept] == [tuple(row) for row in before]


def test_TG607_what_has_no_catalog_in_its_folder_is_not_copied_so(tmp_path: Path) -> None:
    (tmp_path / "assets").mkdir()
    with pytest.raises(TidegateError) as caught:
        back_up(Project.load(tmp_path), tmp_path / "copy")
    assert (caught.value.code, "migrate" in str(caught.value.hint)) == ("TG607", True)
    (tmp_path / "resources").mkdir()
    catalog = {"type": "jdbc", "uri": "jdbc:sqlite:elsewhere.db"}
    (tmp_path / "resources" / "local.yaml").write_text(json.dumps({"warehouse": {"catalog": catalog}}))
    with pytest.raises(TidegateError) as caught:
        back_up(Project.load(tmp_path), tmp_path / "copy")
    assert (caught.value.code, "elsewhere.db is not in the folder" in caught.value.message) == ("TG607", True)
    assert not (tmp_path / "copy").exists()


def test_TG607_no_copy_is_put_where_a_source_reads_it(workbench: Workbench) -> None:
    workbench.assets(
        s="CREATE SOURCE s (id INT) WITH (connector = 'filesystem', path = 'in/*/*.json') FORMAT PLAIN ENCODE JSON;"
        "CREATE SOURCE f (id INT) WITH (connector = 'filesystem', path = 'one/a.json') FORMAT PLAIN ENCODE JSON;"
    ).with_catalog(CATALOG)
    (workbench.root / ".tidegate" / "warehouse").mkdir(parents=True)
    project = Project.load(workbench.root)
    for target in (workbench.root / "in" / "copies", workbench.root / "in"):
        with pytest.raises(TidegateError) as caught:
            back_up(project, target)
        assert (caught.value.code, 'the folder that "s" reads' in caught.value.message) == ("TG607", True)
        assert not target.exists()
    with pytest.raises(TidegateError) as caught:
        back_up(project, workbench.root / "one" / "copies")
    assert caught.value.code == "TG620"  # nothing is stored yet
