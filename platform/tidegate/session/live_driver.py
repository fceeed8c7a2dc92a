"""Live mode inside one process: many groups on one Spark, each ticked at its own pace by a few threads.

A group is opened, ticked and closed by whichever thread is free; the order is decided by `rota.step`. What ends a group
does not touch the others. Only when Spark itself is gone, all end: the process has to be started again.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

from tidegate.errors import TidegateError
from tidegate.jvm.failures import one_line
from tidegate.maintenance.live_upkeep import LiveUpkeep
from tidegate.plan.events import Event, WorkerFailed, WorkerStopping
from tidegate.runtime.codes import is_curable
from tidegate.session.live import LiveGroup
from tidegate.session.rota import Called, Departed, Happened, Joined, Rota, Ticked, Waited, step

#: Opens a group; it asks between two commits whether it is to stop.
Opening = Callable[[Callable[[], bool]], AbstractContextManager[LiveGroup]]


class Hands(Protocol):
    """What does the work of a driver: threads, in a process; one after the other, in tests."""

    def start(self, work: Callable[[], None]) -> None:
        """Have it done."""

    def tell(self, message: object) -> None:
        """Put a message into the driver's queue. Safe in any thread and signal handler."""

    def hear(self, seconds: float | None) -> object | None:
        """The next message, or None once so many seconds have passed (None: however long it takes)."""

    def now(self) -> float:
        """Seconds of a clock that nobody sets."""


class Threads:
    """Threads of this process. How many work at the same time is the rota's decision."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._queue: queue.SimpleQueue[object] = queue.SimpleQueue()
        self._pool = ThreadPoolExecutor(max_workers=1000, thread_name_prefix="tidegate-group")
        self.now = clock

    def start(self, work: Callable[[], None]) -> None:
        self._pool.submit(work)

    def tell(self, message: object) -> None:
        self._queue.put(message)

    def hear(self, seconds: float | None) -> object | None:
        try:
            return self._queue.get(timeout=seconds)
        except queue.Empty:
            return None


class Told(Protocol):
    """Who hears of what happens to groups, from any thread."""

    def event(self, group: str, event: Event) -> None:
        """Something has happened in a group."""

    def begins(self, group: str) -> None:
        """A group begins to work: to open, to tick, or to close."""

    def ended(self, group: str, code: int, error: Exception | None) -> None:
        """A group has ended: 0 in order, 2 by a tidegate error, 1 by another."""


@dataclass(frozen=True)
class Pace:
    """How groups are driven. `interval`: seconds from a tick to the next; `over`: whether a group that has no backlog
    has nothing more to do, and ends; `upkeep`: tables are kept small between ticks; `threads`: how many groups tick at
    the same time."""

    interval: float = 2.0
    over: Callable[[LiveGroup], bool] = lambda group: False
    upkeep: bool = True
    threads: int = 4


@dataclass
class _Hosted:
    """A group of the driver. Touched by one thread at a time."""

    name: str
    opening: Opening
    interval: float
    stop: threading.Event = field(default_factory=threading.Event)
    group: LiveGroup | None = None
    caretaker: LiveUpkeep | None = None
    opened: ExitStack = field(default_factory=ExitStack)


class _Over(Exception):
    """A group has ended in order."""


class LiveDriver:
    """Give it groups by `open`, have them end by `stop`, and no further one come by `close`; `run` works until all have
    ended then. The first three may be called by any thread."""

    def __init__(self, hands: Hands, told: Told, pace: Pace) -> None:
        self._hands, self._told, self._pace = hands, told, pace
        self._rota = Rota(pace.threads)
        self._hosted: dict[str, _Hosted] = {}
        self._open_to_more = True
        self._lost = False

    def open(self, name: str, opening: Opening, interval: float | None = None) -> None:
        """Take in a group, which must have ended if it was there before. `interval`: its own one."""
        self._hands.tell(_Hosted(name, opening, self._pace.interval if interval is None else interval))

    def stop(self, name: str) -> None:
        """Let a group finish its commit, and end."""
        self._hands.tell(name)

    def close(self) -> None:
        """Let all groups end, and then `run`."""
        self._hands.tell(_Over())

    def run(self) -> bool:
        """Drive all groups; False, at once, if Spark is gone."""
        while self._open_to_more or self._hosted:
            due = self._rota.due()
            wait = None if due is None else max(0.0, due - self._hands.now())
            self._take(self._hands.hear(wait))
            if self._lost:
                return False
        return True

    # -- in the thread of `run` --------------------------------------------------------------------------------

    def _take(self, message: object) -> None:
        match message:
            case _Hosted(name):
                self._hosted[name] = message
                self._happens(Joined(name, message.interval, self._hands.now()))
            case str(name) if name in self._hosted:
                self._hosted[name].stop.set()
                self._happens(Called(name, self._hands.now()))
            case _Over():
                self._open_to_more = False
                for name in tuple(self._hosted):
                    self._take(name)
            case Ticked() | Departed():
                if isinstance(message, Departed):
                    del self._hosted[message.name]
                self._happens(message)
            case _:
                self._happens(Waited(self._hands.now()))

    def _happens(self, event: Happened) -> None:
        self._rota, begun = step(self._rota, event)
        for name in begun:
            self._hands.start(partial(self._work, self._hosted[name]))

    # -- in a thread of the pool -------------------------------------------------------------------------------

    def _work(self, hosted: _Hosted) -> None:
        """Advance a group, and tell the driver what came of it."""
        self._told.begins(hosted.name)
        try:
            backlog = self._advance(hosted)
        except Exception as error:
            self._end(hosted, error)
            self._hands.tell(Departed(hosted.name, self._hands.now()))
        else:
            self._hands.tell(Ticked(hosted.name, backlog, self._hands.now()))

    def _advance(self, hosted: _Hosted) -> bool:
        """Open the group, or let it tick; whether more waits. Raises _Over when it has ended in order."""

        def notify(event: Event) -> None:
            self._told.event(hosted.name, event)

        if (group := hosted.group) is None:
            group = hosted.opened.enter_context(hosted.opening(hosted.stop.is_set))
            hosted.group = group
            if self._pace.upkeep:
                clock = group.context.runner.elapsed
                hosted.caretaker = LiveUpkeep(group.context, group.name, group.written, clock=clock)
            with group.context.runner.working(hosted.name):
                group.prepare(notify)
            return True
        stopped, backlog = hosted.stop.is_set, False
        with group.context.runner.working(hosted.name):
            if not stopped():
                backlog = group.tick(notify)
            if not stopped() and hosted.caretaker is not None:
                hosted.caretaker.between_ticks(notify)
            over = stopped() or (not backlog and self._pace.over(group))
        if over:
            why = "asked to" if stopped() else "nothing waits any more"
            notify(WorkerStopping(hosted.name, why, group.ticks))
            raise _Over
        return backlog

    def _end(self, hosted: _Hosted, error: Exception) -> None:
        """Close a group, and tell how it ended."""
        try:
            hosted.opened.close()
        except Exception as closing:
            error = closing if isinstance(error, _Over) else error
        if isinstance(error, _Over):
            self._told.ended(hosted.name, 0, None)
            return
        known = error if isinstance(error, TidegateError) else None
        code, hint = (known.code, known.hint) if known else (None, None)
        failed = WorkerFailed(hosted.name, code, one_line(error), hint, is_curable(error))
        self._told.event(hosted.name, failed)
        if hosted.group is not None and not hosted.group.context.runner.answers():
            # No group can go on, and this process has nothing more to say than that it ends.
            self._lost = True
        else:
            self._told.ended(hosted.name, 2 if known else 1, error)
