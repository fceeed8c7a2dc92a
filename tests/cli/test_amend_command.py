"""`tidegate amend`: what it asks for, and how it says what was done."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.cli.fake import FakeSession
from tidegate.amend import run
from tidegate.views.amend import whatif
from tidegate.views.amend.whatif import WhatIf, WindowWhatIf
from tidegate.views.revisions.amend_report import AmendedWindow, ViewAmendment

Call = Callable[..., Any]
HIT = AmendedWindow("2026-03-01 10:00:00", "2026-03-01 11:00:00", 2, 3, 1)
HOURLY = ViewAmendment("orders_hourly", 1, 3, 1, 0.5, examples=[HIT])
DAILY = ViewAmendment("orders_daily", notes=["no window is closed yet"])


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, fake: type[FakeSession]) -> list[dict[str, Any]]:
    """What was asked for; one window of orders_hourly is hit."""
    calls: list[dict[str, Any]] = []

    def amend(session: Any, names: list[str] | None, **options: Any) -> list[ViewAmendment]:
        calls.append({"names": names, **options})
        return [HOURLY, DAILY]

    monkeypatch.setattr(run, "amend", amend)
    return calls


def test_windows_and_a_line_for_each_view(tidegate: Call, asked: list[dict[str, Any]]) -> None:
    assert "Example: tidegate amend" in tidegate("amend", "--help").stdout
    done = tidegate("amend")
    assert done.exit_code == 0
    assert "orders_hourly: 1 window amended, 3 late rows included, 1 row changed (0.5 s)" in done.stdout
    assert "orders_daily: nothing to amend" in done.stdout
    assert "2026-03-01 11:00:00" in done.stdout
    assert (asked[0]["names"], asked[0]["from_late"], asked[0]["dry_run"]) == (None, True, False)


def test_a_range_alone_is_a_backfill(tidegate: Call, asked: list[dict[str, Any]]) -> None:
    tidegate("amend", "orders_hourly", "--range", "2026-03-01", "2026-03-02")
    tidegate("amend", "orders_hourly", "--range", "2026-03-01", "2026-03-02", "--from-late")
    assert [(a["from_late"], a["after"], a["upto"]) for a in asked] == [
        (False, "2026-03-01", "2026-03-02"),
        (True, "2026-03-01", "2026-03-02"),
    ]


def test_a_selection_means_its_views(tidegate: Call, asked: list[dict[str, Any]]) -> None:
    tidegate("amend", "--select", "orders+")
    assert asked[0]["names"] == ["orders_hourly", "orders_daily"]


def test_json_of_a_dry_run(tidegate: Call, asked: list[dict[str, Any]]) -> None:
    done = tidegate("amend", "--dry-run", "--json")
    document = json.loads(done.stdout.splitlines()[-1])
    assert document["dry_run"] is True
    assert document["views"][0]["examples"][0] == {
        "window_start": "2026-03-01 10:00:00",
        "window_end": "2026-03-01 11:00:00",
        "revision": 2,
        "late": 3,
        "groups": 1,
    }
    assert asked[0]["dry_run"] is True


def test_a_what_if_writes_nothing(
    tidegate: Call, asked: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    windows = [WindowWhatIf("2026-03-01 10:00:00", "2026-03-01 11:00:00", 3, 0)]
    found = WhatIf("orders_hourly", "orders", "ts", "ts - 9", 40, 4, 1, 2, 1, windows)
    monkeypatch.setattr(whatif, "what_if", lambda session, view, strategy: found)
    done = tidegate("amend", "orders_hourly", "--what-if", "ts - 9")
    assert "orders: 4 late rows (10.00 %) with ts; 1 (2.50 %) with ts - 9" in done.stdout
    assert "of 2 closed windows that have late rows, 1 would be complete" in done.stdout
    document = json.loads(
        tidegate("amend", "orders_hourly", "--what-if", "ts - 9", "--json").stdout.splitlines()[-1]
    )
    assert document["what_if"][0]["examples"][0]["late"] == 3
    assert tidegate("amend", "--what-if", "ts - 9").exit_code == 2
    assert asked == []
