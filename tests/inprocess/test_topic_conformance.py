"""The port to Kafka's topics (`tidegate/runtime/topics.py`): the same answers from Kafka itself, through Spark and
Java's client, and from the broker in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.conftest import Workbench
from tests.support.brokers import AnyBroker, break_send
from tidegate.errors import TidegateError
from tidegate.jvm.failures import is_from_spark
from tidegate.runtime.topics import MESSAGE, PLACED_MESSAGE
from tidegate.sql.options.kafka_options import KafkaOptions, KafkaSinkOptions

if TYPE_CHECKING:
    from tidegate.runtime.topics import SinkTopic, SourceTopic
    from tidegate.session.session import Session

pytestmark = pytest.mark.runner("inprocess", "spark")

SOURCE = (
    "CREATE SOURCE s (id INT) WITH (connector = 'kafka', topic = '{topic}', "
    "properties.bootstrap.server = '{servers}'{options}) FORMAT PLAIN ENCODE JSON;"
)
SINK = (
    "CREATE SINK q FROM t WITH (connector = 'kafka', topic = '{topic}', "
    "properties.bootstrap.server = '{servers}') FORMAT PLAIN ENCODE JSON;"
)
COMMITTED = ", properties.isolation.level = 'read_committed'"
#: Of the messages that are sent, in ms since 1970.
FIRST = 1_700_000_000_000


@pytest.fixture
def session(workbench: Workbench) -> Session:
    """Nothing is asked of its project but the session that makes frames."""
    return workbench.assets(t="CREATE TABLE t (ts TIMESTAMP, WATERMARK FOR ts AS ts) APPEND ONLY;").session()


def source(session: Session, broker: AnyBroker, topic: str, options: str = "") -> SourceTopic:
    from tidegate.sql.statements.analysis import analyse

    text = SOURCE.format(topic=topic, servers=broker.bootstrap, options=options)
    (made,) = analyse(text, session.catalog)
    relation: Any = made.relation  # type: ignore[union-attr]
    assert isinstance(relation.connector, KafkaOptions)
    return session.runner.topics.source(relation, relation.connector)


def sink(session: Session, broker: AnyBroker, topic: str) -> SinkTopic:
    from tidegate.sql.statements.analysis import analyse

    (made,) = analyse(SINK.format(topic=topic, servers=broker.bootstrap), session.catalog)
    found: Any = made.sink  # type: ignore[union-attr]
    assert isinstance(found.connector, KafkaSinkOptions)
    return session.runner.topics.sink(found, found.connector)


def read(topic: SourceTopic, **ranges: tuple[int, int]) -> list[tuple[Any, ...]]:
    """(partition, offset, key, value) of `p0=(from, until)` and so on, in the order of the frame."""
    frame = topic.messages({name.removeprefix("p"): given for name, given in ranges.items()})
    rows = frame.select("_partition", "_offset", "_key", "value").collect()
    return sorted(
        ((p, o, k and bytes(k), v and bytes(v)) for p, o, k, v in map(tuple, rows)), key=lambda row: row[0]
    )


def test_offsets_ids_and_messages_are_as_the_broker_has_them(session: Session, broker: AnyBroker) -> None:
    name = broker.topic(partitions=2)
    topic = source(session, broker, name)
    assert (topic.latest(), topic.earliest()) == ({"0": 0, "1": 0}, {"0": 0, "1": 0})
    broker.send(name, [(0, f"k{n}", f"v{n}", FIRST + 1000 * n) for n in range(4)])
    broker.send(
        name, [(1, None, None, FIRST), (1, b"\xff", b"", FIRST + 1, [("h", b"1"), ("h", b""), ("i", "x")])]
    )
    assert (topic.latest(), topic.earliest()) == ({"0": 4, "1": 2}, {"0": 0, "1": 0})
    assert topic.at(FIRST + 1) == {"0": 1, "1": 1}
    assert topic.at(FIRST + 2001) == {"0": 3, "1": 2}  # no later one: the next free offset
    assert read(topic, p0=(1, 3), p1=(0, 2)) == [
        (0, 1, b"k1", b"v1"),
        (0, 2, b"k2", b"v2"),
        (1, 0, None, None),
        (1, 1, b"\xff", b""),
    ]
    frame = topic.messages({"1": (0, 2)})
    assert frame.dtypes == [
        ("value", "binary"),
        ("_partition", "int"),
        ("_offset", "bigint"),
        ("_rowtime", "timestamp"),
        ("_key", "binary"),
        ("_headers", "array<struct<key:string,value:binary>>"),
    ]
    plain, full = frame.selectExpr("_headers", "unix_millis(_rowtime) AS at").collect()
    assert (plain["_headers"], plain["at"]) == (None, FIRST)
    assert [(h["key"], bytes(h["value"])) for h in full["_headers"]] == [("h", b"1"), ("h", b""), ("i", b"x")]
    # Retention takes the first ones; the topic grows; what is asked for and gone is an error of the query.
    broker.delete_before(name, {0: 2})
    broker.add_partitions(name, 1)
    assert topic.earliest() == {"0": 2, "1": 0, "2": 0}
    assert topic.latest() == {"0": 4, "1": 2, "2": 0}
    assert topic.at(FIRST) == {"0": 2, "1": 0, "2": 0}
    assert read(topic, p0=(2, 4)) == [(0, 2, b"k2", b"v2"), (0, 3, b"k3", b"v3")]
    with pytest.raises(Exception, match=r"(?s)lost|out of range") as lost:
        read(topic, p0=(0, 4))
    assert is_from_spark(lost.value)
    # Another topic of the same name has another id.
    before = topic.topic_id()
    assert before == source(session, broker, name).topic_id() is not None
    broker.recreate(name, 1)
    assert topic.topic_id() != before
    topic.close()
    assert topic.latest() == {"0": 0}
    topic.close()
    with pytest.raises(TidegateError) as missing:
        source(session, broker, "nowhere").latest()
    assert missing.value.code == "TG551"


def test_sources_of_a_cluster_hear_together_that_nothing_has_come(
    session: Session, broker: AnyBroker
) -> None:
    names = [broker.topic(partitions=2) for _ in range(3)]
    topics = [source(session, broker, name) for name in names]
    known = [topic.latest() for topic in topics]

    def still() -> list[bool]:
        return [topic.still(ends) for topic, ends in zip(topics, known, strict=True)]

    still()
    assert still() == [True, True, True]
    broker.send(names[1], [(0, None, "a", FIRST)])
    assert still() == [True, False, True]
    known[1] = topics[1].latest()
    assert known[1] == {"0": 1, "1": 0}
    still()
    assert still() == [True, True, True]
    # A new partition is news, too. Of a topic that is gone nothing is known, and nothing keeps the others.
    broker.add_partitions(names[0], 1)
    broker.delete_topic(names[2])
    still()
    assert still()[0] is False
    with pytest.raises(TidegateError) as gone:
        topics[2].latest()
    assert gone.value.code == "TG551"
    topics[2].close()
    known = [topic.latest() for topic in topics[:2]]
    topics = topics[:2]
    still()
    assert still() == [True, True]
    for topic in topics:
        topic.close()


def test_transactions_leave_gaps_and_hide_what_is_not_committed(session: Session, broker: AnyBroker) -> None:
    name = broker.topic(partitions=1)
    anyone = source(session, broker, name)
    patient = source(session, broker, name, COMMITTED)
    broker.send(name, [(0, None, "a", FIRST)])
    with broker.transaction(name, [(0, None, "b", FIRST), (0, None, "c", FIRST)], commit=True):
        assert (anyone.latest(), patient.latest()) == ({"0": 3}, {"0": 1})
    with broker.transaction(name, [(0, None, "d", FIRST)], commit=False):
        broker.send(name, [(0, None, "e", FIRST)])
        assert (anyone.latest(), patient.latest()) == ({"0": 6}, {"0": 4})
    assert anyone.latest() == patient.latest() == {"0": 7}
    seen = [(offset, value) for _, offset, _, value in read(anyone, p0=(0, 7))]
    assert seen == [(0, b"a"), (1, b"b"), (2, b"c"), (4, b"d"), (5, b"e")]
    assert [offset for _, offset, _, _ in read(patient, p0=(0, 7))] == [0, 1, 2, 5]
    for topic in (anyone, patient):
        topic.close()


def test_a_sink_sends_to_the_partition_of_the_key_and_reads_what_arrived(
    session: Session, broker: AnyBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = broker.topic(partitions=3)
    topic, reader = sink(session, broker, name), source(session, broker, name)
    topic.require()
    assert topic.state() == ({0: (0, 0), 1: (0, 0), 2: (0, 0)}, reader.topic_id())
    rows = [(f"k{n % 5}", None if n == 7 else f"v{n}", [("id", str(n).encode())]) for n in range(10)]
    messages = session.spark.createDataFrame(rows, MESSAGE).coalesce(1)
    break_send(monkeypatch, session, 4, "broken off")
    with pytest.raises(Exception, match="broken off"):
        topic.send(messages)
    ends = {partition: end for partition, (_, end) in topic.state()[0].items()}
    assert sum(ends.values()) == 4
    topic.send(messages)
    found = read(
        reader, **{f"p{p}": (ends[p], end) for p, (_, end) in topic.state()[0].items() if end > ends[p]}
    )
    # Java's producer hashes keys so; those of one key are in their order.
    assert {(key, partition) for partition, _, key, _ in found} == {
        (b"k0", 2), (b"k1", 2), (b"k2", 0), (b"k3", 1), (b"k4", 1)
    }  # fmt: skip
    for k in range(5):
        assert [v for _, _, key, v in found if key == f"k{k}".encode()] == [
            None if n == 7 else f"v{n}".encode() for n in (k, k + 5)
        ]
    until = {partition: end for partition, (_, end) in topic.state()[0].items()}
    sent = topic.messages(ends, until)
    ids = sent.selectExpr("CAST(headers[0].value AS STRING) AS id").collect()
    assert sorted(row["id"] for row in ids) == [str(n) for n in range(10)]
    # In the place of a message of another partition than the key's.
    placed = session.spark.createDataFrame([("k0", None, [], 1)], PLACED_MESSAGE)
    topic.send(placed)
    [last] = topic.messages(until, until | {1: until[1] + 1}).collect()
    assert (bytes(last.key), last.value, last.partition, last.offset) == (b"k0", None, 1, until[1])
    broker.delete_before(name, {1: 1})
    assert topic.state()[0][1] == (1, until[1] + 1)
    compacted = broker.topic(cleanup_policy="compact,delete")
    assert [topic.is_compacted(), sink(session, broker, compacted).is_compacted()] == [False, True]
    broker.delete_topic(name)
    for question in (topic.state, topic.is_compacted):
        with pytest.raises(TidegateError) as missing:
            question()
        assert missing.value.code == "TG621"
    reader.close()
