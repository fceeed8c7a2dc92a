"""What the newest commits of the tables say, as Prometheus metrics, when they are scraped."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import TYPE_CHECKING

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from tidegate.live.kept_answer import KeptAnswer

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

    from tidegate.store.status_values import PartitionStatus, ProjectStatus, RelationStatus


class CommittedCollector(Collector):
    """`read`: the committed state, asked at most every `fresh` seconds; None: another process serves it."""

    def __init__(
        self,
        read: Callable[[], ProjectStatus | None],
        fresh: float,
        clock: Callable[[], float],
        now: Callable[[], datetime],
    ) -> None:
        self._read, self._now = KeptAnswer(read, fresh, clock), now
        self._errors, self._counting = 0, threading.Lock()

    def collect(self) -> Iterator[Metric]:
        try:
            status = self._read()
        except Exception:
            # Whatever a catalog's client raises: a scrape must say that it failed, and not fail. Nor does it show an
            # earlier state: an old watermark would look like one that stands still.
            status = None
            with self._counting:
                self._errors += 1
        errors = self._errors
        yield _count(
            "tidegate_status_errors",
            "How often the committed state could not be read for a scrape. If it rises, the "
            "catalog or the warehouse does not answer.",
            [],
            [((), errors)],
        )
        if status is not None:
            yield from _partitions(status.relations, self._now().timestamp())
            yield from _sources(status.relations)
            yield from _views(status)
            yield from _sinks(status)


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


def _partitions(relations: tuple[RelationStatus, ...], now: float) -> Iterator[Metric]:
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


def _sources(relations: tuple[RelationStatus, ...]) -> Iterator[Metric]:
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
