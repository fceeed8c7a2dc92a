"""What live mode tells of what fails, also other processes, and of how groups end."""

from __future__ import annotations

import io
import signal
from typing import Any

from tests.support.supervised import A, B, Bench, C
from tidegate.live.failures import Failures, Overdue
from tidegate.live.groups import Group
from tidegate.live.logs import JsonLog
from tidegate.plan import events
from tidegate.plan.events import (
    DefinitionsLoaded,
    MemberFailed,
    MemberRecovered,
    TickFinished,
    WorkerExited,
    WorkerFailed,
    WorkerSpawned,
    WorkerStarted,
)
from tidegate.store.writers import FailingMember, OverdueGroup

TICK = TickFinished("g", 1, 0, False, 0.1, 0.0)


def test_what_fails_is_told_until_it_has_recovered_or_its_group_begins_again() -> None:
    told: list[tuple[FailingMember, ...]] = []
    hear = Failures(told.append, lambda: 5.0)
    view = FailingMember("g", "v", "view", "TG507", "refused", 1, 5.0)
    hear("g", TICK)
    assert told == []
    hear("g", MemberFailed("g", "v", "view", "TG507", "refused", 1, 1.0))
    hear("g", TICK)
    assert told == [(view,)]
    hear("h", WorkerFailed("h", None, "lost", None, True))
    hear("h", WorkerFailed("h", None, "lost", None, True))
    assert told[-1] == (view, FailingMember("h", "h", "group", None, "lost", 2, 5.0))
    hear("g", MemberRecovered("g", "v", "view", 1))
    assert [one.name for one in told[-1]] == ["h"]
    hear("h", WorkerStarted("h", ("x",), 1))
    assert told[-1] == ()
    hear("g", MemberFailed("g", "v", "view", "TG507", "refused", 1, 1.0))
    hear(None, DefinitionsLoaded((), ("g",), 1))
    assert told[-1] == ()


def test_a_group_whose_process_dies_without_a_word_fails_until_it_has_started_again() -> None:
    told: list[tuple[FailingMember, ...]] = []
    hear = Failures(told.append, lambda: 5.0)
    killed = "worker 7 was killed by SIGKILL"
    hear("g", WorkerExited("g", -9, 3.0, killed))
    assert told == [(FailingMember("g", "g", "group", None, killed, 1, 5.0),)]
    hear("g", WorkerSpawned("g", 8, 1))
    hear("g", WorkerExited("g", 1, 6.0, "worker 8 ended with exit code 1"))
    assert [(one.message, one.attempt) for one in told[-1]] == [("worker 8 ended with exit code 1", 2)]
    hear("g", WorkerSpawned("g", 9, 2))
    assert len(told) == 2
    hear("g", WorkerStarted("g", ("g",), 9))
    assert told[2:] == [()]


def test_what_a_group_has_said_itself_is_told_and_not_how_it_ended() -> None:
    told: list[tuple[FailingMember, ...]] = []
    hear = Failures(told.append, lambda: 5.0)
    lost = WorkerFailed("g", "TG621", "no broker answers", None, True)
    hear("g", lost)
    hear("g", WorkerExited("g", 2, 1.0, "the group failed"))
    hear("g", lost)
    hear("g", WorkerExited("g", 2, 1.0, "the group failed"))
    assert [(one.message, one.attempt) for (one,) in told] == [
        ("no broker answers", 1),
        ("no broker answers", 2),
    ]
    # It says so of this end, and nothing of the next one.
    hear("g", WorkerExited("g", -9, 2.0, "worker 7 was killed by SIGKILL"))
    assert [(one.message, one.attempt) for one in told[-1]] == [("worker 7 was killed by SIGKILL", 3)]


def test_a_group_that_ends_in_order_or_for_good_without_an_error_does_not_fail() -> None:
    told: list[tuple[FailingMember, ...]] = []
    hear = Failures(told.append)
    hear("g", WorkerExited("g", 0, 1.0, "the group ended"))
    hear("g", WorkerExited("g", -15, None, "worker 7 was killed by SIGTERM"))
    assert told == []


def test_a_group_that_hangs_is_told_once_with_the_time_of_its_last_tick_and_once_that_it_does_not() -> None:
    told: list[tuple[OverdueGroup, ...]] = []
    now, quiet = 1_000.0, {}
    overdue = Overdue(lambda: quiet, told.append, lambda: now)
    overdue.beat()
    assert told == []
    g, h = Group("g", ("g", "v")), Group("h", ("h",))
    quiet = {g: (310.0, True)}
    overdue.beat()
    now, quiet = 1_010.0, {g: (320.01, True)}
    overdue.beat()
    of_g = OverdueGroup("g", 690.0, members=("g", "v"))
    assert told == [(of_g,)]
    quiet |= {h: (305.0, False)}
    overdue.beat()
    assert told[1:] == [(of_g, OverdueGroup("h", 705.0, ticked=False, members=("h",)))]
    quiet = {}
    overdue.beat()
    assert told[2:] == [()]


def test_a_log_that_can_not_be_written_stops_nothing() -> None:
    class Gone(io.StringIO):
        def write(self, text: Any) -> int:
            raise BrokenPipeError

    log = JsonLog(Gone(), 0)
    log("g", TICK)


def test_how_a_group_ended_is_said_of_the_group_and_of_its_process_only_if_that_has_ended() -> None:
    """`why` of `worker_exited`, in each of the cases."""

    def ended(code: int, *, process: bool = False, failed: bool = False, killed: bool = False) -> str:
        bench = Bench(A, B, C, one_process=True)
        if failed:
            bench.hears("a", events.WorkerFailed("a", "TG621", "no broker answers", None, True))
        if killed:
            bench.supervisor.handle(None, ("stop", ""))
            bench.passes(60)
        if process:
            bench.process_dies(code, a=True, b=False, c=False)
        else:
            bench.dies("a", code)
        return next(one.why for one in bench.exits() if one.group == "a")

    assert ended(0) == "the group ended; worker 100 has 2 other groups"
    assert ended(1) == "the group ended with exit code 1; worker 100 has 2 other groups"
    assert ended(2, failed=True) == (
        "the group failed: TG621: no broker answers; worker 100 has 2 other groups"
    )
    assert ended(-signal.SIGKILL, process=True) == "worker 100 was killed by SIGKILL"
    assert ended(-250, process=True) == "worker 100 was killed by signal 250"
    assert ended(1, process=True) == "worker 100 ended with exit code 1"
    assert ended(1, process=True, failed=True) == (
        "the group failed: TG621: no broker answers; worker 100 ended with exit code 1"
    )
    for process in (True, False):
        assert ended(-signal.SIGKILL if process else 0, process=process, killed=True) == (
            "worker 100 was killed because it did not stop in time"
        )


def test_the_other_groups_of_a_process_are_those_that_still_run_in_it() -> None:
    bench = Bench(A, B, C, one_process=True, until_idle=True)
    for name in "abc":
        bench.dies(name, 0)
    assert [one.why.partition("; ")[2] for one in bench.exits()] == [
        "worker 100 has 2 other groups",
        "worker 100 has 1 other group",
        "worker 100 has no other groups",
    ]
    bench = Bench(A, B)
    bench.dies("a", 0)
    assert bench.exits()[-1].why == "the group ended; worker 100 has no other groups"
