"""Upkeep between the ticks of a live group: one table at a time, so that no tick waits for long."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from tidegate.errors import TidegateError
from tidegate.jvm.failures import one_line
from tidegate.maintenance.upkeep import due, maintain
from tidegate.plan.events import Event, MemberFailed, MemberRecovered, UpkeepFinished
from tidegate.project.jobs.maintenance import load_maintenance
from tidegate.sql.catalog.objects import Relation
from tidegate.views.retention import state_upkeep

if TYPE_CHECKING:
    from tidegate.runtime.context import Context
    from tidegate.sql.catalog.objects import View

_KIND = "upkeep"


class LiveUpkeep:
    """Keeps the tables of a group small; the group holds their leases.

    Looks at all of them every `every` seconds, and in one call does what is due for one of them at most. What fails is
    told, and tried again at the next look; results do not depend on it. Raises the errors of `jobs/maintenance.yaml`.
    """

    def __init__(
        self,
        context: Context,
        group: str,
        items: Iterable[Relation | View],
        every: float = 60.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._context, self._group, self._every, self._clock = context, group, every, clock
        self._policy = load_maintenance(context.project.root, context.project.variables).of
        self._items = tuple(items)
        self._waiting: deque[Relation | View] = deque()
        self._looked_at = clock()
        self._failures: dict[str, int] = {}

    def between_ticks(self, notify: Callable[[Event], None]) -> None:
        """Do what is due for the next table."""
        if not self._waiting:
            if self._clock() - self._looked_at < self._every:
                return
            self._looked_at = self._clock()
            self._waiting.extend(self._items)
        # Most need nothing: that is seen in their metadata.
        while self._waiting:
            item = self._waiting.popleft()
            try:
                done = self._care(item, notify)
            except Exception as error:
                failures = self._failures[item.name] = self._failures.get(item.name, 0) + 1
                code = error.code if isinstance(error, TidegateError) else None
                told = one_line(error)
                notify(MemberFailed(self._group, item.name, _KIND, code, told, failures, self._every))
                return
            if failures := self._failures.pop(item.name, 0):
                notify(MemberRecovered(self._group, item.name, _KIND, failures))
            if done:
                return

    def _care(self, item: Relation | View, notify: Callable[[Event], None]) -> bool:
        """Whether something was done."""
        if self._context.stored(item.name) is None:
            return False
        started = self._clock()
        # Rows of a table WITH TTL that have expired, and that no view needs any more (T2, T3).
        expiring = [item] if isinstance(item, Relation) and item.ttl else []
        why = [f"{item.name}: rows have expired" for _ in state_upkeep(self._context, expiring)]
        policy = self._policy(item.name)
        if reasons := due(self._context, item.name, policy):
            maintain(self._context, item.name, policy, leased=True)
            why += reasons
        if why:
            notify(UpkeepFinished(self._group, item.name, tuple(why), round(self._clock() - started, 3)))
        return bool(why)
