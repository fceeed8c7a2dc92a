"""Row groups of one Parquet file, read by pyarrow: each row as it is declared, or rejected with a reason (W5). Executor
side: numpy and pyarrow only.

A column that was taken in rejects nothing: what can't be had of it is NULL."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow.fs import FileSystem

from tidegate.tasks.decode.columns import Wanted
from tidegate.tasks.decode.fitting import TWICE, Misfits, find, fit
from tidegate.tasks.decode.folders import NULL_FOLDER, constant, of_folders
from tidegate.tasks.decode.limits import Limits
from tidegate.tasks.decode.opening import DAMAGED, still_there
from tidegate.tasks.decode.reasons import CRASHED, twice
from tidegate.tasks.parquet.chunks import Chunk, RowGroup
from tidegate.tasks.parquet.parquet_limits import in_bounds, refusal, too_deep
from tidegate.tasks.parquet.parquet_text import row_text

#: Rows at a time: enough for numpy, and little memory beside what the writer holds back. Of wide rows fewer, so that
#: they have about so many bytes.
_ROWS, _BYTES = 65_536, 32 << 20
#: A column chunk that is larger is not read as a whole before its first row.
_CHUNK_BYTES, _READ_BYTES = 64 << 20, 8 << 20
#: Rows of a damaged row group that are rejected at most: its count may be damaged, too.
_MOST_LOST = 1 << 24


class ParquetRows(NamedTuple):
    """Consecutive rows of one file, from row `first` on: the wanted columns; `raw`, the text of a row that is rejected;
    and `why` it is."""

    first: int
    columns: dict[str, pa.Array]
    raw: pa.Array
    why: pa.Array

    def __len__(self) -> int:
        return len(self.why)


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
    """A file that is open, and where in it the wanted columns are. `spared`: those that were taken in are not read."""

    def __init__(
        self,
        filesystem: FileSystem,
        path: str,
        wanted: Sequence[Wanted],
        limits: Limits,
        groups: Sequence[RowGroup],
        spared: bool = False,
    ) -> None:
        self._filesystem, self._path, self._wanted = filesystem, path, wanted
        self._limits, self._groups = limits, groups
        with limits.bounded(_READ_BYTES), ExitStack() as opened:
            file = opened.enter_context(open_file(filesystem, path))
            if file.metadata.num_row_groups != len(groups):
                raise ValueError("its footer contradicts itself")
            encoded, buffer = way_to_read(
                file, groups, [w.name for w in wanted if not (spared and w.optional)]
            )
            if encoded or buffer:
                file = opened.enter_context(open_file(filesystem, path, file.metadata, encoded, buffer))
            self._opened = opened.pop_all()
        self._file, names = file, file.schema_arrow.names
        self._places = {w.name: None if spared and w.optional else find(names, w.name) for w in wanted}
        folders = of_folders(path)
        self._constants = {
            w.name: constant(w.type, NULL_FOLDER if w.optional else folders[w.name.casefold()])
            for w in wanted
            if self._places[w.name] is None
        }
        optional = {w.name for w in wanted if w.optional}
        found = {names[i]: name for name, i in self._places.items() if i is not None and i != TWICE}
        self._names = [name for name, column in found.items() if column not in optional]
        #: Of columns that were taken in.
        self._beside = [name for name, column in found.items() if column in optional]
        # Of those that differ by case only no value is read, and all of them stand in the raw text.
        several = {n.casefold() for n, i in self._places.items() if i == TWICE and n not in optional}
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
        if (refused := self._refused(group, self._names)) is not None:
            yield from lost(first, end, self._wanted, refused)
            return
        beside = [name for name in self._beside if self._refused(group, [name]) is None]
        tail = min((a for a, b in aside if b >= end), default=end)
        size = min(self._size(group, beside), at_most or _ROWS)
        if first < tail < end:
            # No batch may reach into what is not decoded.
            size = min(1 << size.bit_length() - 1, (tail - first) & (first - tail))
        batches, start = self._batches(group, size, beside), first
        stored = sum(c.compressed for c in self._groups[group].chunks if c.column in (*self._names, *beside))
        while first < tail:
            try:
                with self._limits.bounded(max(stored, 0)):
                    part, why = next(batches, (None, None))
            except pa.ArrowMemoryError:
                raise
            except DAMAGED as error:
                still_there(self._filesystem, self._path, error)
                if not (damaged := [name for name in beside if self._is_damaged(group, name)]):
                    break
                beside = [name for name in beside if name not in damaged]
                batches = self._batches(group, size, beside, first - start)
                continue
            if part is None:
                break
            part = part.slice(0, tail - first)
            if why is None:
                yield from self._without(part, first, aside)
            else:
                yield from lost(first, first + 1, self._wanted, why, row_text(part, 0, cut=True))
            first += part.num_rows
        if first < tail:
            yield from lost(first, tail, self._wanted, self._damage(group))
        yield from lost(tail, end, self._wanted, CRASHED)

    def _refused(self, group: int, names: Sequence[str]) -> str | None:
        """Why these columns of a row group are not read; None if they are."""
        return too_deep(self._file.schema_arrow, names, self._limits) or refusal(
            self._filesystem, self._path, self._groups[group], names, self._limits
        )

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
            yield from lost(a, b, self._wanted, CRASHED)
            start = b

    def _size(self, group: int, beside: Sequence[str]) -> int:
        """Rows of a row group that are read at a time."""
        metadata = self._file.metadata.row_group(group)
        rows = max(metadata.num_rows, 1)
        largest = self._groups[group].repeating([*self._names, *beside])
        fitting: int = _BYTES * rows // max(metadata.total_byte_size, 1)
        return max(1, min(_ROWS, fitting, _BYTES // max(largest, 1)))

    def _batches(
        self, group: int, size: int, beside: Sequence[str], skip: int = 0
    ) -> Iterator[tuple[pa.RecordBatch, str | None]]:
        """The stored columns of a row group from a row on, some rows at a time; a row that is beyond a limit alone, and
        why. `beside`: columns that were taken in."""
        rows, names = self._groups[group].rows, [*self._names, *beside]
        if not names:
            for start in range(skip, rows, size):
                yield pa.RecordBatch.from_arrays([pa.nulls(min(size, rows - start))], names=["_"]), None
            return
        for batch in self._file.iter_batches(size, row_groups=[group], columns=names, use_threads=False):
            known, skip = min(skip, batch.num_rows), max(skip - batch.num_rows, 0)
            if known < batch.num_rows:
                yield from in_bounds(batch.slice(known), self._limits, _BYTES, beside)

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
                stored = self._file.schema_arrow.names[place]
                array, misfits = pa.nulls(n, column.type), None
                if stored in names:
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
            if self._is_damaged(group, name):
                return f'unreadable: column "{name}" is damaged in row group {group}'
        return f"unreadable: row group {group} is damaged"

    def _is_damaged(self, group: int, name: str) -> bool:
        """Whether one of its columns can't be read."""
        try:
            for _ in self._file.iter_batches(_ROWS, row_groups=[group], columns=[name], use_threads=False):
                pass
        except DAMAGED:
            return True
        return False


def lost(first: int, end: int, wanted: Sequence[Wanted], why: str, raw: str = "") -> Iterator[ParquetRows]:
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
