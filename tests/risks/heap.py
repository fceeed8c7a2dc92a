"""One JVM for many views (row 3 of the table of risks): do classes, heap, or compiled code grow with the ticks?

All groups get a file at the same time, and the next one when each has ticked over it. Every few rounds, while the
groups rest, the JVM is asked what it has, after a collection. A straight line is laid through each series, over the
ticks (`tests/soak/trend.py`). Each group has views of different lengths, one of which Spark's SQL computes.
"""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.chaos.processes import Process, tree
from tests.risks.groups import TYPES, Fed, Watched, drive
from tests.soak.sample import MB, Series
from tests.soak.trend import Limit, Trend, trend
from tidegate.jvm.java import java_class, method
from tidegate.jvm.spark import cores
from tidegate.plan.events import Event, TickFinished
from tidegate.session.collector import set_aside
from tidegate.session.live_driver import Pace
from tidegate.session.session import Session

#: As short as upkeep allows: what is kept of tables in memory grows with their snapshots.
MAINTENANCE = (
    "defaults: {keep_snapshots: 1 minute, most_snapshots: 20, settle: 1 minute, compact_when_files: 50}\n"
)
SERIES = {
    "classes": Series("", Limit(0.01, 100)),
    "metaspace": Series("MB", Limit(0.02, 3)),
    "heap after a collection": Series("MB", Limit(0.10, 20)),
    "code-generation cache misses": Series("", Limit(0.02, 10)),
    "compiled code": Series("MB", None),
    "memory jvm": Series("MB", None),
    "memory driver": Series("MB", None),
    "seconds of a round": Series("s", None),
}
#: Seconds of a window, in files: so each view closes one every few ticks, and the views of a group at different ones.
_SHORTEST = 5


def team(root: Path, groups: int, views: int, kinds: Sequence[str] = tuple(TYPES)) -> list[Fed]:
    """Groups with so many views each."""
    sizes = [10 * (_SHORTEST + number) for number in range(views)]
    return [
        Fed(root, f"g{n:02}", kinds[n % len(kinds)], n % 7, sizes, 1, rows=4, seed=n, stepwise=False)
        for n in range(groups)
    ]


class Meter:
    """What a JVM says of itself, by the interfaces of `java.lang.management`."""

    def __init__(self, session: Session) -> None:
        self._jvm = jvm = session.spark._jvm
        factory = java_class(jvm, "java.lang.management.ManagementFactory")
        self._classes, self._memory = factory.getClassLoadingMXBean(), factory.getMemoryMXBean()
        room = "java.lang.management"
        self._loaded = _question(jvm, f"{room}.ClassLoadingMXBean", "getLoadedClassCount")
        self._heap = _question(jvm, f"{room}.MemoryMXBean", "getHeapMemoryUsage")
        name, self._usage = (
            _question(jvm, f"{room}.MemoryPoolMXBean", what) for what in ("getName", "getUsage")
        )
        pools = factory.getMemoryPoolMXBeans()
        self._pools = {str(name(pool)): pool for pool in (pools.get(n) for n in range(pools.size()))}
        self._compiled = java_class(
            jvm, "org.apache.spark.metrics.source.CodegenMetrics"
        ).METRIC_COMPILATION_TIME()
        self._pid = int(java_class(jvm, "java.lang.ProcessHandle").current().pid())

    def __call__(self) -> dict[str, float]:
        """After a collection, here and there: Python's lets go of the JVM's objects."""
        gc.collect()
        java_class(self._jvm, "java.lang.System").gc()
        used = {name: self._usage(pool).getUsed() / MB for name, pool in self._pools.items()}
        processes = {process.pid: process for process in tree(os.getpid())}
        return {
            "classes": self._loaded(self._classes),
            "metaspace": used["Metaspace"],
            "heap after a collection": self._heap(self._memory).getUsed() / MB,
            "code-generation cache misses": self._compiled.getCount(),
            "compiled code": sum(size for name, size in used.items() if name.startswith("CodeHeap")),
            "memory jvm": _resident(processes.get(self._pid)),
            "memory driver": _resident(processes.get(os.getpid())),
        }


def _question(jvm: Any, owner: str, name: str) -> Callable[[Any], Any]:
    """A method of an interface. (The classes behind these are none that anybody may call.)"""
    asked, nothing = method(jvm, owner, name), java_class(jvm, "java.util.ArrayList")()
    return lambda bean: asked.bindTo(bean).invokeWithArguments(nothing)


def _resident(process: Process | None) -> float:
    return 0.0 if process is None else process.resident_bytes() / MB


class Rounds(Watched):
    """Feeds all groups at the same time. Every `every` rounds a sample is taken; `until`: asked whether to end before
    all rounds are over; `say`: told of each sample."""

    def __init__(
        self,
        groups: Sequence[Fed],
        rounds: int,
        meter: Callable[[], Mapping[str, float]],
        every: int,
        until: Callable[[], bool] = lambda: False,
        say: Callable[[str], None] = lambda text: None,
    ) -> None:
        super().__init__(groups, rounds)
        self.samples: list[dict[str, float]] = []
        self.ticks = 0
        self._meter, self._every, self._until, self._say = meter, every, until, say
        self._ticking, self._over, self._began = set(self.groups), False, time.monotonic()

    def feeds(self, fed: Fed) -> None:
        """It is fed when the round is over."""

    def over(self, group: Any) -> bool:
        return self._over

    def event(self, group: str, event: Event) -> None:
        super().event(group, event)
        if isinstance(event, TickFinished) and event.rows:
            with self._lock:
                self._ticking.discard(group)
                if not self._ticking:
                    self._round()

    def _round(self) -> None:
        """All have ticked, and look for files that do not come before this is over."""
        self.ticks += 1
        if self.ticks % self._every == 0:
            took = (time.monotonic() - self._began) / self._every
            sample = {"ticks": float(self.ticks), **self._meter(), "seconds of a round": took}
            self.samples.append(sample)
            self._say("  ".join(f"{name} {value:,.1f}" for name, value in sample.items()))
            self._began = time.monotonic()
        if self._until() or all(one.done >= self.batches for one in self.groups.values()):
            self._over = True
            return
        self._ticking = set(self.groups)
        for one in self.groups.values():
            one.feed()


def ticked(
    session: Session,
    groups: Sequence[Fed],
    rounds: int,
    every: int,
    until: Callable[[], bool] = lambda: False,
    say: Callable[[str], None] = lambda text: None,
) -> Rounds:
    """The groups after their next rounds, up to `rounds` in all."""
    for one in groups:
        # What was there when an earlier process ended is a round of this one.
        if one.done == one.committed:
            one.feed()
    watched = Rounds(groups, rounds, Meter(session), every, until, say)
    pace = Pace(0.2, watched.over, threads=cores(session.spark) + 2, warm=set_aside)
    assert drive(session, watched, pace), "Spark is gone"
    return watched


def trends(samples: Sequence[Mapping[str, float]], warm_up: int) -> list[Trend]:
    """Of the samples behind so many ticks: what changes over these ticks (and not over the hours, as `per_hour` has
    it)."""
    measured = [sample for sample in samples if sample["ticks"] > warm_up]
    found = []
    for name, one in SERIES.items():
        ticks, values = [s["ticks"] for s in measured], [s.get(name) for s in measured]
        made = trend(name, one.unit, ticks, values, one.limit or Limit(0.0, float("inf")))
        found += [] if made is None else [made]
    return found
