"""What is expected of windows, days and logs, without Spark: the tables, and Great Expectations over them."""

from __future__ import annotations

from html import escape
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tidegate.audit.source import PartitionAudit, SourceAudit
from tidegate.project.expectations import Expectation, Reconciliation
from tidegate.quality.docs import write_docs
from tidegate.quality.gx import Validator
from tidegate.quality.model import ExpectationOutcome, FactTable, SuiteResult
from tidegate.quality.reconcile import late_tables, log_tables, window_tables
from tidegate.quality.trend import trend
from tidegate.quality.windows import Day, Windows
from tidegate.watermark import TimeKind

HOUR = 3_600_000_000


def days(*shares: float, rows: int = 1000) -> list[Day]:
    return [Day(20_000 + i, 24, rows, round(share * rows), 0, 0, 0) for i, share in enumerate(shares)]


def verdicts(tables: list[FactTable]) -> dict[str, ExpectationOutcome]:
    validator = Validator()
    return {o.text: o for table in tables for o in validator.table(table.name, table)}


@pytest.mark.parametrize(
    ("rates", "grows"),
    [
        ([0.02 + 0.002 * i for i in range(30)], True),
        ([0.05] * 30, False),
        ([0.02] * 29 + [0.9], False),
        ([0.08 - 0.002 * i for i in range(30)], False),
        ([Random(7).uniform(0.02, 0.05) for _ in range(30)], False),
        # A week is enough if it never falls.
        ([0.01 * i for i in range(7)], True),
    ],
    ids=["steady", "level", "one bad day", "falls", "noise", "a week"],
)
def test_a_late_rate_that_grows(rates: list[float], grows: bool) -> None:
    found = trend(list(enumerate(rates)))
    assert found is not None
    assert (found.growth > 0) is grows
    if grows:
        assert found.growth == pytest.approx(rates[-1] - rates[0], rel=0.1)


def test_less_than_a_week_is_no_trend() -> None:
    assert trend([(i, 0.1 * i) for i in range(6)]) is None


def test_late_rates_of_days_and_their_trend() -> None:
    notes: list[str] = []
    limits = Reconciliation(late_rate=0.06, late_rate_growth=0.02)
    growing = Windows(True, days=days(*[0.02 + 0.005 * i for i in range(10)]))
    found = verdicts(late_tables(growing, limits, notes))
    below = found["at most 6 % of a day's rows are late"]
    assert (below.passed, below.severity, below.found) == (False, "warning", "1 of 10 fails")
    assert below.failing == [["2024-10-13", "1000", "65", "0.065"]]
    steady = found["the late rate does not grow by more than 2 % of all rows in 30 days"]
    assert not steady.passed
    assert steady.failing[0][:3] == ["2024-10-04", "2024-10-13", "10"]

    calm = Windows(True, days=days(*[0.02, 0.03] * 5))
    assert all(o.passed for o in verdicts(late_tables(calm, limits, notes)).values())
    assert notes == []
    assert late_tables(Windows(True, days=days(0.5, rows=99)), limits, notes) == []
    assert late_tables(Windows(True, days=days(0.5)), Reconciliation(late_rate=1), notes)[0].name == "days"
    assert notes == [
        "no day with 100 rows yet: late rates say nothing",
        "1 days are no trend: at least 7 are needed",
    ]


def window(start: int, **given: int) -> dict[str, Any]:
    counts = {"raw": 3, "counted": 3, "expected": 3, "results": 1, "times": 1}
    zero = dict.fromkeys(("filtered", "late", "absorbed", "rejected", "uneven"), 0)
    return zero | counts | {"start": start, "end": start + HOUR} | given


def test_A1_facts_of_windows() -> None:
    rows = [
        window(0),
        window(HOUR, raw=7, filtered=2, late=1, rejected=1),
        # The query's filter leaves nothing of it: not a gap.
        window(2 * HOUR, raw=2, filtered=2, counted=0, expected=0, results=0),
        window(3 * HOUR, counted=0, results=0, uneven=1, times=0),
        window(4 * HOUR, counted=6, uneven=1, results=2, times=2),
    ]
    quiet = [Day(0, 5, 17, 1, 5 * HOUR, 10 * HOUR, 15 * HOUR)]
    windows = Windows(True, 5, 2, HOUR, 5 * HOUR, rows, quiet)
    tables = window_tables(windows, TimeKind.TIMESTAMP, Reconciliation(longest_gap="4 hours"))
    found = {text: [line[1] for line in o.failing] for text, o in verdicts(tables).items()}
    assert found == {
        "A1: raw = counted + filtered + late + rejected in every closed window": [
            "1970-01-01 04:00:00",
            "1970-01-01 05:00:00",
        ],
        "A1: every group of a window counts the rows that the log has for it": [
            "1970-01-01 04:00:00",
            "1970-01-01 05:00:00",
        ],
        "no gap in windows: what the log has rows for is in the view": ["1970-01-01 04:00:00"],
        "no window twice: each was emitted once, by one commit (C2)": ["1970-01-01 05:00:00"],
        "no gap in windows: none of more than 4 hours between two of them": ["5"],
    }


def test_W5_facts_of_logs() -> None:
    good = PartitionAudit("0", 5, 4, 1, 0, 5, 0, [], False)
    holes = PartitionAudit("1", 4, 4, 0, 0, 6, 1, ["3-5"], False)
    theirs = PartitionAudit("2", 4, 4, 0, 0, 4, 0, ["9"], True)
    found = verdicts(log_tables([SourceAudit("s", [good, holes, theirs], 16)]))
    assert {text: [line[1] for line in o.failing] for text, o in found.items()} == {
        "W5: the log has every row that was committed": ["1"],
        "W5: no row is twice in the log": ["1"],
        "W5: no offset is missing from the log": ["1"],
        "A1: as many rows as the source itself has, recounted": ["13"],
    }
    assert "A1: as many rows as the source itself has, recounted" not in verdicts(
        log_tables([SourceAudit("s", [good], None)])
    )


def test_an_expectation_that_can_not_be_evaluated_has_failed(tmp_path: Path) -> None:
    table = FactTable(
        "t",
        ("k", "n"),
        ("k",),
        [("a", 1), ("b", None)],
        (
            Expectation("expect_column_values_to_be_between", {"column": "m", "max_value": 1}),
            Expectation(
                "expect_column_values_to_be_between", {"column": "n", "min_value": 3, "max_value": 1}
            ),
            Expectation("expect_column_mean_to_be_between", {"column": "n", "max_value": 5}, "info", "mean"),
        ),
    )
    validator = Validator()
    missing, impossible, mean = validator.table("t", table)
    assert 'The column "m" in BatchData does not exist' in (missing.error or "")
    assert not impossible.passed
    assert (mean.passed, mean.observed, mean.severity, mean.text) == (True, "1", "info", "mean")
    result = SuiteResult("t", "expectations", "all rows", [mean, missing])
    assert (result.critical, result.verdict.partition(": could")[0]) == (
        True,
        "expect column values to be between: column m, max_value 1",
    )
    text = write_docs(tmp_path / "docs", "t", [result]).read_text()
    assert escape(missing.found) in text
