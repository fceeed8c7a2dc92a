"""Which groups wait for a free thread longer than their intervals: the machine is too small for all of them."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable

from tidegate.plan.events import Event, TickFinished
from tidegate.store.writers import LongWait

#: Seconds of which the mean is taken, and how often it is told.
_SPAN, _EVERY = 300.0, 60.0
#: Ticks below which nothing is said of a group.
_FEWEST = 3


class Waits:
    """Hears of ticks. `intervals`: of a group; `told`: is given, once a minute, the groups that have waited longer than
    their intervals in the mean of five minutes, the worst first."""

    def __init__(
        self,
        interval: Callable[[str], float],
        told: Callable[[tuple[LongWait, ...]], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._interval, self._told, self._clock = interval, told, clock
        self._ticks: dict[str, deque[tuple[float, float]]] = {}
        self._next, self._last = clock() + _EVERY, tuple[LongWait, ...]()

    def __call__(self, group: str | None, event: Event | str) -> None:
        """Take in an event."""
        now = self._clock()
        if group is not None and isinstance(event, TickFinished):
            self._ticks.setdefault(group, deque()).append((now, event.waited))
        if now >= self._next:
            self._next = now + _EVERY
            found = tuple(sorted(self._long(now), key=lambda one: -one.seconds / one.interval))
            if found != self._last:
                self._last = found
                self._told(found)

    def _long(self, now: float) -> Iterable[LongWait]:
        for group, ticks in self._ticks.items():
            while ticks and ticks[0][0] < now - _SPAN:
                ticks.popleft()
            interval = self._interval(group)
            mean = sum(waited for _, waited in ticks) / len(ticks) if len(ticks) >= _FEWEST else 0.0
            if mean > interval:
                yield LongWait(group, round(mean, 1), interval)
