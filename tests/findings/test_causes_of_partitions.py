"""Causes in the partitions and rows of a source: silent, late, rejected, not declared, ahead of time, warming up or
stalled."""

from __future__ import annotations

from dataclasses import replace
from statistics import median

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.findings.made import HELD, NOON, WAITS, found, moving, part, silent, source
from tidegate.findings import EarlierLooks
from tidegate.findings.model import iso
from tidegate.findings.skews import _middle
from tidegate.plan.columns.undeclared import (
    UNDECLARED,
    FoundColumn,
    Undeclared,
    and_undeclared,
    readable,
    undeclared_text,
)
from tidegate.plan.crashes import CRASHES, Crashes, and_crashed, named
from tidegate.project.jobs.stalls import StallLimits


def test_silent_partition() -> None:
    findings = found(source(*silent(1_000), writer=HELD))
    finding = findings["silent_partition:s:b"]
    assert (finding.severity, finding.waiting, finding.since) == ("warning", WAITS, iso(NOON - 1_000))
    assert (
        "silent for 16 minutes 40 seconds, while other partitions receive rows; it holds the watermark back"
        in finding.text
    )
    idle = found(source(*silent(1_000, "idle"), writer=HELD))["silent_partition:s:b"]
    assert (idle.waiting, "does not hold the watermark back (W7)" in idle.text) == ((), True)
    assert found(source(*silent(800), writer=HELD)) == {}


def test_all_partitions_silent_is_idle() -> None:
    findings = found(source(moving(-2_000), writer=HELD))
    assert set(findings) == {"idle:s:"}
    finding = findings["idle:s:"]
    assert (finding.severity, finding.waiting, finding.since) == ("info", WAITS, iso(NOON - 2_000))
    assert "no rows have arrived for 33 minutes 20 seconds" in finding.text
    assert (
        found(source(moving(-2_000), writer=HELD), limits=StallLimits(idle=1_800))["idle:s:"].severity
        == "warning"
    )
    assert found(source(moving(-200), writer=HELD)) == {}


def test_all_late() -> None:
    rows = [(-500, 900, 5), (-300, 900, 80), (-1, 900, 140)]
    commits = [
        (at, [part("a", at, at), part("b", at, -60, on_time=on, late=late, watermark=0)])
        for at, on, late in rows
    ]
    [finding] = found(source(*commits, writer=HELD)).values()
    assert (finding.key, finding.severity, finding.since) == ("all_late:s:b", "warning", iso(NOON - 500))
    assert (finding.numbers["rows"], finding.partition) == (135, "b")
    assert "all 135 rows since 2026-01-01 11:51:40 UTC are late" in finding.text
    # Some are on time; too few; not for long enough.
    some = [(at, [a, replace(b, on_time=b.on_time + i)]) for i, (at, [a, b]) in enumerate(commits)]
    assert found(source(*some, writer=HELD)) == {}
    assert found(source(*commits, writer=HELD), limits=StallLimits(at_least_rows=136)) == {}
    assert found(source(*commits[1:], writer=HELD), limits=StallLimits(all_late=301)) == {}


def test_history_that_expired_is_remembered() -> None:
    commits = [
        (at, [part("a", at, -60, late=late, watermark=0)])
        for at, late in ((-100, 100), (-50, 200), (-1, 300))
    ]
    late = source(*commits, writer=HELD)
    assert found(late) == {}
    findings = found(late, memory=EarlierLooks(9, {"all_late:s:a": NOON - 1_000}))
    assert findings["all_late:s:a"].since == iso(NOON - 1_000)


def test_all_rejected() -> None:
    commits = [(at, [part("a", at, -1_000, rejected=n)]) for at, n in ((-500, 0), (-200, 30), (-1, 70))]
    [finding] = found(source(*commits, writer=HELD)).values()
    assert (finding.key, finding.numbers["rows"]) == ("all_rejected:s:a", 70)
    assert "s$rejected" in finding.advice


def test_columns_that_are_not_declared_are_told_for_a_day() -> None:
    at = round((NOON - 3_600) * 1e6)
    text = FoundColumn("1.csv", "string")
    first = and_undeclared(None, {"a": text, "b": text}, at - 1)
    both = and_undeclared(first, {"b": FoundColumn("2.csv", "string"), "c": FoundColumn("2.csv")}, at)
    assert both is not None
    assert and_undeclared(both, {}, at + 1) is both
    assert Undeclared.of({UNDECLARED: both.to_text()}) == both
    some = source((-10, [part("a", -10, -10)]), writer=HELD, undeclared=both)
    finding = found(some)["undeclared_columns:s:"]
    assert (finding.severity, finding.numbers) == ("info", {"columns": 3})
    assert finding.text == (
        's: the input has columns that are not declared, and that are not read: "a" (in 1.csv), "b" (in 2.csv), '
        '"c" (in 2.csv)'
    )
    later = replace(both, at=at - 86_400 * 1_000_000)
    assert "undeclared_columns:s:" not in found(replace(some, undeclared=later))
    # Strangers' names: bounded, and nothing that moves a cursor.
    assert readable(["\x1b[2J", "x" * 99, "b", "b"]) == ["?[2J", "x" * 60, "b"]
    many = and_undeclared(both, {f"c{i}": FoundColumn("3.csv") for i in range(99)}, at)
    assert many is not None
    assert len(many.columns) == 50
    assert undeclared_text(many.columns).endswith("(in 3.csv) and 45 more")


def test_X2_rows_that_crash_their_decoder_are_told_for_a_day() -> None:
    at = round((NOON - 3_600) * 1e6)
    two = and_crashed(and_crashed(None, [["0", 17]], at - 1), [["1", 4]], at)
    some = source((-10, [part("a", -10, -10)]), writer=HELD, crashes=two)
    finding = found(some)["crashed_decoder:s:"]
    assert (finding.severity, finding.numbers) == ("warning", {"rows": 2})
    assert finding.text == (
        "s: rows have crashed the process that decodes them, 2 so far; the last one: offset 4 of partition 1"
    )
    assert "crashed_decoder:s:" not in found(replace(some, crashes=replace(two, at=at - 86_400 * 1_000_000)))
    assert Crashes.of({CRASHES: two.to_text()}) == two
    files = [["file:///d/a.json", 0, 2], ["file:///d/b.json", 16777216, 0], ["x", 0, 0], ["y", 0, 0]]
    assert named(files) == "row 3 of a.json, row 1 of b.json behind byte 16,777,216, row 1 of x and 1 more"


def test_strategy_null() -> None:
    commits = [
        (at, [part("a", at, at, on_time=1_000 + n, watermark=-600)])
        for at, n in ((-500, 0), (-200, 30), (-1, 70))
    ]
    null = source(*commits, writer=HELD, strategy_kind="expression", strategy="CASE WHEN x THEN ts END")
    [finding] = found(null).values()
    assert (finding.key, finding.severity, finding.numbers["rows"]) == ("strategy_null:s:a", "warning", 70)
    assert "`CASE WHEN x THEN ts END` gave no value above the watermark" in finding.text
    # No watermark at all: no window will ever close.
    never = [(at, [replace(p, watermark=None, state="warming") for p in parts]) for at, parts in commits]
    assert (
        found(replace(null, history=source(*never).history, status=source(*never).status))[
            "strategy_null:s:a"
        ].severity
        == "error"
    )
    # A delay always gives a value; rows that bring nothing newer raise nothing, whatever the strategy.
    assert found(replace(null, strategy_kind="plain")) == {}
    old = [
        (at, [replace(p, max_event_time=commits[0][1][0].max_event_time) for p in ps]) for at, ps in commits
    ]
    assert found(source(*old, writer=HELD, strategy_kind="expression")) == {}


def future(*late: int, newest: float = 7_200, **given: object) -> list[tuple[float, list]]:
    before = (-400, [part("a", -400, -400, late=0), part("b", -400, -400)])
    return [before] + [
        (at, [part("a", at, newest, late=n, **given), part("b", at, at, on_time=1_100 + at)])
        for at, n in zip((-300, -150, -1), late, strict=True)
    ]


def test_future_timestamp_names_the_offset_and_what_is_late_by_it() -> None:
    [finding] = found(source(*future(0, 40, 90), writer=HELD, culprits={"a": 1234})).values()
    assert (finding.key, finding.severity, finding.since) == (
        "future_timestamp:s:a",
        "error",
        iso(NOON - 300),
    )
    assert "a row at offset 1234 of 2026-01-01 14:00:00+00:00 is from the future" in finding.text
    assert "is 1 hour 59 minutes ahead of the clock, and 90 rows" in finding.text
    assert finding.numbers["offset"] == 1234
    assert "RESET WATERMARK" in finding.advice
    # Nothing is late by it yet.
    assert found(source(*future(0, 0, 0), writer=HELD))["future_timestamp:s:a"].severity == "warning"


def test_W9_files_are_not_compared_with_the_clock() -> None:
    assert "future_timestamp:s:a" not in found(source(*future(0, 40, 90), writer=HELD, live=False))
    # But for a year that no forecast reaches, and only once others are late by it.
    year_2999 = 30_000_000_000.0
    poisoned = found(source(*future(0, 40, 90, newest=year_2999), writer=HELD, live=False))
    assert poisoned["future_timestamp:s:a"].severity == "error"
    assert "RESET WATERMARK" in poisoned["future_timestamp:s:a"].advice
    forecast = found(source(*future(0, 0, 0, newest=year_2999), writer=HELD, live=False))
    assert "future_timestamp:s:a" not in forecast


def test_W9_a_row_beyond_the_skew_is_only_mentioned() -> None:
    far = source(*future(0, 0, 0, newest=9e6, watermark=-61), writer=HELD, max_future_skew=86_400_000_000)
    finding = found(far)["future_timestamp:s:a"]
    assert (finding.severity, "does not raise the watermark (W9)" in finding.text) == ("info", True)


def skewed(ahead: float, wobble: float = 0.0) -> list[tuple[float, list]]:
    return [
        (
            at,
            [
                part("a", at, at + ahead + wobble * k, on_time=20_000 + at),
                part("b", at, at, on_time=20_000 + at),
                part("c", at, at - 5, on_time=20_000 + at),
            ],
        )
        for k, at in enumerate((-600, -400, -200, -1))
    ]


def test_producer_skew_ahead_and_behind() -> None:
    ahead = source(*skewed(3_600), writer=HELD, newest={"a": NOON - 1})
    [finding] = found(ahead).values()
    assert (finding.key, finding.since, finding.waiting) == ("producer_skew:s:a", iso(NOON - 600), ())
    assert "event times are 1 hour ahead of the clock; the timestamps of its messages are not" in finding.text
    assert "a time zone?" in finding.text
    behind = found(source(*skewed(-2_000), writer=HELD))["producer_skew:s:a"]
    assert "33 minutes 17 seconds behind those of the other partitions" in behind.text
    assert behind.waiting == WAITS  # it holds the watermark back
    clock = found(source(*skewed(1_000), writer=HELD, newest={"a": NOON + 1_000}))["producer_skew:s:a"]
    assert "the timestamps of its messages are, too" in clock.text


def test_a_producer_that_catches_up_is_not_skewed() -> None:
    assert found(source(*skewed(-3_000, wobble=900), writer=HELD)) == {}
    assert found(source(*skewed(-200), writer=HELD)) == {}


def test_warming_up() -> None:
    def warm(at: float, n: int) -> tuple[float, list]:
        state = f"warming ({n} of 250)"
        return (at, [part("a", at, at, on_time=n, watermark=at - 7 * 86_400, state=state)])

    new = source(warm(-500, 100), warm(-1, 180), writer=HELD, strategy_kind="source_watermark")
    [finding] = found(new).values()
    assert (finding.key, finding.severity, finding.waiting) == ("warming_up:s:a", "info", WAITS)
    assert "has seen only 180 of 250 rows" in finding.text
    long = found(new, memory=EarlierLooks(9, {"warming_up:s:a": NOON - 90_000}))
    assert long["warming_up:s:a"].severity == "warning"


def test_W8_stalled_where_nothing_else_explains_it() -> None:
    commits = [
        (at, [part("a", at, -900, on_time=1_000 + n, state="stalled")]) for at, n in ((-500, 0), (-1, 50))
    ]
    [finding] = found(source(*commits, writer=HELD)).values()
    assert (finding.key, finding.numbers["rows"]) == ("stalled:s:a", 50)


@pytest.mark.medium
@given(st.lists(st.integers(0, 5).map(float), min_size=1, max_size=8), st.integers(0, 7).map(float))
def test_property_the_middle_of_the_others(values: list[float], one: float) -> None:
    others = list(values)
    if one in others:
        others.remove(one)
    assert _middle(sorted(values), one) == (median(others) if others else None)
