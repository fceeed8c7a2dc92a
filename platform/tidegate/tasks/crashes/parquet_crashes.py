"""Which rows of Parquet files end the process that reads them (X2, docs/decisions/crashed-decoder.md). Executor side.

A row group is read by a process beside the task, which says how far it has come. Where it ends, smaller and smaller
batches tell the row. What can't even be decoded hides all rows behind it in its row group: Parquet has no other way to
them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow.fs import FileSystem

from tidegate.plan.crashes import SPARED
from tidegate.tasks.crashes.crashes import TRIES, Nursery, note
from tidegate.tasks.decode.columns import Wanted
from tidegate.tasks.decode.limits import Limits
from tidegate.tasks.decode.opening import still_there
from tidegate.tasks.decode.tasks import of_tasks
from tidegate.tasks.parquet.chunks import footer_of
from tidegate.tasks.parquet.parquet import Unit
from tidegate.tasks.parquet.row_groups import OpenParquetFile

#: (from, until)
Ranges = list[tuple[int, int]]
#: Rows that are put aside one by one in a row group; of one with more nothing is read.
_MOST = 8
#: Rows of the batches that tell the row, ever smaller, and batches that a row group is read in at most.
_SIZES, _STEPS = (4096, 256, 16, 1), 200_000


@dataclass(frozen=True)
class Reading:
    """Reads a row group as a task does; without a `group`, only opens the file."""

    filesystem: FileSystem
    path: str
    wanted: tuple[Wanted, ...]
    limits: Limits
    group: int | None = None
    first: int = 0
    aside: tuple[tuple[int, int], ...] = ()
    at_most: int | None = None
    spared: bool = False

    def __call__(self, _: Sequence[bytes | None]) -> object:
        given = self.wanted, self.limits, footer_of(self.filesystem, self.path), self.spared
        with OpenParquetFile(self.filesystem, self.path, *given) as stored:
            if self.group is not None:
                for rows in stored.rows(self.group, self.first, self.aside, self.at_most):
                    note(rows.first + len(rows))
        return None


def read_one(_: Sequence[bytes | None]) -> object:
    """Read a file of one row, which kills nobody."""
    file = pa.BufferOutputStream()
    pq.write_table(pa.table({"a": [1]}), file)
    return pq.ParquetFile(pa.BufferReader(file.getvalue())).read()


@dataclass(frozen=True)
class ParquetCrashes:
    """From numbers of `tasks` to `uri`, `block` (0), `row` and `until` of the rows that can't be read, or `SPARED`.
    `reading`: what reads them."""

    filesystem: FileSystem
    wanted: tuple[Wanted, ...]
    tasks: tuple[tuple[Unit, ...], ...]
    limits: Limits
    reading: type[Reading] = Reading

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with Nursery() as nursery:
            for unit in of_tasks(batches, self.tasks):
                spared = SPARED in unit.crashed
                found = self._of_file(nursery, unit, spared)
                if found and nursery.dies(read_one, []):
                    found = []  # it is not the file, but the want of memory
                elif found and not spared and any(column.optional for column in self.wanted):
                    # No row is rejected for what no definition declares.
                    found = [SPARED, *self._of_file(nursery, unit, spared=True)]
                rows, until = (pa.array([pair[i] for pair in found], pa.int64()) for i in (0, 1))
                uri, block = (
                    pa.array([unit.uri] * len(found), pa.string()),
                    pa.array([0] * len(found), pa.int64()),
                )
                yield pa.RecordBatch.from_arrays([uri, block, rows, until], ["uri", "block", "row", "until"])

    def _of_file(self, nursery: Nursery, unit: Unit, spared: bool) -> Ranges:
        groups = footer_of(self.filesystem, unit.path)
        opening = self.reading(self.filesystem, unit.path, self.wanted, self.limits, spared=spared)
        if all(self._tried(nursery, unit, opening) is not None for _ in range(TRIES)):
            return [(0, sum(group.rows for group in groups))]
        found: Ranges = []
        first = 0
        for number, group in enumerate(groups):
            end = first + group.rows
            known = [(a, b) for a, b in unit.crashed if first <= a < b <= end]
            ended = partial(self._ended, nursery, unit, spared, number, first)
            found += [pair for pair in put_aside(first, end, ended, known) if pair not in known]
            first = end
        return found

    def _tried(self, nursery: Nursery, unit: Unit, reading: Reading) -> int | None:
        """Where a fresh process ends."""
        done = nursery.ended(reading, hurried=True)
        if nursery.waited:
            # It may be the file system that did not answer. It does now, or this says so.
            still_there(self.filesystem, unit.path)
            done = nursery.ended(reading)
        return done

    def _ended(
        self,
        nursery: Nursery,
        unit: Unit,
        spared: bool,
        group: int,
        first: int,
        aside: Ranges,
        at_most: int | None,
    ) -> int | None:
        given = self.wanted, self.limits, group, first, tuple(aside), at_most, spared
        reading = self.reading(self.filesystem, unit.path, *given)
        done = self._tried(nursery, unit, reading)
        return None if done is None else max(done, first)


def put_aside(
    first: int,
    end: int,
    ended: Callable[[Ranges, int | None], int | None],
    known: Sequence[tuple[int, int]] = (),
) -> Ranges:
    """The rows of a row group (from `first` until `end`) that have to be put aside so that a process lives. `ended`: at
    which row a fresh process ends that reads all but some rows, so many at a time (None: it lives)."""
    if (first, end) in known:
        return [*known]
    aside = [*known]
    least = next(size for size in (1 << n for n in range(64)) if (end - first) // size <= _STEPS)
    while ended(aside, None) is not None:
        place: int | None = first
        for size in (max(size, least) for size in _SIZES):
            place = ended(aside, size)
            if place is None:
                return aside  # batches of this size live: no row is to blame
        if place is None or any(ended(aside, least) != place for _ in range(TRIES - 1)):
            return aside
        if len(aside) - len(known) == _MOST:
            return [(first, end)]
        one = (place, min(place + least, end))
        aside.append(one)
        if ended(aside, least) == place:
            aside[-1] = (place, end)  # it is not even decoded
    return aside
