"""Jobs whose tasks get nothing but their numbers, and read by themselves what belongs to these."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from tidegate.jvm.core_jobs import has_core, run_in_tasks
from tidegate.tasks.smaller import tasks_at_once
from tidegate.tasks.transfer import Job, texts_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tidegate.tasks.transfer import Task


@dataclass(frozen=True)
class Numbers(Job):
    """The numbers of so many `tasks`, each in a task of Spark's unless there is `care` (`smaller.py`)."""

    spark: SparkSession
    tasks: int
    care: int = 0

    @property
    def frame(self) -> DataFrame:
        """As rows, for a query that goes on from them."""
        return self.spark.range(0, self.tasks, 1, self._slices)

    def texts(self, task: Task) -> list[str]:
        if not has_core(self.spark):
            return texts_of(self.frame, task)
        return run_in_tasks(self.spark, NumberTask(task, self.tasks, self._slices), self._slices)

    @property
    def _slices(self) -> int:
        return tasks_at_once(self.care, self.tasks)


@dataclass(frozen=True)
class NumberTask:
    """Gives a task its share of the numbers, as Spark would cut them, and passes on the texts of its first column.
    Executor side."""

    task: Task
    tasks: int
    slices: int

    def __call__(self, number: int, rows: Iterator[bytes]) -> Iterator[str]:
        # There are none, but a worker that has not read their end is not used again.
        assert not list(rows)
        first, end = (place * self.tasks // self.slices for place in (number, number + 1))
        batch = pa.RecordBatch.from_pydict({"id": pa.array(range(first, end), pa.int64())})
        for found in self.task(iter([batch])):
            yield from found.column(0).to_pylist()
