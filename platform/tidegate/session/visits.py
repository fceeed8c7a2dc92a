"""A run in a live driver: the groups whose tables it writes lend it their leases, between two ticks.

While a group is lent, it does not tick, and nobody but the run touches what it writes. When it is given back it opens
its tables anew, and ticks at once.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tidegate.runtime.context import Context
    from tidegate.session.live import LiveGroup


class Visit:
    """`names`: of the groups. `leave`: called if a group is to end, as often as it looks; the run is to stop."""

    def __init__(self, names: Iterable[str], leave: Callable[[], None] = lambda: None) -> None:
        self.names, self.leave = tuple(names), leave
        self._expected = set(self.names)
        self._groups: dict[str, LiveGroup] = {}
        self._changed = threading.Condition()
        self._open = True

    # -- the driver's threads ----------------------------------------------------------------------------------

    def arrives(self, name: str, group: LiveGroup) -> bool:
        """A group is at rest, and lent from now on; False if nobody waits for it any more."""
        with self._changed:
            if not self._open:
                return False
            self._groups[name] = group
            self._expected.discard(name)
            self._changed.notify_all()
            return True

    def misses(self, name: str) -> None:
        """A group is not there, or has ended."""
        with self._changed:
            self._expected.discard(name)
            self._changed.notify_all()

    # -- the run's thread --------------------------------------------------------------------------------------

    def complete(self, seconds: float) -> bool:
        """Whether all groups that are there have been lent within so many seconds."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._expected, seconds)

    def begin(self) -> dict[str, LiveGroup]:
        """What has been lent; nothing more comes."""
        with self._changed:
            self._open = False
            return dict(self._groups)


@contextmanager
def lent(groups: Iterable[LiveGroup], to: Context) -> Iterator[None]:
    """While the block runs, `to` may write what the groups may."""
    groups = tuple(groups)
    try:
        with to.standing_in_for(*(group.context for group in groups)):
            yield
    finally:
        for group in groups:
            group.open_anew()
