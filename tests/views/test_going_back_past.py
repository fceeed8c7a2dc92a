"""E5: what is gone of a view's past stays on record where the view goes back to an earlier version, and what is there
stays."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from datetime import datetime, timedelta
from typing import Any

import pytest

from tests.conftest import Workbench
from tests.inprocess.failpoints import Failpoints, Killed
from tests.views.test_valid_from import (
    JANUARY,
    days,
    hour,
    inserted,
    opened,
    retired,
    rows,
    valid_from,
    windows,
)
from tidegate.amend.run import amend
from tidegate.audit.view import audit_view
from tidegate.errors import TidegateError
from tidegate.maintenance.upkeep import maintain
from tidegate.plan.gaps import RETAINED_FROM
from tidegate.plan.versions import VALID_FROM
from tidegate.project.jobs.maintenance import Policy
from tidegate.session.session import Session
from tidegate.views import view_table
from tidegate.views.amend.rebuild import rebuild
from tidegate.views.amend.rollback import rollback
from tidegate.views.revisions.erased_windows import MarkedWindow, mark, marked
from tidegate.views.versions import build

pytestmark = pytest.mark.runner("inprocess")

COUNT, SUM = windows("count(*) AS x"), windows("sum(n) AS x")


def said(session: Session, key: str) -> str | None:
    return session.tables.open(session.identifier("v")).property(key)


def test_E5_R5_who_goes_back_has_the_edge_of_the_retention_of_that_version(workbench: Workbench) -> None:
    session = opened(workbench, COUNT)
    days(session, 1, 2, 3, 4, 5)
    session.run()
    assert retired(session, name="v")
    kept, edge = rows(session), said(session, RETAINED_FROM)
    assert edge is not None
    rebuild(session := opened(workbench, SUM), ["v"])
    assert said(session, RETAINED_FROM) is None
    whole = rows(session)
    assert len(whole) > len(kept)
    rollback(session, "v")
    assert (rows(session), said(session, RETAINED_FROM)) == (kept, edge)
    # So neither does an audit miss the rows that are gone, nor does an amendment compute them again.
    session = opened(workbench, COUNT)
    assert audit_view(session, "v").ok
    assert [one.windows for one in amend(session, ["v"])] == [0]
    # And the other way: what is gone of this version is not gone of the one that it goes back to.
    rollback(session, "v", 2)
    assert (rows(session), said(session, RETAINED_FROM)) == (whole, None)


def left(workbench: Workbench, old: str = COUNT, new: str = SUM) -> Session:
    """Version 1 has read three days, and version 2 seven; the log has the rows of the last two of them."""
    session = opened(workbench, old)
    days(session, 1, 2, 3)
    session.run()
    rebuild(session := opened(workbench, new), ["v"])
    days(session, 4, 5, 6, 7)
    session.run()
    assert retired(session)
    return session


@pytest.mark.runner("inprocess", "spark", long_run="spark")
def test_E5_who_goes_back_keeps_what_can_not_be_computed_again(workbench: Workbench) -> None:
    session = left(workbench)
    assert len(rows(session)) == 13
    asked: list[str] = []
    session.confirm = lambda text: bool(asked.append(text)) or True
    rollback(session, "v")
    assert "results that end before 2026-01-06 01:00:00, and that version 1 does not have" in asked[0]
    # What version 1 had; of the days whose rows are gone what version 2 has; and what is computed of the rest.
    counts = [hour(day, ends, 1) for day in (1, 2) for ends in (1, 11)] + [hour(3, 1, 1)]
    kept = [hour(3, 11, 3)] + [hour(day, ends, day) for day in (4, 5) for ends in (1, 11)]
    new = [hour(6, 1, 1), hour(6, 11, 1), hour(7, 1, 1)]
    assert rows(session) == [*counts, *kept, *new]
    assert valid_from(session) == "2026-01-06 01:00:00"
    assert audit_view(opened(workbench, COUNT), "v").ok
    # It goes on, and so does the next one.
    days(session, 8)
    session.run()
    assert rows(session)[13:] == [hour(7, 11, 1), hour(8, 1, 1)]
    rollback(session, "v", 2)
    assert rows(session) == [
        *(hour(day, ends, day) for day in (1, 2, 3, 4, 5, 6) for ends in (1, 11)),
        *(hour(7, 1, 7), hour(7, 11, 7), hour(8, 1, 8)),
    ]
    assert valid_from(session) is None
    # A boundary moves with what is kept.
    days(session, 9, 10)
    session.run()
    assert retired(session)
    rollback(session, "v", 3)
    assert valid_from(session) == "2026-01-09 01:00:00"
    assert rows(session)[13:] == [
        *(hour(7, 11, 1), hour(8, 1, 1), hour(8, 11, 8)),
        *(hour(9, 1, 1), hour(9, 11, 1), hour(10, 1, 1)),
    ]


def test_E5_who_goes_back_to_longer_windows_keeps_what_no_window_of_it_has(workbench: Workbench) -> None:
    daily = windows("count(*) AS x", "TUMBLE(t, ts, INTERVAL '1 day')")
    session = left(workbench, daily, SUM)
    rollback(session, "v")
    # Version 1 has closed two days, and has stood in the middle of the third one, whose first hour ended before that.
    counts = [(datetime(2026, 1, day + 1), 2) for day in (1, 2)]
    kept = [hour(day, ends, day) for day in (3, 4, 5, 6) for ends in (1, 11)]
    assert rows(session) == [*counts, *kept, (datetime(2026, 1, 7), 2)]
    assert audit_view(opened(workbench, daily), "v").ok


def test_R2_E5_killed_anywhere_what_is_kept_is_there_once(workbench: Workbench) -> None:
    session = left(workbench)
    before, identifier = rows(session), session.identifier("v")
    killed, points, found = True, 0, list[Any]()
    while killed:
        killed = False
        again = workbench.session()
        again.confirm = lambda text: True
        try:
            with Failpoints(points).armed():
                rollback(again, "v")
        except Killed:
            killed, points = True, points + 1
        is_back = said(session, "tidegate.generation") == "3"
        found = rows(session, "SELECT * FROM v")
        assert len(found) == 13
        assert (found == before) is not is_back
        assert (said(session, VALID_FROM) is not None) == is_back
        assert points < 60
        if is_back:
            break
    assert points > 5
    assert found[4:6] == [hour(3, 1, 1), hour(3, 11, 3)]
    stored = session.tables.rows(identifier)
    assert stored.count() == 13


def test_E5_what_can_not_be_kept_is_refused_before_anything_is_made(workbench: Workbench) -> None:
    session = left(workbench, new=windows("max(k) AS x"))
    before = rows(session)
    with pytest.raises(TidegateError, match=r'TG543.*column "x" was VARCHAR and is BIGINT') as caught:
        rollback(session, "v")
    assert '"v$v1"' in (caught.value.hint or "")
    assert (rows(session), session.is_building("v")) == (before, False)


def test_E5_who_needs_an_unknown_part_of_what_is_gone_does_not_go_back(workbench: Workbench) -> None:
    visits = "SELECT window_end, count(*) AS x FROM SESSION(t, ts, INTERVAL '12 hours') GROUP BY window_end EMIT ON"
    session = left(workbench, f"{visits} WINDOW CLOSE;")
    with pytest.raises(TidegateError, match=r'TG543.*rows of "t" are beyond their retention'):
        rollback(session, "v")
    assert not session.is_building("v")


def test_E5_what_was_amended_while_it_went_back_is_kept_as_amended(
    workbench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A day needs more of the log than an hour: so an hour that is kept can still get late rows.
    session = left(workbench, windows("count(*) AS x", "TUMBLE(t, ts, INTERVAL '1 day')"), COUNT)
    swapped = build.VersionBuild.swapped

    def amended_first(version: build.VersionBuild, facts: Mapping[str, str]) -> bool:
        monkeypatch.setattr(build.VersionBuild, "swapped", swapped)
        inserted(session, ("c", 1, datetime(2026, 1, 6, 0, 10)))
        [done] = amend(workbench.session(), ["v"])
        assert done.windows == 1
        return swapped(version, facts)

    monkeypatch.setattr(build.VersionBuild, "swapped", amended_first)
    rollback(session, "v")
    assert dict(rows(session))[datetime(2026, 1, 6, 1)] == 2
    assert valid_from(session) == "2026-01-07 00:00:00"


def test_T3_E5_what_has_expired_while_another_version_was_current_stays(workbench: Workbench) -> None:
    table = """CREATE TABLE t (k VARCHAR, n INT, ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL '5 minutes' WITH TTL,
    PRIMARY KEY (k));"""

    def minutes(session: Session, *at: int) -> None:
        for one in at:
            inserted(session, (f"k{one}", one, JANUARY + timedelta(minutes=one)))
            session.run()

    minutes(session := opened(workbench, COUNT, table), 5, 50, 70)
    rebuild(session := opened(workbench, windows("2 * count(*) AS x"), table), ["v"])
    minutes(session, 100, 130, 150, 190)
    session.cleanup()
    assert rows(session) == [hour(1, 1, 4), hour(1, 2, 4), hour(1, 3, 4)]
    rollback(session, "v")
    # The second hour has lost rows: a count of what is left would be wrong.
    assert rows(session) == [hour(1, 1, 2), hour(1, 2, 4), hour(1, 3, 4)]
    assert valid_from(session) is not None


@pytest.mark.parametrize("back", [False, True])
def test_R5_E5_what_is_gone_of_the_kept_results_is_on_record(workbench: Workbench, back: bool) -> None:
    """The view's own retention is shorter than that of the log."""
    session = left(workbench)
    retired(session, 0, name="v")
    assert said(session, RETAINED_FROM) is not None
    if back:
        rollback(session, "v")
    else:
        rebuild(session := opened(workbench, windows("sum(2 * n) AS x")), ["v"])
    edge = datetime(1970, 1, 1) + timedelta(microseconds=int(said(session, RETAINED_FROM) or 0))
    assert edge == datetime(2026, 1, 6, 1)
    assert min(end for end, _ in rows(session) if end > datetime(2026, 1, 3, 1)) == edge


def test_E9_E5_who_goes_back_has_the_marks_of_that_version(workbench: Workbench) -> None:
    """Also where it keeps results of the one that is left."""
    session = opened(workbench, COUNT)
    days(session, 1, 2, 3)
    session.run()
    table = session.tables.open(session.identifier("v"))
    end = int((datetime(2026, 1, 2, 1) - datetime(1970, 1, 1)) / timedelta(microseconds=1))
    held = [MarkedWindow("one", end - 3_600_000_000, end, 1, 0, 0)]
    mark(session, table, table.current(), held)
    rebuild(session := opened(workbench, SUM), ["v"])
    days(session, 4, 5, 6, 7)
    session.run()
    retired(session)
    rollback(session, "v")
    table.current()
    assert marked(session, table) == held
    assert valid_from(session) is not None


def test_E5_upkeep_spares_the_version_that_one_goes_back_to(
    workbench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its retention passes while its rows are taken over."""
    session = left(workbench)
    swapped = build.VersionBuild.swapped

    def meanwhile(version: build.VersionBuild, facts: Any) -> bool:
        monkeypatch.setattr(build.VersionBuild, "swapped", swapped)
        maintain(workbench.session(), "v", Policy(keep_versions=0, keep_snapshots=0, settle=0))
        return swapped(version, facts)

    monkeypatch.setattr(build.VersionBuild, "swapped", meanwhile)
    rollback(session, "v")
    now = opened(workbench, COUNT)
    ends = [end for end, _ in rows(now)]
    assert ends == sorted(set(ends))
    assert audit_view(now, "v").ok


def test_E5_a_version_that_is_dropped_elsewhere_while_one_goes_back_to_it_is_not_swapped_in(
    workbench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = left(workbench)
    before, swapped = rows(session), build.VersionBuild.swapped

    def meanwhile(version: build.VersionBuild, facts: Any) -> bool:
        monkeypatch.setattr(build.VersionBuild, "swapped", swapped)
        other = workbench.session()
        monkeypatch.setattr(other, "lease", lambda *_: nullcontext())
        other.execute('DROP MATERIALIZED VIEW "v$v1"', yes=True)
        maintain(other, "v", Policy(keep_snapshots=0, settle=0))
        return swapped(version, facts)

    monkeypatch.setattr(build.VersionBuild, "swapped", meanwhile)
    with pytest.raises(TidegateError) as refused:
        rollback(session, "v")
    assert refused.value.code in ("TG502", "TG506", "TG543"), refused.value
    assert rows(workbench.session()) == before


@pytest.mark.parametrize("step", ["ViewTable", "keep"])
def test_E5_two_machines_that_go_back_at_once_do_so_once(
    workbench: Workbench, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """Whoever is slower finds that the table, which it fills, is not there any more: TG502, and not an error of
    Iceberg's."""
    session, slower = left(workbench), workbench.session()
    slower.confirm = lambda text: True
    # On another machine: its leases are not ours.
    monkeypatch.setattr(slower, "lease", lambda *_: nullcontext())
    carried_out = getattr(build, step)

    def faster(*given: Any) -> Any:
        monkeypatch.setattr(build, step, carried_out)
        rollback(session, "v")
        return carried_out(*given)

    def opened_late(view: Any, table: Any, columns: Any) -> Any:
        monkeypatch.undo()
        rollback(session, "v")
        return same(view, table, columns)

    same = view_table.same_view
    if step == "keep":
        monkeypatch.setattr(build, step, faster)
    else:
        monkeypatch.setattr(view_table, "same_view", opened_late)
    with pytest.raises(TidegateError, match="TG502"):
        rollback(slower, "v")
    assert said(session, "tidegate.generation") == "3"
    assert valid_from(session) == "2026-01-06 01:00:00"
