"""Rows of the JVM that reach a task as bytes of Arrow, by a job without a query. Executor side."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from tidegate.tasks.transfer import Task


@dataclass(frozen=True)
class BytesTask:
    """Gives a task the batches whose bytes its partition holds, of this schema, and passes on the texts of its first
    column."""

    task: Task
    schema: pa.Schema

    def __call__(self, number: int, batches: Iterator[bytes]) -> Iterator[str]:
        rows = (pa.ipc.read_record_batch(pa.py_buffer(batch), self.schema) for batch in batches)
        for found in self.task(rows):
            yield from found.column(0).to_pylist()
        # A worker that has not read all is not used again.
        deque(batches, maxlen=0)
