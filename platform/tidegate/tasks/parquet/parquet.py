"""Parquet files read by pyarrow, inside a task: each row is what the format says, as the source declares it, or is
rejected with a reason (W5).

A value that its column can't hold exactly (`fitting`) rejects its row, and the row's values stand in its raw text. Rows
of a row group that can't be read to its end are rejected as well, as many as the footer counts. Executor side, but for
what makes a `Layout` or `Wanted`: numpy and pyarrow only.

The one reader of users' files, also where Spark gets the rows. What tidegate wrote itself is read without it, since
there is nothing to reject and no limit to hold: logs by panes (`tasks/panes.py`) and by Spark, their progress files by
`iceberg/progress.py` (all that the next batch needs) and `store/metadata.py` (what is shown, also of earlier releases).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import quote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow.fs import FileSystem

from tidegate.plan.crashes import SPARED
from tidegate.tasks.decode.columns import Wanted
from tidegate.tasks.decode.limits import STANDARD, Limits
from tidegate.tasks.decode.reasons import CRASHED, reasons
from tidegate.tasks.decode.tasks import of_tasks
from tidegate.tasks.parquet.chunks import footer_of
from tidegate.tasks.parquet.parquet_layout import Layout
from tidegate.tasks.parquet.row_groups import OpenParquetFile, ParquetRows, lost

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True)
class Unit:
    """One file for a task. `partition`: of all its rows; None if columns say it. `uri`: as Spark would name it.
    `crashed`: rows that no decoder may see, as (from, until), or `SPARED`."""

    path: str
    partition: str | None = None
    uri: str = ""
    crashed: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True)
class ParquetReader:
    """Turns numbers of `tasks` into the gate's input (`shape.gate_input`); a task's files come in their order.

    `at_most`: rows at a time.
    """

    filesystem: FileSystem
    layout: Layout
    tasks: tuple[tuple[Unit, ...], ...]
    limits: Limits = STANDARD
    at_most: int | None = None

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        given = self.layout.wanted, self.limits
        for unit in of_tasks(batches, self.tasks):
            for rows in read_rows(self.filesystem, unit.path, *given, unit.crashed, self.at_most):
                yield self._shaped(rows, unit)

    def _shaped(self, rows: ParquetRows, unit: Unit) -> pa.RecordBatch:
        layout, n = self.layout, len(rows)
        out = dict(rows.columns)
        if layout.changes:
            out["_op"] = pa.array(["upsert"] * n)
        if unit.partition is not None:
            code = pa.array(np.zeros(n, dtype=np.int8))
            out["_source_partition"] = pa.DictionaryArray.from_arrays(code, [unit.partition])
        else:
            out["_source_partition"] = partitions_of(rows, layout)
        order = layout.order_column
        out["_offset"] = pa.nulls(n, pa.int64()) if order is None else rows.columns[order].cast(pa.int64())
        out["_raw"] = rows.raw
        required = [name for name, _, nullable in self.layout.columns if not nullable]
        why = reasons(n, rows.columns, self.layout.time_column, required)
        out["_reason"] = pc.coalesce(rows.why, why) if rows.why.null_count < n else why
        return pa.RecordBatch.from_pydict(out)


@dataclass(frozen=True)
class ParquetFrame:
    """Turns numbers of `tasks` into the columns of a frame, by their places: those of `wanted`, then `_raw`, `_why`,
    `_path` (percent-encoded, as Spark has it) and `_row`."""

    filesystem: FileSystem
    wanted: tuple[Wanted, ...]
    tasks: tuple[tuple[Unit, ...], ...]
    limits: Limits = STANDARD
    at_most: int | None = None

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        given = self.wanted, self.limits
        for unit in of_tasks(batches, self.tasks):
            path = quote(unit.uri, safe="/:")
            for rows in read_rows(self.filesystem, unit.path, *given, unit.crashed, self.at_most):
                number = pa.array(np.arange(rows.first, rows.first + len(rows)))
                arrays = [rows.columns[column.name] for column in self.wanted]
                arrays += [rows.raw, rows.why, pa.repeat(path, len(rows)), number]
                yield pa.RecordBatch.from_arrays(arrays, names=[f"c{i}" for i in range(len(arrays))])


def read_rows(
    filesystem: FileSystem,
    path: str,
    wanted: Sequence[Wanted],
    limits: Limits = STANDARD,
    crashed: Sequence[tuple[int, int]] = (),
    at_most: int | None = None,
) -> Iterator[ParquetRows]:
    """The rows of one file, in their order. A wanted column that the file does not have is told by its folders
    (`day=2026-01-01`). `crashed`: rows that are rejected without a look, as (from, until), or `SPARED`. `at_most`: rows
    at a time. Raises an OSError of the file system's, and `DAMAGED` for a file without a good footer."""
    groups, first = footer_of(filesystem, path), 0
    with ExitStack() as opened:
        stored: OpenParquetFile | None = None
        for number, group in enumerate(groups):
            end = first + group.rows
            aside = [(max(a, first), min(b, end)) for a, b in crashed if a < end and b > first]
            if (first, end) in aside:
                # No process may have lived to open a file that is put aside as a whole.
                yield from lost(first, end, wanted, CRASHED)
            else:
                stored = stored or opened.enter_context(
                    OpenParquetFile(filesystem, path, wanted, limits, groups, SPARED in crashed)
                )
                yield from stored.rows(number, first, aside, at_most)
            first = end


def partitions_of(rows: ParquetRows, layout: Layout) -> pa.Array:
    """The source partition of each row, where columns say it."""
    names = partition_names(rows.columns[c] for c in layout.partition_columns)
    return pc.if_else(rows.why.is_null(), names, layout.unknown) if rows.why.null_count < len(rows) else names


def partition_names(columns: Iterable[pa.Array]) -> pa.Array:
    """The source partition of each row as text, as `shape.partition_name` gives it."""
    parts = [pc.fill_null(column.cast(pa.string()), "(null)") for column in columns]
    if len(parts) > 1:
        parts = [pc.replace_substring(pc.replace_substring(part, "%", "%25"), "/", "%2F") for part in parts]
        return pc.binary_join_element_wise(*parts, "/")
    return parts[0]
