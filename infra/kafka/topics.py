"""Topics of a broker on loopback: make them, let them grow, empty them, and fill them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Any

from kafka import KafkaProducer, TopicPartition
from kafka.admin import KafkaAdminClient, OffsetSpec
from kafka.serializer import Serializer

#: (partition, key, value, timestamp in ms[, headers]); keys and values may be bytes, text or None.
Row = tuple[Any, ...]


class Topics:
    """An admin client, to be used in a `with`."""

    def __init__(self, bootstrap: str) -> None:
        self._admin = KafkaAdminClient(bootstrap_servers=bootstrap, bootstrap_timeout_ms=10_000)

    def __enter__(self) -> Topics:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._admin.close()

    def create(self, name: str, partitions: int, config: Mapping[str, str] | None = None) -> None:
        """A topic with all its partitions led; raises KafkaError (TopicAlreadyExistsError)."""
        settings = {key: str(value) for key, value in (config or {}).items()}
        wanted = {name: {"num_partitions": partitions, "replication_factor": 1, "configs": settings}}
        self._admin.create_topics(wanted, wait_for_metadata=True)

    def grow(self, name: str, partitions: int) -> None:
        """Let the topic have this many partitions altogether."""
        self._admin.create_partitions({name: partitions})

    def delete(self, name: str) -> None:
        """The topic and its messages."""
        self._admin.delete_topics([name])

    def delete_before(self, name: str, offsets: Mapping[int, int]) -> None:
        """What retention would do: {partition: the first offset that stays}."""
        self._admin.delete_records({TopicPartition(name, p): offset for p, offset in offsets.items()})

    def names(self) -> list[str]:
        """All topics but the broker's own."""
        return sorted(name for name in self._admin.list_topics() if not name.startswith("__"))

    def partitions(self, name: str) -> list[int]:
        """The partitions' numbers; empty if there is no such topic."""
        found = self._admin.describe_topics([name])
        return sorted(p["partition_index"] for topic in found for p in topic["partitions"])

    def ends(self, name: str) -> dict[int, int]:
        """{partition: the offset that the next message gets}."""
        return self._offsets(name, OffsetSpec.LATEST)

    def starts(self, name: str) -> dict[int, int]:
        """{partition: the first offset that is still there}."""
        return self._offsets(name, OffsetSpec.EARLIEST)

    def _offsets(self, name: str, which: Any) -> dict[int, int]:
        wanted = {TopicPartition(name, p): which for p in self.partitions(name)}
        found = self._admin.list_partition_offsets(wanted)
        return {place.partition: found[place].offset for place in sorted(found)}


class _Absent(Serializer):
    """kafka-python refuses a message with neither key nor value, which Kafka does not: `_ABSENT` becomes no key."""

    def serialize(self, topic: str, headers: list[tuple[str, bytes]], data: Any) -> Any:
        return None if data is _ABSENT else data


_ABSENT = object()


def producer(bootstrap: str, **settings: Any) -> KafkaProducer:
    """A producer for many small rows and for some of 10 MB."""
    usual: dict[str, Any] = {"batch_size": 262_144, "linger_ms": 20, "max_request_size": 20_000_000}
    usual["key_serializer"] = _Absent()
    return KafkaProducer(bootstrap_servers=bootstrap, **(usual | settings))


def send(out: KafkaProducer, topic: str, rows: Iterable[Row]) -> int:
    """Send rows, wait until the broker has them all, and count them; raises the first KafkaError."""
    sent = []
    for partition, key, value, timestamp_ms, *rest in rows:
        headers = [(name, _bytes(text)) for name, text in (rest[0] or [])] if rest else None
        sent.append(
            out.send(
                topic,
                value=_bytes(value),
                key=_ABSENT if key is None else _bytes(key),
                headers=headers,
                partition=partition,
                timestamp_ms=timestamp_ms,
            )
        )
    out.flush()
    for future in sent:
        future.get(timeout=30)
    return len(sent)


def _bytes(value: bytes | str | None) -> bytes | None:
    return value.encode() if isinstance(value, str) else value
