"""Tables that were restored without the folder of their sink, or the folder without them: nothing is delivered that
would be there twice, or be missing, and `tidegate verify` finds it (R2)."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

from tests.conftest import Workbench
from tests.sinks.made import FILES, TABLE, VIEW, delivered, insert, starts
from tidegate.cli.main import app
from tidegate.errors import TidegateError
from tidegate.plan.versions import HIGHEST
from tidegate.project import Project, Storage
from tidegate.sinks.upstream import Upstream
from tidegate.store.positions import KnownCommits, Position, files_beyond

if TYPE_CHECKING:
    from tidegate.session.session import Session

pytestmark = pytest.mark.runner("inprocess")

SINKS = "".join(
    f"CREATE SINK {name} FROM {of} {FILES.format('JSON').replace('out', name)};\n"
    for name, of in (("s", "v"), ("logged", "t"))
)


class Restored:
    """A project, and a copy of its tables and of the sinks' folders after the first of two deliveries."""

    def __init__(self, workbench: Workbench, copies: Path) -> None:
        self.root, self._copies, self._workbench = workbench.root, copies, workbench
        workbench.assets(all=f"{TABLE}\n{VIEW} EMIT ON WINDOW CLOSE;\n{SINKS}")
        session = workbench.session()
        insert(session, 1, 12)
        session.execute("FLUSH")
        for name in (".tidegate/warehouse", "s", "logged"):
            shutil.copytree(self.root / name, copies / name)
        insert(session, 25, 26)
        session.execute("FLUSH")

    def restore(self, *names: str) -> Session:
        for name in names:
            shutil.rmtree(self.root / name)
            shutil.copytree(self._copies / name, self.root / name)
        return self._workbench.session()

    def verify(self) -> tuple[int, dict[str, str]]:
        done = CliRunner().invoke(app, ["--project", str(self.root), "--json", "verify", "--files"])
        return done.exit_code, json.loads(done.stdout)["sinks"]


@pytest.fixture
def restored(workbench: Workbench, tmp_path: Path) -> Restored:
    return Restored(workbench, tmp_path / "copies")


def test_R2_a_sink_that_has_delivered_what_is_not_stored_is_found_and_refuses(restored: Restored) -> None:
    assert restored.verify() == (0, {})
    session = restored.restore(".tidegate/warehouse")
    code, problems = restored.verify()
    assert (code, problems.keys()) == (1, {"s", "logged"})
    assert problems["s"].startswith(
        "it has delivered up to commit 2 of v, which does not have this commit: s and"
    )
    for name in ("s", "logged"):
        with pytest.raises(TidegateError) as caught:
            session.run([name])
        assert (caught.value.code, "from the same backup" in str(caught.value.hint)) == ("TG542", True)


def test_R2_it_refuses_as_well_when_its_view_has_as_many_commits_again(restored: Restored) -> None:
    """Commit 2 is another one than the one that it has delivered."""
    session = restored.restore(".tidegate/warehouse")
    for minute in (47, 59):
        insert(session, minute)
        with pytest.raises(TidegateError) as caught:
            session.execute("FLUSH")
        assert caught.value.code == "TG542"
    assert restored.verify()[1].keys() == {"s", "logged"}
    assert starts(delivered(restored.root / "s")) == ["10:00", "10:10"]


def test_R2_it_refuses_for_good_also_when_no_commit_tells_any_more(restored: Restored) -> None:
    session = restored.restore(".tidegate/warehouse")
    with pytest.raises(TidegateError, match="TG542"):
        session.run(["s"])
    for minute in (27, 33, 47, 59):
        insert(session, minute)
    session.run(["v"])
    for name in ("t", "v"):
        session.tables.upkeep(session.identifier(name)).expire(1 << 60)
    for _ in range(2):
        with pytest.raises(TidegateError, match="TG542"):
            session.run(["s"])
        assert "s" in restored.verify()[1]
    assert starts(delivered(restored.root / "s")) == ["10:00", "10:10"]
    # With the folder of the same moment it goes on, and so does a new sink of this name.
    session = restored.restore("s")
    session.run(["s"])
    assert starts(delivered(restored.root / "s")) == ["10:00", "10:10", "10:20", "10:30", "10:40"]
    assert "s" not in restored.verify()[1]


def test_R2_whether_a_commit_is_known_is_asked_of_that_one_alone(
    restored: Restored, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = restored.restore()
    sink = next(one for one in session.catalog.sinks if one.name == "s")

    def every(table: object) -> set[int]:
        raise AssertionError("all snapshots were listed")

    monkeypatch.setattr(type(session.tables.open(session.identifier("v"))), "snapshot_ids", every)
    upstream = Upstream.of(session, sink)
    assert upstream is not None
    here = upstream.newest
    assert here.commit is not None
    assert upstream.has_commit(here)
    assert not upstream.has_commit(replace(here, commit=here.commit + 1))
    assert not upstream.has_commit(replace(here, table="another"))


def test_R2_a_position_of_a_version_that_the_table_does_not_have_is_found() -> None:
    def known(**properties: str) -> KnownCommits:
        return KnownCommits("life", properties, {})

    assert Position("life/2", 0).has_left(known())
    assert not Position("other/2", 3).has_left(known())
    # It has gone back from its third version to the first.
    gone_back = {HIGHEST: "3"}
    assert not Position("life/3", 3).has_left(known(**gone_back))
    assert Position("life/4", 3).has_left(known(**gone_back))


def test_R2_files_of_a_delivery_that_ends_meanwhile_are_not_beyond_its_position(
    restored: Restored, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The position is read behind the names of the files."""
    project, position = Project.load(restored.root), restored.root / "s" / "_tidegate" / "position.json"
    sink = next(one for one in project.catalog().sinks if one.name == "s")
    newest = position.read_bytes()
    shutil.copy2(restored.root.parent / "copies" / "s" / "_tidegate" / "position.json", position)
    assert str(files_beyond(project.storage, sink)).endswith("000000000002-000000000002-00000.jsonl")
    listed = []

    class Listing:
        def __init__(self, filesystem: Any) -> None:
            self.filesystem = filesystem

        def get_file_info(self, selector: Any) -> Any:
            found = self.filesystem.get_file_info(selector)
            listed.append(position.write_bytes(newest))
            return found

    def filesystem(storage: Storage, uri: str) -> tuple[Any, str]:
        found, path = opened(storage, uri)
        return (Listing(found) if uri == sink.connector.path else found), path

    opened = Storage.filesystem
    monkeypatch.setattr(Storage, "filesystem", filesystem)
    assert (files_beyond(project.storage, sink), len(listed)) == (None, 1)


def test_R2_a_position_that_is_older_than_its_files_is_found(restored: Restored) -> None:
    newest = restored.root / "s" / "_tidegate" / "position.json"
    shutil.copy2(restored.root.parent / "copies" / "s" / "_tidegate" / "position.json", newest)
    code, problems = restored.verify()
    assert (code, problems.keys()) == (1, {"s"})
    assert problems["s"].endswith(
        "000000000002-000000000002-00000.jsonl is of a delivery that its position does not know"
    )


def test_R2_what_is_restored_together_goes_on_with_every_row_once(restored: Restored) -> None:
    session = restored.restore(".tidegate/warehouse", "s", "logged")
    assert restored.verify() == (0, {})
    # (Rows of INSERT after the copy are gone.)
    insert(session, 33, 47)
    session.execute("FLUSH")
    assert starts(delivered(restored.root / "s")) == ["10:00", "10:10", "10:30"]
    assert [row["n"] for row in delivered(restored.root / "logged")] == [1, 12, 33, 47]
    assert restored.verify() == (0, {})


def test_R2_a_commit_that_has_expired_is_not_missed() -> None:
    """Where no commit before it is known any more, it may have expired, too."""

    def left(position: Position, *ticks: int) -> bool:
        return position.has_left(KnownCommits("life", {}, {100 + tick: tick for tick in ticks}))

    here, elsewhere = Position("life", 3, commit=103), Position("life", 3, commit=999)
    assert not left(here, 5, 4, 3, 2)
    assert left(elsewhere, 5, 4, 3, 2)
    assert not left(elsewhere, 5, 4)
    assert not left(elsewhere, 3)
    assert left(here, 2)
    assert not left(Position("life", 3), 5, 4, 3, 2)
    assert not left(Position("another", 3, commit=999), 5, 4, 3, 2)
    assert here.has_left(None)


@pytest.mark.parametrize("known", [None, 7])
def test_R2_a_position_of_an_earlier_release_knows_no_commit(known: int | None) -> None:
    document = {"table": "t", "tick": 3, "total": 40, "skipped": 0}
    assert Position.of_document(document | ({} if known is None else {"commit": known})).commit == known
