"""The run log: one line per event, rows so far, and a sign of life in quiet times."""

from __future__ import annotations

import logging
import time

import pytest

from tidegate.dagster.progress import ProgressLog
from tidegate.plan.events import (
    BatchCommitted,
    RunStarted,
    SliceCommitted,
    SourceFinished,
    SourceStarted,
    ViewFinished,
)

LOG = logging.getLogger("tests.dagster.progress")


def batch(epoch: int, rows: int, total: int) -> BatchCommitted:
    return BatchCommitted("orders", epoch, rows - 2, 1, 1, total, "2026-03-01 10:30:00", 1.25)


def test_every_event_is_a_line_with_rows_so_far(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, LOG.name):
        notify = ProgressLog(LOG)
        notify(RunStarted(("orders",)))
        notify(SourceStarted("orders", 2500, 3))
        notify(batch(4, 1000, 11_000))
        notify(batch(5, 1500, 12_500))
        notify(SourceFinished("orders", 12_480, 10, 10, "2026-03-01 10:30:00", 2))
        notify(SliceCommitted("hourly", "2026-03-01 10:30:00", 7, 0, 0.5))
        notify(ViewFinished("hourly", "2026-03-01 10:30:00", 7, 0))
    assert caplog.messages[0] == "orders: 2,500 rows in 3 files waiting"
    assert "1,000 of 2,500 rows read, 11,000 in the log; watermark 2026-03-01 10:30:00" in caplog.messages[1]
    assert "2,500 of 2,500 rows read, 12,500 in the log" in caplog.messages[2]
    assert caplog.messages[3].startswith(
        "orders: up to date after 2 new epochs; in all 12,480 on time, 10 late"
    )
    assert caplog.messages[4].startswith("hourly: slice of 0.5 s committed; 7 result rows final")
    assert len(caplog.messages) == 6


def test_a_quiet_time_says_what_is_waited_for(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, LOG.name), ProgressLog(LOG).reminding(every=0.02) as notify:
        notify(SourceStarted("orders", 2500, None))
        notify(batch(1, 1000, 1000))
        deadline = time.monotonic() + 10
        while not any(message.endswith(" s now") for message in caplog.messages):
            assert time.monotonic() < deadline
            time.sleep(0.01)
    [first, *_] = [message for message in caplog.messages if message.endswith(" s now")]
    assert first.startswith(
        "orders: 1,000 of 2,500 rows read, 1,000 in the log; reading the next batch, for "
    )
