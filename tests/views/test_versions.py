"""R4, E5, R2: a new version of a view is computed beside the current one, slice by slice, and swapped in one commit."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from tests.conftest import Workbench
from tests.inprocess.failpoints import Failpoints, Killed
from tests.views.test_rebuild import rows
from tidegate.cli.commands.questions.status_answer import building_text
from tidegate.errors import TidegateError
from tidegate.maintenance.upkeep import due, maintain
from tidegate.plan.versions import VersionInBuilding, cuts, kept_versions, next_of
from tidegate.project.jobs.maintenance import Policy
from tidegate.session.live import LiveGroup
from tidegate.session.session import Session
from tidegate.session.turns import Retries
from tidegate.show.newest import newest_rows
from tidegate.sql.catalog.objects import View
from tidegate.store.status import read_status
from tidegate.views.amend.rebuild import rebuild
from tidegate.views.versions import build
from tidegate.views.versions.build import VersionBuild
from tidegate.views.view_table import ViewTable

pytestmark = pytest.mark.runner("inprocess")

TABLE = "CREATE TABLE t (k VARCHAR, n INT, ts TIMESTAMP, WATERMARK FOR ts AS ts) APPEND ONLY;"
VIEW = """
CREATE MATERIALIZED VIEW v AS SELECT window_end, {what} AS x FROM TUMBLE(t, ts, INTERVAL '1 minute')
GROUP BY window_end{emit};
"""
CLOSE = " EMIT ON WINDOW CLOSE"
READER = "CREATE MATERIALIZED VIEW busy AS SELECT window_end, x FROM v WHERE x > 1 EMIT ON WINDOW CLOSE;"
COUNT, WORDS = "count(*)", "concat_ws(',', sort_array(collect_list(k)))"


def opened(workbench: Workbench, what: str, emit: str = CLOSE) -> Session:
    workbench.assets(t=TABLE, v=VIEW.format(what=what, emit=emit))
    return workbench.session()


def inserted(session: Session, *minutes: int) -> None:
    """A file of the log for each minute: minute m has m % 3 + 1 rows."""
    for m in minutes:
        values = [f"('{'abc'[i]}', {m}, '2026-01-01 00:{m:02}:0{i}')" for i in range(m % 3 + 1)]
        session.execute(f"INSERT INTO t VALUES {', '.join(values)}")


def expected(minutes: int, what: str, last: int) -> list[tuple[str, ...]]:
    """The windows that have closed."""
    return [
        (f"00:{m + 1:02}:00", str(m % 3 + 1) if what == COUNT else ",".join("abc"[: m % 3 + 1]))
        for m in range(minutes)
        if m + 1 <= last
    ]


@pytest.fixture
def small_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "ROWS_OF_A_SLICE", 4)


@pytest.mark.parametrize("emit", [CLOSE, ""])
@pytest.mark.usefixtures("small_slices")
def test_R2_E5_killed_anywhere_readers_see_one_version_and_the_next_one_goes_on(
    workbench: Workbench, emit: str
) -> None:
    session = opened(workbench, COUNT, emit)
    inserted(session, *range(7))
    session.run()
    old = rows(session, "v")
    assert old[:6] == expected(7, COUNT, 6)
    session = opened(workbench, WORDS, emit)
    new = [(end, ",".join("abc"[: int(n)])) for end, n in old]
    identifier = session.identifier("v")
    slices, killed, points = [], True, 0
    while killed:
        killed, passed = False, Failpoints(points)
        try:
            # Each life gets one effect further.
            with passed.armed():
                rebuild(workbench.session())
        except Killed:
            killed, points = True, points + 1
        table = session.tables.open(identifier)
        table.refresh()
        shown = rows_of(session, identifier)
        is_new = table.property("tidegate.generation") == "2"
        assert shown == (new if is_new else old)
        beside = session.identifier(next_of("v"))
        if session.tables.exists(beside):
            slices.append(len(session.tables.open(beside).snapshot_ids()))
        assert points < 40
    assert points > 5
    # Each life has gone on where the last one was.
    assert slices == sorted(slices)
    assert slices[-1] >= 3
    session = workbench.session()
    assert rows(session, "v") == new
    assert not session.is_building("v")
    (kept,) = kept_versions(session.tables.open(identifier).properties())
    assert (kept.number, kept.frontier) == (1, "2026-01-01 00:06:00")
    assert "count(*)" in kept.definition["tidegate.definition"]
    inserted(session, 8)
    session.run()
    assert rows(session, "v")[:7] == expected(7, WORDS, 8)


def rows_of(session: Session, identifier: str) -> list[tuple[str, ...]]:
    """What any reader of the table finds."""
    found = session.tables.rows(identifier).where("_open IS NOT NULL").select("window_end", "x").collect()
    return sorted(tuple(str(v).removeprefix("2026-01-01 ") for v in row) for row in found)


@pytest.mark.usefixtures("small_slices")
def test_E5_the_current_version_ticks_on_and_the_swap_waits_for_its_frontier(workbench: Workbench) -> None:
    running = opened(workbench, COUNT)
    inserted(running, *range(7))
    running.run()
    old_view = running.catalog.get("v")
    assert isinstance(old_view, View)
    current = ViewTable(running, old_view)
    session = opened(workbench, WORDS)
    new_view = session.catalog.get("v")
    assert isinstance(new_view, View)
    version = VersionBuild(session, new_view)
    assert len(version.mark.cuts) == 3
    assert version.advance()
    assert 0 < version.mark.done(version.frontier()) < 1
    inserted(running, 7, 8)
    assert current.tick() is not None
    assert rows_of(session, current.table.identifier) == expected(9, COUNT, 8)
    # It is not there yet, so nothing is swapped.
    assert not version.swapped()
    while version.advance():
        pass
    inserted(running, 9)
    assert current.tick() is not None
    assert not version.swapped()
    assert not version.advance()
    assert version.swapped()
    assert rows_of(session, current.table.identifier) == expected(10, WORDS, 9)
    # Whoever has the former version open puts nothing on the new one.
    inserted(session, 10)
    with pytest.raises(TidegateError, match="TG502"):
        current.tick()
    with pytest.raises(TidegateError, match="TG506"):
        ViewTable(running, old_view)
    assert rows_of(session, current.table.identifier) == expected(10, WORDS, 9)
    session.run()
    assert rows_of(session, current.table.identifier) == expected(11, WORDS, 10)


def test_E5_a_version_of_another_definition_or_of_a_swapped_table_is_begun_anew(workbench: Workbench) -> None:
    session = opened(workbench, COUNT)
    inserted(session, *range(4))
    session.run()

    def begun(what: str) -> VersionBuild:
        session = opened(workbench, what)
        view = session.catalog.get("v")
        assert isinstance(view, View)
        return VersionBuild(session, view)

    begun("max(n)").advance()
    version = begun(WORDS)
    assert version.frontier() is None
    version.advance()
    # A second driver, which has come as far, swaps; the slower one changes nothing.
    other = begun(WORDS)
    assert other.frontier() == version.frontier()
    assert other.swapped()
    slower: Any = version
    with pytest.raises(Exception):  # noqa: B017  (its table is gone)
        slower.swapped()
    assert rows(workbench.session(), "v") == expected(4, WORDS, 3)
    assert rebuild(workbench.session()) == []
    session.forget("v")
    assert not session.is_building("v")


def test_E5_a_writer_of_before_computes_nothing_on_a_new_version(
    workbench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = opened(workbench, COUNT)
    inserted(running, *range(4))
    running.run()
    view = running.catalog.get("v")
    assert isinstance(view, View)
    current = ViewTable(running, view)
    rebuild(session := opened(workbench, WORDS))
    inserted(session, 4, 5)
    slices: list[object] = []
    monkeypatch.setattr(ViewTable, "_computed", lambda *given: slices.append(given))
    with pytest.raises(TidegateError, match="TG502"):
        current.tick()
    assert slices == []


@pytest.mark.usefixtures("small_slices")
def test_E5_runs_and_live_runs_go_on_with_the_current_version_until_the_swap(workbench: Workbench) -> None:
    session = opened(workbench, COUNT)
    workbench.assets(t=TABLE, v=VIEW.format(what=COUNT, emit=CLOSE) + READER)
    session = workbench.session()
    inserted(session, *range(7))
    session.run()
    live = LiveGroup(workbench.session(), retries=Retries(first=0.0, longest=0.0))
    # Another query of the view, and one of its reader that needs it.
    workbench.assets(
        t=TABLE, v=VIEW.format(what=WORDS, emit=CLOSE) + READER.replace("x > 1", "length(x) > 1")
    )
    session = workbench.session()
    # Nobody has decided yet that the results are replaced.
    with pytest.raises(TidegateError, match="TG506"):
        session.run(["v"], upstream=False)
    view = session.catalog.get("v")
    assert isinstance(view, View)
    version = VersionBuild(session, view)
    version.advance()
    found = read_status(session.project, ["v"], now=datetime(2099, 1, 1, tzinfo=UTC)).views[0]
    assert found.building is not None
    assert (found.version, found.building.version, found.building.percent) == (1, 2, 46.2)
    assert found.building.frontier_text == "2026-01-01 00:02:02"
    assert found.building.seconds_left is not None
    assert "version 2 is built: 46 % of the rows are read, about" in building_text(found.building)
    inserted(workbench.session(), 7, 8)
    started = workbench.session()
    assert started.run(["v"], upstream=False).views[0].frontier == "2026-01-01 00:08:02"
    assert rows(started, "v") == expected(9, COUNT, 8)
    events: list[Any] = []
    with live:
        inserted(workbench.session(), 9)
        live.tick(events.append)
        assert rows_of(started, started.identifier("v")) == expected(10, COUNT, 9)
        while version.advance():
            pass
        # (With a folder as catalog, who writes the view has to let go of it for the swap.)
    assert version.swapped()
    with live:
        for _ in range(3):
            live.tick(events.append)
        inserted(workbench.session(), 10)
        live.tick(events.append)
        member = next(one for one in live.members if one.name == "v")
        assert (member.turn.failures, member.error) == (0, None)
    assert rows_of(started, started.identifier("v")) == expected(11, WORDS, 10)
    assert read_status(session.project, ["v"]).views[0].building is None
    # What the run has let stand in for the files is not what is rebuilt.
    assert [one.view for one in rebuild(started)] == ["busy"]


def test_E5_every_version_that_is_kept_is_a_table_of_its_number(workbench: Workbench) -> None:
    session = opened(workbench, COUNT)
    inserted(session, *range(4))
    session.run()
    old = expected(4, COUNT, 3)
    # The current one has a name, too, whatever the file says of it.
    session = opened(workbench, f"{WORDS} AS words, array(struct(max(n) AS n))")
    assert rows(session, "v$v1") == old
    assert shown_by_sql(session, 'SELECT max(x) AS x FROM "v$v1"') == [(3,)]
    rebuild(session)
    session = opened(workbench, f"{WORDS} AS words, array(struct(max(n) AS n))")
    inserted(session, 4)
    session.run()
    # A reader of a version that was replaced sees no change.
    assert rows(session, "v$v1") == old
    assert [row[1] for row in rows(session, "v$v2")] == ["a", "a,b", "a,b,c", "a"]
    assert shown_by_sql(
        session,
        'SELECT n.x, o.x FROM "v$v1" o JOIN (SELECT x[0].n AS x, window_end FROM "v$v2") n '
        "ON n.window_end = o.window_end ORDER BY 1",
    ) == [(0, 1), (1, 2), (2, 3)]
    columns = session.execute('DESCRIBE "v$v2"').rows()
    assert [tuple(row)[:2] for row in columns] == [
        ("window_end", "TIMESTAMP"),
        ("words", "VARCHAR"),
        ("x", "STRUCT<n INT>[]"),
    ]
    newest = newest_rows(session.project, "v$v1", limit=2)
    assert (newest.columns, [row[1] for row in newest.rows], newest.total) == (["window_end", "x"], [3, 2], 3)
    for name in ("v$v3", "v$v0", "v$vx", "t$v1"):
        with pytest.raises(TidegateError, match="TG201"):
            session.table(name)
        with pytest.raises(TidegateError, match="TG201"):
            newest_rows(session.project, name)
    with pytest.raises(TidegateError, match="TG106"):
        session.execute('CREATE MATERIALIZED VIEW w AS SELECT * FROM "v$v1"')


def test_E5_a_version_goes_when_it_is_dropped_or_its_retention_has_passed(workbench: Workbench) -> None:
    session = opened(workbench, COUNT)
    inserted(session, *range(4))
    session.run()
    for what in (WORDS, "max(n)", "min(n)"):
        rebuild(session := opened(workbench, what))
    with pytest.raises(TidegateError, match=r'TG215.*"v\$v4" is the current version'):
        session.execute('DROP MATERIALIZED VIEW "v$v4"')
    with pytest.raises(TidegateError, match=r"TG533.*results of v.v2"):
        session.execute('DROP MATERIALIZED VIEW "v$v2"')
    assert session.execute('DROP MATERIALIZED VIEW "v$v2"', yes=True).message == "dropped v$v2"
    with pytest.raises(TidegateError, match="TG201"):
        session.table("v$v2")
    assert session.execute('DROP MATERIALIZED VIEW IF EXISTS "v$v2"').message == "v$v2 does not exist"
    assert rows(session, "v$v1") == expected(4, COUNT, 3)
    policy, now = Policy(keep_versions=3600), session.clock().timestamp()
    assert due(session, "v", policy, now) == []
    assert maintain(session, "v", policy, now=now).tables[0].notes == []
    assert due(session, "v", policy, now + 7200) == ["v: 2 earlier versions"]
    done = maintain(session, "v", policy, now=now + 7200).tables[0]
    assert done.notes == [f"the retention of version {n} has passed" for n in (1, 3)]
    assert kept_versions(session.tables.open(session.identifier("v")).properties()) == ()
    with pytest.raises(TidegateError, match="TG201"):
        session.table("v$v1")
    assert [row[1] for row in rows(session, "v")] == ["0", "1", "2"]


def test_E1_results_are_replaced_towards_the_newest_definition_only(
    workbench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A command has read a definition, and takes long; meanwhile the file gets another one, which is computed."""
    session = opened(workbench, COUNT)
    inserted(session, *range(4))
    session.run()
    slow = opened(workbench, "max(n)")
    rebuild(opened(workbench, WORDS))
    with pytest.raises(TidegateError, match=r"TG506.*has changed since this command read it"):
        rebuild(slow)
    assert rows(workbench.session(), "v") == expected(4, WORDS, 3)
    # The file changes while the version is built.
    slow = opened(workbench, "max(n)")
    advance = VersionBuild.advance

    def edited(build: VersionBuild) -> bool:
        workbench.assets(t=TABLE, v=VIEW.format(what="min(n)", emit=CLOSE))
        return advance(build)

    monkeypatch.setattr(VersionBuild, "advance", edited)
    with pytest.raises(TidegateError, match=r"TG506.*has changed since this command read it"):
        rebuild(slow)
    monkeypatch.undo()
    assert rows(opened(workbench, WORDS), "v") == expected(4, WORDS, 3)


def shown_by_sql(session: Session, query: str) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in session.execute(query).rows()]


def test_two_drivers_of_one_machine_are_kept_apart_by_a_lease(workbench: Workbench) -> None:
    session = opened(workbench, COUNT)
    inserted(session, *range(4))
    session.run()
    session = opened(workbench, WORDS)
    with workbench.session().lease("v", "$next"), pytest.raises(TidegateError, match="TG508"):
        rebuild(session)


def test_slices_have_so_many_rows_and_end_at_different_times() -> None:
    assert cuts([(5, 2), (1, 2), (3, 1), (9, 4)], 3, 100) == ((3, 3), (9, 6))
    assert cuts([(1, 10), (1, 10), (2, 10)], 1, 100) == ((1, 20), (2, 10))
    assert cuts([(n, 1) for n in range(10)], 1, 2) == ((4, 5), (9, 5))
    assert cuts([], 1, 2) == ()
    mark = VersionInBuilding(2, "a", {}, "2026-01-01T00:00:00+00:00", ((3, 3), (9, 6)))
    assert VersionInBuilding.of_text(mark.to_text()) == mark
    assert [mark.following(f) for f in (None, 2, 3, 9)] == [3, 3, 9, None]
    assert [mark.done(f) for f in (None, 2, 3, 9)] == [0.0, 0.0, 3 / 9, 1.0]
    assert VersionInBuilding.of_text(None) is None
