"""Files of partitions' memories (`tasks/memories.py`) that a log's newest commit names: no snapshot has them, and
without them the next batch can't be judged."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tidegate.tasks.memories import stored_in
from tidegate.watermark import GateState
from tidegate.watermark.memory import StrategyMemory

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem

PROGRESS = "tidegate.progress"
#: Where they are, as seen from the folder of the tables.
FOLDER = "_streams/{namespace}/{name}/memory"


def named_in(filesystem: FileSystem, path: str) -> list[str]:
    """Those that a commit's progress file names. Raises what pyarrow does for one that can't be read."""
    from pyarrow import parquet

    with filesystem.open_input_file(path) as opened:
        table = parquet.ParquetFile(opened).read(columns=["_progress"], use_threads=False)
    entries = table.column("_progress").to_pylist() if table.num_columns else []
    texts = (entry.get("memory") for entry in entries if isinstance(entry, Mapping))
    states = (GateState(memory=StrategyMemory(text=text)) for text in texts if text is not None)
    return sorted(stored_in(states))
