"""What each group of live mode costs, and which ones wait for a free thread longer than their intervals.

All groups of a worker share its processes, so no counter of the operating system is one group's. The CPU time that the
processes of a worker have used is divided among its groups by the time that their ticks, and the deliveries beside
them, took meanwhile.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from tidegate.live.process import cpu_seconds
from tidegate.plan.events import Event, SinkDelivered, TickFinished
from tidegate.store.writers import GroupLoad, LongWait

#: Seconds of which the means are taken, how often they are told, and how often processes are asked for their CPU time.
_SPAN, _EVERY, _ASKED_EVERY = 300.0, 60.0, 10.0
#: Ticks below which nothing is said of how long a group waits.
_FEWEST = 3


@dataclass
class _Ticks:
    """Of one group: `ended` are its ticks of the last minutes, with the seconds of a clock at their end; `spent` the
    CPU seconds that were found to be its own, likewise; `unpaid` the seconds of ticks and deliveries since processes
    were asked."""

    ended: deque[tuple[float, TickFinished]] = field(default_factory=deque)
    spent: deque[tuple[float, float]] = field(default_factory=deque)
    unpaid: float = 0.0

    def forget(self, before: float) -> None:
        """All that ended before."""
        for kept in (self.ended, self.spent):
            while kept and kept[0][0] < before:
                kept.popleft()


class Load:
    """Hears of ticks. `interval`: of a group; `pids`: of worker processes, by the group whose own one it is (`*`: that
    of all others); `told`: is given, once a minute, the load of every group, the most expensive first, and those that
    have waited longer than their intervals in the mean of five minutes, the worst first; `spent`: hears of CPU seconds
    of a group."""

    def __init__(
        self,
        interval: Callable[[str], float],
        pids: Callable[[], dict[str, int]],
        told: Callable[[tuple[GroupLoad, ...], tuple[LongWait, ...]], None],
        spent: Callable[[str, float], None] = lambda group, seconds: None,
        clock: Callable[[], float] = time.monotonic,
        cpu: Callable[[int], float | None] = cpu_seconds,
    ) -> None:
        self._interval, self._pids, self._told, self._spent = interval, pids, told, spent
        self._clock, self._cpu = clock, cpu
        self._groups: dict[str, _Ticks] = {}
        #: CPU seconds of a worker process when it was asked last.
        self._used: dict[int, float] = {}
        self._began = clock()
        self._ask_at, self._tell_at = self._began + _ASKED_EVERY, self._began + _EVERY
        self._last = tuple[GroupLoad, ...](), tuple[LongWait, ...]()

    def __call__(self, group: str | None, event: Event | str) -> None:
        """Take in an event."""
        now = self._clock()
        if group is not None and isinstance(event, TickFinished):
            ticks = self._groups.setdefault(group, _Ticks())
            ticks.ended.append((now, event))
            ticks.unpaid += event.seconds
        if group is not None and isinstance(event, SinkDelivered):
            self._groups.setdefault(group, _Ticks()).unpaid += event.seconds
        if now >= self._ask_at:
            self._ask_at = now + _ASKED_EVERY
            self._ask(now)
        if now >= self._tell_at:
            self._tell_at = now + _EVERY
            for ticks in self._groups.values():
                ticks.forget(now - _SPAN)
            found = self._loads(now), tuple(self._waits())
            if found != self._last:
                self._last = found
                self._told(*found)

    def _ask(self, now: float) -> None:
        """Divide what each worker has used since the last time among its groups."""
        pids = self._pids()
        used = {pid: seconds for pid in pids.values() if (seconds := self._cpu(pid)) is not None}
        for worker, pid in pids.items():
            members = {
                name: t for name, t in self._groups.items() if (name if name in pids else "*") == worker
            }
            ticked = sum(ticks.unpaid for ticks in members.values())
            if pid not in used or pid not in self._used or ticked <= 0.0:
                continue
            for name, ticks in members.items():
                seconds = (used[pid] - self._used[pid]) * ticks.unpaid / ticked
                ticks.spent.append((now, seconds))
                self._spent(name, seconds)
        for ticks in self._groups.values():
            ticks.unpaid = 0.0
        self._used = used

    def _loads(self, now: float) -> tuple[GroupLoad, ...]:
        seconds = max(min(_SPAN, now - self._began), 1.0)
        loads = (
            GroupLoad(
                name,
                cores=round(sum(cpu for _, cpu in ticks.spent) / seconds, 3),
                busy=round(sum(tick.seconds for _, tick in ticks.ended) / seconds, 3),
                rows_per_second=round(sum(tick.rows for _, tick in ticks.ended) / seconds, 1),
                most_rows=max(tick.rows for _, tick in ticks.ended),
                most_bytes=max(tick.bytes for _, tick in ticks.ended),
            )
            for name, ticks in self._groups.items()
            if ticks.ended
        )
        return tuple(sorted(loads, key=lambda one: (-one.cores, -one.busy, one.group)))

    def _waits(self) -> Iterable[LongWait]:
        found = []
        for name, ticks in self._groups.items():
            interval, waited = self._interval(name), [tick.waited for _, tick in ticks.ended]
            mean = sum(waited) / len(waited) if len(waited) >= _FEWEST else 0.0
            if mean > interval:
                found.append(LongWait(name, round(mean, 1), interval))
        return sorted(found, key=lambda one: -one.seconds / one.interval)
