"""What each group of live mode costs, and which ones wait for a free thread longer than their intervals.

All groups of a worker share its processes, so no counter of the operating system is one group's. The CPU time that the
processes of a worker have used is divided among its groups by the time for which they were at work meanwhile: also
those whose work is not done yet, since it may never be.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from tidegate.live.process import cpu_seconds
from tidegate.plan.events import Event, TickFinished
from tidegate.store.writers import GroupLoad, LongWait

#: Seconds of which the means are taken, how often they are told, and how often processes are asked for their CPU time.
_SPAN, _EVERY, _ASKED_EVERY = 300.0, 60.0, 10.0
#: Ticks below which nothing is said of how long a group waits.
_FEWEST = 3


@dataclass
class _Ticks:
    """Of one group: `ended` are its ticks of the last minutes, with the seconds of a clock at their end; `worked` the
    seconds for which it was at work, and `spent` the CPU seconds that were found to be its own, with the seconds of the
    clock when that was asked."""

    ended: deque[tuple[float, TickFinished]] = field(default_factory=deque)
    worked: deque[tuple[float, float]] = field(default_factory=deque)
    spent: deque[tuple[float, float]] = field(default_factory=deque)

    def forget(self, before: float) -> None:
        """All that ended before."""
        for kept in (self.ended, self.worked, self.spent):
            while kept and kept[0][0] < before:
                kept.popleft()


class Load:
    """Hears of ticks, and of time that passes (`beat`). `interval`: of a group; `pids`: of worker processes, by the
    group whose own one it is (`*`: that of all others); `worked`: for how many seconds groups were at work since it was
    asked the last time; `told`: is given, once a minute, the load of every group, the most expensive first, and those
    that have waited longer than their intervals in the mean of five minutes, the worst first; `spent`: hears of CPU
    seconds of a group."""

    def __init__(
        self,
        interval: Callable[[str], float],
        pids: Callable[[], dict[str, int]],
        worked: Callable[[], Mapping[str, float]],
        told: Callable[[tuple[GroupLoad, ...], tuple[LongWait, ...]], None],
        spent: Callable[[str, float], None] = lambda group, seconds: None,
        clock: Callable[[], float] = time.monotonic,
        cpu: Callable[[int], float | None] = cpu_seconds,
    ) -> None:
        self._interval, self._pids, self._worked, self._told, self._spent = (
            interval,
            pids,
            worked,
            told,
            spent,
        )
        self._clock, self._cpu = clock, cpu
        self._groups: dict[str, _Ticks] = {}
        #: CPU seconds of a worker process when it was asked last.
        self._used: dict[int, float] = {}
        self._began = clock()
        self._ask_at, self._tell_at = self._began + _ASKED_EVERY, self._began + _EVERY
        self._last = tuple[GroupLoad, ...](), tuple[LongWait, ...]()

    def __call__(self, group: str | None, event: Event | str) -> None:
        """Take in an event."""
        if group is not None and isinstance(event, TickFinished):
            self._groups.setdefault(group, _Ticks()).ended.append((self._clock(), event))
        self.beat()

    def beat(self) -> None:
        """Time has passed, also where nothing happens."""
        now = self._clock()
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
        pids, worked = self._pids(), self._worked()
        used = {pid: seconds for pid in pids.values() if (seconds := self._cpu(pid)) is not None}
        for name, seconds in worked.items():
            self._groups.setdefault(name, _Ticks()).worked.append((now, seconds))
        for worker, pid in pids.items():
            members = {name: s for name, s in worked.items() if (name if name in pids else "*") == worker}
            together = sum(members.values())
            if pid not in used or pid not in self._used or together <= 0.0:
                continue
            for name, at_work in members.items():
                seconds = (used[pid] - self._used[pid]) * at_work / together
                self._groups[name].spent.append((now, seconds))
                self._spent(name, seconds)
        self._used = used

    def _loads(self, now: float) -> tuple[GroupLoad, ...]:
        seconds = max(min(_SPAN, now - self._began), 1.0)
        loads = (
            GroupLoad(
                name,
                cores=round(sum(cpu for _, cpu in ticks.spent) / seconds, 3),
                busy=round(min(sum(worked for _, worked in ticks.worked) / seconds, 1.0), 3),
                rows_per_second=round(sum(tick.rows for _, tick in ticks.ended) / seconds, 1),
                most_rows=max((tick.rows for _, tick in ticks.ended), default=0),
                most_bytes=max((tick.bytes for _, tick in ticks.ended), default=0),
            )
            for name, ticks in self._groups.items()
            if ticks.ended or ticks.worked
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
