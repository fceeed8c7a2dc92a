"""What goes wrong between the engine and a broker, on the model of one: no row is lost, and none comes twice (R2)."""

from __future__ import annotations

import json

import pytest

from tests.conftest import Workbench
from tests.inprocess.broker import Broker
from tests.inprocess.topics import running
from tidegate.errors import TidegateError
from tidegate.session.session import Session

pytestmark = pytest.mark.runner("inprocess", only=True)

SOURCE = (
    "CREATE SOURCE s (id INT, ts TIMESTAMP, WATERMARK FOR ts AS ts) WITH (connector = 'kafka', topic = 't', "
    "properties.bootstrap.server = '{servers}') FORMAT PLAIN ENCODE JSON;"
)
SINK = (
    "CREATE SINK q FROM s WITH (connector = 'kafka', topic = 'out', properties.bootstrap.server = '{servers}', "
    "key.columns = 'id') FORMAT PLAIN ENCODE JSON;"
)


def rows(*ids: int) -> list[tuple[int, None, str, None]]:
    return [(0, None, json.dumps({"id": n, "ts": f"2026-01-01 00:00:{n:02}"}), None) for n in ids]


def read(session: Session) -> list[tuple[int, int]]:
    found = session.table("s$raw").where("outcome = 'on_time'").select("offset", "id").collect()
    return sorted((row["offset"], row["id"]) for row in found)


def test_R2_what_a_broker_refuses_breaks_off_or_gives_twice_is_read_once(workbench: Workbench) -> None:
    with running(Broker()) as broker:
        broker.create("t", 1)
        session = workbench.assets(s=SOURCE.format(servers=broker.bootstrap)).session()
        broker.send("t", rows(0, 1))
        broker.faults.refused = 1
        with pytest.raises(TidegateError) as refused:
            session.run()
        assert refused.value.code == "TG550"
        broker.faults.broken_fetches = 1
        with pytest.raises(TidegateError) as broken:
            session.run()
        assert broken.value.code == "TG513"
        # The messages are fetched by the task that decodes them itself, and, since it met an offset twice, by Spark.
        broker.faults.doubled_fetches = 2
        session.run()
        assert read(session) == [(0, 0), (1, 1)]
        (twice,) = session.table("s$raw").where("outcome = 'rejected'").collect()
        assert (twice["offset"], twice["reason"]) == (0, "offset_not_increasing")
        broker.send("t", rows(2, 3))
        broker.faults.behind = [1]
        session.run()
        assert read(session)[:3] == [(0, 0), (1, 1), (2, 2)]
        workbench.session().run()
        assert read(session) == [(0, 0), (1, 1), (2, 2), (3, 3)]


@pytest.mark.parametrize("recorded", [False, True])
def test_W5_what_a_new_partition_has_lost_before_it_was_seen_is_an_error_or_on_record(
    workbench: Workbench, recorded: bool
) -> None:
    with running(Broker()) as broker:
        broker.create("t", 1)
        sql = SOURCE.format(servers=broker.bootstrap)
        if recorded:
            sql = sql.replace("topic = 't'", "topic = 't', on_data_loss = 'record'")
        session = workbench.assets(s=sql).session()
        broker.send("t", rows(0))
        session.run()
        broker.add_partitions("t", 1)
        broker.send("t", [(1, *row[1:]) for row in rows(1, 2, 3)])
        broker.delete_before("t", {1: 2})
        if not recorded:
            with pytest.raises(TidegateError) as lost:
                session.run()
            assert lost.value.code == "TG552"
            assert "offsets 0 to 1 of partition 1" in lost.value.message
            return
        session.run()
        assert read(session) == [(0, 0), (2, 3)]
        history = session.table("s$watermarks").where("partition = '1' AND note IS NOT NULL").collect()
        assert [row["note"] for row in history] == ["offsets 0 to 1 were gone before they were read"]


@pytest.mark.parametrize("sent", [0, 1, None])
def test_R2_a_delivery_that_the_broker_breaks_off_goes_on_with_what_is_missing(
    workbench: Workbench, sent: int | None
) -> None:
    with running(Broker()) as broker:
        broker.create("t", 1)
        broker.create("out", 2)
        sql = SOURCE.format(servers=broker.bootstrap) + SINK.format(servers=broker.bootstrap)
        session = workbench.assets(s=sql).session()
        broker.send("t", rows(0, 1, 2))
        broker.faults.broken_sends = [(sent, "the leader is gone")]
        with pytest.raises(TidegateError) as broken:
            session.run()
        assert broken.value.code == "TG545"
        assert len(broker.stored("out")) == (3 if sent is None else sent)
        broker.send("t", rows(3))
        workbench.session().run()
        found = [message for _, message in broker.stored("out")]
        assert sorted(json.loads(message.value or b"")["id"] for message in found) == [0, 1, 2, 3]
        assert len({message.headers for message in found}) == 4


def test_whoever_asks_passes_the_hook_before_and_after_each_request(workbench: Workbench) -> None:
    passed: list[str] = []
    with running(Broker(passed.append)) as broker:
        broker.create("t", 1)
        session = workbench.assets(s=SOURCE.format(servers=broker.bootstrap)).session()
        broker.send("t", rows(0))
        session.run()
        assert passed[::2] == [name.replace("after", "before") for name in passed[1::2]]
        asked = [name.removeprefix("before ") for name in passed[::2]]
        assert asked[:3] == ["latest", "earliest", "topic_id"]
        assert asked.count("fetch") == 1
