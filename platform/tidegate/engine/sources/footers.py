"""Footers of Parquet files, looked at where there is time for it. Executor side, too: pyarrow only."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow.fs import FileSystem

from tidegate.engine.sources.parquet import Layout, open_file, partition_names, plain, stored_names


@dataclass(frozen=True)
class Finding:
    """`path` is no Parquet file (`error` says why), or has only the columns `present`; or, with neither, it is one that
    Spark has to read."""

    path: str
    error: str | None = None
    present: list[str] | None = None


@dataclass(frozen=True)
class Footers:
    """Finds the first file, among paths of `filesystem`, that is broken or lacks a column of `wanted`, and the first
    that is not `plain` (None: none is)."""

    filesystem: FileSystem
    wanted: tuple[str, ...]
    layout: Layout | None = None

    def __call__(self, paths: Iterable[str]) -> Iterator[Finding]:
        told = False
        for path in paths:
            try:
                schema = pq.read_schema(path, filesystem=self.filesystem)
            except pa.ArrowInvalid as error:
                yield Finding(path, error=str(error))
                return
            if not {name.casefold() for name in self.wanted} <= {name.casefold() for name in schema.names}:
                yield Finding(path, present=schema.names)
                return
            if not told and not (self.layout is not None and plain(self.layout, schema)):
                told = True
                yield Finding(path)


@dataclass(frozen=True)
class Content:
    """What a file holds: its rows, and of each source partition in it the lowest and the highest offset ((0, -1) if it
    has no offset)."""

    path: str
    rows: int
    ranges: dict[str, tuple[int, int]] = field(default_factory=dict)


@dataclass(frozen=True)
class Survey:
    """Finds the content of files whose columns say partition and order; None for one that Spark has to read."""

    filesystem: FileSystem
    layout: Layout

    def __call__(self, paths: Iterable[str]) -> Iterator[Content | None]:
        for path in paths:
            try:
                with open_file(self.filesystem, path) as file:
                    if not plain(self.layout, file.schema_arrow):
                        yield None
                        continue
                    content = Content(path, file.metadata.num_rows)
                    if not self._from_statistics(file, content):
                        content.ranges.clear()
                        self._from_rows(file, content)
                    yield content
            except pa.ArrowInvalid:
                # Said with its reason when the file's turn comes.
                yield None

    def _from_statistics(self, file: pq.ParquetFile, content: Content) -> bool:
        """Whether the footer says all: each row group is of one partition. Of text the bounds may be cut short."""
        layout = self.layout
        names = stored_names(file.schema_arrow, layout.placing)
        order = names[layout.order_column] if layout.order_column else None
        for number in range(file.metadata.num_row_groups):
            group = file.metadata.row_group(number)
            bounds = {}
            for column in (group.column(i) for i in range(group.num_columns)):
                found = column.statistics
                if column.path_in_schema in names.values() and found is not None and found.has_min_max:
                    bounds[column.path_in_schema] = (found.min, found.max, found.null_count)
            values = []
            for name in layout.partition_columns:
                low, high, nulls = bounds.get(names[name], (None, None, None))
                if not isinstance(low, int) or low != high or nulls != 0:
                    return False
                values.append(pa.array([low]))
            if order is not None and order not in bounds:
                return False
            low, high = bounds[order][:2] if order is not None else (0, 0)
            _widen(content.ranges, partition_names(values)[0].as_py(), low, high)
        return True

    def _from_rows(self, file: pq.ParquetFile, content: Content) -> None:
        layout = self.layout
        names = stored_names(file.schema_arrow, layout.placing)
        for batch in file.iter_batches(columns=list(names.values()), use_threads=False):
            partitions = partition_names(batch.column(names[c]) for c in layout.partition_columns)
            offsets = (
                batch.column(names[layout.order_column]).cast(pa.int64())
                if layout.order_column
                else pa.array([0] * batch.num_rows, pa.int64())
            )
            table = pa.table({"partition": partitions, "offset": offsets})
            bounds = table.group_by("partition", use_threads=False).aggregate([("offset", "min_max")])
            for row in bounds.to_pylist():
                both = row["offset_min_max"]
                low, high = (0, -1) if both["min"] is None else (both["min"], both["max"])
                _widen(content.ranges, row["partition"], low, high)


def _widen(ranges: dict[str, tuple[int, int]], partition: str, low: int, high: int) -> None:
    known = ranges.get(partition)
    if known is None or known[1] < known[0]:
        ranges[partition] = (low, high)
    elif high >= low:
        ranges[partition] = (min(known[0], low), max(known[1], high))
