"""Where rows stand in their partition, as every operator before the log must see it. Executor side."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc


class Placed(NamedTuple):
    """`offsets` int64[n], meaningful where `known` bool[n]. `reasons`: why rows are rejected, those of bad offsets
    included. `ordered`: whether offsets only increased, or repetitions were rejected."""

    offsets: np.ndarray
    known: np.ndarray
    reasons: pa.Array
    ordered: bool

    def next_offset(self, before: int) -> int:
        """The first offset not read yet, after these rows."""
        return max(before, int(self.offsets[self.known].max()) + 1) if self.known.any() else before


def place(batch: pa.RecordBatch, next_offset: int, numbering: bool, drop_repeats: bool) -> Placed:
    """The offsets of consecutive rows of one partition; `numbering` and `drop_repeats` as in `GateTask`."""
    n, reasons = batch.num_rows, batch.column("_reason")
    if numbering:
        offsets = np.arange(next_offset, next_offset + n, dtype=np.int64)
        return Placed(offsets, np.ones(n, dtype=bool), reasons, True)
    column = batch.column("_offset")
    offsets, known = integers(column), np.asarray(column.is_valid())
    # The largest offset before each row: an offset must be beyond it.
    floor = np.maximum.accumulate(np.where(known, offsets, -1))
    before = np.concatenate(([next_offset - 1], np.maximum(floor[:-1], next_offset - 1)))
    repeated = known & (offsets <= before)
    bad = ~known | repeated if drop_repeats else ~known
    if bad.any():
        marks = pc.if_else(pa.array(known), "offset_not_increasing", "null_offset")
        reasons = pc.if_else(pc.and_(pa.array(bad), reasons.is_null()), marks, reasons)
    return Placed(offsets, known, reasons, drop_repeats or not repeated.any())


def integers(column: pa.Array) -> np.ndarray:
    """int64 of a timestamp (µs), date (days) or integer column; NULL is 0 and must be masked by the caller."""
    if pa.types.is_date(column.type):
        column = column.cast(pa.int32())
    return np.asarray(column.cast(pa.int64()).fill_null(0))


def by_partition(batch: pa.RecordBatch) -> list[tuple[str, np.ndarray | None]]:
    """The partitions of a batch, each with the indices of its rows in their order; None: all of them."""
    names = batch.column("_source_partition").dictionary_encode()
    partitions = names.dictionary.to_pylist()
    if len(partitions) == 1:
        return [(partitions[0], None)]
    codes = np.asarray(names.indices)
    return [(partition, np.flatnonzero(codes == code)) for code, partition in enumerate(partitions)]
