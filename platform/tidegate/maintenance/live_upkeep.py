"""Upkeep of a live group, one table at a time.

No tick waits for it where it can be done beside the ticks: in a thread and a session of its own, on the leases of the
group, and of all groups of a process one at a time. It does then what `tidegate upkeep` of another process does while
live mode ticks: whatever it commits is no conflict for a tick (R2). Between two ticks is the upkeep of a table whose
rows are replaced or expire: a MERGE would fail.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING

from tidegate.errors import TidegateError
from tidegate.jvm.failures import one_line
from tidegate.maintenance.upkeep import due, maintain
from tidegate.plan.events import Event, MemberFailed, MemberRecovered, UpkeepFinished
from tidegate.project.jobs.maintenance import load_maintenance
from tidegate.sinks.beside import STOPS_EVERY, OpenBeside
from tidegate.sql.catalog.objects import Relation
from tidegate.views.retention import state_upkeep

if TYPE_CHECKING:
    from tidegate.runtime.context import Context
    from tidegate.sql.catalog.objects import View

_KIND = "upkeep"


class _Beside:
    """Upkeep of one table beside the ticks of its group, which has the leases until `stop`, and the `turn`, which is
    given back when it has ended."""

    def __init__(
        self,
        item: Relation | View,
        leases: Context,
        opens: OpenBeside,
        turn: threading.Lock,
        care: Callable[[Context, Relation | View], None],
    ) -> None:
        self.item = item
        self._leases, self._opens, self._turn, self._care = leases, opens, turn, care
        self._is_to_stop, self._error = threading.Event(), list[Exception]()
        self._stop: Callable[[], None] = lambda: None
        # Whatever it waits for must not keep the process.
        self._thread = threading.Thread(target=self._run, name=f"tidegate-upkeep-{item.name}", daemon=True)
        self._thread.start()

    @property
    def is_over(self) -> bool:
        """Whether it has ended, in whatever way."""
        return not self._thread.is_alive()

    def result(self) -> None:
        """Raise what it has failed with."""
        if self._error:
            raise self._error[0]

    def stop(self) -> None:
        """End, wherever it stands: the next upkeep does the rest, as after a crash."""
        self._is_to_stop.set()
        while not self.is_over:
            self._stop()
            self._thread.join(STOPS_EVERY)

    def _run(self) -> None:
        try:
            with self._opens() as (context, self._stop), context.standing_in_for(self._leases):
                if not self._is_to_stop.is_set():
                    self._care(context, self.item)
        except Exception as error:
            self._error.append(error)
        finally:
            self._turn.release()


class LiveUpkeep:
    """Keeps the tables of a group small; the group holds their leases.

    Looks at all of them every `every` seconds, and in one call does what is due for one of them at most, or begins with
    it. What fails is told, and tried again at the next look; results do not depend on it. `beside`: for what no tick
    waits for; `turn`: of all groups of this process. Raises the errors of `jobs/maintenance.yaml`.
    """

    def __init__(
        self,
        context: Context,
        group: str,
        items: Iterable[Relation | View],
        every: float = 60.0,
        clock: Callable[[], float] = time.monotonic,
        beside: OpenBeside | None = None,
        turn: threading.Lock | None = None,
    ) -> None:
        self._context, self._group, self._every, self._clock = context, group, every, clock
        self._policy = load_maintenance(context.project.root, context.project.variables).of
        self._items = tuple(items)
        self._opens, self._turn = beside, turn or threading.Lock()
        self._beside: _Beside | None = None
        self._waiting: deque[Relation | View] = deque()
        self._looked_at = clock()
        self._failures: dict[str, int] = {}
        #: What was done to the table that it cares for, or is being done, and for how many seconds.
        self._why: list[str] = []
        self._seconds = 0.0

    @property
    def is_under_way(self) -> bool:
        """Whether something is done beside the ticks, by the group's leases."""
        return self._beside is not None and not self._beside.is_over

    def between_ticks(self, notify: Callable[[Event], None], begins: bool = True) -> None:
        """Do what is due for the next table, or begin with it, and tell what has been done. `begins`: whether anything
        may be begun."""
        if self.is_under_way:
            return
        if (beside := self._beside) is not None:
            self._beside = None
            self._told(beside.item, beside.result, notify)
        if not begins:
            return
        if not self._waiting:
            if self._clock() - self._looked_at < self._every:
                return
            self._looked_at = self._clock()
            self._waiting.extend(self._items)
        # Most need nothing: that is seen in their metadata.
        while self._waiting and self._turn.acquire(blocking=False):
            item = self._waiting.popleft()
            try:
                done = self._told(item, partial(self._look, item), notify)
            finally:
                if self._beside is None:
                    self._turn.release()
            if done:
                return

    def close(self) -> None:
        """Stop what is done beside the ticks."""
        if self._beside is not None:
            self._beside.stop()

    def _told(self, item: Relation | View, work: Callable[[], None], notify: Callable[[Event], None]) -> bool:
        """Tell what came of a piece of work; whether something was done, is being done, or has failed."""
        try:
            work()
        except Exception as error:
            failures = self._failures[item.name] = self._failures.get(item.name, 0) + 1
            code = error.code if isinstance(error, TidegateError) else None
            told = one_line(error)
            notify(MemberFailed(self._group, item.name, _KIND, code, told, failures, self._every))
            self._why = []
            return True
        if self._beside is not None:
            return True
        if failures := self._failures.pop(item.name, 0):
            notify(MemberRecovered(self._group, item.name, _KIND, failures))
        why, self._why = self._why, []
        if why:
            notify(UpkeepFinished(self._group, item.name, tuple(why), round(self._seconds, 3)))
        return bool(why)

    def _look(self, item: Relation | View) -> None:
        """Do what is due for a table, or begin with it."""
        context, policy = self._context, self._policy(item.name)
        if context.stored(item.name) is None:
            return
        if self._opens is not None and not (isinstance(item, Relation) and item.primary_key):
            self._why = due(context, item.name, policy)
            if self._why:
                self._beside = _Beside(item, context, self._opens, self._turn, self._care)
            return
        started = self._clock()
        # Rows of a table WITH TTL that have expired, and that no view needs any more (T2, T3).
        expiring = [item] if isinstance(item, Relation) and item.ttl else []
        self._why = [f"{item.name}: rows have expired" for _ in state_upkeep(context, expiring)]
        if reasons := due(context, item.name, policy):
            maintain(context, item.name, policy, leased=True)
            self._why += reasons
        self._seconds = self._clock() - started

    def _care(self, context: Context, item: Relation | View) -> None:
        """In the other thread."""
        started = self._clock()
        maintain(context, item.name, self._policy(item.name), leased=True)
        self._seconds = self._clock() - started
