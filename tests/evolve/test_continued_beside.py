"""E5: what else is done with a view while it continues over the columns of before: live mode and a command beside it,
amendments, going back, erasures, kills, branches."""

from __future__ import annotations

import json
from contextlib import nullcontext
from typing import Any
from unittest.mock import Mock

import pytest

from tests.conftest import Workbench
from tests.evolve.test_apply import shown
from tests.evolve.test_apply_at import waiting
from tests.evolve.test_continued import (
    NEW,
    OLD,
    READER,
    SUM,
    TABLE,
    WATERMARK,
    continued,
    deployed,
    insert,
    opened,
    results,
    version,
)
from tests.inprocess.failpoints import Failpoints, Killed
from tidegate.amend.run import amend
from tidegate.audit.view import audit_view
from tidegate.errors import TidegateError
from tidegate.evolve.beside_live import replacing
from tidegate.maintenance.erase import erase
from tidegate.plan.events import MemberFailed, MemberRecovered
from tidegate.session.apply import apply
from tidegate.session.live import LiveGroup
from tidegate.session.run import run_sink
from tidegate.session.session import Session
from tidegate.session.turns import Retries
from tidegate.sql.catalog.objects import View
from tidegate.tables.table import KeyedTable
from tidegate.views.amend.rollback import rollback
from tidegate.views.versions import held
from tidegate.views.versions.build import VersionBuild
from tidegate.views.versions.in_force import open_current

pytestmark = pytest.mark.runner("inprocess")


def test_E5_live_mode_continues_beside_a_command_that_builds_the_new_version(
    workbench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing of it fails, from the change of the log to behind the swap."""
    monkeypatch.setattr(held, "kept_apart", lambda *_: nullcontext())
    deployed(workbench, r=READER)
    session = opened(workbench, NEW, SUM.format("total * 10"), r=READER)
    told: list[Any] = []
    with replacing(session, ["v", "r"]):
        # (The one that begins when it is asked to take up the definitions.)
        running = LiveGroup(workbench.session(), retries=Retries(first=0.0, longest=0.0))
        session.run(["t"])
        for hour in (3, 4):
            insert(session, (hour, hour + 1))
            running.tick(told.append)
        assert results(session, "r") == [(hour, hour + 1000) for hour in range(1, 5)]
        view = session.catalog.get("v")
        assert isinstance(view, View)
        version = VersionBuild(session, view)
        while version.advance():
            pass
        insert(session, (5, 6))
        running.tick(told.append)
        assert results(session)[-1] == (5, 5)
        assert not version.swapped()
        version.advance()
        assert version.swapped()
        insert(session, (6, 7))
        for _ in range(3):
            running.tick(told.append)
        assert results(session)[-2:] == [(5, 50), (6, 60)]
    assert {one.name for one in told if isinstance(one, MemberFailed)} <= {"v", "r"}
    assert [one.code for one in told if isinstance(one, MemberFailed) and one.name == "v"] in ([], ["TG502"])
    session.confirm = lambda text: True
    apply(session)
    told.clear()
    insert(session, (7, 8))
    for _ in range(3):
        running.tick(told.append)
    assert [one for one in told if isinstance(one, MemberFailed)] == []
    assert results(session, "r")[-1] == (7, 1070)


def test_E5_live_mode_that_finds_the_change_says_once_that_nobody_has_decided_on_the_view(
    workbench: Workbench,
) -> None:
    deployed(workbench)
    session = opened(workbench, NEW, SUM.format("total"))
    session.run(["t"])
    running, told = LiveGroup(workbench.session()), list[Any]()
    for hour in (3, 4):
        insert(session, (hour, hour + 1))
        running.tick(told.append)
    assert results(session)[-1] == (4, 4)
    (failed,) = [one for one in told if isinstance(one, MemberFailed)]
    assert (failed.name, failed.code, failed.retry_seconds) == ("v", "TG506", 0)
    assert running.failing == ("v",)
    # The rename is undone, and so is the query: it is what it was.
    session = opened(workbench, "k VARCHAR, n INT RENAMED FROM total, m INT", SUM.format("n"))
    session.run(["t"])
    running = LiveGroup(workbench.session())
    told.clear()
    insert(session, (5, 6))
    running.tick(told.append)
    assert (results(session)[-1], running.failing) == ((5, 5), ())
    assert not [one for one in told if isinstance(one, MemberFailed | MemberRecovered)]
    assert version(session) is None


def test_R2_E5_killed_anywhere_readers_see_one_version_that_is_as_far_as_it_was(workbench: Workbench) -> None:
    deployed(workbench)
    session = opened(workbench, NEW, SUM.format("total * 10"))
    insert(workbench.session(), (3, 4))
    frontier, points, steps = 2, 0, ("run", "apply")
    for step in steps:
        at, killed = 0, True
        while killed:
            killed = False
            try:
                with Failpoints(at).armed():
                    session = workbench.session()
                    session.confirm = lambda text: True
                    continued(session, "v") if step == "run" else apply(session)
            except Killed:
                killed, at, points = True, at + 1, points + 1
            found = results(workbench.session())
            factor = 10 if version(session) == "2" else 1
            assert found == [(hour, factor * hour) for hour in range(1, len(found) + 1)]
            assert len(found) >= frontier
            frontier = len(found)
            assert at < 60
        assert (at > 3, frontier) == (True, 3)
    assert version(session) == "2"
    assert not workbench.session().run(fail_fast=False).failed


def test_B2_an_amendment_of_the_earlier_version_reads_the_columns_of_then(workbench: Workbench) -> None:
    deployed(workbench)
    session = opened(workbench, NEW, SUM.format("total * 10"))
    insert(session, (3, 4), (1, 5))
    continued(session, "v")
    assert results(session) == [(1, 1), (2, 2), (3, 3)]
    assert [one.windows for one in amend(workbench.session(), ["v"])] == [1]
    assert results(session) == [(1, 1), (2, 7), (3, 3)]
    assert audit_view(workbench.session(), "v").ok


@pytest.mark.parametrize("query", ["total * 10", "n"])
def test_E5_a_view_goes_back_to_a_version_of_before_a_rename(workbench: Workbench, query: str) -> None:
    """Also where its text is the same, and means another column."""
    deployed(workbench)
    columns = "k VARCHAR, total INT RENAMED FROM n, n INT, m INT"
    session = opened(workbench, columns, SUM.format(query))
    insert(session, (3, 4))
    session.confirm = lambda text: True
    apply(session)
    assert version(session) == "2"
    insert(session, (4, 5))
    rollback(session, "v")
    assert (version(session), results(session)) == ("3", [(1, 1), (2, 2), (3, 3), (4, 4)])
    # Nothing is left to be decided: it is what somebody has asked for.
    session = workbench.session()
    insert(session, (5, 6))
    assert not session.run(fail_fast=False).failed
    assert results(session)[-1] == (5, 5)
    session.confirm = lambda text: True
    apply(session)
    assert version(session) == "4"
    assert results(session)[-1] == (5, 50)


def test_E9_an_erasure_refuses_a_view_that_continues_with_other_columns(workbench: Workbench) -> None:
    """Its condition names the columns of now."""
    every = "CREATE MATERIALIZED VIEW v AS SELECT n, ts FROM t EMIT ON WINDOW CLOSE;"
    session = opened(workbench, OLD, every)
    insert(session, (0, 1), (1, 2), (2, 3))
    session.run()
    session = opened(workbench, "k VARCHAR, total INT RENAMED FROM n, n INT, m INT", every)
    insert(session, (3, 4))
    continued(session, "v")
    for again in (session, workbench.session()):
        again.confirm = lambda text: True
        with pytest.raises(TidegateError, match="TG506"):
            erase(again, "t", "n = 40")
    assert len(shown(session, "SELECT total FROM t")) == 4


def test_E5_a_version_that_continues_stops_at_the_time_at_which_another_one_takes_its_place(
    workbench: Workbench,
) -> None:
    deployed(workbench)
    session = opened(workbench, NEW, SUM.format("total * 10"))
    session.run(["t"])
    hours = iter((3, 4, 5, 6))
    waiting(session, lambda: insert(session, *((hour, hour + 1) for hour in (next(hours), next(hours)))))
    done = apply(session, at="2026-01-01T04:00:00Z")
    assert [one.at for one in done.rebuilt] == ["2026-01-01 04:00:00"]
    assert results(session) == [(hour, 10 * hour) for hour in range(1, 5)]
    assert results(session, "v$v1") == [(hour, hour) for hour in range(1, 5)]


def test_T3_E5_what_the_earlier_version_still_reads_is_not_cleaned_up(workbench: Workbench) -> None:
    """Its windows are longer than those of the new one."""
    table = "CREATE TABLE t ({}, ts TIMESTAMP, PRIMARY KEY (id), WATERMARK FOR ts AS ts WITH TTL);"
    hop = """CREATE MATERIALIZED VIEW v AS SELECT window_end, sum(n) AS x
    FROM HOP(t, ts, INTERVAL '1 day', INTERVAL '3 days') GROUP BY window_end EMIT ON WINDOW CLOSE;"""

    def put(session: Session, *days: int) -> None:
        for day in days:
            session.execute(f"INSERT INTO t VALUES ({day}, {day}, '2026-01-{day:02} 01:00:00')")
            session.run(fail_fast=False)
            session.cleanup()

    workbench.assets(t=table.format("id INT, n INT"), v=hop)
    put(workbench.session(), 1, 2, 3, 4)
    days = hop.replace("HOP(", "TUMBLE(").replace(", INTERVAL '3 days'", "").replace("sum(n)", "sum(total)")
    workbench.assets(t=table.format("id INT, total INT RENAMED FROM n"), v=days)
    session = workbench.session()
    put(session, 5, 6, 7)
    found = {row[0].day: row[1] for row in session.table("v").collect()}
    assert {day: found[day] for day in (4, 5, 6, 7)} == {4: 6, 5: 9, 6: 12, 7: 15}


def test_E2_R2_no_view_reads_a_table_whose_rows_do_not_have_the_columns_of_its_log_yet(
    workbench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What has another name in the log than in its rows is not NULL."""
    keyed = f"CREATE TABLE t (k VARCHAR, {{}}, {WATERMARK} WITH TTL, PRIMARY KEY (k));"

    def edited(column: str) -> Session:
        name = column.split()[0]
        workbench.assets(t=keyed.format(column), v=SUM.format(name))
        return workbench.session()

    def put(session: Session, *hours: int) -> None:
        for hour in hours:
            session.execute(f"INSERT INTO t VALUES ('{hour}', {hour}, '2026-01-01 {hour:02}:10:00')")

    session = edited("n INT")
    put(session, 0, 1, 2)
    session.run()
    session = edited("total INT RENAMED FROM n")
    put(session, 3)
    continued(session, "v")
    put(session, 4)
    view = session.catalog.get("v")
    assert isinstance(view, View)
    running = open_current(session, view)
    other = edited("most INT RENAMED FROM total")
    with monkeypatch.context() as killed:
        # Behind the opening of the log as it was.
        killed.setattr(KeyedTable, "_follow", Mock(side_effect=[True, Killed()]))
        with pytest.raises(Killed):
            other.run(["t"])
    with pytest.raises(TidegateError, match="its log has them, and its rows do not yet") as caught:
        running.tick()
    assert caught.value.code == "TG506"
    assert results(session) == [(1, 0), (2, 1), (3, 2)]
    session = workbench.session()
    session.run(["t"])
    put(session, 5)
    continued(session, "v")
    assert results(session) == [(hour, hour - 1) for hour in range(1, 6)]
    assert audit_view(session, "v").ok


def test_E2_A1_results_of_a_column_that_is_gone_are_not_called_wrong(workbench: Workbench) -> None:
    """What they should be, is not known any more."""
    deployed(workbench)
    session = opened(workbench, "k VARCHAR, m INT", SUM.format("m"))
    session.run(["t"])
    with pytest.raises(TidegateError, match='"n" is dropped') as caught:
        audit_view(session, "v")
    assert caught.value.code == "TG506"


def test_B1_E5_the_query_of_a_sink_that_continues_is_delivered_by_a_run_of_the_sink_alone(
    workbench: Workbench,
) -> None:
    """As Dagster runs it."""
    query = SUM.partition(" AS ")[2].rstrip(";").replace("EMIT ON WINDOW CLOSE", "").format("n")
    sink = (
        f"CREATE SINK out AS {query} WITH (connector = 'filesystem', path = 'out') FORMAT PLAIN ENCODE JSON;"
    )
    workbench.assets(t=TABLE.format(OLD), out=sink)
    session = workbench.session()
    insert(session, (0, 1), (1, 2), (2, 3))
    session.run()
    workbench.assets(t=TABLE.format(NEW), out=sink.replace("sum(n)", "sum(total)"))
    session = workbench.session()
    insert(session, (3, 4))
    item = session.catalog.sinks.find("out")
    assert item is not None
    with pytest.raises(TidegateError, match="continues with the columns of before"):
        run_sink(session, item, None, lambda event: None)
    rows = [json.loads(line) for one in (workbench.root / "out").glob("*.jsonl") for line in one.open()]
    assert sorted(row["x"] for row in rows) == [1, 2, 3]
