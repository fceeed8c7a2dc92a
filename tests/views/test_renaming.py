"""E1, E2: a view that is renamed keeps its results; nothing is computed again, and nothing is delivered twice."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Workbench
from tests.inprocess.failpoints import Failpoints, Killed
from tests.support import catalogs
from tidegate.audit.backup import back_up
from tidegate.audit.stored_files import verify_all
from tidegate.errors import TidegateError
from tidegate.evolve.planning import PlannedChange, planned
from tidegate.evolve.removed import removed
from tidegate.maintenance.erase import erase
from tidegate.maintenance.upkeep import maintain
from tidegate.project.jobs.maintenance import Policy
from tidegate.project.owner import OWNER, Owner
from tidegate.session.apply import apply
from tidegate.session.session import Session
from tidegate.store.metadata import load_table

pytestmark = pytest.mark.runner("inprocess")

SQLITE = {"type": "jdbc", "uri": "jdbc:sqlite:.tidegate/warehouse/catalog.db"}
ORDERS = "CREATE TABLE t (shop VARCHAR, n INT, ts TIMESTAMP, WATERMARK FOR ts AS ts) APPEND ONLY;"
HOURLY = """CREATE MATERIALIZED VIEW {name} AS SELECT window_end, {what} AS x FROM TUMBLE(t, ts, INTERVAL '1 hour')
GROUP BY window_end EMIT ON WINDOW CLOSE;"""
SINK = "CREATE SINK out FROM {name} WITH (connector = 'filesystem', path = 'out') FORMAT PLAIN ENCODE JSON;"


def opened(workbench: Workbench, name: str, what: str = "count(*)", **more: str) -> Session:
    """`name`: of the view, with RENAMED FROM if it has that."""
    sink = SINK.format(name=name.partition(" ")[0])
    workbench.assets(**{"t": ORDERS, "v": HOURLY.format(name=name, what=what), "s": sink, **more})
    return workbench.session()


def with_renames(workbench: Workbench) -> Workbench:
    """On Spark in the catalog that was chosen for all tests, else in SQLite: a folder has no other name for a table."""
    is_chosen = catalogs.chosen() and workbench._spark is not None
    return workbench if is_chosen else workbench.with_catalog(SQLITE)


@pytest.fixture
def begun(workbench: Workbench) -> Session:
    """A view `old` with two windows, which `out` has delivered."""
    session = opened(with_renames(workbench), "old")
    inserted(session, "00:00", "01:00", "02:00")
    session.run()
    return session


def inserted(session: Session, *times: str) -> None:
    for time in times:
        session.execute(f"INSERT INTO t VALUES ('a', 5, '2026-01-01 {time}:00')")


def delivered(workbench: Workbench) -> list[str]:
    files = sorted((workbench.root / "out").glob("*.jsonl"))
    return sorted(
        json.loads(line)["window_end"][11:16] for file in files for line in file.read_text().splitlines()
    )


def changes(session: Session) -> dict[str, PlannedChange]:
    return {one.name: one for one in planned(session.project, session.project.catalog())}


def facts(session: Session, name: str) -> Any:
    """What stays the same: uuid, newest snapshot, place and number of files."""
    table = load_table(session.project.storage, name)
    return None if table is None else (table.uuid, table.snapshot_id, table.location, table.held)


def values(session: Session, name: str) -> list[int]:
    return [row[1] for row in sorted(session.table(name).collect())]


def problems(session: Session) -> list[str]:
    found = verify_all(session.project.storage, session.project.owner)
    return [problem.file for table in found for problem in table.problems]


@pytest.mark.runner("inprocess", "spark")
def test_E1_a_view_that_is_renamed_keeps_its_results_and_its_sinks_continue(
    workbench: Workbench, begun: Session
) -> None:
    before, of_sink = facts(begun, "old"), delivered(workbench)
    assert of_sink == ["01:00", "02:00"]
    session = opened(workbench, "new RENAMED FROM old")
    plan = changes(session)
    assert {name: one.effect for name, one in plan.items()} == {
        "t": "unchanged",
        "new": "in place",
        "out": "unchanged",
    }
    assert (plan["new"].what, plan["new"].rows) == (('"old" is renamed, and keeps its results',), 0)
    assert plan["new"].command == "tidegate run"
    assert removed(session.project, session.catalog) == []
    done = apply(session)
    assert [view.groups for run in done.runs for view in run.views] == [0]
    assert (facts(session, "new"), facts(session, "old")) == (before, None)
    assert {one.effect for one in changes(session).values()} == {"unchanged"}
    # RENAMED FROM may stay or go; the sink continues behind what it has delivered.
    for name in ("new RENAMED FROM old", "new"):
        session = opened(workbench, name)
        assert {one.effect for one in changes(session).values()} == {"unchanged"}
        inserted(session, "03:00" if "RENAMED" in name else "04:00")
        session.run()
    assert delivered(workbench) == [*of_sink, "03:00", "04:00"]
    assert values(session, "new") == [1, 1, 1, 1]
    assert problems(session) == []


@pytest.mark.runner("inprocess", only=True)
def test_R2_a_rename_that_is_killed_anywhere_is_completed(new_workbench: Any) -> None:
    points = 1
    number = -1
    while number < points:
        workbench = with_renames(new_workbench())
        session = opened(workbench, "old")
        inserted(session, "00:00", "01:00", "02:00")
        session.run()
        before = facts(session, "old")
        session = opened(workbench, "new RENAMED FROM old")
        with Failpoints(number if number >= 0 else None).armed() as watched:
            try:
                session.run()
            except Killed:
                assert number >= 0
        if number < 0:
            points = len(watched.passed)
            assert "before InProcessTables.rename_table" in watched.passed
        session = opened(workbench, "new RENAMED FROM old")
        inserted(session, "03:00")
        session.run()
        after = facts(session, "new")
        assert (after[0], after[2], facts(session, "old")) == (before[0], before[2], None)
        assert delivered(workbench) == ["01:00", "02:00", "03:00"]
        number += 1


@pytest.mark.runner("inprocess", "spark", long_run="spark")
def test_E2_a_later_view_of_the_old_name_has_files_of_its_own(workbench: Workbench, begun: Session) -> None:
    session = opened(workbench, "new RENAMED FROM old")
    session.run()
    again = HOURLY.format(name="old", what="sum(n)")
    with pytest.raises(TidegateError, match="TG204") as failed:
        opened(workbench, "new RENAMED FROM old", again=again)
    assert failed.value.location is not None
    assert failed.value.location.line == 1
    session = opened(workbench, "new", again=again)
    inserted(session, "03:00")
    session.run()
    assert (values(session, "new"), values(session, "old")) == ([1, 1, 1], [5, 5, 5])
    places = [load_table(session.project.storage, name) for name in ("old", "new")]
    folders = [table.location for table in places if table is not None]
    assert folders[1].endswith("/main/old")
    assert folders[0].startswith(f"{folders[1]}-")
    # Neither upkeep of one of them nor its end touches the other one.
    policy, later = Policy(keep_snapshots=0, orphans_after=0), datetime.now(UTC) + timedelta(days=2)
    for name in ("old", "new"):
        maintain(session, name, policy, now=later.timestamp(), guard=0, orphans=True)
    assert (values(session, "new"), values(session, "old"), problems(session)) == ([1, 1, 1], [5, 5, 5], [])
    session.confirm = lambda what: True
    session.forget("old")
    assert (facts(session, "old"), values(session, "new"), problems(session)) == (None, [1, 1, 1], [])
    session = opened(workbench, "new", again=again)
    session.run()
    assert values(session, "old") == [5, 5, 5]
    session.forget("new")
    assert not Path(folders[1].removeprefix("file:")).exists()
    assert (values(session, "old"), problems(session)) == ([5, 5, 5], [])


def test_E1_what_can_not_be_renamed_is_refused(workbench: Workbench, begun: Session) -> None:
    before = facts(begun, "old")
    session = opened(workbench, "new RENAMED FROM old", "sum(n)")
    plan = changes(session)["new"]
    assert plan.effect == "refused"
    assert plan.what == ('"old" can\'t be renamed to "new": its query has changed, too',)
    with pytest.raises(TidegateError, match="TG534"):
        apply(session)
    with pytest.raises(TidegateError, match="TG506") as failed:
        session.run()
    assert failed.value.location is not None
    assert failed.value.location.column == 26
    assert (facts(session, "old"), facts(session, "new")) == (before, None)


def test_E1_a_view_that_is_dropped_and_added_under_another_name_is_told_of_it(
    workbench: Workbench, begun: Session
) -> None:
    session = opened(workbench, "new")
    assert changes(session)["new"].effect == "new"
    (gone,) = removed(session.project, session.project.catalog())
    assert gone.name == "old"
    assert gone.command is not None
    assert "new RENAMED FROM old" in gone.command
    assert changes(session)["out"].effect == "refused"  # it has delivered `old`


@pytest.mark.runner("inprocess", only=True)
def test_E1_a_folder_has_no_other_name_for_a_table(workbench: Workbench) -> None:
    session = opened(workbench, "old")
    inserted(session, "00:00", "01:00", "02:00")
    session.run()
    session = opened(workbench, "new RENAMED FROM old")
    assert changes(session)["new"].effect == "refused"
    with pytest.raises(TidegateError, match="TG607"):
        session.run()
    assert values(opened(workbench, "old"), "old") == [1, 1]


def test_X3_a_table_of_another_project_is_not_renamed(workbench: Workbench, begun: Session) -> None:
    table = begun.tables.open(begun.identifier("old"))
    table.set_properties({OWNER: Owner("another", "local").to_text()})
    session = opened(workbench, "new RENAMED FROM old")
    with pytest.raises(TidegateError, match="TG531"):
        session.run()
    assert facts(session, "new") is None


def test_R2_a_writer_that_has_the_old_name_open_commits_nothing(workbench: Workbench, begun: Session) -> None:
    """On another machine: its leases are not ours."""
    table = begun.tables.open(begun.identifier("old"))
    base = table.current()
    opened(workbench, "new RENAMED FROM old").run()
    with pytest.raises(Exception, match="old"):
        table.append([], None, {"tidegate.tick": "9"}, base)
    assert facts(begun, "old") is None


def test_E5_an_earlier_version_stays_readable_under_the_new_name(
    workbench: Workbench, begun: Session
) -> None:
    session = opened(workbench, "old", "sum(n)", s="")
    session.confirm = lambda what: True
    apply(session)
    session = opened(workbench, "new RENAMED FROM old", "sum(n)", s="")
    session.run(["new"])
    assert values(session, "new") == [5, 5]
    earlier = session.execute('SELECT x FROM "new$v1"').rows()
    assert [row[0] for row in earlier] == [1, 1]


@pytest.mark.runner("inprocess", only=True)
def test_E9_a_backup_has_the_files_of_a_renamed_view(
    workbench: Workbench, begun: Session, tmp_path: Path
) -> None:
    session = opened(workbench, "new RENAMED FROM old")
    session.run()
    done = back_up(session.project, tmp_path / "copy")
    assert "main.new" in done.tables
    assert "main.old" not in done.tables
    assert list((tmp_path / "copy").rglob("_renamed/main/old.json"))


READER = """CREATE MATERIALIZED VIEW daily AS SELECT window_end, sum({of}.x) AS x
FROM TUMBLE({of}, window_end, INTERVAL '2 hours') GROUP BY window_end EMIT ON WINDOW CLOSE;"""
PLAIN = "CREATE MATERIALIZED VIEW plain AS SELECT {of}.window_end, {of}.x FROM {of} EMIT ON WINDOW CLOSE;"


@pytest.mark.runner("inprocess", "spark", long_run="spark")
def test_E1_what_reads_a_renamed_view_is_not_computed_again(workbench: Workbench) -> None:
    def readers(of: str) -> dict[str, str]:
        return {"daily": READER.format(of=of), "plain": PLAIN.format(of=of)}

    session = opened(with_renames(workbench), "old", **readers("old"))
    inserted(session, *(f"0{hour}:00" for hour in range(6)))
    session.run()
    before = {name: facts(session, name)[0] for name in ("old", "daily", "plain")}
    assert (values(session, "daily"), len(values(session, "plain"))) == ([1, 2, 2], 5)
    session = opened(workbench, "new RENAMED FROM old", **readers("new"))
    plan = changes(session)
    assert {plan[name].effect for name in ("new", "daily", "plain", "out")} == {"in place", "unchanged"}
    assert plan["daily"].what == ("what it reads has another name, and the same results",)
    # A reader alone lets the view have its name first.
    session.run(["daily"], upstream=False)
    apply(session)
    assert {one.effect for one in changes(session).values()} == {"unchanged"}
    for name in ("new RENAMED FROM old", "new"):
        session = opened(workbench, name, **readers("new"))
        inserted(session, "06:00" if "RENAMED" in name else "08:00")
        session.run()
    assert values(session, "daily") == [1, 2, 2, 2]
    assert values(session, "plain") == [1] * 7
    assert {name: facts(session, name)[0] for name in ("new", "daily", "plain")} == {
        "new": before["old"],
        "daily": before["daily"],
        "plain": before["plain"],
    }
    assert problems(session) == []


def test_E1_a_reader_whose_query_has_changed_too_is_a_new_version(
    workbench: Workbench, begun: Session
) -> None:
    opened(workbench, "old", plain=PLAIN.format(of="old")).run()
    changed = PLAIN.format(of="new").replace("new.x FROM", "new.x + 1 AS y FROM")
    session = opened(workbench, "new RENAMED FROM old", plain=changed)
    assert (changes(session)["new"].effect, changes(session)["plain"].effect) == ("in place", "new version")
    session.confirm = lambda what: True
    apply(session)
    assert values(session, "plain") == [2, 2]
    assert {one.effect for one in changes(session).values()} == {"unchanged"}


def test_E5_a_reader_of_other_results_does_not_follow_a_name(workbench: Workbench, begun: Session) -> None:
    """What it has read had this name later, and was another view."""
    opened(workbench, "new RENAMED FROM old").run()
    again = HOURLY.format(name="old", what="sum(n)")
    session = opened(workbench, "new", again=again, plain=PLAIN.format(of="old"))
    session.run()
    session.confirm = lambda what: True
    session.forget("old")
    session = opened(workbench, "new RENAMED FROM old", again="", plain=PLAIN.format(of="new"))
    assert changes(session)["plain"].effect == "new version"
    with pytest.raises(TidegateError, match="TG506"):
        session.run()


def test_E9_an_erasure_knows_who_has_read_a_view_by_its_former_name(
    workbench: Workbench, begun: Session
) -> None:
    opened(workbench, "old", plain=PLAIN.format(of="old")).run()
    session = opened(workbench, "new RENAMED FROM old", s="", plain="")
    # Before the rename it is a table that no file defines, and afterwards its reader still is.
    for left in ("old: a stored table", "plain: a stored table"):
        with pytest.raises(TidegateError, match=rf"(?s)TG571.*{left}"):
            erase(session, "t", "shop = 'a'", keep_aggregates=True)
        session.run()


@pytest.mark.parametrize(
    ("text", "column"),
    [("v RENAMED FROM V", 41), ("v RENAMED FROM t", 41), ("v RENAMED old", 36), ("v RENAMED FROM", 41)],
)
def test_a_former_name_that_makes_no_sense_is_told_where_it_stands(
    workbench: Workbench, text: str, column: int
) -> None:
    with pytest.raises(TidegateError, match=r"TG204|TG10") as failed:
        opened(workbench, text)
    assert failed.value.location is not None
    assert (failed.value.location.file, failed.value.location.line) == ("assets/v.sql", 1)
    assert failed.value.location.column == column
