"""`tidegate backup` in single steps: what it copies, that it never removes anything else, and that a command which
breaks off leaves the copy that was there (R2)."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.conftest import Workbench
from tidegate.audit import backup, backup_place
from tidegate.audit.backup import Backup, back_up
from tidegate.audit.stored_files import verify_all
from tidegate.errors import TidegateError
from tidegate.maintenance.erasing import Erasing, ErasingFile
from tidegate.project import Project
from tidegate.store import sqlite_catalog
from tidegate.store.metadata import load_table

if TYPE_CHECKING:
    from tidegate.session.session import Session

pytestmark = pytest.mark.runner("inprocess")

SQL = """CREATE TABLE t (id INT, ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL '5 seconds') APPEND ONLY;
CREATE MATERIALIZED VIEW v AS SELECT window_end, count(*) AS n FROM TUMBLE(t, ts, INTERVAL '10 seconds')
GROUP BY window_end EMIT ON WINDOW CLOSE;
CREATE SINK s FROM v WITH (connector = 'filesystem', path = 'out') FORMAT PLAIN ENCODE JSON;
"""
CATALOG = {"type": "jdbc", "uri": "jdbc:sqlite:.tidegate/warehouse/catalog.db"}


def catalog_of(warehouse: Path) -> None:
    """A new catalog in SQLite, which names the newest metadata of the tables that are there."""
    sqlite_catalog.prepare(file := warehouse / "catalog.db")
    for folder in sorted((warehouse / "main").glob("*/metadata")):
        newest = max(folder.glob("*.metadata.json"), key=lambda one: int(one.name[1:].partition(".")[0]))
        sqlite_catalog.register(file, "main", folder.parent.name, f"file:{newest}", lambda where: True)


class Shop:
    """Tables that a run without a JVM makes in a folder, and a catalog in SQLite that names the newest of them."""

    def __init__(self, workbench: Workbench, target: Path) -> None:
        self.root, self.target, self._minutes = workbench.root, target, iter(range(60))
        self.session: Session = workbench.assets(t=SQL).session()
        workbench.with_catalog(CATALOG)
        self.insert()

    @property
    def project(self) -> Project:
        return Project.load(self.root)

    @property
    def warehouse(self) -> Path:
        return self.root / ".tidegate" / "warehouse"

    @property
    def copy(self) -> Path:
        return self.target / "copy"

    def insert(self) -> None:
        for catalog in self.warehouse.glob("catalog.db*"):
            catalog.unlink()
        for minute in [next(self._minutes) for _ in range(2)]:
            self.session.execute(
                f"INSERT INTO t VALUES (1, '2026-01-01 10:{minute:02}:00'), (2, NULL); FLUSH"
            )
        catalog_of(self.warehouse)

    def back_up(self) -> Backup:
        return back_up(self.project, self.target)

    def refused(self) -> TidegateError:
        with pytest.raises(TidegateError) as caught:
            self.back_up()
        return caught.value

    def restore(self) -> None:
        shutil.rmtree(self.warehouse)
        shutil.copytree(self.copy / "warehouse", self.warehouse, symlinks=True)

    def problems(self) -> dict[str, int]:
        project = self.project
        return {one.name: one.wrong for one in verify_all(project.storage, project.owner)}


@pytest.fixture
def shop(workbench: Workbench, tmp_path: Path) -> Shop:
    return Shop(workbench, tmp_path / "backups" / "shop")


def content(folder: Path) -> dict[str, bytes]:
    return {str(one.relative_to(folder)): one.read_bytes() for one in folder.rglob("*") if one.is_file()}


def before_copying(monkeypatch: pytest.MonkeyPatch, act: Callable[[Path], None]) -> None:
    """Before a file is copied, something happens."""
    real = shutil.copy2

    def copying(path: Path, into: Path, **more: Any) -> Any:
        act(path)
        return real(path, into, **more)

    monkeypatch.setattr(backup_place.shutil, "copy2", copying)


def test_R2_a_copy_is_whole_and_the_next_one_links_what_is_the_same(shop: Shop) -> None:
    first = shop.back_up()
    assert (first.tables, first.sinks, first.copied) == (["main.t", "main.v"], ["s"], first.files)
    stood = content(shop.copy)
    shop.insert()
    second = shop.back_up()
    assert 0 < second.copied < second.files
    assert sorted(os.listdir(shop.target)) == ["copy", "tidegate-backup.json"]
    known = load_table(shop.project.storage, "v")
    shop.insert()
    shop.restore()
    found = load_table(shop.project.storage, "v")
    assert shop.problems() == {"t": 0, "v": 0}
    assert (found and found.snapshot_id) == (known and known.snapshot_id)
    assert content(shop.copy).keys() > {name for name in stood if name.endswith(".parquet")}


@pytest.mark.parametrize(
    "place", ["", ".tidegate", ".tidegate/warehouse", ".tidegate/warehouse/main/t/x", "out/x"]
)
@pytest.mark.parametrize("linked", [False, True])
def test_TG607_nothing_is_copied_into_what_is_in_use(
    shop: Shop, tmp_path: Path, place: str, linked: bool
) -> None:
    shop.target = shop.root / place
    if linked:
        (tmp_path / "link").symlink_to(shop.root, target_is_directory=True)
        shop.target = tmp_path / "link" / place
    stood = content(shop.root)
    error = shop.refused()
    assert (error.code, "no copy is put there" in error.message) == ("TG607", True)
    assert content(shop.root) == stood


def test_TG607_a_folder_that_has_something_else_is_left_as_it_is(shop: Shop, tmp_path: Path) -> None:
    shop.target.mkdir(parents=True)
    (shop.target / "copy").mkdir()
    (shop.target / "copy" / "letters").write_text("mine")
    assert (shop.refused().code, content(shop.target)) == ("TG607", {"copy/letters": b"mine"})
    shutil.rmtree(shop.target)
    shop.back_up()
    marker, stood = shop.target / "tidegate-backup.json", content(shop.target)
    marker.write_text(json.dumps({"warehouse": "/srv/another"}))
    assert "a copy of other tables, those in /srv/another" in shop.refused().message
    marker.write_text("?")
    assert "can't be read" in shop.refused().message
    marker.write_bytes(stood["tidegate-backup.json"])
    assert content(shop.target) == stood
    with backup_place.CopyPlace.opened(shop.target, shop.warehouse):
        assert "another process copies into" in shop.refused().message


def test_R2_a_sink_that_delivers_meanwhile_has_the_files_of_its_position(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, position = shop.root / "out", shop.root / "out" / "_tidegate" / "position.json"
    seen: list[Path] = []

    def deliver(path: Path) -> None:
        if path.is_relative_to(out) and not seen:
            seen.append(path)
            (out / "later.jsonl").write_text("{}")
            position.write_text(position.read_text().replace('"tick": ', '"tick": 9'))

    before_copying(monkeypatch, deliver)
    shop.back_up()
    assert seen
    assert content(shop.copy / "sinks" / "s") == content(out)
    # As long, and written in the same second: it is another position all the same.
    facts = position.stat()
    position.write_text(position.read_text().replace('"tick": 9', '"tick": 8'))
    os.utime(position, ns=(facts.st_atime_ns, facts.st_mtime_ns))
    shop.back_up()
    assert content(shop.copy / "sinks" / "s") == content(out)


def test_R2_a_file_of_the_same_second_and_length_is_another_one(shop: Shop) -> None:
    shop.back_up()
    file = min((shop.root / "out").glob("*.jsonl"))
    facts = file.stat()
    file.write_bytes(b"x" * facts.st_size)
    os.utime(file, ns=(facts.st_atime_ns, facts.st_mtime_ns + 1000))
    shop.back_up()
    assert content(shop.copy / "sinks" / "s") == content(shop.root / "out")


def test_R2_a_command_that_breaks_off_leaves_the_earlier_copy(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.back_up()
    stood, seen, broken = content(shop.copy), list[Path](), 0
    shop.insert()

    def fail(path: Path) -> None:
        seen.append(path)
        if len(seen) % 7 == 0:
            raise OSError("no space")

    before_copying(monkeypatch, fail)
    while True:
        seen[:] = seen[: broken % 7]
        try:
            shop.back_up()
            break
        except OSError:
            assert content(shop.copy) == stood
            broken += 1
            if broken == 6:
                monkeypatch.undo()
    assert broken == 6
    shop.restore()
    assert shop.problems() == {"t": 0, "v": 0}


@pytest.mark.parametrize("killed_at", [0, 1, 2])
def test_R2_a_kill_at_any_rename_leaves_a_whole_copy_which_the_next_command_finds(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, killed_at: int
) -> None:
    """The two renames, and the removal behind them; what is being made is not removed by one who is killed."""
    shop.back_up()
    stood = content(shop.copy)
    shop.insert()
    real, done = Path.rename, []

    class Killed(BaseException):
        pass

    def renaming(path: Path, to: Path) -> Any:
        if len(done) == killed_at:
            raise Killed
        done.append(to)
        return real(path, to)

    def removing(folder: Path) -> None:
        if len(done) == 2 or folder.name == ".new":
            raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", renaming)
        patch.setattr(
            backup_place, "_remove", lambda folder: removing(folder) if done or killed_at == 0 else None
        )
        with pytest.raises(Killed):
            shop.back_up()
    left = shop.copy if shop.copy.exists() else shop.target / "former"
    assert (content(left) == stood) == (killed_at < 2)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(backup._Copy, "made", lambda copy: (_ for _ in ()).throw(OSError("no space")))
        with pytest.raises(OSError, match="no space"):
            shop.back_up()
    assert (content(shop.copy) == stood) == (killed_at < 2)
    shop.restore()
    assert shop.problems() == {"t": 0, "v": 0}
    assert sorted(os.listdir(shop.target)) == ["copy", "tidegate-backup.json"]


def test_TG573_nothing_is_copied_while_an_erasure_is_not_finished(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = ErasingFile(shop.project.storage, "t")
    intent = Erasing("e", "id = 1", (), "ada", "2026-03-01T09:10:00+00:00")
    file.write(intent)
    assert shop.refused().code == "TG573"
    file.remove()
    real = sqlite_catalog.copy

    def copying(*given: Path) -> Any:
        file.write(intent)
        return real(*given)

    monkeypatch.setattr(sqlite_catalog, "copy", copying)
    assert (shop.refused().code, shop.copy.exists()) == ("TG573", False)


def test_R2_earlier_metadata_which_commits_remove_are_not_missed(shop: Shop) -> None:
    for file in (shop.warehouse / "main" / "t" / "metadata").glob("v*.metadata.json"):
        if f"file:{file}" != sqlite_catalog.location(shop.warehouse / "catalog.db", "main", "t"):
            file.unlink()
    assert shop.problems() == {"t": 0, "v": 0}
    shop.back_up()
    shop.restore()
    assert shop.problems() == {"t": 0, "v": 0}


def test_R2_a_file_that_is_removed_meanwhile_lets_the_copy_begin_again_and_reads_nothing_twice(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pyiceberg.manifest import ManifestFile

    gone: list[Path] = []
    read: list[str] = []
    real = ManifestFile.fetch_manifest_entry

    def once(path: Path) -> None:
        if path.suffix == ".parquet" and path not in gone and len(gone) < 3:
            gone.append(path)
            raise FileNotFoundError(path)

    def fetching(manifest: ManifestFile, *given: Any, **more: Any) -> Any:
        read.append(manifest.manifest_path)
        return real(manifest, *given, **more)

    before_copying(monkeypatch, once)
    monkeypatch.setattr(ManifestFile, "fetch_manifest_entry", fetching)
    shop.back_up()
    assert (len(gone), len(read)) == (3, len(set(read)))
    shop.restore()
    assert shop.problems() == {"t": 0, "v": 0}


def test_TG620_a_file_that_is_really_missing_is_named(shop: Shop) -> None:
    file = min((shop.warehouse / "main" / "t").rglob("*.parquet"))
    file.unlink()
    error = shop.refused()
    assert (error.code, str(file) in error.message, "verify" in str(error.hint)) == ("TG620", True, True)


def test_links_are_followed_and_those_that_lead_nowhere_stay_links(shop: Shop, tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    shutil.move(shop.warehouse, tmp_path / "disk")
    shop.warehouse.symlink_to(tmp_path / "disk" / "warehouse", target_is_directory=True)
    shutil.move(shop.warehouse / "main" / "t", tmp_path / "disk" / "t")
    (shop.warehouse / "main" / "t").symlink_to(tmp_path / "disk" / "t", target_is_directory=True)
    streams = shop.warehouse / "_streams"
    (tmp_path / "disk" / "plans").mkdir()
    (tmp_path / "disk" / "plans" / "plan").write_text("1")
    (streams / "linked").symlink_to(tmp_path / "disk" / "plans", target_is_directory=True)
    (tmp_path / "disk" / "plans" / "round").symlink_to(tmp_path / "disk" / "plans", target_is_directory=True)
    (shop.root / "out" / "nowhere").symlink_to(tmp_path / "nothing")
    shop.back_up()
    assert (shop.copy / "warehouse" / "_streams" / "linked" / "plan").read_text() == "1"
    assert os.readlink(shop.copy / "sinks" / "s" / "nowhere") == str(tmp_path / "nothing")
    shop.warehouse.unlink()
    shutil.copytree(shop.copy / "warehouse", shop.warehouse, symlinks=True)
    assert shop.problems() == {"t": 0, "v": 0}


def test_records_beside_the_tables_are_copied_and_recordings_are_not(shop: Shop) -> None:
    for name in ("_quality", "_replay"):
        (shop.warehouse / name / "main").mkdir(parents=True)
        (shop.warehouse / name / "main" / "one.json").write_text("{}")
    shop.back_up()
    assert (shop.copy / "warehouse" / "_quality" / "main" / "one.json").is_file()
    assert not (shop.copy / "warehouse" / "_replay").exists()


def test_TG620_a_catalog_that_is_empty_has_no_tables_and_errors_name_the_right_file(
    tmp_path: Path,
) -> None:
    with closing(sqlite3.connect(tmp_path / "empty.db")) as empty:
        empty.execute("PRAGMA user_version = 1")
    assert sqlite_catalog.copy(tmp_path / "empty.db", tmp_path / "copied.db") == {}
    (tmp_path / "broken.db").write_text("no catalog " * 1000)
    with pytest.raises(TidegateError) as caught:
        sqlite_catalog.copy(tmp_path / "broken.db", tmp_path / "copied.db")
    assert "broken.db does not answer" in caught.value.message
    with pytest.raises(TidegateError) as caught:
        sqlite_catalog.copy(tmp_path / "empty.db", tmp_path / "no" / "copied.db")
    assert f"to {tmp_path / 'no' / 'copied.db'}: " in caught.value.message
