"""Which client reads a batch of messages, and in how many tasks.

Three ways give the same rows, and each of them leaves to the next one what it is not made for: the tasks that judge
read for themselves, by Kafka's protocol; jobs without a query, for small batches; a query. The last two read by Java's
client. What a source's definition says of it is decided in `sql/options/kafka_reader.py`.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from tidegate.ingest.connector import BatchPlan, Direct
from tidegate.jvm.spark import cores
from tidegate.tasks.decode.text.arrow_json import LONG, DecodingBackOff
from tidegate.tasks.kafka.reader import MessagesInTask
from tidegate.tasks.numbers import Numbers
from tidegate.tasks.smaller import tasks_at_once

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from tidegate.runtime.topics import MessageJobs, Share, SourceTopic
    from tidegate.sql.catalog.objects import Relation
    from tidegate.tasks.reading import Reader

_LOGGER = logging.getLogger(__name__)

#: Partitions per task, where there are more of them than cores: their rows stay together, and tasks stay few.
_TASKS_PER_CORE = 4
#: Fewer rows than this are not worth more than one task per core.
_SMALL_BATCH = 100_000
#: As many messages and partitions at most are read by a job without a query; and as few are one task's.
FEW_MESSAGES, FEW_PARTITIONS, _ONE_TASK = 10_000, 64, 4_000
#: Spark measures an Arrow batch after every row, which costs as much as to read the row. Where no row is long, so many
#: rows are not large.
_NO_MEASURING = {
    "spark.sql.execution.arrow.maxBytesPerBatch": str(2**31 - 1),
    "spark.sql.execution.arrow.maxRecordsPerBatch": "16384",
}


class Messages:
    """Reads a topic's messages, batch for batch."""

    def __init__(self, spark: SparkSession, relation: Relation, broker: SourceTopic) -> None:
        self._spark, self._relation, self._broker = spark, relation, broker
        #: Whether tasks read for themselves: not for some batches after one that they could not read.
        self._turns = DecodingBackOff()
        #: Batches that Java's client read for the tasks' decoder, and what reads small ones, once that was asked for.
        self._batches = 0
        self._jobs: tuple[MessageJobs | None] | None = None

    def direct(self, plan: BatchPlan, reader: Reader) -> Direct:
        """The shortest way there is: tasks that read for themselves, else Java's client (`kafka_reader.py`)."""
        access = self._broker.in_tasks()
        if access is None or not self._turns.ours():
            return self._by_java(plan, reader)
        rows = sum(unit["until"] - unit["from"] for unit in plan.units)
        tasks = _dealt(plan.units, _tasks(cores(self._spark), rows), rows)
        work = Numbers(self._spark, len(tasks), plan.care)
        return Direct(
            work, MessagesInTask(access, tasks, reader), instead=partial(self._instead, plan, reader)
        )

    def _instead(self, plan: BatchPlan, reader: Reader, why: str) -> Direct:
        self._turns.refused()
        _LOGGER.info("%s: Java's client reads a batch, since its tasks met %s", self._relation.name, why)
        return self._by_java(plan, reader)

    def _by_java(self, plan: BatchPlan, reader: Reader) -> Direct:
        rows = sum(unit["until"] - unit["from"] for unit in plan.units)
        self._batches += 1
        # A run has one batch, and to prepare jobs costs as much as a query. (A plan with care is for Spark's settings.)
        if self._batches > 1 and rows <= FEW_MESSAGES and len(plan.units) <= FEW_PARTITIONS and not plan.care:
            if self._jobs is None:
                self._jobs = (self._broker.jobs(_short),)
            (jobs,) = self._jobs
            if jobs is not None:
                return Direct(jobs.batch(_dealt(plan.units, cores(self._spark), rows)), reader)
        return Direct(_short(self.gathered(plan)), reader, _NO_MEASURING)

    def frame(self, plan: BatchPlan) -> DataFrame:
        """The messages of a plan, by Java's client."""
        return self._broker.messages({unit["p"]: (unit["from"], unit["until"]) for unit in plan.units})

    def gathered(self, plan: BatchPlan) -> DataFrame:
        """The messages of a plan, in so many tasks as are worth it."""
        rows = sum(unit["until"] - unit["from"] for unit in plan.units)
        at_once = cores(self._spark)
        # Coalescing puts whole partitions one behind the other into a task: their order stays, without a shuffle.
        return self.frame(plan).coalesce(tasks_at_once(plan.care, _tasks(at_once, rows)))


def _tasks(at_once: int, rows: int) -> int:
    """How many tasks are worth it."""
    return at_once if rows < _SMALL_BATCH else at_once * _TASKS_PER_CORE


def _dealt(units: Sequence[Mapping[str, Any]], tasks: int, rows: int) -> list[list[Share]]:
    """The messages of whole partitions, dealt out to at most so many tasks of about the same size."""
    dealt: list[list[Share]] = [[] for _ in range(1 if rows <= _ONE_TASK else min(tasks, len(units)))]
    loads = [0] * len(dealt)
    for unit in sorted(units, key=lambda unit: unit["from"] - unit["until"]):
        lightest = loads.index(min(loads))
        dealt[lightest].append((int(unit["p"]), unit["from"], unit["until"]))
        loads[lightest] += unit["until"] - unit["from"]
    return dealt


def _short(messages: DataFrame) -> DataFrame:
    """The messages for a task: those that are not long as they are, and of the others that they are (`_long`)."""
    from pyspark.sql import functions as F

    def length(column: Column) -> Column:
        return F.coalesce(F.octet_length(column), F.lit(0))

    headers = F.aggregate("_headers", F.lit(0), lambda sum_, h: sum_ + length(h["key"]) + length(h["value"]))
    size = length(F.col("value")) + length(F.col("_key")) + F.coalesce(headers, F.lit(0))
    # A column of its own, so that the size is in the query once, and not once for each column that asks for it.
    measured = messages.withColumn("_long", size >= LONG)
    kept = [F.when(~F.col("_long"), F.col(name)).alias(name) for name in ("value", "_key", "_headers")]
    return measured.select(*kept, "_partition", "_offset", "_rowtime", "_long")
