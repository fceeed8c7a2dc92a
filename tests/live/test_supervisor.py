"""The supervisor as a state machine, on a clock that the test moves."""

from __future__ import annotations

import random
import signal
from pathlib import Path

import pytest

from tests.support.supervised import A, B, Bench, FakeWorker
from tidegate.live.groups import Group
from tidegate.live.schedule import BackOff
from tidegate.live.supervisor import Supervisor
from tidegate.plan import events

WORKER = Path(__file__).with_name("worker.py")


def test_a_dead_worker_starts_again_later_each_time_and_soon_after_a_healthy_period() -> None:
    bench = Bench(A)
    pauses = []
    for _ in range(6):
        bench.ticks("a")
        bench.dies("a", -signal.SIGKILL)
        assert bench.state("a") == "backing_off"
        pauses.append(bench.exits()[-1].restart_seconds)
        bench.passes(pauses[-1] - 0.1)
        assert bench.state("a") == "backing_off"
        bench.passes(0.1)
        assert bench.state("a") == "starting"
    assert pauses == [1, 2, 4, 8, 8, 8]
    assert bench.exits()[-1].why == "worker 105 was killed by SIGKILL"
    bench.ticks("a")
    bench.passes(60)
    bench.dies("a", 1)
    assert bench.exits()[-1].restart_seconds == 1
    assert [e.restarts for e in bench.told if isinstance(e, events.WorkerSpawned)] == [0, 1, 2, 3, 4, 5, 6]


def test_jitter_only_ever_waits_longer() -> None:
    pauses = [BackOff(first=2.0).pause(1, random.Random(seed).random()) for seed in range(100)]
    assert min(pauses) >= 2.0
    assert max(pauses) < 3.0
    assert len(set(pauses)) > 50


@pytest.mark.parametrize("until_idle", [False, True])
def test_a_group_waits_for_leases_but_not_where_the_run_is_to_end(until_idle: bool) -> None:
    bench = Bench(A, until_idle=until_idle)
    bench.hears("a", events.WorkerFailed("a", "TG508", "process 7 is writing a", "stop it", True))
    bench.dies("a", 2)
    assert bench.state("a") == ("failed" if until_idle else "backing_off")
    assert bench.supervisor.schedule.busy is not until_idle
    if until_idle:
        assert bench.supervisor.schedule.exit_code == 2
        return
    bench.passes(60)
    assert len(bench.workers) == 2
    bench.ticks("a")
    assert bench.state("a") == "running"


def test_an_error_that_a_restart_does_not_cure_ends_the_group_and_no_other() -> None:
    bench = Bench(A, B)
    bench.ticks("a")
    bench.ticks("b")
    bench.hears("a", events.WorkerFailed("a", "TG506", "a has changed", "drop it", False))
    bench.dies("a", 2)
    assert (bench.state("a"), bench.state("b")) == ("failed", "running")
    exited = bench.exits()[-1]
    assert (exited.exit_code, exited.restart_seconds) == (2, None)
    assert "TG506: a has changed" in exited.why
    bench.passes(3600)
    assert len(bench.workers) == 2
    assert bench.supervisor.health()["status"] == "unavailable"
    bench.supervisor.handle(None, ("stop", ""))
    bench.dies("b", 0)
    assert not bench.supervisor.schedule.busy
    assert bench.supervisor.schedule.exit_code == 2


def test_an_error_that_may_go_away_backs_off() -> None:
    bench = Bench(A)
    bench.hears("a", events.WorkerFailed("a", "TG621", "no broker answers", None, True))
    bench.dies("a", 2)
    assert bench.state("a") == "backing_off"
    health = bench.supervisor.health()["groups"]["a"]
    assert health["restart_in_seconds"] == 1.0
    assert health["last_error"] == {"code": "TG621", "message": "no broker answers"}


def test_stop_lets_workers_finish_and_ends_after_the_grace_what_does_not() -> None:
    bench = Bench(A, B, grace=30.0)
    bench.ticks("a")
    bench.supervisor.handle(None, ("stop", ""))
    assert [w.told for w in bench.workers] == [["stop"], ["stop"]]
    bench.dies("a", 0)
    bench.passes(29)
    assert bench.workers[1].told == ["stop"]
    bench.passes(1)
    assert bench.workers[1].told == ["stop", "kill"]
    bench.dies("b", -signal.SIGKILL)
    assert bench.exits()[-1].why == "worker 101 was killed because it did not stop in time"
    assert (bench.supervisor.schedule.busy, bench.supervisor.schedule.exit_code) == (False, 1)


def test_a_second_signal_ends_at_once_and_what_waits_does_not_start() -> None:
    bench = Bench(A, B)
    bench.dies("b", 1)
    bench.supervisor.handle(None, ("end", "the given time is over"))
    assert (bench.state("b"), bench.workers[0].told) == ("stopped", ["stop"])
    # The end of its time is no first signal.
    bench.supervisor.handle(None, ("stop", ""))
    assert bench.workers[0].told == ["stop", "stop"]
    bench.supervisor.handle(None, ("stop", ""))
    assert bench.workers[0].told == ["stop", "stop", "kill"]


def test_a_worker_that_ends_by_itself_is_done_only_if_that_was_asked_for() -> None:
    bench = Bench(A)
    bench.ticks("a")
    bench.dies("a", 0)
    assert bench.state("a") == "backing_off"
    bench = Bench(A, until_idle=True)
    bench.ticks("a")
    bench.dies("a", 0)
    assert (bench.state("a"), bench.supervisor.schedule.busy, bench.supervisor.schedule.exit_code) == (
        "stopped",
        False,
        0,
    )


def test_health_says_what_each_group_does() -> None:
    bench = Bench(A, B, stuck=300.0)
    assert bench.supervisor.health()["status"] == "unavailable"
    bench.ticks("a")
    bench.ticks("b", failing=("b_view",))
    health = bench.supervisor.health()
    assert health["status"] == "degraded"
    assert health["groups"]["a"] == {
        "state": "running",
        "healthy": True,
        "members": ["a", "a_hourly"],
        "pid": 100,
        "restarts": 0,
        "restart_in_seconds": None,
        "last_tick_age_seconds": 0.0,
        "backlog": False,
        "failing": [],
        "last_error": None,
    }
    assert health["groups"]["b"]["failing"] == ["b_view"]
    bench.ticks("b")
    assert bench.supervisor.health()["status"] == "ok"
    # A worker that hangs does not die.
    bench.passes(301)
    assert bench.supervisor.health()["status"] == "unavailable"
    assert bench.supervisor.health()["groups"]["a"]["last_tick_age_seconds"] == 301.0
    # One that is lent to a run is as healthy as the run.
    bench.supervisor.handle("a", ("lent", None))
    assert bench.supervisor.health()["groups"]["a"]["healthy"]
    assert not bench.supervisor.health()["groups"]["b"]["healthy"]


def test_a_group_with_a_long_interval_hangs_only_when_its_tick_is_late() -> None:
    bench = Bench(A, B, interval=lambda group: 600.0 if group is A else 2.0)
    bench.ticks("a")
    bench.ticks("b")
    bench.passes(303)
    health = bench.supervisor.health()["groups"]
    assert [health[name]["healthy"] for name in "ab"] == [True, False]
    bench.passes(598)
    assert not bench.supervisor.health()["groups"]["a"]["healthy"]


def test_a_group_is_overdue_when_its_tick_is_late_also_its_first_one_and_not_while_it_waits_for_a_start() -> (
    None
):
    bench = Bench(A, B, interval=lambda group: 600.0 if group is A else 2.0)
    bench.ticks("b")
    bench.passes(302)
    assert bench.supervisor.overdue() == {}
    bench.passes(599)
    assert bench.supervisor.overdue() == {A: (901.0, False), B: (901.0, True)}
    bench.ticks("b")
    bench.dies("a", 1)
    bench.passes(0.5)
    assert bench.supervisor.overdue() == {}, "what has failed is shown as that"
    bench.passes(1)
    assert bench.state("a") == "starting"
    assert bench.supervisor.overdue() == {}


def test_time_is_told_where_nothing_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidegate.live.supervisor._BEAT", 0.01)
    beats: list[float] = []
    supervisor = Supervisor(
        [A],
        lambda group, alone, hung, hear: FakeWorker(1),
        lambda group, event: None,
        grace=0.0,
        close=lambda seconds, hurry: True,
    )

    def beat() -> None:
        beats.append(supervisor.clock())
        if len(beats) == 3:
            supervisor.handle("a", ("exit", 0))

    supervisor.beat, supervisor.until_idle = beat, True
    supervisor.begin_with([A], ())
    assert supervisor.run() == 0
    assert beats == sorted(beats)
    assert len(beats) == 3


def test_who_did_not_kill_the_common_process_starts_again_at_once() -> None:
    bench = Bench(A, B)
    for count in range(1, 3):
        bench.ticks("b")
        bench.process_dies(a=True, b=False)
        pauses = {e.group: e.restart_seconds for e in bench.exits()[-2:]}
        assert pauses == {"a": 2.0 ** (count - 1), "b": 1.0}
        bench.passes(pauses["a"])
    assert bench.alone == [False] * 6
    # Nor did one that has not ticked yet.
    bench.process_dies(a=True, b=False)
    assert [e.restart_seconds for e in bench.exits()[-2:]] == [4.0, 1.0]


def test_where_the_common_process_dies_at_work_for_none_all_wait_longer_and_none_is_moved() -> None:
    bench = Bench(A, B)
    pauses = []
    for _ in range(4):
        bench.process_dies(a=False, b=False)
        pauses.append([e.restart_seconds for e in bench.exits()[-2:]])
        bench.passes(8)
    assert pauses == [[1, 1], [2, 2], [4, 4], [8, 8]]
    assert bench.alone == [False] * 10


def test_of_groups_that_are_blamed_together_only_the_one_blamed_most_often_is_moved() -> None:
    bench = Bench(A, B, Group("c", ("c",)))
    bench.process_dies(a=False, b=True, c=True)
    bench.passes(10)
    for _ in range(2):
        bench.process_dies(a=True, b=False, c=True)
        bench.passes(10)
    assert {one.group.name: one.deaths for one in bench.supervisor.schedule.watched} == {
        "a": 2,
        "b": 1,
        "c": 3,
    }
    assert [one.group.name for one in bench.supervisor.schedule.watched if one.alone] == ["c"]
    # If that was not the cause, the next one is moved at its third death.
    bench.process_dies(a=True, b=True)
    bench.passes(10)
    assert [one.group.name for one in bench.supervisor.schedule.watched if one.alone] == ["a", "c"]


def test_a_group_in_whose_work_the_common_process_dies_thrice_gets_a_process_of_its_own() -> None:
    bench = Bench(A, B)
    for _ in range(2):
        bench.process_dies(a=True, b=True)
        bench.passes(10)
    # A tick that ends says that this group is well.
    bench.ticks("b")
    bench.process_dies(a=True, b=True)
    bench.passes(10)
    assert [(one.group.name, one.alone) for one in bench.supervisor.schedule.watched] == [
        ("a", True),
        ("b", False),
    ]
    assert bench.alone[-2:] == [True, False]
    # There it stays, and its deaths are its own.
    bench.ticks("a")
    bench.process_dies(a=True)
    bench.passes(10)
    assert bench.alone[-1] is True
    assert bench.state("b") == "starting"


def test_groups_that_are_to_be_alone_are_so_from_the_start() -> None:
    bench = Bench(A, B, alone=["b"])
    assert bench.alone == [False, True]


def test_ticks_beside_a_long_delivery_do_not_say_that_the_group_is_well() -> None:
    """The delivery may be what the common process dies of."""
    bench = Bench(A, B)
    beside = events.TickFinished("a", 1, 5, False, 0.5, 0.1, delivering=("out",))
    for _ in range(3):
        assert bench.alone[-2:] == [False, False]
        bench.hears("a", beside)
        bench.ticks("b")
        bench.process_dies(a=True, b=True)
        bench.passes(10)
    assert bench.alone[-2:] == [True, False]
