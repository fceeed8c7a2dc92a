"""E5: where a new version needs rows that are gone, the old results stay for that part of the past, and the boundary
(`valid_from`) is on record."""

from __future__ import annotations

from datetime import datetime, timedelta
from random import Random
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.conftest import Workbench
from tests.inprocess.failpoints import Failpoints, Killed
from tests.views.test_version_lives import begun
from tidegate.amend.run import amend
from tidegate.audit.view import audit_view
from tidegate.cli.commands.questions.status_answer import _notes
from tidegate.cli.invocation import Invocation
from tidegate.cli.main import app
from tidegate.errors import TidegateError
from tidegate.evolve.planning import planned
from tidegate.maintenance import upkeep
from tidegate.plan.gaps import RETAINED_FROM
from tidegate.plan.versions import VALID_FROM
from tidegate.project.jobs.maintenance import Policy
from tidegate.session.session import Session
from tidegate.store.status import read_status
from tidegate.views.amend.rebuild import rebuild
from tidegate.views.amend.rollback import rollback
from tidegate.views.versions.finish import finish

pytestmark = pytest.mark.runner("inprocess")

TABLE = "CREATE TABLE t (k VARCHAR, n INT, ts TIMESTAMP, WATERMARK FOR ts AS ts) APPEND ONLY;"
JANUARY = datetime(2026, 1, 1)
CLOSE = "EMIT ON WINDOW CLOSE;"


def opened(workbench: Workbench, view: str, table: str = TABLE) -> Session:
    workbench.assets(t=table, v=f"CREATE MATERIALIZED VIEW v AS {view}")
    session = workbench.session()
    session.confirm = lambda text: True
    return session


def windows(what: str, relation: str = "TUMBLE(t, ts, INTERVAL '1 hour')", emit: str = CLOSE) -> str:
    return f"SELECT window_end, {what} FROM {relation} GROUP BY window_end {emit}"


def inserted(session: Session, *rows: tuple[str, int, datetime]) -> None:
    values = [f"('{k}', {n}, '{ts}')" for k, n, ts in rows]
    session.execute(f"INSERT INTO t VALUES {', '.join(values)}")


def days(session: Session, *numbers: int) -> None:
    """Two rows of each day, and a file of the log."""
    for day in numbers:
        midnight = datetime(2026, 1, day)
        inserted(
            session, ("a", day, midnight + timedelta(minutes=30)), ("b", day, midnight + timedelta(hours=10))
        )


def retired(session: Session, keep: int = 1, name: str = "t") -> int | None:
    policy = Policy(retention=keep * 86_400, keep_snapshots=0, settle=0)
    return upkeep.maintain(session, name, policy).tables[0].retired


def rows(session: Session, query: str = "SELECT * FROM v") -> list[tuple[Any, ...]]:
    return sorted(map(tuple, session.execute(query).rows()), key=lambda row: row[0])


def valid_from(session: Session) -> str | None:
    [status] = read_status(session.project, ["v"]).views
    return status.valid_from


def hour(day: int, ends: int, *values: object) -> tuple[Any, ...]:
    return (datetime(2026, 1, day, ends), *values)


@pytest.mark.runner("inprocess", "spark", long_run="spark")
def test_E5_results_whose_rows_are_gone_stay_and_the_boundary_is_shown(
    workbench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = opened(workbench, windows("count(*) AS x, max(k) AS gone"))
    days(session, 1, 2, 3, 4, 5)
    session.run()
    before = rows(session)
    assert retired(session) == 6
    session = opened(workbench, windows("sum(n) AS x, min(k) AS first"))
    # What the plan says, without Spark, is what happens.
    edge = "2026-01-04 01:00:00"
    [change] = planned(session.project, session.project.catalog(), ["v"])
    assert (change.effect, change.valid_from) == ("new version", edge)
    monkeypatch.setattr(Invocation, "project", lambda self: session.project)
    shown = CliRunner().invoke(app, ["plan", "v"]).stdout
    assert f"results that end before {edge} stay as they are" in " ".join(shown.split())
    assert valid_from(session) is None
    rebuild(session, ["v"])
    kept = [hour(day, ends, 1, None) for day in (1, 2, 3) for ends in (1, 11)]
    new = [hour(4, 1, 4, "a"), hour(4, 11, 4, "b"), hour(5, 1, 5, "a")]
    assert rows(session) == [*kept, *new]
    assert valid_from(session) == edge
    assert any(edge in note for note in _notes(read_status(session.project, ["v"]).views[0]))
    assert rows(session, 'SELECT * FROM "v$v1"') == before
    audit = audit_view(session, "v")
    assert (audit.ok, audit.remainder) == (True, 0)

    # It continues, and the next version keeps of this one what that needs.
    days(session, 6, 7)
    session.run()
    assert audit_view(session, "v").ok
    assert retired(session) == 4
    session = opened(workbench, windows("sum(n * 10) AS x"))
    rebuild(session, ["v"])
    assert valid_from(session) == "2026-01-06 01:00:00"
    assert rows(session) == [
        *(row[:2] for row in [*kept, *new]),
        *(hour(5, 11, 5), hour(6, 1, 60), hour(6, 11, 60), hour(7, 1, 70)),
    ]
    # Who goes back has the boundary of the version that he goes back to.
    rollback(session, "v", 2)
    assert valid_from(session) == edge
    assert rows(session, 'SELECT * FROM "v$v4"')[:9] == [*kept, *new]
    rollback(session, "v", 1)
    # What this version has never computed, and nobody can compute any more, stays that of the version that it replaces.
    computed = [hour(6, 1, 1, "a"), hour(6, 11, 1, "b"), hour(7, 1, 1, "a")]
    assert rows(session, 'SELECT * FROM "v$v5"') == [*before, hour(5, 11, 5, None), *computed]
    assert valid_from(session) == "2026-01-06 01:00:00"


def test_E5_what_can_not_be_kept_is_refused_before_anything_is_made(
    workbench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = opened(workbench, windows("sum(n) AS x, avg(n) AS y"))
    days(session, 1, 2, 3, 4, 5)
    session.run()
    retired(session)
    before = rows(session)
    refused = {
        windows("max(k) AS x, avg(n) AS y"): 'column "x" was BIGINT and is VARCHAR',
        windows(
            "count(*) AS x", "SESSION(t, ts, INTERVAL '1 hour')"
        ): 'rows of "t" are beyond their retention',
    }
    # Without its earlier results, the view can be made of the rows that are kept; sessions can't be.
    for (query, why), dropped in zip(refused.items(), (True, False), strict=True):
        session = opened(workbench, query)
        [change] = planned(session.project, session.project.catalog(), ["v"])
        assert change.effect == "refused"
        assert why in change.what[-1]
        with pytest.raises(TidegateError, match=why) as caught:
            rebuild(session, ["v"])
        assert caught.value.code == "TG543"
        assert caught.value.hint == change.command
        assert ("or DROP the view and run again" in (change.command or "")) is dropped
        assert not session.is_building("v")
    # Another name says that it is another column, whose past is not known.
    rebuild(session := opened(workbench, windows("max(k) AS z, avg(n) AS y")), ["v"])
    assert rows(session)[:6] == [(end, None, y) for end, _, y in before[:6]]


def test_C4_E5_sorted_rows_are_kept_in_their_order(workbench: Workbench) -> None:
    session = opened(workbench, f"SELECT ts, k FROM t {CLOSE}")
    for day in (1, 2, 3, 4, 5):
        same = datetime(2026, 1, day, 5)
        inserted(session, *((k, day, same) for k in "cab"), ("d", day, datetime(2026, 1, day, 6)))
        session.run()
    retired(session)
    before = released(session)
    assert [k for _, k in before[:4]] == ["c", "a", "b", "d"]
    rebuild(session := opened(workbench, f"SELECT ts, k, n FROM t {CLOSE}"))
    assert valid_from(session) is not None
    assert released(session) == before


def released(session: Session) -> list[tuple[Any, ...]]:
    stored = session.tables.rows(session.identifier("v")).orderBy("_window_end", "_ordinal")
    return [tuple(row) for row in stored.select("ts", "k").collect()]


def test_R2_E5_killed_anywhere_the_past_is_there_once(workbench: Workbench) -> None:
    session = opened(workbench, windows("count(*) AS x", emit=";"))
    days(session, 1, 2, 3, 4, 5)
    session.run()
    retired(session)
    old = rows(session)
    identifier = session.identifier("v")
    opened(workbench, windows("sum(n) AS x", emit=";"))
    new = [(end, count if end.day < 4 else end.day) for end, count in old]
    killed, points = True, 0
    while killed:
        killed = False
        try:
            with Failpoints(points).armed():
                rebuild(workbench.session())
        except Killed:
            killed, points = True, points + 1
        table = session.tables.open(identifier)
        table.refresh()
        found = session.tables.rows(identifier).where("_open IS NOT NULL").select("window_end", "x").collect()
        is_new = table.property("tidegate.generation") == "2"
        assert sorted(map(tuple, found)) == (new if is_new else old)
        assert (table.property(VALID_FROM) is not None) == is_new
        assert points < 40
    assert points > 5
    assert rows(workbench.session()) == new


@pytest.mark.parametrize("seed", range(4))
def test_E5_the_past_is_of_one_version_and_all_else_of_the_other(workbench: Workbench, seed: int) -> None:
    """Random rows, windows and edges: each window that lies on kept rows as a whole is the new query's."""
    rng = Random(seed)
    slide, size = rng.choice([(1, 1), (1, 2), (2, 6), (24, 24), (12, 48)])
    relation = f"HOP(t, ts, INTERVAL '{slide} hours', INTERVAL '{size} hours')"
    session = opened(workbench, windows("count(*) AS x", relation))
    log: list[tuple[str, int, datetime]] = []
    for number in range(1, 9):
        log += [
            (rng.choice("ab"), rng.randrange(9), JANUARY + timedelta(days=number, minutes=minute))
            for minute in sorted(rng.sample(range(1440), rng.choice([0, 1, 3])))
        ]
        if log and log[-1][2].day == number + 1:
            inserted(session, *(row for row in log if row[2].day == number + 1))
    session.run()
    retired(session, rng.choice([1, 2, 4]))
    # Whole days go.
    table = session.tables.open(session.identifier("t"))
    table.current()
    bound = table.property(RETAINED_FROM)
    edge = None if bound is None else datetime(1970, 1, 1) + timedelta(microseconds=int(bound))
    rebuild(session := opened(workbench, windows("sum(n) AS x", relation)))
    assert rows(session) == expected(log, slide, size, edge)
    assert (valid_from(session) is None) == (edge is None)
    assert audit_view(session, "v").ok


def expected(
    log: list[tuple[str, int, datetime]], slide: int, size: int, edge: datetime | None
) -> list[tuple[datetime, int]]:
    """By hand: windows that are closed, of the rows before the edge by the old query."""
    counts: dict[datetime, int] = {}
    sums: dict[datetime, int] = {}
    last = max(ts for _, _, ts in log)
    for _, n, ts in log:
        first = JANUARY + timedelta(hours=((ts - JANUARY) // timedelta(hours=slide)) * slide)
        for back in range(size // slide):
            end = first - timedelta(hours=back * slide) + timedelta(hours=size)
            if end <= last:
                counts[end] = counts.get(end, 0) + 1
                sums[end] = sums.get(end, 0) + n
    whole = {end for end in counts if edge is None or end - timedelta(hours=size) >= edge}
    return sorted((end, sums[end] if end in whole else counts[end]) for end in counts)


def test_T3_R5_what_has_expired_stays_in_results_and_is_in_no_window_that_it_cuts(
    workbench: Workbench,
) -> None:
    table = """CREATE TABLE t (k VARCHAR, n INT, ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL '5 minutes' WITH TTL,
    PRIMARY KEY (k));"""
    session = opened(workbench, windows("count(*) AS x"), table)
    for number, minute in enumerate((5, 50, 70, 100, 130, 150, 190)):
        inserted(session, (f"k{number}", number, JANUARY + timedelta(minutes=minute)))
        session.run()
    assert rows(session) == [hour(1, 1, 2), hour(1, 2, 2), hour(1, 3, 2)]
    session.cleanup()
    # What is left begins in the third hour.
    session = opened(workbench, windows("sum(n) AS x"), table)
    [change] = planned(session.project, session.project.catalog(), ["v"])
    rebuild(session, ["v"])
    assert valid_from(session) == change.valid_from
    assert rows(session) == [hour(1, 1, 2), hour(1, 2, 2), hour(1, 3, 2)]
    session.execute(f"CREATE MATERIALIZED VIEW late_comer AS {windows('count(*) AS x')}")
    assert rows(session, "SELECT * FROM late_comer") == []


def test_E5_what_was_amended_while_it_was_built_is_kept_as_amended(workbench: Workbench) -> None:
    session = opened(workbench, windows("count(*) AS x"))
    days(session, 1, 2, 3, 4, 5, 6)
    session.run()
    retired(session, 2)
    # A day needs more of the log than an hour: so an hour that it keeps can still get late rows.
    version = begun(session := opened(workbench, windows("sum(n) AS x", "TUMBLE(t, ts, INTERVAL '1 day')")))
    while version.advance():
        pass
    inserted(session, ("c", 1, datetime(2026, 1, 4, 10, 30)))
    workbench.assets(v=f"CREATE MATERIALIZED VIEW v AS {windows('count(*) AS x')}")
    [done] = amend(workbench.session(), ["v"])
    assert done.windows == 1
    finish(version)
    session = opened(workbench, windows("sum(n) AS x", "TUMBLE(t, ts, INTERVAL '1 day')"))
    found = dict(rows(session))
    assert found[datetime(2026, 1, 4, 11)] == 2
    assert valid_from(session) == "2026-01-05 00:00:00"
