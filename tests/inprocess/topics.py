"""Topics of a broker in memory (`broker.py`), for the runner without a JVM (see the port, `runtime/topics.py`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar
from unittest.mock import patch

import pyarrow as pa

from tests.inprocess.broker import NO_TIME, Broker, LostError, Message, UnknownTopicError, UnreachableError
from tests.inprocess.held import when_computed
from tidegate.errors import TidegateError
from tidegate.project.kafka import java_properties
from tidegate.project.kafka import topic as topic_name
from tidegate.sql.options.kafka_options import BOOTSTRAP, written_servers

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tidegate.sql.catalog.objects import Relation, Sink
    from tidegate.sql.options.kafka_options import KafkaOptions, KafkaSinkOptions
    from tidegate.store.brokers.broker import Offsets

Answer = TypeVar("Answer")

#: The brokers that are there, by their addresses.
RUNNING: dict[str, Broker] = {}

_HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
_MESSAGES = pa.schema(
    [
        ("value", pa.binary()),
        ("_partition", pa.int32()),
        ("_offset", pa.int64()),
        ("_rowtime", pa.timestamp("us", "UTC")),
        ("_key", pa.binary()),
        ("_headers", _HEADERS),
    ]
)


@contextmanager
def running(broker: Broker) -> Iterator[Broker]:
    """While the block runs, the broker is found at its address: by sessions in process, and by what asks from Python
    (`store/brokers/broker.py`: status, findings, whether a run is worth starting)."""
    RUNNING[broker.bootstrap] = broker
    try:
        with patch("tidegate.store.brokers.broker.BrokerConnection", Connection):
            yield broker
    finally:
        del RUNNING[broker.bootstrap]


def _at(servers: str) -> Broker:
    if servers not in RUNNING:
        raise UnreachableError("Connection refused")
    return RUNNING[servers]


class InProcessTopics:
    """See `Topics`."""

    def __init__(self, spark: SparkSession, find: Callable[[str], Broker] = _at) -> None:
        """`find`: the broker of an address."""
        self._spark, self._find = spark, find

    def source(self, relation: Relation, options: KafkaOptions) -> InProcessSourceTopic:
        return InProcessSourceTopic(self._spark, self._find, relation, options)

    def sink(self, sink: Sink, options: KafkaSinkOptions) -> InProcessSinkTopic:
        return InProcessSinkTopic(self._spark, self._find, options)


class InProcessSourceTopic:
    """See `SourceTopic`."""

    def __init__(
        self, spark: SparkSession, find: Callable[[str], Broker], relation: Relation, options: KafkaOptions
    ) -> None:
        properties = java_properties(options)
        self._spark, self._find, self._relation = spark, find, relation
        self._servers, self._shown = properties[BOOTSTRAP[1]], written_servers(options.properties)
        self._topic, self._committed = topic_name(options), _committed(properties)

    def close(self) -> None:
        pass

    def topic_id(self) -> str | None:
        return self._ask(lambda broker: broker.id_of(self._topic))

    def latest(self) -> dict[str, int]:
        return _named(self._ask(lambda broker: broker.latest(self._topic, self._committed)))

    def still(self, ends: Mapping[str, int]) -> bool:
        try:
            return InProcessSourceTopic.latest(self) == ends
        except TidegateError:
            return False

    def earliest(self) -> dict[str, int]:
        return _named(self._ask(lambda broker: broker.earliest(self._topic)))

    def at(self, millis: int) -> dict[str, int]:
        return _named(self._ask(lambda broker: broker.at(self._topic, millis, self._committed)))

    def messages(self, ranges: Mapping[str, tuple[int, int]]) -> DataFrame:
        asked = {int(name): given for name, given in ranges.items()}
        return when_computed(
            self._spark,
            lambda: _table(
                _as_of_spark(
                    lambda: self._find(self._servers).fetch(self._topic, asked, self._committed, True)
                )
            ),
        )

    def jobs(self, shaped: Callable[[DataFrame], DataFrame]) -> None:
        return None

    def in_tasks(self) -> None:
        return None

    def _ask(self, question: Callable[[Broker], Answer]) -> Answer:
        try:
            return question(self._find(self._servers))
        except UnknownTopicError:
            code, said = "TG551", f"there is no topic {self._topic} at {self._shown}"
        except UnreachableError as error:
            code, said = "TG550", f"Kafka at {self._shown} does not answer: {error}"
        raise TidegateError(code, f'source "{self._relation.name}": {said}', location=self._relation.location)


class InProcessSinkTopic:
    """See `SinkTopic`."""

    def __init__(self, spark: SparkSession, find: Callable[[str], Broker], options: KafkaSinkOptions) -> None:
        self._spark, self._find, self._options = spark, find, options

    def require(self) -> None:
        pass

    def state(self) -> tuple[Offsets, str | None]:
        topic = topic_name(self._options)
        properties = {**java_properties(self._options), "isolation.level": "read_uncommitted"}
        with Connection(properties, shown=self._options.properties, find=self._find) as connection:
            return connection.offsets(topic), connection.topic_id(topic)

    def is_compacted(self) -> bool:
        properties = java_properties(self._options)
        with Connection(properties, shown=self._options.properties, find=self._find) as connection:
            return "compact" in connection.setting(topic_name(self._options), "cleanup.policy").split(",")

    def messages(self, since: Mapping[int, int], until: Mapping[int, int]) -> DataFrame:
        topic, properties = topic_name(self._options), java_properties(self._options)
        ranges = {number: (since[number], end) for number, end in until.items()}

        def fetch() -> pa.Table:
            broker = self._find(properties[BOOTSTRAP[1]])
            return _table(_as_of_spark(lambda: broker.fetch(topic, ranges, False, complete=False)))

        names = [
            "_key AS key",
            "value",
            "_headers AS headers",
            "_partition AS partition",
            "_offset AS offset",
        ]
        return when_computed(self._spark, fetch).selectExpr(*names)

    def send(self, messages: DataFrame) -> None:
        rows = messages.toArrow().to_pylist()
        topic, servers = topic_name(self._options), java_properties(self._options)[BOOTSTRAP[1]]

        def send() -> None:
            broker = self._find(servers)
            upto, words = broker.faults.broken_sends.pop(0) if broker.faults.broken_sends else (None, None)
            for row in rows[:upto]:
                headers = tuple((header["key"], header["value"]) for header in row["headers"])
                message = _encoded(row["key"]), _encoded(row["value"]), headers
                broker.append(topic, *message, row.get("partition"))
            if words is not None:
                raise UnreachableError(words)

        _as_of_spark(send)


class Connection:
    """What `store.broker.BrokerConnection` answers, of a broker in memory."""

    def __init__(
        self,
        properties: Mapping[str, str],
        timeout_s: float = 5.0,
        shown: Mapping[str, str] | None = None,
        find: Callable[[str], Broker] = _at,
    ) -> None:
        self._properties, self._find = properties, find
        self._shown = written_servers(shown or properties)

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        pass

    def offsets(self, topic: str) -> Offsets:
        committed = _committed(self._properties)
        earliest = self._ask(lambda broker: broker.earliest(topic))
        latest = self._ask(lambda broker: broker.latest(topic, committed))
        return {number: (earliest[number], end) for number, end in latest.items() if number in earliest}

    def offsets_of(self, topics: Sequence[str]) -> dict[str, Offsets | TidegateError]:
        return {topic: self._offsets_or_error(topic) for topic in topics}

    def _offsets_or_error(self, topic: str) -> Offsets | TidegateError:
        try:
            return self.offsets(topic)
        except TidegateError as error:
            return error

    def newest(self, topic: str) -> dict[int, int]:
        def ask(broker: Broker) -> dict[int, int]:
            ranges = {number: (0, end) for number, end in broker.latest(topic, False).items()}
            found: dict[int, int] = {}
            for number, message in broker.fetch(topic, ranges, committed=False, complete=False):
                found[number] = max(message.millis, found.get(number, 0))
            return found

        return self._ask(ask)

    def topic_id(self, topic: str) -> str | None:
        return self._ask(lambda broker: broker.id_of(topic))

    def setting(self, topic: str, name: str) -> str:
        return self._ask(lambda broker: broker.setting(topic, name))

    def _ask(self, question: Callable[[Broker], Answer]) -> Answer:
        try:
            return question(self._find(self._properties[BOOTSTRAP[1]]))
        except UnknownTopicError as error:
            said = f"there is no topic {error}"
        except UnreachableError as error:
            said = f"{self._shown}: {error}"
        raise TidegateError("TG621", f"Kafka: {said}")


def _committed(properties: Mapping[str, str]) -> bool:
    return properties.get("isolation.level") == "read_committed"


def _named(offsets: Mapping[int, int]) -> dict[str, int]:
    return {str(number): offset for number, offset in offsets.items()}


def _encoded(text: str | None) -> bytes | None:
    return None if text is None else text.encode()


def _as_of_spark(ask: Callable[[], Answer]) -> Answer:
    """What goes wrong while a query runs, as Spark says it."""
    from pyspark.errors.exceptions.connect import SparkConnectGrpcException

    try:
        return ask()
    except (UnreachableError, UnknownTopicError) as error:
        said = f"org.apache.kafka.common.KafkaException: {error}"
    except LostError as error:
        said = f"java.lang.IllegalStateException: Some data may have been lost: {error}"
    raise SparkConnectGrpcException(f"Job aborted due to stage failure: {said}")


def _table(found: list[tuple[int, Message]]) -> pa.Table:
    columns: list[list[Any]] = [
        [message.value for _, message in found],
        [number for number, _ in found],
        [message.offset for _, message in found],
        [None if message.time_type == NO_TIME else message.millis * 1000 for _, message in found],
        [message.key for _, message in found],
        [[{"key": name, "value": value} for name, value in message.headers] or None for _, message in found],
    ]
    return pa.table(columns, schema=_MESSAGES)
