"""Long memories of partitions (S1, W11), in files beside the log that its tasks write and read.

5,000 out-of-ordernesses of each of 10,000 partitions are 115 MB: far too much for a commit's progress file, for the
driver, and for every task. So a task puts those of its own partitions into one file, and the partitions' states say
which one it is (`StrategyMemory.stored`); the next batch's tasks read those of the partitions that they meet.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from tidegate.watermark import GateState
from tidegate.watermark.memory import StrategyMemory

if TYPE_CHECKING:
    from datetime import datetime

    from tidegate.project import Storage

#: Numbers that travel with the state: a few hundred bytes, as windows over some preceding rows need.
SHORT = 64
#: A file without a state that names it may belong to a batch in the making; not any more after a day.
_ORPHANED_SECONDS = 24 * 3600.0
#: A task that meets few of a file's partitions reads little else of it.
_ROW_GROUP = 16
#: How much a task keeps at hand of what it has read: open files, and row groups of about 200 kB.
_OPEN_FILES, _KEPT_GROUPS = 16, 64


@dataclass(frozen=True)
class MemoryFiles:
    """The folder of one log's memories; pickled into its tasks. Files are never changed once they are there."""

    filesystem: pafs.FileSystem
    path: str

    def reader(self) -> MemoryReader:
        """What one task recalls memories with."""
        return MemoryReader(self)

    def put_away(self, states: dict[str, GateState]) -> None:
        """Move the long ones of these states' memories into one new file."""
        long = {
            name: state.memory
            for name, state in states.items()
            if state.memory is not None and state.memory.stored is None and len(state.memory.numbers) > SHORT
        }
        if long:
            file = self._write(long)
            for name, memory in long.items():
                states[name].memory = memory.put_into(file)

    def _write(self, memories: dict[str, StrategyMemory]) -> str:
        name = f"memory-{uuid.uuid4().hex}.parquet"
        names = sorted(memories)
        table = pa.table({"partition": names, "memory": [memories[n].text for n in names]})
        pq.write_table(
            table,
            f"{self.path}/{name}",
            filesystem=self.filesystem,
            row_group_size=_ROW_GROUP,
            compression="none",
            use_dictionary=False,
        )
        return name

    # -- driver ------------------------------------------------------------------------------------------------

    @classmethod
    def of(cls, storage: Storage, name: str) -> MemoryFiles:
        """Those of the log called `name`; makes the folder."""
        from tidegate.project.object_store import make_folder

        filesystem, path = storage.filesystem(f"{storage.work_folder(name)}/memory")
        make_folder(filesystem, path)
        return cls(filesystem, path)

    def forget(self, before: Iterable[GateState], after: Iterable[GateState]) -> None:
        """Remove the files that a commit has made useless: of the states before it, and not of those after it."""
        for name in stored_in(before) - stored_in(after):
            self._delete(name)

    def remove_orphans(self, states: Iterable[GateState], now: datetime) -> None:
        """Remove what batches left that were never committed. `states`: of the last commit."""
        known, limit = stored_in(states), now.timestamp() - _ORPHANED_SECONDS
        for info in self.filesystem.get_file_info(pafs.FileSelector(self.path, allow_not_found=True)):
            old = info.mtime is not None and info.mtime.timestamp() < limit
            if info.type == pafs.FileType.File and info.base_name not in known and old:
                self._delete(info.base_name)

    def _delete(self, name: str) -> None:
        try:
            self.filesystem.delete_file(f"{self.path}/{name}")
        except FileNotFoundError:
            return  # somebody was faster


class MemoryReader:
    """The memories that one task asks for. It opens a file once, however many of its partitions the task meets, and
    reads a row group of it once; it keeps few of either, so a task's memory does not grow with the partitions."""

    def __init__(self, files: MemoryFiles) -> None:
        self._files = files
        self._file = lru_cache(maxsize=_OPEN_FILES)(self._open)
        self._group = lru_cache(maxsize=_KEPT_GROUPS)(self._read_group)

    def recall(self, partition: str, state: GateState) -> GateState:
        """The state with its memory's numbers at hand. Raises FileNotFoundError, or ValueError, if they are gone."""
        memory = state.memory
        if memory is None or memory.stored is None:
            return state
        content, rows = self._file(memory.stored)
        row = rows.get(partition)
        if row is None:
            raise ValueError(f"{memory.stored} has no memory of partition {partition}")
        size = content.metadata.row_group(0).num_rows
        text = self._group(memory.stored, row // size)[row % size]
        return replace(state, memory=StrategyMemory(text=text.as_py()))

    def _open(self, file: str) -> tuple[pq.ParquetFile, dict[str, int]]:
        """A file, and in which row each of its partitions is."""
        content = pq.ParquetFile(f"{self._files.path}/{file}", filesystem=self._files.filesystem)
        names = content.read(columns=["partition"]).column("partition").to_pylist()
        return content, {name: row for row, name in enumerate(names)}

    def _read_group(self, file: str, group: int) -> pa.ChunkedArray:
        return self._file(file)[0].read_row_group(group, columns=["memory"]).column("memory")


def stored_in(states: Iterable[GateState]) -> set[str]:
    """The files that the states name."""
    files = (state.memory.stored for state in states if state.memory is not None)
    return {file for file in files if file is not None}
