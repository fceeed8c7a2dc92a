"""A real broker for tests: one per test process, on a free port, started when the first test asks for it."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition

from infra.kafka.broker import LocalBroker, free_port
from infra.kafka.topics import Row, Topics, producer, send


class Broker:
    """A broker and what tests do with it. `bootstrap` stays the same over stop and start."""

    def __init__(self, folder: Path) -> None:
        self.local = LocalBroker(folder)
        self.port = free_port()
        self.bootstrap = f"127.0.0.1:{self.port}"
        self._topics: Topics | None = None
        self._producer: KafkaProducer | None = None

    def start(self) -> None:
        """Start it, with what it held when it ended; nothing if it runs."""
        self.local.start(self.port, with_parent=True)

    def stop(self) -> None:
        """An orderly stop."""
        self._let_go()
        self.local.stop()

    def kill(self) -> None:
        """SIGKILL; what was acknowledged is still there after start()."""
        self._let_go()
        self.local.kill()

    def topic(self, name: str | None = None, partitions: int = 3, **config: str) -> str:
        """Create a topic whose name no other test has, beginning with `name`; `config` with _ for each dot."""
        unique = f"{name or 'topic'}-{uuid.uuid4().hex[:8]}"
        settings = {key.replace("_", "."): value for key, value in config.items()}
        self._admin.create(unique, partitions, settings)
        return unique

    def send(self, topic: str, rows: Iterable[Row]) -> int:
        """Send (partition, key, value, timestamp_ms[, headers]) in this order; all are there when it returns.

        Keys and values: bytes, text or None. Headers: a list of (name, bytes or text).
        """
        if self._producer is None:
            self._producer = producer(self.bootstrap)
        return send(self._producer, topic, rows)

    @contextmanager
    def transaction(self, topic: str, rows: Iterable[Row], commit: bool) -> Iterator[None]:
        """While the block runs these rows are sent, and the transaction is open; then it ends so."""
        made = producer(self.bootstrap, transactional_id=uuid.uuid4().hex)
        try:
            made.init_transactions()
            made.begin_transaction()
            send(made, topic, rows)
            yield
            if commit:
                made.commit_transaction()
            else:
                made.abort_transaction()
        finally:
            made.close(timeout=5)

    def read(self, topic: str, timeout_s: float = 20.0) -> dict[int, list[tuple[bytes | None, bytes | None]]]:
        """All that is there and committed: {partition: [(key, value)]} in the order of offsets."""
        ends = self.ends(topic)
        found: dict[int, list[tuple[bytes | None, bytes | None]]] = {partition: [] for partition in ends}
        consumer = KafkaConsumer(
            bootstrap_servers=self.bootstrap,
            enable_auto_commit=False,
            isolation_level="read_committed",
        )
        try:
            places = [TopicPartition(topic, partition) for partition in ends]
            consumer.assign(places)
            consumer.seek_to_beginning(*places)
            deadline = time.monotonic() + timeout_s
            while any(consumer.position(place) < ends[place.partition] for place in places):
                if time.monotonic() > deadline:
                    raise TimeoutError(f"{topic}: not read to {ends} within {timeout_s} s")
                batch = consumer.poll(timeout_ms=500)
                for place, messages in batch.items():
                    found[place.partition] += [(m.key, m.value) for m in messages]
        finally:
            consumer.close()
        return found

    def add_partitions(self, topic: str, n: int) -> None:
        """Let the topic grow by `n` partitions."""
        self._admin.grow(topic, len(self._admin.partitions(topic)) + n)
        if self._producer is not None:
            # A producer asks for partitions every five minutes; the next one asks at once.
            self._producer.close()
            self._producer = None

    def delete_before(self, topic: str, offsets: Mapping[int, int]) -> None:
        """What retention does: {partition: the first offset that stays}."""
        self._admin.delete_before(topic, offsets)

    def delete_topic(self, topic: str) -> None:
        """The topic and all its messages."""
        self._admin.delete(topic)

    def recreate(self, topic: str, partitions: int) -> None:
        """Delete the topic and make another one of its name."""
        self._admin.delete(topic)
        deadline = time.monotonic() + 20
        while topic in self._admin.names() and time.monotonic() < deadline:
            time.sleep(0.1)
        self._admin.create(topic, partitions)

    def ends(self, topic: str) -> dict[int, int]:
        """{partition: the offset that the next message gets}."""
        return self._admin.ends(topic)

    def starts(self, topic: str) -> dict[int, int]:
        """{partition: the first offset that is still there}."""
        return self._admin.starts(topic)

    @property
    def _admin(self) -> Topics:
        if self._topics is None:
            self._topics = Topics(self.bootstrap)
        return self._topics

    def _let_go(self) -> None:
        """Close the clients: they would wait for the broker that is about to go."""
        made, self._producer, admin, self._topics = self._producer, None, self._topics, None
        if made is not None:
            made.close(timeout=5)
        if admin is not None:
            admin.__exit__(None, None, None)


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """The process's one broker; it ends with the process, whatever ends that. Who stops it starts it again."""
    broker = Broker(tmp_path_factory.mktemp("kafka"))
    try:
        broker.start()
        yield broker
    finally:
        # At the end of a long run an orderly stop took half a minute, and nobody reads what it would save.
        broker.kill()
