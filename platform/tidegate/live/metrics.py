"""Prometheus metrics of live mode: from committed state when they are scraped, from workers' events as they happen.

What is committed is read like `tidegate status` reads it, so it is the same after any number of restarts: counters of
rows go on, watermarks are those of the last commit. docs/live.md says what to do with each.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from tidegate import __version__
from tidegate.live.process import resident_bytes
from tidegate.plan.events import (
    BatchCommitted,
    Event,
    MemberFailed,
    MemberRecovered,
    SinkDelivered,
    SliceCommitted,
    TickFinished,
    WorkerFailed,
    WorkerSpawned,
)

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

    from tidegate.store.status_values import PartitionStatus, ProjectStatus, RelationStatus

_BUCKETS = (0.05, 0.1, 0.25, 0.5, 1, 2, 3, 5, 8, 13, 30, 60, 120, 300)
_COMMIT_BUCKETS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2, 5, 15, 60)


class Metrics:
    """A registry of its own. `read`: the committed state, asked at most every `fresh` seconds; `pids`: of workers."""

    def __init__(
        self,
        read: Callable[[], ProjectStatus],
        pids: Callable[[], dict[str, int]],
        health: Callable[[], dict[str, Any]],
        fresh: float = 5.0,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        # A second series for each counter, which says when this process has begun: nobody asks for it.
        disable_created_metrics()
        self.registry = CollectorRegistry(auto_describe=False)
        registry = self.registry
        self._batch = Histogram(
            "tidegate_batch_seconds",
            "Time to judge and commit one batch of a source. If it is near the tick interval or "
            "above, add cores or read fewer rows per batch.",
            ["source"],
            registry=registry,
            buckets=_BUCKETS,
        )
        self._slice = Histogram(
            "tidegate_view_tick_seconds",
            "Time to compute and commit the windows that a view closed in one tick.",
            ["view"],
            registry=registry,
            buckets=_BUCKETS,
        )
        self._commit = Histogram(
            "tidegate_commit_seconds",
            "Time of one Iceberg commit of a source's log or of a view. If it grows with "
            "metadata, run upkeep; with a remote catalog, it is mostly the latency of the "
            "catalog.",
            ["name"],
            registry=registry,
            buckets=_COMMIT_BUCKETS,
        )
        self._delivery = Histogram(
            "tidegate_sink_delivery_seconds",
            "Time of one delivery of a sink.",
            ["sink"],
            registry=registry,
            buckets=_BUCKETS,
        )
        self._tick = Histogram(
            "tidegate_tick_seconds",
            "Time of one tick of a group: batches, views and deliveries. Results are at most "
            "this old, plus the interval.",
            ["group"],
            registry=registry,
            buckets=_BUCKETS,
        )
        self._ticks = Gauge(
            "tidegate_last_tick_timestamp_seconds",
            (
                "When the last tick of a group ended (Unix time). If it does not move, the worker "
                "hangs or is down."
            ),
            ["group"],
            registry=registry,
        )
        self._backlog = Gauge(
            "tidegate_backlog",
            "1 while more rows wait than one batch takes, so that ticks follow each other at "
            "once. If it is 1 for long, capacity is too small.",
            ["group"],
            registry=registry,
        )
        self._starts = Counter(
            "tidegate_worker_restarts",
            "How often the worker of a group was restarted after it died. If it rises, look at "
            "tidegate_errors_total and the log.",
            ["group"],
            registry=registry,
        )
        self._errors = Counter(
            "tidegate_errors",
            "Errors by code (`none`: an error without a tidegate code), of workers, sources, "
            "views and sinks. docs/errors.md explains the codes.",
            ["group", "code"],
            registry=registry,
        )
        self._failing = Gauge(
            "tidegate_failing",
            "1 while a source, view or sink fails and waits for another try, 0 when it works again.",
            ["group", "name", "kind"],
            registry=registry,
        )
        info = Gauge(
            "tidegate_build_info", "The running version, as a label.", ["version"], registry=registry
        )
        info.labels(__version__).set(1)
        self._now = now
        registry.register(_Workers(health, pids))
        registry.register(_Committed(read, fresh, clock, now))

    def expect(self, group: str) -> None:
        """Let a group's counters begin at 0, so that their first rise is seen."""
        self._starts.labels(group)
        self._backlog.labels(group).set(0)

    def __call__(self, group: str | None, event: Event | str) -> None:
        """Take in an event."""
        name = group or ""
        match event:
            case BatchCommitted():
                self._batch.labels(event.source).observe(event.seconds)
                self._commit.labels(event.source).observe(event.commit_seconds)
            case SliceCommitted():
                self._slice.labels(event.view).observe(event.seconds)
                self._commit.labels(event.view).observe(event.commit_seconds)
            case SinkDelivered():
                self._delivery.labels(event.sink).observe(event.seconds)
            case TickFinished():
                self._tick.labels(name).observe(event.seconds)
                self._ticks.labels(name).set(self._now().timestamp())
                self._backlog.labels(name).set(event.backlog)
            case MemberFailed():
                self._errors.labels(name, event.code or "none").inc()
                self._failing.labels(name, event.name, event.kind).set(1)
            case MemberRecovered():
                self._failing.labels(name, event.name, event.kind).set(0)
            case WorkerFailed():
                self._errors.labels(name, event.code or "none").inc()
            case WorkerSpawned() if event.restarts:
                self._starts.labels(name).inc()


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
            "Resident memory of a worker: `worker` (its own process), `jvm`, `python` (the "
            "Python processes of Spark). It should be flat over days.",
            labels=["group", "process"],
        )
        for name, pid in self._pids().items():
            for process, size in resident_bytes(pid).items():
                memory.add_metric([name, process], size)
        yield memory


class _Committed(Collector):
    """Of the tables' newest commits, when they are scraped."""

    def __init__(
        self,
        read: Callable[[], ProjectStatus],
        fresh: float,
        clock: Callable[[], float],
        now: Callable[[], datetime],
    ) -> None:
        self._read, self._fresh, self._clock, self._now = read, fresh, clock, now
        self._known: tuple[float, ProjectStatus] | None = None
        self._errors = 0
        self._lock = threading.Lock()

    def collect(self) -> Iterator[Metric]:
        with self._lock:
            status = self._status()
            errors = self._errors
        yield _count(
            "tidegate_status_errors",
            "How often the committed state could not be read for a scrape. If it rises, the "
            "catalog or the warehouse does not answer.",
            [],
            [((), errors)],
        )
        if status is not None:
            yield from _sources(status.relations, self._now().timestamp())
            yield from _views(status)
            yield from _sinks(status)

    def _status(self) -> ProjectStatus | None:
        """Read anew if it is too old; None if that fails: an old watermark would look like one that stands still."""
        if self._known is None or self._clock() - self._known[0] >= self._fresh:
            self._known = None
            try:
                self._known = self._clock(), self._read()
            except Exception:
                # Whatever a catalog's client raises: a scrape must say that it failed, and not fail.
                self._errors += 1
        return None if self._known is None else self._known[1]


_Rows = list[tuple[tuple[str, ...], float]]


def _gauge(name: str, help: str, labels: list[str], rows: _Rows) -> Metric:
    family = GaugeMetricFamily(name, help, labels=labels)
    for values, value in rows:
        family.add_metric(values, value)
    return family


def _count(name: str, help: str, labels: list[str], rows: _Rows) -> Metric:
    family = CounterMetricFamily(name, help, labels=labels)
    for values, value in rows:
        family.add_metric(values, value)
    return family


def _sources(relations: tuple[RelationStatus, ...], now: float) -> Iterator[Metric]:
    labels = ["source", "partition"]
    pairs = [(r, p) for r in relations for p in r.partitions]

    def each(value: Callable[[RelationStatus, PartitionStatus], float | None]) -> _Rows:
        return [((r.name, p.partition), v) for r, p in pairs if (v := value(r, p)) is not None]

    yield _gauge(
        "tidegate_partition_watermark_seconds",
        "Watermark of a partition as Unix time; absent before the first watermark, and for "
        "integer times. The lowest watermark of the participating partitions holds the "
        "source back.",
        labels,
        each(lambda r, p: unix_seconds(r.time_kind, p.watermark)),
    )
    yield _gauge(
        "tidegate_partition_newest_event_seconds",
        "Newest event time of a partition as Unix time.",
        labels,
        each(lambda r, p: unix_seconds(r.time_kind, p.max_event_time)),
    )
    yield _gauge(
        "tidegate_partition_event_time_lag_seconds",
        "How far the watermark of a partition is behind the clock. If it rises by a second "
        "per second, no rows arrive, or the arriving rows have old times.",
        labels,
        each(lambda r, p: None if (w := unix_seconds(r.time_kind, p.watermark)) is None else now - w),
    )
    yield _gauge(
        "tidegate_partition_lag_rows",
        "Offsets between the last commit and the end of a partition at the broker; absent "
        "where the input has no end offsets. If it rises, capacity is too small, or a key is "
        "skewed.",
        labels,
        each(lambda r, p: p.lag_rows),
    )
    yield _gauge(
        "tidegate_partition_state",
        "1 for the state of a partition: empty, warming, active, idle, stalled, future, "
        "gone. `stalled` and `future` need attention.",
        [*labels, "state"],
        [((r.name, p.partition, p.state.split()[0]), 1.0) for r, p in pairs if p.state],
    )
    yield _gauge(
        "tidegate_source_watermark_seconds",
        (
            "Published watermark G of a source as Unix time. It closes the windows of views, and "
            "should follow the clock."
        ),
        ["source"],
        [((r.name,), w) for r in relations if (w := unix_seconds(r.time_kind, r.watermark)) is not None],
    )
    yield _count(
        "tidegate_rows",
        "Rows judged since the source began, by outcome: on_time, late, rejected. If the "
        "share of late rows rises, the watermark needs a longer delay; if the share of "
        "rejected rows rises, check the producer.",
        ["source", "outcome"],
        [
            ((r.name, outcome), getattr(r, outcome))
            for r in relations
            for outcome in ("on_time", "late", "rejected")
        ],
    )
    yield _count(
        "tidegate_source_batches",
        "Batches committed since the source began.",
        ["source"],
        [((r.name,), r.epoch or 0) for r in relations],
    )


def _views(status: ProjectStatus) -> Iterator[Metric]:
    labels, views = ["view"], status.views
    yield _gauge(
        "tidegate_view_frontier_seconds",
        (
            "Time up to which the results of a view are final, as Unix time; absent before the "
            "first close, and for integer times."
        ),
        labels,
        [((v.name,), w) for v in views if (w := unix_seconds(v.time_kind, v.frontier)) is not None],
    )
    yield _gauge(
        "tidegate_view_behind_seconds",
        "How far the frontier of a view is behind what its inputs allow. If it is above 0 "
        "for long, the view fails, or its inputs are not in the group.",
        labels,
        [((v.name,), v.behind) for v in views if v.behind is not None],
    )
    yield _count(
        "tidegate_view_rows",
        "Final rows of a view since it began.",
        labels,
        [((v.name,), v.groups) for v in views],
    )
    yield _gauge(
        "tidegate_view_open_rows",
        "Rows of open windows that a view shows (without EMIT ON WINDOW CLOSE).",
        labels,
        [((v.name,), v.open) for v in views],
    )


def _sinks(status: ProjectStatus) -> Iterator[Metric]:
    labels, sinks = ["sink"], status.sinks
    yield _count(
        "tidegate_sink_rows",
        "Rows that a sink has delivered since it began.",
        labels,
        [((s.name,), s.delivered) for s in sinks],
    )
    yield _gauge(
        "tidegate_sink_waiting_rows",
        (
            "Final rows that a sink has not delivered yet. If it is above 0 for long, the target "
            "does not accept them."
        ),
        labels,
        [((s.name,), s.waiting) for s in sinks if s.waiting is not None],
    )


def unix_seconds(kind: str | None, ticks: int | None) -> float | None:
    """A time in ticks of its column's kind as Unix time; None where there is none, or nobody knows the unit."""
    if ticks is None:
        return None
    if kind in ("TIMESTAMP", "TIMESTAMPTZ"):
        return ticks / 1_000_000
    return ticks * 86_400.0 if kind == "DATE" else None
