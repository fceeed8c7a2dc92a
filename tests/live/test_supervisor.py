"""The supervisor: first as a state machine on an injected clock, then with real processes that have no Spark."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tidegate.live import Group, Supervisor
from tidegate.live.process import Message, WorkerProcess, resident_bytes
from tidegate.live.schedule import BackOff
from tidegate.plan import events
from tidegate.plan.events import Event

A, B = Group("a", ("a", "a_hourly")), Group("b", ("b",))
WORKER = Path(__file__).with_name("worker.py")


class FakeWorker:
    """Remembers what it was told; what it says is put into the supervisor by the test."""

    def __init__(self, pid: int) -> None:
        self.pid, self.told = pid, []

    def stop(self) -> None:
        self.told.append("stop")

    def kill(self) -> None:
        self.told.append("kill")


class Bench:
    """A supervisor whose clock stands still until it is moved."""

    def __init__(self, *groups: Group, **options: Any) -> None:
        self.now = 0.0
        self.workers: list[FakeWorker] = []
        self.told: list[Event | str] = []
        self.supervisor = Supervisor(
            groups,
            self._spawn,
            lambda group, event: self.told.append(event),
            clock=lambda: self.now,
            back_off=BackOff(first=1.0, longest=8.0, healthy=60.0),
            chance=lambda: 0.0,
            **options,
        )
        self.supervisor.start()

    def _spawn(self, group: Group, notify: Callable[[Message], None]) -> FakeWorker:
        self.workers.append(FakeWorker(100 + len(self.workers)))
        return self.workers[-1]

    def state(self, name: str) -> str:
        return self.supervisor.schedule.of(name).state

    def hears(self, name: str, event: Event) -> None:
        self.supervisor.handle(name, ("event", event.to_dict()))

    def ticks(self, name: str, failing: tuple[str, ...] = ()) -> None:
        self.hears(name, events.TickFinished(name, 1, 5, False, 0.5, 0.1, failing))

    def dies(self, name: str, code: int) -> None:
        self.supervisor.handle(name, ("exit", code))

    def passes(self, seconds: float) -> None:
        self.now += seconds
        self.supervisor.on_time()

    def exits(self) -> list[events.WorkerExited]:
        return [e for e in self.told if isinstance(e, events.WorkerExited)]


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


def test_an_error_that_a_restart_does_not_cure_ends_the_group_and_no_other() -> None:
    bench = Bench(A, B)
    bench.ticks("a")
    bench.ticks("b")
    bench.hears("a", events.WorkerFailed("a", "TG508", "process 7 is writing a", "stop it", False))
    bench.dies("a", 2)
    assert (bench.state("a"), bench.state("b")) == ("failed", "running")
    exited = bench.exits()[-1]
    assert (exited.exit_code, exited.restart_seconds) == (2, None)
    assert "TG508: process 7 is writing a" in exited.why
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


# -- real processes ------------------------------------------------------------------------------------------------


class Real:
    """A supervisor over `worker.py`, in a thread."""

    def __init__(self, behaviour: str, **options: Any) -> None:
        self.told: list[Event | str] = []
        self.code: int | None = None
        self.supervisor = Supervisor(
            [A],
            lambda group, notify: WorkerProcess([sys.executable, str(WORKER), group.name, behaviour], notify),
            lambda group, event: self.told.append(event),
            back_off=BackOff(first=0.05, longest=0.05),
            **options,
        )
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        self.code = self.supervisor.run()

    def until(self, what: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 20
        while not what():
            assert time.monotonic() < deadline, self.told
            time.sleep(0.01)

    def end(self) -> int | None:
        self._thread.join(20)
        assert not self._thread.is_alive(), self.told
        return self.code

    @property
    def spawned(self) -> list[int]:
        return [e.pid for e in self.told if isinstance(e, events.WorkerSpawned)]

    def is_running(self) -> bool:
        return self.supervisor.schedule.of("a").state == "running"


def test_a_worker_is_told_to_stop_and_ends() -> None:
    real = Real("work")
    real.until(real.is_running)
    real.supervisor.stop()
    assert real.end() == 0
    kinds = [type(e) for e in real.told if not isinstance(e, str)]
    assert kinds == [
        events.LiveStarted,
        events.WorkerSpawned,
        events.WorkerStarted,
        events.TickFinished,
        events.WorkerStopping,
        events.WorkerExited,
        events.LiveStopped,
    ]
    assert "words that are no event" in real.told


def test_a_killed_worker_is_replaced() -> None:
    real = Real("work")
    real.until(real.is_running)
    first = real.spawned[0]
    os.kill(first, signal.SIGKILL)
    real.until(lambda: len(real.spawned) == 2 and real.is_running())
    assert real.spawned[1] != first
    real.supervisor.stop()
    assert real.end() == 0


def test_what_a_worker_says_last_is_heard_before_its_end() -> None:
    real = Real("definition")
    assert real.end() == 2
    assert real.supervisor.schedule.of("a").state == "failed"
    assert real.spawned == [real.spawned[0]]


def test_a_worker_that_does_not_listen_is_killed_when_its_grace_is_over() -> None:
    real = Real("deaf", grace=0.2)
    real.until(real.is_running)
    real.supervisor.stop()
    assert real.end() == 1


@pytest.mark.medium
def test_a_worker_outlives_its_supervisor_only_for_its_commit() -> None:
    """A supervisor that is killed can tell nobody: its end of the worker's standard input closes."""
    code = (
        "import sys, time\n"
        "from tidegate.live.process import WorkerProcess\n"
        f"worker = WorkerProcess([sys.executable, {str(WORKER)!r}, 'a', 'orphan'], lambda message: None)\n"
        "print(worker.pid, flush=True)\n"
        "time.sleep(600)\n"
    )
    supervisor = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert supervisor.stdout is not None
    worker = int(supervisor.stdout.readline())
    assert _alive(worker)
    supervisor.kill()
    supervisor.communicate()
    deadline = time.monotonic() + 20
    while _alive(worker):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def _alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def test_memory_is_that_of_the_whole_family() -> None:
    child = subprocess.Popen([sys.executable, "-c", "print('up', flush=True); input()"], stdin=-1, stdout=-1)
    assert child.stdout is not None
    assert child.stdin is not None
    child.stdout.readline()
    sizes = resident_bytes(os.getpid())
    assert sizes["worker"] > 10 << 20
    assert 1 << 20 < sizes["python"] < 1 << 30
    child.communicate(b"\n")
    assert resident_bytes(2**22 + 1) == {}
