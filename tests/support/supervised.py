"""A supervisor with workers that are none, on a clock that a test moves."""

from __future__ import annotations

import signal
from collections.abc import Mapping
from typing import Any

from tidegate.live.groups import Group
from tidegate.live.schedule import BackOff
from tidegate.live.supervisor import Supervisor
from tidegate.live.workers import Death, Hear
from tidegate.plan import events
from tidegate.plan.events import Event

A, B, C = Group("a", ("a", "a_hourly")), Group("b", ("b",)), Group("c", ("c",))


class FakeWorker:
    """Remembers what it was told; what it says is put into the supervisor by the test."""

    def __init__(self, pid: int) -> None:
        self.pid, self.told = pid, []

    def stop(self) -> None:
        self.told.append("stop")

    def kill(self) -> None:
        self.told.append("kill")


class Bench:
    """A supervisor whose clock stands still until it is moved. `one_process`: all groups have the same."""

    def __init__(self, *groups: Group, one_process: bool = False, **options: Any) -> None:
        self.now = 0.0
        #: Of the process that groups share, None: each has its own.
        self.shared = 100 if one_process else None
        self.workers: list[FakeWorker] = []
        self.alone: list[bool] = []
        self.hung: list[Mapping[str, int]] = []
        self.renewed: list[int] = []
        self.told: list[Event | str] = []
        self.supervisor = Supervisor(
            groups,
            self._spawn,
            lambda group, event: self.told.append(event),
            clock=lambda: self.now,
            back_off=BackOff(first=1.0, longest=8.0, healthy=60.0),
            chance=lambda: 0.0,
            renew=self.renewed.append,
            **options,
        )
        self.supervisor.start()

    def _spawn(self, group: Group, alone: bool, hung: Mapping[str, int], hear: Hear) -> FakeWorker:
        self.alone.append(alone)
        self.hung.append(hung)
        pid = 100 + len(self.workers) if self.shared is None or alone else self.shared
        self.workers.append(FakeWorker(pid))
        return self.workers[-1]

    def state(self, name: str) -> str:
        return self.supervisor.schedule.of(name).state

    def hears(self, name: str, event: Event) -> None:
        self.supervisor.handle(name, ("event", event.to_dict()))

    def ticks(self, name: str, failing: tuple[str, ...] = ()) -> None:
        self.hears(name, events.TickFinished(name, 1, 5, False, 0.5, 0.1, failing))

    def dies(self, name: str, code: int) -> None:
        """The group ends; by a signal only its process can."""
        if code < 0:
            self.process_dies(**{name: True})
        else:
            self.supervisor.handle(name, ("exit", code))

    def process_dies(self, code: int = -signal.SIGKILL, /, **working: bool) -> None:
        """That of these groups; whether it was at work for each."""
        at_work = frozenset(name for name, was in working.items() if was)
        death = Death(code, tuple(working), at_work)
        self.supervisor.handle(next(iter(working)), ("death", death))

    def passes(self, seconds: float) -> None:
        self.now += seconds
        self.supervisor.on_time()

    def exits(self) -> list[events.WorkerExited]:
        return [e for e in self.told if isinstance(e, events.WorkerExited)]
