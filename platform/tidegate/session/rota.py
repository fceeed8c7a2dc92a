"""Which groups of a live driver tick next: a pure function of what has happened. Events carry the time.

Each group is due at its own interval; while it has a backlog, it is due again as soon as its tick has ended. Of those
that are due, the one that has waited longest goes first, so a group with a backlog delays another one by one tick at
most. A second of one with priority 3 counts as three seconds: where there are too few threads, others wait longer, and
none waits for ever.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

#: A tick that has taken so many seconds does not count among those that share the threads: it may be hanging.
LONG_TICK = 60.0


@dataclass(frozen=True)
class Place:
    """A group. `interval`: seconds from the start of a tick to the start of the next; `due`: when that is; `since`:
    when the tick under way has begun, None: none is; `called`: whether it is due again as soon as that has ended.
    `waited`: seconds from when its last tick was due to when it began."""

    name: str
    interval: float
    due: float
    since: float | None = None
    called: bool = False
    priority: int = 1
    waited: float = 0.0


@dataclass(frozen=True)
class Joined:
    """A group is there, and is to tick at once."""

    name: str
    interval: float
    at: float
    priority: int = 1


@dataclass(frozen=True)
class Called:
    """A group has something to do before its next tick is due: it is told to end."""

    name: str
    at: float


@dataclass(frozen=True)
class Ticked:
    """A group's tick has ended. `backlog`: whether more waits."""

    name: str
    backlog: bool
    at: float


@dataclass(frozen=True)
class Postponed:
    """A group could not begin: it waits for something, without a thread, and looks again at `until`, or when it is
    called (infinity: only then)."""

    name: str
    until: float
    at: float


@dataclass(frozen=True)
class Departed:
    """A group has ended."""

    name: str
    at: float


@dataclass(frozen=True)
class Waited:
    """It is later."""

    at: float


Happened = Joined | Called | Ticked | Postponed | Departed | Waited


@dataclass(frozen=True)
class Rota:
    """The groups of a driver, of which at most `threads` tick at the same time, those apart that take very long."""

    threads: int
    places: tuple[Place, ...] = field(default=())

    def due(self) -> float | None:
        """When time has something to do next, None: not before something else happens."""
        times = [one.due for one in self.places if one.since is None and one.due < math.inf]
        if not times:
            return None
        under_way = sorted(one.since for one in self.places if one.since is not None)
        if len(under_way) < self.threads:
            return min(times)
        # A thread is free when a tick ends, which is told, or when one has taken very long.
        return max(min(times), under_way[-self.threads] + LONG_TICK)

    def _with(self, place: Place) -> Rota:
        return replace(self, places=tuple(place if one.name == place.name else one for one in self.places))

    def _without(self, name: str) -> Rota:
        return replace(self, places=tuple(one for one in self.places if one.name != name))

    def _rests(self, place: Place, due: float, at: float) -> Rota:
        """With a group whose work has ended: behind all that are due at the same moment."""
        rested = replace(place, since=None, due=at if place.called else due, called=False)
        others = self._without(place.name)
        return replace(others, places=(*others.places, rested))

    def of(self, name: str) -> Place:
        """The group of this name."""
        return next(one for one in self.places if one.name == name)


def step(rota: Rota, event: Happened) -> tuple[Rota, tuple[str, ...]]:
    """What follows from an event: the groups that begin a tick now."""
    match event:
        case Joined(name, interval, at, priority):
            rota = replace(rota, places=(*rota.places, Place(name, interval, at, priority=priority)))
        case Called(name, at):
            place = rota.of(name)
            rota = rota._with(replace(place, due=min(place.due, at), called=place.since is not None))
        case Ticked(name, backlog, at):
            place = rota.of(name)
            assert place.since is not None
            rota = rota._rests(place, at if backlog else max(at, place.since + place.interval), at)
        case Postponed(name, until, at):
            rota = rota._rests(rota.of(name), until, at)
        case Departed(name, _):
            rota = rota._without(name)
        case Waited():
            pass
    return _begin(rota, event.at)


def _begin(rota: Rota, at: float) -> tuple[Rota, tuple[str, ...]]:
    """Let as many groups begin as there are free threads."""
    busy = sum(one.since is not None and at - one.since < LONG_TICK for one in rota.places)
    waiting = sorted(
        (one for one in rota.places if one.since is None and one.due <= at),
        key=lambda one: ((one.due - at) * one.priority, -one.priority),
    )
    begun = waiting[: max(0, rota.threads - busy)]
    for one in begun:
        rota = rota._with(replace(one, since=at, waited=at - one.due))
    return rota, tuple(one.name for one in begun)
