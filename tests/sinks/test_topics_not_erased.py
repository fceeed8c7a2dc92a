"""E9: topics that may have more than a Kafka sink delivers now, or that can't delete it, refuse an erasure."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from tests.conftest import Workbench
from tests.inprocess.broker import Broker
from tests.maintenance.people import WHERE, WHO, arrive, define, erased, stored, there
from tests.maintenance.test_erase_topics import (
    HOURLY,
    SORTED,
    TOTALS,
    UPSERT,
    Sinks,
    kafka_sink,
    latest,
    of_person,
    rows,
    texts,
)
from tests.maintenance.test_erase_topics import broker as broker  # the fixture
from tests.maintenance.test_erase_topics import sink as sink  # the fixture
from tidegate.errors import TidegateError
from tidegate.maintenance.erase import erase
from tidegate.maintenance.erasing import ErasingFile
from tidegate.session.session import Session
from tidegate.sinks.kafka_erasure import DeliveredMessages
from tidegate.sinks.upstream import Upstream
from tidegate.views.amend.rebuild import rebuild

pytestmark = pytest.mark.runner("inprocess")


def own(broker: Broker, topic: str) -> bytes:
    """What the ids of the sink's messages begin with."""
    _, message = broker.stored(topic)[0]
    return (dict(message.headers)["tidegate-id"] or b"").split(b"/")[0]


def renamed(session: Session, broker: Broker, topic: str) -> None:
    # Of a time when the column had another name.
    id_ = own(broker, topic) + b"/1/1"
    broker.append(topic, b"old", json.dumps({"buyer": WHO}).encode(), (("tidegate-id", id_),))
    # Another program's message is its own.
    broker.append(topic, b"other", json.dumps({"buyer": WHO}).encode(), ())


def of_another_sink(session: Session, broker: Broker, topic: str) -> None:
    broker.append(topic, b"old", b'{"who": "ann"}', (("tidegate-id", b"abc/1/1"),))


def of_another_program(session: Session, broker: Broker, topic: str) -> None:
    [_, message, *_] = [m for _, m in broker.stored(topic)]
    broker.append(topic, message.key, b'{"who": "ann"}', ())


def recreated(session: Session, broker: Broker, topic: str) -> None:
    broker.recreate(topic, 1)


def interrupted(session: Session, broker: Broker, topic: str) -> None:
    arrive(session.project.root, 3)
    broker.faults.broken_sends = [(1, "the broker is gone")]
    with pytest.raises(TidegateError, match="TG545"):
        session.run()


def other_times(session: Session, broker: Broker, topic: str) -> None:
    of_then = json.dumps({"at": "2026-01-01", "customer": "ann", "id": 1}).encode()
    broker.append(topic, b"old", of_then, (("tidegate-id", own(broker, topic) + b"/1/1"),))


DECIMAL = """
CREATE MATERIALIZED VIEW exact AS SELECT customer, CAST(id AS DECIMAL(30, 10)) AS id, at FROM orders
EMIT ON WINDOW CLOSE;
"""


@pytest.mark.parametrize(
    ("upstream", "options", "happens", "why"),
    [
        ("hourly", UPSERT, None, "the brokers do not compact the topic"),
        ("hourly", "amendments = 'ignore'", None, "its messages have no key"),
        (
            "sorted",
            "key.columns = 'customer'",
            other_times,
            "the last message of 1 key does not tell the columns",
        ),
        ("hourly", UPSERT, renamed, "the last message of 1 key does not tell the columns of"),
        ("hourly", UPSERT, of_another_sink, "1 key of the topic: the last message may be of another sink"),
        ("hourly", UPSERT, of_another_program, "1 key of the topic: the last message may be of another sink"),
        ("hourly", UPSERT, recreated, "TG541"),
        ("hourly", UPSERT, interrupted, "a delivery was interrupted: tidegate run out finishes it"),
    ],
)
def test_E9_a_topic_that_can_not_delete_refuses_all_of_it(
    workbench: Workbench,
    broker: Broker,
    sink: Sinks,
    upstream: str,
    options: str,
    happens: Callable[[Session, Broker, str], None] | None,
    why: str,
) -> None:
    topic = broker.topic(cleanup_policy="delete" if "compact" in why else "compact")
    views = {"hourly": HOURLY, "sorted": SORTED}[upstream]
    session = sink(upstream, topic, options, views=views)
    arrive(workbench.root, 1, 2)
    session.run()
    if happens is not None:
        happens(session, broker, topic)
    by_time = f"{WHERE} AND (at IS NULL OR at > TIMESTAMP '2025-01-01')"
    refused(workbench, broker, topic, why, by_time if upstream == "sorted" else WHERE)


def refused(workbench: Workbench, broker: Broker, topic: str, why: str, where: str = WHERE) -> None:
    ends, session = broker.ends(topic), workbench.session()
    session.confirm = lambda text: True
    with pytest.raises(TidegateError) as caught:
        erase(session, "orders", where, (WHO,))
    assert why in f"{caught.value.code} {caught.value.message}"
    assert broker.ends(topic) == ends
    assert ErasingFile(session.project.storage, "orders").read() is None
    assert there(workbench.root)


def test_E6_E9_a_topic_that_may_have_rows_of_an_earlier_version_refuses_all_of_it(
    workbench: Workbench, broker: Broker, sink: Sinks
) -> None:
    topic = broker.topic(cleanup_policy="compact")
    sink("hourly", topic, UPSERT)
    arrive(workbench.root, 1, 2)
    workbench.session().run()
    session = sink("hourly", topic, UPSERT, views=HOURLY.replace("count(*)", "1 + count(*)"))
    rebuild(session, ["hourly"])
    refused(workbench, broker, topic, 'it does not continue with the present version of "hourly" yet')
    session.run()
    refused(workbench, broker, topic, 'the topic may have rows of an earlier version of "hourly"')


def test_E9_a_sink_that_has_delivered_elsewhere_before_refuses_all_of_it(
    workbench: Workbench, broker: Broker, sink: Sinks
) -> None:
    first, second = (broker.topic(cleanup_policy="compact") for _ in range(2))
    sink("hourly", first, UPSERT)
    arrive(workbench.root, 1, 2)
    workbench.session().run()
    sink("hourly", second, UPSERT)
    refused(workbench, broker, first, f'a sink that has delivered "hourly" to kafka {first} before')
    workbench.session().run()
    refused(workbench, broker, first, f"it has delivered into another topic before: {first}")
    # Nor one that delivers something else now.
    root = workbench.root
    define(
        root,
        HOURLY,
        TOTALS,
        kafka_sink("out", "totals", broker.bootstrap, second, "key.columns = 'window_start'"),
    )
    refused(workbench, broker, first, f'a sink that has delivered "hourly" to kafka {second} before')


def test_E9_values_whose_text_spark_rounds_refuse_all_of_it(
    workbench: Workbench, broker: Broker, sink: Sinks
) -> None:
    topic = broker.topic(cleanup_policy="compact")
    sink("exact", topic, "key.columns = 'at'", views=DECIMAL)
    arrive(workbench.root, 1, 2)
    workbench.session().run()
    session = workbench.session()
    upstream = Upstream.of(session, next(iter(session.catalog.sinks)))
    assert upstream is not None
    messages = DeliveredMessages(session, next(iter(session.catalog.sinks)), upstream, {}, ["customer", "id"])
    assert messages.undecoded_columns() == ["id"]


def test_E9_no_open_transaction_of_another_program_hides_a_message(
    workbench: Workbench, broker: Broker, sink: Sinks
) -> None:
    topic = broker.topic(cleanup_policy="compact", partitions=1)
    session = sink("hourly", topic, f"{UPSERT}, properties.isolation.level = 'read_committed'")
    with broker.transaction(topic, [(0, b"theirs", b"{}", 1)], commit=True):
        arrive(workbench.root, 1, 2)
        session.run()
        assert {t.table: t.keys for t in erased(session).tables}["out"] == 3
    broker.compact(topic)
    assert of_person(broker, topic) == []


def test_E6_E9_a_sink_that_can_not_go_over_refuses_all_of_it(
    workbench: Workbench, broker: Broker, sink: Sinks
) -> None:
    """Before the first change, and with the sink's lease."""
    topic = broker.topic()
    options = "key.columns = 'window_start', amendments = 'upsert'"
    sink("totals", topic, options, views=TOTALS)
    arrive(workbench.root, 1, 2)
    workbench.session().run()
    with workbench.session().lease("out"), pytest.raises(TidegateError, match="TG508"):
        erased(workbench.session(), recompute=True)
    assert ErasingFile(workbench.session().project.storage, "orders").read() is None
    session = sink("totals", topic, options, views=TOTALS.replace("sum(id)", "1 + sum(id)"))
    rebuild(session, ["totals"])
    before = stored(session)
    for dry_run in (True, False):
        with pytest.raises(
            TidegateError, match='TG542: "out" has not gone over to the current version of "totals"'
        ):
            erased(workbench.session(), recompute=True, dry_run=dry_run)
    assert stored(session) == before
    workbench.session().run()
    assert erased(workbench.session(), recompute=True).rows == 10
    assert texts(latest(broker, topic)) == rows(workbench.session(), "totals")
