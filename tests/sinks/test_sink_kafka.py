"""Kafka sinks: each final row is a message once, in its key's order, whatever breaks off in between (R2)."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from kafka import KafkaConsumer, TopicPartition

from tests.conftest import Workbench
from tests.support.kafka import Broker
from tidegate.errors import TidegateError
from tidegate.runtime.kafka_topics import SparkSinkTopic
from tidegate.store import read_status
from tidegate.tasks.first_attempt import REPEATED, FirstAttempt

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tidegate.session.session import Session

pytestmark = pytest.mark.spark

TABLE = "CREATE TABLE t (k VARCHAR, ts TIMESTAMP, n INT, price DECIMAL(20, 4), WATERMARK FOR ts AS ts) APPEND ONLY;"
VIEW = (
    "CREATE MATERIALIZED VIEW v AS SELECT window_start, k, sum(n) AS total, max(price) AS top "
    "FROM TUMBLE(t, ts, INTERVAL '10 minutes') GROUP BY window_start, k EMIT ON WINDOW CLOSE"
)


class Killed(Exception):
    """Stands for a process that is gone."""


@dataclass(frozen=True)
class Message:
    """What a consumer gets."""

    partition: int
    key: str | None
    value: dict[str, Any]
    id: str
    text: str


def messages(kafka: Broker, topic: str) -> list[Message]:
    """All of a topic, by partition and offset."""
    consumer = KafkaConsumer(bootstrap_servers=kafka.bootstrap, enable_auto_commit=False)
    places = [TopicPartition(topic, partition) for partition in kafka.ends(topic)]
    consumer.assign(places)
    consumer.seek_to_beginning()
    found = []
    for place in places:
        while consumer.position(place) < kafka.ends(topic)[place.partition]:
            for batch in consumer.poll(timeout_ms=1000).values():
                found += [(m.partition, m.offset, m) for m in batch]
    consumer.close()
    read = []
    for partition, _, m in sorted(found, key=lambda each: each[:2]):
        ((name, id_),) = m.headers
        assert name == "tidegate-id"
        key = None if m.key is None else m.key.decode()
        read.append(Message(partition, key, json.loads(m.value), id_.decode(), m.value.decode()))
    return read


def totals(found: list[Message]) -> list[tuple[str, str, int]]:
    """(start of the window, k, total), sorted."""
    return sorted((m.value["window_start"][11:16], m.value["k"], m.value["total"]) for m in found)


def insert(session: Session, *minutes: int, price: str = "0.5") -> None:
    rows = ", ".join(
        f"('k{m % 2}', '2026-01-01 {10 + m // 60}:{m % 60:02}:00', {m}, {price})" for m in minutes
    )
    session.execute(f"INSERT INTO t VALUES {rows}")


def sink(kafka: Broker, topic: str, *options: str, upstream: str = "FROM v", name: str = "s") -> str:
    servers = f"properties.bootstrap.server = '{kafka.bootstrap}'"
    given = ", ".join(["connector = 'kafka'", f"topic = '{topic}'", servers, *options])
    return f"CREATE SINK {name} {upstream} WITH ({given}) FORMAT PLAIN ENCODE JSON"


@pytest.fixture
def session(workbench: Workbench) -> Session:
    session = workbench.allow(variables=["TOPIC", "CLIENT"]).session()
    for sql in (TABLE, VIEW):
        session.execute(sql)
    return session


def broken_write(monkeypatch: pytest.MonkeyPatch, rows: int | None, error: Exception) -> None:
    """Let the next delivery send so many rows (None: all), and fail then; the ones after it are as always."""
    real = SparkSinkTopic.send

    def write(self: SparkSinkTopic, frame: DataFrame) -> None:
        monkeypatch.setattr(SparkSinkTopic, "send", real)
        if rows != 0:
            real(self, frame if rows is None else frame.limit(rows))
        raise error

    monkeypatch.setattr(SparkSinkTopic, "send", write)


def test_R2_final_rows_arrive_once_over_several_ticks_with_key_exact_values_and_id(
    session: Session, workbench: Workbench, kafka: Broker
) -> None:
    topic = kafka.topic("totals")
    insert(session, 1, 2, 12, price="1234567890123456.7891")
    session.execute("FLUSH")
    created = session.execute(sink(kafka, topic, "key.columns = 'k'"))
    assert created.message == "created sink s: 2 rows delivered"
    insert(session, 25, 41)
    report = session.run()
    assert [(s.name, s.rows) for s in report.sinks] == [("s", 2)]
    # Another process, and nothing new.
    assert workbench.session().run().sinks[0].rows == 0
    found = messages(kafka, topic)
    assert totals(found) == [("10:00", "k0", 2), ("10:00", "k1", 1), ("10:10", "k0", 12), ("10:20", "k1", 25)]
    first = next(m for m in found if m.value["window_start"] == "2026-01-01T10:00:00.000000")
    assert first.key == json.dumps({"k": first.value["k"]}, separators=(",", ":"))
    assert len({m.id for m in found}) == 4
    # One key, one partition, in the order of closing.
    for key in {m.key for m in found}:
        of_key = [m for m in found if m.key == key]
        assert len({m.partition for m in of_key}) == 1
        assert [m.value["window_start"] for m in of_key] == sorted(m.value["window_start"] for m in of_key)
    # A DECIMAL is a number with all its digits, whatever a reader makes of it.
    assert '"top":1234567890123456.7891}' in first.text
    (status,) = read_status(session.project, ["s"]).sinks
    assert (status.place, status.delivered, status.waiting, status.current) == (topic, 4, 0, True)


EQUAL = (
    "AS SELECT window_end, count(*) AS n FROM TUMBLE(t, ts, INTERVAL '10 minutes') GROUP BY window_end, k "
    "EMIT ON WINDOW CLOSE"
)


@pytest.mark.parametrize(
    ("rows", "upstream"),
    [
        pytest.param(2, "FROM t", id="after two rows of a log", marks=pytest.mark.long_run),
        pytest.param(1, EQUAL, id="after one of two equal rows", marks=pytest.mark.long_run),
        pytest.param(None, EQUAL, id="after the last message, before the position"),
    ],
)
def test_R2_nothing_comes_twice_or_is_lost_wherever_a_delivery_breaks_off(
    session: Session,
    workbench: Workbench,
    kafka: Broker,
    monkeypatch: pytest.MonkeyPatch,
    rows: int | None,
    upstream: str,
) -> None:
    topic = kafka.topic("broken")
    session.execute(sink(kafka, topic, upstream=upstream))
    insert(session, 1, 2, 3, 4, 12)
    broken_write(monkeypatch, rows, Killed())
    with pytest.raises(TidegateError) as broke:
        session.run()
    assert broke.value.code == "TG545"
    (status,) = read_status(session.project, ["s"]).sinks
    assert (status.delivered, status.current) == (0, False)
    # More is final by the time that somebody starts it again.
    again = workbench.session()
    insert(again, 25, 26)
    again.run()
    found = messages(kafka, topic)
    assert len({m.id for m in found}) == len(found)
    if upstream == "FROM t":
        assert sorted(m.value["n"] for m in found) == [1, 2, 3, 4, 12, 25, 26]
    else:
        # k0 and k1 have two rows each in the first window.
        assert sorted((m.value["window_end"][11:16], m.value["n"]) for m in found) == [
            ("10:10", 2),
            ("10:10", 2),
            ("10:20", 1),
        ]
    (status,) = read_status(again.project, ["s"]).sinks
    assert (status.delivered, status.current) == (len(found), True)


def test_R2_what_spark_would_repeat_is_looked_up_in_the_topic_first(
    session: Session, kafka: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pyspark import TaskContext

    class Second:
        def attemptNumber(self) -> int:
            return 1

    with monkeypatch.context() as patched:
        patched.setattr(TaskContext, "get", lambda: Second())
        with pytest.raises(RuntimeError, match=REPEATED):
            list(FirstAttempt()(iter(())))
    topic = kafka.topic("repeated")
    session.execute(sink(kafka, topic, "key.columns = 'k'", upstream="FROM t"))
    insert(session, 1, 2, 3)
    broken_write(monkeypatch, 2, RuntimeError(f"Job aborted: {REPEATED}"))
    assert session.run().sinks[0].rows == 3
    assert sorted(m.value["n"] for m in messages(kafka, topic)) == [1, 2, 3]


def test_a_broker_that_is_down_is_a_clear_error_and_nothing_is_lost(
    session: Session, kafka: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = kafka.topic("down")
    session.execute(sink(kafka, topic))
    insert(session, 1, 12)
    kafka.kill()
    try:
        with pytest.raises(TidegateError) as down:
            session.run()
        assert down.value.code == "TG621"
        assert f"{kafka.bootstrap}: Connection refused" in down.value.message
    finally:
        kafka.start()
    assert session.run().sinks[0].rows == 1
    assert totals(messages(kafka, topic)) == [("10:00", "k1", 1)]


@pytest.mark.long_run
def test_a_broker_that_only_javas_client_has_access_to_is_asked_by_it(
    session: Session, kafka: Broker
) -> None:
    topic = kafka.topic("java")
    handler = "org.apache.kafka.common.security.authenticator.SaslClientCallbackHandler"
    session.execute(sink(kafka, topic, f"properties.sasl.client.callback.handler.class = '{handler}'"))
    insert(session, 1, 12)
    assert session.run().sinks[0].rows == 1
    assert totals(messages(kafka, topic)) == [("10:00", "k1", 1)]
    insert(session, 25)
    assert session.run().sinks[0].rows == 1


def test_a_sink_without_its_topic_is_refused(session: Session, kafka: Broker) -> None:
    insert(session, 1, 12)
    session.execute("FLUSH")
    topic = kafka.topic("there")
    with pytest.raises(TidegateError) as missing:
        session.execute(sink(kafka, f"{topic}x"))
    assert missing.value.code == "TG621"
    assert f'did you mean "{topic}"?' in str(missing.value)
    session.execute(sink(kafka, topic))
    kafka.delete_topic(topic)
    kafka._admin.create(topic, 2, {})
    insert(session, 25)
    with pytest.raises(TidegateError) as another:
        session.run()
    assert another.value.code == "TG541"
    assert "another topic of the same name" in another.value.message


def test_a_sink_starts_where_it_is_told_to_and_anew_after_drop(session: Session, kafka: Broker) -> None:
    def status() -> tuple[bool, int | None, int, int | None, bool]:
        (s,) = read_status(session.project, ["s"]).sinks
        return s.ran, s.behind, s.delivered, s.waiting, s.current

    topic = kafka.topic("late")
    insert(session, 1, 12)
    session.execute("FLUSH")
    session.execute(sink(kafka, topic, "snapshot = false", "key.columns = 'k'", "key.encode = 'text'"))
    assert status() == (True, 0, 0, 0, True)
    insert(session, 25, 26, 37)
    session.run(["v"])
    assert status() == (True, 1, 0, 3, False)
    session.run()
    assert status() == (True, 0, 3, 0, True)
    late = messages(kafka, topic)
    assert totals(late) == [("10:10", "k0", 12), ("10:20", "k0", 26), ("10:20", "k1", 25)]
    assert {m.key for m in late} == {"k0", "k1"}
    session.execute("DROP SINK s")
    session.execute(sink(kafka, topic))
    found = messages(kafka, topic)
    assert len(found) == len({m.id for m in found}) == 7


def test_what_the_environment_has_is_kept_nowhere(
    session: Session, workbench: Workbench, kafka: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = kafka.topic("hidden")
    monkeypatch.setenv("TOPIC", topic)
    monkeypatch.setenv("CLIENT", "client-nobody-knows")
    insert(session, 1, 12)
    session.execute("FLUSH")
    session.execute(sink(kafka, "${TOPIC}", "properties.client.id = '${CLIENT}'"))
    assert len(messages(kafka, topic)) == 1
    insert(session, 25)
    broken_write(monkeypatch, 0, RuntimeError(f"no client client-nobody-knows for {topic}"))
    with pytest.raises(TidegateError) as broke:
        session.run()
    said = [str(broke.value), *(row[0] for row in session.execute("EXPLAIN s"))]
    kept = [path.read_bytes() for path in Path(workbench.root).rglob("*") if path.is_file()]
    assert kept
    # Nothing was sent, and nothing is lost.
    assert session.run().sinks[0].rows == 1
    assert totals(messages(kafka, topic)) == [("10:00", "k1", 1), ("10:10", "k0", 12)]
    for secret in (topic, "client-nobody-knows"):
        assert not [text for text in said if secret in text]
        assert not [data for data in kept if secret.encode() in data]
