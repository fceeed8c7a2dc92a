"""The suites that every view and every log has: tables of facts, and what is expected of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidegate.project.expectations import Expectation, Reconciliation
from tidegate.project.reading.durations import format_duration
from tidegate.quality.model import LATE_RATE, LOG, FactTable
from tidegate.quality.trend import LEAST_DAYS, trend
from tidegate.quality.windows import Windows
from tidegate.watermark import TimeKind
from tidegate.watermark.timekind import DAY_MICROS

if TYPE_CHECKING:
    from tidegate.audit.source import SourceAudit

#: Partitions of a source that are listed, those that do not add up first.
MOST_PARTITIONS = 10_000
_BETWEEN, _IN_SET = "expect_column_values_to_be_between", "expect_column_values_to_be_in_set"
_EQUAL = "expect_column_pair_values_to_be_equal"


def window_tables(windows: Windows, kind: TimeKind, limits: Reconciliation) -> list[FactTable]:
    """What must hold for each window (A1), and between windows."""
    tables = []
    if windows.rows:
        tables.append(_accounts(windows, kind) if windows.accounts else _results(windows, kind))
    if limits.longest_gap is not None and windows.days:
        longest = limits.longest_gap
        rows = [
            (
                _day(d.day),
                d.windows,
                _seconds(d.quiet, kind),
                kind.format(d.quiet_from),
                kind.format(d.quiet_until),
            )
            for d in windows.days
        ]
        no_gap = Expectation(
            _BETWEEN,
            {"column": "quiet_seconds", "max_value": longest},
            description=f"no gap in windows: none of more than {format_duration(longest)} between two of them",
        )
        columns = ("day", "windows", "quiet_seconds", "quiet_from", "quiet_until")
        tables.append(FactTable("gaps", columns, ("day",), rows, (no_gap,)))
    return tables


def _accounts(windows: Windows, kind: TimeKind) -> FactTable:
    """A view over one source: raw = counted + filtered + late + rejected."""
    rows = []
    for w in windows.rows:
        accounted = w["counted"] + w["filtered"] + w["late"] + w["rejected"]
        there = 1 if w["results"] or not w["expected"] else 0
        counts = (w["raw"], accounted, w["counted"], w["filtered"], w["late"], w["rejected"])
        rows.append((kind.format(w["start"]), kind.format(w["end"]), *counts, w["uneven"], there, w["times"]))
    columns = (
        "window_start", "window_end", "raw", "accounted", "counted", "filtered", "late", "rejected",
        "groups_that_differ", "there", "times",
    )  # fmt: skip
    expectations = (
        Expectation(
            _EQUAL,
            {"column_A": "raw", "column_B": "accounted"},
            description="A1: raw = counted + filtered + late + rejected in every closed window",
        ),
        Expectation(
            _IN_SET,
            {"column": "groups_that_differ", "value_set": [0]},
            description="A1: every group of a window counts the rows that the log has for it",
        ),
        Expectation(
            _IN_SET,
            {"column": "there", "value_set": [1]},
            description="no gap in windows: what the log has rows for is in the view",
        ),
        _once(),
    )
    return FactTable("windows", columns, ("window_start", "window_end"), rows, expectations)


def _results(windows: Windows, kind: TimeKind) -> FactTable:
    """Any other view: result rows are those that its query gives now."""
    names = ("results", "missing", "unexpected", "different", "too_early", "times")
    rows = [
        (kind.format(w["start"]), kind.format(_shown_end(w, kind)), *(w[name] for name in names))
        for w in windows.rows
    ]
    meanings = {
        "missing": "no gap in windows: every row that the query gives now is in the view",
        "unexpected": "every row in the view is one that the query gives now",
        "different": "numbers are those that the query gives now (within 1e-9)",
        "too_early": "no row was emitted that an input of the view has not closed",
    }
    expectations = [
        Expectation(_IN_SET, {"column": name, "value_set": [0]}, description=text)
        for name, text in meanings.items()
    ]
    columns = ("window_start", "window_end", *names)
    return FactTable("windows", columns, ("window_start", "window_end"), rows, (*expectations, _once()))


def _shown_end(window: dict[str, int], kind: TimeKind) -> int:
    """Where a window ends; of a row that is in no window, but in the one microsecond of its time, the time itself."""
    start, end = window["start"], window["end"]
    return start if kind in (TimeKind.TIMESTAMP, TimeKind.TIMESTAMPTZ) and end == start + 1 else end


def _once() -> Expectation:
    return Expectation(
        _BETWEEN,
        {"column": "times", "max_value": 1},
        description="no window twice: each was emitted once, by one commit (C2)",
    )


def late_tables(windows: Windows, limits: Reconciliation, notes: list[str]) -> list[FactTable]:
    """The share of late rows of each day, and whether it grows; `notes` says what can't be told."""
    days = [d for d in windows.days if d.raw >= limits.least_rows]
    if not days:
        notes.append(f"no day with {limits.least_rows:,} rows yet: late rates say nothing")
        return []
    rows = [(_day(d.day), d.raw, d.late, round(d.late / d.raw, 6)) for d in days]
    below = Expectation(
        _BETWEEN,
        {"column": "late_rate", "max_value": limits.late_rate},
        severity="warning",
        description=f"at most {_percent(limits.late_rate)} of a day's rows are late",
    )
    tables = [FactTable("days", ("day", "raw", "late", "late_rate"), ("day",), rows, (below,), LATE_RATE)]
    newest = days[-limits.trend_days :]
    found = trend([(d.day, d.late / d.raw) for d in newest])
    if found is None:
        notes.append(f"{len(newest)} days are no trend: at least {LEAST_DAYS} are needed")
        return tables
    steady = Expectation(
        _BETWEEN,
        {"column": "growth", "max_value": limits.late_rate_growth},
        severity="warning",
        description=f"the late rate does not grow by more than {_percent(limits.late_rate_growth)} "
        f"of all rows in {limits.trend_days} days",
    )
    line = (_day(newest[0].day), _day(newest[-1].day), found.days, found.slope, found.growth, found.z)
    columns = ("from", "to", "days", "per_day", "growth", "z")
    return [*tables, FactTable("trend", columns, ("from", "to"), [line], (steady,), LATE_RATE)]


def log_tables(audits: list[SourceAudit]) -> list[FactTable]:
    """Each partition of a log: raw = on time + late + rejected = what was committed (W5), recounted in the source where
    that can be (A1)."""
    lines = []
    for audit in audits:
        for p in audit.partitions:
            missing = "" if p.gaps_allowed else ", ".join(p.missing)
            counts = (p.raw, p.on_time, p.late, p.rejected, p.retired, p.erased, p.read, p.counted)
            lines.append((p.ok, audit.name, p.partition, *counts, p.repeated, missing))
    lines.sort(key=lambda line: line[:3])
    columns = (
        "source", "partition", "raw", "on_time", "late", "rejected", "retired", "erased", "read", "committed",
        "offsets_twice", "offsets_missing",
    )  # fmt: skip
    expectations = (
        Expectation(
            _EQUAL,
            {"column_A": "read", "column_B": "committed"},
            description="W5: the log has every row that was committed",
        ),
        Expectation(
            _IN_SET,
            {"column": "offsets_twice", "value_set": [0]},
            description="W5: no row is twice in the log",
        ),
        Expectation(
            _IN_SET,
            {"column": "offsets_missing", "value_set": [""]},
            description="W5: no offset is missing from the log",
        ),
    )
    rows = [line[1:] for line in lines[:MOST_PARTITIONS]]
    tables = []
    if rows:
        tables.append(FactTable("partitions", columns, ("source", "partition"), rows, expectations, LOG))
    counted = [(a.name, a.read, a.source_rows) for a in audits if a.source_rows is not None]
    if counted:
        same = Expectation(
            _EQUAL,
            {"column_A": "read", "column_B": "in_the_source"},
            description="A1: as many rows as the source itself has, recounted",
        )
        tables.append(
            FactTable("recount", ("source", "read", "in_the_source"), ("source",), counted, (same,), LOG)
        )
    return tables


def _day(day: int) -> str:
    return TimeKind.format(TimeKind.DATE, day)


def _seconds(ticks: int, kind: TimeKind) -> int:
    return ticks * 86_400 if kind is TimeKind.DATE else ticks * 86_400 // DAY_MICROS


def _percent(share: float) -> str:
    return f"{100 * share:g} %"
