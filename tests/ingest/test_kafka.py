"""`connector = 'kafka'`, on a real broker and on its model: positions, gaps, poison, secrets, a broker that is away."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError

from tests.conftest import Workbench
from tests.ingest.topics import NOON, VIEW, advance, at, judged, newest, project, row, send
from tests.support.brokers import AnyBroker
from tests.support.kafka import Broker
from tidegate.audit.source import audit_source
from tidegate.errors import TidegateError
from tidegate.ingest.sources.kafka import KafkaConnector
from tidegate.ingest.stream import PlanInbox, SourceFeed
from tidegate.jvm.packages import KAFKA_PACKAGES
from tidegate.project import Project
from tidegate.runtime.kafka_broker import require_kafka
from tidegate.session.run import connect
from tidegate.store.status import read_status

#: Cases that say nothing else need no real broker: `tests/inprocess/test_topic_conformance.py` holds the model to it.
pytestmark = pytest.mark.runner("inprocess")


@pytest.mark.long_run
@pytest.mark.runner("spark")
def test_R2_the_same_rows_through_files_and_through_kafka_give_the_same_log_and_views(
    workbench: Workbench, kafka: Broker, tmp_path: Path
) -> None:
    topic = kafka.topic(partitions=2)
    events = [(i % 2, i, (i * 7) % 60 + i // 2) for i in range(120)]
    send(kafka, topic, [(p, row(i, s)) for p, i, s in events])
    session = project(workbench, kafka, topic)
    session.run(max_rows_per_batch=17)
    files = Workbench(tmp_path / "files", session.spark).assets(
        s="CREATE SOURCE s (id INT, p INT, o BIGINT, ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL '5 seconds') "
        "WITH (connector = 'filesystem', path = 'input', partition.columns = 'p', order.column = 'o') "
        "FORMAT PLAIN ENCODE JSON;",
        v=VIEW,
    )
    for p in (0, 1):
        own = [(i, s) for q, i, s in events if q == p]
        lines = [{"id": i, "p": p, "o": o, "ts": at(s)} for o, (i, s) in enumerate(own)]
        files.json_lines(f"input/{p}.json", lines)
    other = files.session()
    other.run()
    columns = ["id", "ts", "outcome", "partition", "offset"]
    logs = [
        s.table("s$raw").orderBy("partition", "offset").select(*columns).collect() for s in (session, other)
    ]
    # G is published between batches, so which late rows it made late differs with the cuts only where it may (W4).
    assert len(logs[0]) == 120
    assert logs[0] == logs[1]
    views = [s.table("v").orderBy("window_start").collect() for s in (session, other)]
    assert views[0] == views[1] != []
    assert audit_source(session, "s").ok


@pytest.mark.parametrize(("mode", "first"), [("earliest", 0), ("latest", 2), ("timestamp", 1)])
def test_scan_startup_mode_says_where_a_new_log_begins(
    workbench: Workbench, broker: AnyBroker, mode: str, first: int
) -> None:
    topic = broker.topic(partitions=1)
    given = {"scan__startup__mode": mode}
    if mode == "timestamp":
        given["scan__startup__timestamp__millis"] = "1700000000500"
    broker.send(topic, [(0, None, row(i, i), 1_700_000_000_000 + i * 500) for i in range(2)])
    session = project(workbench, broker, topic, **given)
    advance(session, NOON)
    # What comes between two looks is not skipped: the first look has noted where it stands.
    send(broker, topic, [(0, row(2, 2))])
    advance(session, NOON)
    assert [offset for _, offset, _ in judged(session)] == list(range(first, 3))
    found = session.execute("SELECT $partition, $offset, unix_millis($rowtime) FROM s ORDER BY 2").rows()
    assert [(p, o) for p, o, _ in found] == [("0", o) for o in range(first, 3)]
    assert first or found[0][2] == 1_700_000_000_000
    assert audit_source(session, "s").ok


def test_R2_rows_that_retention_took_are_an_error_or_a_recorded_gap_never_silence(
    workbench: Workbench, broker: AnyBroker
) -> None:
    topic = broker.topic(partitions=2)
    session = project(workbench, broker, topic)
    send(broker, topic, [(0, row(i, i)) for i in range(3)])
    advance(session, NOON)
    send(broker, topic, [(0, row(i, i)) for i in range(3, 9)])
    broker.delete_before(topic, {0: 7})
    with pytest.raises(TidegateError) as caught:
        advance(session, NOON)
    assert caught.value.code == "TG552"
    assert "offsets 3 to 6 of partition 0" in caught.value.message
    assert len(judged(session)) == 3
    session = project(workbench, broker, topic, on_data_loss="record")
    advance(session, NOON)
    assert [offset for _, offset, _ in judged(session)] == [0, 1, 2, 7, 8]
    notes = session.execute("""SELECT note FROM "s$watermarks" WHERE note IS NOT NULL""").rows()
    assert notes == [("offsets 3 to 6 were gone before they were read",)]
    missing = [p.missing for p in audit_source(session, "s", recount=False).partitions if p.missing]
    assert missing == [["3-6"]]


def test_R2_a_topic_that_was_made_anew_is_not_continued(workbench: Workbench, broker: AnyBroker) -> None:
    topic = broker.topic(partitions=1)
    session = project(workbench, broker, topic)
    send(broker, topic, [(0, row(i, i)) for i in range(3)])
    advance(session, NOON)
    broker.recreate(topic, 1)
    send(broker, topic, [(0, row(i, i)) for i in range(9)])
    with pytest.raises(TidegateError) as caught:
        advance(session, NOON)
    assert caught.value.code == "TG553"


def test_R2_a_quiet_topic_is_asked_for_its_ends_alone_and_before_rows_are_read_for_the_rest(
    workbench: Workbench, broker: AnyBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was planned and not stored waits: a batch that failed is no reason to ask for less."""
    topic = broker.topic(partitions=2)
    session = project(workbench, broker, topic)
    send(broker, topic, [(0, row(1, 100)), (1, row(2, 20))])
    relation = session.relation("s")
    log = session.log(relation)
    connector = connect(session, log)
    assert isinstance(connector, KafkaConnector)
    asked: list[str] = []
    for question in ("still", "latest", "earliest", "topic_id"):
        answer = getattr(connector._broker, question)
        monkeypatch.setattr(
            connector._broker, question, lambda *given, q=question, a=answer: (asked.append(q), a(*given))[1]
        )
    feed = SourceFeed(session.project.storage, log, connector, session.work_folder("s"), lambda: NOON)
    whole, ends_alone = ["latest", "earliest", "topic_id"], ["still"]

    def look() -> int | None:
        asked.clear()
        return connector.pending().rows

    assert (look(), asked) == (2, whole)
    assert connector.plan(1, NOON) is not None
    assert (look(), asked) == (2, whole)
    while feed.advance(lambda _: None):
        pass
    assert (look(), asked) == (0, ends_alone)
    broker.add_partitions(topic, 3)
    assert (look(), asked) == (0, [*ends_alone, *whole])
    while feed.advance(lambda _: None):
        pass
    broker.recreate(topic, 3)
    send(broker, topic, [(0, row(i, i)) for i in range(9)])
    with pytest.raises(TidegateError) as caught:
        look()
    assert caught.value.code == "TG553"


def test_R2_a_plan_whose_batch_died_is_carried_out_as_it_was_planned(
    workbench: Workbench, broker: AnyBroker
) -> None:
    topic = broker.topic(partitions=2)
    session = project(workbench, broker, topic, idle_timeout="1 minute")
    send(broker, topic, [(0, row(1, 100)), (1, row(2, 20))])
    advance(session, NOON)
    relation = session.relation("s")
    log = session.log(relation)
    connector = connect(session, log)
    assert connector is not None
    connector.pending()
    folder = session.work_folder("s")
    # Planned at 12:01, when both were idle; then the process died, and before the next one came rows came.
    later = NOON + timedelta(minutes=1)
    assert SourceFeed(session.project.storage, log, connector, folder, lambda: later).ready()
    send(broker, topic, [(1, row(3, 30))])
    session = workbench.session()
    assert PlanInbox(session.project.storage, f"{folder}/plans").read(2) is not None
    assert advance(session, later + timedelta(seconds=5)) == 2
    history = session.table("s$watermarks").where("partition = '1'").orderBy("epoch").collect()
    assert [(r["epoch"], r["state"]) for r in history] == [(1, "active"), (2, "idle"), (3, "active")]


@pytest.mark.runner("spark")
def test_W9_poison_ends_rejected_and_what_follows_is_judged_as_if_it_were_not_there(
    workbench: Workbench, kafka: Broker
) -> None:
    topic = kafka.topic(partitions=2)
    session = project(workbench, kafka, topic, sql="CREATE TABLE unused (x INT) APPEND ONLY;")
    poison: list[Any] = [
        b"\xff\xfe{",
        b'{"id": 1, "ts": "2026-01',
        None,
        b"",
        b"[]",
        json.dumps({"id": "many", "ts": at(1)}).encode(),
        json.dumps({"id": 1}).encode(),
        b'{"id": 1, "ts": "' + b"x" * 10_000_000 + b'"}',
        json.dumps({"id": 1, "ts": "9999-12-31 23:59:59"}).encode(),
        json.dumps({"id": 1, "ts": "0001-01-01 00:00:00"}).encode(),
    ]
    normal = [row(i, s) for i, s in enumerate([10, 30, 20, 31, 24, 26, 40, 50, 44, 60, 61])]
    with_poison = [x for pair in zip(normal, [*poison, poison[0]], strict=True) for x in pair]
    send(kafka, topic, [(0, v) for v in with_poison] + [(1, v) for v in normal])
    session.run()
    found = {(r["partition"], r["offset"]): r for r in session.table("s$raw").collect()}
    assert len(found) == len(normal) * 3
    plain = [found["1", o]["outcome"] for o in range(len(normal))]
    assert [found["0", 2 * o]["outcome"] for o in range(len(normal))] == plain
    assert "late" in plain
    ends = [(found["0", 2 * o + 1]["outcome"], found["0", 2 * o + 1]["reason"]) for o in range(len(poison))]
    assert ends == [
        ("rejected", "invalid_utf8"),
        ("rejected", "unparseable: not valid JSON"),
        ("rejected", "null_value"),
        ("rejected", "unparseable: not one JSON object"),
        ("rejected", "unparseable: not one JSON object"),
        ("rejected", 'unparseable: column "id" wants INT'),
        ("rejected", "null_event_time"),
        ("rejected", 'unparseable: column "ts" wants TIMESTAMP'),
        ("on_time", None),
        ("late", None),
    ]
    assert newest(session)["0"][1] == newest(session)["1"][1]
    assert audit_source(session, "s").ok


@pytest.mark.runner("spark")
def test_W4_who_reads_a_batch_the_tasks_or_spark_changes_nothing_of_its_log(
    new_workbench: Callable[[], Workbench], kafka: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = kafka.topic(partitions=2)
    odd: dict[int, bytes | str | None] = {
        9: json.dumps({"id": "nine", "ts": at(9)}),
        10: '{"id": 10, "ts": "' + at(10) + '"}]',
        11: "{'id': 11, 'ts': '" + at(11) + "'}",
        12: b"\xff",
        13: json.dumps({"id": 13, "ts": at(13).replace(" 0", " ", 1)}),
        24: None,
        25: '{"id": 25}',
    }
    rows = [(i % 2, None, odd.get(i, row(i, i - 20 * (i == 28))), 1000 * i) for i in range(32)]
    more = [(i % 2, f"k{i}", row(i, i), 1000 * i, [("h", b"\1"), ("h", b"")]) for i in range(32, 36)]
    kafka.send(topic, rows + more)
    by_spark: list[int] = []
    decoded = KafkaConnector._decoded

    def counted(self: KafkaConnector, messages: Any, plan: Any) -> Any:
        by_spark.append(plan.epoch)
        return decoded(self, messages, plan)

    monkeypatch.setattr(KafkaConnector, "_decoded", counted)
    logs = []
    for fast in (True, False):
        if not fast:
            monkeypatch.setattr("tidegate.ingest.sources.kafka.supports", lambda relation: False)
        session = project(new_workbench(), kafka, topic)
        session.run(max_rows_per_batch=9)
        kept = session.table("s$raw").drop("arrival").orderBy("partition", "offset").collect()
        messages = session.execute('SELECT id, "$rowtime", "$key", "$headers" FROM s ORDER BY id').rows()
        marks = session.table("s$watermarks").drop("at").orderBy("epoch", "partition").collect()
        logs.append((kept, messages, marks))
    assert logs[0] == logs[1]
    assert len(logs[0][0]) == 36
    assert {r["outcome"] for r in logs[0][0]} == {"on_time", "late", "rejected"}
    assert [r["outcome"] for r in logs[0][0] if r["id"] == 13] == ["on_time"]
    # Poison is the tasks' to reject. A time in a spelling of Spark's refuses the second batch, and the third is left to
    # Spark on that account; then the tasks read again.
    assert by_spark == [2, 3, *range(1, 6)]


@pytest.mark.runner("spark")
def test_secrets_are_in_no_plan_table_or_log(
    workbench: Workbench, kafka: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = kafka.topic(partitions=1)
    monkeypatch.setenv("TOPIC", topic)
    monkeypatch.setenv("SECRET", "hunter2-hunter2")
    session = project(
        workbench.allow(variables=["TOPIC", "SECRET"]),
        kafka,
        "${TOPIC}",
        properties__sasl__jaas__config='PlainLoginModule required password="${SECRET}";',
        properties__client__id="c",
    )
    send(kafka, topic, [(0, row(1, 1))])
    relation = session.relation("s")
    log = session.log(relation)
    connector = connect(session, log)
    assert connector is not None
    connector.pending()
    feed = SourceFeed(session.project.storage, log, connector, session.work_folder("s"), session.clock)
    assert feed.ready()  # the plan is there now
    for statement in ("EXPLAIN s", "DESCRIBE EXTENDED s", "SHOW CREATE SOURCE s"):
        assert "hunter2" not in str(session.execute(statement).rows())
    feed.advance(lambda event: None)
    kept = [p for p in workbench.root.rglob("*") if p.is_file()]
    assert len(kept) > 5
    assert not [p for p in kept if b"hunter2" in p.read_bytes()]
    assert judged(session) == [("0", 0, "on_time")]


@pytest.mark.long_run
@pytest.mark.runner("spark")
def test_a_broker_that_is_down_loses_nothing(workbench: Workbench, kafka: Broker) -> None:
    topic = kafka.topic(partitions=1)
    session = project(workbench, kafka, topic)
    send(kafka, topic, [(0, row(1, 1))])
    advance(session, NOON)
    send(kafka, topic, [(0, row(2, 2))])
    kafka.kill()
    try:
        found = read_status(Project.load(workbench.root)).relations[0]
        assert found.broker_error is not None
        assert found.broker_error.startswith("TG621")
        assert found.raw == 1
    finally:
        kafka.start()
    advance(session, NOON)
    assert [offset for _, offset, _ in judged(session)] == [0, 1]


@pytest.mark.runner("spark")
def test_a_broker_that_does_not_answer_is_an_error_soon(workbench: Workbench, kafka: Broker) -> None:
    timeouts = {"properties__default__api__timeout__ms": "2000", "properties__request__timeout__ms": "1000"}
    session = project(workbench, kafka, "t", **timeouts)
    text = (workbench.root / "assets" / "s.sql").read_text()
    (workbench.root / "assets" / "s.sql").write_text(text.replace(kafka.bootstrap, "127.0.0.1:1"))
    session = workbench.session()
    with pytest.raises(TidegateError) as caught:
        session.run()
    assert caught.value.code == "TG550"
    assert "127.0.0.1:1 does not answer" in caught.value.message


def test_a_spark_without_the_connector_says_what_it_needs() -> None:
    def asked(answer: Exception) -> Any:
        def forName(*_: object) -> None:
            raise answer

        thread = SimpleNamespace(currentThread=lambda: SimpleNamespace(getContextClassLoader=lambda: None))
        classes = {"java.lang.Class": SimpleNamespace(forName=forName), "java.lang.Thread": thread}
        return SimpleNamespace(_jvm=SimpleNamespace(**classes))

    with pytest.raises(TidegateError) as caught:
        require_kafka(asked(Py4JJavaError("ClassNotFoundException", SimpleNamespace(_target_id="o1"))))
    assert caught.value.code == "TG554"
    assert KAFKA_PACKAGES[0] in str(caught.value)
    # A JVM that was killed says nothing about its jars: a worker that is started anew fares better.
    with pytest.raises(ConnectionRefusedError):
        require_kafka(asked(ConnectionRefusedError(111, "Connection refused")))


def test_a_topic_that_is_not_there_is_named(workbench: Workbench, broker: AnyBroker) -> None:
    session = project(workbench, broker, "nowhere")
    with pytest.raises(TidegateError) as caught:
        session.run()
    assert caught.value.code == "TG551"
    assert "nowhere" in caught.value.message
