"""Windows over the preceding rows of a partition inside a strategy (W11), computed before Spark evaluates the rest.

The operator passes every row on with the windows' values beside it. It reads the rows as the gate after it does, in
the same task and the same order, so both see the same rows as rejected.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from tidegate.tasks.memories import MemoryFiles, MemoryReader
from tidegate.tasks.offsets import by_partition, integers, place
from tidegate.tasks.transfer import departing, map_in_arrow
from tidegate.watermark import GateState, PrecedingRows, preceding_column
from tidegate.watermark.memory import StrategyMemory
from tidegate.watermark.preceding import Values, over, recall, remember

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_ARROW = {
    "bigint": pa.int64(),
    "double": pa.float64(),
    "timestamp_ntz": pa.timestamp("us"),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "date": pa.date32(),
}


def argument_column(index: int) -> str:
    """Column with the argument of the window of this index."""
    return f"_argument_{index}"


def arguments(
    batch: pa.RecordBatch, windows: tuple[PrecedingRows, ...], accepted: np.ndarray
) -> list[Values]:
    """The arguments of the rows that are judged, as numbers."""
    out = []
    for index, window in enumerate(windows):
        column = batch.column(argument_column(index))
        valid = np.asarray(column.is_valid())
        numbers = np.asarray(column.fill_null(0)) if window.is_float else integers(column)
        out.append(Values(numbers, valid).take(accepted))
    return out


@dataclass(frozen=True)
class PrecedingTask:
    """Called by `mapInArrow` in every task of a batch; all but `windows` as in `GateTask`."""

    windows: tuple[PrecedingRows, ...]
    states: dict[str, GateState]
    memories: MemoryFiles
    numbering: bool
    drop_repeats: bool

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        places: dict[str, tuple[int, StrategyMemory | None]] = {}
        memories = self.memories.reader()
        for batch in batches:
            results = [
                Values(np.zeros(batch.num_rows, _number(w.result_type)), np.zeros(batch.num_rows, dtype=bool))
                for w in self.windows
            ]
            for partition, rows in by_partition(batch):
                own = batch if rows is None else batch.take(pa.array(rows))
                self._partition(
                    partition,
                    own,
                    np.arange(own.num_rows) if rows is None else rows,
                    places,
                    memories,
                    results,
                )
            columns = [_arrow(r, w.result_type) for r, w in zip(results, self.windows, strict=True)]
            names = [preceding_column(i) for i in range(len(columns))]
            yield pa.RecordBatch.from_arrays([*batch.columns, *columns], [*batch.schema.names, *names])

    def _partition(
        self,
        partition: str,
        batch: pa.RecordBatch,
        rows: np.ndarray,
        places: dict[str, tuple[int, StrategyMemory | None]],
        memories: MemoryReader,
        results: list[Values],
    ) -> None:
        """Fill in the results at `rows`, and go on in the partition's memory."""
        if partition not in places:
            state = memories.recall(partition, self.states.get(partition) or GateState())
            places[partition] = (state.next_offset, state.memory)
        next_offset, memory = places[partition]
        placed = place(batch, next_offset, self.numbering, self.drop_repeats)
        accepted = np.asarray(placed.reasons.is_null())
        judged = arguments(batch, self.windows, accepted)
        known = recall(self.windows, memory)
        for window, before, values, result in zip(self.windows, known, judged, results, strict=True):
            found = over(window, before, values)
            result.numbers[rows[accepted]] = found.numbers
            result.valid[rows[accepted]] = found.valid
        places[partition] = (placed.next_offset(next_offset), remember(self.windows, memory, judged))


@dataclass(frozen=True)
class _Renamed:
    """Its batches leave as they came (`transfer.py`), with numbers for names."""

    task: PrecedingTask

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in self.task(b for b in batches if b.num_rows):
            yield batch.rename_columns([f"c{i}" for i in range(batch.num_columns)])


def add_preceding(frame: DataFrame, task: PrecedingTask) -> DataFrame:
    """The frame with a column for each window."""
    from pyspark.sql.types import StructField, StructType

    numbered = [StructField(f"c{i}", f.dataType) for i, f in enumerate(frame.schema)]
    results = ", ".join(f"c{len(frame.columns) + i} {w.result_type}" for i, w in enumerate(task.windows))
    added = StructType.fromDDL(results)
    assert isinstance(added, StructType)
    plain, arriving = departing(frame, _Renamed(task))
    out = map_in_arrow(plain, arriving, StructType([*numbered, *added.fields]))
    return out.toDF(*frame.columns, *[preceding_column(i) for i in range(len(task.windows))])


def _number(type_: str) -> type:
    return np.float64 if type_ == "double" else np.int64


def _arrow(values: Values, type_: str) -> pa.Array:
    column = pa.array(values.numbers, mask=~values.valid)
    return column.cast(pa.int32()).cast(_ARROW[type_]) if type_ == "date" else column.cast(_ARROW[type_])
