"""Live mode inside one process: many groups on one Spark, each ticked at its own pace by a few threads.

A group is opened, ticked and closed by whichever thread is free; the order is decided by `rota.step`. What ends a group
does not touch the others. Only when Spark itself is gone, all end: the process has to be started again.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from tidegate.errors import TidegateError
from tidegate.jvm.failures import one_line
from tidegate.maintenance.live_upkeep import LiveUpkeep
from tidegate.plan.events import Event, WorkerFailed, WorkerStopping
from tidegate.plan.hanging import Patience
from tidegate.runtime.codes import is_curable
from tidegate.session.hands import Hands
from tidegate.session.hosted import Hosted, Opening
from tidegate.session.live import LiveGroup
from tidegate.session.rota import (
    Called,
    Departed,
    Happened,
    Joined,
    Postponed,
    Rota,
    Ticked,
    Waited,
    step,
)
from tidegate.session.visits import Visit

#: By then a group has opened what it has, and used it.
WARM_TICKS = 5

#: Seconds between two looks for leases that another process has, or a run in this one.
_LEASES_EVERY = 0.5
#: Seconds between two looks whether a run still waits for groups.
_LOOKS_EVERY = 0.1
#: Seconds between two looks whether groups hang, at most.
_LOOKS_FOR_HANGING_EVERY = 10.0


class Told(Protocol):
    """Who hears of what happens to groups, from any thread."""

    def event(self, group: str, event: Event) -> None:
        """Something has happened in a group."""

    def begins(self, group: str) -> None:
        """A group begins to work: to open, to tick, or to close."""

    def rests(self, group: str) -> None:
        """Its work is done for now."""

    def ended(self, group: str, code: int, error: Exception | None) -> None:
        """A group has ended: 0 in order, 2 by a tidegate error, 1 by another."""


@dataclass(frozen=True)
class Pace:
    """How groups are driven. `interval`: seconds from a tick to the next; `over`: whether a group that has no backlog
    has nothing more to do, and ends; `upkeep`: tables are kept small; `threads`: how many groups tick at
    the same time; `patience`: seconds for which a group waits for leases, since the process before this one may still
    be finishing its commits; `warm`: called once, when the groups have ticked a few times each; `full`: whether the
    CPU of the machine is fully used; `hangs_after`: seconds without an advance after which it is told that the work of
    a group hangs (`Patience`)."""

    interval: float = 2.0
    over: Callable[[LiveGroup], bool] = lambda group: False
    upkeep: bool = True
    threads: int = 4
    patience: float = 0.0
    warm: Callable[[], None] = lambda: None
    full: Callable[[], bool] = lambda: False
    hangs_after: float = 300.0


class _Over(Exception):
    """A group has ended in order, because of what the text says."""


class _Close:
    """No further group comes."""


class _Lost:
    """Spark is gone."""


@dataclass(frozen=True)
class _Left:
    """A visit is over."""

    visit: Visit


@dataclass(frozen=True)
class _Ended:
    """A group is closed: because of an error, or in order."""

    name: str
    error: Exception
    at: float


class LiveDriver:
    """Give it groups by `open`, have them end by `stop`, and no further one come by `close`; `run` works until all have
    ended then. The first three, and `lost`, may be called by any thread, and are followed in the order of the calls.
    `answers`: whether Spark is still there."""

    def __init__(
        self, hands: Hands, told: Told, pace: Pace, answers: Callable[[], bool] = lambda: True
    ) -> None:
        self._hands, self._told, self._pace, self._answers = hands, told, pace, answers
        self._rota = Rota(pace.threads)
        self._hosted: dict[str, Hosted] = {}
        #: What begins when the group of the same name has ended.
        self._next: dict[str, Hosted] = {}
        self._open_to_more = True
        self._lost = False
        self._ticks, self._warm = 0, False
        self._upkeep_turn = threading.Lock()
        self._looks_every = min(_LOOKS_FOR_HANGING_EVERY, pace.hangs_after / 10)
        self._looked = hands.now()

    def open(
        self,
        name: str,
        opening: Opening,
        interval: float | None = None,
        priority: int = 1,
        hung: Mapping[str, int] | None = None,
    ) -> None:
        """Take in a group; one that is there already ends first. `interval`: its own one; `priority`: see `rota`;
        `hung`: see `Patience`."""
        usual = self._pace.interval if interval is None else interval
        patience = Patience(self._pace.hangs_after, hung or {})
        self._hands.tell(Hosted(name, opening, usual, patience, priority))

    def stop(self, name: str) -> None:
        """Let a group finish its commit, and end."""
        self._hands.tell(name)

    def close(self) -> None:
        """Let all groups end, and then `run`."""
        self._hands.tell(_Close())

    def lost(self) -> None:
        """Let `run` end at once: Spark is gone, and no group can go on or be closed."""
        self._hands.tell(_Lost())

    @contextmanager
    def visit(
        self, visit: Visit, seconds: float, waits: Callable[[], None]
    ) -> Iterator[dict[str, LiveGroup]]:
        """While the block runs, the groups of the visit don't tick: those that were at rest within so many seconds.
        `waits`: called again and again until then; what it raises ends the visit."""
        self._hands.tell(visit)
        try:
            end = self._hands.now() + seconds
            while not visit.complete(_LOOKS_EVERY) and self._hands.now() < end:
                waits()
            yield visit.begin()
        finally:
            for name in visit.begin():
                self._told.rests(name)
            self._hands.tell(_Left(visit))

    def run(self) -> bool:
        """Drive all groups; False, at once, if Spark is gone."""
        while self._open_to_more or self._hosted:
            times = [due for due in (self._rota.due(), self._look_at()) if due is not None]
            wait = max(0.0, min(times) - self._hands.now()) if times else None
            self._take(self._hands.hear(wait))
            self._look_for_hanging()
            if self._lost:
                return False
        return True

    # -- in the thread of `run` --------------------------------------------------------------------------------

    def _look_at(self) -> float | None:
        """When to look next whether the work of a group hangs; None while none is at work."""
        return self._looked + self._looks_every if self._rota.is_at_work else None

    def _look_for_hanging(self) -> None:
        now = self._hands.now()
        if now < self._looked + self._looks_every:
            return
        self._looked = now
        for place in self._rota.places:
            hosted = self._hosted[place.name]
            if place.since is None or hosted.visit is not None:
                continue
            if (told := hosted.hangs(now)) is not None:
                self._told.event(place.name, told)

    def _take(self, message: object) -> None:
        match message:
            case Hosted():
                self._comes(message)
            case str(name) if name in self._hosted:
                (self._next.get(name) or self._hosted[name]).stop.set()
                self._ends(name)
            case _Close():
                self._open_to_more = False
                for hosted in self._next.values():
                    hosted.stop.set()
                for name in tuple(self._hosted):
                    self._ends(name)
            case _Lost():
                self._lost = True
            case Visit():
                self._comes_to_visit(message)
            case _Left(visit):
                self._goes_on_without(visit)
            case _Ended():
                self._gone(message)
            case Ticked() | Postponed():
                self._happens(message)
                self._count(message)
            case _:
                self._happens(Waited(self._hands.now()))

    def _comes(self, hosted: Hosted) -> None:
        """Begin with a group, or let one that is there end first."""
        if not self._open_to_more:
            hosted.stop.set()
        if hosted.name in self._hosted:
            self._next[hosted.name] = hosted
            self._ends(hosted.name)
        else:
            self._hosted[hosted.name] = hosted
            self._happens(Joined(hosted.name, hosted.interval, self._hands.now(), hosted.priority))

    def _comes_to_visit(self, visit: Visit) -> None:
        for name in visit.names:
            if (hosted := self._hosted.get(name)) is None:
                visit.misses(name)
            else:
                hosted.visits.append(visit)
                self._happens(Called(name, self._hands.now()))

    def _goes_on_without(self, visit: Visit) -> None:
        for name in visit.names:
            if (hosted := self._hosted.get(name)) is not None and hosted.visit is visit:
                hosted.visit = None
                self._happens(Called(name, self._hands.now()))

    def _ends(self, name: str) -> None:
        self._hosted[name].stop.set()
        self._happens(Called(name, self._hands.now()))

    def _gone(self, ended: _Ended) -> None:
        """Tell that a group has ended, when nothing is left of it here: whoever hears of it may open it again."""
        for visit in self._hosted.pop(ended.name).visits:
            visit.misses(ended.name)
        self._happens(Departed(ended.name, ended.at))
        if isinstance(ended.error, _Over):
            self._told.ended(ended.name, 0, None)
        else:
            self._told.ended(ended.name, 2 if isinstance(ended.error, TidegateError) else 1, ended.error)
        if (following := self._next.pop(ended.name, None)) is not None:
            self._comes(following)

    def _count(self, message: Ticked | Postponed) -> None:
        self._ticks += isinstance(message, Ticked)
        if not self._warm and self._ticks >= WARM_TICKS * max(1, len(self._hosted)):
            self._warm = True
            self._pace.warm()

    def _happens(self, event: Happened) -> None:
        self._rota, begun = step(self._rota, event)
        for name in begun:
            self._hosted[name].began = self._hands.now()
            self._hands.start(partial(self._work, self._hosted[name], self._rota.of(name).waited))

    # -- in a thread of the pool -------------------------------------------------------------------------------

    def _work(self, hosted: Hosted, waited: float) -> None:
        """Advance a group, which was due so many seconds ago, and tell the driver what came of it."""
        if (visit := hosted.visit) is not None:
            # Nobody but the run touches the group now.
            if hosted.stop.is_set():
                visit.leave()
            now = self._hands.now()
            until = now + _LEASES_EVERY if hosted.stop.is_set() else math.inf
            self._hands.tell(Postponed(hosted.name, until, now))
            return
        if not hosted.works:
            self._told.begins(hosted.name)
        try:
            came = self._advance(hosted, waited)
        except Exception as error:
            self._end(hosted, error)
        else:
            # Before the next work of the group can begin; what is lent is at work until it is given back.
            hosted.works = hosted.is_beside
            if not (hosted.works or (isinstance(came, Postponed) and came.until == math.inf)):
                self._told.rests(hosted.name)
            self._hands.tell(came)

    def _advance(self, hosted: Hosted, waited: float) -> Ticked | Postponed:
        """Open the group, or let it tick. Raises _Over when it has ended in order."""

        def notify(event: Event) -> None:
            self._told.event(hosted.name, event)

        if (group := hosted.group) is None:
            return self._begun(hosted, notify)
        while hosted.visits and not hosted.is_beside and not hosted.stop.is_set():
            # Before it is lent: the run may be over at once.
            hosted.visit = hosted.visits.popleft()
            if hosted.visit.arrives(hosted.name, group):
                return Postponed(hosted.name, math.inf, self._hands.now())
            hosted.visit = None
        stopped, backlog = hosted.stop.is_set, False
        with group.context.runner.working(hosted.name):
            if not stopped():
                backlog = group.tick(notify, waited, lends=bool(hosted.visits))
            if not stopped() and hosted.caretaker is not None:
                hosted.caretaker.between_ticks(notify, begins=not hosted.visits)
            over = stopped() or (not backlog and self._pace.over(group))
        if over:
            raise _Over("asked to" if stopped() else "nothing waits any more")
        now = self._hands.now()
        if hosted.visits and not backlog:
            # It is lent as soon as nothing is done beside its ticks any more.
            return Postponed(hosted.name, now + _LEASES_EVERY, now)
        return Ticked(hosted.name, backlog, now, self._pace.full())

    def _begun(self, hosted: Hosted, notify: Callable[[Event], None]) -> Ticked | Postponed:
        """Open a group, or as much of it as goes without leases that another process has: for those it waits without a
        thread."""
        if hosted.stop.is_set():
            raise _Over("asked to")
        if (group := hosted.made) is None:
            group = hosted.made = hosted.opened.enter_context(hosted.opening(hosted.stop.is_set))
            hosted.waits = self._hands.now() + self._pace.patience
        try:
            hosted.opened.enter_context(group)
        except TidegateError as error:
            now = self._hands.now()
            if error.code != "TG508":
                raise
            if hosted.stop.is_set():
                raise _Over("asked to") from None
            if now >= hosted.waits:
                raise
            return Postponed(hosted.name, now + _LEASES_EVERY, now)
        hosted.group = group
        if self._pace.upkeep:
            clock = group.context.runner.elapsed
            caretaker = hosted.caretaker = LiveUpkeep(
                group.context,
                group.name,
                group.written,
                clock=clock,
                beside=group.beside,
                turn=self._upkeep_turn,
            )
            hosted.opened.callback(caretaker.close)
        with group.context.runner.working(hosted.name):
            group.prepare(notify)
        return Ticked(hosted.name, True, self._hands.now())

    def _end(self, hosted: Hosted, error: Exception) -> None:
        """Close a group, and tell why it has ended."""
        if isinstance(error, _Over):
            ticks = 0 if hosted.group is None else hosted.group.ticks
            self._told.event(hosted.name, WorkerStopping(hosted.name, str(error), ticks))
        try:
            hosted.opened.close()
        except Exception as closing:
            error = closing if isinstance(error, _Over) else error
        if not isinstance(error, _Over):
            known = error if isinstance(error, TidegateError) else None
            code, hint = (known.code, known.hint) if known else (None, None)
            failed = WorkerFailed(hosted.name, code, one_line(error), hint, is_curable(error))
            self._told.event(hosted.name, failed)
            if not self._answers():
                # Opened, closed or ticking: no group can go on, and this process has nothing more to do than to end.
                self.lost()
                return
        self._hands.tell(_Ended(hosted.name, error, self._hands.now()))
