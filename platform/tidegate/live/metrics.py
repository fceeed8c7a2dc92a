"""Prometheus metrics of live mode: from committed state when they are scraped, from workers' events as they happen.

What is committed is read like `tidegate status` reads it, so it is the same after any number of restarts: counters of
rows go on, watermarks are those of the last commit. docs/live.md says what to do with each.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from tidegate import __version__
from tidegate.live.committed_metrics import CommittedCollector
from tidegate.live.process import resident_bytes
from tidegate.plan.events import (
    BatchCommitted,
    DefinitionsLoaded,
    DefinitionsRefused,
    Event,
    MemberFailed,
    MemberRecovered,
    SinkDelivered,
    SliceCommitted,
    TickFinished,
    WorkerExited,
    WorkerFailed,
    WorkerSpawned,
)

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

    from tidegate.store.status_values import ProjectStatus

_BUCKETS = (0.05, 0.1, 0.25, 0.5, 1, 2, 3, 5, 8, 13, 30, 60, 120, 300)
_COMMIT_BUCKETS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2, 5, 15, 60)


class _Timings:
    """How long what a group does takes."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.batch = Histogram(
            "tidegate_batch_seconds",
            "Time to judge and commit one batch of a source. If it is near the tick interval or "
            "above, add cores or read fewer rows per batch.",
            ["source"],
            registry=registry,
            buckets=_BUCKETS,
        )
        self.slice = Histogram(
            "tidegate_view_tick_seconds",
            "Time to compute and commit the windows that a view closed in one tick.",
            ["view"],
            registry=registry,
            buckets=_BUCKETS,
        )
        self.commit = Histogram(
            "tidegate_commit_seconds",
            "Time of one Iceberg commit of a source's log or of a view. If it grows with "
            "metadata, run upkeep; with a remote catalog, it is mostly the latency of the "
            "catalog.",
            ["name"],
            registry=registry,
            buckets=_COMMIT_BUCKETS,
        )
        self.delivery = Histogram(
            "tidegate_sink_delivery_seconds",
            "Time of one delivery of a sink.",
            ["sink"],
            registry=registry,
            buckets=_BUCKETS,
        )
        self.wait = Histogram(
            "tidegate_tick_wait_seconds",
            "Time from when a tick of a group was due to when a thread was free for it. If it is often longer than the "
            "interval, the machine is too small for its groups.",
            ["group"],
            registry=registry,
            buckets=_BUCKETS,
        )
        self.tick = Histogram(
            "tidegate_tick_seconds",
            "Time of one tick of a group: batches, views and deliveries. Results are at most "
            "this old, plus the interval.",
            ["group"],
            registry=registry,
            buckets=_BUCKETS,
        )


class _Groups:
    """What the workers of groups are at, and what fails in them."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.ticks = Gauge(
            "tidegate_last_tick_timestamp_seconds",
            (
                "When the last tick of a group ended (Unix time). If it does not move, the worker "
                "hangs or is down."
            ),
            ["group"],
            registry=registry,
        )
        self.backlog = Gauge(
            "tidegate_backlog",
            "1 while more rows wait than one batch takes, so that ticks follow each other at "
            "once. If it is 1 for long, capacity is too small.",
            ["group"],
            registry=registry,
        )
        self.bytes = Gauge(
            "tidegate_tick_memory_bytes",
            "Memory that the rows of a group's last tick took in the tasks of all batches. If it is near the memory of "
            "the Python workers, choose a smaller max_rows_per_batch.",
            ["group"],
            registry=registry,
        )
        self.cpu = Counter(
            "tidegate_group_cpu_seconds",
            "CPU time of the worker's processes, divided among the groups that share them by the time for which "
            "they were at work.",
            ["group"],
            registry=registry,
        )
        self.starts = Counter(
            "tidegate_worker_restarts",
            "How often the worker of a group was restarted after it died. If it rises, look at "
            "tidegate_errors_total and the log.",
            ["group"],
            registry=registry,
        )
        self.errors = Counter(
            "tidegate_errors",
            "Errors by code (`none`: an error without a tidegate code), of workers, sources, "
            "views and sinks. docs/errors.md explains the codes.",
            ["group", "code"],
            registry=registry,
        )
        self.failing = Gauge(
            "tidegate_failing",
            "1 while a source, view or sink fails and waits for another try, 0 when it works again.",
            ["group", "name", "kind"],
            registry=registry,
        )


class Metrics:
    """A registry of its own. `read`: the committed state, asked at most every `fresh` seconds, None while another
    process serves it; `pids`: of worker processes, by the group whose own one it is (`*`: that of all others)."""

    def __init__(
        self,
        read: Callable[[], ProjectStatus | None],
        pids: Callable[[], dict[str, int]],
        health: Callable[[], dict[str, Any]],
        fresh: float = 5.0,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        # A second series for each counter, which says when this process has begun: nobody asks for it.
        disable_created_metrics()
        self.registry = registry = CollectorRegistry(auto_describe=False)
        self._timings, self._groups = _Timings(registry), _Groups(registry)
        info = Gauge(
            "tidegate_build_info", "The running version, as a label.", ["version"], registry=registry
        )
        info.labels(__version__).set(1)
        self._refused = Gauge(
            "tidegate_definitions_refused",
            "1 while live mode does not take up the definitions in the files, and continues with earlier ones.",
            registry=registry,
        )
        self._now = now
        #: The group, name and kind of all that has failed once.
        self._failed: set[tuple[str, str, str]] = set()
        self._gone: set[str] = set()
        registry.register(_Workers(health, pids))
        registry.register(CommittedCollector(read, fresh, clock, now))

    def expect(self, group: str) -> None:
        """Let a group's counters begin at 0, so that their first rise is seen."""
        self._groups.starts.labels(group)
        self._groups.backlog.labels(group).set(0)

    def spend(self, group: str, seconds: float) -> None:
        """A group has cost so many CPU seconds."""
        self._groups.cpu.labels(group).inc(max(0.0, seconds))

    def __call__(self, group: str | None, event: Event | str) -> None:
        """Take in an event."""
        name = group or ""
        match event:
            case BatchCommitted():
                self._timings.batch.labels(event.source).observe(event.seconds)
                self._timings.commit.labels(event.source).observe(event.commit_seconds)
            case SliceCommitted():
                self._timings.slice.labels(event.view).observe(event.seconds)
                self._timings.commit.labels(event.view).observe(event.commit_seconds)
            case SinkDelivered():
                self._timings.delivery.labels(event.sink).observe(event.seconds)
            case TickFinished():
                self._timings.tick.labels(name).observe(event.seconds)
                self._timings.wait.labels(name).observe(event.waited)
                self._groups.ticks.labels(name).set(self._now().timestamp())
                self._groups.backlog.labels(name).set(event.backlog)
                self._groups.bytes.labels(name).set(event.bytes)
            case MemberFailed():
                self._groups.errors.labels(name, event.code or "none").inc()
                self._failed.add((name, event.name, event.kind))
                self._groups.failing.labels(name, event.name, event.kind).set(1)
            case MemberRecovered():
                self._groups.failing.labels(name, event.name, event.kind).set(0)
            case WorkerFailed():
                self._groups.errors.labels(name, event.code or "none").inc()
            case WorkerSpawned():
                self._has_begun(name)
                if event.restarts:
                    self._groups.starts.labels(name).inc()
            case WorkerExited() if name in self._gone:
                self._is_gone(name)
            case DefinitionsRefused():
                self._refused.set(1)
            case DefinitionsLoaded():
                self._refused.set(0)
                self._redefined(event)

    def _redefined(self, event: DefinitionsLoaded) -> None:
        for group in event.began:
            self.expect(group)
        # What is gone may still say something before it ends.
        self._gone = (self._gone | set(event.ended)) - set(event.began)
        for group in event.ended:
            self._is_gone(group)

    def _has_begun(self, group: str) -> None:
        """What begins, or begins again, has failed in nothing."""
        for labels in tuple(self._failed):
            if labels[0] == group:
                self._groups.failing.labels(*labels).set(0)

    def _is_gone(self, group: str) -> None:
        """What is gone has no state."""
        for labels in tuple(self._failed):
            if labels[0] == group:
                self._failed.discard(labels)
                self._groups.failing.remove(*labels)
        for gauge in (self._groups.ticks, self._groups.backlog, self._groups.bytes):
            # One that has not ticked has none.
            with suppress(KeyError):
                gauge.remove(group)


class _Workers(Collector):
    """Of the supervisor's own knowledge, when it is scraped."""

    def __init__(self, health: Callable[[], dict[str, Any]], pids: Callable[[], dict[str, int]]) -> None:
        self._health, self._pids = health, pids

    def collect(self) -> Iterator[Metric]:
        up = GaugeMetricFamily(
            "tidegate_worker_up",
            "1 while a group's worker runs and ticks, else 0 (starting, backing off, given up). Alert on minutes of 0.",
            labels=["group"],
        )
        running = GaugeMetricFamily(
            "tidegate_worker_running",
            "1 while a group's worker runs, whether it ticks or hangs, else 0. Where it stays 1 and "
            "tidegate_worker_up is 0, the worker hangs.",
            labels=["group"],
        )
        for name, group in self._health()["groups"].items():
            up.add_metric([name], float(group["healthy"]))
            running.add_metric([name], float(group["state"] == "running"))
        yield from (up, running)
        memory = GaugeMetricFamily(
            "tidegate_worker_resident_memory_bytes",
            "Resident memory of a worker process: `worker` (itself), `jvm`, `python` (the Python processes of Spark). "
            "The group is * for the process of all groups. It should be flat over days.",
            labels=["group", "process"],
        )
        for name, pid in self._pids().items():
            for process, size in resident_bytes(pid).items():
                memory.add_metric([name, process], size)
        yield memory
