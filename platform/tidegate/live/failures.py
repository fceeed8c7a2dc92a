"""What fails in live mode, and which groups hang, for other processes of this machine."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from tidegate.live.groups import Group
from tidegate.plan.events import (
    DefinitionsLoaded,
    Event,
    MemberFailed,
    MemberRecovered,
    WorkerExited,
    WorkerFailed,
    WorkerStarted,
    WorkHangs,
)
from tidegate.store.writers import FailingMember, OverdueGroup

#: The kind of a whole group.
_GROUP = "group"


class Failures:
    """Hears of events. `told`: is given all that fails, whenever that is something else."""

    def __init__(
        self, told: Callable[[tuple[FailingMember, ...]], None], clock: Callable[[], float] = time.time
    ) -> None:
        self._told, self._clock = told, clock
        self._found: dict[tuple[str, str, str], FailingMember] = {}
        #: Groups that have said themselves why they end.
        self._explained: set[str] = set()

    def __call__(self, group: str | None, event: Event | str) -> None:
        """Take in an event."""
        before = dict(self._found)
        name = group or ""
        match event:
            case MemberFailed():
                self._fails(name, event.name, event.kind, event.code, event.message, event.attempt)
            case MemberRecovered():
                self._found.pop((name, event.name, event.kind), None)
            case WorkerFailed():
                self._explained.add(name)
                self._group_fails(name, event.code, event.message)
            case WorkerExited():
                if event.exit_code and event.restart_seconds is not None and name not in self._explained:
                    self._group_fails(name, None, event.why)
                self._explained.discard(name)
            case WorkHangs():
                # Its worker is killed because of that.
                self._explained.add(name)
                known = before.get((name, event.name, event.kind))
                attempt = 1 if known is None else known.attempt + 1
                self._fails(name, event.name, event.kind, event.code, event.message, attempt)
            case WorkerStarted():
                self._forget(name)
            case DefinitionsLoaded():
                for ended in event.ended:
                    self._forget(ended)
        if self._found != before:
            self._told(tuple(self._found.values()))

    def _group_fails(self, group: str, code: str | None, message: str) -> None:
        known = self._found.get((group, group, _GROUP))
        self._fails(group, group, _GROUP, code, message, 1 if known is None else known.attempt + 1)

    def _fails(self, group: str, name: str, kind: str, code: str | None, message: str, attempt: int) -> None:
        self._found[group, name, kind] = FailingMember(
            group, name, kind, code, message, attempt, self._clock()
        )

    def _forget(self, group: str) -> None:
        """A group that begins again has failed in nothing yet, and one that is gone has no state."""
        for key in [key for key in self._found if key[0] == group]:
            del self._found[key]


class Overdue:
    """Looks again and again (`beat`) for groups that hang: nothing happens that says so. `quiet`: for how many seconds
    groups that should have finished a tick have not, and whether they have finished one before. `told`: is given all of
    them, whenever these are others."""

    def __init__(
        self,
        quiet: Callable[[], Mapping[Group, tuple[float, bool]]],
        told: Callable[[tuple[OverdueGroup, ...]], None],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._quiet, self._told, self._clock = quiet, told, clock
        self._found: dict[Group, OverdueGroup] = {}

    def beat(self) -> None:
        """Look."""
        now, before = self._clock(), self._found
        self._found = {
            group: before.get(group)
            or OverdueGroup(group.name, round(now - seconds, 3), ticked, group.members)
            for group, (seconds, ticked) in self._quiet().items()
        }
        if self._found != before:
            self._told(tuple(self._found.values()))
