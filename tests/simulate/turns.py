"""Two drivers at once, on the simulated outside: each goes on for some steps while the other one waits."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Protocol

from tests.simulate.scripts.script import Arrive, Together
from tests.simulate.world.outside import Driver, Outside
from tidegate.session.session import Session

_Work = Callable[[Session], object]


class Plays(Protocol):
    """What of a history that is played two drivers need."""

    outside: Outside

    def driver(self, machine: str, fresh: bool) -> Driver: ...

    def started(self, machine: str) -> Driver: ...

    def ended(self, driver: Driver) -> None: ...

    def second(self, what: str) -> _Work: ...

    def work(self, driver: Driver, work: _Work) -> bool: ...

    def arrive(self, act: Arrive) -> None: ...


class Turns:
    """Two drivers, each in a thread of its own; one goes on at a time."""

    def __init__(self, play: Plays, act: Together) -> None:
        self._play, self._act, self._turns = play, act, list(act.turns)
        self._files, self._given, self._until = list(act.files), False, act.until
        self._works: dict[str, Callable[[Session], object]] = {}
        self._wake: dict[str, threading.Event] = {}
        self._threads: dict[str, threading.Thread] = {}
        self._alive: list[Driver] = []
        self._left = 0
        self._errors: list[BaseException] = []

    def play(self) -> None:
        outside = self._play.outside
        first = self._play.driver("a", False)
        second = self._play.started("b" if self._act.apart else "a")
        drivers = [first, second]
        self._works = {first.name: Session.run, second.name: self._play.second(self._act.second)}
        self._wake = {driver.name: threading.Event() for driver in drivers}
        self._alive = list(drivers)
        threads = [threading.Thread(target=self._body, args=(driver,)) for driver in drivers]
        self._threads = {driver.name: thread for driver, thread in zip(drivers, threads, strict=True)}
        done = threading.Event()
        self._done = done
        outside.pause = self._pause
        try:
            for thread in threads:
                thread.start()
            self._give(drivers[0])
            done.wait()
            for thread in threads:
                thread.join()
        finally:
            outside.pause = lambda name: None
        if not second.dead:
            self._play.ended(second)
        if self._errors:
            raise self._errors[0]

    def _give(self, driver: Driver) -> None:
        self._left = self._turns.pop(0) if self._turns else 10_000
        if self._files and self._given:
            self._play.arrive(Arrive(self._files.pop(0)))
        self._given = True
        # What the other one has done just now is older than what this one does.
        self._play.outside.pass_time(1)
        self._play.outside.driver = driver
        self._play.outside.armed = True
        self._wake[driver.name].set()

    def _body(self, driver: Driver) -> None:
        self._wake[driver.name].wait()
        self._wake[driver.name].clear()
        try:
            self._play.work(driver, self._works[driver.name])
        except BaseException as error:
            self._errors.append(error)
        self._alive.remove(driver)
        if self._alive:
            self._give(self._alive[0])
        else:
            self._done.set()

    def _pause(self, name: str) -> None:
        """Before a step: the other one's turn may have come."""
        self._left -= 1
        if name == self._until:
            self._left, self._until = -1, ""
        me = self._play.outside.driver
        if self._threads[me.name] is not threading.current_thread():
            raise RuntimeError("a driver asks the outside in a thread that it has made, which has no turn")
        others = [one for one in self._alive if one is not me]
        if self._left >= 0 or not others:
            return
        self._give(others[0])
        self._wake[me.name].wait()
        self._wake[me.name].clear()
