"""Read whole topics back from the broker: the truth of `make chaos`, with offsets and the broker's own times, and what
a sink has delivered."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, TypeVar

from tests.chaos.replay import Delivered, Stored

T = TypeVar("T")


def end_offsets(bootstrap: str, topic: str) -> dict[str, int]:
    """Partition → end offset."""
    from kafka import KafkaConsumer, TopicPartition

    consumer = KafkaConsumer(bootstrap_servers=bootstrap)
    try:
        partitions = [TopicPartition(topic, p) for p in consumer.partitions_for_topic(topic) or ()]
        return {str(p.partition): end for p, end in consumer.end_offsets(partitions).items()}
    finally:
        consumer.close()


def read_topic(bootstrap: str, topic: str, patience: float = 60.0) -> dict[str, list[Stored]]:
    """Every row by partition, in offset order. Raises TimeoutError if nothing comes for `patience` seconds."""
    return _read(bootstrap, topic, lambda r: Stored(r.offset, r.timestamp, r.value), patience)


def read_delivered(bootstrap: str, topic: str, patience: float = 60.0) -> list[Delivered]:
    """Every message of a sink, in the order of (partition, offset); raises as `read_topic` does."""

    def made(record: Any) -> Delivered:
        key = None if record.key is None else record.key.decode()
        return Delivered(dict(record.headers)["tidegate-id"].decode(), key, record.value)

    found = _read(bootstrap, topic, made, patience)
    return [message for _, messages in sorted(found.items()) for message in messages]


def _read(bootstrap: str, topic: str, make: Callable[[Any], T], patience: float) -> dict[str, list[T]]:
    from kafka import KafkaConsumer, TopicPartition

    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap,
        enable_auto_commit=False,
        check_crcs=False,
        max_partition_fetch_bytes=4 << 20,
        max_poll_records=20_000,
    )
    try:
        partitions = [TopicPartition(topic, p) for p in consumer.partitions_for_topic(topic) or ()]
        consumer.assign(partitions)
        ends = consumer.end_offsets(partitions)
        consumer.seek_to_beginning(*partitions)
        out: dict[str, list[T]] = {str(p.partition): [] for p in partitions}
        left, deadline = sum(ends.values()), time.monotonic() + patience
        while left:
            for part, records in consumer.poll(timeout_ms=1000).items():
                deadline = time.monotonic() + patience
                out[str(part.partition)] += map(make, records)
            left = sum(end - consumer.position(part) for part, end in ends.items())
            if time.monotonic() > deadline:
                raise TimeoutError(f"{left} rows of {topic} do not come")
        return out
    finally:
        consumer.close()
