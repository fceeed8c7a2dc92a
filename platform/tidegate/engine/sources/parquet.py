"""Parquet files read by pyarrow, inside a task: each row is what the format says, as the source declares it, or is
rejected with a reason (W5).

A value that its column can't hold exactly (`fitting`) rejects its row, and the row's values stand in its raw text. Rows
of a row group that can't be read to its end are rejected as well, as many as the footer counts. Executor side, but for
what makes a `Layout` or `Wanted`: numpy and pyarrow only.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow.fs import FileSystem

from tidegate.engine.sources.chunks import Chunk, chunks_of
from tidegate.engine.sources.fitting import TWICE, Misfits, find, fit
from tidegate.engine.sources.folders import constant, of_folders
from tidegate.engine.sources.raw_text import as_text
from tidegate.engine.sources.reasons import misfit, reasons, twice
from tidegate.watermark import Expression

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tidegate.sql.catalog import Column, Relation

#: Spark types of columns whose rows need not pass through the JVM.
_PLAIN = [
    "boolean",
    "int",
    "bigint",
    "float",
    "double",
    "string",
    "binary",
    "date",
    "timestamp",
    "timestamp_ntz",
]
_INTEGERS = ("int", "bigint")
_NAMES = (*_INTEGERS, "string")
#: Rows at a time: enough for numpy, and little memory beside what the writer holds back. Of wide rows fewer, so that
#: they have about so many bytes.
_ROWS, _BYTES = 65_536, 32 << 20
#: A column chunk that is larger is not read as a whole before its first row.
_CHUNK_BYTES, _READ_BYTES = 64 << 20, 8 << 20
#: Rows of a damaged row group that are rejected at most: its count may be damaged, too.
_MOST_LOST = 1 << 24
#: What a file that is no good Parquet makes of pyarrow. An OSError may also be the file system's.
DAMAGED = (pa.ArrowException, OSError, ValueError)


class Wanted(NamedTuple):
    """A declared column: its Arrow type, and its type as people wrote it."""

    name: str
    type: pa.DataType
    sql: str


def wanted_of(columns: Iterable[Column]) -> tuple[Wanted, ...]:
    """What a task must know of the declared columns. Driver side."""
    from pyspark.sql.pandas.types import to_arrow_type
    from pyspark.sql.types import DataType

    from tidegate.sql.types import display

    return tuple(Wanted(c.name, to_arrow_type(DataType.fromDDL(c.type)), display(c.type)) for c in columns)


@dataclass(frozen=True)
class Layout:
    """What the gate's tasks must know of a source: `columns` as (name, Spark type, nullable), and how rows get their
    place. A row that does not parse is in the partition `unknown` if columns say it."""

    columns: tuple[tuple[str, str, bool], ...]
    wanted: tuple[Wanted, ...]
    time_column: str | None
    partition_columns: tuple[str, ...]
    order_column: str | None
    changes: bool
    unknown: str

    @classmethod
    def of(
        cls, relation: Relation, partition_columns: Sequence[str] = (), order_column: str | None = None
    ) -> Layout:
        """Of a relation; the options name their columns in any case. Driver side."""
        from tidegate.store.status import UNKNOWN_PARTITION

        declared = {c.name.casefold(): c.name for c in relation.columns}
        return cls(
            columns=tuple((c.name, c.type, c.nullable) for c in relation.columns),
            wanted=wanted_of(relation.columns),
            time_column=relation.watermark.column if relation.watermark is not None else None,
            partition_columns=tuple(declared[name.casefold()] for name in partition_columns),
            order_column=declared[order_column.casefold()] if order_column else None,
            changes=bool(relation.primary_key),
            unknown=UNKNOWN_PARTITION,
        )

    @property
    def placing(self) -> tuple[Wanted, ...]:
        """The columns that say where a row stands."""
        names = {*self.partition_columns, self.order_column}
        return tuple(column for column in self.wanted if column.name in names)

    @property
    def supported(self) -> bool:
        """Whether every column's type is read here, and so are those that say where a row stands."""
        types = {name: kind for name, kind, _ in self.columns}
        return (
            all(kind in _PLAIN for kind in types.values())
            and all(types[name] in _NAMES for name in self.partition_columns)
            and (self.order_column is None or types[self.order_column] in _INTEGERS)
        )


def layout_of(
    relation: Relation, partition_columns: Sequence[str] = (), order_column: str | None = None
) -> Layout | None:
    """How the gate's tasks read the relation's files; None where something of its rows is Spark's to compute."""
    computed = any(c.generated is not None for c in relation.columns)
    strategy = relation.watermark.strategy if relation.watermark is not None else None
    if relation.format is None or relation.format.encode != "parquet" or computed:
        return None
    layout = Layout.of(relation, partition_columns, order_column)
    return None if isinstance(strategy, Expression) or not layout.supported else layout


@dataclass(frozen=True)
class Unit:
    """One file for a task. `partition`: of all its rows; None if columns say it. `uri`: as Spark would name it."""

    path: str
    partition: str | None = None
    uri: str = ""


class Rows(NamedTuple):
    """Consecutive rows of one file, from row `first` on: the wanted columns; `raw`, the text of a row that is rejected;
    and `why` it is."""

    first: int
    columns: dict[str, pa.Array]
    raw: pa.Array
    why: pa.Array

    def __len__(self) -> int:  # type: ignore[override]
        return len(self.why)


@dataclass(frozen=True)
class ParquetReader:
    """Turns numbers of `tasks` into the gate's input (`shape.gate_input`); a task's files come in their order.

    `arrival`: µs since the epoch, UTC.
    """

    filesystem: FileSystem
    layout: Layout
    tasks: tuple[tuple[Unit, ...], ...]
    arrival: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for unit in _units(batches, self.tasks):
            for rows in read_rows(self.filesystem, unit.path, self.layout.wanted):
                yield self._shaped(rows, unit)

    def _shaped(self, rows: Rows, unit: Unit) -> pa.RecordBatch:
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
        out["_arrival"] = pa.array(np.full(n, self.arrival)).cast(pa.timestamp("us", tz="UTC"))
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

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for unit in _units(batches, self.tasks):
            path = quote(unit.uri, safe="/:")
            for rows in read_rows(self.filesystem, unit.path, self.wanted):
                number = pa.array(np.arange(rows.first, rows.first + len(rows)))
                arrays = [rows.columns[column.name] for column in self.wanted]
                arrays += [rows.raw, rows.why, pa.repeat(path, len(rows)), number]
                yield pa.RecordBatch.from_arrays(arrays, names=[f"c{i}" for i in range(len(arrays))])


def read_rows(filesystem: FileSystem, path: str, wanted: Sequence[Wanted]) -> Iterator[Rows]:
    """The rows of one file, in their order. A wanted column that the file does not have is told by its folders
    (`day=2026-01-01`). Raises an OSError of the file system's, and `DAMAGED` for a file without a good footer."""
    with ExitStack() as opened:
        file = opened.enter_context(open_file(filesystem, path))
        encoded, buffer = way_to_read(file, chunks_of(filesystem, path), [w.name for w in wanted])
        if encoded or buffer:
            file = opened.enter_context(open_file(filesystem, path, file.metadata, encoded, buffer))
        stored, first = _Stored(file, path, wanted), 0
        for group in range(file.metadata.num_row_groups):
            rows, done = file.metadata.row_group(group).num_rows, 0
            batches = stored.batches(group)
            while True:
                try:
                    part = next(batches, None)
                except DAMAGED:
                    still_there(filesystem, path)
                    break
                if part is None:
                    break
                yield stored.fitted(part, first + done)
                done += part.num_rows
            if done < rows:
                yield from _lost(first + done, rows - done, wanted, stored.damage(group))
            first += rows


def way_to_read(
    file: pq.ParquetFile, chunks: Sequence[Sequence[Chunk]], wanted: Sequence[str]
) -> tuple[list[str], int]:
    """Of the wanted columns those that are better read as their dictionaries, for a value that a dictionary has once
    may stand in a million rows; and how many bytes at a time are read of a column (0: a whole row group's)."""
    names = {name.casefold() for name in wanted}
    texts = {f.name for f in file.schema_arrow if f.name.casefold() in names and _has_lengths(f.type)}
    every = [chunk for group in chunks for chunk in group]
    large = any(chunk.compressed > _CHUNK_BYTES for chunk in every)
    return sorted(
        {c.path for c in every if c.path in texts and _mostly_dictionary(c)}
    ), _READ_BYTES if large else 0


class _Stored:
    """A file that is open, and where in it the wanted columns are."""

    def __init__(self, file: pq.ParquetFile, path: str, wanted: Sequence[Wanted]) -> None:
        self._file, self._wanted, names = file, wanted, file.schema_arrow.names
        self._places = {w.name: find(names, w.name) for w in wanted}
        folders = of_folders(path)
        self._constants = {
            w.name: constant(w.type, folders[w.name.casefold()])
            for w in wanted
            if self._places[w.name] is None
        }
        self._names = [names[i] for i in self._places.values() if i is not None and i != TWICE]

    def batches(self, group: int) -> Iterator[pa.RecordBatch]:
        """The stored columns of a row group, some rows at a time."""
        metadata = self._file.metadata.row_group(group)
        rows = metadata.num_rows
        if not self._names:
            for start in range(0, rows, _ROWS):
                none = pa.nulls(min(_ROWS, rows - start))
                yield pa.RecordBatch.from_arrays([none], names=["_"])
            return
        size = max(1, min(_ROWS, _BYTES * max(rows, 1) // max(metadata.total_byte_size, 1)))
        for batch in self._file.iter_batches(
            size, row_groups=[group], columns=self._names, use_threads=False
        ):
            yield from _in_bounds(batch)

    def fitted(self, batch: pa.RecordBatch, first: int) -> Rows:
        """Rows of the file as the wanted columns."""
        n, names = batch.num_rows, batch.schema.names
        why = pa.nulls(n, pa.string())
        columns: dict[str, pa.Array] = {}
        bad: Misfits = None
        for column in self._wanted:
            place = self._places[column.name]
            misfits: Misfits = None
            if place == TWICE:
                array, misfits = pa.nulls(n, column.type), np.ones(n, dtype=bool)
            elif place is None:
                value = self._constants[column.name]
                array = pa.nulls(n, column.type) if value is None else pa.repeat(value, n)
                misfits = np.ones(n, dtype=bool) if value is None else None
            else:
                stored = names.index(self._file.schema_arrow.names[place])
                array, misfits = fit(batch.column(stored), column.type)
            columns[column.name] = array
            if misfits is not None:
                # The first column that does not fit is named.
                reason = twice(column.name) if place == TWICE else misfit(column.name, column.sql)
                why = pc.if_else(pc.and_(pa.array(misfits), why.is_null()), reason, why)
                bad = misfits if bad is None else bad | misfits
        raw = pa.nulls(n, pa.string())
        if bad is not None:
            places = np.flatnonzero(bad)
            texts = pa.array([as_text(batch, int(row)) for row in places], pa.string())
            raw = pc.replace_with_mask(raw, pa.array(bad), texts)
        return Rows(first, columns, raw, why)

    def damage(self, group: int) -> str:
        """What is wrong with a row group that can't be read."""
        for name in self._names:
            try:
                for _ in self._file.iter_batches(
                    _ROWS, row_groups=[group], columns=[name], use_threads=False
                ):
                    pass
            except DAMAGED:
                return f'unreadable: column "{name}" is damaged in row group {group}'
        return f"unreadable: row group {group} is damaged"


def _units(batches: Iterator[pa.RecordBatch], tasks: tuple[tuple[Unit, ...], ...]) -> Iterator[Unit]:
    for batch in batches:
        for task in batch.column(0).to_pylist():
            yield from tasks[task]


def _lost(first: int, rows: int, wanted: Sequence[Wanted], why: str) -> Iterator[Rows]:
    """Rows that can't be read."""
    until = first + min(rows, _MOST_LOST)
    for start in range(first, until, _ROWS):
        n = min(_ROWS, until - start)
        # Nothing of them is known, but that they are no rows.
        raw, nothing = pa.repeat("", n), {w.name: pa.nulls(n, w.type) for w in wanted}
        yield Rows(start, nothing, raw, pa.repeat(why, n))


def still_there(filesystem: FileSystem, path: str) -> None:
    """Raises an OSError if it is the file system that does not answer."""
    with filesystem.open_input_stream(path) as stream:
        while stream.read(_READ_BYTES):
            pass


def _in_bounds(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """The batch in parts that are not too large once their dictionaries are written out. Raises ArrowIndexError for a
    value that its dictionary does not have."""
    sizes = np.zeros(batch.num_rows, dtype=np.int64)
    for column in batch.columns:
        if pa.types.is_dictionary(column.type):
            lengths = pc.binary_length(column.dictionary).cast(pa.int64())
            sizes += np.asarray(lengths.take(column.indices).fill_null(0))
    part = np.cumsum(sizes) // _BYTES
    cuts = [0, *(np.flatnonzero(np.diff(part)) + 1).tolist(), batch.num_rows]
    for start, end in pairwise(cuts):
        yield batch.slice(start, end - start)


def _mostly_dictionary(chunk: Chunk) -> bool:
    if not chunk.dictionary:
        return False
    dictionary = chunk.data - chunk.dictionary
    return chunk.uncompressed <= 8 * chunk.values or 4 * dictionary >= chunk.compressed


def _has_lengths(kind: pa.DataType) -> bool:
    return any(
        is_kind(kind)
        for is_kind in (
            pa.types.is_string,
            pa.types.is_large_string,
            pa.types.is_binary,
            pa.types.is_large_binary,
        )
    )


def open_file(
    filesystem: FileSystem,
    path: str,
    metadata: pq.FileMetaData | None = None,
    dictionaries: Sequence[str] = (),
    buffer: int = 0,
) -> pq.ParquetFile:
    """A Parquet file; close it. `dictionaries`: columns that stay encoded. `buffer`: bytes at a time, 0: a column of a
    row group."""
    return pq.ParquetFile(
        path,
        filesystem=filesystem,
        metadata=metadata,
        read_dictionary=dictionaries or None,
        buffer_size=buffer,
        pre_buffer=False,
        # Old times of Spark's and Impala's: nanoseconds can't hold the year 9999.
        coerce_int96_timestamp_unit="us",
        page_checksum_verification=True,
    )


def partitions_of(rows: Rows, layout: Layout) -> pa.Array:
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
