"""What each group of live mode costs, and which ones are late because the machine is too small for all of them.

All groups of a worker share its processes, so no counter of the operating system is one group's. The CPU time that the
processes of a worker have used is divided among its groups by the time for which they were at work meanwhile: also
those whose work is not done yet, since it may never be.

Ticks that take longer than their interval have another reason, for example a slow broker or catalog, unless the CPU is
fully used, by whichever processes. A group that works off a backlog ticks without a pause: that alone is not late. But
others may be late because of it, also others with a backlog, and an overloaded machine leaves one in every group.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from tidegate.live.process import cpu_seconds
from tidegate.plan.events import Event, TickFinished
from tidegate.store.machine import CpuMeter, CpuUse
from tidegate.store.writers import GroupLoad, LateGroup

#: Seconds of which the means are taken, how often they are told, and how often processes are asked for their CPU time.
_SPAN, _EVERY, _ASKED_EVERY = 300.0, 60.0, 10.0
#: Nothing is said of how late a group is below so many ticks, unless they fill that part of the span.
_FEWEST, _PART = 3, 0.5
#: Where the CPU is fully used, a tick is late that ends so many intervals after it was due.
_INTERVALS = 1.5


class LoadListener(Protocol):
    """Hears of the load."""

    def __call__(
        self, *, loads: tuple[GroupLoad, ...], late: tuple[LateGroup, ...], cpu: CpuUse | None
    ) -> None:
        """In the mean of five minutes: the load of every group, the most expensive first; the groups that are late, the
        worst first; and how much of the machine's CPU is in use, if it is fully used."""


@dataclass
class _Ticks:
    """Of one group: `ended` are its ticks of the last minutes, with the seconds of a clock at their end; `paced` those
    of them that neither left a backlog nor worked one off, and `behind`, whether the last one left some; `worked` the
    seconds for which it was at work, and `spent` the CPU seconds that were found to be its own, with the seconds of the
    clock when that was asked."""

    ended: deque[tuple[float, TickFinished]] = field(default_factory=deque)
    paced: deque[tuple[float, TickFinished]] = field(default_factory=deque)
    behind: bool = False
    worked: deque[tuple[float, float]] = field(default_factory=deque)
    spent: deque[tuple[float, float]] = field(default_factory=deque)

    def add(self, now: float, tick: TickFinished) -> None:
        """One that has ended now."""
        self.ended.append((now, tick))
        if not (tick.backlog or self.behind):
            self.paced.append((now, tick))
        self.behind = tick.backlog

    def forget(self, before: float) -> None:
        """All that ended before."""
        for kept in (self.ended, self.paced, self.worked, self.spent):
            while kept and kept[0][0] < before:
                kept.popleft()


class Load:
    """Hears of ticks, and of time that passes (`beat`). `interval`: of a group; `pids`: of worker processes, by the
    group whose own one it is (`*`: that of all others); `worked`: for how many seconds groups were at work since it was
    asked the last time; `told`: hears of the load once a minute, if it has changed; `spent`: hears of CPU seconds of a
    group; `use`: of the machine's CPU, in the mean of five minutes."""

    def __init__(
        self,
        interval: Callable[[str], float],
        pids: Callable[[], dict[str, int]],
        worked: Callable[[], Mapping[str, float]],
        told: LoadListener,
        spent: Callable[[str, float], None] = lambda group, seconds: None,
        clock: Callable[[], float] = time.monotonic,
        cpu: Callable[[int], float | None] = cpu_seconds,
        use: Callable[[], CpuUse | None] | None = None,
    ) -> None:
        self._interval, self._pids, self._worked, self._told, self._spent = (
            interval,
            pids,
            worked,
            told,
            spent,
        )
        self._clock, self._cpu, self._use = clock, cpu, use or CpuMeter(_SPAN, clock).use
        self._groups: dict[str, _Ticks] = {}
        #: CPU seconds of a worker process when it was asked last.
        self._used: dict[int, float] = {}
        self._began = clock()
        self._ask_at, self._tell_at = self._began + _ASKED_EVERY, self._began + _EVERY
        self._last: tuple[tuple[GroupLoad, ...], tuple[LateGroup, ...], CpuUse | None] = (), (), None

    def __call__(self, group: str | None, event: Event | str) -> None:
        """Take in an event."""
        if group is not None and isinstance(event, TickFinished):
            self._groups.setdefault(group, _Ticks()).add(self._clock(), event)
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
            use = self._use()
            cpu = CpuUse(round(use.used, 2), use.cores) if use is not None and use.is_full else None
            found = self._loads(now), self._late(cpu is not None), cpu
            if found != self._last:
                self._last = found
                self._told(loads=found[0], late=found[1], cpu=cpu)

    def _ask(self, now: float) -> None:
        """Divide what each worker has used since the last time among its groups, and look at the machine."""
        self._use()
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

    def _late(self, full: bool) -> tuple[LateGroup, ...]:
        """The groups whose ticks begin too late, and those whose ticks end too late where the CPU is `full`."""
        late = sorted(self._found_late(full), key=lambda one: -one.seconds / one.interval)
        # Whoever has a backlog, and is alone with that, gets all there is.
        return () if len(late) == 1 and late[0].backlog else tuple(late)

    def _found_late(self, full: bool) -> Iterator[LateGroup]:
        for name, ticks in self._groups.items():
            interval, backlog = self._interval(name), not _are_enough(ticks.paced)
            counted = ticks.ended if backlog else ticks.paced
            if not _are_enough(counted):
                continue
            count = len(counted)
            waited = sum(tick.waited for _, tick in counted) / count
            took = sum(tick.seconds for _, tick in counted) / count
            if waited > interval or (full and waited + took > _INTERVALS * interval):
                yield LateGroup(name, interval, round(waited, 1), round(took, 1), backlog)


def _are_enough(ticks: Collection[tuple[float, TickFinished]]) -> bool:
    """Whether a mean of these ticks says something."""
    return len(ticks) >= _FEWEST or sum(tick.waited + tick.seconds for _, tick in ticks) >= _PART * _SPAN
