"""Python workers that fail, hang, or die over a row, on the simulated outside.

A worker that a decoder does not come back from is ended by its own clock (`tasks/decode/limits.py`), and one that hangs
elsewhere by its operator. Either way Spark says that it is gone, and the engine looks for rows that are to blame, in
fresh processes beside the tasks: here in this one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from unittest.mock import patch

import pyarrow as pa
from pyspark.errors import PySparkRuntimeError

from tests.inprocess import frames
from tests.simulate.world.outside import CRASHED, HUNG, Outside
from tidegate.tasks.crashes import crashes, text_crashes
from tidegate.tasks.decode.limits import Limits
from tidegate.tasks.decode.text import bulk

#: What no decoder comes back from.
HOSTILE = b"[never ends"
#: How long a worker may be silent, in seconds, and so much of that where rows are narrowed down.
_PATIENCE, _HURRIED = int(Limits().elapsed_seconds), 30
_INSIDE_A_TASK, _DECODED = frames.inside_a_task, bulk._decoded


class TaskError(PySparkRuntimeError):
    """A task has failed, as Spark says it."""

    # The engine knows Spark's errors by where their classes are.
    __module__ = PySparkRuntimeError.__module__


def gone() -> TaskError:
    """A worker has ended, as Spark says it."""
    return TaskError("Job aborted due to stage failure: Python worker exited unexpectedly (crashed)")


class Nursery(crashes.Nursery):
    """Makes fresh processes that are none."""

    def ended(
        self, work: crashes.Work, values: Sequence[bytes | None] = (), hurried: bool = False
    ) -> int | None:
        try:
            work(values)
        except TaskError:
            return 0
        return None


@contextmanager
def failing(outside: Outside) -> Iterator[None]:
    """While the block runs, tasks meet the faults of this world."""

    @contextmanager
    def inside_a_task() -> Iterator[None]:
        driver = outside.driver
        driver.task = object()
        try:
            with _INSIDE_A_TASK():
                yield
        finally:
            driver.task = None
        outside.step("compute task", lambda fault: _meet(outside, fault))

    def decoded(decoder: bulk.TextDecoder, value: pa.Array) -> bulk.Decoded:
        if HOSTILE in value.to_pylist():
            outside.pass_time(_HURRIED)
            raise gone()
        return _DECODED(decoder, value)

    with (
        patch.object(frames, "inside_a_task", inside_a_task),
        patch.object(bulk, "_decoded", decoded),
        patch.object(crashes, "Nursery", Nursery),
        patch.object(text_crashes, "Nursery", Nursery),
    ):
        yield


def _meet(outside: Outside, fault: str | None) -> None:
    if fault == CRASHED:
        raise TaskError("Job aborted due to stage failure: a task has failed")
    if fault == HUNG:
        outside.pass_time(_PATIENCE)
        raise gone()
