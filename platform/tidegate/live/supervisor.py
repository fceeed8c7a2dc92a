"""Keeps one worker running for each group: starts it, starts it again when it dies, stops it in time.

A state machine in one thread; workers' readers, signal handlers and HTTP only put messages into its queue or look at
what it last knew. Time and processes are given from outside.
"""

from __future__ import annotations

import queue
import signal
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Literal

from tidegate.live.backoff import BackOff
from tidegate.live.groups import Group
from tidegate.live.process import Message, Worker
from tidegate.plan.events import (
    Event,
    LiveStarted,
    LiveStopped,
    MemberFailed,
    TickFinished,
    WorkerExited,
    WorkerFailed,
    WorkerSpawned,
    event_of,
)

State = Literal["starting", "running", "backing_off", "failed", "stopped"]
Spawn = Callable[[Group, Callable[[Message], None]], Worker]
#: Told of everything that happens: the group (None: the supervisor itself), and the event, or what a worker printed.
Notify = Callable[[str | None, Event | str], None]

DONE, UNCLEAN, GIVEN_UP = 0, 1, 2


@dataclass
class Watched:
    """What the supervisor knows of one group. Times are of its clock, `None`: not yet."""

    group: Group
    back_off: BackOff
    state: State = "starting"
    worker: Worker | None = None
    restarts: int = 0
    ticking_since: float | None = None
    last_tick: float | None = None
    tick: TickFinished | None = None
    failed: WorkerFailed | None = None
    last_error: tuple[str | None, str] | None = None
    restart_at: float | None = None
    kill_at: float | None = None
    killed: bool = False


@dataclass
class Supervisor:
    """`run()` returns the exit code when all workers are gone: 0; 1 if one had to be killed, or failed while it
    stopped; 2 if a group has given up (an error that a restart does not cure).

    `grace`: seconds that a worker has to finish its commit. `until_idle`: a worker that ends by itself has done its
    work. `stuck`: a group whose last tick is older than this (seconds) is not healthy.
    """

    groups: Iterable[Group]
    spawn: Spawn
    notify: Notify
    grace: float = 60.0
    stuck: float = 300.0
    until_idle: bool = False
    url: str | None = None
    clock: Callable[[], float] = time.monotonic
    back_off: Callable[[], BackOff] = BackOff
    watched: dict[str, Watched] = field(init=False)

    def __post_init__(self) -> None:
        self.watched = {group.name: Watched(group, self.back_off()) for group in self.groups}
        self._queue: queue.SimpleQueue[tuple[Watched | None, Message]] = queue.SimpleQueue()
        self._stopping = self._asked = False
        self._unclean = False
        # What HTTP threads look at is never half of a change.
        self._lock = threading.Lock()

    # -- from other threads ------------------------------------------------------------------------------------

    def stop(self, why: str = "asked to") -> None:
        """Have every worker finish its commit and end. Asked a second time, end them at once. Safe in a signal
        handler."""
        self._queue.put((None, ("stop", why)))

    def health(self) -> dict[str, Any]:
        """JSON-ready. `status`: `ok`; `degraded`, if views or sinks fail while their groups run; `unavailable`, if a
        group does not run, or its last tick is too old."""
        with self._lock:
            groups = {name: self._health(one) for name, one in self.watched.items()}
        if any(not one["healthy"] for one in groups.values()):
            status = "unavailable"
        else:
            status = "degraded" if any(one["failing"] for one in groups.values()) else "ok"
        return {"status": status, "groups": groups}

    def pids(self) -> dict[str, int]:
        """Of the workers that run now."""
        with self._lock:
            return {name: one.worker.pid for name, one in self.watched.items() if one.worker is not None}

    # -- the loop ----------------------------------------------------------------------------------------------

    def run(self, duration: float | None = None) -> int:
        """Start everything, and keep it running until `stop`, or for `duration` seconds."""
        started = self.clock()
        self.start()
        end = None if duration is None else started + duration
        while self.busy:
            due = [t for t in (self.due, end) if t is not None]
            try:
                found = self._queue.get(timeout=max(0.0, min(due) - self.clock()) if due else None)
            except queue.Empty:
                pass
            else:
                self.handle(*found)
            if end is not None and self.clock() >= end:
                end = None
                self.handle(None, ("end", "the given time is over"))
            self.on_time()
        code = self.exit_code
        failed = tuple(name for name, one in self.watched.items() if one.state == "failed")
        self.notify(None, LiveStopped(code, round(self.clock() - started, 3), failed))
        return code

    def start(self) -> None:
        """Start a worker for every group."""
        self.notify(None, LiveStarted(tuple(self.watched), self.url))
        for one in self.watched.values():
            self._spawn(one)

    @property
    def busy(self) -> bool:
        """Whether a worker is there, or will be."""
        return any(one.worker is not None or one.restart_at is not None for one in self.watched.values())

    @property
    def due(self) -> float | None:
        """When `on_time` has something to do next."""
        times = [t for one in self.watched.values() for t in (one.restart_at, one.kill_at) if t is not None]
        return min(times, default=None)

    @property
    def exit_code(self) -> int:
        """What the process ends with, as things stand."""
        if any(one.state == "failed" for one in self.watched.values()):
            return GIVEN_UP
        return UNCLEAN if self._unclean else DONE

    def on_time(self) -> None:
        """Start what has waited long enough, end what has had its grace."""
        for one in self.watched.values():
            if one.restart_at is not None and one.restart_at <= self.clock():
                one.restarts += 1
                self._spawn(one)
            if one.kill_at is not None and one.kill_at <= self.clock():
                self._kill(one)

    def handle(self, one: Watched | None, message: Message) -> None:
        """Take in one message: of a worker, or to stop."""
        kind, content = message
        if one is None:
            self._stop(asked=kind == "stop")
        elif kind == "event":
            self._event(one, content)
        elif kind == "exit":
            self._exit(one, content)
        else:
            self.notify(one.group.name, str(content))

    def _spawn(self, one: Watched) -> None:
        with self._lock:
            one.state, one.restart_at, one.failed = "starting", None, None
            one.ticking_since = one.last_tick = None
            one.worker = self.spawn(one.group, lambda message: self._queue.put((one, message)))
        self.notify(one.group.name, WorkerSpawned(one.group.name, one.worker.pid, one.restarts))

    def _event(self, one: Watched, document: dict[str, Any]) -> None:
        event = event_of(document)
        if event is None:
            self.notify(one.group.name, str(document))
            return
        with self._lock:
            if isinstance(event, TickFinished):
                one.tick, one.last_tick = event, self.clock()
                if one.state == "starting":
                    one.state, one.ticking_since = "running", one.last_tick
            elif isinstance(event, WorkerFailed):
                one.failed = event
                one.last_error = event.code, event.message
            elif isinstance(event, MemberFailed):
                one.last_error = event.code, event.message
        self.notify(one.group.name, event)

    def _exit(self, one: Watched, code: int) -> None:
        assert one.worker is not None
        why, pause = _manner(one, code), None
        with self._lock:
            one.worker, one.kill_at = None, None
            if one.failed is not None and not one.failed.curable:
                one.state, why = "failed", f"given up because a restart would not help: {_told(one.failed)}"
            elif self._stopping or (self.until_idle and code == 0):
                one.state = "stopped"
                self._unclean = self._unclean or code != 0
            else:
                ticked = 0.0 if one.ticking_since is None else self.clock() - one.ticking_since
                pause = one.back_off.next(ticked)
                one.state, one.restart_at = "backing_off", self.clock() + pause
                if one.failed is None:
                    one.last_error = None, why
        self.notify(
            one.group.name,
            WorkerExited(one.group.name, code, None if pause is None else round(pause, 3), why),
        )

    def _stop(self, asked: bool) -> None:
        again = self._asked and asked
        self._stopping, self._asked = True, self._asked or asked
        for one in self.watched.values():
            if one.worker is None:
                if one.restart_at is not None:
                    with self._lock:
                        one.restart_at, one.state = None, "stopped"
            elif again:
                self._kill(one)
            else:
                one.kill_at = self.clock() + self.grace
                one.worker.stop()

    def _kill(self, one: Watched) -> None:
        one.kill_at, one.killed = None, True
        if one.worker is not None:
            one.worker.kill()

    def _health(self, one: Watched) -> dict[str, Any]:
        age = None if one.last_tick is None else round(self.clock() - one.last_tick, 1)
        wait = None if one.restart_at is None else round(max(0.0, one.restart_at - self.clock()), 1)
        error = (
            None if one.last_error is None else dict(zip(("code", "message"), one.last_error, strict=True))
        )
        return {
            "state": one.state,
            "healthy": one.state == "running" and age is not None and age <= self.stuck,
            "members": list(one.group.members),
            "pid": None if one.worker is None else one.worker.pid,
            "restarts": one.restarts,
            "restart_in_seconds": wait,
            "last_tick_age_seconds": age,
            "backlog": one.tick is not None and one.tick.backlog,
            "failing": [] if one.tick is None else list(one.tick.failing),
            "last_error": error,
        }


def _manner(one: Watched, code: int) -> str:
    """How a worker ended, in words."""
    worker = f"worker {one.worker.pid if one.worker else '?'}"
    if one.killed:
        return f"{worker} was killed because it did not stop in time"
    if code < 0:
        try:
            name = signal.Signals(-code).name
        except ValueError:
            name = f"signal {-code}"
        return f"{worker} was killed by {name}"
    if one.failed is not None:
        return f"{worker} failed: {_told(one.failed)}"
    return f"{worker} ended" + (f" with exit code {code}" if code else "")


def _told(failed: WorkerFailed) -> str:
    return f"{failed.code}: {failed.message}" if failed.code else failed.message
