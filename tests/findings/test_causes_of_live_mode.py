"""Causes that processes of live mode tell of, from made-up records of theirs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.findings.made import HELD, NOON, moving, source, view
from tidegate.findings import Finding, diagnose
from tidegate.findings.facts import ProjectFacts
from tidegate.findings.model import iso
from tidegate.project.jobs.stalls import StallLimits
from tidegate.store.machine import CpuUse
from tidegate.store.writers import (
    FailingMember,
    GroupLoad,
    LateGroup,
    LiveRecord,
    OverdueGroup,
    RefusedDefinitions,
)

GOOD = [moving(at) for at in (-700, -400, -200, -1)]


def test_E7_definitions_that_live_mode_does_not_take_up() -> None:
    error = {"code": "TG709", "message": "only\n  what can", "hint": "tidegate rebuild v", "location": None}
    at = NOON - 5
    record = LiveRecord(NOON - 900, NOON - 600, ("v", "out"), 3, RefusedDefinitions(at, error), pid=4711)
    facts = ProjectFacts(NOON, views=(view(),), live=(record, replace(record, refused=None, pid=4712)))
    findings, _ = diagnose(facts, lambda name: StallLimits())
    (finding,) = (one for one in findings if one.kind == "definitions_refused")
    assert (finding.asset, finding.severity, finding.since) == ("v", "warning", iso(at))
    assert finding.text == (
        f"live mode, process 4711, continues with the definitions of {iso(NOON - 600)}: TG709: only what can"
    )
    assert finding.advice == "tidegate rebuild v; then tidegate reload"
    place = {"file": "assets/a.sql", "line": 3, "column": 5, "length": 1, "text": "x"}
    wrong = replace(record, refused=RefusedDefinitions(at, error | {"location": place, "hint": None}))
    findings, _ = diagnose(replace(facts, live=(wrong,)), lambda name: StallLimits())
    (finding,) = (one for one in findings if one.kind == "definitions_refused")
    assert finding.text.endswith("TG709: only what can, assets/a.sql:3:5")


def test_what_fails_in_live_mode_is_named_with_its_error() -> None:
    fails = (
        FailingMember("s", "v", "view", "TG507", "Spark refuses\n  the query", 3, NOON - 7),
        FailingMember("s", "s", "group", None, "it ended", 1, NOON - 5),
    )
    record = LiveRecord(NOON - 900, NOON - 600, ("s", "v"), failing=fails, pid=4711)
    facts = ProjectFacts(NOON, sources=(source(*GOOD, writer=HELD),), views=(view(),), live=(record,))
    findings, _ = diagnose(facts, lambda name: StallLimits())
    of_view, of_group = sorted(
        (one for one in findings if one.kind == "live_failing"), key=lambda one: one.asset == "s"
    )
    assert (of_view.asset, of_view.severity, of_view.since) == ("v", "error", iso(NOON - 7))
    assert of_view.text == "live mode, process 4711: the view v fails, try 3: TG507: Spark refuses the query"
    assert of_view.advice == "docs/errors.md#tg507 explains it"
    assert (of_group.asset, of_group.severity) == ("s", "warning")
    assert of_group.text == "live mode, process 4711: the group s fails, try 1: it ended"
    # What is asked about has nothing to do with what fails elsewhere.
    findings, _ = diagnose(replace(facts, views=()), lambda name: StallLimits())
    assert [one.asset for one in findings if one.kind == "live_failing"] == ["s"]


def test_a_group_of_live_mode_that_hangs_is_an_error_at_its_source_or_at_what_was_asked_for() -> None:
    last, first = (
        OverdueGroup("S", NOON - 905, members=("S", "v")),
        OverdueGroup("b", NOON - 400, ticked=False),
    )
    record = LiveRecord(NOON - 900, NOON - 600, ("s", "v", "b"), overdue=(last, first), pid=4711)
    facts = ProjectFacts(NOON, sources=(source(*GOOD, writer=HELD),), views=(view(),), live=(record,))

    def overdue(facts: ProjectFacts, limits: StallLimits = StallLimits()) -> list[Finding]:  # noqa: B008
        return [one for one in diagnose(facts, lambda name: limits)[0] if one.kind == "live_overdue"]

    (finding,) = overdue(facts)
    assert (finding.asset, finding.severity, finding.since) == ("s", "error", iso(NOON - 905))
    assert finding.text == (
        'live mode, process 4711: the group "S" is overdue: its last tick ended at 2026-01-01 11:44:55 UTC, '
        "15 minutes 5 seconds ago"
    )
    assert "log of live mode" in finding.advice
    assert finding.numbers == {"process": 4711, "quiet_seconds": 905.0, "ticked": True}
    # Its source is not among what was asked for, but a view that is in the same group.
    assert [one.asset for one in overdue(replace(facts, sources=()))] == ["v"]
    begun = replace(record, overdue=(replace(first, members=("b", "v")),))
    (finding,) = overdue(replace(facts, live=(begun,)))
    assert finding.text.endswith(
        'the group "b" is overdue: it began at 2026-01-01 11:53:20 UTC, 6 minutes 40 seconds ago, and its first tick '
        "has not finished"
    )
    # It is gone when the tick has finished, and can be ignored.
    assert overdue(replace(facts, live=(replace(record, overdue=()),))) == []
    assert overdue(facts, StallLimits(ignore=("live_overdue",))) == []


def too_small(**facts: Any) -> Finding:
    late = (LateGroup("s", 2.0, 12.5, 6.0), LateGroup("b", 2.0, 3.0, 0.2))
    record = LiveRecord(NOON - 900, NOON - 600, ("s", "v"), **{"late": late, "pid": 4711} | facts)
    found = ProjectFacts(NOON, sources=(source(*GOOD, writer=HELD),), views=(view(),), live=(record,))
    findings, _ = diagnose(found, lambda name: StallLimits())
    (finding,) = (one for one in findings if one.kind == "machine_too_small")
    return finding


def test_groups_that_wait_because_the_machine_is_too_small() -> None:
    finding = too_small()
    assert (finding.asset, finding.severity, finding.numbers) == ("s", "warning", {"s": 16.5, "b": 1.2})
    assert finding.text == (
        "live mode, process 4711: groups begin their ticks late: ticks of s begin 12.5 s after they are due and take "
        "6 s, at an interval of 2 s; ticks of b begin 3 s after they are due and take 0.2 s, at an interval of 2 s"
    )
    assert finding.advice.startswith("give the machine more cores")


def test_groups_that_are_late_because_the_cpu_is_fully_used() -> None:
    loads = (GroupLoad("s", 1.2, 1.0, 7.0, 50), GroupLoad("b", 0.61, 1.0, 7.0, 50))
    late = tuple(LateGroup(name, 1.0, 0.0, 8.0 - n) for n, name in enumerate("sbcde"))
    finding = too_small(late=late, loads=loads, cpu=CpuUse(1.97, 2.0))
    assert finding.text == (
        "live mode, process 4711: the CPU is fully used, 1.97 of 2 cores, 1.81 by this live mode: ticks of s take 8 s, "
        "at an interval of 1 s; ticks of b take 7 s, at an interval of 1 s; ticks of c take 6 s, at an interval of "
        "1 s; 2 other groups as well"
    )
    assert finding.numbers == {
        "cores": 2.0,
        "cores_used": 1.97,
        "cores_used_here": 1.81,
        **{"s": 7.0, "b": 6.0, "c": 5.0, "d": 4.0, "e": 3.0},
    }
    assert finding.advice.startswith("give the machine more cores")
    # What else runs on the machine makes it too small just as well.
    behind = replace(late[0], backlog=True)
    finding = too_small(late=(behind,), loads=loads[1:], cpu=CpuUse(0.98, 1.0))
    assert (
        "fully used, 0.98 of 1 core, 0.61 by this live mode: ticks of s, which has a backlog," in finding.text
    )
    assert finding.advice.startswith("let other processes, which use 0.37 cores, run elsewhere; or give")
