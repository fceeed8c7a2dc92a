"""The same rows on the same states are judged once in a walk: the gate's task is a function of them (W4). In a run of
thousands of partitions it takes most of the time."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import pyarrow as pa

from tidegate.tasks import gate
from tidegate.tasks.gate import GateTask, PartitionReport

#: What a task is given that decides about its rows: all of it but where files are.
_GIVEN = (
    *("config", "time_column", "published", "states", "epoch", "numbering", "drop_repeats", "has_strategy"),
    *("arrived", "clock"),
)
_ADD = gate._JudgingRun._add


class _Taken:
    """The rows that a task gives to its writer."""

    def __init__(self) -> None:
        self.rows: list[pa.Table] = []

    def add(self, rows: pa.Table) -> None:
        self.rows.append(rows)


@contextmanager
def judged_once() -> Iterator[None]:
    """While the block runs."""
    known: dict[bytes, tuple[dict[str, PartitionReport], pa.Table]] = {}

    def add(run: Any, batch: pa.RecordBatch) -> None:
        asked = _digest(run.task, run.reports, batch)
        if asked not in known:
            taken, writer = _Taken(), run.writer
            run.writer = taken
            try:
                _ADD(run, batch)
            finally:
                run.writer = writer
            known[asked] = _copies(run.reports), pa.concat_tables(taken.rows).unify_dictionaries()
        reports, rows = known[asked]
        run.reports.update(_copies(reports))
        run.writer.add(rows)

    with patch.object(gate._JudgingRun, "_add", add):
        yield


def _copies(reports: dict[str, PartitionReport]) -> dict[str, PartitionReport]:
    return {name: PartitionReport(one.start, one.state, one.ordered) for name, one in reports.items()}


def _digest(task: GateTask, reports: dict[str, PartitionReport], batch: pa.RecordBatch) -> bytes:
    digest = hashlib.sha256(repr([getattr(task, name) for name in _GIVEN]).encode())
    digest.update(repr(reports).encode())
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    digest.update(sink.getvalue())
    return digest.digest()
