"""Every cause, told from made-up facts: what is said, which windows wait, since when, and when nothing is said."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.findings.made import HELD, NOON, WAITS, found, micros, moving, part, silent, sink, source, view
from tidegate.findings import KINDS, EarlierLooks, Waiting, diagnose
from tidegate.findings.facts import ProjectFacts
from tidegate.findings.lag import Lag
from tidegate.findings.model import iso
from tidegate.project.jobs.stalls import Stall, StallLimits, limits_of
from tidegate.store.writers import (
    WriterState,
)

GOOD = [moving(at) for at in (-700, -400, -200, -1)]


def test_all_is_well() -> None:
    assert found(source(*GOOD, writer=HELD)) == {}
    assert found(source(*GOOD, writer=HELD, expected="live")) == {}


@pytest.mark.parametrize(
    ("writer", "says"),
    [
        (WriterState("killed", 4711, "here", NOON - 9_000), "process 4711 on here was killed"),
        (WriterState("ended", at=NOON - 4_000), "the last process ended normally"),
        (WriterState(), "no process is known on this machine"),
    ],
)
def test_not_running_while_rows_wait(writer: WriterState, says: str) -> None:
    stopped = source(moving(-4_000), end={"a": 130_000, "b": 130_000}, writer=writer)
    [(key, finding)] = found(stopped).items()
    assert (key, finding.severity, finding.waiting) == ("not_running:s:", "error", WAITS)
    assert "140,000 rows wait at the broker; last commit 1 hour 6 minutes ago" in finding.text
    assert says in finding.text
    assert finding.since == iso(NOON - 4_000)
    assert finding.advice.startswith("tidegate run s")
    # A schedule that runs every hour is no stop.
    assert found(stopped, at=-1_000, memory=EarlierLooks(1)) == {}


def test_not_running_although_a_live_run_is_wanted() -> None:
    quiet = source(moving(-4_000), writer=WriterState("ended", at=NOON - 400), expected="flights")
    [finding] = [f for f in found(quiet).values() if f.kind == "not_running"]
    assert (finding.since, finding.severity) == (iso(NOON - 400), "error")
    assert "start the live run flights" in finding.advice
    assert "not_running:s:" not in found(quiet, at=-200)
    # Nobody saw when it was killed: the first look counts, and whoever asks once is told at once.
    killed = replace(quiet, writer=WriterState("killed", 4711, "here", NOON - 9_000))
    assert "not_running:s:" in found(killed)
    assert "not_running:s:" not in found(killed, memory=EarlierLooks(1))
    assert "not_running:s:" in found(killed, memory=EarlierLooks(5, {"not_running:s:": NOON - 301}))


def test_a_live_run_that_never_started_is_missed() -> None:
    [finding] = found(source(expected="flights")).values()
    assert (finding.kind, "has never run; no process is known on this machine" in finding.text) == (
        "not_running",
        True,
    )
    assert found(source()) == {}  # nobody wants it yet


def test_a_row_after_days_of_silence_is_no_stop() -> None:
    fresh = source(moving(-200_000), end={"a": -1_900_000 + 1}, writer=WriterState())
    assert "not_running:s:" not in found(fresh, memory=EarlierLooks(9))


def test_stuck_a_process_holds_it_and_commits_nothing() -> None:
    waiting = source(moving(-4_000), end={"a": 90_000, "b": 90_000}, writer=HELD)
    [finding] = found(waiting).values()
    assert (finding.kind, finding.severity) == ("stuck", "error")
    assert "process 4711 on here has its lease, but 60,000 rows wait" in finding.text


def test_unreachable_broker_is_told_beside_what_is_stored() -> None:
    findings = found(source(moving(-200_000), broker_error="TG621: no answer"))
    assert set(findings) == {"unreachable:s:", "idle:s:"}
    assert "TG621: no answer" in findings["unreachable:s:"].text
    # What waited at the last batch says nothing about now.
    stored = [part("a", -4_000, -4_000, end=99_999)]
    assert "not_running:s:" not in found(source((-4_000, stored), broker_error="TG621: no answer"))


def growing(seconds_behind: int) -> list[tuple[float, list]]:
    """a arrives at 100 rows a second; what is read stands still for so many seconds."""
    commits = []
    for at in range(-900, 0, 150):
        read = 50_000 + 20 * max(at, -seconds_behind)
        commits.append((at, [part("a", at, at, on_time=read, end=200_000 + 100 * at)]))
    return commits


def test_backlog_growing() -> None:
    behind = source(*growing(900), end={"a": 200_000}, writer=HELD)
    [finding] = found(behind).values()
    assert (finding.kind, finding.severity, finding.waiting) == ("backlog_growing", "warning", WAITS)
    assert (finding.numbers["arriving_per_second"], finding.numbers["most_in_partition"]) == (100.0, "a")
    assert finding.numbers["waiting_rows"] > finding.numbers["waiting_rows_before"] > 0
    assert "100.0 rows arrive a second, 16.7 are read" in finding.text
    assert found(behind, limits=StallLimits(backlog_rows=1_000_000)) == {}


def test_a_backlog_that_shrinks_or_swings_is_none() -> None:
    def at_times(*rows: int) -> list[tuple[float, list]]:
        return [
            (at, [part("a", at, at, on_time=100_000 + at, end=100_000 + at + n)])
            for at, n in zip(range(-900, 0, 150), rows, strict=True)
        ]

    now = {"a": 100_000 - 150 + 20_000}
    assert (
        found(source(*at_times(90_000, 80_000, 60_000, 50_000, 30_000, 25_000), end=now, writer=HELD)) == {}
    )
    assert found(source(*at_times(0, 20_000, 0, 20_000, 0, 20_000), end=now, writer=HELD)) == {}


def test_the_backlog_of_earlier_looks_counts_where_nothing_is_committed() -> None:
    one = source(moving(-1_300), end={"a": 200_000, "b": 200_000}, writer=HELD)
    end, following = 390_000, 174_000
    points = tuple((NOON + at, end + 50 * at, following) for at in (-800, -600, -400, -200))
    memory = EarlierLooks(9, {}, {"s": points})
    assert "backlog_growing:s:" in found(one, memory=memory, limits=StallLimits(backlog_rows=10))


def test_lagging_is_the_verdict_of_the_thresholds() -> None:
    good = source(*GOOD, writer=HELD)
    [finding] = found(replace(good, lag=Lag(good.status, False, "s: far behind", True))).values()
    assert (finding.key, finding.text) == ("lagging:s:", "s: far behind")


def test_view_behind_its_source() -> None:
    late = view(current=False, due_end="11:59", due_since=NOON - 700)
    [finding] = found(source(*GOOD, writer=HELD), views=(late,)).values()
    assert (finding.key, finding.since) == ("view_behind:v:", iso(NOON - 700))
    assert finding.waiting == (Waiting("v", "11:59"),)
    assert (
        "but its inputs allow 2026-01-01 12:00:00+00:00, 1 minute further: no process updates it"
        in finding.text
    )
    assert found(views=(replace(late, due_since=NOON - 500),)) == {}
    # Several inputs: what was seen earlier counts, and every tick of the view.
    unknown = replace(late, due_since=None)
    assert found(views=(unknown,), memory=EarlierLooks(9)) == {}
    earlier = EarlierLooks(9, {"view_behind:v:": NOON - 800})
    assert found(views=(unknown,), memory=earlier) == {}  # its last tick was a minute ago
    never = replace(unknown, status=replace(late.status, committed_at=None))
    assert "view_behind:v:" in found(views=(never,), memory=earlier)


def test_D2_an_input_that_holds_the_others_back_is_named() -> None:
    held = view(holds_back=("orders",), held_since=NOON - 1_000)
    [finding] = found(views=(held,)).values()
    assert (finding.key, finding.severity, finding.waiting) == ("input_behind:v:", "info", WAITS)
    assert "ahead of orders, which last committed 16 minutes 40 seconds ago" in finding.text
    assert found(views=(replace(held, held_since=NOON - 4_000),))["input_behind:v:"].severity == "warning"


def test_sink_behind_its_view() -> None:
    behind = sink(tick=3, behind=2, waiting=12, final_upto="12:05", due_since=NOON - 700)
    [finding] = found(sinks=(behind,)).values()
    assert (finding.key, finding.severity, finding.since) == ("sink_behind:out:", "warning", iso(NOON - 700))
    assert finding.text == (
        "out: 12 final rows of v wait to be delivered; delivered up to 11:55, final up to 12:05: no process delivers"
    )
    assert finding.advice.startswith("tidegate run out")
    assert finding.numbers["rows_waiting"] == 12
    # A run that closes windows delivers them a little later; and what has no rows keeps nobody waiting.
    assert found(sinks=(replace(behind, due_since=NOON - 500),)) == {}
    assert found(sinks=(sink(), sink(behind=2))) == {}
    assert found(sinks=(behind,), limits=StallLimits(sink_behind=3_600)) == {}
    # Where commits have expired it counts from the look that saw it first.
    expired = replace(behind, due_since=NOON - 100, since_is_exact=False, delivered_upto=None)
    assert found(sinks=(expired,), memory=EarlierLooks(9)) == {}
    seen = found(sinks=(expired,), memory=EarlierLooks(9, {"sink_behind:out:": NOON - 800}))
    assert (
        seen["sink_behind:out:"].text == "out: 12 final rows of v wait to be delivered: no process delivers"
    )


@pytest.mark.parametrize(
    ("facts", "says"),
    [
        ({"writer": HELD}, "process 4711 writes it, but its deliveries fail or take long"),
        ({"expected": "orders"}, "the live run orders does not deliver"),
        (
            {"ran": False},
            "1 final row of v waits to be delivered; nothing has been delivered yet: no process delivers",
        ),
    ],
)
def test_who_should_have_delivered(facts: dict, says: str) -> None:
    [finding] = found(sinks=(sink(waiting=1, due_since=NOON - 700, **facts),)).values()
    assert says in finding.text


def test_B2_sink_that_has_not_followed_amendments() -> None:
    amended = sink(amendments_waiting=2, due_since=NOON - 700)
    [finding] = found(sinks=(amended,)).values()
    assert finding.text == "out: 2 amendments of v wait to be delivered: no process delivers"
    both = sink(waiting=3, amendments_waiting=1, due_since=NOON - 700)
    [finding] = found(sinks=(both,)).values()
    assert finding.text.startswith("out: 3 final rows and 1 amendment of v wait")
    assert found(sinks=(sink(amendments_waiting=0), sink(amendments_waiting=None))) == {}
    other = sink(goes_on=True, waiting=None, behind=None, due_since=NOON - 700)
    [finding] = found(sinks=(other,)).values()
    assert finding.text.startswith("out: a new version of v waits to be delivered")


def test_R4_sink_whose_upstream_was_made_anew() -> None:
    [finding] = found(sinks=(sink(made_anew=True, waiting=None, behind=None),)).values()
    assert (finding.severity, "TG542" in finding.text) == ("error", True)
    assert finding.advice.startswith("DROP SINK out")


def test_a_source_that_is_not_running_has_only_that_cause() -> None:
    late = [(-5_000, [part("a", -5_000, -5_000, late=0)]), (-4_000, [part("a", -4_000, -5_000, late=500)])]
    assert set(found(source(*late, end={"a": 99_999}))) == {"not_running:s:"}


@pytest.mark.medium
def test_thousands_of_partitions_with_one_cause_are_told_as_few() -> None:
    busy = part("busy", -1, -1)
    names = [f"p{n:04}" for n in range(3_000)]
    findings = found(source((-1, [busy, *(part(n, -1_000, -1_000) for n in names)]), writer=HELD))
    assert len(findings) == 11
    assert "2,990 more partitions, such as p0010" in findings["silent_partition:s:"].text


def test_limits_of_an_asset_win_over_those_of_all() -> None:
    stalls = [
        Stall(asset="s", silent="2 hours"),
        Stall(asset="*", silent="1 minute", all_late="1 hour", ignore=["idle"]),
    ]
    assert (limits_of(stalls, "s").silent, limits_of(stalls, "s").all_late) == (7_200, 3_600)
    assert (limits_of(stalls, "t").silent, limits_of(stalls, "t").view_behind) == (60, 600)
    assert found(source(*silent(1_000), writer=HELD), limits=limits_of(stalls, "s")) == {}
    assert found(source(moving(-2_000), writer=HELD), limits=limits_of(stalls, "t")) == {}


def test_the_memory_is_bounded_and_survives_a_cursor() -> None:
    memory = EarlierLooks()
    for n in range(200):
        memory = memory.after(NOON + n, [f"k{n + i}" for i in range(400)], {"s": (n, n)}, spacing=5)
    assert (len(memory.first), len(memory.points["s"])) == (300, 16)
    assert EarlierLooks.from_json(memory.to_json()) == memory
    # What has begun earlier stays remembered.
    assert memory.first["k200"] < memory.first["k400"]


def test_what_no_longer_holds_is_forgotten() -> None:
    late = source(*silent(1_000), writer=HELD)
    _, memory = diagnose(ProjectFacts(NOON, (late,)), lambda n: StallLimits())
    assert set(memory.first) == {"silent_partition:s:b"}
    _, memory = diagnose(ProjectFacts(NOON, (source(*GOOD, writer=HELD),)), lambda n: StallLimits(), memory)
    assert (set(memory.first), memory.looks) == ({"idle:s:"}, 2)


def test_C7_totals_that_do_not_fit_are_told() -> None:
    finding = found(views=(view(lost_totals=1),))["lost_totals:v:"]
    assert finding.severity == "warning"
    assert (
        finding.text
        == "v: 1 final row has NULL for a sum or average whose total does not fit into its type (C7)"
    )


def test_W9_a_view_behind_a_reset_says_where_it_goes_and_what_closes_again() -> None:
    waits = found(views=(view(current=False, goes_back_to=micros(-90), goes_back_to_text="11:58:30"),))
    assert "goes back from 2026-01-01 11:59:00+00:00 to 11:58:30" in waits["reset_pending:v:"].text
    assert "view_behind:v:" not in waits
    # Left by a reset of the first release, whose views never stepped back.
    stuck = found(views=(view(frontier=micros(900), frontier_text="12:15", clock_text="12:00"),))[
        "frontier_ahead:v:"
    ]
    assert (stuck.severity, "final up to 12:15" in stuck.text, "RESET WATERMARK" in stuck.advice) == (
        "error",
        True,
        True,
    )
    again = found(views=(view(emitted_beyond="12:30"),))["closes_again:v:"]
    assert (again.severity, "results up to 12:30" in again.text) == ("info", True)
    assert found(views=(view(),)) == {}


def test_E5_a_view_that_stops_at_a_time_waits_for_its_new_version() -> None:
    before = found(views=(view(held_at="2026-01-01 12:30:00+00:00"),))["waits_for_version:v:"]
    there = found(views=(view(held_at="2026-01-01 11:59:00+00:00"),))["waits_for_version:v:"]
    assert (before.severity, there.severity) == ("info", "warning")
    assert "tidegate apply v --at '2026-01-01 11:59:00+00:00' completes this" in there.advice


def test_R5_rows_that_were_retired_before_a_branch_came_to_them() -> None:
    gone = found(views=(view(missing='rows of "s" before 12:00 are beyond their retention'),))["rows_gone:v:"]
    assert (gone.severity, 'rows of "s" before 12:00' in gone.text) == ("error", True)
    skipped = found(views=(view(skipped=(("10:00", "11:00"),)),))["skipped:v:"]
    assert "after 10:00, up to 11:00" in skipped.text


def test_every_cause_has_a_test_here() -> None:
    text = "".join(p.read_text(encoding="utf-8") for p in Path(__file__).parent.glob("test_causes*.py"))
    elsewhere = {"run_failed"}  # told from Dagster's runs
    assert [k for k in KINDS if f"{k}:" not in text and f'"{k}"' not in text and k not in elsewhere] == []
