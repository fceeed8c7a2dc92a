"""Rows as JSON lines, CSV or Parquet files, written inside Spark tasks. Executor side: pyarrow only.

Spark turns rows into text (types, NULLs and quoting are its own); a task puts lines into a file.
"""

from __future__ import annotations

import csv
import io
import json
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow.fs import FileSystem

from tidegate.iceberg.layout import quote

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from tidegate.sql.options.formats import Format

#: ISO 8601 with all digits that a time has; Spark's own default leaves out microseconds.
_TIMESTAMPS = {
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}


def encoded(rows: DataFrame, form: Format) -> DataFrame:
    """One column of text lines for JSON and CSV; the rows themselves for Parquet."""
    from pyspark.sql import functions as F

    if form.encode == "parquet":
        return rows
    if form.encode == "json":
        return rows.select(as_json(rows.columns, form).alias("line"))
    options = _times(form) | {"sep": _delimiter(form), "nullValue": form.options.get("null_value", "")}
    return rows.select(F.to_csv(_whole(rows.columns), options).alias("line"))


def as_json(names: Sequence[str], form: Format) -> Column:
    """The columns of these names as one JSON object: every one of them, NULL as null, a DECIMAL with all its digits."""
    from pyspark.sql import functions as F

    return F.to_json(_whole(names), _times(form) | {"ignoreNullFields": "false"})


def _whole(names: Sequence[str]) -> Column:
    from pyspark.sql import functions as F

    return F.struct(*[F.col(quote(name)) for name in names])


def _times(form: Format) -> dict[str, str]:
    given = form.options.get("timestamp_format")
    return dict.fromkeys(_TIMESTAMPS, given) if given else dict(_TIMESTAMPS)


@dataclass(frozen=True)
class EncodeTask:
    """Writes what reaches a task into one file below `folder` and returns what it wrote (for `run_task`): `name`,
    number of `rows`, and of the `task`, which are in the order of the rows. A task without rows writes none. Outside of
    Spark there is one task.

    `head`: what a file of lines starts with; None for Parquet.
    """

    filesystem: FileSystem
    folder: str
    head: bytes | None

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        name, rows = uuid.uuid4().hex, 0
        filled = (batch for batch in batches if batch.num_rows)
        first = next(filled, None)
        if first is not None:
            path = f"{self.folder}/{name}"
            with self.filesystem.open_output_stream(path) as stream:
                write = self._parquet if self.head is None else self._lines
                rows = write(stream, first, filled)
        report = {"name": name, "rows": rows, "task": 0 if context is None else context.partitionId()}
        yield pa.RecordBatch.from_pydict({"report": [json.dumps(report)]})

    def _parquet(self, stream: pa.NativeFile, first: pa.RecordBatch, rest: Iterator[pa.RecordBatch]) -> int:
        with pq.ParquetWriter(stream, first.schema, compression="zstd") as writer:
            writer.write_batch(first)
            rows: int = first.num_rows
            for batch in rest:
                writer.write_batch(batch)
                rows += batch.num_rows
        return rows

    def _lines(self, stream: pa.NativeFile, first: pa.RecordBatch, rest: Iterator[pa.RecordBatch]) -> int:
        stream.write(self.head or b"")
        rows = 0
        for batch in (first, *rest):
            stream.write(("\n".join(batch.column(0).to_pylist()) + "\n").encode())
            rows += batch.num_rows
        return rows


def head(names: list[str], form: Format) -> bytes | None:
    """What a file of such columns starts with: CSV with their names, unless it is to have none."""
    if form.encode == "parquet":
        return None
    if form.encode == "json" or form.options.get("without_header") == "true":
        return b""
    text = io.StringIO()
    csv.writer(text, delimiter=_delimiter(form), lineterminator="\n").writerow(names)
    return text.getvalue().encode()


def _delimiter(form: Format) -> str:
    return form.options.get("delimiter", ",")
