"""Retention: rows go once every view has read them, results have one of their own, and audits add up (R5, A1)."""

from __future__ import annotations

import time
from datetime import datetime

import pytest

from tests.conftest import Workbench
from tests.maintenance.clicks import CLICKS, HOURLY, LATER, clicks, rows
from tests.support.by_hand import by_hand
from tidegate import TidegateError
from tidegate.audit.source import audit_source
from tidegate.audit.view import audit_view
from tidegate.maintenance import upkeep
from tidegate.project.jobs.maintenance import Policy
from tidegate.session.session import Session

pytestmark = pytest.mark.runner("inprocess")


def audits_account_for_what_went(session: Session) -> None:
    source = audit_source(session, "clicks")
    assert source.ok
    assert (source.raw, source.retired, source.source_rows) == (11, 14, 25)
    found = audit_view(session, "hourly")
    assert found.ok
    assert found.retired == 14
    assert found.closed_windows == 1
    assert any("before 2026-01-04" in note for note in found.batch.notes)


def no_sessions_begin_at_the_edge(session: Session) -> None:
    with pytest.raises(TidegateError) as refused:
        session.execute(
            "CREATE MATERIALIZED VIEW visits AS SELECT window_start, window_end, page, count(*) AS n FROM "
            "SESSION(clicks, at, page, INTERVAL '1 hour') GROUP BY window_start, window_end, page "
            "EMIT ON WINDOW CLOSE"
        )
    assert refused.value.code == "TG543"


def test_R5_A1_retention_is_accounted_for(workbench: Workbench) -> None:
    """Whole days go once every view has read them; audits add up, and a new view begins at the edge."""
    workbench.assets(a=CLICKS, b=HOURLY)
    policy = Policy(retention=2 * 86_400, keep_snapshots=0, settle=0)
    session = workbench.session()
    with pytest.raises(TidegateError) as nothing:
        upkeep.maintain(session, "clicks", policy)
    assert nothing.value.code == "TG544"
    for day in (1, 2, 3, 4):
        clicks(workbench, 10, day)
    clicks(workbench, 12, 6)
    session.run(["clicks"])
    # The view has never run: it may need everything.
    held = upkeep.maintain(session, "clicks", policy, now=LATER, guard=0).tables[0]
    assert held.retired == 0
    assert 'no row is removed: "hourly" may read all of them, or has never run' in held.notes
    session.run()
    closed = rows(session, "SELECT * FROM hourly")
    raw = rows(session, 'SELECT count(*) FROM "clicks$raw"')
    # The watermark is on the 6th, so the 4th is the first day that stays.
    assert upkeep.due(session, "clicks", policy) == ["clicks: rows beyond their retention"]
    shown = upkeep.maintain(session, "clicks", policy, dry_run=True).tables[0]
    assert shown.notes[-1] == "14 rows beyond their retention"
    assert rows(session, 'SELECT count(*) FROM "clicks$raw"') == raw
    done = upkeep.maintain(session, "clicks", policy).tables[0]
    assert done.retired == 14  # 3 days with 3 rows on time, 5 late ones of the 1st
    assert upkeep.due(session, "clicks", policy) == []
    left = [r[0] for r in rows(session, "SELECT DISTINCT CAST(at AS DATE) || '' FROM clicks")]
    assert left == ["2026-01-04", "2026-01-06"]
    assert rows(session, "SELECT * FROM hourly") == closed  # T3

    audits_account_for_what_went(session)
    # R5: the windows of what is kept, and a window of two days that the edge cuts is none of them.
    session.execute(HOURLY.replace("hourly", "anew"))
    assert rows(session, "SELECT * FROM anew") == [r for r in closed if r[0] >= datetime(2026, 1, 4)]
    hop = HOURLY.replace(
        "TUMBLE(clicks, at, INTERVAL '1 hour')", "HOP(clicks, at, INTERVAL '1 day', INTERVAL '2 days')"
    )
    session.execute(hop.replace("hourly", "hops"))
    assert {r[0] for r in rows(session, "SELECT * FROM hops")} == {datetime(2026, 1, 4)}
    assert audit_view(session, "anew").ok
    assert audit_view(session, "hops").ok
    no_sessions_begin_at_the_edge(session)

    # What goes later adds to what went; rows without a time go by their arrival.
    clicks(workbench, 12, 9)
    again = workbench.session()
    again.run(["clicks", "hourly", "anew", "hops"])
    month = time.time() + 40 * 86_400
    again.catalog.drop("visits") if "visits" in again.catalog else None
    more = upkeep.maintain(again, "clicks", policy, now=month).tables[0]
    assert more.retired == 3 + 3 + 1 + 6  # the 4th and the 6th, the newest late one, all without a time
    source = audit_source(again, "clicks")
    assert source.ok
    assert (source.raw, source.retired) == (30 - 27, 27)
    # A lost row is still found: what is missing is more than what was retired.
    by_hand(again, f"DELETE FROM {again.stored('clicks')} WHERE id = 121")
    assert not audit_source(again, "clicks").ok


def test_R5_rows_that_a_view_has_not_read_yet_are_kept(workbench: Workbench) -> None:
    """A view that is behind its source holds the days that its next windows need."""
    workbench.assets(a=CLICKS, b=HOURLY)
    policy = Policy(retention=2 * 86_400, keep_snapshots=0, settle=0)
    session = workbench.session()
    for day in (1, 2, 3):
        clicks(workbench, 10, day)
    session.run()
    for day in (4, 9):
        clicks(workbench, 10, day)
    session.run(["clicks"])
    held = upkeep.maintain(session, "clicks", policy, now=LATER, guard=0).tables[0]
    assert 'rows from 2026-01-03 00:00:00 on are kept: "hourly" needs them' in held.notes
    session.run()
    starts = [r[0].day for r in rows(session, "SELECT DISTINCT window_start FROM hourly")]
    assert starts == [1, 2, 3, 4]
    assert audit_view(session, "hourly").ok


@pytest.mark.runner("inprocess", "spark", long_run="spark")
def test_R5_rows_go_whatever_the_columns_are_called(workbench: Workbench) -> None:
    session = workbench.session()
    session.execute(
        'CREATE TABLE t ("at.time" TIMESTAMP, "file" INT, "_path" INT, "a`b" INT, '
        """WATERMARK FOR "at.time" AS "at.time" - INTERVAL '5 minutes') APPEND ONLY"""
    )
    session.execute(
        'CREATE MATERIALIZED VIEW v AS SELECT window_start, "a`b", sum("_path") AS "file" '
        """FROM TUMBLE(t, "at.time", INTERVAL '1 hour') GROUP BY window_start, "a`b" EMIT ON WINDOW CLOSE"""
    )
    for day in (1, 2, 3, 6):
        session.execute(f"INSERT INTO t VALUES ('2026-01-{day:02} 10:00:00', 2, {day}, 4)")
    session.run()
    policy = Policy(retention=2 * 86_400, keep_snapshots=0, settle=0)
    assert upkeep.maintain(session, "t", policy).tables[0].retired == 3
    assert rows(session, 'SELECT "_path" FROM t') == [(6,)]
    source, view = audit_source(session, "t"), audit_view(session, "v")
    assert (source.ok, source.raw, source.retired, view.ok) == (True, 1, 3, True)


def test_R5_results_have_a_retention_of_their_own(workbench: Workbench) -> None:
    workbench.assets(a=CLICKS, b=HOURLY)
    session = workbench.session()
    for day in (1, 2, 3, 4):
        clicks(workbench, 10, day)
    session.run()
    done = upkeep.maintain(session, "hourly", Policy(retention=86_400)).tables[0]
    assert done.retired == 4
    assert {r[0].day for r in rows(session, "SELECT * FROM hourly")} == {3}
    assert audit_view(session, "hourly").ok
    clicks(workbench, 10, 5)
    session.run()
    assert {r[0].day for r in rows(session, "SELECT * FROM hourly")} == {3, 4}
    assert audit_view(session, "hourly").ok
