"""The demo's real year: every number equals the independent computation, for any batch size (W1-W6, C2, W4)."""

from __future__ import annotations

import os
import shutil
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from tests.conftest import ROOT, Workbench
from tests.support.flights import Year, year
from tidegate.amend.run import amend

if TYPE_CHECKING:
    from tidegate.session.session import Session

pytestmark = [pytest.mark.slow, pytest.mark.runner("inprocess")]

#: In CI the year is played and compared, and January is audited, too; `make property` audits the year.
THOROUGH = os.environ.get("TIDEGATE_HYPOTHESIS") == "thorough"


def play(workbench: Workbench, batch: int, month: int | None = None) -> Session:
    """The root project's assets in a project of their own, run to the end."""
    for name in ("flights.sql", "nycflights13.py"):
        shutil.copy(ROOT / "assets" / name, workbench.root / "assets" / name)
    if month is not None:
        path = workbench.root / "assets" / "flights.sql"
        text = path.read_text()
        assert "'dep_time IS NOT NULL'" in text
        path.write_text(text.replace("'dep_time IS NOT NULL'", f"'dep_time IS NOT NULL AND month = {month}'"))
    session = workbench.allow(python=True).session(compiled=month is None)
    session.run(max_rows_per_batch=batch)
    return session


def compare(session: Session, expected: Year) -> None:
    per_origin = session.table("flights$raw").groupBy("origin", "outcome").count().collect()
    counts = {(r["origin"], r["outcome"]): r["count"] for r in per_origin}
    assert sum(counts.values()) == expected.rows
    assert {o: n for (o, outcome), n in counts.items() if outcome == "late"} == dict(expected.late)
    newest = session.table("flights$watermarks").orderBy("epoch", ascending=False).limit(4).collect()
    assert {r["partition"]: r["watermark"] for r in newest if r["partition"]} == expected.watermarks
    assert {r["published"] for r in newest} == {expected.published}

    hourly = session.table("departures_hourly").collect()
    assert len(hourly) == len(expected.hourly)  # emitted once: no group twice
    for r in hourly:
        departures, mean = expected.hourly[r["window_start"], r["origin"], r["carrier"]]
        assert r["departures"] == departures
        assert r["avg_dep_delay"] == pytest.approx(mean, rel=1e-9, abs=1e-9)
    rolling = session.table("departures_rolling").collect()
    assert len(rolling) == len(expected.rolling)
    for r in rolling:
        departures, mean = expected.rolling[r["window_start"], r["origin"]]
        assert r["departures"] == departures
        assert r["avg_dep_delay"] == pytest.approx(mean, rel=1e-9, abs=1e-9)
    daily = {r["window_start"]: r["departures"] for r in session.table("departures_daily").collect()}
    assert daily == expected.daily


def adds_up(session: Session) -> None:
    from tidegate.audit.source import audit_source
    from tidegate.audit.view import audit_view

    assert audit_source(session, "flights").ok
    for view in ("departures_hourly", "departures_rolling", "departures_daily"):
        audit = audit_view(session, view)
        assert audit.ok
        assert audit.raw == audit.counted + audit.filtered + audit.late + audit.rejected


@pytest.mark.long_run
@pytest.mark.runner("spark")
def test_W4_property_year_equals_the_independent_computation(workbench: Workbench) -> None:
    session = play(workbench, 120_000)
    compare(session, year())
    # What the demo prints: 328,521 rows = 306,592 on time + 21,929 late + 0 rejected.
    assert year().rows == 328_521
    if THOROUGH:
        adds_up(session)


def test_W4_A1_january_in_batches(workbench: Workbench) -> None:
    session = play(workbench, 5_000, month=1)
    compare(session, year(1))
    adds_up(session)


@pytest.mark.long_run
def test_B3_property_a_delay_of_15_minutes_and_an_amendment(workbench: Workbench) -> None:
    """Of a year with 19.2 % late (of January alone, where it is not thorough), every closed hour counts all rows in the
    end, and only hit hours have a second revision."""
    month = None if THOROUGH else 1
    expected = year(month, timedelta(minutes=15))
    share = sum(expected.late.values()) / expected.rows
    assert share == pytest.approx(0.192, abs=0.0005) if month is None else share > 0.1
    shutil.copy(ROOT / "assets" / "nycflights13.py", workbench.root / "assets")
    text = (ROOT / "assets" / "flights.sql").read_text().split("-- The last hour")[0]
    assert text.count("sched_dep - INTERVAL '1 hour'") == 1
    text = text.replace("sched_dep - INTERVAL '1 hour'", "sched_dep - INTERVAL '15 minutes'")
    if month is not None:
        assert "'dep_time IS NOT NULL'" in text
        text = text.replace("'dep_time IS NOT NULL'", f"'dep_time IS NOT NULL AND month = {month}'")
    session = workbench.allow(python=True).assets(flights=text).session(compiled=True)
    session.run()

    [done] = amend(session)
    assert (done.windows, done.late) == (
        len(expected.hit),
        sum(expected.complete.values()) - sum(n for n, _ in expected.hourly.values()),
    )
    stored = session.table("departures_hourly").collect()
    counts = {(r["window_start"], r["origin"], r["carrier"]): r["departures"] for r in stored}
    assert counts == expected.complete
    assert len(stored) == len(counts)
    second = (
        session.table("departures_hourly$revisions").where("revision > 1").select("window_start", "revision")
    )
    assert {tuple(r) for r in second.distinct().collect()} == {(hour, 2) for hour in expected.hit}
    assert [r.windows for r in amend(session)] == [0]
