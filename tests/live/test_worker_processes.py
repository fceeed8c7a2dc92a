"""The supervisor with real processes that have no Spark (`worker.py`)."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.live.test_supervisor import WORKER, A, B
from tidegate.live.groups import Group
from tidegate.live.process import WorkerProcess, resident_bytes
from tidegate.live.schedule import BackOff
from tidegate.live.supervisor import Supervisor
from tidegate.live.workers import Workers
from tidegate.plan import events
from tidegate.plan.events import Event


class Real:
    """A supervisor over `worker.py`, in a thread."""

    def __init__(self, behaviour: str, *groups: Group, **options: Any) -> None:
        self.told: list[Event | str] = []
        self.code: int | None = None
        self.started: list[str | None] = []

        def start(name: str | None, hear: Callable[[tuple[str, Any]], None]) -> WorkerProcess:
            self.started.append(name)
            return WorkerProcess([sys.executable, str(WORKER), behaviour], hear)

        self.workers = Workers(start, lambda text: self.supervisor.printed(text))
        self.supervisor = Supervisor(
            groups or [A],
            self.workers.spawn,
            lambda group, event: self.told.append(event),
            back_off=BackOff(first=0.05, longest=0.05),
            close=self.workers.close,
            renew=self.workers.renew,
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
        return all(one.state == "running" for one in self.supervisor.schedule.watched)


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
    assert "words that are no line" in real.told


def test_a_killed_worker_is_replaced() -> None:
    real = Real("work")
    real.until(real.is_running)
    first = real.spawned[0]
    os.kill(first, signal.SIGKILL)
    real.until(lambda: len(real.spawned) == 2 and real.is_running())
    assert real.spawned[1] != first
    real.supervisor.stop()
    assert real.end() == 0


def test_groups_share_a_process_and_start_again_together() -> None:
    real = Real("work", A, B, alone=["b"])
    real.until(real.is_running)
    assert sorted(real.workers.pids()) == ["*", "b"]
    real.supervisor.stop()
    assert real.end() == 0
    real = Real("work", A, B, Group("c", ("c",)))
    real.until(real.is_running)
    assert real.started == [None]
    assert len(set(real.spawned)) == 1
    os.kill(real.workers.pids()["*"], signal.SIGKILL)
    real.until(lambda: len(real.spawned) == 6 and real.is_running())
    assert real.started == [None, None]
    assert len(set(real.spawned[3:])) == 1
    real.supervisor.stop()
    assert real.end() == 0
    assert real.workers.pids() == {}


def test_the_time_of_a_group_counts_while_it_is_at_work_and_until_its_process_dies() -> None:
    real = Real("hangs", A, B)
    real.until(lambda: real.supervisor.schedule.of("b").state == "running")
    real.until(lambda: real.workers.worked().keys() == {"a"})
    assert real.workers.worked()["a"] > 0.0
    os.kill(real.workers.pids()["*"], signal.SIGKILL)
    real.until(lambda: len(real.spawned) == 4)
    real.supervisor.stop()
    assert real.end() in (0, 1)
    real.workers.worked()
    assert real.workers.worked() == {}


def test_a_group_that_kills_the_common_process_is_moved_out_and_the_others_go_on() -> None:
    real = Real("poison", A, B)
    real.until(lambda: real.started.count("a") == 2)
    real.until(lambda: real.supervisor.schedule.of("b").state == "running")
    # Three deaths, and one more for those who are left.
    assert real.started.count(None) == 4
    shared = real.workers.pids()["*"]
    real.until(lambda: real.started.count("a") == 4)
    assert real.workers.pids()["*"] == shared
    real.supervisor.stop()
    assert real.end() in (0, 1)


def test_a_group_that_hangs_is_moved_out_and_the_others_get_another_process() -> None:
    real = Real("stuck", A, B)

    def of(name: str) -> tuple[str, int | None]:
        one = real.supervisor.schedule.of(name)
        return one.state, one.pid

    def pids() -> set[tuple[str, int]]:
        return {("running", pid) for pid in real.workers.pids().values()}

    real.until(lambda: len(real.started) == 3 and {of("a"), of("b")} == pids() and of("a") != of("b"))
    assert sorted(real.started, key=str) == [None, None, "a"]
    exits = {e.group: e for e in real.told if isinstance(e, events.WorkerExited)}
    # (That of a may also end by itself, since nothing more comes.)
    assert exits["a"].restart_seconds is not None
    assert (exits["b"].exit_code, exits["b"].restart_seconds) == (0, None)
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


def test_the_grace_is_not_waited_for_twice_and_a_second_signal_ends_what_is_left_at_once() -> None:
    """The groups have ended, and the process does not."""
    real = Real("lingers", grace=1.0)
    real.until(real.is_running)
    began = time.monotonic()
    real.supervisor.stop()
    assert real.end() == 1
    assert 0.9 < time.monotonic() - began < 1.9
    real = Real("lingers", grace=60.0)
    real.until(real.is_running)
    real.supervisor.stop()
    real.until(lambda: any(isinstance(e, events.WorkerExited) for e in real.told))
    real.supervisor.stop()
    assert real.end() == 1
    assert real.workers.pids() == {}


def test_lines_that_nobody_understands_are_shown_and_the_reader_goes_on() -> None:
    real = Real("noise")
    real.until(real.is_running)
    real.supervisor.stop()
    assert real.end() == 0
    shown = [one for one in real.told if isinstance(one, str)]
    assert shown.count("\\xff\\xfe words") == 2
    for text in ("[" * 2000, '{"of": []}', '{"of": "a", "event": "words"}', '{"of": "a", "exit": "x"}'):
        assert text in shown


def test_only_the_group_that_the_process_was_at_work_for_is_blamed() -> None:
    real = Real("work", A, B)
    real.until(real.is_running)
    os.kill(real.workers.pids()["*"], signal.SIGKILL)
    real.until(lambda: len(real.spawned) == 4 and real.is_running())
    # Both rested.
    assert [one.deaths for one in real.supervisor.schedule.watched] == [0, 0]
    real.supervisor.stop()
    assert real.end() == 0
    real = Real("poison", A, B)
    real.until(lambda: real.supervisor.schedule.of("a").deaths >= 2)
    assert real.supervisor.schedule.of("b").deaths == 0
    real.supervisor.stop()
    real.end()


@pytest.mark.medium
def test_a_worker_outlives_its_supervisor_only_for_its_commit() -> None:
    """A supervisor that is killed can tell nobody: its end of the worker's standard input closes."""
    code = (
        "import sys, time\n"
        "from tidegate.live.process import WorkerProcess\n"
        f"worker = WorkerProcess([sys.executable, {str(WORKER)!r}, 'work'], lambda message: None)\n"
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
    """Of a process and its child: how much this process has is not ours to say."""
    child = "import time; held = bytearray(b'x' * (40 << 20)); print('up', flush=True); time.sleep(600)"
    parent = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])"
    family = subprocess.Popen([sys.executable, "-c", parent], stdout=subprocess.PIPE, start_new_session=True)
    try:
        assert family.stdout is not None
        assert family.stdout.readline() == b"up\n"
        sizes = resident_bytes(family.pid)
        assert set(sizes) == {"worker", "python"}
        assert 2 << 20 < sizes["worker"] < 40 << 20
        assert 40 << 20 < sizes["python"] < 80 << 20
    finally:
        os.killpg(family.pid, signal.SIGKILL)
        family.communicate()
    assert resident_bytes(2**22 + 1) == {}


def test_processes_that_have_ended_hold_nothing_open() -> None:
    """Groups are restarted for weeks: of a worker that is over, no file and no thread is left in the supervisor."""
    kept: list[WorkerProcess] = []

    def counted() -> tuple[int, int]:
        return len(os.listdir("/proc/self/fd")), threading.active_count()

    def ended(number: int) -> None:
        over = threading.Event()

        def hear(message: tuple[str, Any]) -> None:
            if message[0] == "exit":
                over.set()

        kept.append(WorkerProcess([sys.executable, "-c", "print('said')"], hear))
        assert over.wait(20), number

    ended(0)
    before = counted()
    for number in range(8):
        ended(number + 1)
    deadline = time.monotonic() + 10
    while counted() > before and time.monotonic() < deadline:
        time.sleep(0.05)
    files, threads = counted()
    assert files <= before[0]
    assert threads <= before[1]


def test_a_group_that_comes_back_to_the_common_process_leaves_none_of_its_own() -> None:
    workers = Workers(lambda name, hear: WorkerProcess([sys.executable, str(WORKER), "work"], hear), print)
    workers.spawn(B, True, {}, lambda message: None)
    own = workers.pids()["b"]
    workers.spawn(B, False, {}, lambda message: None)
    assert set(workers.pids()) == {"*"}
    assert workers.pids()["*"] != own
    (left,) = workers._retired
    assert left.over.wait(20)
    assert workers.close(20, lambda: False)


def test_workers_that_are_over_are_forgotten() -> None:
    real = Real("poison", A, B)
    real.until(lambda: real.started.count("a") >= 6)
    assert len(real.workers._retired) <= 2
    real.supervisor.stop()
    real.end()
