"""`tidegate quality`: what it asks for, how it says what fails, and its exit codes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.fake import FakeSession
from tidegate.quality import run
from tidegate.quality.model import ExpectationOutcome, SuiteResult, WindowSpan

Call = Callable[..., Any]

HOLDS = ExpectationOutcome("e", "A1: raw = counted", "critical", True, 24, 0)
LATE = ExpectationOutcome(
    "e", "few are late", "warning", False, 3, 1, None, ["day", "late_rate"], [["2026-03-01", "0.3"]]
)
GONE = ExpectationOutcome(
    "e", "no gap", "critical", False, 24, 30, None, ["window_end"], [["2026-03-01 10:00:00"]]
)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, fake: type[FakeSession]) -> list[Any]:
    """What was asked for; it finds a warning, and in orders_hourly, if that is named, a gap."""
    calls: list[Any] = []

    def check_quality(
        session: Any, names: list[str] | None, request: Any, notify: Any, steps: Any
    ) -> Iterator[SuiteResult]:
        calls.append((names, request))
        found = [GONE] if names and "orders_hourly" in names else []
        notify("orders_hourly: checking …")
        yield SuiteResult("orders_hourly", "reconciliation", "24 windows", [HOLDS, *found], ["a note"])
        yield SuiteResult("orders_hourly", "late_rate", "24 windows", [LATE], [], "docs/index.html", 1.25)

    monkeypatch.setattr(run, "check_quality", check_quality)
    return calls


def test_warnings_are_shown_and_no_failure(tidegate: Call, asked: list[Any], shop: Path) -> None:
    assert "Example: tidegate quality" in tidegate("quality", "--help").stdout
    done = tidegate("quality")
    assert done.exit_code == 0
    for text in ("orders_hourly: late_rate, 24 windows (1.2 s)", "0 of 24", "warning", "2026-03-01", "0.3"):
        assert text in done.stdout
    assert "2 expectations: 1 warning" in done.stdout
    for text in ("orders_hourly: checking …", "a note", "Data Docs: "):
        assert text in done.output
    [(names, request)] = asked
    assert (names, request.spans, request.everything) == (None, {}, False)
    assert request.docs == shop / ".tidegate" / "quality" / "docs"


def test_what_fails_is_listed_and_exits_with_1(tidegate: Call, asked: list[Any]) -> None:
    done = tidegate("quality", "ORDERS_HOURLY", "--all", "--docs", "site")
    assert done.exit_code == 1
    assert "FAILED" in done.stdout
    assert "orders_hourly: no gap (and 29 more)" in done.stdout
    assert "3 expectations: 1 FAILED, 1 warning" in done.stdout
    [(names, request)] = asked
    assert (names, request.everything, request.docs) == (["orders_hourly"], True, Path("site"))


def test_json_has_everything(tidegate: Call, asked: list[Any]) -> None:
    done = tidegate("quality", "orders_hourly", "--json")
    assert done.exit_code == 1
    document = json.loads(done.stdout.splitlines()[-1])
    assert (document["passed"], document["warnings"]) == (False, 1)
    [reconciliation, late] = document["suites"]
    assert (reconciliation["suite"], reconciliation["critical"]) == ("reconciliation", True)
    assert reconciliation["outcomes"][1]["failing"] == [["2026-03-01 10:00:00"]]
    assert late["docs"] == "docs/index.html"


def test_since_is_on_the_scale_of_each_asset(tidegate: Call, asked: list[Any]) -> None:
    assert tidegate("quality", "--since", "2026-03-01 12:00").exit_code == 0
    micros = 1_772_366_400_000_000
    [(_, request)] = asked
    assert request.spans["orders"] == request.spans["orders_hourly"] == WindowSpan(low=micros)
    wrong = tidegate("quality", "orders", "--since", "yesterday")
    assert wrong.exit_code == 2
    assert "orders" in wrong.output
    assert "not a timestamp" in wrong.output


def test_what_does_not_fit_costs_no_spark(tidegate: Call, asked: list[Any], shop: Path) -> None:
    assert 'did you mean "orders"' in tidegate("quality", "ordres").output
    (shop / "quality").mkdir(exist_ok=True)
    (shop / "quality" / "orders.yaml").write_text("asset: orders\nexpectations:\n  - expect_colum: {}\n")
    for command in ("quality", "check"):
        done = tidegate(command)
        assert done.exit_code == 2
        assert "quality/orders.yaml:3:5" in done.output
    (shop / "quality" / "orders.yaml").write_text(
        "asset: orders\nexpectations:\n  - expect_table_row_count_to_be_between: {min_value: 1}\n"
    )
    assert "quality   orders" in tidegate("check").stdout
    assert asked == []


def test_without_great_expectations(
    tidegate: Call, asked: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidegate.project.expectations.find_spec", lambda name: None)
    done = tidegate("quality")
    assert done.exit_code == 2
    assert "error TG618: Great Expectations is not installed" in done.output
    assert "pip install great-expectations==1." in done.output
    assert asked == []
