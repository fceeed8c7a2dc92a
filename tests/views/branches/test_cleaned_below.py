"""R5: the cleanup of a table WITH TTL waits for the views of its own environment. A branch that comes later skips what
it can't know any more, and says so."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.views.test_promote import rows
from tidegate.audit.view import audit_view
from tidegate.errors import TidegateError
from tidegate.session.session import Session
from tidegate.store.status import read_status
from tidegate.views.retention import cleanup

pytestmark = pytest.mark.runner("inprocess")

HOURLY = """
CREATE MATERIALIZED VIEW w AS SELECT window_end, count(*) AS n FROM TUMBLE(keyed, ts, INTERVAL '1 hour')
GROUP BY window_end EMIT ON WINDOW CLOSE;
"""
STAYS = """
CREATE MATERIALIZED VIEW w AS SELECT window_end, count(*) AS n FROM SESSION(keyed, ts, INTERVAL '90 minutes')
GROUP BY window_end EMIT ON WINDOW CLOSE;
"""
SKIPPED = (("2026-01-01 03:30:00", "2026-01-01 10:30:00"),)


def insert(session: Session, *hours: int) -> None:
    values = ", ".join(f"('k{hour}', '2026-01-01 {hour:02}:30:00')" for hour in hours)
    session.execute(f"INSERT INTO keyed VALUES {values}")


def behind_a_cleanup(opened: Callable[..., Session], view: str) -> Session:
    """A branch that has run, and runs again after production has cleaned up."""
    production = opened("local", "")
    insert(production, 1, 2, 3)
    opened("dev", view).run()
    insert(production, 4, 5, 6, 9)
    assert [one.table for one in cleanup(opened("local", "")) if one.upto is not None] == ["keyed"]
    return opened("dev", view)


def test_R5_windows_whose_rows_were_cleaned_up_are_skipped_and_named(opened: Callable[..., Session]) -> None:
    dev = behind_a_cleanup(opened, HOURLY)
    before = rows(dev, "w")
    [status] = read_status(dev.project, ["w"]).views
    assert "beyond their retention" in (status.missing or "")
    dev.run()
    assert rows(dev, "w") == before
    # What comes then is there again.
    insert(opened("local", HOURLY), 12, 14)
    dev.run()
    assert [row[0].hour for row in rows(dev, "w")] == [*(row[0].hour for row in before), 13]
    [status] = read_status(dev.project, ["w"]).views
    assert (status.skipped, status.missing) == (SKIPPED, None)
    assert audit_view(dev, "w").ok


def test_R5_sessions_can_not_continue_over_what_was_cleaned_up(opened: Callable[..., Session]) -> None:
    dev = behind_a_cleanup(opened, STAYS)
    with pytest.raises(TidegateError, match=r'TG543.*"w" can\'t continue.*"keyed"'):
        dev.run()
