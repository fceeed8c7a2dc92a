"""What a Kafka broker says of one topic, asked by the Java client that Spark's readers use: with the same properties.

Spark's own offset reader answers for all partitions at once, as one JSON text: nothing here costs a call per partition.

What is read and committed depends on these offsets, so they come from the client that reads the messages, with its
login and its meaning of `isolation.level`. `store/brokers/broker.py` asks the same from Python, because status,
findings and `up_to_date` answer in a second, without a JVM; what it says is shown, or spares a run, and is never
committed.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

from tidegate.errors import Location, TidegateError
from tidegate.jvm.calls import Calls, Promise
from tidegate.jvm.java import java_class, once
from tidegate.project.catalog_failures import causes
from tidegate.runtime.cluster_looks import ClusterLooks, Seat, SharedLooks, SilentError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Answer = TypeVar("Answer")

#: A broker that does not answer is an error soon, not after Kafka's minutes; what is given wins.
_PATIENCE = {"default.api.timeout.ms": "20000", "request.timeout.ms": "10000"}
#: The client itself tries again until then; Spark would begin that once more, and twice.
_ONCE = {"fetchoffset.numretries": "1"}
#: Seconds behind a question for a topic that is not there: brokers hear of a new one one after the other.
_PAUSES = (1.0, 1.0, 0.0)
_NO_ID = "AAAAAAAAAAAAAAAAAAAAAA"


class JavaOffsets:
    """Asks a cluster for the offsets of some topics by Java's client; raises what that raises. `properties`: of the
    client, expanded: maybe secrets. Close it."""

    def __init__(self, spark: SparkSession, properties: Mapping[str, str], topics: Sequence[str]) -> None:
        assert spark._jvm is not None
        self._jvm = spark._jvm
        self._properties = java_class(self._jvm, "java.util.HashMap")()
        for key, value in (_PATIENCE | dict(properties)).items():
            self._properties.put(key, value)
        self._topics = java_class(self._jvm, "java.util.ArrayList")()
        for topic in topics:
            self._topics.add(topic)
        self._reader: Any = None
        self._admin: Any = None

    def close(self) -> None:
        """Let go of both connections; a question after that connects again."""
        for client in (self._reader, self._admin):
            if client is not None:
                client.close()
        self._reader = self._admin = None

    def topic_id(self, topic: str) -> str | None:
        """Kafka's id of one of the topics. None from brokers before 2.8."""
        calls, answer = Calls(self._jvm), self._asked()
        described: Any = calls.call(answer, "describeTopics", self._topics)
        for name in ("allTopicNames", "get"):
            described = calls.call(described, name)
        number = calls.call(calls.call(described, "get", topic), "topicId")
        (found,) = calls.run(calls.call(number, "toString"))
        return None if found == _NO_ID else found

    def setting(self, topic: str, name: str) -> str:
        """What one of the topic's settings is."""
        kind = java_class(self._jvm, "org.apache.kafka.common.config.ConfigResource$Type")
        resource = java_class(self._jvm, "org.apache.kafka.common.config.ConfigResource")(kind.TOPIC, topic)
        one = java_class(self._jvm, "java.util.Collections").singleton(resource)
        return str(self._asked().describeConfigs(one).all().get().get(resource).get(name).value())

    def _asked(self) -> Any:
        if self._admin is None:
            self._admin = java_class(self._jvm, "org.apache.kafka.clients.admin.AdminClient").create(
                self._properties
            )
        return self._admin

    def latest(self) -> dict[str, dict[str, int]]:
        """By topic and partition the next free offset."""
        nothing_known = once(java_class(self._jvm, "scala.Option"), "empty")
        return self._offsets("fetchLatestOffsets", nothing_known)

    def earliest(self) -> dict[str, dict[str, int]]:
        """The first offset that is kept."""
        return self._offsets("fetchEarliestOffsets")

    def at(self, millis: int) -> dict[str, dict[str, int]]:
        """The first offset whose message is not older; the next free one where there is none."""
        strategies = self._class("KafkaSourceProvider$StrategyOnNoMatchStartingOffset$")
        if_none = getattr(strategies, "MODULE$").LATEST()
        calls, question = Calls(self._jvm), "fetchGlobalTimestampBasedOffsets"
        found = calls.call(self._opened(), question, millis, True, if_none)
        return self._read(calls, calls.call(found, "partitionToOffsets"))

    def _offsets(self, question: str, *given: Any) -> dict[str, dict[str, int]]:
        calls = Calls(self._jvm)
        return self._read(calls, calls.call(self._opened(), question, *given))

    def _read(self, calls: Calls, offsets: Promise) -> dict[str, dict[str, int]]:
        (text,) = calls.run(calls.call(self._class("JsonUtils"), "partitionOffsets", offsets))
        found: dict[str, dict[str, int]] = json.loads(text)
        return found

    def _class(self, name: str) -> Any:
        """One of Spark's connector."""
        return java_class(self._jvm, f"org.apache.spark.sql.kafka010.{name}")

    def _opened(self) -> Any:
        if self._reader is None:
            python = java_class(self._jvm, "org.apache.spark.api.python.PythonUtils")
            options = java_class(self._jvm, "java.util.HashMap")()
            for key, value in _ONCE.items():
                options.put(key, value)
            provider = self._class("KafkaSourceProvider")
            given = provider.kafkaParamsForDriver(python.toScalaMap(self._properties))
            topics = self._class("SubscribeStrategy")(python.toSeq(self._topics))
            ignoring = getattr(
                getattr(self._jvm.org.apache.spark.sql.catalyst.util, "CaseInsensitiveMap$"), "MODULE$"
            ).apply(python.toScalaMap(options))
            self._reader = self._class("KafkaOffsetReader").build(topics, given, ignoring, "tidegate")
        return self._reader


class KafkaTopic:
    """One topic at its cluster. `properties`: of the Java client, expanded: maybe secrets. `servers`: as written in
    the options, for errors. Close it.

    Offsets are dicts of partition to int. Every question raises TG550 if the broker does not answer or
    refuses, TG551 if there is no such topic.
    """

    def __init__(
        self,
        spark: SparkSession,
        clusters: SharedLooks,
        properties: Mapping[str, str],
        topic: str,
        servers: str,
        source: str,
        location: Location | None = None,
    ) -> None:
        self._topic, self._source, self._location, self._servers = topic, source, location, servers
        self._offsets = JavaOffsets(spark, properties, [topic])
        self._cluster = clusters.of(
            properties,
            lambda: ClusterLooks(partial(JavaOffsets, spark, dict(properties)), _silence, time.monotonic),
        )
        self._seat = Seat(topic)

    def close(self) -> None:
        """Let go of the broker."""
        self._cluster.leave(self._seat)
        self._offsets.close()

    def topic_id(self) -> str | None:
        """Kafka's id of the topic: another one of the same name has another. None from brokers before 2.8."""
        return self._ask(lambda: self._offsets.topic_id(self._topic))

    def setting(self, name: str) -> str:
        """What one of the topic's settings is, for example `cleanup.policy`."""
        return self._ask(lambda: self._offsets.setting(self._topic, name))

    def latest(self) -> dict[str, int]:
        """The next free offset of every partition."""
        found = self._ask(lambda: self._offsets.latest().get(self._topic, {}))
        self._cluster.join(self._seat)
        return found

    def earliest(self) -> dict[str, int]:
        """The first offset that is kept, of every partition."""
        return self._ask(lambda: self._offsets.earliest().get(self._topic, {}))

    def at(self, millis: int) -> dict[str, int]:
        """The first offset whose message is not older than `millis` (since 1970), of every partition; the next free one
        where there is none."""
        return self._ask(lambda: self._offsets.at(millis).get(self._topic, {}))

    def still(self, ends: Mapping[str, int]) -> bool:
        """Whether every partition ends there, by a look that sources of the same cluster share (`cluster_looks.py`)."""
        return self._cluster.still(self._seat, ends)

    def _ask(self, question: Callable[[], Answer]) -> Answer:
        from py4j.protocol import Py4JJavaError

        for pause in _PAUSES:
            try:
                with self._cluster.question(self._topic):
                    return question()
            except SilentError as error:
                raise self._unanswered(str(error)) from None
            except Py4JJavaError as error:
                self._offsets.close()
                names, said = _causes(error.java_exception)
                if "UnknownTopicOrPartitionException" not in names:
                    raise self._unanswered(said) from None
            time.sleep(pause)
        raise TidegateError(
            "TG551",
            f'source "{self._source}": there is no topic {self._topic} at {self._servers}',
            hint="create it, or check the options topic and properties.bootstrap.server",
            location=self._location,
        )

    def _unanswered(self, said: str) -> TidegateError:
        return TidegateError(
            "TG550",
            f'source "{self._source}": Kafka at {self._servers} does not answer: {said}',
            hint="check that the broker runs, properties.bootstrap.server and the login; nothing is lost meanwhile",
            location=self._location,
        )


def _causes(java: Any) -> tuple[list[str], str]:
    """The classes of an error of Java's and its causes, and the first line of what the last of them says."""
    names: list[str] = []
    said = ""
    for cause in islice(causes(java), 10):
        names.append(cause.getClass().getSimpleName())
        said = str(cause.getMessage() or names[-1])
    return names, said.strip().splitlines()[0] if said.strip() else names[-1]


def _silence(error: Exception) -> str | None:
    """Why nobody has answered; None where somebody has."""
    from py4j.protocol import Py4JJavaError

    if not isinstance(error, Py4JJavaError):
        return None
    names, said = _causes(error.java_exception)
    return said if "TimeoutException" in names else None


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
