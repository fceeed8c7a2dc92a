"""Keeps a worker running for each group: does what the schedule says (`schedule.py`).

One thread; readers of processes, signal handlers and HTTP only put messages into its queue, or look at the schedule,
which is never half of a change. Time, chance and processes are given from outside.
"""

from __future__ import annotations

import contextlib
import queue
import random
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from tidegate.live.groups import Group
from tidegate.live.happenings import (
    Begun,
    Died,
    Exited,
    Happened,
    Kill,
    Lent,
    Redefined,
    Renew,
    Said,
    Spawn,
    Spawned,
    Stop,
    StopWanted,
    Tell,
    TimePassed,
)
from tidegate.live.process import Message
from tidegate.live.schedule import UNCLEAN, BackOff, GroupSchedule, step
from tidegate.live.watched import Watched
from tidegate.live.workers import Death, Hear, Worker
from tidegate.plan.events import DefinitionsLoaded, Event, LiveStarted, LiveStopped, event_of
from tidegate.plan.hanging import given_seconds

#: Starts the worker of a group, in a process of its own or not; told how often the work for its members has hung.
Spawning = Callable[[Group, bool, Mapping[str, int], Hear], Worker]
#: Told of everything that happens: the group (None: the supervisor itself, or a process of several groups), and the
#: event, or what a process printed.
Notify = Callable[[str | None, Event | str], None]
#: Seconds between two beats.
_BEAT = 10.0


@dataclass
class Supervisor:
    """`run()` returns the exit code when all workers are gone: 0; 1 if one had to be killed, or failed while it
    stopped; 2 if a group has given up (an error that a restart does not cure).

    `grace`: seconds that a worker has to finish its commit. `until_idle`: a worker that ends by itself has done its
    work. `stuck`: a group is not healthy that should have ended a tick so many seconds ago, by its `interval`; one
    whose work has hung may take longer. `alone`: names of the groups that get processes of their own; `release`: told
    of a group that is gone from the definitions, and has ended; `renew`: told of a process that gets no further group;
    `beat`: called every few seconds while it runs, whether anything happens or not; `close`: ends the processes;
    whether by themselves within so many seconds, and before it is in a hurry; `stands_by`: whether it waits for another
    process, and has not begun.
    """

    groups: Iterable[Group]
    spawn: Spawning
    notify: Notify
    grace: float = 60.0
    stuck: float = 300.0
    until_idle: bool = False
    url: str | None = None
    clock: Callable[[], float] = time.monotonic
    back_off: BackOff = field(default_factory=BackOff)
    chance: Callable[[], float] = random.random
    alone: Collection[str] = ()
    interval: Callable[[Group], float] = lambda group: 0.0
    stands_by: Callable[[], bool] = lambda: False
    release: Callable[[str], None] = lambda name: None
    renew: Callable[[int], None] = lambda pid: None
    beat: Callable[[], None] = lambda: None
    close: Callable[[float, Callable[[], bool]], bool] = lambda seconds, hurry: True
    schedule: GroupSchedule = field(init=False)

    def __post_init__(self) -> None:
        self.begin_with(self.groups, self.alone)
        self._queue: queue.SimpleQueue[tuple[str | None, Message]] = queue.SimpleQueue()
        self._workers: dict[str, Worker] = {}
        #: When the worker of a group began.
        self._spawned: dict[str, float] = {}

    def begin_with(self, groups: Iterable[Group], alone: Collection[str]) -> None:
        """Before `run`: these are the groups."""
        watched = tuple(Watched(group, alone=group.name in alone) for group in groups)
        self.schedule = GroupSchedule(watched, self.grace, self.until_idle, self.back_off)

    # -- from other threads ------------------------------------------------------------------------------------

    def stop(self, why: str = "asked to") -> None:
        """Have every worker finish its commit and end. Asked a second time, end them at once. Safe in a signal
        handler."""
        self._queue.put((None, ("stop", why)))

    def redefine(
        self, prepare: Callable[[], Redefined], done: Callable[[DefinitionsLoaded | None], None]
    ) -> None:
        """Continue with other definitions: only groups whose definitions are others end, and begin again. `prepare`:
        called right before, in the supervisor's thread; `done`: told what has become of it, None: everything ends."""
        self._queue.put((None, ("redefined", (prepare, done))))

    def health(self) -> dict[str, Any]:
        """JSON-ready. `status`: `ok`; `degraded`, if views or sinks fail while their groups run; `unavailable`, if a
        group does not run, or its last tick is too old; `standby`, without groups, while another process has them."""
        if self.stands_by():
            return {"status": "standby", "groups": {}}
        groups = {one.group.name: self._health(one) for one in self.schedule.watched}
        if any(not one["healthy"] for one in groups.values()):
            status = "unavailable"
        else:
            status = "degraded" if any(one["failing"] for one in groups.values()) else "ok"
        return {"status": status, "groups": groups}

    def overdue(self) -> dict[Group, tuple[float, bool]]:
        """For how many seconds each group has finished no tick that should have, and whether it has since its worker
        began. (For the thread of `run`.)"""
        found = {}
        for one in self.schedule.watched:
            since = self._spawned.get(one.group.name) if one.last_tick is None else one.last_tick
            if one.alive and since is not None and not self._is_in_time(one, self.clock() - since):
                found[one.group] = self.clock() - since, one.last_tick is not None
        return found

    def tell(self, event: Event) -> None:
        """Let everybody hear of something that is of no group."""
        self._queue.put((None, ("told", event)))

    def printed(self, text: str) -> None:
        """A process has printed something."""
        self._queue.put((None, ("output", text)))

    # -- the loop ----------------------------------------------------------------------------------------------

    def run(self, duration: float | None = None) -> int:
        """Start everything, and keep it running until `stop`, or for `duration` seconds."""
        started = self.clock()
        self.start()
        end, beat_at = None if duration is None else started + duration, started + _BEAT
        while self.schedule.busy:
            due = [t for t in (self.schedule.due, end, beat_at) if t is not None]
            try:
                found = self._queue.get(timeout=max(0.0, min(due) - self.clock()))
            except queue.Empty:
                pass
            else:
                self.handle(*found)
            if end is not None and self.clock() >= end:
                end = None
                self.handle(None, ("end", "the given time is over"))
            self.on_time()
            if self.clock() >= beat_at:
                beat_at = self.clock() + _BEAT
                self.beat()
        # Nothing is started any more that `close` does not know.
        self._take(StopWanted(self.clock(), asked=False))
        code = self.schedule.exit_code
        if not self.close(self.grace, self._in_a_hurry):
            code = max(code, UNCLEAN)
        failed = tuple(one.group.name for one in self.schedule.watched if one.state == "failed")
        self.notify(None, LiveStopped(code, round(self.clock() - started, 3), failed))
        return code

    def _in_a_hurry(self) -> bool:
        """Whether the processes, whose groups have all ended, are to be gone by now: they have had their grace, or
        somebody has asked twice."""
        with contextlib.suppress(queue.Empty):
            while True:
                self.handle(*self._queue.get_nowait())
        return self.schedule.stop_by is not None and self.clock() >= self.schedule.stop_by

    def start(self) -> None:
        """Start a worker for every group."""
        names = tuple(one.group.name for one in self.schedule.watched)
        self.notify(None, LiveStarted(names, self.url))
        self._take(Begun())

    def on_time(self) -> None:
        """Do what has become due."""
        self._take(TimePassed(self.clock()))

    def handle(self, name: str | None, message: Message) -> None:
        """Take in one message: of a group's worker, or to stop."""
        kind, content = message
        if name is None and kind in ("stop", "end"):
            self._take(StopWanted(self.clock(), asked=kind == "stop"))
        elif name is not None and kind == "exit":
            del self._workers[name]
            self._take(Exited(name, content, self.clock(), self.chance()))
            self._release(name)
        elif name is not None and kind == "death":
            assert isinstance(content, Death)
            for group in content.groups:
                del self._workers[group]
            now, chance = self.clock(), self.chance()
            self._take(Died(content.groups, content.working, content.code, now, chance))
            for group in content.groups:
                self._release(group)
        elif name is None and kind == "told":
            assert isinstance(content, Event)
            self.notify(None, content)
        elif name is None and kind == "redefined":
            self._redefine(*content)
        elif name is not None and kind == "event" and (event := event_of(content)) is not None:
            self._take(Said(name, event, self.clock()))
        elif name is not None and kind == "lent":
            self._take(Lent(name, self.clock()))
        else:
            self.notify(name, str(content))

    def _take(self, event: Happened) -> None:
        self.schedule, actions = step(self.schedule, event)
        for action in actions:
            name = action.group.name
            match action:
                case Spawn(group, alone, hung):
                    self._spawned[name] = self.clock()
                    self._workers[name] = self.spawn(group, alone, dict(hung), partial(self._put, name))
                    self._take(Spawned(name, self._workers[name].pid))
                case Renew():
                    self.renew(self._workers[name].pid)
                case Stop():
                    self._workers[name].stop()
                case Kill():
                    self._workers[name].kill()
                case Tell(_, told):
                    self.notify(name, told)

    def _redefine(
        self, prepare: Callable[[], Redefined], done: Callable[[DefinitionsLoaded | None], None]
    ) -> None:
        if self.schedule.stopping:
            done(None)
            return
        before = {one.group.name: one for one in self.schedule.watched}
        redefined = prepare()
        self._take(redefined)
        now = {one.group.name: one for one in self.schedule.watched}
        names = [group.name for group in redefined.groups]
        began = tuple(name for name in names if now[name] != before.get(name))
        ended = tuple(name for name in before if name not in names)
        for name in ended:
            self._release(name)
        loaded = DefinitionsLoaded(began, ended, len(names) - len(began))
        self.notify(None, loaded)
        done(loaded)

    def _release(self, name: str) -> None:
        if all(one.group.name != name for one in self.schedule.watched):
            self._spawned.pop(name, None)
            self.release(name)

    def _put(self, name: str, message: Message) -> None:
        self._queue.put((name, message))

    def _is_in_time(self, one: Watched, age: float) -> bool:
        """Whether the last tick of a group may be that old."""
        given = max((given_seconds(self.stuck, times) for _, times in one.hung), default=self.stuck)
        return age <= given + self.interval(one.group)

    def _health(self, one: Watched) -> dict[str, Any]:
        age = None if one.last_tick is None else round(self.clock() - one.last_tick, 1)
        wait = None if one.restart_at is None else round(max(0.0, one.restart_at - self.clock()), 1)
        error = (
            None if one.last_error is None else dict(zip(("code", "message"), one.last_error, strict=True))
        )
        return {
            "state": one.state,
            "healthy": one.state == "running" and age is not None and self._is_in_time(one, age),
            "members": list(one.group.members),
            "pid": one.pid,
            "restarts": one.restarts,
            "restart_in_seconds": wait,
            "last_tick_age_seconds": age,
            "backlog": one.tick is not None and one.tick.backlog,
            "failing": [] if one.tick is None else list(one.tick.failing),
            "last_error": error,
        }
