"""Topics through Spark's Kafka connector, and Java's client in it (see the port, `topics.py`)."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import closing
from typing import TYPE_CHECKING

from tidegate.project.kafka import READING, java_properties
from tidegate.project.kafka import topic as topic_name
from tidegate.runtime.cluster_looks import SharedLooks
from tidegate.runtime.kafka_broker import KafkaTopic, require_kafka
from tidegate.runtime.kafka_jobs import kafka_jobs
from tidegate.runtime.kafka_reading import why_connector
from tidegate.runtime.topics import MESSAGE, PLACED_MESSAGE, MessageJobs
from tidegate.sql.options.kafka_options import BOOTSTRAP, written_servers
from tidegate.store.brokers.broker import BrokerConnection, Offsets
from tidegate.store.brokers.broker_access import OnlyForJava
from tidegate.tasks.first_attempt import FirstAttempt
from tidegate.tasks.transfer import map_in_arrow

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tidegate.sql.catalog.objects import Relation, Sink
    from tidegate.sql.options.kafka_options import KafkaOptions, KafkaSinkOptions
    from tidegate.tasks.kafka.cluster import TopicAccess

#: A row counts as delivered when all replicas in sync have it, once, whatever the network does.
_DURABLE = {"acks": "all", "enable.idempotence": "true"}
#: A task keeps a core of others while it waits for a broker, so it waits less long than Kafka's clients do by
#: default (two minutes); what was not delivered is delivered by the next try.
_WAITS = {"max.block.ms": "15000", "request.timeout.ms": "15000", "delivery.timeout.ms": "60000"}
#: The setting of a topic that says what becomes of its old messages.
_CLEANUP = "cleanup.policy"
#: Properties that say how a broker is reached.
_ACCESS = ("security.", "sasl.", "ssl.")


class SparkTopics:
    """See `Topics`. `clusters`: those of its process."""

    def __init__(self, spark: SparkSession, clusters: SharedLooks) -> None:
        self._spark, self.clusters = spark, clusters

    def source(self, relation: Relation, options: KafkaOptions) -> SparkSourceTopic:
        require_kafka(self._spark)
        return SparkSourceTopic(self._spark, self.clusters, relation, options)

    def sink(self, sink: Sink, options: KafkaSinkOptions) -> SparkSinkTopic:
        return SparkSinkTopic(self._spark, self.clusters, sink, options)


class SparkSourceTopic(KafkaTopic):
    """See `SourceTopic`."""

    def __init__(
        self, spark: SparkSession, clusters: SharedLooks, relation: Relation, options: KafkaOptions
    ) -> None:
        self._spark, self._group_prefix, self._name = spark, options.group_prefix, topic_name(options)
        self._given, self._options = java_properties(options), options
        servers = written_servers(options.properties)
        super().__init__(spark, clusters, self._given, self._name, servers, relation.name, relation.location)

    def messages(self, ranges: Mapping[str, tuple[int, int]]) -> DataFrame:
        starts = {int(name): since for name, (since, _) in ranges.items()}
        ends = {int(name): until for name, (_, until) in ranges.items()}
        more = {"failOnDataLoss": "true"}
        if self._group_prefix is not None:
            more["groupIdPrefix"] = self._group_prefix
        return _renamed(_read(self._spark, self._given, self._name, starts, ends, more))

    def jobs(self, shaped: Callable[[DataFrame], DataFrame]) -> MessageJobs | None:
        properties = READING | self._given
        return kafka_jobs(
            self._spark, properties, self._name, self._group_prefix, lambda rows: shaped(_renamed(rows))
        )

    def in_tasks(self) -> TopicAccess | None:
        if why_connector(self._options, self._spark.sparkContext.master or "") is not None:
            return None
        from tidegate.tasks.kafka.cluster import TopicAccess

        servers = tuple(server.strip() for server in self._given[BOOTSTRAP[1]].split(",") if server.strip())
        committed = self._given.get("isolation.level") == "read_committed"
        access = {name: value for name, value in self._given.items() if name.startswith(_ACCESS)}
        return TopicAccess(self._name, servers, committed, tuple(sorted(access.items())))


class SparkSinkTopic:
    """See `SinkTopic`."""

    def __init__(
        self, spark: SparkSession, clusters: SharedLooks, sink: Sink, options: KafkaSinkOptions
    ) -> None:
        self._spark, self._clusters, self._sink, self._options = spark, clusters, sink, options

    def require(self) -> None:
        require_kafka(self._spark)

    def state(self) -> tuple[Offsets, str | None]:
        topic, properties = topic_name(self._options), self._reading()
        try:
            with BrokerConnection(properties, shown=self._options.properties) as broker:
                return broker.offsets(topic), broker.topic_id(topic)
        except OnlyForJava:
            require_kafka(self._spark)
        with closing(self._java()) as java:
            earliest, latest = java.earliest(), java.latest()
            return {int(p): (earliest.get(p, 0), end) for p, end in latest.items()}, java.topic_id()

    def is_compacted(self) -> bool:
        topic, properties = topic_name(self._options), java_properties(self._options)
        try:
            with BrokerConnection(properties, shown=self._options.properties) as broker:
                policy = broker.setting(topic, _CLEANUP)
        except OnlyForJava:
            require_kafka(self._spark)
            with closing(self._java()) as java:
                policy = java.setting(_CLEANUP)
        return "compact" in policy.split(",")

    def messages(self, since: Mapping[int, int], until: Mapping[int, int]) -> DataFrame:
        properties, topic = self._reading(), topic_name(self._options)
        # Markers of others' transactions leave gaps.
        more = {"failOnDataLoss": "false"}
        found = _read(self._spark, properties, topic, since, until, more)
        return found.select("key", "value", "headers", "partition", "offset")

    def send(self, messages: DataFrame) -> None:
        schema = PLACED_MESSAGE if "partition" in messages.columns else MESSAGE
        writer = map_in_arrow(messages, FirstAttempt(), schema).write.format("kafka").mode("append")
        for key, value in producer_properties(java_properties(self._options)).items():
            writer = writer.option(f"kafka.{key}", value)
        writer.option("topic", topic_name(self._options)).save()

    def _reading(self) -> dict[str, str]:
        """Another program's open transaction hides nothing that this sink has sent."""
        return {**java_properties(self._options), "isolation.level": "read_uncommitted"}

    def _java(self) -> KafkaTopic:
        servers = written_servers(self._options.properties)
        named = self._sink.name, self._sink.location
        topic, properties = topic_name(self._options), self._reading()
        return KafkaTopic(self._spark, self._clusters, properties, topic, servers, *named)


def producer_properties(given: Mapping[str, str]) -> dict[str, str]:
    """Of a sink's producers. What a sink says of how long they wait is taken as a whole: the parts have to fit."""
    patient = {} if {*_WAITS, "linger.ms"} & given.keys() else _WAITS
    return {**patient, **given, **_DURABLE}


def _renamed(rows: DataFrame) -> DataFrame:
    """The rows of Spark's Kafka source by the names of `SourceTopic.messages`."""
    from pyspark.sql import functions as F

    return rows.select(
        "value",
        F.col("partition").alias("_partition"),
        F.col("offset").alias("_offset"),
        F.when(F.col("timestampType") >= 0, F.col("timestamp")).alias("_rowtime"),
        F.col("key").alias("_key"),
        F.col("headers").alias("_headers"),
    )


def _read(
    spark: SparkSession,
    properties: Mapping[str, str],
    topic: str,
    since: Mapping[int, int],
    until: Mapping[int, int],
    more: Mapping[str, str],
) -> DataFrame:
    """The messages of offsets [since, until), as Spark's connector gives them."""
    options = {f"kafka.{key}": value for key, value in (READING | dict(properties)).items()} | {
        "assign": json.dumps({topic: sorted(until)}),
        "startingOffsets": json.dumps({topic: dict(since)}),
        "endingOffsets": json.dumps({topic: dict(until)}),
        "includeHeaders": "true",
    }
    reader = spark.read.format("kafka")
    for key, value in (options | dict(more)).items():
        reader = reader.option(key, value)
    return reader.load()
