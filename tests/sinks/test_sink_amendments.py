"""B2: a sink that upserts amendments has, after every run, what its view has; each change arrives once (R2)."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from kafka import KafkaConsumer, TopicPartition

from tests.conftest import Workbench
from tests.support.kafka import Broker
from tidegate.amend.run import amend
from tidegate.errors import TidegateError
from tidegate.findings import look
from tidegate.runtime.kafka_topics import SparkSinkTopic
from tidegate.sinks.iceberg import IcebergSink
from tidegate.store import read_status

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tidegate.session.session import Session

pytestmark = pytest.mark.spark

TABLE = "CREATE TABLE t (k VARCHAR, n INT, ts TIMESTAMP, WATERMARK FOR ts AS ts) APPEND ONLY;"
#: A group of 10 or more is in none of its windows: a late row can make it vanish.
SMALL = (
    "CREATE MATERIALIZED VIEW m AS SELECT window_end, k, sum(n) AS total FROM TUMBLE(t, ts, INTERVAL '1 minute') "
    "GROUP BY window_end, k HAVING sum(n) < 10 EMIT ON WINDOW CLOSE;"
)
#: Does not select the bounds of its windows.
VISITS = (
    "CREATE MATERIALIZED VIEW visits AS SELECT k, count(*) AS c "
    "FROM SESSION(t, ts, k, INTERVAL '10 seconds') GROUP BY k, window_start, window_end EMIT ON WINDOW CLOSE;"
)


class Killed(Exception):
    """Stands for a process that is gone."""


def insert(session: Session, *given: tuple[str, int, str]) -> None:
    values = ", ".join(f"('{k}', {n}, '2026-01-01 00:{at}')" for k, n, at in given)
    session.execute(f"INSERT INTO t VALUES {values}")


def content(frame: DataFrame) -> list[tuple[str, ...]]:
    return sorted(tuple(map(str, row)) for row in frame.collect())


def same_as_view(session: Session, sink: str, view: str) -> bool:
    columns = session.table(view).columns
    return content(session.tables.rows(f"tidegate.main.{sink}").select(columns)) == content(
        session.table(view)
    )


def amended(session: Session) -> dict[str, tuple[int, int]]:
    """What a run delivers: (rows, amended windows) of each sink that had something."""
    sinks = session.run().sinks
    return {sink.name: (sink.rows, sink.amended) for sink in sinks if sink.rows or sink.amended}


def hold_the_amended_windows(again: Session) -> None:
    """`of_m` has the windows as they are now, and `new_only` those of them that closed after it had begun."""
    shown = again.tables.rows("tidegate.main.of_m").select("window_end", "k", "total", "_revision")
    end = "2026-01-01 00:0{}:00"
    # Of minute 3 nothing had been released: its first revision is an amendment's.
    assert content(shown) == [
        (end.format(2), "a", "4", "2"),
        (end.format(2), "b", "3", "2"),
        (end.format(2), "c", "1", "2"),
        (end.format(3), "b", "5", "2"),
        (end.format(3), "d", "7", "2"),
        (end.format(4), "d", "6", "2"),
    ]
    # What was closed before it began is none of its windows, whatever becomes of them.
    newer = again.tables.rows("tidegate.main.new_only").select("window_end", "k")
    assert content(newer) == [(end.format(3), "b"), (end.format(3), "d"), (end.format(4), "d")]


@pytest.mark.long_run
def test_B2_an_iceberg_sink_replaces_amended_windows_in_the_commit_that_says_so(
    workbench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = workbench.session()
    for sql in (TABLE, SMALL, VISITS):
        session.execute(sql)
    upsert = "WITH (connector = 'iceberg', amendments = 'upsert')"
    sinks = {"of_m": "m", "of_visits": "visits"}
    for sink, view in sinks.items():
        session.execute(f"CREATE SINK {sink} FROM {view} {upsert}")
    first = [("a", 1, "00:01"), ("a", 2, "00:16"), ("b", 3, "01:01"), ("a", 4, "01:02"), ("b", 5, "02:00")]
    insert(session, *first)
    session.run()
    late_starter = "connector = 'iceberg', amendments = 'upsert', snapshot = 'false'"
    session.execute(f"CREATE SINK new_only FROM m WITH ({late_starter})")
    before = content(session.tables.rows("tidegate.main.of_m"))
    assert all(same_as_view(session, sink, view) for sink, view in sinks.items())

    # One joins the two sessions of a and takes its group beyond 10, one adds a group, and one is in no window yet;
    # minute 2, which is closed below, is amended before any sink has come to it.
    insert(session, ("a", 8, "00:09"), ("c", 1, "01:30"), ("b", 1, "04:00"))
    session.run(["m", "visits"])
    insert(session, ("d", 7, "02:30"), ("d", 6, "03:30"))
    reports = {r.view: r.windows for r in amend(session)}
    assert reports["m"] == 4
    assert content(session.tables.rows("tidegate.main.of_m")) == before

    # Killed when the data is written and before it is published: nothing of it is there.
    with monkeypatch.context() as patched:
        patched.setattr(IcebergSink, "_publish", lambda *_: (_ for _ in ()).throw(Killed()))
        with pytest.raises(Killed):
            session.run(["of_m"])
    assert content(session.tables.rows("tidegate.main.of_m")) == before
    (status,) = read_status(session.project, ["of_m"]).sinks
    assert (status.amendments_waiting, status.current) == (1, False)
    (finding,) = look(session.project, ["of_m"], now=datetime.now(UTC) + timedelta(hours=1)).of("of_m")
    assert finding.text == (
        "of_m: 1 final row and 1 amendment of m wait to be delivered; delivered up to 2026-01-01 00:02:00, "
        "final up to 2026-01-01 00:04:00: no process delivers"
    )

    again = workbench.session()
    done = amended(again)
    assert done["of_m"] == (1, 3)
    assert all(same_as_view(again, sink, view) for sink, view in sinks.items())
    assert amended(again) == {}
    (status,) = read_status(again.project, ["of_m"]).sinks
    assert (status.amendments_waiting, status.current) == (0, True)
    assert look(again.project, ["of_m"], now=datetime.now(UTC) + timedelta(hours=1)).of("of_m") == ()
    hold_the_amended_windows(again)

    # A sink whose rows don't say to which window they are can't begin to replace them.
    properties = "'tidegate.kind' = 'sink', 'tidegate.sink' = 'plain'"
    again.spark.sql(f"CREATE TABLE tidegate.main.plain (k STRING) USING iceberg TBLPROPERTIES ({properties})")
    with pytest.raises(TidegateError) as refused:
        again.execute(f"CREATE SINK plain FROM m {upsert}")
    assert refused.value.code == "TG541"
    assert "don't say to which window" in refused.value.message


@dataclass(frozen=True)
class Message:
    """What a consumer gets. `key`: minute of the window's end, and k; `value` None: the key is gone."""

    key: tuple[str, str]
    value: dict[str, Any] | None
    revision: str
    id: str


def messages(kafka: Broker, topic: str) -> list[Message]:
    """All of a topic, those of a key in their order."""
    consumer = KafkaConsumer(bootstrap_servers=kafka.bootstrap, enable_auto_commit=False)
    ends = kafka.ends(topic)
    consumer.assign([TopicPartition(topic, partition) for partition in ends])
    consumer.seek_to_beginning()
    found: list[Message] = []
    while len(found) < sum(ends.values()):
        for batch in consumer.poll(timeout_ms=1000).values():
            for m in batch:
                headers = {name: value.decode() for name, value in m.headers}
                key, value = json.loads(m.key), None if m.value is None else json.loads(m.value)
                at = (key["window_end"][11:16], key["k"])
                found.append(Message(at, value, headers["tidegate-revision"], headers["tidegate-id"]))
    consumer.close()
    return found


def resends_what_closes_after_a_reset(again: Session, kafka: Broker, topic: str) -> None:
    # What a poisoned watermark had sent too early is sent again, as it closes after the reset (W9).
    insert(again, ("x", 1, "59:00"))
    again.run()
    sent = {message.id for message in messages(kafka, topic)}
    again.execute("ALTER TABLE t RESET WATERMARK TO '2026-01-01 00:03:10'")
    insert(again, ("b", 2, "03:30"), ("e", 1, "03:40"), ("y", 1, "04:10"))
    again.run()
    new = [message for message in messages(kafka, topic) if message.id not in sent]
    assert {(m.key, m.revision, m.value and m.value["total"]) for m in new} == {
        (("00:04", "b"), "2", 3),
        (("00:04", "e"), "2", 1),
    }
    assert len(new) == 2


@pytest.mark.long_run
def test_B2_a_kafka_sink_sends_amended_rows_again_and_null_for_keys_that_are_gone(
    workbench: Workbench, kafka: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = workbench.session()
    for sql in (TABLE, SMALL):
        session.execute(sql)
    topic = kafka.topic("amended")
    options = f"connector = 'kafka', topic = '{topic}', properties.bootstrap.server = '{kafka.bootstrap}'"
    session.execute(
        f"CREATE SINK s FROM m WITH ({options}, key.columns = 'window_end, k', amendments = 'upsert') "
        "FORMAT PLAIN ENCODE JSON"
    )
    insert(
        session, ("a", 1, "00:01"), ("b", 2, "00:02"), ("c", 3, "00:03"), ("a", 4, "01:01"), ("b", 5, "02:00")
    )
    assert amended(session) == {"s": (4, 0)}
    # Of minute 1, a is gone and d comes; of minute 2, b comes.
    insert(session, ("a", 9, "00:11"), ("d", 1, "00:12"), ("b", 2, "01:30"))
    amend(session)
    real = SparkSinkTopic.send

    def after_two(self: SparkSinkTopic, frame: DataFrame) -> None:
        real(self, frame.limit(2))
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(SparkSinkTopic, "send", after_two)
        with pytest.raises(TidegateError) as broke:
            session.run()
    assert broke.value.code == "TG545"
    assert len(messages(kafka, topic)) == 6

    # Before anybody starts it again, minute 1 is amended once more, and more has closed.
    again = workbench.session()
    insert(again, ("b", 9, "00:20"), ("b", 1, "03:00"))
    amend(again)
    # What broke off is finished as it was, and what came after it follows.
    assert amended(again) == {"s": (1, 3)}
    found = messages(kafka, topic)
    assert len(found) == len({message.id for message in found}) == 4 + 6 + 3 + 1
    latest = {message.key: message.value for message in found}
    assert {key for key, value in latest.items() if value is None} == {("00:01", "a"), ("00:01", "b")}
    stored = again.table("m").collect()
    totals = {(str(row["window_end"])[11:16], row["k"]): row["total"] for row in stored}
    assert {key: value["total"] for key, value in latest.items() if value is not None} == totals
    revisions: dict[tuple[str, str], list[str]] = {}
    for message in found:
        revisions.setdefault(message.key, []).append(message.revision)
    assert revisions == {
        ("00:01", "a"): ["1", "2"],
        ("00:01", "b"): ["1", "2", "3"],
        ("00:01", "c"): ["1", "2", "3"],
        ("00:01", "d"): ["2", "3"],
        ("00:02", "a"): ["1", "2"],
        ("00:02", "b"): ["2"],
        ("00:03", "b"): ["1"],
    }
    assert amended(again) == {}

    resends_what_closes_after_a_reset(again, kafka, topic)


@pytest.mark.long_run
def test_B2_a_session_that_late_rows_join_before_its_delivery_is_delivered_as_joined(
    workbench: Workbench,
) -> None:
    """A sink that ignores amendments has none of it yet."""
    session = workbench.session()
    for sql in (TABLE, VISITS):
        session.execute(sql)
    session.execute(
        "CREATE SINK files FROM visits WITH (connector = 'filesystem', path = 'out') FORMAT PLAIN ENCODE CSV"
    )
    insert(session, ("a", 1, "00:01"), ("b", 1, "01:00"))
    session.run()
    assert delivered(workbench) == ["a,1"]
    # The sessions of c and d end in commits that are not delivered; a late row makes that of c a longer one.
    insert(session, ("c", 1, "01:10"), ("d", 1, "02:00"), ("b", 1, "03:00"))
    session.run(["visits"])
    insert(session, ("c", 1, "01:15"))
    assert [report.windows for report in amend(session)] == [2]
    session.run()
    assert delivered(workbench) == ["a,1", "b,1", "c,2", "d,1"]


def delivered(workbench: Workbench) -> list[str]:
    return sorted(
        line for file in (workbench.root / "out").glob("*.csv") for line in file.read_text().splitlines()[1:]
    )
