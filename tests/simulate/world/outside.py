"""The world outside of the engine under one seed. Whatever the engine asks of it is a step: it is counted, a fault may
meet it, and another driver may go on before it.

A step has a name, `operation role`: "write plan", "commit log". A fault is met by the n-th step of an act; which faults
can meet a step follows from its operation.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from random import Random
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

from pyiceberg.table import snapshots
from pyiceberg.utils.concurrent import ExecutorFactory

from tests.inprocess.stored.upkeep import InProcessUpkeep
from tidegate.ingest.sources import file_looks

START = datetime(2026, 1, 1, tzinfo=UTC)

KILLED_BEFORE, KILLED_AFTER, KILLED_HALFWAY = "killed before", "killed after", "killed halfway"
REFUSED, LOST, TORN, FULL = "refused", "lost answer", "torn", "disk full"
HIDDEN, SLOW = "missing until later", "slow"
CONFLICT, STALE, LOST_REQUEST = "conflict", "stale", "lost request"
CRASHED, HUNG = "task failed", "task hangs"
#: Of a broker: a fetch that ends in the middle, or gives messages twice; retention removes what is asked for; a message
#: arrives long after its sender has ended; a task fails that Spark would repeat.
BROKEN_OFF, DOUBLED, EXPIRED = "broken off", "doubled", "retention passes"
LATER, REPEATED_TASK = "arrives later", "task repeated"

#: Which faults may meet the steps of an operation.
FAULTS: dict[str, tuple[str, ...]] = {
    "write": (KILLED_BEFORE, KILLED_HALFWAY, KILLED_AFTER, REFUSED, LOST, TORN, FULL, SLOW),
    "move": (KILLED_BEFORE, KILLED_AFTER, REFUSED, LOST, SLOW),
    "delete": (KILLED_BEFORE, KILLED_AFTER, REFUSED, LOST, SLOW),
    "read": (KILLED_BEFORE, REFUSED, HIDDEN, SLOW),
    "look": (KILLED_BEFORE, REFUSED, SLOW),
    "list": (KILLED_BEFORE, REFUSED, SLOW),
    "load": (KILLED_BEFORE, REFUSED, STALE, SLOW),
    "create": (KILLED_BEFORE, KILLED_AFTER, REFUSED, LOST, SLOW),
    "drop": (KILLED_BEFORE, KILLED_AFTER, REFUSED, LOST, SLOW),
    "commit": (KILLED_BEFORE, KILLED_AFTER, REFUSED, CONFLICT, LOST, LOST_REQUEST, SLOW),
    "compute": (KILLED_BEFORE, CRASHED, HUNG, SLOW),
    "ask": (KILLED_BEFORE, REFUSED, STALE, SLOW),
    "fetch": (KILLED_BEFORE, REFUSED, BROKEN_OFF, DOUBLED, EXPIRED, SLOW),
    "send": (KILLED_BEFORE, KILLED_AFTER, REFUSED, LOST, LATER, REPEATED_TASK, SLOW),
}


class Killed(BaseException):
    """The end of a driver's process: nothing that handles errors sees it."""


class InjectedError(OSError):
    """What the outside answers where a fault meets a step."""


@dataclass(frozen=True)
class Fault:
    """What meets the `nth` step of a name in the `act`-th act; both count from 0."""

    act: int
    step: str
    nth: int
    kind: str


@dataclass(frozen=True)
class Wish:
    """A fault for the `nth` step of this name in a history, or in the `act`-th act of it; both count from 0."""

    step: str
    kind: str
    nth: int
    act: int | None = None


class Chooser:
    """Decides which fault meets a step: those of a list; else what is wished for, and by chance `share` of 1,000."""

    def __init__(
        self, rng: Random, fixed: Sequence[Fault] | None, wishes: Sequence[Wish] = (), share: int = 0
    ) -> None:
        self._fixed = (
            None if fixed is None else {(fault.act, fault.step, fault.nth): fault.kind for fault in fixed}
        )
        self._rng, self._share = rng, share
        self._wishes = {(wish.act, wish.step, wish.nth): wish.kind for wish in wishes}
        self._passed: Counter[str] = Counter()

    def kind(self, act: int, name: str, number: int, most: int) -> str | None:
        """The fault of a step, the `number`-th of its name in this act. `most`: so many more may come."""
        nth, self._passed[name] = self._passed[name], self._passed[name] + 1
        if self._fixed is not None:
            return self._fixed.get((act, name, number))
        if most <= 0:
            return None
        wished = self._wishes.get((None, name, nth)) or self._wishes.get((act, name, number))
        if wished is None and self._rng.randrange(1000) < self._share:
            return self._rng.choice(FAULTS[name.partition(" ")[0]])
        return wished


@dataclass
class Driver:
    """A process that runs the engine, on a machine. `dead`: nothing that it still does has an effect. `task`: that its
    Python worker is in, if it is in one. `outdated`: it has read definitions that were edited since."""

    name: str
    machine: str = "a"
    dead: bool = False
    locks: set[str] = field(default_factory=set)
    task: object | None = None
    outdated: bool = False


class Outside:
    """Clock, ids, steps and faults of one history."""

    def __init__(self, seed: int, chooser: Chooser, most_faults: int = 4) -> None:
        self.rng, self.chooser, self._most = Random(seed), chooser, most_faults
        self._ids = Random(seed + 1)
        self.now = START
        self.act = -1
        self._of_act: Counter[str] = Counter()
        self.steps: list[str] = []
        self.met: list[Fault] = []
        self.driver = Driver("driver 0")
        #: Faults meet steps only while this is set.
        self.armed = False
        #: Who looks now is no driver.
        self.quiet = 0
        #: Called before each step, with its name: the place at which another driver goes on.
        self.pause: Callable[[str], None] = lambda name: None

    def begin(self, act: int) -> None:
        """The next act."""
        self.act, self._of_act = act, Counter()

    def clock(self) -> datetime:
        return self.now

    def elapsed(self) -> float:
        """Seconds, of a clock that nobody sets."""
        return (self.now - START).total_seconds()

    def new_id(self) -> uuid.UUID:
        return uuid.UUID(int=self._ids.getrandbits(128), version=4)

    def pass_time(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)

    def step(self, name: str, effect: Callable[[str | None], Any]) -> Any:
        """Do one thing outside of the engine. `effect` is given the fault that it has to show itself, if any."""
        if self.quiet:
            return effect(None)
        driver = self.driver
        if driver.dead:
            raise Killed(name)
        if self.armed:
            self.pause(name)
            if driver.dead:
                raise Killed(name)
        fault = self._fault(name)
        if fault == KILLED_BEFORE:
            self._kill(driver, name)
        if fault == REFUSED:
            raise InjectedError(f"503 for {name}")
        if fault == SLOW:
            self.pass_time(self.rng.choice([1, 60, 1200]))
        found = effect(fault)
        if fault in (KILLED_AFTER, KILLED_HALFWAY, LATER):
            self._kill(driver, name)
        if fault == LOST and not name.startswith("commit"):
            raise InjectedError(f"no answer for {name}")
        return found

    def _kill(self, driver: Driver, name: str) -> None:
        driver.dead = True
        driver.locks.clear()
        raise Killed(name)

    def _fault(self, name: str) -> str | None:
        if not self.armed:
            return None
        number, self._of_act[name] = self._of_act[name], self._of_act[name] + 1
        self.steps.append(name)
        kind = self.chooser.kind(self.act, name, number, self._most - len(self.met))
        if kind is not None and kind in FAULTS[name.partition(" ")[0]]:
            self.met.append(Fault(self.act, name, number, kind))
            return kind
        return None

    @contextmanager
    def looking(self) -> Iterator[None]:
        """While the block runs, who looks is no driver: nothing is a step."""
        self.quiet += 1
        try:
            yield
        finally:
            self.quiet -= 1

    @contextmanager
    def holds(self) -> Iterator[Outside]:
        """While the block runs, ids and the times of snapshots are this world's."""
        clock = SimpleNamespace(time=lambda: self.now.timestamp())
        with (
            patch.object(uuid, "uuid4", self.new_id),
            patch.object(snapshots, "time", clock),
            patch.object(ExecutorFactory, "get_or_create", _AtOnce),
            patch.object(file_looks, "ThreadPoolExecutor", _AtOnce),
            patch.object(InProcessUpkeep.compact, "__defaults__", (None, None, 2, ())),
        ):
            yield self


class _AtOnce(Executor):
    """Does what it is given at once, in the thread of the driver that gives it: so the order of steps is always the
    same, and a driver whose turn is over waits as a whole."""

    def __init__(self, threads: int = 1) -> None:
        """As of a pool of threads."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        done: Future[Any] = Future()
        try:
            done.set_result(fn(*args, **kwargs))
        except Exception as error:
            done.set_exception(error)
        return done
