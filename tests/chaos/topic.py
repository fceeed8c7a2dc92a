"""Read a whole topic back from the broker, with offsets and the broker's own times: the truth of `make chaos`."""

from __future__ import annotations

import time

from tests.chaos.replay import Stored


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
        out: dict[str, list[Stored]] = {str(p.partition): [] for p in partitions}
        left, deadline = sum(ends.values()), time.monotonic() + patience
        while left:
            for part, records in consumer.poll(timeout_ms=1000).items():
                deadline = time.monotonic() + patience
                out[str(part.partition)] += [Stored(r.offset, r.timestamp, r.value) for r in records]
            left = sum(end - consumer.position(part) for part, end in ends.items())
            if time.monotonic() > deadline:
                raise TimeoutError(f"{left} rows of {topic} do not come")
        return out
    finally:
        consumer.close()
