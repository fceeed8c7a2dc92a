"""Long memories of partitions (S1, W11), in files beside the log that its tasks write and read.

5,000 out-of-ordernesses of each of 10,000 partitions are 115 MB: far too much for a commit's progress file, for the
driver, and for every task. So a task puts those of its own partitions into one file, and the partitions' states say
which one it is (`Memory.stored`); the next batch's tasks read those of the partitions that they meet.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from tidegate.watermark import GateState
from tidegate.watermark.memory import Memory

if TYPE_CHECKING:
    from tidegate.project import Storage

#: Numbers that travel with the state: a few hundred bytes, as windows over some preceding rows need.
SHORT = 64
#: A file without a state that names it may belong to a batch in the making; not any more after a day.
_ORPHANED_SECONDS = 24 * 3600.0
#: A task that meets few of a file's partitions reads little else of it.
_ROW_GROUP = 16


@dataclass(frozen=True)
class MemoryFiles:
    """The folder of one log's memories; pickled into its tasks. Files are never changed once they are there."""

    filesystem: pafs.FileSystem
    path: str

    def recall(self, partition: str, state: GateState) -> GateState:
        """The state with its memory's numbers at hand. Raises FileNotFoundError, or ValueError, if they are gone."""
        memory = state.memory
        if memory is None or memory.stored is None:
            return state
        return replace(state, memory=self._read(memory.stored, partition))

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

    def _write(self, memories: dict[str, Memory]) -> str:
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

    def _read(self, file: str, partition: str) -> Memory:
        found = pq.read_table(
            f"{self.path}/{file}", filesystem=self.filesystem, filters=[("partition", "==", partition)]
        )
        if found.num_rows != 1:
            raise ValueError(f"{file} has no memory of partition {partition}")
        return Memory(text=found.column("memory")[0].as_py())

    # -- driver ------------------------------------------------------------------------------------------------

    @classmethod
    def of(cls, storage: Storage, name: str) -> MemoryFiles:
        """Those of the log called `name`; makes the folder."""
        filesystem, path = storage.filesystem(f"{storage.work_folder(name)}/memory")
        filesystem.create_dir(path, recursive=True)
        return cls(filesystem, path)

    def forget(self, before: Iterable[GateState], after: Iterable[GateState]) -> None:
        """Remove the files that a commit has made useless: of the states before it, and not of those after it."""
        for name in stored_in(before) - stored_in(after):
            self._delete(name)

    def tidy(self, states: Iterable[GateState]) -> None:
        """Remove what batches left that were never committed. `states`: of the last commit."""
        known, limit = stored_in(states), time.time() - _ORPHANED_SECONDS
        for info in self.filesystem.get_file_info(pafs.FileSelector(self.path, allow_not_found=True)):
            old = info.mtime is not None and info.mtime.timestamp() < limit
            if info.type == pafs.FileType.File and info.base_name not in known and old:
                self._delete(info.base_name)

    def _delete(self, name: str) -> None:
        try:
            self.filesystem.delete_file(f"{self.path}/{name}")
        except FileNotFoundError:
            return  # somebody was faster


def stored_in(states: Iterable[GateState]) -> set[str]:
    """The files that the states name."""
    files = (state.memory.stored for state in states if state.memory is not None)
    return {file for file in files if file is not None}
