"""E9: what Kafka sinks have delivered of a person's rows is deleted by null values, if their topics are compacted."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Workbench
from tests.inprocess.broker import Broker
from tests.inprocess.failpoints import Failpoints, Killed
from tests.inprocess.topics import running
from tests.maintenance.people import WHERE, WHO, arrive, define, erased, order, there
from tests.maintenance.test_erase_views import HOURS
from tests.support.kafka import Broker as RealBroker
from tidegate.errors import TidegateError
from tidegate.maintenance.erase import erase
from tidegate.maintenance.erasing import ErasingFile
from tidegate.maintenance.upkeep import maintain
from tidegate.plan.versions import kept_versions
from tidegate.project.jobs.maintenance import Policy
from tidegate.runtime.kafka_topics import SparkSinkTopic
from tidegate.session.session import Session
from tidegate.sql.options.kafka_options import KafkaSinkOptions

pytestmark = pytest.mark.runner("inprocess")

HOURLY = f"""
CREATE MATERIALIZED VIEW hourly AS SELECT window_start, customer AS who, count(*) AS n {HOURS}
GROUP BY window_start, customer EMIT ON WINDOW CLOSE;
"""
TOTALS = f"""
CREATE MATERIALIZED VIEW totals AS SELECT window_start, count(*) AS n, sum(id) AS ids {HOURS}
GROUP BY window_start EMIT ON WINDOW CLOSE;
"""
SORTED = "CREATE MATERIALIZED VIEW sorted AS SELECT at, customer, id FROM orders EMIT ON WINDOW CLOSE;"
UPSERT = "key.columns = 'window_start, who', amendments = 'upsert'"

Sinks = Callable[..., Session]


@pytest.fixture
def broker() -> Iterator[Broker]:
    with running(Broker()) as found:
        yield found


def kafka_sink(name: str, upstream: str, servers: str, topic: str, options: str, form: str = "") -> str:
    return (
        f"CREATE SINK {name} FROM {upstream} WITH (connector = 'kafka', topic = '{topic}', "
        f"properties.bootstrap.server = '{servers}', {options}) FORMAT PLAIN ENCODE JSON{form};\n"
    )


@pytest.fixture
def sink(workbench: Workbench, broker: Broker) -> Sinks:
    """Defines one sink, and the views."""

    def defined(upstream: str, topic: str, options: str, form: str = "", views: str = HOURLY) -> Session:
        workbench.allow(endpoints=[broker.bootstrap])
        define(workbench.root, views, kafka_sink("out", upstream, broker.bootstrap, topic, options, form))
        return workbench.session()

    return defined


def of_person(broker: Broker, topic: str) -> list[tuple[int, int]]:
    """(partition, offset) of the messages that have the person in key or value."""
    return [(p, m.offset) for p, m in broker.stored(topic) if WHO in f"{m.key!r}{m.value!r}"]


def latest(broker: Broker, topic: str) -> list[tuple[Any, ...]]:
    """What a consumer of a compacted topic has."""
    newest = {(p, m.key): m.value for p, m in broker.stored(topic)}
    return sorted(tuple(map(str, json.loads(value).values())) for value in newest.values() if value)


def rows(session: Session, name: str) -> list[tuple[str, ...]]:
    found = session.execute(f"SELECT * FROM {name}").rows()
    return sorted(tuple(str(value).replace(" ", "T") for value in row) for row in found)


def texts(found: list[tuple[Any, ...]]) -> list[tuple[str, ...]]:
    return [tuple(str(value).removesuffix("Z").removesuffix(".000000") for value in row) for row in found]


def test_E9_null_values_delete_what_the_keys_had_and_deliveries_continue(
    workbench: Workbench, broker: Broker, sink: Sinks
) -> None:
    topic = broker.topic(cleanup_policy="compact", partitions=2)
    session = sink("hourly", topic, UPSERT)
    for number in (1, 2):
        arrive(workbench.root, number)
        session.run()
    # From here on most keys are in another partition, and the earlier messages stay where they are.
    broker.add_partitions(topic, 3)
    arrive(workbench.root, 3)
    session.run()
    before, gone = latest(broker, topic), len(of_person(broker, topic))
    assert gone == 5
    looked = {t.table: t.keys for t in erased(session, dry_run=True).tables}
    assert len(of_person(broker, topic)) == gone
    done = erased(session)
    assert {t.table: t.keys for t in done.tables} == looked
    assert looked["out"] == gone
    assert any(f"when they compact the topic {topic}" in note for note in done.notes)
    assert latest(broker, topic) == [row for row in before if WHO not in row]
    assert texts(latest(broker, topic)) == rows(session, "hourly")
    broker.compact(topic)
    assert of_person(broker, topic) == []
    assert there(workbench.root) == set()
    # Nothing is sent twice, or is missing.
    ends = broker.ends(topic)
    session = workbench.session()
    session.run()
    assert broker.ends(topic) == ends
    arrive(workbench.root, 4)
    session.run()
    assert texts([r for r in latest(broker, topic) if WHO not in r]) == [
        row for row in rows(session, "hourly") if WHO not in row
    ]
    assert {t.table: t.keys for t in erased(session).tables}["out"] == len(of_person(broker, topic)) // 2 > 0


def test_E9_what_the_view_has_no_longer_and_keys_of_an_earlier_definition_are_found_in_the_topic(
    workbench: Workbench, broker: Broker, sink: Sinks
) -> None:
    topic = broker.topic(cleanup_policy="compact,delete")
    session = sink("orders", topic, "key.columns = 'customer, id'")
    arrive(workbench.root, 1, 2)
    session.run()
    session = sink("orders", topic, "key.columns = 'id'")
    arrive(workbench.root, 3)
    session.run()
    maintain(session, "orders", Policy(retention=86_400, keep_snapshots=86_400 * 365, settle=0))
    keys = {m.key for _, m in broker.stored(topic) if WHO in f"{m.value!r}"}
    assert {len(json.loads(key or b"")) for key in keys} == {1, 2}
    done = {t.table: t for t in erased(session).tables}
    # The log's rows of the first day are beyond their retention, and the topic has them.
    assert done["orders"].on_time < done["out"].keys == len(keys)
    broker.compact(topic)
    assert of_person(broker, topic) == []
    assert {row[0] for row in latest(broker, topic)} == {"ann", "bob"}


def test_E9_a_key_that_is_in_two_partitions_is_deleted_in_both(
    workbench: Workbench, broker: Broker, sink: Sinks
) -> None:
    topic = broker.topic(cleanup_policy="compact", partitions=1)
    session = sink("orders", topic, "key.columns = 'customer', key.encode = 'text'")
    arrive(workbench.root, 1)
    session.run()
    broker.add_partitions(topic, 6)
    arrive(workbench.root, 2)
    session.run()
    assert {partition for partition, _ in of_person(broker, topic)} > {0}
    assert {t.table: t.keys for t in erased(session).tables}["out"] == 2
    broker.compact(topic)
    assert of_person(broker, topic) == []
    assert {row[0] for row in latest(broker, topic)} == {"ann", "bob"}


def test_E9_a_row_that_has_the_same_key_is_sent_again(
    workbench: Workbench, broker: Broker, sink: Sinks
) -> None:
    topic = broker.topic(cleanup_policy="compact")
    session = sink("orders", topic, "key.columns = 'id', key.encode = 'text'")
    day = [
        ("ann", 7, "09:00"),
        ("bob", 7, "09:10"),
        (WHO, 7, "09:20"),
        (WHO, 8, "09:30"),
        ("bob", 9, "09:40"),
    ]
    (workbench.root / "input").mkdir()
    lines = [json.dumps(order(who, number, f"2026-01-01 {at}:00")) for who, number, at in day]
    (workbench.root / "input" / "01.json").write_text("\n".join(lines))
    session.run()
    assert {t.table: t.keys for t in erased(session, raw=False).tables}["out"] == 2
    broker.compact(topic)
    assert [(row[0], row[1]) for row in latest(broker, topic)] == [("bob", "7"), ("bob", "9")]
    assert len({m.headers for _, m in broker.stored(topic)}) == 2


@pytest.mark.long_run
def test_R2_E9_an_erasure_that_is_killed_while_it_sends_is_finished(
    workbench: Workbench, broker: Broker, sink: Sinks
) -> None:
    topic = broker.topic(cleanup_policy="compact", partitions=2)
    session = sink("hourly", topic, UPSERT)
    arrive(workbench.root, 1, 2, 3)
    session.run()
    lives, ended = 0, False
    while not ended:
        lives += 1
        session = workbench.session()
        session.confirm = lambda text: True
        # In every other life a part of the messages arrives; the others end at their next effect but one.
        broker.faults.broken_sends = [(lives % 3, "the broker is gone")] if lives % 2 else []
        begun = ErasingFile(session.project.storage, "orders").read() is not None
        try:
            with Failpoints(None if lives % 2 else 2).armed():
                erase(session, "orders", *(() if begun else (WHERE, (WHO,))))
            ended = True
        except Killed:
            pass
        except TidegateError as error:
            if error.code != "TG545":
                raise
        assert lives < 60
    assert lives > 5
    assert texts(latest(broker, topic)) == rows(session, "hourly")
    broker.compact(topic)
    assert of_person(broker, topic) == []
    assert there(workbench.root) == set()


def test_E6_E9_the_topic_of_a_view_that_is_recomputed_gets_the_differences_wherever_it_is_killed(
    workbench: Workbench, broker: Broker, sink: Sinks
) -> None:
    topic = broker.topic()
    options = "key.columns = 'window_start', amendments = 'upsert'"
    session = sink("totals", topic, options, views=TOTALS)
    arrive(workbench.root, 1, 2)
    session.run()
    arrive(workbench.root, 3)
    # The sink is behind.
    session.run(["totals"])
    before, killed, points = latest(broker, topic), True, 0
    while killed:
        session = workbench.session()
        session.confirm = lambda text: True
        begun, killed = ErasingFile(session.project.storage, "orders").read() is not None, False
        try:
            with Failpoints(points).armed():
                erase(session, "orders", *(() if begun else (WHERE, (WHO,))), recompute=not begun)
        except Killed:
            killed, points = True, points + 1
        assert points < 60
    assert points > 8
    assert there(workbench.root) == set()
    assert texts(latest(broker, topic)) == rows(session, "totals") != texts(before)
    assert kept_versions(session.tables.open(session.identifier("totals")).properties()) == ()
    ends = broker.ends(topic)
    arrive(workbench.root, 4)
    session = workbench.session()
    session.run()
    assert broker.ends(topic) != ends
    assert texts(latest(broker, topic)) == rows(session, "totals")


def test_E9_without_its_broker_nothing_is_erased(workbench: Workbench, broker: Broker, sink: Sinks) -> None:
    topic = broker.topic(cleanup_policy="compact")
    views = HOURLY + TOTALS
    session = sink("totals", topic, "key.columns = 'window_start', amendments = 'upsert'", views=views)
    arrive(workbench.root, 1, 2)
    session.run()
    broker.stop()
    for options in ({"recompute": True}, {"recompute": True, "dry_run": True}):
        with pytest.raises(TidegateError, match="TG621"):
            erased(workbench.session(), **options)
    assert ErasingFile(session.project.storage, "orders").read() is None
    # (Without recomputing, what the topic has stays.)
    assert erased(workbench.session(), keep_aggregates=True).rows == 10


def in_files(folder: Path, text: str) -> list[str]:
    """The segments of a broker's log that have a text."""
    found = [path for path in folder.rglob("*.log") if path.parent.name.rpartition("-")[2].isdigit()]
    return [f"{path.parent.name}/{path.name}" for path in found if text.encode() in path.read_bytes()]


@pytest.mark.runner("spark")
@pytest.mark.long_run
@pytest.mark.spark
def test_E9_a_real_broker_removes_the_person_from_its_disk(workbench: Workbench, kafka: RealBroker) -> None:
    soon = {"min_cleanable_dirty_ratio": "0.01", "delete_retention_ms": "0", "segment_ms": "1000"}
    soon |= {"max_compaction_lag_ms": "1000", "compression_type": "uncompressed"}
    topics = {name: kafka.topic(name, cleanup_policy="compact", **soon) for name in ("closed", "log")}
    workbench.allow(endpoints=[kafka.bootstrap])
    key = "key.columns = 'customer, at'"
    sinks = [
        kafka_sink("closed", "sorted", kafka.bootstrap, topics["closed"], f"{key}, amendments = 'upsert'"),
        kafka_sink("log", "orders", kafka.bootstrap, topics["log"], key),
    ]
    define(workbench.root, SORTED, *sinks)
    session = workbench.session()
    for number in (1, 2, 3):
        arrive(workbench.root, number)
        session.run()
    for found in session.catalog.sinks:
        assert isinstance(found.connector, KafkaSinkOptions)
        topic = session.runner.topics.sink(found, found.connector)
        assert isinstance(topic, SparkSinkTopic)
        assert topic.is_compacted()
        # What Java's client alone has access to is asked by it.
        with closing(topic._java()) as java:
            assert java.setting("cleanup.policy") == "compact"
    folder = kafka.local.folder
    assert {one.rpartition("/")[0].rpartition("-")[0] for one in in_files(folder, WHO)} == set(
        topics.values()
    )
    session.confirm = lambda text: True
    where = f"{WHERE} AND id > 10 AND (at IS NULL OR at > TIMESTAMP '2025-12-31 23:59:59.5')"
    done = {t.table: t.keys for t in erase(session, "orders", where, (WHO,)).tables}
    assert (done["closed"], done["log"]) == (5, 6)
    assert there(workbench.root) == set()
    # A segment is not compacted while it is written: later messages begin the next one.
    until, day = time.monotonic() + 120, 4
    while in_files(folder, WHO):
        assert time.monotonic() < until, in_files(folder, WHO)
        for topic in topics.values():
            kafka.send(topic, [(p, f"later-{day}-{p}", "{}", None) for p in kafka.ends(topic)])
        day += 1
        time.sleep(2)
    assert in_files(folder, "ann")
