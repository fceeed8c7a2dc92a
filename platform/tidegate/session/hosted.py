"""A group of a live driver, and what the driver knows of it."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, suppress
from dataclasses import dataclass, field

from tidegate.maintenance.live_upkeep import LiveUpkeep
from tidegate.plan.events import WorkHangs
from tidegate.plan.hanging import AtWork, Patience
from tidegate.session.live import LiveGroup
from tidegate.session.members.member import hung_error
from tidegate.session.visits import Visit

#: Makes a group, whose leases the driver takes; it asks between two commits whether it is to stop.
Opening = Callable[[Callable[[], bool]], AbstractContextManager[LiveGroup]]


@dataclass
class Hosted:
    """A group of the driver. Touched by one thread at a time. `made`: as `opening` has given it, without its leases
    until `group` is set, for which it waits until `waits`. `visits`: runs that wait for it; `visit`: the one that it is
    lent to. `works`: whether it is at work, as far as was told; `began`: when a thread was given it last."""

    name: str
    opening: Opening
    interval: float
    patience: Patience
    priority: int = 1
    stop: threading.Event = field(default_factory=threading.Event)
    made: LiveGroup | None = None
    waits: float = 0.0
    group: LiveGroup | None = None
    caretaker: LiveUpkeep | None = None
    opened: ExitStack = field(default_factory=ExitStack)
    visits: deque[Visit] = field(default_factory=deque)
    visit: Visit | None = None
    works: bool = False
    began: float = 0.0

    @property
    def at_work(self) -> AtWork:
        """What a thread does for it, as long as one does."""
        single = None if self.group is None else self.group.at_work
        return single or AtWork("", "group", self.began)

    def hangs(self, now: float) -> WorkHangs | None:
        """What is told, once, when what a thread does for it hangs."""
        work = self.at_work
        if (seconds := self.patience.hangs(work, now, self._progress)) is None:
            return None
        error = hung_error(work.name or self.name)
        of = self.name, work.name or self.name, work.kind
        return WorkHangs(*of, round(seconds, 3), error.code, error.message)

    def _progress(self) -> object:
        # Of a Spark that does not answer nothing is known, also not that something has advanced.
        with suppress(Exception):
            return None if self.group is None else self.group.context.runner.progress(self.name)
        return None

    @property
    def is_beside(self) -> bool:
        """Whether something is done beside its ticks, by its leases."""
        delivers = self.group is not None and self.group.is_delivering
        return delivers or (self.caretaker is not None and self.caretaker.is_under_way)
