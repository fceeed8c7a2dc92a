"""Rows of a log, partition by partition in offset order, measured against every delay at once (W1, W2). Executor side.

A row is on time under `column - d` iff event_time >= max(M - d, G), M being the newest event time of its partition
before it. A row that is late under any d never raises M: it is behind it. So one pass answers for all d.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from tidegate.advise.grid import place, quantile
from tidegate.watermark import UNDEFINED, GateConfig, GateState, SourceWatermark, judge

#: Rows of a partition that are sampled together are next to each other: 2**14 offsets.
BLOCK_BITS = 14
#: Quantiles that are shown of whatever is distributed.
QUANTILES = (0.5, 0.75, 0.9, 0.95, 0.99, 0.999)
#: Points of the delay over time that are kept of a partition; beyond them every second one goes.
_TRACED = 400


@dataclass(frozen=True)
class EpochHistory:
    """What holds for the whole source from each epoch on: ascending `epochs` int64[n], and int64[n] of

    `published`: G before the rows of the epoch, on the scale of a delay of 0: under a delay of d it is d lower.
    `fixed`: G that does not depend on the delay: what a RESET set. `newest`: the newest event time of all partitions
    up to the epoch before. `resets`: RESETs before it; M begins anew after each. `UNDEFINED` where there is none.
    """

    epochs: np.ndarray
    published: np.ndarray
    fixed: np.ndarray
    newest: np.ndarray
    resets: np.ndarray

    def of(self, epochs: np.ndarray, name: str) -> np.ndarray:
        """The fact that held as each row was read."""
        index = np.searchsorted(self.epochs, epochs, side="right") - 1
        values = getattr(self, name)
        found = values[np.maximum(index, 0)]
        return np.where(index >= 0, found, 0 if name == "resets" else UNDEFINED)


@dataclass
class _Group:
    """What is remembered of a partition (or of a sampled block) from one Arrow batch to the next."""

    newest: int
    epoch: int
    epoch_newest: int
    resets: int
    learned: GateState
    batch: int | None = None
    batch_start: GateState | None = None
    seen: int = 0


@dataclass
class _Partition:
    """What was counted of one partition: rows by the index of the delay that they need, and so on."""

    rows: int = 0
    late: int = 0
    behind: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    lag: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    ahead: int = 0
    learned_rows: int = 0
    learned_late: int = 0
    trace: list[list[int]] = field(default_factory=list)


@dataclass(frozen=True)
class MeasureTask:
    """Called by `mapInArrow`. Columns: `p` partition, `e` epoch, `o` offset, `t` event time in ticks, `a` arrival (the
    clock of its batch) in ticks or NULL, `late`; sorted by p, o. A task has whole partitions.

    `points`: the delays. `sampled`: rows come in blocks, each with `prior` (M before it, NULL: none) and `before` (rows
    of the partition before it). `skew`: W9. `learning`: SOURCE_WATERMARK() with its numbers, None where the column has
    no unit for them. `traced`: partitions whose delays over time are kept, with the rows from one point to the next.
    `written`: the newest event time of all rows that were written before the moment with the number `k` of a row, where
    that is known; else rows of earlier batches are taken for those before.
    """

    points: np.ndarray
    facts: EpochHistory
    sampled: bool
    skew: int | None
    by_batch: bool
    learning: GateConfig | None
    traced: dict[str, int]
    written: np.ndarray | None = None

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        run = _MeasuringRun(self)
        for batch in batches:
            if batch.num_rows:
                run.add(batch)
        yield pa.RecordBatch.from_pydict({"report": [json.dumps(run.report())]})


@dataclass
class _MeasuringRun:
    task: MeasureTask
    reports: dict[str, dict[str, Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        size = len(self.task.points) + 2  # beyond every delay; late under any
        self._size = size
        self.behind, self.lag, self.together = (np.zeros(size, dtype=np.int64) for _ in range(3))
        self.ahead = 0
        self._name: str | None = None
        self._part = _Partition()
        self._group: _Group | None = None
        self._block: tuple[int, int] | None = None

    def add(self, batch: pa.RecordBatch) -> None:
        names = batch.column("p").dictionary_encode()
        codes = np.asarray(names.indices)
        columns = {n: _numbers(batch, n) for n in ("e", "o", "t")}
        columns |= {n: _numbers(batch, n, nullable=True) for n in ("a", "k", "prior", "before")}
        columns["late"] = np.asarray(batch.column("late").cast(pa.int8()))
        resets = self.task.facts.of(columns["e"], "resets")
        change = (np.diff(codes) != 0) | (np.diff(resets) != 0)
        if self.task.sampled:
            change |= (np.diff(columns["e"]) != 0) | (np.diff(columns["o"] >> BLOCK_BITS) != 0)
        starts = [0, *(np.flatnonzero(change) + 1).tolist(), len(codes)]
        for first, end in pairwise(starts):
            rows = {n: values[first:end] for n, values in columns.items()}
            self._rows(names.dictionary[int(codes[first])].as_py(), rows, int(resets[first]))

    def report(self) -> dict[str, Any]:
        """JSON-ready: the counts over all partitions of the task, and a short entry for each."""
        self._close()
        return {
            "behind": _sparse(self.behind),
            "lag": _sparse(self.lag),
            "ahead": self.ahead,
            "together": _sparse(self.together),
            "partitions": self.reports,
        }

    # -- one partition -------------------------------------------------------------------------------------------

    def _begin(self, name: str, rows: dict[str, np.ndarray], resets: int) -> _Group:
        """The group that these rows belong to: a partition between two resets, or a sampled block."""
        if name != self._name:
            self._close()
            self._name, self._group, self._block = name, None, None
            self._part = _Partition(behind=np.zeros(self._size, np.int64), lag=np.zeros(self._size, np.int64))
        block = (int(rows["e"][0]), int(rows["o"][0]) >> BLOCK_BITS) if self.task.sampled else None
        group = self._group
        if group is None or group.resets != resets or block != self._block:
            newest = int(rows["prior"][0]) if self.task.sampled else UNDEFINED
            learned = GateState()
            if self.task.sampled and self.task.learning is not None and newest != UNDEFINED:
                strategy = self.task.learning.strategy
                assert isinstance(strategy, SourceWatermark)
                learned = GateState(memory=strategy.resumed(max(int(rows["before"][0]), 0), newest))
            group = _Group(newest, int(rows["e"][0]), newest, resets, learned)
            self._group, self._block = group, block
        return group

    def _close(self) -> None:
        """Turn what was counted of the last partition into its entry."""
        if self._name is None:
            return
        part, points = self._part, self.task.points
        self.behind += part.behind
        self.lag += part.lag
        self.ahead += part.ahead
        self.reports[self._name] = {
            "rows": part.rows,
            "late": part.late,
            "behind": [quantile(part.behind, points, q) for q in QUANTILES],
            "lag": [quantile(part.lag, points, q) for q in QUANTILES],
            "ahead": part.ahead,
            "never": int(part.behind[-1]),
            "learned_rows": part.learned_rows,
            "learned_late": part.learned_late,
            "trace": part.trace,
        }
        self._name = None

    def _rows(self, name: str, rows: dict[str, np.ndarray], resets: int) -> None:
        group = self._begin(name, rows, resets)
        part, task, facts = self._part, self.task, self.task.facts
        times, epochs = rows["t"], rows["e"]
        leads = times
        if task.skew is not None:
            # W9: a row too far ahead of its batch's clock raises nothing.
            leads = np.where(_differences(times, rows["a"]) <= task.skew, times, UNDEFINED)
        running = np.maximum.accumulate(np.concatenate(([group.newest], leads)))
        own = running[:-1]
        if task.by_batch:
            own = self._as_batch_began(group, epochs, own)
        else:
            group.epoch, group.epoch_newest = int(epochs[-1]), int(running[-1])
        group.newest = int(running[-1])

        bar = np.maximum(own, facts.of(epochs, "published"))
        part.rows += len(times)
        part.late += int(np.count_nonzero(rows["late"]))
        beyond = times < facts.of(epochs, "fixed")
        part.behind += self._histogram(_behind(bar, times), beyond)
        # One watermark for all: never below what the partition's own rows and all that surely came before make it.
        before = facts.of(epochs, "newest") if task.written is None else self._written_before(rows["k"])
        newest = np.maximum(own, before)
        self.together += self._histogram(_behind(newest, times), beyond)
        arrived = rows["a"] != UNDEFINED
        lag = _differences(rows["a"][arrived], times[arrived])
        part.ahead += int(np.count_nonzero(lag < 0))
        part.lag += self._histogram(lag[lag >= 0], None)
        if task.learning is not None:
            self._learn(name, group, rows)

    def _as_batch_began(self, group: _Group, epochs: np.ndarray, own: np.ndarray) -> np.ndarray:
        """M as it stood before the row's micro-batch (`watermark_granularity = 'batch'`)."""
        firsts = np.concatenate(([True], epochs[1:] != epochs[:-1]))
        values = own[firsts].copy()
        if int(epochs[0]) == group.epoch:
            values[0] = group.epoch_newest
        group.epoch, group.epoch_newest = int(epochs[-1]), int(values[-1])
        began: np.ndarray = values[np.cumsum(firsts) - 1]
        return began

    def _written_before(self, moments: np.ndarray) -> np.ndarray:
        written = self.task.written
        assert written is not None
        known = (moments >= 0) & (moments < len(written))
        return np.where(known, written[np.where(known, moments, 0)], UNDEFINED)

    def _histogram(self, needed: np.ndarray, beyond: np.ndarray | None) -> np.ndarray:
        index = place(needed, self.task.points)
        if beyond is not None:
            index = np.where(beyond, self._size - 1, index)
        return np.bincount(index, minlength=self._size)

    # -- SOURCE_WATERMARK() --------------------------------------------------------------------------------------

    def _learn(self, name: str, group: _Group, rows: dict[str, np.ndarray]) -> None:
        """Judge the rows as SOURCE_WATERMARK() would have, in pieces between which its delay is looked at."""
        config, part = self.task.learning, self._part
        assert config is not None
        strategy = config.strategy
        assert isinstance(strategy, SourceWatermark)
        count = len(rows["t"])
        cuts = set(range(0, count, self.task.traced.get(name, count))) | {count}
        if config.max_future_skew is not None or config.by_batch:
            cuts |= set((np.flatnonzero(np.diff(rows["e"])) + 1).tolist())
        ordered = sorted(cuts)
        accepted = np.ones(count, dtype=bool)
        for first, end in pairwise(ordered):
            clock = int(rows["a"][first]) if config.max_future_skew is not None else None
            if int(rows["e"][first]) != group.batch:
                group.batch, group.batch_start = int(rows["e"][first]), group.learned
            judged = judge(
                config,
                group.learned,
                None,
                rows["t"][first:end],
                accepted[first:end],
                clock=clock,
                batch_start=group.batch_start,
            )
            group.learned = judged.state
            group.seen += end - first
            # Until it has rows of its own block to rest on, a sampled block says nothing about it.
            if not self.task.sampled or group.seen > strategy.window:
                part.learned_rows += end - first
                part.learned_late += int(np.count_nonzero(judged.late))
                if name in self.task.traced:
                    delay = strategy.delay(group.learned.memory)
                    part.trace.append([int(rows["o"][end - 1]), int(rows["e"][end - 1]), delay])
        if len(part.trace) > _TRACED:
            part.trace = part.trace[::2]


def _numbers(batch: pa.RecordBatch, name: str, nullable: bool = False) -> np.ndarray:
    if name not in batch.schema.names:
        return np.full(batch.num_rows, UNDEFINED, dtype=np.int64)
    column = batch.column(name)
    return np.asarray(column.fill_null(UNDEFINED) if nullable else column)


def _behind(newest: np.ndarray, times: np.ndarray) -> np.ndarray:
    """How far each row is behind what is newest; 0 for rows that are not, or where there is nothing yet."""
    known = newest != UNDEFINED
    return np.where(known, np.maximum(_differences(np.where(known, newest, times), times), 0), 0)


def _differences(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """a - b, stopping at the ends of int64 instead of wrapping around."""
    with np.errstate(over="ignore"):
        found = a - b
    found = np.where((a >= b) & (found < 0), np.iinfo(np.int64).max, found)
    return np.where((a < b) & (found > 0), np.iinfo(np.int64).min, found)


def _sparse(counts: np.ndarray) -> Counter[str]:
    return Counter({str(i): int(counts[i]) for i in np.flatnonzero(counts)})
