"""Which records of JSON and CSV files end the process that decodes them (X2, docs/decisions/crashed-decoder.md).
Executor side."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from tidegate.tasks.crashes.crashes import Nursery, Parse, killers
from tidegate.tasks.decode.tasks import of_tasks
from tidegate.tasks.decode.text.files import TextFiles


@dataclass(frozen=True)
class FileCrashes:
    """From numbers of a reader's tasks to `uri`, `block` and `row` of the records that kill."""

    reader: TextFiles

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with Nursery() as nursery:
            for span in of_tasks(batches, self.reader.tasks):
                for row, group in self.reader.numbered(span):
                    places = killers(nursery, Parse(group.decoder), group.texts().to_pylist())
                    n = len(places)
                    rows = pa.array([row + place for place in places], pa.int64())
                    block = pa.repeat(pa.scalar(span.start, pa.int64()), n)
                    columns = [pa.array([span.uri] * n, pa.string()), block, rows]
                    yield pa.RecordBatch.from_arrays(columns, ["uri", "block", "row"])
