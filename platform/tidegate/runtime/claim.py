"""Leases that are taken together, as a pure function: all of them or none, and whoever waits holds none, so that nobody
waits for ever.

A lease is the operating system's lock on a file (`lease.py`): it is nobody's once its process is gone, and nothing has
to renew it. Who was paused and believes that it still has one is held off by the fence of commits
(`iceberg/protocol.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field, replace

from tidegate.errors import TidegateError

#: Seconds between two tries.
_EVERY = 0.5


@dataclass(frozen=True)
class WantLeases:
    """The leases are wanted; or it was waited long enough."""


@dataclass(frozen=True)
class Granted:
    """The lease that was asked for is there."""


@dataclass(frozen=True)
class Refused:
    """Another process has it. `stopping`: whether the work is not wanted any more."""

    at: float
    stopping: bool
    error: Exception = field(compare=False)


@dataclass(frozen=True)
class Take:
    """Ask for a lease."""

    name: str


@dataclass(frozen=True)
class Hold:
    """All are there."""


@dataclass(frozen=True)
class Wait:
    """Give back what is there, and begin again after so many seconds."""

    seconds: float


@dataclass(frozen=True)
class GiveBack:
    """Give back what is there; `error` says who has the one that is missing."""

    error: Exception = field(compare=False)


Event = WantLeases | Granted | Refused
Action = Take | Hold | Wait | GiveBack


@dataclass(frozen=True)
class Claim:
    """The leases `names`, of which the first `taken` are there. `until`: how long to try."""

    names: tuple[str, ...]
    until: float
    taken: int = 0


def step(claim: Claim, event: Event) -> tuple[Claim, Action]:
    """What follows from an event."""
    match event:
        case Refused(at, stopping, error):
            claim = replace(claim, taken=0)
            return claim, GiveBack(error) if stopping or at >= claim.until else Wait(_EVERY)
        case WantLeases():
            claim = replace(claim, taken=0)
        case Granted():
            claim = replace(claim, taken=claim.taken + 1)
    return claim, Take(claim.names[claim.taken]) if claim.taken < len(claim.names) else Hold()


def claimed(
    claim: Claim,
    lease: Callable[[str], AbstractContextManager[None]],
    stopping: Callable[[], bool],
    elapsed: Callable[[], float],
    wait: Callable[[float], None],
) -> ExitStack:
    """All leases of a claim; close what is returned to give them back. Raises TG508, which names who has one.
    `elapsed`: the clock of `claim.until`."""
    event: Event = WantLeases()
    with ExitStack() as taken:
        while True:
            claim, action = step(claim, event)
            match action:
                case Take(name):
                    event = _asked(taken, lease(name), stopping, elapsed)
                case Wait(seconds):
                    taken.close()
                    wait(seconds)
                    event = WantLeases()
                case GiveBack(error):
                    raise error
                case Hold():
                    return taken.pop_all()


def _asked(
    taken: ExitStack,
    lease: AbstractContextManager[None],
    stopping: Callable[[], bool],
    elapsed: Callable[[], float],
) -> Event:
    try:
        taken.enter_context(lease)
    except TidegateError as error:
        if error.code != "TG508":
            raise
        return Refused(elapsed(), stopping(), error)
    return Granted()
