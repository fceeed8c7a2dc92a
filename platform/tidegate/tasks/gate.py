"""The gate as a Spark operator: judge rows and write them to the log's files in the same task (W1-W5).

Executor side: numpy, pyarrow and tidegate's own pure rooms only. Moving wide rows out of Python again would cost
more than judging them, so a task returns one line: its files, and what each partition's watermark became.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from tidegate.tasks.memories import MemoryFiles
from tidegate.tasks.offsets import Placed, by_partition, integers, place
from tidegate.tasks.preceding import arguments
from tidegate.tasks.reading import LOOKED, NeedsJava, NeedsSpark
from tidegate.tasks.writer import BUFFER_BYTES, FileWriter, WriteTarget
from tidegate.watermark import UNDEFINED, GateConfig, GateState, judge, start_watermark
from tidegate.watermark.preceding import remember

if TYPE_CHECKING:
    from tidegate.tasks.reading import Reader

_OUTCOMES = pa.array(["on_time", "late", "rejected"])
_ARRIVAL = pa.timestamp("us", tz="UTC")
_ON_TIME, _LATE, _REJECTED = 0, 1, 2


@dataclass
class PartitionReport:
    """What became of one source partition in one task: whether its offsets only increased, its state as the micro-batch
    began, and as it is now."""

    start: GateState
    state: GateState
    ordered: bool = True

    def to_dict(self) -> dict[str, Any]:
        return {"ordered": self.ordered, "state": self.state.to_dict()}


@dataclass(frozen=True)
class GateTask:
    """Called by `mapInArrow` in every task of a batch.

    `states`: by partition, as of the last commit (R1); a partition that is not there yet starts at `published`
    (R3). `numbering`: rows have no offsets of their own and are numbered here, in the order in which they come.
    `drop_repeats`: the rows were sorted by offset, so an offset that does not increase is a repetition and is
    rejected; otherwise it is reported as disorder, and the driver sorts the batch and judges it anew.
    `memories`: where the long ones of the strategy are.
    `arrived`: when the batch came (aware): of rows that do not say it in `_arrival` themselves. `clock`: that, in the
    unit of the time column (None for an integer). `buffer`: of the writer.
    """

    config: GateConfig | None
    time_column: str | None
    published: int | None
    states: dict[str, GateState]
    epoch: int
    arrived: datetime
    target: WriteTarget
    memories: MemoryFiles
    numbering: bool
    drop_repeats: bool
    has_strategy: bool
    clock: int | None = None
    buffer: int = BUFFER_BYTES

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        run = _JudgingRun(self)
        run.take(batches)
        yield from run.report()


@dataclass(frozen=True)
class InTask:
    """A gate whose tasks read their rows themselves (`Direct`). One that meets what only Spark reads says so, and has
    written nothing."""

    reader: Reader
    gate: GateTask

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        run = _JudgingRun(self.gate)
        try:
            run.take(self.reader(batches))
        except NeedsSpark as error:
            run.writer.abandon()
            # Of Java's client: why, which has no secret in it.
            unread = {"unread": True} | ({"java": str(error)} if isinstance(error, NeedsJava) else {})
            yield pa.RecordBatch.from_pydict({"report": [json.dumps(unread)]})
            return
        yield from run.report()


@dataclass
class _JudgingRun:
    task: GateTask
    reports: dict[str, PartitionReport] = field(default_factory=dict)
    #: That its rows take in memory.
    bytes: int = 0
    looked: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.writer = FileWriter(self.task.target, self.task.buffer)
        self.memories = self.task.memories.reader()

    def take(self, batches: Iterator[pa.RecordBatch]) -> None:
        """Judge and write all of them."""
        for batch in batches:
            if batch.num_rows:
                if LOOKED in batch.schema.names:
                    self.looked += batch.column(LOOKED).drop_null().to_pylist()
                    batch = batch.drop_columns([LOOKED])
                self.bytes += batch.nbytes
                self._add(batch)

    def _add(self, batch: pa.RecordBatch) -> None:
        for partition, rows in by_partition(batch):
            self._judge(partition, batch if rows is None else batch.take(pa.array(rows)))

    def report(self) -> Iterator[pa.RecordBatch]:
        """The task's one line, unless it met no row."""
        files = self.writer.close()
        if self.reports:
            self.task.memories.put_away({name: r.state for name, r in self.reports.items()})
            partitions = {name: r.to_dict() for name, r in self.reports.items()}
            report = {"files": files, "partitions": partitions, "bytes": self.bytes, LOOKED: self.looked}
            yield pa.RecordBatch.from_pydict({"report": [json.dumps(report)]})

    def _judge(self, partition: str, batch: pa.RecordBatch) -> None:
        task, n = self.task, batch.num_rows
        report = self.reports.get(partition)
        if report is None:
            state = task.states.get(partition) or GateState(watermark=start_watermark(task.published))
            state = self.memories.recall(partition, state)
            report = self.reports[partition] = PartitionReport(state, state)
        state = report.state
        placed = place(batch, state.next_offset, task.numbering, task.drop_repeats)
        report.ordered = report.ordered and placed.ordered

        accepted = np.asarray(placed.reasons.is_null())
        if task.config is None or task.time_column is None:
            late = np.zeros(n, dtype=bool)
            missed = np.full(n, UNDEFINED, dtype=np.int64)
            on_time = int(accepted.sum())
            after = replace(state, on_time=state.on_time + on_time, rejected=state.rejected + n - on_time)
        else:
            strategy = valid = None
            if task.has_strategy:
                column = batch.column("_strategy")
                strategy, valid = integers(column), np.asarray(column.is_valid())
            times = integers(batch.column(task.time_column))
            result = judge(
                task.config, state, task.published, times, accepted, strategy, valid, task.clock, report.start
            )
            late, missed, after = result.late, result.missed, result.state
            windows = getattr(task.config.strategy, "preceding", ())
            if windows:
                after.memory = remember(windows, state.memory, arguments(batch, windows, accepted))
        after.next_offset = placed.next_offset(state.next_offset)
        report.state = after
        self._write(batch, placed, accepted, late, missed)

    def _write(
        self,
        batch: pa.RecordBatch,
        placed: Placed,
        accepted: np.ndarray,
        late: np.ndarray,
        missed: np.ndarray,
    ) -> None:
        task = self.task
        outcome = np.where(accepted, np.where(late, _LATE, _ON_TIME), _REJECTED)
        columns = {
            name: batch.column(name)
            for name in batch.schema.names
            if name not in ("_strategy", "_offset", "_reason") and not name.startswith("_argument_")
        }
        columns["_outcome"] = pa.DictionaryArray.from_arrays(pa.array(outcome.astype(np.int8)), _OUTCOMES)
        columns["_offset"] = pa.array(placed.offsets, mask=~placed.known)
        columns["_reason"] = placed.reasons
        if "_arrival" not in columns:
            columns["_arrival"] = pa.repeat(pa.scalar(task.arrived, _ARRIVAL), batch.num_rows)
        columns["_epoch"] = pa.array(np.full(batch.num_rows, task.epoch, dtype=np.int64))
        # Of every row, not only of the late ones: nobody could compute CURRENT_WATERMARK afterwards (W14).
        kind = task.target.schema.field("_wm").type
        known_mark = missed != UNDEFINED
        wm = pa.array(np.where(known_mark, missed, 0), mask=~known_mark)
        columns["_wm"] = wm.cast(pa.int32()).cast(kind) if pa.types.is_date(kind) else wm.cast(kind)
        self.writer.add(pa.table(columns))
