"""When a member of a live group advances, and what follows from its failure: a pure function. Events carry the time.

A source, a view and a sink have a turn in every tick, one after the other. One that fails waits longer each time, and
the others go on meanwhile, unless it is a source that no other try can cure. A source of a folder in which nothing new
comes is passed over for a while, since a listing costs the same whether or not there is something new.
"""

from __future__ import annotations

import math
from collections.abc import Set
from dataclasses import dataclass, field, replace

from tidegate.plan.pauses import Pauses

#: A folder is listed again after this part of the time for which nothing had come, at the latest after so many
#: intervals, and after so many seconds: a new file waits by a tenth longer than the one before it has been gone.
_PART, _INTERVALS, _LONGEST = 0.1, 10, 30.0


@dataclass(frozen=True)
class Listings:
    """Of a source's folder. `interval`: seconds from a tick to the next; 0: each tick lists it, however soon it comes.
    `came`: when something new had come, or it was opened; `last`: when it was listed; seconds of the clock."""

    interval: float
    came: float = 0.0
    last: float = -math.inf

    def due(self, at: float) -> bool:
        """Whether it is listed in a tick now."""
        pause = min(_PART * (self.last - self.came), _INTERVALS * self.interval, _LONGEST)
        return at - self.last >= pause

    def after(self, at: float, new: bool) -> Listings:
        """As it is once it was listed; `new`: whether something had come."""
        return replace(self, last=at, came=at if new else self.came)


@dataclass(frozen=True)
class Retries(Pauses):
    """When what failed is tried again, and how often a source is before it ends its group."""

    source_tries: int = 8


@dataclass(frozen=True)
class Reached:
    """A tick has come to the member. `watches`: whether it looks for input outside of the project now; `moved`: what
    has advanced in this tick, and what others may have inserted into."""

    at: float
    watches: bool
    moved: Set[str]


@dataclass(frozen=True)
class Advanced:
    """It has done what was there. `more`: whether more waits."""

    more: bool


@dataclass(frozen=True)
class Failed:
    """It could not. `curable`: whether another try may fare better; `answers`: whether Spark is still there. `chance`
    in [0, 1) makes its pause longer."""

    at: float
    curable: bool
    answers: bool
    chance: float


@dataclass(frozen=True)
class Advance:
    """Let it advance."""


@dataclass(frozen=True)
class Pass:
    """Go on with the next one. `recovered`: how many failures in a row are over."""

    recovered: int = 0


@dataclass(frozen=True)
class TryAgain:
    """Go on with the next one; this one has failed so often, and waits for so many seconds."""

    failures: int
    pause: float


@dataclass(frozen=True)
class EndGroup:
    """The group ends with the member's error."""


Event = Reached | Advanced | Failed
Action = Advance | Pass | TryAgain | EndGroup


@dataclass(frozen=True)
class Turn:
    """Where a member stands. `upstream`: what it reads inside the project; `source`: whether the group has nothing to
    do without it. `due`: whether it has something to do; `failures`: in a row."""

    upstream: frozenset[str] = frozenset()
    source: bool = False
    retries: Retries = field(default_factory=Retries)
    due: bool = True
    failures: int = 0
    retry_at: float = 0.0


def step(turn: Turn, event: Event) -> tuple[Turn, Action]:
    """What follows from an event."""
    match event:
        case Reached(at, watches, moved):
            turn = replace(turn, due=turn.due or watches or not turn.upstream.isdisjoint(moved))
            waits = turn.failures > 0 and at < turn.retry_at
            return turn, Advance() if turn.due and not waits else Pass()
        case Advanced(more):
            return replace(turn, due=more, failures=0), Pass(turn.failures)
        case Failed():
            return _after_failure(turn, event)


def _after_failure(turn: Turn, event: Failed) -> tuple[Turn, Action]:
    failures = turn.failures + 1
    turn = replace(turn, due=True, failures=failures)
    # Without its source a group has nothing to do; without a view it still has the rows to take in.
    hopeless = turn.source and (not event.curable or failures >= turn.retries.source_tries)
    if hopeless or not event.answers:
        return turn, EndGroup()
    pause = turn.retries.pause(failures, event.chance)
    return replace(turn, retry_at=event.at + pause), TryAgain(failures, pause)
