"""The port to the topics of Kafka: what engine code asks of them, and sends. Users' brokers are asked by Spark and
Java's client (`kafka_topics.py`); tests have a model in memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from tidegate.store.brokers.broker import Offsets

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tidegate.sql.catalog.objects import Relation, Sink
    from tidegate.sql.options.kafka_options import KafkaOptions, KafkaSinkOptions
    from tidegate.tasks.kafka.cluster import TopicAccess
    from tidegate.tasks.transfer import Job

#: Rows that a sink sends: a message each. Without a key a message goes to any partition.
MESSAGE = "key string, value string, headers array<struct<key:string,value:binary>>"
#: Those that say into which partition each message goes.
PLACED_MESSAGE = f"{MESSAGE}, partition int"


#: Messages of a partition, from an offset until another one.
Share = tuple[int, int, int]


class MessageJobs(Protocol):
    """Reads messages by jobs, each of which costs little."""

    def batch(self, tasks: Sequence[Sequence[Share]]) -> Job:
        """The messages that each of these tasks has, of each partition in their order; as `SourceTopic.messages`."""


class SourceTopic(Protocol):
    """A topic that is read. Close it.

    Offsets are dicts of partition to int. Every question about them raises TG550 if the broker does not answer or
    refuses, TG551 if there is no such topic.
    """

    def close(self) -> None:
        """Let go of the broker; a question after that connects again."""

    def topic_id(self) -> str | None:
        """Kafka's id of the topic: another one of the same name has another. None from brokers before 2.8."""

    def latest(self) -> dict[str, int]:
        """The next free offset of every partition; of those who read what is committed, the end of that."""

    def still(self, ends: Mapping[str, int]) -> bool:
        """Whether all partitions, and no others, end there (as of `latest`), by a look of this moment or of one since
        the last question, which others may have taken. False also if that is not known, and no error: `latest` tells
        more."""

    def earliest(self) -> dict[str, int]:
        """The first offset that is kept, of every partition."""

    def at(self, millis: int) -> dict[str, int]:
        """The first offset whose message is not older than `millis` (since 1970), of every partition; the next free one
        where there is none."""

    def messages(self, ranges: Mapping[str, tuple[int, int]]) -> DataFrame:
        """The messages of offsets [from, until), of each partition in their order: `value`, `_partition` (INT),
        `_offset`, `_rowtime` (NULL where the message has no time), `_key` and `_headers` (NULL where it has none).

        Transactions leave gaps: their markers, and for those who read what is committed the messages of aborted ones.
        When the frame is computed, it raises an error of Spark's if the broker does not answer, or no longer has part
        of what was asked for."""

    def jobs(self, shaped: Callable[[DataFrame], DataFrame]) -> MessageJobs | None:
        """What reads small batches of the messages, `shaped` by column; None where only `messages` does."""

    def in_tasks(self) -> TopicAccess | None:
        """How tasks read the same messages without the engine's help (`tasks/kafka`); None where they can't."""


class SinkTopic(Protocol):
    """A topic that is delivered into."""

    def require(self) -> None:
        """Raise TG554 if nothing can be sent from here."""

    def state(self) -> tuple[Offsets, str | None]:
        """Of each partition the earliest offset and the next free one, and the topic's id. Raises TG621 if there is no
        such topic, or the broker does not answer or refuses; TG550, TG551 of one that only Java's client has access
        to."""

    def is_compacted(self) -> bool:
        """Whether the brokers keep only the last message of each key (`cleanup.policy` has `compact`), so that a null
        value deletes what the key had. Raises as `state`, also if this user may not see the topic's settings."""

    def messages(self, since: Mapping[int, int], until: Mapping[int, int]) -> DataFrame:
        """The messages with offsets [since, until), in any order: `key`, `value`, `headers`, `partition` (INT),
        `offset`. Gaps are no error."""

    def send(self, messages: DataFrame) -> None:
        """Send rows of `MESSAGE`, those of a key to one partition and in their order, or of `PLACED_MESSAGE`; returns
        when all replicas in sync have all of them. If it raises, some of them may have been sent, each of them once.
        The error's text has `tasks.first_attempt.REPEATED` if it was the runner that gave up before the broker did."""


class Topics(Protocol):
    """Where topics are found: at the brokers that options name. Both raise TG606 for a variable that is not set: of a
    source at once, of a sink when it is used."""

    def source(self, relation: Relation, options: KafkaOptions) -> SourceTopic:
        """The topic of a source. Raises TG554 if nothing can be read from here."""

    def sink(self, sink: Sink, options: KafkaSinkOptions) -> SinkTopic:
        """The topic of a sink."""
