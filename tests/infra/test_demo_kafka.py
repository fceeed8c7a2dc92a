"""The second demo: what it sends and when, what it tells of it, and a short run of the whole."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from datetime import date, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from infra.demo_kafka.flights import AIRPORTS, SILENT, SLOW, Departure, Script, departures, messages
from infra.demo_kafka.picture import News, Picture, picture
from tests.conftest import ROOT
from tidegate.project import Project

SCRIPT = Script.of(100.0)


def flight(origin: str, left: str, scheduled: str = "2013-02-01T05:00") -> Departure:
    return Departure(
        datetime.fromisoformat(left), datetime.fromisoformat(scheduled), origin, "BOS", "AA", 7, 2.0
    )


def test_silence_is_long_enough_to_be_idle_and_over_before_the_other_slows_down() -> None:
    for seconds in (1.0, 30.0, 140.0):
        script = Script.of(seconds, idle_timeout=10.0)
        assert script.silent_until - script.silent_from >= 20.0
        assert script.silent_until <= script.slow_from <= script.slow_until <= script.end


def test_what_is_held_back_is_sent_later_and_in_the_same_order() -> None:
    for airport in AIRPORTS:
        due = [SCRIPT.due(airport, second / 10) for second in range(1001)]
        assert all(before <= after for before, after in pairwise(due))
        assert all(later >= second / 10 for second, later in enumerate(due))
    assert SCRIPT.due(SILENT, 25.0) == SCRIPT.silent_until == 50.0
    assert SCRIPT.due(SLOW, SCRIPT.slow_from + 10.0) == SCRIPT.slow_from + 20.0
    assert SCRIPT.due(SLOW, 84.0) == SCRIPT.slow_until
    assert (SCRIPT.doing(SILENT, 25.0), SCRIPT.doing(SLOW, 60.0), SCRIPT.doing("EWR", 60.0)) == (
        "silent",
        "slow",
        "flowing",
    )


def test_a_message_comes_when_the_plane_left_and_says_what_it_was_scheduled_for() -> None:
    flights = [flight("EWR", "2013-02-01T05:10"), flight("JFK", "2013-02-01T05:40", "2013-02-01T05:45")]
    first, second = messages(flights, speed=600.0, script=SCRIPT)
    assert (first.due, second.due) == (0.0, 3.0)
    assert (first.airport, first.key) == ("EWR", "AA7")
    assert json.loads(second.value)["sched_dep"] == "2013-02-01T05:45:00"
    assert second.timestamp_ms == 1_359_697_200_000


@pytest.mark.medium
def test_the_data_are_the_departures_of_the_days_in_the_order_in_which_they_left() -> None:
    found = departures(date(2013, 2, 1), 2)
    assert {one.scheduled.date() for one in found} == {date(2013, 2, 1), date(2013, 2, 2)}
    assert all(before.left <= after.left for before, after in pairwise(found))
    assert {one.origin for one in found} == set(AIRPORTS)


def status(**partitions: dict[str, Any]) -> dict[str, Any]:
    """/status, as far as the demo reads it; by airport."""
    found = [
        {
            "partition": str(AIRPORTS.index(airport)),
            "on_time": 0,
            "late": 0,
            "rejected": 0,
            "watermark_text": "-",
        }
        | facts
        for airport, facts in partitions.items()
    ]
    view = {"groups": 3, "open": 1, "frontier_text": "2013-02-01 05:00:00", "current": True}
    return {
        "relations": [{"partitions": found, "holds_back": ["1"], "watermark_text": "2013-02-01 05:10:00"}],
        "views": [view],
    }


def shown(sent: int, doing: str = "flowing", **partitions: dict[str, Any]) -> Picture:
    return picture(1.0, dict.fromkeys(AIRPORTS, sent), lambda _: doing, status(**partitions))


def test_the_sum_adds_up_only_if_it_does_for_each_airport() -> None:
    even = {"on_time": 1, "late": 1, "rejected": 1, "state": "active"}
    assert shown(3, EWR=even, JFK=even, LGA=even).total() == (
        "9 rows produced = 3 on time + 3 late + 3 rejected: all counts agree"
    )
    crooked = shown(3, EWR=even | {"on_time": 0}, JFK=even | {"on_time": 2}, LGA=even)
    assert crooked.total().endswith(
        "9 rows produced = 3 on time + 3 late + 3 rejected: THE COUNTS DO NOT AGREE"
    )
    assert [row.holds_back for row in crooked.rows] == [False, True, False]
    assert [row.waiting for row in crooked.rows] == [1, 0, 0]
    before = picture(0.0, dict.fromkeys(AIRPORTS, 0), lambda _: "flowing", None)
    assert {row.state for row in before.rows} == {"-"}


def test_the_story_of_the_silent_airport_is_told_once() -> None:
    news = News()

    def lga(state: str, doing: str, late: int, sent: int) -> list[str]:
        facts = {"state": state, "late": late, "on_time": 10}
        now = picture(
            1.0,
            dict.fromkeys(AIRPORTS, sent),
            lambda a: doing if a == "LGA" else "flowing",
            status(LGA=facts),
        )
        return list(news.between(now))

    assert lga("active", "flowing", 2, 12) == []
    assert "falls silent" in lga("active", "silent", 2, 12)[0]
    assert "LGA is idle" in lga("idle", "silent", 2, 12)[0]
    assert lga("idle", "silent", 2, 12) == []
    assert lga("idle", "flowing", 2, 52) == ["LGA sends what has gathered"]
    assert lga("active", "flowing", 30, 52) == []
    assert lga("active", "flowing", 42, 52) == [
        "LGA woke up: 40 of its rows missed the others' watermark, and are kept as late"
    ]
    assert lga("active", "flowing", 43, 53) == []


def test_its_project_is_valid_and_small() -> None:
    catalog = Project.load(ROOT / "infra" / "demo_kafka" / "project").catalog()
    assert [one.name for one in (*catalog.relations, *catalog.views)] == ["flights", "departures_hourly"]


@pytest.mark.long_run
@pytest.mark.slow
@pytest.mark.spark
def test_a_short_demo_accounts_for_every_row_and_leaves_nothing_behind(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "infra.demo_kafka",
        "--rows",
        "3000",
        "--speed",
        "17280",
        "--dir",
        str(tmp_path),
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    produced = re.search(r"([\d,]+) rows produced = .* all counts agree", done.stdout)
    assert produced is not None
    assert int(produced[1].replace(",", "")) > 3000, "broken messages among them"
    assert "LGA is idle" in done.stdout
    assert re.search(r"[1-9]\d* windows closed", done.stdout)
    told = subprocess.run(
        [sys.executable, "-m", "infra.kafka", "status", "--dir", str(tmp_path / "broker")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "no broker" in told.stdout
