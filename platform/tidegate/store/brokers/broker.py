"""What a Kafka broker knows of a topic: its partitions and how far they go, asked without a JVM.

For what is shown, and for whether a run is worth starting. Batches ask Java's client, which reads the messages, too
(`runtime/kafka_broker.py`): no offset from here is ever committed.
"""

from __future__ import annotations

import base64
import socket
import uuid
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import TYPE_CHECKING, Any

from tidegate.errors import TidegateError, did_you_mean
from tidegate.project.kafka import java_properties
from tidegate.project.kafka import topic as topic_name
from tidegate.project.reading.variables import Expanded
from tidegate.sql.options.kafka_options import BOOTSTRAP
from tidegate.store.brokers.broker_access import client_settings

if TYPE_CHECKING:
    from tidegate.sql.options.kafka_options import KafkaOptions, KafkaSinkOptions

Offsets = dict[int, tuple[int, int]]

#: Clusters, or servers of one, that are asked at the same time.
_AT_ONCE = 8
_NO_ANSWER = "it accepts connections, but closes them, or does not answer like a broker with these settings"


def read_offsets(options: KafkaOptions | KafkaSinkOptions, timeout_s: float = 5.0) -> Offsets:
    """Of each partition of the topic the earliest offset and the end offset (one after the newest row).

    Raises TG621 if there is no such topic, the broker can't be reached or lets nobody in, within about `timeout_s` for
    each of its answers; TG606 for a variable of the options that is not set.
    """
    with BrokerConnection(java_properties(options), timeout_s, options.properties) as broker:
        return broker.offsets(topic_name(options))


def read_all_offsets(
    topics: Mapping[str, KafkaOptions], timeout_s: float = 5.0
) -> dict[str, Offsets | TidegateError]:
    """Of many sources, by name, what `read_offsets` says, or raises: each cluster is connected to once, and asked once
    for all of its topics, several clusters at a time. One that does not answer is not waited for again."""
    clusters: dict[tuple[tuple[str, str], ...], list[str]] = {}
    found: dict[str, Offsets | TidegateError] = {}
    for name, options in topics.items():
        try:
            clusters.setdefault(tuple(sorted(java_properties(options).items())), []).append(name)
        except TidegateError as error:
            found[name] = error

    def ask(properties: tuple[tuple[str, str], ...]) -> dict[str, Offsets | TidegateError]:
        names = clusters[properties]
        try:
            with BrokerConnection(dict(properties), timeout_s, topics[names[0]].properties) as broker:
                of_topics = broker.offsets_of([topic_name(topics[name]) for name in names])
        except TidegateError as error:
            of_topics = {topic_name(topics[name]): error for name in names}
        return {name: of_topics[topic_name(topics[name])] for name in names}

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        for answer in pool.map(ask, clusters):
            found |= answer
    return found


class BrokerConnection:
    """A connection to a cluster, for those who ask more than once; close it, or use it in a `with` statement.

    `properties`: names and values as Java's client has them, expanded; `shown`: as they are written, for errors. Raises
    TG621 as `read_offsets` does.
    """

    def __init__(
        self,
        properties: Mapping[str, str],
        timeout_s: float = 5.0,
        shown: Mapping[str, str] | None = None,
    ) -> None:
        text = properties[BOOTSTRAP[1]]
        self._servers = [name.strip() for name in text.split(",") if name.strip()]
        # What comes out of the environment is not for errors.
        self._hidden = isinstance(text, Expanded)
        written = [value for name, value in (shown or {}).items() if name.lower() in BOOTSTRAP]
        self._shown = ", ".join(written) or ("***" if self._hidden else ", ".join(self._servers))
        self._settings = client_settings(properties)
        self._committed = properties.get("isolation.level") == "read_committed"
        self._timeout_s = timeout_s
        # kafka-python takes half a second to import.
        from tidegate.store.brokers.broker_client import CanNotConnect, open_client

        try:
            self._client = open_client(self._servers, self._settings, timeout_s)
        except CanNotConnect as error:
            raise self._unreachable(error.reason) from None

    def __enter__(self) -> BrokerConnection:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the connections, and the thread that has them."""
        self._client.close()

    def offsets(self, topic: str) -> Offsets:
        """See `read_offsets`. Where `isolation.level` is read_committed, a partition ends at its oldest open
        transaction: nobody who asks for committed rows gets further."""
        from kafka import TopicPartition
        from kafka.errors import KafkaError

        found = self._described(topic)
        partitions = [TopicPartition(topic, part["partition_index"]) for part in found["partitions"]]
        try:
            earliest, end = self._bounds(partitions)
        except KafkaError as error:
            raise self._refused(_named(topic), error) from None
        return {part.partition: (earliest[part].offset, end[part].offset) for part in sorted(partitions)}

    def offsets_of(self, topics: Sequence[str]) -> dict[str, Offsets | TidegateError]:
        """Of each topic what `offsets` says, or raises, asked for all at once. Where one of them is in the way, each is
        asked for by itself, as long as the broker answers."""
        from kafka import TopicPartition
        from kafka import errors as ke

        wanted = [*dict.fromkeys(topics)]
        try:
            described = self._client.describe_topics(wanted)
            good = [one for one in described if not one["error_code"]]
            partitions = [
                TopicPartition(t["name"], p["partition_index"]) for t in good for p in t["partitions"]
            ]
            earliest, end = self._bounds(partitions)
        except ke.KafkaError as error:
            if isinstance(error, (ke.KafkaTimeoutError, ke.KafkaConnectionError, ke.RequestTimedOutError)):
                return {topic: self._refused(_named(topic), error) for topic in wanted}
            return {topic: self._alone(topic) for topic in wanted}
        found: dict[str, Offsets | TidegateError] = {one["name"]: {} for one in good}
        for part in sorted(partitions):
            of_topic = found[part.topic]
            assert isinstance(of_topic, dict)
            of_topic[part.partition] = earliest[part].offset, end[part].offset
        return {topic: found[topic] if topic in found else self._alone(topic) for topic in wanted}

    def _alone(self, topic: str) -> Offsets | TidegateError:
        try:
            return self.offsets(topic)
        except TidegateError as error:
            return error

    def _bounds(self, partitions: Sequence[Any]) -> list[dict[Any, Any]]:
        """The earliest offsets of partitions, and the end offsets."""
        from kafka.admin import OffsetSpec
        from kafka.protocol.consumer import IsolationLevel

        level = IsolationLevel.READ_COMMITTED if self._committed else IsolationLevel.READ_UNCOMMITTED
        return [
            self._client.list_partition_offsets(
                dict.fromkeys(partitions, spec), level, int(self._timeout_s * 1000)
            )
            for spec in (OffsetSpec.EARLIEST, OffsetSpec.LATEST)
        ]

    def newest(self, topic: str) -> dict[int, int]:
        """Of each partition that has messages the largest timestamp of one (ms since 1970): by the producer's clock, or
        by the broker's where the topic says so. Empty from brokers before 3.0, which do not know. Raises TG621."""
        from kafka import TopicPartition
        from kafka.admin import OffsetSpec
        from kafka.errors import KafkaError, UnsupportedVersionError

        found = self._described(topic)
        partitions = [TopicPartition(topic, part["partition_index"]) for part in found["partitions"]]
        try:
            newest = self._client.list_partition_offsets(
                dict.fromkeys(partitions, OffsetSpec.MAX_TIMESTAMP), timeout_ms=int(self._timeout_s * 1000)
            )
        except UnsupportedVersionError:
            return {}
        except KafkaError as error:
            raise self._refused(_named(topic), error) from None
        return {
            part.partition: at
            for part in partitions
            if (at := newest[part].timestamp) is not None and at >= 0
        }

    def topic_id(self, topic: str) -> str | None:
        """Kafka's id of the topic, as Java writes it: another one of the same name has another. None from brokers
        before 2.8. Raises TG621."""
        found = uuid.UUID(str(self._described(topic).get("topic_id") or uuid.UUID(int=0)))
        return base64.urlsafe_b64encode(found.bytes).decode().rstrip("=") if found.int else None

    def setting(self, topic: str, name: str) -> str:
        """What one of the topic's settings is, for example `cleanup.policy`. Raises TG621."""
        from kafka.admin import ConfigResource
        from kafka.errors import KafkaError

        self._described(topic)
        try:
            found = self._client.describe_configs(
                [ConfigResource("TOPIC", topic, {name: None})], config_filter="all"
            )
        except KafkaError as error:
            raise self._refused(f"the settings of {_named(topic)}", error) from None
        # (What this user may not see is empty.)
        told = found.get("topic", {}).get(topic, {}).get(name)
        if told is None:
            message = f"{_named(topic)}: this user has no permission to see the setting {name}"
            hint = "the user needs the permission DESCRIBE_CONFIGS on the topic"
            raise TidegateError("TG621", message, hint=hint)
        return str(told["value"])

    def _described(self, topic: str) -> dict[str, Any]:
        from kafka.errors import KafkaError

        found: dict[str, Any]
        try:
            (found,) = self._client.describe_topics([topic])
        except KafkaError as error:
            raise self._refused(_named(topic), error) from None
        if found["error_code"]:
            raise self._no_topic(topic, found["error_code"])
        return found

    def _no_topic(self, topic: str, code: int) -> TidegateError:
        from kafka.errors import UnknownTopicOrPartitionError, for_code

        if code != UnknownTopicOrPartitionError.errno:
            return self._refused(_named(topic), for_code(code)())
        topics = [name for name in self._client.list_topics() if not name.startswith("__")]
        there_are = "this client may not see any topic of the broker"
        if topics:
            shown = sorted(topics)[:10]
            there_are = f"available topics: {', '.join(shown)}" + (
                " and more" if len(topics) > len(shown) else ""
            )
        hint = did_you_mean(topic, topics) or there_are
        message = f"the Kafka broker {self._shown} does not have {_named(topic)}"
        return TidegateError(
            "TG621", message, hint=f"{hint}; tidegate creates no topics: create it, with partitions"
        )

    def _unreachable(self, reason: Exception | None) -> TidegateError:
        from kafka import errors as ke

        where = self._shown
        hint = "compare properties.security.protocol, sasl.mechanism and sasl.jaas.config with the broker's"
        if isinstance(reason, (ke.SaslAuthenticationFailedError, ke.UnsupportedSaslMechanismError)):
            mechanism = self._settings.get("sasl_mechanism")
            message = f"the Kafka broker {where} refuses the user: authentication by {mechanism} failed"
            return TidegateError("TG621", message, hint=hint)
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            known = list(pool.map(self._why, self._servers))
        names = [f"server {i + 1}" if self._hidden else server for i, server in enumerate(self._servers)]
        reasons = list(zip(names, known, strict=True))
        said = "; ".join(f"{server}: {why or _NO_ANSWER}" for server, why in reasons)
        message = f"the Kafka broker {where} can't be reached within {self._timeout_s:g} s: {said}"
        if all(why for _, why in reasons):
            hint = "check that it is running, and that properties.bootstrap.server is right"
        return TidegateError("TG621", message, hint=hint)

    def _refused(self, what: str, error: Exception) -> TidegateError:
        """Only what kind of error it is: what it says may have values of the settings in it."""
        from kafka import errors as ke

        kind = type(error).__name__
        if isinstance(error, ke.AuthorizationError):
            message = f"{what}: this user has no permission to see it ({kind})"
            return TidegateError(
                "TG621",
                message,
                hint="the user needs the permission DESCRIBE, and READ or WRITE, on the topic",
            )
        if isinstance(error, ke.InvalidTopicError):
            hint = "use at most 249 letters, digits, '.', '_' and '-'"
            return TidegateError("TG621", f"{what}: this name is not possible for a Kafka topic", hint=hint)
        if isinstance(error, (ke.KafkaTimeoutError, ke.KafkaConnectionError, ke.RequestTimedOutError)):
            message = f"{what}: the broker has not answered within {self._timeout_s:g} s ({kind})"
            return TidegateError("TG621", message, hint="check that it is still running")
        hint = (
            "a topic without a leader, or a broker that is starting, usually recovers soon; "
            "otherwise see the broker's log"
        )
        return TidegateError("TG621", f"{what}: {kind}", hint=hint)

    def _why(self, server: str) -> str | None:
        """What is in the way to this server: its name, its port or TLS; None if all of that works."""
        host, _, port = server.rpartition(":")
        host = host.strip("[]")
        if not host or not port.isdigit():
            return "expected host:port"
        try:
            with socket.create_connection((host, int(port)), timeout=2.0) as plain:
                context = self._settings.get("ssl_context")
                if context is not None:
                    context.wrap_socket(plain, server_hostname=host).close()
        except OSError as error:
            return str(getattr(error, "verify_message", "") or error.strerror or error)
        return None


def _named(topic: str) -> str:
    return "the topic that the environment names" if isinstance(topic, Expanded) else f'topic "{topic}"'
