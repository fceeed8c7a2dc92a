"""Windows computed from the log's files by pyarrow: no row of them passes through the JVM. Executor side.

A pane is what one slide of a window and one group of keys come to: the rows of a task, put together. Panes of several
tasks add up to windows (`windows.py` has the boundaries, `closing.py` says what is final); sessions join to sessions
(`session_panes.py`). Files of a log are opened as users' files are (`tasks/parquet/parquet.py`), and read as they are:
the writer has judged each value. Numbers are exact: where a sum of integers might leave 64 bits, Spark is asked instead
(`NeedsSpark`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow.fs import FileSystem

from tidegate.tasks.conditions import fulfilled
from tidegate.tasks.pane_parts import (
    LAST,
    PANE,
    ROWS,
    SAFE,
    by_position,
    check_sum,
    key_names,
    pane_names,
    part_name,
    parts_of,
    says_unread,
    unread_pane,
)
from tidegate.tasks.parquet.row_groups import open_file
from tidegate.tasks.reading import NeedsSpark
from tidegate.tasks.session_panes import joined, of_rows
from tidegate.tasks.writer import FileWriter, WriteTarget
from tidegate.watermark import Hop, PaneWindows, Sessions, Tumble, window_is_closed

#: Rows that are grouped at once, enough to make groups of and little to hold; and that are read at once.
_CHUNK, _READ = 1 << 20, 1 << 17
#: Where a field of a file says Iceberg's id.
_ID = b"PARQUET:field_id"
#: The report of a task that met what only Spark computes.
UNREAD = "unread"


@dataclass(frozen=True)
class LogFile:
    """A file of on-time rows; `path` for the file system, `rows`: about how many of them are wanted."""

    path: str
    rows: int


@dataclass(frozen=True)
class PaneTask:
    """Turns numbers of `tasks` into panes of the rows with low <= time < high (ticks; None: no bound). `schema`: of the
    log, with Iceberg's ids, by which columns are found whatever they were called when a file was written (E2)."""

    filesystem: FileSystem
    schema: pa.Schema
    pane_windows: PaneWindows
    tasks: tuple[tuple[LogFile, ...], ...]
    low: int | None
    high: int | None

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        panes: list[pa.Table] = []
        pane_windows, _ = by_position(self.pane_windows)
        try:
            for rows in self._chunks(batches):
                panes.append(self._panes(rows))
                if len(panes) > 1 and sum(p.num_rows for p in panes) > _CHUNK:
                    panes = [merged(panes, pane_windows)]
                    if panes[0].num_rows > _CHUNK // 2:
                        # To put so many together with every further chunk would cost more than to pass them on.
                        yield from panes.pop().to_batches(_CHUNK)
            if panes:
                yield from merged(panes, pane_windows).to_batches(_CHUNK)
        except NeedsSpark:
            yield unread_pane(pane_windows)

    def _chunks(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
        pending: list[pa.RecordBatch] = []
        for rows in self._placed_rows(batches):
            pending.append(rows)
            if sum(p.num_rows for p in pending) >= _CHUNK:
                yield pa.Table.from_batches(pending)
                pending = []
        if pending:
            yield pa.Table.from_batches(pending)

    def _placed_rows(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The rows of the files of the tasks whose numbers are given."""
        for batch in batches:
            for task in batch.column(0).to_pylist():
                for file in self.tasks[task]:
                    yield from self._read(file)

    def _read(self, file: LogFile) -> Iterator[pa.RecordBatch]:
        pane_windows, names = by_position(self.pane_windows)
        inner = [f"c{i}" for i in range(len(names))]
        with open_file(self.filesystem, file.path) as parquet:
            stored = self._stored_names(parquet.schema_arrow, names)
            groups = self._groups(parquet, stored[self.pane_windows.time_column])
            columns = [name for name in stored.values() if name is not None]
            for read in parquet.iter_batches(_READ, groups, columns=columns, use_threads=False):
                batch = pa.RecordBatch.from_arrays([self._column(read, n, stored[n]) for n in names], inner)
                if batch.num_rows and (placed := self._placed(batch, pane_windows)).num_rows:
                    yield placed

    def _stored_names(self, stored: pa.Schema, names: Iterable[str]) -> dict[str, str | None]:
        """What the columns are called in a file; None for one that it was written without."""
        found = {field.metadata[_ID]: field.name for field in stored if _ID in (field.metadata or {})}
        if len(found) != len(stored):
            raise NeedsSpark
        return {name: found.get(self.schema.field(name).metadata[_ID]) for name in names}

    def _column(self, read: pa.RecordBatch, name: str, stored: str | None) -> pa.Array:
        """A column as the log has it today: wider than it was written, or without a value (E2, E3)."""
        kind = self.schema.field(name).type
        if stored is None:
            return pa.nulls(read.num_rows, kind)
        column = read.column(stored)
        written = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
        return column if written == kind else column.cast(kind)

    def _groups(self, parquet: pq.ParquetFile, time_column: str | None) -> list[int]:
        """The row groups that may hold rows between the bounds: a long catch-up leaves files of many."""
        facts = parquet.metadata
        found = []
        for number in range(facts.num_row_groups):
            group = facts.row_group(number)
            columns = (group.column(i) for i in range(group.num_columns))
            time = next(c for c in columns if c.path_in_schema == time_column).statistics
            if time is not None and time.has_min_max:
                # Microseconds, as the log has them, and not the calendar's: that of Python ends in 9999.
                if self.low is not None and time.max_raw < self.low:
                    continue
                if self.high is not None and time.min_raw >= self.high:
                    continue
            found.append(number)
        return found

    def _placed(self, batch: pa.RecordBatch, pane_windows: PaneWindows) -> pa.RecordBatch:
        """The rows between the bounds, with their panes."""
        column = batch.column(pane_windows.time_column)
        if column.null_count:
            raise NeedsSpark
        time = np.asarray(column.cast(pa.int64()))
        keep = np.ones(len(time), dtype=bool)
        if self.low is not None and time.min() < self.low:
            keep &= time >= self.low
        if self.high is not None and time.max() >= self.high:
            keep &= time < self.high
        if pane_windows.condition is not None:
            keep &= np.asarray(fulfilled(pane_windows.condition, batch))
        if not keep.all():
            batch, time = batch.filter(pa.array(keep)), time[keep]
        if len(time) and max(-int(time.min()), int(time.max())) > SAFE:
            raise NeedsSpark
        window = pane_windows.window
        if not isinstance(window, Sessions):
            time = time - (time % window.slide - window.offset) % window.slide
        return batch.append_column(PANE, pa.array(time))

    def _panes(self, rows: pa.Table) -> pa.Table:
        pane_windows, _ = by_position(self.pane_windows)
        parts = parts_of(pane_windows)
        if isinstance(pane_windows.window, Sessions):
            return merged([of_rows(rows, pane_windows)], pane_windows)
        for part in parts:
            if part.function == "sum":
                check_sum(rows.column(part.column))
        keys = [PANE, *(k.name for k in pane_windows.keys)]
        wanted = [([], "count_all"), *((p.column, p.function) for p in parts)]
        found = rows.group_by(keys, use_threads=False).aggregate(wanted)
        columns = [found.column(k) for k in keys] + [found.column("count_all")]
        columns += [found.column(f"{p.column}_{p.function}") for p in parts]
        return pa.table(columns, names=pane_names(pane_windows))


def merged(panes: list[pa.Table], pane_windows: PaneWindows) -> pa.Table:
    """Panes of the same slide and keys put together; sessions that are one."""
    table = pa.concat_tables(panes)
    if len(panes) == 1 and table.num_rows < 2:
        return table
    parts = parts_of(pane_windows)
    for part in parts:
        if part.function == "sum":
            check_sum(table.column(part.name))
    if isinstance(pane_windows.window, Sessions):
        return joined(table, pane_windows, pane_windows.window.gap)
    keys = [PANE, *key_names(pane_windows)]
    wanted = [(ROWS, "sum"), *((p.name, p.merge) for p in parts)]
    found = table.group_by(keys, use_threads=False).aggregate(wanted)
    columns = [found.column(k) for k in keys] + [found.column(f"{ROWS}_sum")]
    columns += [found.column(f"{p.name}_{p.merge}") for p in parts]
    return pa.table(columns, names=pane_names(pane_windows))


@dataclass(frozen=True)
class Both:
    """Panes and windows in one task, where that is enough."""

    panes: PaneTask
    windows: WindowTask

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return self.windows(self.panes(batches))


@dataclass(frozen=True)
class WindowTask:
    """Puts panes together to windows and writes those with frontier < window_end (<= `reached`, if `only_closed`) into
    the view's files. All panes of a group's keys are in one task. Ticks, None: no bound.

    Reports the `files`, and of sessions `open_since`: where the first begins that is open at `reached`.
    """

    pane_windows: PaneWindows
    target: WriteTarget
    frontier: int | None
    reached: int | None
    only_closed: bool
    tick: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        writer = FileWriter(self.target)
        try:
            since = self._write(writer, [b for b in batches if b.num_rows])
            report: Any = {"files": writer.close(), "open_since": since}
        except NeedsSpark:
            writer.abandon()
            report = UNREAD
        yield pa.RecordBatch.from_pydict({"report": [json.dumps(report)]})

    def _write(self, writer: FileWriter, batches: list[pa.RecordBatch]) -> int | None:
        if any(says_unread(batch) for batch in batches):
            raise NeedsSpark
        if not batches:
            return None
        pane_windows, _ = by_position(self.pane_windows)
        panes, window = merged([pa.Table.from_batches(batches)], pane_windows), pane_windows.window
        if isinstance(window, Sessions):
            return self._write_sessions(writer, panes, window)
        panes = panes.take(pc.sort_indices(panes.column(PANE)))
        for windows in self._windows(panes.combine_chunks(), window):
            writer.add(self._result(windows, window.end(np.asarray(windows.column(PANE)))))
        return None

    def _write_sessions(self, writer: FileWriter, sessions: pa.Table, window: Sessions) -> int | None:
        """Where the first session begins that is not final."""
        starts, ends = np.asarray(sessions.column(PANE)), window.end(np.asarray(sessions.column(LAST)))
        closed = window_is_closed(ends, self.reached)
        wanted = np.flatnonzero(closed & ~window_is_closed(ends, self.frontier))
        wanted = wanted[np.argsort(ends[wanted], kind="stable")]
        for begin in range(0, len(wanted), _CHUNK):
            some = wanted[begin : begin + _CHUNK]
            writer.add(self._result(sessions.take(pa.array(some)), ends[some]))
        return None if closed.all() else int(starts[~closed].min())

    def _windows(self, panes: pa.Table, window: Tumble | Hop) -> Iterator[pa.Table]:
        """Windows under the names of panes, in the order of their starts, some at a time."""
        starts = np.asarray(panes.column(PANE))
        steps = window.size // window.slide
        least = int(starts[0]) - (steps - 1) * window.slide
        if self.frontier is not None:
            # The first window that is still open at the frontier.
            least = max(least, window.watermark_start(self.frontier))
        last = int(starts[-1])
        if self.only_closed:
            if self.reached is None:
                return
            # The last that is final.
            last = min(last, window.watermark_start(self.reached) - window.slide)
        while least <= last:
            # As many windows as make a chunk, and one at least.
            begin = int(np.searchsorted(starts, least))
            upto = int(starts[min(begin + max(_CHUNK // steps, 1), len(starts) - 1)])
            end = min(max(least, upto - (steps - 1) * window.slide), last)
            found = []
            for step in range(steps):
                low, high = np.searchsorted(
                    starts, (least + step * window.slide, end + step * window.slide + 1)
                )
                if low < high:
                    shifted = pa.array(starts[low:high] - step * window.slide)
                    found.append(panes.slice(low, high - low).set_column(0, PANE, shifted))
            if found:
                yield merged(found, by_position(self.pane_windows)[0]) if steps > 1 else found[0]
                least = end + window.slide
            elif begin < len(starts):
                # Nothing is here: on to the first window that holds the next pane.
                least = max(least + window.slide, int(starts[begin]) - (steps - 1) * window.slide)
            else:
                return

    def _result(self, windows: pa.Table, ends: np.ndarray) -> pa.Table:
        (pane_windows, _), schema = by_position(self.pane_windows), self.target.schema
        start = np.asarray(windows.column(PANE))
        bound = schema.field("_window_end").type
        bounds = {"window_start": pa.array(start).cast(bound), "window_end": pa.array(ends).cast(bound)}
        columns = {}
        for output in pane_windows.outputs:
            if output.function in bounds:
                columns[output.name] = bounds[output.function]
            elif output.value is None:
                columns[output.name] = windows.column(ROWS)
            elif output.function == "key":
                columns[output.name] = windows.column(f"_key_{output.value.name}")
            elif output.function == "avg":
                total = windows.column(part_name("sum", output.value.name)).cast(pa.float64(), safe=False)
                count = windows.column(part_name("count", output.value.name)).cast(pa.float64())
                columns[output.name] = pc.divide(total, count)
            else:
                columns[output.name] = windows.column(part_name(output.function, output.value.name))
        columns["_window_start"], columns["_window_end"] = bounds["window_start"], bounds["window_end"]
        columns[ROWS] = windows.column(ROWS)
        columns["_open"] = pa.array(~window_is_closed(ends, self.reached))
        columns["_tick"] = pa.array(np.full(len(start), self.tick))
        return pa.table(columns)
