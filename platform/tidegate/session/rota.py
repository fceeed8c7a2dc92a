"""Which groups of a live driver tick next: a pure function of what has happened. Events carry the time.

Each group is due at its own interval; while it has a backlog, it is due again as soon as its tick has ended. Of those
that are due, the one that has waited longest goes first, so a group with a backlog delays another one by one tick at
most. A second of one with priority 3 counts as three seconds: where there are too few threads, others wait longer, and
none waits for ever.

Where the CPU is fully used, a free thread is of little use, since ticks only slow each other down. There a group begins
when its waiting counts as much as the seconds by which ticks of a higher priority are late, or after a minute.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

#: A tick that has taken so many seconds does not count among those that share the threads: it may be hanging.
LONG_TICK = 60.0
#: So many seconds at most a group that is due lets those of a higher priority have the CPU.
LONGEST_HOLD = 60.0
#: Fewer seconds are not late.
_SLIGHTLY = 0.01


@dataclass(frozen=True)
class Place:
    """A group. `interval`: seconds from the start of a tick to the start of the next; `due`: when that is; `since`:
    when the tick under way has begun, None: none is; `called`: whether it is due again as soon as that has ended, and
    is not held. `waited`: seconds from when its last tick was due to when it began; `until`: of a group that is held,
    when it begins at the latest.

    Of its last tick: `backlog`, whether more waited behind it; `full`, whether the CPU was fully used meanwhile.
    `late`: by how many seconds its ticks have ended too late for that reason, the last ones above all."""

    name: str
    interval: float
    due: float
    since: float | None = None
    called: bool = False
    priority: int = 1
    waited: float = 0.0
    until: float = 0.0
    backlog: bool = False
    full: bool = False
    late: float = 0.0

    def after(self, tick: Ticked) -> Place:
        """When its tick has ended."""
        assert self.since is not None
        # What is behind a backlog is late as soon as the tick is due.
        seconds = self.waited + tick.at - self.since - (0.0 if tick.backlog else self.interval)
        late = (self.late + (max(0.0, seconds) if tick.full else 0.0)) / 2
        return replace(self, backlog=tick.backlog, full=tick.full, late=late if late >= _SLIGHTLY else 0.0)

    def needs_cpu(self, at: float) -> bool:
        """Whether its ticks are late, and one is under way, or soon due. One that hangs is not helped by others."""
        begun = self.since is not None and at - self.since < LONG_TICK
        return self.late > 0.0 and (begun or (self.since is None and self.due - at < LONG_TICK))


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
    """A group's tick has ended. `backlog`: whether more waits; `full`: whether the CPU was fully used meanwhile."""

    name: str
    backlog: bool
    at: float
    full: bool = False


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

    @property
    def is_at_work(self) -> bool:
        """Whether a tick is under way."""
        return any(one.since is not None for one in self.places)

    def due(self) -> float | None:
        """When time has something to do next, None: not before something else happens."""
        times = [max(one.due, one.until) for one in self.places if one.since is None and one.due < math.inf]
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
        rested = replace(place, since=None, due=at if place.called else due)
        others = self._without(place.name)
        return replace(others, places=(*others.places, rested))

    def held(self, place: Place, at: float) -> float:
        """For how many seconds a group that is due lets others have the CPU: until its waiting counts as much as that
        by which ticks of a higher priority are late. A backlog is made up for at the cost of other backlogs only."""
        if place.called or not place.full:
            return 0.0
        counts = (
            other.late * other.priority
            for other in self.places
            if other.priority > place.priority
            and (place.backlog or not other.backlog)
            and other.needs_cpu(at)
        )
        return min(max(counts, default=0.0) / place.priority, LONGEST_HOLD)

    def of(self, name: str) -> Place:
        """The group of this name."""
        return next(one for one in self.places if one.name == name)


def step(rota: Rota, event: Happened) -> tuple[Rota, tuple[str, ...]]:
    """What follows from an event: the groups that begin a tick now."""
    match event:
        case Joined(name, interval, at, priority):
            joined = Place(name, interval, at, called=True, priority=priority)
            rota = replace(rota, places=(*rota.places, joined))
        case Called(name, at):
            place = rota.of(name)
            rota = rota._with(replace(place, due=min(place.due, at), called=True))
        case Ticked(name, backlog, at):
            place = rota.of(name)
            assert place.since is not None
            due = at if backlog else max(at, place.since + place.interval)
            rota = rota._rests(place.after(event), due, at)
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
    waiting = []
    for one in (one for one in rota.places if one.since is None and one.due <= at):
        until = one.due + rota.held(one, at)
        held = replace(one, until=until if until > at else 0.0)
        if held != one:
            rota = rota._with(held)
        if not held.until:
            waiting.append(held)
    waiting.sort(key=lambda one: ((one.due - at) * one.priority, -one.priority))
    begun = waiting[: max(0, rota.threads - busy)]
    for one in begun:
        rota = rota._with(replace(one, since=at, called=False, waited=at - one.due))
    return rota, tuple(one.name for one in begun)
