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
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow.fs import FileSystem

from tidegate.tasks.decode.columns import Wanted
from tidegate.tasks.decode.fitting import TWICE, Misfits, find, fit
from tidegate.tasks.decode.folders import NULL_FOLDER, constant, of_folders
from tidegate.tasks.decode.limits import STANDARD, Limits
from tidegate.tasks.decode.opening import DAMAGED, still_there
from tidegate.tasks.decode.reasons import CRASHED, reasons, twice
from tidegate.tasks.decode.tasks import of_tasks
from tidegate.tasks.parquet.chunks import Chunk, RowGroup, footer_of
from tidegate.tasks.parquet.parquet_layout import Layout
from tidegate.tasks.parquet.parquet_limits import in_bounds, refusal, too_deep
from tidegate.tasks.parquet.parquet_text import row_text

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Rows at a time: enough for numpy, and little memory beside what the writer holds back. Of wide rows fewer, so that
#: they have about so many bytes.
_ROWS, _BYTES = 65_536, 32 << 20
#: A column chunk that is larger is not read as a whole before its first row.
_CHUNK_BYTES, _READ_BYTES = 64 << 20, 8 << 20
#: Rows of a damaged row group that are rejected at most: its count may be damaged, too.
_MOST_LOST = 1 << 24


@dataclass(frozen=True)
class Unit:
    """One file for a task. `partition`: of all its rows; None if columns say it. `uri`: as Spark would name it.
    `crashed`: rows that no decoder may see, as (from, until)."""

    path: str
    partition: str | None = None
    uri: str = ""
    crashed: tuple[tuple[int, int], ...] = ()


class ParquetRows(NamedTuple):
    """Consecutive rows of one file, from row `first` on: the wanted columns; `raw`, the text of a row that is rejected;
    and `why` it is."""

    first: int
    columns: dict[str, pa.Array]
    raw: pa.Array
    why: pa.Array

    def __len__(self) -> int:
        return len(self.why)


@dataclass(frozen=True)
class ParquetReader:
    """Turns numbers of `tasks` into the gate's input (`shape.gate_input`); a task's files come in their order.

    `arrival`: µs since the epoch, UTC. `at_most`: rows at a time.
    """

    filesystem: FileSystem
    layout: Layout
    tasks: tuple[tuple[Unit, ...], ...]
    arrival: int
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
    (`day=2026-01-01`). `crashed`: rows that are rejected without a look, as (from, until). `at_most`: rows at a
    time. Raises an OSError of the file system's, and `DAMAGED` for a file without a good footer."""
    groups, first = footer_of(filesystem, path), 0
    with ExitStack() as opened:
        stored: OpenParquetFile | None = None
        for number, group in enumerate(groups):
            end = first + group.rows
            aside = [(max(a, first), min(b, end)) for a, b in crashed if a < end and b > first]
            if (first, end) in aside:
                # No process may have lived to open a file that is put aside as a whole.
                yield from _lost(first, end, wanted, CRASHED)
            else:
                stored = stored or opened.enter_context(
                    OpenParquetFile(filesystem, path, wanted, limits, groups)
                )
                yield from stored.rows(number, first, aside, at_most)
            first = end


def way_to_read(
    file: pq.ParquetFile, groups: Sequence[RowGroup], wanted: Sequence[str]
) -> tuple[list[str], int]:
    """Of the wanted columns those that are better read as their dictionaries, for a value that a dictionary has once
    may stand in a million rows; and how many bytes at a time are read of a column (0: a whole row group's)."""
    names = {name.casefold() for name in wanted}
    columns = {f.name for f in file.schema_arrow if f.name.casefold() in names}
    # A footer may call its chunks otherwise than its schema does.
    there = {file.schema.column(i).path for i in range(len(file.schema))}
    every = [chunk for group in groups for chunk in group.chunks if chunk.column in columns]
    large = any(chunk.compressed > _CHUNK_BYTES for chunk in every)
    encoded = {c.path for c in every if c.has_lengths and _mostly_dictionary(c)} & there
    return sorted(encoded), _READ_BYTES if large else 0


class OpenParquetFile:
    """A file that is open, and where in it the wanted columns are."""

    def __init__(
        self,
        filesystem: FileSystem,
        path: str,
        wanted: Sequence[Wanted],
        limits: Limits,
        groups: Sequence[RowGroup],
    ) -> None:
        self._filesystem, self._path, self._wanted = filesystem, path, wanted
        self._limits, self._groups = limits, groups
        with limits.bounded(_READ_BYTES), ExitStack() as opened:
            file = opened.enter_context(open_file(filesystem, path))
            if file.metadata.num_row_groups != len(groups):
                raise ValueError("its footer contradicts itself")
            encoded, buffer = way_to_read(file, groups, [w.name for w in wanted])
            if encoded or buffer:
                file = opened.enter_context(open_file(filesystem, path, file.metadata, encoded, buffer))
            self._opened = opened.pop_all()
        self._file, names = file, file.schema_arrow.names
        self._places = {w.name: find(names, w.name) for w in wanted}
        folders = of_folders(path)
        self._constants = {
            w.name: constant(w.type, NULL_FOLDER if w.optional else folders[w.name.casefold()])
            for w in wanted
            if self._places[w.name] is None
        }
        self._names = [names[i] for i in self._places.values() if i is not None and i != TWICE]
        # Of those that differ by case only no value is read, and all of them stand in the raw text.
        several = {name.casefold() for name, place in self._places.items() if place == TWICE}
        self._names += [name for name in names if name.casefold() in several and names.count(name) == 1]

    def __enter__(self) -> OpenParquetFile:
        return self

    def __exit__(self, *_: object) -> None:
        self._opened.close()

    def rows(
        self, group: int, first: int, aside: Sequence[tuple[int, int]] = (), at_most: int | None = None
    ) -> Iterator[ParquetRows]:
        """The rows of a row group, the first of which is row `first` of the file. `aside`: rows of the file that are
        rejected without a look; if they reach to the group's end, they are not decoded either. `at_most`: rows at a
        time."""
        end = first + self._groups[group].rows
        refused = too_deep(self._file.schema_arrow, self._names, self._limits) or refusal(
            self._filesystem, self._path, self._groups[group], self._names, self._limits
        )
        if refused is not None:
            yield from _lost(first, end, self._wanted, refused)
            return
        tail = min((a for a, b in aside if b >= end), default=end)
        size = min(self._size(group), at_most or _ROWS)
        if first < tail < end:
            # No batch may reach into what is not decoded.
            size = min(1 << size.bit_length() - 1, (tail - first) & (first - tail))
        batches = self._batches(group, size)
        stored = sum(c.compressed for c in self._groups[group].chunks if c.column in self._names)
        while first < tail:
            try:
                with self._limits.bounded(max(stored, 0)):
                    part, why = next(batches, (None, None))
            except pa.ArrowMemoryError:
                raise
            except DAMAGED as error:
                still_there(self._filesystem, self._path, error)
                break
            if part is None:
                break
            part = part.slice(0, tail - first)
            if why is None:
                yield from self._without(part, first, aside)
            else:
                yield from _lost(first, first + 1, self._wanted, why, row_text(part, 0, cut=True))
            first += part.num_rows
        if first < tail:
            yield from _lost(first, tail, self._wanted, self._damage(group))
        yield from _lost(tail, end, self._wanted, CRASHED)

    def _without(
        self, batch: pa.RecordBatch, first: int, aside: Sequence[tuple[int, int]]
    ) -> Iterator[ParquetRows]:
        """Rows of the file as the wanted columns, those that are put aside rejected."""
        start, end = first, first + batch.num_rows
        for a, b in [*sorted(aside), (end, end)]:
            a, b = (min(max(each, start), end) for each in (a, b))
            if start < a:
                with self._limits.bounded():
                    fitted = self._fitted(batch.slice(start - first, a - start), start)
                yield fitted
            yield from _lost(a, b, self._wanted, CRASHED)
            start = b

    def _size(self, group: int) -> int:
        """Rows of a row group that are read at a time."""
        metadata = self._file.metadata.row_group(group)
        rows = max(metadata.num_rows, 1)
        largest = self._groups[group].repeating(self._names)
        fitting: int = _BYTES * rows // max(metadata.total_byte_size, 1)
        return max(1, min(_ROWS, fitting, _BYTES // max(largest, 1)))

    def _batches(self, group: int, size: int) -> Iterator[tuple[pa.RecordBatch, str | None]]:
        """The stored columns of a row group, some rows at a time; a row that is beyond a limit alone, and why."""
        rows = self._groups[group].rows
        if not self._names:
            for start in range(0, rows, size):
                yield pa.RecordBatch.from_arrays([pa.nulls(min(size, rows - start))], names=["_"]), None
            return
        for batch in self._file.iter_batches(
            size, row_groups=[group], columns=self._names, use_threads=False
        ):
            yield from in_bounds(batch, self._limits, _BYTES)

    def _fitted(self, batch: pa.RecordBatch, first: int) -> ParquetRows:
        """Rows of the file as the wanted columns."""
        n, names = batch.num_rows, batch.schema.names
        why = pa.nulls(n, pa.string())
        columns: dict[str, pa.Array] = {}
        # Rows that lack what they must have: the gate rejects them.
        incomplete = np.zeros(n, dtype=bool)
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
            if column.required and array.null_count:
                incomplete |= np.asarray(array.is_null())
            if misfits is not None and not column.optional:
                # The first column that does not fit is named.
                reason = twice(column.name) if place == TWICE else column.misfit
                why = pc.if_else(pc.and_(pa.array(misfits), why.is_null()), reason, why)
                bad = misfits if bad is None else bad | misfits
        raw = pa.nulls(n, pa.string())
        rejected = incomplete if bad is None else incomplete | bad
        if rejected.any():
            texts = pa.array([row_text(batch, int(row)) for row in np.flatnonzero(rejected)], pa.string())
            raw = pc.replace_with_mask(raw, pa.array(rejected), texts)
        return ParquetRows(first, columns, raw, why)

    def _damage(self, group: int) -> str:
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


def _lost(first: int, end: int, wanted: Sequence[Wanted], why: str, raw: str = "") -> Iterator[ParquetRows]:
    """Rows that can't be read, or may not be. Nothing of them is known, but that they are no rows."""
    end = min(end, first + _MOST_LOST)
    for start in range(first, end, _ROWS):
        n = min(_ROWS, end - start)
        nothing = {w.name: pa.nulls(n, w.type) for w in wanted}
        yield ParquetRows(start, nothing, pa.repeat(raw, n), pa.repeat(why, n))


def _mostly_dictionary(chunk: Chunk) -> bool:
    if not chunk.dictionary:
        return False
    dictionary = chunk.data - chunk.dictionary
    return chunk.uncompressed <= 8 * chunk.values or 4 * dictionary >= chunk.compressed


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
