"""Which process does the work of which group: one for all groups, and one for each that is to be alone.

The supervisor knows one worker for each group; several of them can be the same process. A line that a process writes
names the group that it is of.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from tidegate.live.groups import Group, GroupPace
from tidegate.live.process import Message

#: What the supervisor hears of a group's worker: ("event", document), ("lent", None) when a run in its place gives a
#: sign, and ("exit", code) when the group has ended. That its process has, ("death", Death), it hears once, of any of
#: the groups.
Hear = Callable[[Message], None]


#: Seconds between two looks whether somebody is in a hurry.
_LOOKS_EVERY = 0.05


@dataclass(frozen=True)
class Death:
    """The end of a process that still had `groups`. `working`: those for which it was at work at that moment."""

    code: int
    groups: tuple[str, ...]
    working: frozenset[str]


class WorkTime:
    """For how long groups are at work, as processes tell it; asked by another thread."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock, self._lock = clock, threading.Lock()
        #: Since when those that are at work are, or since somebody has asked; and how long they were until then.
        self._since: dict[str, float] = {}
        self._worked: dict[str, float] = {}

    def begins(self, group: str) -> None:
        """It is at work from now on."""
        with self._lock:
            self._since.setdefault(group, self._clock())

    def rests(self, group: str) -> None:
        """It is not, or no longer."""
        with self._lock:
            self._count(group)
            self._since.pop(group, None)

    def taken(self) -> dict[str, float]:
        """Seconds of work since this was asked the last time, of groups that had some: also of what is not done."""
        with self._lock:
            for group in self._since:
                self._count(group)
            worked, self._worked = self._worked, {}
            return worked

    def _count(self, group: str) -> None:
        now = self._clock()
        if (since := self._since.get(group)) is not None:
            self._worked[group] = self._worked.get(group, 0.0) + now - since
            self._since[group] = now


class Worker(Protocol):
    """What the supervisor needs of a group's worker."""

    @property
    def pid(self) -> int:
        """Of the process that it is in."""

    def stop(self) -> None:
        """Ask it to end when it has finished its commit."""

    def kill(self) -> None:
        """End its process, and everything that this has started, now."""


class Process(Protocol):
    """A worker process (`WorkerProcess`)."""

    pid: int

    def tell(self, **document: Any) -> None:
        """Write a line to it."""

    def close(self) -> None:
        """Tell it that nothing more comes."""

    def kill(self) -> None:
        """End it now."""


#: Starts a process; of a group's own one it is told the group's name. What it says is given to the function.
Start = Callable[[str | None, Callable[[Message], None]], Process]


class _Host:
    """A process, and the groups that it has."""

    def __init__(
        self, start: Start, name: str | None, output: Callable[[str], None], time_of: WorkTime
    ) -> None:
        self._output, self._time_of = output, time_of
        self._groups: dict[str, Hear] = {}
        self._working: set[str] = set()
        self._lock = threading.Lock()
        self.over = threading.Event()
        self.process = start(name, self._hear)

    def take(self, group: Group, pace: GroupPace, hung: Mapping[str, int], hear: Hear) -> bool:
        """Give it a group; False if it has ended."""
        with self._lock:
            if self.over.is_set():
                return False
            self._groups[group.name] = hear
        facts = {"interval": pace.interval, "priority": pace.priority, "hung": dict(hung)}
        self.process.tell(open=group.name, members=list(group.members), **facts)
        return True

    def _hear(self, message: Message) -> None:
        kind, content = message
        if kind == "output":
            self._output(content)
        elif kind == "line":
            self._line(content)
        else:
            with self._lock:
                self.over.set()
                left, self._groups = self._groups, {}
                working = self._working.intersection(left)
                for name in self._working:
                    self._time_of.rests(name)
            for hear in tuple(left.values())[:1]:
                hear(("death", Death(content, tuple(left), frozenset(working))))

    def _line(self, line: dict[str, Any]) -> None:
        name, event = line["of"], line.get("event")
        with self._lock:
            hear = self._groups.get(name)
            if line.get("begins"):
                self._working.add(name)
                self._time_of.begins(name)
            elif line.get("rests") or "exit" in line:
                self._working.discard(name)
                self._time_of.rests(name)
            if "exit" in line:
                self._groups.pop(name, None)
        if hear is not None and line.get("lent"):
            hear(("lent", None))
        if hear is not None and event is not None:
            hear(("event", event))
        if hear is not None and "exit" in line:
            hear(("exit", line["exit"]))


class _GroupWorker:
    """A group in a process."""

    def __init__(self, host: _Host, name: str) -> None:
        self._host, self._name = host, name

    @property
    def pid(self) -> int:
        return self._host.process.pid

    def stop(self) -> None:
        self._host.process.tell(stop=self._name)

    def kill(self) -> None:
        self._host.process.kill()


class Workers:
    """Starts workers of groups, each in the process where it belongs. `output`: is given what processes print beside
    their lines. `pace`: of a group. `clock`: seconds."""

    def __init__(
        self,
        start: Start,
        output: Callable[[str], None],
        pace: Callable[[Group], GroupPace] = lambda group: GroupPace(),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._start, self._output, self._pace, self._clock = start, output, pace, clock
        self._work_time = WorkTime(clock)
        self._definitions: Mapping[str, Any] = {}
        self._shared: _Host | None = None
        self._own: dict[str, _Host] = {}
        #: Those that get no group any more, and may still have some.
        self._retired: list[_Host] = []

    def define(self, definitions: Mapping[str, Any], renew: bool = False) -> None:
        """Tell all processes, and those that are started later, by which definitions they go. `renew`: those that run
        can't go by them, and get no group any more."""
        self._definitions = definitions
        if renew and self._shared is not None:
            self.renew(self._shared.process.pid)
        for host in (self._shared, *self._own.values()):
            if host is not None and not host.over.is_set() and not renew:
                host.process.tell(**definitions)

    def spawn(self, group: Group, alone: bool, hung: Mapping[str, int], hear: Hear) -> Worker:
        """A worker for a group, which has none. `hung`: how often in a row the work for its members has hung."""
        pace = self._pace(group)
        if alone:
            if (before := self._own.get(group.name)) is not None:
                self._retire(before)
            host = self._own[group.name] = self._host(group.name)
            host.take(group, pace, hung, hear)
            return _GroupWorker(host, group.name)
        # It may have had its own until now.
        self.release(group.name)
        if self._shared is None or not self._shared.take(group, pace, hung, hear):
            self._shared = self._host(None)
            self._shared.take(group, pace, hung, hear)
        return _GroupWorker(self._shared, group.name)

    def _host(self, name: str | None) -> _Host:
        host = _Host(self._start, name, self._output, self._work_time)
        if self._definitions:
            host.process.tell(**self._definitions)
        return host

    def release(self, name: str) -> None:
        """End the group's own process, if it has one: the group does not come back to it."""
        if (host := self._own.pop(name, None)) is not None:
            self._retire(host)

    def _retire(self, host: _Host) -> None:
        """It gets no group any more. Those that are over are forgotten, however many there have been."""
        host.process.close()
        self._retired = [one for one in [*self._retired, host] if not one.over.is_set()]

    def renew(self, pid: int) -> None:
        """Those that are to share a process get another one than this from now on."""
        if self._shared is not None and self._shared.process.pid == pid:
            self._retire(self._shared)
            self._shared = None

    def pids(self) -> dict[str, int]:
        """Of the processes that run: by the name of the group whose own one it is, `*` for the one of all others."""
        hosts = {"*": self._shared, **self._own}
        return {
            name: one.process.pid for name, one in hosts.items() if one is not None and not one.over.is_set()
        }

    def worked(self) -> dict[str, float]:
        """For how many seconds groups were at work since this was asked the last time."""
        return self._work_time.taken()

    def close(self, seconds: float, hurry: Callable[[], bool]) -> bool:
        """End all processes; whether they did so by themselves in so many seconds, and before anybody was in a hurry,
        which is asked again and again."""
        hosts = [one for one in (self._shared, *self._own.values(), *self._retired) if one is not None]
        end, clean = self._clock() + seconds, True
        for one in hosts:
            one.process.close()
        for one in hosts:
            while not one.over.wait(_LOOKS_EVERY):
                if hurry() or self._clock() >= end:
                    clean = False
                    one.process.kill()
                    one.over.wait()
        return clean
