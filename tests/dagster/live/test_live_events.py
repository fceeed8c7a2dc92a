"""What a live process tells, as Dagster events: sums, throttling, bounds; time is injected."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime
from pathlib import Path

import dagster as dg
import pytest

from tests.dagster.projects import SINKS, write_project
from tidegate.dagster.live.events import LINES, LONGEST, LiveJournal
from tidegate.dagster.live.jobs import live_assets
from tidegate.plan.events import (
    BatchCommitted,
    Event,
    LiveStarted,
    MemberFailed,
    SinkDelivered,
    SliceCommitted,
    SourceStarted,
    TickFinished,
    WorkerExited,
    WorkerFailed,
)
from tidegate.project import Project
from tidegate.project.jobs.live import LiveRun


class Stream:
    """A journal of the shop's orders, and the clock that it looks at."""

    def __init__(self, root: Path) -> None:
        (root / "assets" / "sinks.sql").write_text(SINKS)
        self.at = 0.0
        self.output: list[str] = []
        catalog = Project.load(root).catalog()
        names = ("orders", "orders_hourly", "notes", "notes_daily", "exported", "large", "shown")
        keys = {name: dg.AssetKey(name) for name in names}
        assets = live_assets(LiveRun(name="x", select=["orders"]), catalog, keys)
        self.journal = LiveJournal(
            assets, 60, self.output.append, lambda: self.at, lambda: datetime(2026, 3, 1, 11, 0, tzinfo=UTC)
        )

    def notify(self, *events: Event) -> None:
        for event in events:
            self.journal.take(json.dumps(event.to_dict()))

    def due(self, everything: bool = False) -> dict[str, tuple[str, dict[str, object]]]:
        """By asset: (what kind of event, its metadata)."""
        return {
            e.asset_key.to_user_string(): (type(e).__name__, {k: v.value for k, v in e.metadata.items()})
            for e in self.journal.due(everything)
        }


@pytest.fixture
def stream(tmp_path: Path) -> Stream:
    return Stream(write_project(tmp_path / "shop"))


def batch(epoch: int, on_time: int = 5, late: int = 1, watermark: str = "2026-03-01 10:30:00") -> Event:
    return BatchCommitted("orders", epoch, on_time, late, 0, epoch * 6, watermark, 0.5)


def closed(groups: int, frontier: str = "2026-03-01 10:30:00") -> Event:
    return SliceCommitted("orders_hourly", frontier, groups, 2, 0.25)


def test_the_first_commit_is_recorded_at_once_and_the_next_ones_are_added_up(stream: Stream) -> None:
    stream.notify(batch(1), closed(3))
    first = stream.due()
    assert first["orders"] == (
        "AssetMaterialization",
        {
            "watermark": "2026-03-01 10:30:00", "epoch": 1, "rows": 6, "seconds behind the clock": 1800.0,
            **{f"{k} since the last report": v for k, v in _sums(1).items()},
            **{f"{k} of this run": v for k, v in _sums(1).items()},
        },
    )  # fmt: skip
    kind, view = first["orders_hourly"]
    assert (kind, view["frontier"], view["final result rows"], view["open result rows"]) == (
        "AssetMaterialization", "2026-03-01 10:30:00", 3, 2
    )  # fmt: skip
    assert set(first) == {"orders", "orders_hourly"}

    for n in range(2, 31):
        stream.at += 2
        stream.notify(batch(n), closed(3 + n))
        assert stream.due() == {}
    stream.at = 60
    later = stream.due()
    kind, source = later["orders"]
    # Materialized once in a run; then it is observed.
    assert (kind, source["rows since the last report"], source["rows of this run"]) == (
        "AssetObservation",
        29 * 6,
        30 * 6,
    )
    kind, view = later["orders_hourly"]
    assert (kind, view["final result rows"], view["final result rows since the last report"]) == (
        "AssetMaterialization", 33, 30
    )  # fmt: skip
    assert (view["slices since the last report"], view["seconds since the last report"]) == (29, 7.25)
    stream.at = 600
    assert stream.due() == {}


def _sums(n: int) -> dict[str, float]:
    return {
        "rows": 6 * n,
        "on time": 5 * n,
        "late": n,
        "rejected": 0,
        "batches": n,
        "seconds": 0.5 * n,
    }


def test_at_the_end_everything_that_waits_is_recorded(stream: Stream) -> None:
    stream.notify(batch(1), closed(1))
    stream.due()
    stream.at += 1
    stream.notify(closed(4))
    assert stream.due() == {}
    assert stream.due(everything=True)["orders_hourly"][1]["final result rows since the last report"] == 3
    assert stream.due(everything=True) == {}


@pytest.mark.long_run
@pytest.mark.medium
def test_a_week_of_ticks_leaves_one_event_a_minute_and_nothing_in_memory(stream: Stream) -> None:
    recorded = 0
    hours = 7 * 24
    for n in range(hours * 60):
        stream.at = n * 60.0
        for _ in range(3):
            stream.notify(batch(n + 1), closed(n), TickFinished("orders", n, 6, False, 0.1, 0.1))
        recorded += len(stream.journal.due())
    assert recorded == 2 * hours * 60
    assert stream.journal.lines() == []


def test_a_sink_is_materialized_by_deliveries_only(stream: Stream) -> None:
    stream.notify(SinkDelivered("exported", "filesystem", 0, 0.1))
    assert stream.due() == {}
    stream.notify(
        SinkDelivered("exported", "filesystem", 4, 0.5), SinkDelivered("exported", "filesystem", 2, 0.5)
    )
    kind, facts = stream.due()["exported"]
    assert kind == "AssetMaterialization"
    assert (facts["connector"], facts["rows of this run"], facts["seconds of this run"]) == (
        "filesystem", 6, 1.0
    )  # fmt: skip
    # B2: also if all that there was to deliver is what was amended.
    stream.at += 120
    stream.notify(SinkDelivered("exported", "iceberg", 0, 0.5, 3))
    assert stream.due()["exported"][1]["amended windows since the last report"] == 3


def test_what_is_no_asset_and_what_is_unknown_is_left_out(stream: Stream) -> None:
    stream.notify(
        SliceCommitted("$gate_1", "none", 1, 0, 0.1),
        BatchCommitted("elsewhere", 1, 1, 0, 0, 1, "none", 0.1),
        SourceStarted("orders", 1, 1),
    )
    stream.journal.take('{"event": "of_a_later_version", "rows": 5}\n')
    stream.journal.take("\n")
    assert stream.due() == {}
    assert stream.journal.lines() == []


def test_a_source_without_a_watermark_yet_has_no_lag(stream: Stream) -> None:
    stream.notify(batch(1, watermark="none"))
    assert "seconds behind the clock" not in stream.due()["orders"][1]


def test_errors_and_restarts_are_lines_of_the_log(stream: Stream) -> None:
    stream.notify(
        LiveStarted(("orders",), "http://127.0.0.1:9464"),
        MemberFailed("orders", "exported", "sink", "TG541", "not its own", 2, 4.0),
        WorkerFailed("orders", "TG503", "no such path", "make it", True),
        WorkerExited("orders", -9, 3.0, "worker 7 was killed by SIGKILL"),
        WorkerExited("orders", 2, None, "given up because a restart would not help"),
        WorkerExited("orders", 0, None, "worker 7 ended"),
    )
    stream.journal.take("Traceback (most recent call last):\n")
    assert stream.journal.lines() == [
        (logging.INFO, "started: orders; health and metrics on http://127.0.0.1:9464"),
        (logging.WARNING, "sink exported: try 2 failed, next in 4 s: TG541: not its own"),
        (logging.ERROR, "orders: TG503: no such path (make it)"),
        (logging.WARNING, "orders: worker 7 was killed by SIGKILL; again in 3 s"),
        (logging.ERROR, "orders: given up because a restart would not help"),
        (logging.INFO, "Traceback (most recent call last):"),
    ]
    stream.journal.take('{"event": "worker_output", "group": "orders", "text": "WARN TaskSetManager"}')
    assert stream.output == ["orders: WARN TaskSetManager"]
    assert (stream.journal.error["code"], stream.journal.error["curable"]) == ("TG503", True)
    assert stream.journal.lines() == []


def test_lines_are_bounded_in_number_and_length(stream: Stream) -> None:
    for _ in range(LINES + 12):
        stream.journal.take("x" * 10_000)
    first = stream.journal.lines()
    assert len(first) == LINES
    assert max(len(text) for _, text in first) <= LONGEST + 2
    stream.at = 61
    assert stream.journal.lines() == [(logging.INFO, "12 more lines were skipped here")]
    stream.journal.take("again")
    assert stream.journal.lines() == [(logging.INFO, "again")]


def test_silence_is_told_once_in_a_while(stream: Stream) -> None:
    stream.notify(batch(1))
    stream.at = 299
    assert stream.journal.lines() == []
    stream.at = 300
    assert stream.journal.lines() == [(logging.WARNING, "no event for 300 s")]
    stream.at = 500
    assert stream.journal.lines() == []
    stream.at = 600
    assert stream.journal.lines() == [(logging.WARNING, "no event for 600 s")]
