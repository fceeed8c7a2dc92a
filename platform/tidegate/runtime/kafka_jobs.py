"""Small batches of messages, read by jobs without a query.

Spark's query for a batch of Kafka's messages costs the same for two hundred of them as for a million: it is analysed
and planned, asks the broker for the partitions by a client of its own, and each of its tasks makes a consumer, which
asks the broker, too, and is thrown away. Here a batch is the offsets alone: the plan of the query is made once for a
source, and a batch puts its offsets where the plan reads; tasks find their consumers where those of the batch before
have left them, as in a query of Structured Streaming. It is Spark's reader that reads, so it gives the same rows, and
raises the same errors.

All this is asked of classes of one release of Spark's that others need not have. Where one is missing or is not what it
was, batches are read by queries.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from tidegate.jvm.core_jobs import has_core, run_over
from tidegate.jvm.java import java_class
from tidegate.jvm.within import active, settings
from tidegate.runtime.topics import Share
from tidegate.tasks.arriving_bytes import BytesTask
from tidegate.tasks.transfer import Job, departing

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from tidegate.tasks.transfer import Task

#: The release whose classes these are.
_SPARK = "4.1."
_KAFKA = "org.apache.spark.sql.kafka010"
#: As a query has it: no task waits longer for a broker.
_POLL_MS = 120_000
#: A plan whose parts can be taken one by one.
_PLAIN = {"spark.sql.adaptive.enabled": "false", "spark.sql.codegen.wholeStage": "false"}


@dataclass(frozen=True)
class MessageBatch(Job):
    """Messages of some partitions, each in one of the tasks."""

    jobs: KafkaJobs
    tasks: Sequence[Sequence[Share]]

    def texts(self, task: Task) -> list[str]:
        return self.jobs.texts(self.tasks, task)


class KafkaJobs:
    """See `MessageJobs`. `shaped`: what is made of the rows of Spark's Kafka source before a task gets
    them. Ask `kafka_jobs` for one."""

    def __init__(
        self,
        spark: SparkSession,
        properties: Mapping[str, str],
        topic: str,
        group: str | None,
        shaped: Callable[[DataFrame], DataFrame],
    ) -> None:
        from pyspark.sql import DataFrame
        from pyspark.sql.pandas.types import to_arrow_schema

        self._spark, self._topic, self._jvm = spark, topic, spark._jvm
        python = java_class(self._jvm, "org.apache.spark.api.python.PythonUtils")
        self._seq = python.toSeq
        given = java_class(self._jvm, "java.util.HashMap")()
        for key, value in properties.items():
            given.put(key, value)
        #: Consumers are found again by this name.
        name = f"{group or 'spark-kafka-relation'}-{uuid.uuid4()}"
        provider = java_class(self._jvm, f"{_KAFKA}.KafkaSourceProvider")
        self._params = provider.kafkaParamsForExecutors(python.toScalaMap(given), name)
        self._nothing = python.toScalaMap(java_class(self._jvm, "java.util.HashMap")())
        self._nowhere = java_class(self._jvm, "scala.Option").empty()
        self._context = spark._jsc.sc()
        self._factory = _object(self._jvm, f"{_KAFKA}.KafkaBatchReaderFactory$")
        schema = _object(self._jvm, f"{_KAFKA}.KafkaRecordToRowConverter$").kafkaSchema(True)
        # The plan of no messages at all.
        empty = self._rows([])
        with active(spark), settings(spark, _PLAIN):
            rows = DataFrame(spark._jsparkSession.internalCreateDataFrame(empty, schema, False), spark)
            plain, self._arriving = departing(shaped(rows), _nobody)
            self._frame = plain._jdf
            plan = self._frame.queryExecution().executedPlan()
        #: What is made of the rows, from the last to the first.
        self._projects: list[Any] = []
        while (kind := plan.getClass().getSimpleName()) == "ProjectExec":
            self._projects.insert(0, plan)
            plan = plan.child()
        if kind != "RDDScanExec":
            raise TypeError(f"a plan that reads by {kind}")
        #: What the plan reads, but for the rows.
        self._scanned = (
            plan.output(),
            plan.name(),
            plan.outputPartitioning(),
            plan.outputOrdering(),
            plan.stream(),
        )
        self._schema: pa.Schema = to_arrow_schema(plain.schema)
        self._places: dict[int, Any] = {}

    def batch(self, tasks: Sequence[Sequence[Share]]) -> MessageBatch:
        return MessageBatch(self, tasks)

    def texts(self, tasks: Sequence[Sequence[Share]], task: Task) -> list[str]:
        """See `Job`."""
        with active(self._spark):
            batches = self._frame.toArrowBatchRdd(self._plan(tasks))
        return run_over(self._spark, BytesTask(replace(self._arriving, task=task), self._schema), batches)

    def _plan(self, tasks: Sequence[Sequence[Share]]) -> Any:
        """The plan of the query, whose rows are those messages."""
        scan = java_class(self._jvm, "org.apache.spark.sql.execution.RDDScanExec")
        output, *rest = self._scanned
        plan = scan(output, self._rows(tasks), *rest)
        for project in self._projects:
            plan = project.withNewChildren(self._seq([plan]))
        return plan

    def _rows(self, tasks: Sequence[Sequence[Share]]) -> Any:
        """The messages as Spark's Kafka source gives them."""
        shares = [self._seq([self._share(*share) for share in shares]) for shares in tasks]
        rdd = java_class(self._jvm, "org.apache.spark.sql.execution.datasources.v2.DataSourceRDD")
        return rdd(self._context, self._seq(shares), self._factory, False, self._nothing)

    def _share(self, partition: int, since: int, until: int) -> Any:
        if partition not in self._places:
            place = java_class(self._jvm, "org.apache.kafka.common.TopicPartition")
            self._places[partition] = place(self._topic, partition)
        offsets = java_class(self._jvm, f"{_KAFKA}.KafkaOffsetRange")
        offsets = offsets(self._places[partition], since, until, self._nowhere)
        share = java_class(self._jvm, f"{_KAFKA}.KafkaBatchInputPartition")
        # What is gone fails the job.
        return share(offsets, self._params, _POLL_MS, True, True)


def kafka_jobs(
    spark: SparkSession,
    properties: Mapping[str, str],
    topic: str,
    group: str | None,
    shaped: Callable[[DataFrame], DataFrame],
) -> KafkaJobs | None:
    """What reads a topic's small batches; None where Spark is another one than this is written for."""
    from py4j.protocol import Py4JError

    if not has_core(spark) or not spark.version.startswith(_SPARK):
        return None
    try:
        return KafkaJobs(spark, properties, topic, group, shaped)
    except (Py4JError, TypeError):
        return None


def _nobody(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Stands for the task of a batch."""
    return batches


def _object(jvm: Any, name: str) -> Any:
    """An object of Scala's."""
    return getattr(java_class(jvm, name), "MODULE$")
