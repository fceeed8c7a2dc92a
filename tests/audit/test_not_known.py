"""A1: an audit of joins and of views over views says what it can't know yet, and what was emitted too early is wrong
at once, not only when the input that lags has closed its window."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from dagster import AssetKey

from tests.conftest import Workbench
from tests.support.by_hand import by_hand
from tidegate.audit import known
from tidegate.audit.view import audit_view
from tidegate.dagster.checks import windowed_equals_raw
from tidegate.quality.run import check_quality
from tidegate.session.session import Session
from tidegate.sql.catalog.objects import View
from tidegate.views import view_table
from tidegate.views.inputs import Pinned, clock_of
from tidegate.watermark import TimeKind

pytestmark = pytest.mark.runner("inprocess")

TABLES = """
CREATE TABLE a (ts TIMESTAMP, WATERMARK FOR ts AS ts) APPEND ONLY;
CREATE TABLE b (ts TIMESTAMP, WATERMARK FOR ts AS ts) APPEND ONLY;
CREATE MATERIALIZED VIEW va AS SELECT window_start, count(*) AS n FROM TUMBLE(a, ts, INTERVAL '10 minutes')
GROUP BY window_start EMIT ON WINDOW CLOSE;
CREATE MATERIALIZED VIEW vb AS SELECT window_start, count(*) AS n FROM TUMBLE(b, ts, INTERVAL '10 minutes')
GROUP BY window_start EMIT ON WINDOW CLOSE;
CREATE MATERIALIZED VIEW pairs AS SELECT va.window_start, va.n, vb.n AS other FROM va LEFT JOIN vb
ON va.window_start = vb.window_start EMIT ON WINDOW CLOSE;
"""
ROWS = """
INSERT INTO a VALUES ('2026-01-01 10:01:00'), ('2026-01-01 10:11:00'), ('2026-01-01 10:26:38');
INSERT INTO b VALUES ('2026-01-01 10:02:00'), ('2026-01-01 10:15:03');
FLUSH;
"""
PLANTED = """
UPDATE {view} SET window_start = window_start + INTERVAL 10 MINUTES,
  _window_start = _window_start + INTERVAL 10 MINUTES, _window_end = _window_end + INTERVAL 10 MINUTES
"""
RIGHT = clock_of


def too_soon(view: View, pinned: Sequence[Pinned]) -> int | None:
    """What a join of windows must not do: go by the table that is ahead."""
    if view.name != "pairs":
        return RIGHT(view, pinned)
    return TimeKind.TIMESTAMP.parse("2026-01-01 10:20:00")


def with_wrong_clock(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(view_table, "clock_of", too_soon)
    session.execute(ROWS)


def with_a_wrong_clock_that_the_audit_has_too(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known, "clock_of", too_soon)
    with_wrong_clock(session, monkeypatch)


def with_a_planted_row(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    session.execute(ROWS)
    by_hand(session, PLANTED.format(view=session.identifier("pairs")))


@pytest.mark.parametrize(
    "emit", [with_wrong_clock, with_a_wrong_clock_that_the_audit_has_too, with_a_planted_row]
)
def test_A1_what_was_emitted_too_early_is_wrong_at_once(
    workbench: Workbench,
    monkeypatch: pytest.MonkeyPatch,
    emit: Callable[[Session, pytest.MonkeyPatch], None],
) -> None:
    session = workbench.session()
    session.execute(TABLES)
    emit(session, monkeypatch)
    audit = audit_view(session, "pairs")
    assert not audit.ok
    assert audit.batch.too_early == 1
    early = next(e for e in audit.batch.examples if e.kind == "too early")
    # The time itself, and not the tick in which it ends.
    assert early.window_end == "2026-01-01 10:10:00"
    assert early.values["window_start"] == "2026-01-01 10:10:00"
    if emit is not with_a_planted_row:
        return
    check = windowed_equals_raw(session, "pairs", AssetKey("pairs"))
    assert not check.passed
    assert "1 row was emitted though an input has not closed it" in str(check.description)
    (result,) = [r for r in check_quality(session, ["pairs"]) if r.suite == "reconciliation"]
    assert not result.passed


def test_A1_what_an_input_may_still_change_is_not_counted_as_right(workbench: Workbench) -> None:
    session = workbench.session()
    session.execute(TABLES)
    session.execute(ROWS)
    audit = audit_view(session, "pairs")
    assert audit.ok
    assert (audit.batch.compared, audit.batch.not_known) == (1, 0)
    assert audit.batch.open_inputs == [
        "not known yet: rows that end after 2026-01-01 10:10:00, because windows of vb may still arrive from "
        "2026-01-01 10:20:00 on"
    ]
    # Of the windows of an inline query the audit knows the reach only: a minute more than the derivation needs.
    session.execute(
        "CREATE MATERIALIZED VIEW inline AS SELECT window_start, sum(n) AS n FROM TUMBLE((SELECT window_end AS e, "
        "count(*) AS n FROM TUMBLE(a, ts, INTERVAL '1 minute') GROUP BY window_end), e, INTERVAL '1 minute') "
        "GROUP BY window_start EMIT ON WINDOW CLOSE;"
        "INSERT INTO a VALUES ('2026-01-01 10:30:00'), ('2026-01-01 10:31:00'); FLUSH;"
    )
    audit = audit_view(session, "inline")
    assert audit.ok
    assert (audit.batch.compared, audit.batch.not_known) == (4, 1)
    (note,) = audit.batch.open_inputs
    assert note.endswith("because rows of a may still arrive from 2026-01-01 10:31:00 on")
    check = windowed_equals_raw(session, "inline", AssetKey("inline"))
    assert check.passed
    assert "3 result rows" in str(check.description)
    assert "1 can't be known yet" in str(check.description)
