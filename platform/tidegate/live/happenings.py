"""What happens to groups of live mode, and what is to be done about it: the vocabulary of `schedule.step`."""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.live.groups import Group
from tidegate.plan.events import Event


@dataclass(frozen=True)
class Begun:
    """The supervisor is up."""


@dataclass(frozen=True)
class Spawned:
    """The worker of a group has been started."""

    group: str
    pid: int


@dataclass(frozen=True)
class Said:
    """The worker of a group has told something."""

    group: str
    event: Event
    at: float


@dataclass(frozen=True)
class Lent:
    """A run that somebody has asked for, and that works in the place of the group's ticks, gives a sign."""

    group: str
    at: float


@dataclass(frozen=True)
class Exited:
    """The worker of a group is gone. `chance` in [0, 1) makes its pause longer."""

    group: str
    code: int
    at: float
    chance: float


@dataclass(frozen=True)
class Died:
    """A process has died, and with it the workers of these groups. `working`: those for which it was at work."""

    groups: tuple[str, ...]
    working: frozenset[str]
    code: int
    at: float
    chance: float


@dataclass(frozen=True)
class Redefined:
    """Definitions have changed. `groups`: those that there are now; `changed`: names of those among them that have to
    begin again, since their definitions are others; `alone`: of those that get processes of their own."""

    groups: tuple[Group, ...]
    changed: frozenset[str] = frozenset()
    alone: frozenset[str] = frozenset()


@dataclass(frozen=True)
class StopWanted:
    """All groups are to end: somebody has `asked`, or the given time is over."""

    at: float
    asked: bool


@dataclass(frozen=True)
class TimePassed:
    """It is later."""

    at: float


@dataclass(frozen=True)
class Spawn:
    """Start a worker for a group; `Spawned` follows. `alone`: in a process of its own; `hung`: how often in a row the
    work for members of it has hung, by name (empty: for all of it)."""

    group: Group
    alone: bool = False
    hung: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True)
class Renew:
    """Start no further worker in the process that this group is in."""

    group: Group


@dataclass(frozen=True)
class Stop:
    """Ask a group's worker to end when it has finished its commit."""

    group: Group


@dataclass(frozen=True)
class Kill:
    """End a group's worker now."""

    group: Group


@dataclass(frozen=True)
class Tell:
    """Let everybody hear of it."""

    group: Group
    event: Event


Happened = Begun | Spawned | Said | Lent | Exited | Died | Redefined | StopWanted | TimePassed
Action = Spawn | Renew | Stop | Kill | Tell
