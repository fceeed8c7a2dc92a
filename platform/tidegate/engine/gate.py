"""The gate as a Spark operator: judge rows and write them to the log's files in the same task (W1-W5).

Executor side: numpy, pyarrow and tidegate's own pure rooms only. Moving wide rows out of Python again would cost
more than judging them, so a task returns one line: its files, and what each partition's watermark became.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.engine.writer import FileWriter, Target
from tidegate.watermark import GateConfig, GateState, judge, start_watermark

_OUTCOMES = pa.array(["on_time", "late", "rejected"])
_ON_TIME, _LATE, _REJECTED = 0, 1, 2


@dataclass
class PartitionReport:
    """What became of one source partition in one task: whether its offsets only increased, and its new state."""

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
    """

    config: GateConfig | None
    time_column: str | None
    published: int | None
    states: dict[str, GateState]
    epoch: int
    target: Target
    numbering: bool
    drop_repeats: bool
    has_strategy: bool

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        run = _Run(self)
        for batch in batches:
            if batch.num_rows:
                run.add(batch)
        report = run.finish()
        if report is not None:
            yield pa.RecordBatch.from_pydict({"report": [json.dumps(report)]})


@dataclass
class _Run:
    task: GateTask
    reports: dict[str, PartitionReport] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.writer = FileWriter(self.task.target)

    def add(self, batch: pa.RecordBatch) -> None:
        names = batch.column("_source_partition").dictionary_encode()
        partitions = names.dictionary.to_pylist()
        if len(partitions) == 1:
            self._judge(partitions[0], batch)
            return
        codes = np.asarray(names.indices)
        for code, partition in enumerate(partitions):
            self._judge(partition, batch.take(pa.array(np.flatnonzero(codes == code))))

    def finish(self) -> dict[str, Any] | None:
        files = self.writer.close()
        if not self.reports:
            return None
        return {"files": files, "partitions": {name: r.to_dict() for name, r in self.reports.items()}}

    def _judge(self, partition: str, batch: pa.RecordBatch) -> None:
        task, n = self.task, batch.num_rows
        report = self.reports.get(partition)
        if report is None:
            state = task.states.get(partition) or GateState(watermark=start_watermark(task.published))
            report = self.reports[partition] = PartitionReport(state)
        state = report.state
        offsets, known, reasons = self._offsets(batch, state, report)

        accepted = np.asarray(reasons.is_null())
        if task.config is None or task.time_column is None:
            late = np.zeros(n, dtype=bool)
            missed = np.zeros(n, dtype=np.int64)
            on_time = int(accepted.sum())
            after = replace(state, on_time=state.on_time + on_time, rejected=state.rejected + n - on_time)
        else:
            strategy = valid = None
            if task.has_strategy:
                column = batch.column("_strategy")
                strategy, valid = _integers(column), np.asarray(column.is_valid())
            times = _integers(batch.column(task.time_column))
            result = judge(task.config, state, task.published, times, accepted, strategy, valid)
            late, missed, after = result.late, result.missed, result.state
        if known.any():
            after.next_offset = max(state.next_offset, int(offsets[known].max()) + 1)
        report.state = after
        self._write(batch, offsets, known, accepted, late, missed, reasons)

    def _offsets(
        self, batch: pa.RecordBatch, state: GateState, report: PartitionReport
    ) -> tuple[np.ndarray, np.ndarray, pa.Array]:
        """Offsets, which of them are known, and the reasons with repeated offsets marked as rejected."""
        n, reasons = batch.num_rows, batch.column("_reason")
        if self.task.numbering:
            offsets = np.arange(state.next_offset, state.next_offset + n, dtype=np.int64)
            return offsets, np.ones(n, dtype=bool), reasons
        column = batch.column("_offset")
        offsets, known = _integers(column), np.asarray(column.is_valid())
        # The largest offset before each row: an offset must be beyond it.
        floor = np.maximum.accumulate(np.where(known, offsets, -1))
        before = np.concatenate(([state.next_offset - 1], np.maximum(floor[:-1], state.next_offset - 1)))
        repeated = known & (offsets <= before)
        bad = ~known
        if self.task.drop_repeats:
            bad |= repeated
        else:
            report.ordered = report.ordered and not repeated.any()
        if bad.any():
            marks = pc.if_else(pa.array(known), "offset_not_increasing", "null_offset")
            reasons = pc.if_else(pc.and_(pa.array(bad), reasons.is_null()), marks, reasons)
        return offsets, known, reasons

    def _write(
        self,
        batch: pa.RecordBatch,
        offsets: np.ndarray,
        known: np.ndarray,
        accepted: np.ndarray,
        late: np.ndarray,
        missed: np.ndarray,
        reasons: pa.Array,
    ) -> None:
        task = self.task
        outcome = np.where(accepted, np.where(late, _LATE, _ON_TIME), _REJECTED)
        columns = {
            name: batch.column(name)
            for name in batch.schema.names
            if name not in ("_strategy", "_offset", "_reason")
        }
        columns["_outcome"] = _OUTCOMES.take(pa.array(outcome))
        columns["_offset"] = pa.array(offsets, mask=~known)
        columns["_reason"] = reasons
        columns["_epoch"] = pa.array(np.full(batch.num_rows, task.epoch, dtype=np.int64))
        kind = task.target.schema.field("_wm").type
        wm = pa.array(missed, mask=~late)
        columns["_wm"] = wm.cast(pa.int32()).cast(kind) if pa.types.is_date(kind) else wm.cast(kind)
        self.writer.add(pa.table(columns))


def _integers(column: pa.Array) -> np.ndarray:
    """int64 of a timestamp (µs), date (days) or integer column; NULL is 0 and must be masked by the caller."""
    if pa.types.is_date(column.type):
        column = column.cast(pa.int32())
    return np.asarray(column.cast(pa.int64()).fill_null(0))
