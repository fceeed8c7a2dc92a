"""Partitions of a Kafka topic that come, sleep, wake and stall (W6, W7, W8)."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from tests.conftest import Workbench
from tests.ingest.topics import NOON, advance, judged, newest, project, row, send
from tests.support.brokers import AnyBroker
from tidegate.ingest.sources.kafka import KafkaConnector
from tidegate.ingest.stream import SourceFeed
from tidegate.project import Project
from tidegate.session.run import connect
from tidegate.store.status import read_status

#: Cases that say nothing else need no real broker: `tests/inprocess/test_topic_conformance.py` holds the model to it.
pytestmark = pytest.mark.runner("inprocess")


def test_W7_an_idle_partition_holds_nothing_back_and_wakes_at_G(
    workbench: Workbench, broker: AnyBroker
) -> None:
    topic = broker.topic(partitions=2)
    session = project(workbench, broker, topic, idle_timeout="1 minute")
    send(broker, topic, [(0, row(1, 100)), (1, row(2, 20))])
    advance(session, NOON)
    assert newest(session) == {None: ("active", 15), "0": ("active", 95), "1": ("active", 15)}
    send(broker, topic, [(0, row(3, 200))])
    advance(session, NOON + timedelta(seconds=59))
    assert newest(session)[None] == ("active", 15)
    # A minute after its last row it is idle; nothing else has to come for that.
    assert advance(session, NOON + timedelta(seconds=60)) == 1
    assert newest(session) == {None: ("active", 195), "0": ("active", 195), "1": ("idle", 15)}
    assert advance(session, NOON + timedelta(seconds=61)) == 0
    session.run(["v"], upstream=False)
    closed = session.table("v").collect()
    # It wakes with rows below and above G: judged against max(Wp, G); no closed window changes.
    send(broker, topic, [(1, row(4, 190)), (1, row(5, 196)), (1, row(6, 210))])
    advance(session, NOON + timedelta(seconds=62))
    assert newest(session) == {None: ("active", 195), "0": ("active", 195), "1": ("active", 205)}
    assert [o for p, _, o in judged(session) if p == "1"] == ["on_time", "late", "on_time", "on_time"]
    late = session.table("s$late").collect()
    assert [(r["id"], r["watermark"]) for r in late] == [(4, datetime(2026, 1, 1, 0, 3, 15))]
    session.run(["v"], upstream=False)
    assert [r for r in session.table("v").collect() if r in closed] == closed


def test_W7_idleness_counts_on_over_restarts_and_all_idle_holds_G(
    workbench: Workbench, broker: AnyBroker
) -> None:
    topic = broker.topic(partitions=2)
    session = project(workbench, broker, topic, idle_timeout="1 minute")
    send(broker, topic, [(0, row(1, 100)), (1, row(2, 20))])
    advance(session, NOON)
    # Nobody looked for an hour: both have been quiet for long.
    advance(workbench.session(), NOON + timedelta(hours=1))
    assert newest(session) == {None: ("active", 15), "0": ("idle", 95), "1": ("idle", 15)}


def test_W7_idle_advance_moves_G_with_the_clock(workbench: Workbench, broker: AnyBroker) -> None:
    topic = broker.topic(partitions=2)
    session = project(workbench, broker, topic, idle_timeout="10 seconds", idle_advance="true")
    send(broker, topic, [(0, row(1, 100)), (1, row(2, 20))])
    advance(session, NOON)
    advance(session, NOON + timedelta(seconds=10))
    assert newest(session)[None][1] == 105  # the furthest stood at 95 when the last row came, 10 s ago
    advance(session, NOON + timedelta(seconds=30))
    assert newest(session)[None][1] == 125
    send(broker, topic, [(1, row(3, 124)), (1, row(4, 126))])
    advance(session, NOON + timedelta(seconds=31))
    assert [o for p, _, o in judged(session) if p == "1"] == ["on_time", "late", "on_time"]


def test_W6_empty_partitions_take_no_part_and_new_ones_start_at_G(
    workbench: Workbench, broker: AnyBroker
) -> None:
    topic = broker.topic(partitions=2)
    session = project(workbench, broker, topic)
    send(broker, topic, [(0, row(1, 100))])
    advance(session, NOON)
    assert newest(session) == {None: ("active", 95), "0": ("active", 95), "1": ("empty", None)}
    broker.add_partitions(topic, 1)
    send(broker, topic, [(1, row(2, 90)), (2, row(3, 97)), (2, row(4, 120))])
    advance(session, NOON + timedelta(seconds=1))
    # The row at 90 is below G, where its partition began; that of 97 is not.
    assert judged(session)[1:] == [("1", 0, "late"), ("2", 0, "on_time"), ("2", 1, "on_time")]
    assert newest(session) == {
        None: ("active", 95),
        "0": ("active", 95),
        "1": ("active", 95),
        "2": ("active", 115),
    }


def test_W8_states_say_who_is_stalled_and_who_is_ahead_of_the_clock(
    workbench: Workbench, broker: AnyBroker
) -> None:
    topic = broker.topic(partitions=2)
    session = project(workbench, broker, topic, stall_timeout="1 minute", max_future_skew="1 hour")
    send(broker, topic, [(0, row(1, 100)), (1, row(2, 20 + 12 * 3600))])
    advance(session, NOON)
    assert newest(session)["1"] == ("future", 12 * 3600 + 15)
    send(broker, topic, [(0, row(3, 50))])
    advance(session, NOON + timedelta(seconds=61))
    assert newest(session)["0"] == ("stalled", 95)  # rows come, all of them late
    # W9: two hours ahead raises nothing.
    send(broker, topic, [(0, row(4, 14 * 3600 + 1000))])
    advance(session, NOON + timedelta(seconds=62))
    assert newest(session)["0"] == ("future", 95)
    assert judged(session)[-2] == ("0", 2, "on_time")
    found = read_status(Project.load(workbench.root)).relations[0]
    assert [(p.partition, p.lag_rows, p.holds_back) for p in found.partitions] == [
        ("0", 0, True),
        ("1", 0, False),
    ]
    send(broker, topic, [(1, row(5, 1)), (1, row(6, 1))])
    assert read_status(Project.load(workbench.root)).relations[0].lag_rows == 2


def test_W7_nobody_is_judged_by_a_clock_that_ran_past_rows_which_no_look_has_shown(
    workbench: Workbench, broker: AnyBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A look that sources share may be of a moment before the row."""
    topic = broker.topic(partitions=2)
    session = project(workbench, broker, topic, idle_timeout="10 seconds", idle_advance="true")
    relation = session.relation("s")
    log = session.log(relation)
    connector = connect(session, log)
    assert isinstance(connector, KafkaConnector)
    clock = [NOON]
    folder = session.work_folder("s")
    feed = SourceFeed(session.project.storage, log, connector, folder, lambda: clock[0])

    def tick(seconds: int) -> None:
        clock[0] = NOON + timedelta(seconds=seconds)
        connector.pending()
        while feed.advance(lambda _: None):
            pass

    send(broker, topic, [(0, row(1, 100)), (1, row(2, 20))])
    for seconds in (0, 10, 11):
        tick(seconds)
    idle = newest(session)[None]
    send(broker, topic, [(1, row(3, 118))])
    with monkeypatch.context() as patched:
        patched.setattr(connector._broker, "still", lambda ends: True)
        tick(30)
    assert newest(session)[None] == idle
    tick(40)
    assert ("1", 1, "on_time") in judged(session)
