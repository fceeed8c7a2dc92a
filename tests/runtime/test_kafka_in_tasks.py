"""Messages that tasks read by Kafka's protocol (`tasks/kafka`): the rows of Spark's connector, or none at all."""

from __future__ import annotations

import random
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

import pyarrow as pa
import pytest

from tests.inprocess.test_topic_conformance import COMMITTED, FIRST, session, source
from tests.support.brokers import AnyBroker
from tidegate.runtime.topics import Share, SourceTopic
from tidegate.session.session import Session
from tidegate.tasks.kafka import reader
from tidegate.tasks.kafka.cluster import TopicAccess
from tidegate.tasks.kafka.reader import messages
from tidegate.tasks.reading import NeedsJava
from tidegate.tasks.transfer import texts_of

__all__ = ["session"]

COLUMNS = ("value", "_key", "_headers", "_partition", "_offset", "_rowtime")
CODECS = ("producer", "uncompressed", "gzip", "snappy", "lz4", "zstd")


def shown(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """A task whose texts are its rows, and what their columns are."""
    for batch in batches:
        yield pa.RecordBatch.from_pydict({"report": list(texts(batch))})


def texts(batch: pa.RecordBatch) -> Iterator[str]:
    batch = batch.select(COLUMNS)
    kinds = [str(field.type) for field in batch.schema]
    # Of times as numbers: some are years that Python does not have.
    times = batch.column("_rowtime").cast(pa.int64()).to_pylist()
    for row, at in zip(batch.drop_columns("_rowtime").to_pylist(), times, strict=True):
        yield repr((kinds, row, at))


def by_java(topic: SourceTopic, shares: Sequence[Share]) -> list[str]:
    ranges = {str(partition): (since, until) for partition, since, until in shares}
    return sorted(texts_of(topic.messages(ranges).select(*COLUMNS), shown))


def access_of(topic: SourceTopic) -> TopicAccess:
    access = topic.in_tasks()
    assert access is not None
    return access


def in_task(topic: SourceTopic, shares: Sequence[Share]) -> list[str]:
    found = list(messages(access_of(topic), shares))
    for partition in {share[0] for share in shares}:
        offsets = [o for b in found for p, o in zip(*b.select(["_partition", "_offset"]), strict=True)
                   if p.as_py() == partition]  # fmt: skip
        assert [o.as_py() for o in offsets] == sorted({o.as_py() for o in offsets})
    return sorted(text for batch in found for text in texts(batch))


def random_rows(chance: random.Random, ends: Sequence[int], count: int) -> list[Any]:
    sent: list[Any] = []
    for _ in range(count):
        value = chance.choice([None, b"", b"\xff\xfe", b'{"id": 1}', b"x" * chance.randrange(20_000)])
        headers = chance.choice(
            [[], [], [("a", b"1"), ("a", b"")], [("b", "x" * 3_000), ("ü", "y"), ("", "z")]]
        )
        key = chance.choice([None, b"", b"k\xff", b"k" * chance.randrange(200)])
        at = chance.choice([FIRST, FIRST - 5, 0, 253_402_300_800_000])
        sent.append((chance.randrange(len(ends)), key, value, at + chance.randrange(100), headers))
    return sent


def compare_on_a_random_topic(session: Session, broker: AnyBroker, seed: int) -> None:
    chance = random.Random(seed)
    config = {"compression_type": chance.choice(CODECS), "max_message_bytes": "20000000"}
    if chance.random() < 0.3:
        config["message_timestamp_type"] = "LogAppendTime"
    partitions = chance.choice([1, 3])
    name = broker.topic(partitions=partitions, **config)
    for _ in range(chance.randrange(1, 5)):
        rows = random_rows(chance, range(partitions), chance.randrange(1, 60))
        if chance.random() < 0.4:
            with broker.transaction(name, rows, commit=chance.random() < 0.5):
                if chance.random() < 0.5:
                    broker.send(name, random_rows(chance, range(partitions), 5))
        else:
            broker.send(name, rows)
    if chance.random() < 0.3:
        broker.delete_before(name, {p: end // 3 for p, end in broker.ends(name).items()})
    for options in ("", COMMITTED):
        topic = source(session, broker, name, options)
        starts, ends = topic.earliest(), topic.latest()
        whole = [(int(p), starts[p], end) for p, end in ends.items() if end > starts[p]]
        parts = [
            (p, a + chance.randrange(b - a), b - chance.randrange(max(1, (b - a) // 4))) for p, a, b in whole
        ]
        for shares in (whole, [share for share in parts if share[1] < share[2]]):
            assert in_task(topic, shares) == by_java(topic, shares), (seed, options, shares)
        topic.close()


@pytest.mark.parametrize("seed", [0, *(pytest.param(n, marks=pytest.mark.long_run) for n in (1, 2))])
def test_W4_tasks_give_the_rows_of_sparks_connector(session: Session, broker: AnyBroker, seed: int) -> None:
    compare_on_a_random_topic(session, broker, seed)


@pytest.mark.long_run
@pytest.mark.parametrize("seed", range(100, 140))
def test_W4_property_tasks_give_the_rows_of_sparks_connector(
    session: Session, broker: AnyBroker, seed: int
) -> None:
    compare_on_a_random_topic(session, broker, seed)


def compare_on_a_compacted_topic(session: Session, broker: AnyBroker) -> int:
    """Of a topic of which the broker has removed all but the newest message of each key, and whose last messages are
    those of an aborted transaction: ranges that begin and end in every gap. How many messages were removed."""
    config = {"cleanup_policy": "compact", "segment_ms": "100", "min_cleanable_dirty_ratio": "0.01"}
    name, chance = broker.topic(partitions=1, **config), random.Random(5)
    sent = [(0, f"k{chance.randrange(6)}", f"{n}", FIRST + n) for n in range(120)]
    for start in range(0, len(sent), 10):
        broker.send(name, sent[start : start + 10])
        # The next message begins another segment; the one that is written to is not compacted.
        time.sleep(0.15)
    with broker.transaction(name, [(0, "k9", f"aborted {n}", FIRST) for n in range(5)], commit=False):
        pass
    deadline = time.monotonic() + 120
    while (left := len(broker.read(name)[0])) > len(sent) // 2:
        assert time.monotonic() < deadline, f"{left} messages were not compacted"
        time.sleep(1)
    for options in ("", COMMITTED):
        topic = source(session, broker, name, options)
        end, given_up = topic.latest()["0"], 0
        cuts = [(0, since, until) for since in range(0, end, 7) for until in range(since + 1, end + 1, 11)]
        for share in [*cuts, (0, 0, end), (0, end - 3, end)]:
            try:
                found = in_task(topic, [share])
            except NeedsJava:
                given_up += 1
            else:
                assert found == by_java(topic, [share]), (options, share)
        assert given_up < len(cuts) // 2
        topic.close()
    return len(sent) - left


@pytest.mark.long_run
@pytest.mark.runner("spark", only=True)
def test_W4_tasks_give_the_rows_of_sparks_connector_where_compaction_has_left_gaps(
    session: Session, broker: AnyBroker
) -> None:
    assert compare_on_a_compacted_topic(session, broker) > 60


def test_W5_what_is_gone_or_not_there_is_left_to_java(
    session: Session, broker: AnyBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "_PATIENCE_S", 0.3)
    name = broker.topic(partitions=1)
    topic = source(session, broker, name)
    broker.send(name, [(0, None, f"{n}", FIRST) for n in range(6)])
    broker.delete_before(name, {0: 5})
    with pytest.raises(NeedsJava, match="error 1"):
        list(messages(access_of(topic), [(0, 3, 6)]))
    assert len(in_task(topic, [(0, 5, 6)])) == 1
    with pytest.raises(NeedsJava, match="error 1"):
        list(messages(access_of(topic), [(0, 7, 9)]))
    with pytest.raises(NeedsJava, match="gives nothing"):
        list(messages(access_of(topic), [(0, 5, 9)]))
    with pytest.raises(NeedsJava, match="gives nothing"):
        list(messages(access_of(topic), [(7, 0, 1)]))
    topic.close()


def _end(one: socket.socket) -> None:
    # A thread that waits in another call would keep it open.
    with suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)
    one.close()


class Between:
    """A server between tasks and the broker; counts connections, and can end them."""

    def __init__(self, port: int) -> None:
        self._port, self.connections = port, 0
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._server.getsockname()[1])
        self._open: list[socket.socket] = []
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                here, _ = self._server.accept()
            except OSError:
                return
            self.connections += 1
            there = socket.create_connection(("127.0.0.1", self._port))
            self._open += [here, there]
            for a, b in ((here, there), (there, here)):
                threading.Thread(target=self._pass_on, args=(a, b), daemon=True).start()

    def _pass_on(self, a: socket.socket, b: socket.socket) -> None:
        with suppress(OSError):
            while data := a.recv(65_536):
                b.sendall(data)
        for one in (a, b):
            _end(one)

    def cut(self) -> None:
        """End all connections."""
        for one in self._open:
            _end(one)
        self._open = []

    def close(self) -> None:
        _end(self._server)
        self.cut()


def test_connections_are_kept_from_batch_to_batch_and_made_anew_where_they_ended(
    session: Session, broker: AnyBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = broker.topic(partitions=3)
    topic = source(session, broker, name)
    broker.send(name, [(n % 3, None, f"{n}", FIRST) for n in range(60)])
    between = Between(int(broker.bootstrap.rpartition(":")[2]))
    # The cluster itself says where its brokers are: there, too, is the server between.
    own = ("127.0.0.1", int(broker.bootstrap.rpartition(":")[2]))
    real = reader.Cluster._connected
    monkeypatch.setattr(
        reader.Cluster,
        "_connected",
        lambda self, place: real(self, ("127.0.0.1", between.port) if place == own else place),
    )
    access = TopicAccess(name, (broker.bootstrap,), False, ())
    for tick in range(10):
        shares = [(p, 2 * tick, 2 * tick + 2) for p in range(3)]
        found = sum(batch.num_rows for batch in messages(access, shares))
        assert found == 6
    assert between.connections == 1
    between.cut()
    assert sum(batch.num_rows for batch in messages(access, [(0, 0, 20)])) == 20
    assert between.connections == 2
    # Where nobody answers any more, Java's client is asked, and not after minutes.
    monkeypatch.setattr(reader, "_PATIENCE_S", 0.5)
    between.close()
    before = time.monotonic()
    with pytest.raises(NeedsJava, match="does not answer"):
        list(messages(access, [(0, 0, 20)]))
    assert time.monotonic() - before < 5
    topic.close()
