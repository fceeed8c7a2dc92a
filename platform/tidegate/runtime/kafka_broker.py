"""What a Kafka broker says of one topic, asked by the Java client that Spark's readers use: with the same properties.

Spark's own offset reader answers for all partitions at once, as one JSON text: nothing here costs a call per partition.

What is read and committed depends on these offsets, so they come from the client that reads the messages, with its
login and its meaning of `isolation.level`. `store/broker.py` asks the same from Python, because status, findings and
`up_to_date` answer in a second, without a JVM; what it says is shown, or spares a run, and is never committed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any

from tidegate.errors import Location, TidegateError
from tidegate.jvm.java import java_class
from tidegate.project.catalog_failures import causes

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: A broker that does not answer is an error soon, not after Kafka's minutes; what is given wins.
_PATIENCE = {"default.api.timeout.ms": "20000", "request.timeout.ms": "10000"}
_NO_ID = "AAAAAAAAAAAAAAAAAAAAAA"


class KafkaTopic:
    """One topic at its broker. `properties`: of the Java client, expanded: maybe secrets. `servers`: as written in
    the options, for errors. Close it.

    Offsets are dicts of partition to int. Every question raises TG550 if the broker does not answer or
    refuses, TG551 if there is no such topic.
    """

    def __init__(
        self,
        spark: SparkSession,
        properties: Mapping[str, str],
        topic: str,
        servers: str,
        source: str,
        location: Location | None = None,
    ) -> None:
        assert spark._jvm is not None
        self._jvm, self._topic, self._source, self._location = spark._jvm, topic, source, location
        self._kafka = self._jvm.org.apache.spark.sql.kafka010
        self._servers = servers
        self._properties = java_class(self._jvm, "java.util.HashMap")()
        for key, value in (_PATIENCE | dict(properties)).items():
            self._properties.put(key, value)
        self._topics = java_class(self._jvm, "java.util.ArrayList")()
        self._topics.add(topic)
        self._reader: Any = None
        self._admin: Any = None

    def close(self) -> None:
        """Let go of both connections."""
        for client in (self._reader, self._admin):
            if client is not None:
                client.close()
        self._reader = self._admin = None

    def topic_id(self) -> str | None:
        """Kafka's id of the topic: another one of the same name has another. None from brokers before 2.8."""

        def ask() -> str:
            if self._admin is None:
                self._admin = java_class(self._jvm, "org.apache.kafka.clients.admin.AdminClient").create(
                    self._properties
                )
            found = self._admin.describeTopics(self._topics).allTopicNames().get()
            return str(found.get(self._topic).topicId())

        found = self._ask(ask)
        return None if found == _NO_ID else found

    def latest(self) -> dict[str, int]:
        """The next free offset of every partition."""
        return self._offsets(
            lambda reader: reader.fetchLatestOffsets(java_class(self._jvm, "scala.Option").empty())
        )

    def earliest(self) -> dict[str, int]:
        """The first offset that is kept, of every partition."""
        return self._offsets(lambda reader: reader.fetchEarliestOffsets())

    def at(self, millis: int) -> dict[str, int]:
        """The first offset whose message is not older than `millis` (since 1970), of every partition; the next free one
        where there is none."""
        strategies = getattr(self._kafka, "KafkaSourceProvider$StrategyOnNoMatchStartingOffset$")
        if_none = getattr(strategies, "MODULE$").LATEST()
        return self._offsets(
            lambda reader: reader.fetchGlobalTimestampBasedOffsets(millis, True, if_none).partitionToOffsets()
        )

    def _offsets(self, ask: Callable[[Any], Any]) -> dict[str, int]:
        def text() -> str:
            return str(self._kafka.JsonUtils.partitionOffsets(ask(self._opened())))

        found: dict[str, dict[str, int]] = json.loads(self._ask(text))
        return found.get(self._topic, {})

    def _opened(self) -> Any:
        if self._reader is None:
            python = java_class(self._jvm, "org.apache.spark.api.python.PythonUtils")
            no_options = getattr(
                getattr(self._jvm.org.apache.spark.sql.catalyst.util, "CaseInsensitiveMap$"), "MODULE$"
            ).apply(python.toScalaMap(java_class(self._jvm, "java.util.HashMap")()))
            given = self._kafka.KafkaSourceProvider.kafkaParamsForDriver(python.toScalaMap(self._properties))
            topics = self._kafka.SubscribeStrategy(python.toSeq(self._topics))
            self._reader = self._kafka.KafkaOffsetReader.build(topics, given, no_options, "tidegate")
        return self._reader

    def _ask(self, question: Callable[[], str]) -> str:
        from py4j.protocol import Py4JJavaError

        try:
            return question()
        except Py4JJavaError as error:
            self.close()
            raise self._explained(error.java_exception) from None

    def _explained(self, java: Any) -> TidegateError:
        names: list[str] = []
        said = ""
        for cause in islice(causes(java), 10):
            names.append(cause.getClass().getSimpleName())
            said = str(cause.getMessage() or names[-1])
        if "UnknownTopicOrPartitionException" in names:
            return TidegateError(
                "TG551",
                f'source "{self._source}": there is no topic {self._topic} at {self._servers}',
                hint="create it, or check the options topic and properties.bootstrap.server",
                location=self._location,
            )
        first = said.strip().splitlines()[0] if said.strip() else names[-1]
        return TidegateError(
            "TG550",
            f'source "{self._source}": Kafka at {self._servers} does not answer: {first}',
            hint="check that the broker runs, properties.bootstrap.server and the login; nothing is lost meanwhile",
            location=self._location,
        )


def require_kafka(spark: SparkSession) -> None:
    """Raises TG554 if Spark was started without its Kafka connector."""
    from tidegate.jvm.packages import KAFKA_PACKAGES
    from tidegate.jvm.spark import has_class

    if not has_class(spark, "org.apache.spark.sql.kafka010.KafkaSourceProvider"):
        raise TidegateError(
            "TG554",
            "this Spark session has no Kafka connector",
            hint=f"start it with spark.jars.packages={KAFKA_PACKAGES[0]}, or let tidegate start Spark: "
            "it adds the connector for a project with a Kafka source",
        )
