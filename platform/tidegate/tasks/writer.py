"""Parquet files for Iceberg, written by pyarrow inside a Spark task. Executor side: numpy and pyarrow only.

A task returns only descriptions of its files; the driver commits them (`commit.py`). A retried or speculative
task leaves files that nobody commits: orphans, never duplicates.
"""

from __future__ import annotations

import json
import uuid
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow.fs import FileSystem

from tidegate.s3_files import repeated
from tidegate.tasks.transfer import Job, texts_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tidegate.tasks.transfer import Task

#: Rows are held back until this many bytes and then written as one row group per target file.
BUFFER_BYTES = 48 << 20
#: Rows of a row group at most: who wants some minutes of a large file reads no more than groups of so many.
_GROUP_ROWS = 1 << 18
_DAY_US = 86_400_000_000


@dataclass(frozen=True)
class WriteTarget:
    """Where and how a table's files are written; made on the driver, pickled into the tasks.

    `schema` carries Iceberg's field ids; `split` names the identity-partition column; `day` the column whose
    UTC day is the second partition field (None: there is none); `bounds` the columns whose minimum and maximum
    go into the manifest, so that Iceberg can skip files.
    """

    filesystem: FileSystem
    data_path: str  # for the file system
    data_uri: str  # for Iceberg
    schema: pa.Schema
    split: str
    day: str | None
    bounds: tuple[str, ...]

    def field_id(self, column: str) -> int:
        """Iceberg's id of a column."""
        return int(self.schema.field(column).metadata[b"PARQUET:field_id"])


@dataclass
class _Open:
    name: str
    partition: tuple[Any, int | None]
    writer: pq.ParquetWriter
    rows: int = 0
    bounds: dict[str, tuple[int, int]] = field(default_factory=dict)


class FileWriter:
    """Collects tables, splits them by (`split`, day) and writes one file for each combination that occurs."""

    def __init__(self, target: WriteTarget, buffer: int = BUFFER_BYTES) -> None:
        self._target, self._buffer = target, buffer
        self._pending: dict[tuple[Any, int | None], list[pa.Table]] = defaultdict(list)
        self._bytes = 0
        self._open: dict[tuple[Any, int | None], _Open] = {}

    def add(self, table: pa.Table) -> None:
        """`table`: any subset of the target's columns by name; missing ones are read back as NULL."""
        if table.num_rows:
            for key, rows in self._split(self._conform(table)):
                self._pending[key].append(rows)
        self._bytes += table.nbytes
        if self._bytes >= self._buffer:
            self._flush()

    def close(self) -> list[dict[str, Any]]:
        """Finish all files; their descriptions: uri, rows, bytes, partition, bounds."""
        self._flush()
        done = []
        for file in self._open.values():
            file.writer.close()
            info = self._target.filesystem.get_file_info(f"{self._target.data_path}/{file.name}")
            split, day = file.partition
            done.append(
                {
                    "uri": f"{self._target.data_uri}/{file.name}",
                    "rows": file.rows,
                    "bytes": info.size,
                    "split": split,
                    "day": day,
                    "bounds": {k: list(v) for k, v in file.bounds.items()},
                }
            )
        return done

    def abandon(self) -> None:
        """Leave nothing of what was written."""
        for file in self._open.values():
            file.writer.close()
            self._target.filesystem.delete_file(f"{self._target.data_path}/{file.name}")

    def _conform(self, table: pa.Table) -> pa.Table:
        fields = [f for f in self._target.schema if f.name in table.column_names]
        # What comes with a dictionary is written with it, and is plain text to whoever reads it.
        fields = [
            f.with_type(t) if pa.types.is_dictionary(t := table.field(f.name).type) else f for f in fields
        ]
        return table.select([f.name for f in fields]).cast(pa.schema(fields))

    def _split(self, table: pa.Table) -> Iterator[tuple[tuple[Any, int | None], pa.Table]]:
        """The rows of each file, in their order. Batch by batch: large copies cost fresh memory every time."""
        split = table.column(self._target.split).combine_chunks()
        if not pa.types.is_dictionary(split.type):
            split = split.dictionary_encode()
        code = np.asarray(split.indices.fill_null(-1), dtype=np.int64)
        day = self._days(table)
        order = _together(code, day)
        if order is not None:
            table, code, day = table.take(pa.array(order)), code[order], day[order]
        cuts = np.flatnonzero((np.diff(code) != 0) | (np.diff(day) != 0)) + 1
        names = split.dictionary.to_pylist()
        for start, end in zip([0, *cuts.tolist()], [*cuts.tolist(), len(code)], strict=True):
            value = names[code[start]] if code[start] >= 0 else None
            when = int(day[start])
            yield (value, None if when == _NO_DAY else when), table.slice(start, end - start)

    def _flush(self) -> None:
        """One row group for each file."""
        for key, tables in self._pending.items():
            self._write(key, pa.concat_tables(tables).unify_dictionaries())
        self._pending.clear()
        self._bytes = 0

    def _days(self, table: pa.Table) -> np.ndarray:
        if self._target.day is None or self._target.day not in table.column_names:
            return np.full(table.num_rows, _NO_DAY, dtype=np.int64)
        column = table.column(self._target.day).combine_chunks()
        days = (
            np.asarray(column.cast(pa.int32()).cast(pa.int64()).fill_null(0))
            if pa.types.is_date(column.type)
            else np.asarray(column.cast(pa.int64()).fill_null(0)) // _DAY_US
        )
        if column.null_count:
            days = np.where(np.asarray(column.is_null()), _NO_DAY, days)
        return days

    def _write(self, key: tuple[Any, int | None], table: pa.Table) -> None:
        file = self._open.get(key)
        if file is None:
            name = f"{uuid.uuid4().hex}.parquet"
            sink = f"{self._target.data_path}/{name}"
            repeating = [f.name for f in table.schema if _repeats(table.column(f.name))]
            encodings = {
                f.name: e for f in table.schema if (e := _encoding(f.type)) and f.name not in repeating
            }
            writer = pq.ParquetWriter(
                sink,
                table.schema,
                filesystem=self._target.filesystem,
                compression="zstd",
                compression_level=1,
                use_dictionary=repeating,
                column_encoding=encodings or None,
                store_schema=False,
            )
            file = self._open[key] = _Open(name, key, writer)
        file.writer.write_table(table, row_group_size=_GROUP_ROWS)
        file.rows += table.num_rows
        for name in self._target.bounds:
            if name not in table.column_names:
                continue
            low, high = pc.min_max(_as_integers(table.column(name))).values()
            if low.is_valid:
                seen = file.bounds.get(name, (low.as_py(), high.as_py()))
                file.bounds[name] = (min(seen[0], low.as_py()), max(seen[1], high.as_py()))


def run_task(work: DataFrame | Job, task: Task) -> list[Any]:
    """Run a gate or write task over a frame or a job; the reports of all Spark tasks, as the task makes them. The files
    of a try that S3 broke off are nobody's, as those of a task that Spark repeats."""
    # Bounded: a line for each task: its files (outcomes × days), and the states of the partitions it saw.
    texts = repeated(lambda: work.texts(task) if isinstance(work, Job) else texts_of(work, task))
    return [json.loads(text) for text in texts]


@dataclass(frozen=True)
class WriteTask:
    """Writes what reaches a task into the target's files and returns their descriptions (for `mapInArrow`).

    `counted`: a column that is true or false, and not written; `split` says of which rows it is counted: of those where
    it is false. The count is `counted` of one of their files."""

    target: WriteTarget
    counted: str | None = None

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        writer, count = FileWriter(self.target), 0
        for batch in batches:
            if batch.num_rows:
                writer.add(pa.Table.from_batches([batch]))
            if self.counted is not None:
                of_these = pc.invert(batch.column(self.target.split))
                count += pc.sum(pc.and_(batch.column(self.counted), of_these)).as_py() or 0
        files = writer.close()
        if count:
            next(file for file in files if file["split"] is False)["counted"] = count
        yield pa.RecordBatch.from_pydict({"report": [json.dumps(files)]})


#: Stands for "no day" among int64 day numbers.
_NO_DAY = np.iinfo(np.int64).min


#: A dictionary pays where so many of the first values are there twice.
_SAMPLE, _DISTINCT = 4096, 512


def _together(code: np.ndarray, day: np.ndarray) -> np.ndarray | None:
    """The order that brings each file's rows together and keeps their order inside it; None if they are."""
    known = day[day != _NO_DAY]
    first = int(known.min()) if len(known) else 0
    days = np.where(day == _NO_DAY, 0, day - first + 1)
    files = (code + 1) * (int(days.max()) + 1) + days
    if files.min() == files.max():
        return None
    # Of 16 bits numpy sorts by counting.
    small = files.max() < np.iinfo(np.int16).max
    return np.argsort(files.astype(np.int16) if small else files, kind="stable")


def _repeats(column: pa.ChunkedArray) -> bool:
    """Whether a column has few different values, as far as its first rows tell."""
    if pa.types.is_nested(column.type) or pa.types.is_boolean(column.type):
        return False
    if pa.types.is_dictionary(column.type):
        return True
    return bool(pc.count_distinct(column.slice(0, _SAMPLE), mode="all").as_py() <= _DISTINCT)


def _encoding(kind: pa.DataType) -> str | None:
    """What is smaller than plain values, and cheaper to compress."""
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return "DELTA_LENGTH_BYTE_ARRAY"
    whole = pa.types.is_int32(kind) or pa.types.is_int64(kind) or pa.types.is_timestamp(kind)
    return "DELTA_BINARY_PACKED" if whole or pa.types.is_date(kind) else None


def _as_integers(column: pa.ChunkedArray) -> pa.ChunkedArray:
    if pa.types.is_date(column.type):
        return column.cast(pa.int32())
    return column.cast(pa.int64())
