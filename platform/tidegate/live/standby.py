"""The right to run live mode for a group: one process has it, and another one can wait for it, without Spark.

It keeps two supervisors from working against each other. What keeps a log correct whatever they do is the fenced
commit, and on one machine the leases of what a group writes.
"""

from __future__ import annotations

import queue
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING

from tidegate.errors import TidegateError
from tidegate.live.groups import Group
from tidegate.live.machine_lease import machine_lease, taken_by
from tidegate.plan.events import Event, LiveStandsBy
from tidegate.project.catalog_failures import NO_ANSWER
from tidegate.runtime.claim import Claim, claimed

if TYPE_CHECKING:
    from tidegate.project import Project

#: The right to run live mode for the group of this name, while the block runs. Raises TG508, which says who has it.
GroupLease = Callable[[str], AbstractContextManager[None]]
_NEVER = float("inf")


def group_leases(project: Project, lost: Callable[[str], None]) -> GroupLease:
    """Those of a project. `lost`: told, in a thread, of a group that another process has taken over."""
    if project.storage.on_this_machine:
        return partial(machine_lease, project.state_dir / "locks" / project.env.warehouse.namespace)
    from tidegate.iceberg.lease_tables import LeaseTables
    from tidegate.live.catalog_lease import CatalogLeases

    return CatalogLeases(LeaseTables(project.storage), project.storage.owner, lost).lease


class LiveLeases:
    """The leases of some groups. `notify` is told when another process has them; `waits`: whether this one waits for
    them. `url`: where health is served meanwhile."""

    def __init__(
        self,
        groups: Sequence[Group],
        lease: GroupLease,
        notify: Callable[[Event | str], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._names = tuple(group.name for group in groups)
        self._lease, self._notify, self._clock = lease, notify, clock
        self._queue: queue.SimpleQueue[None] = queue.SimpleQueue()
        #: Of groups that came while live mode ran.
        self._more = ExitStack()
        self._told = self._stopped = False
        self.url: str | None = None
        self.waits = False

    def stop(self) -> None:
        """Do not wait any longer. Safe in a signal handler."""
        self._queue.put(None)

    def free(self) -> ExitStack:
        """Those that no other process has. Of the others, their workers say whether they can be written."""
        with ExitStack() as taken:
            taken.callback(self._more.close)
            self._take(taken, self._names)
            return taken.pop_all()

    def add(self, groups: Sequence[Group]) -> None:
        """Take those of groups that have come, as `free` does, until all are given back. (Those of groups that are gone
        are kept as long: nobody else can want them.)"""
        new = [group.name for group in groups if group.name not in self._names]
        self._names += tuple(new)
        self._take(self._more, new)

    def _take(self, taken: ExitStack, names: Sequence[str]) -> None:
        for name in names:
            try:
                taken.enter_context(self._lease(name))
            except TidegateError as error:
                self._notify(f"live mode starts without this right: {error.message}")

    def all(self) -> ExitStack | None:
        """All of them, as soon as no other process has one; meanwhile this one has none. None if it is to stop."""
        claim = Claim(self._names, _NEVER)
        self.waits = True
        try:
            taken = claimed(claim, self._asked, lambda: self._stopped, self._clock, self._wait)
            taken.callback(self._more.close)
            return taken
        except TidegateError as error:
            if error.code != "TG508":
                raise
            return None
        finally:
            self.waits = False

    @contextmanager
    def _asked(self, name: str) -> Iterator[None]:
        with ExitStack() as taken:
            try:
                taken.enter_context(self._lease(name))
            except TidegateError as error:
                if not self._told:
                    self._told = True
                    self._notify(LiveStandsBy(self._names, error.message, self.url))
                if error.code in NO_ANSWER:
                    # Whether another process has it, nobody knows.
                    raise taken_by(name, error.message) from None
                raise
            yield

    def _wait(self, seconds: float) -> None:
        with suppress(queue.Empty):
            self._queue.get(timeout=seconds)
            self._stopped = True
