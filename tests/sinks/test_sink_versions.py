"""E6: a view has a new version, and each of its sinks goes on with it as it says; each row arrives once (R2)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.conftest import Workbench
from tests.inprocess.broker import Broker
from tests.inprocess.failpoints import Failpoints, Killed
from tests.inprocess.topics import running
from tests.sinks.made import delivered
from tests.sinks.test_sink_amendments import messages as sent
from tests.support.kafka import Broker as RealBroker
from tidegate.errors import TidegateError
from tidegate.evolve.planning import planned
from tidegate.maintenance.upkeep import maintain
from tidegate.plan.versions import kept_versions
from tidegate.project.jobs.maintenance import Policy
from tidegate.runtime.result import SinkReport
from tidegate.session.apply import apply
from tidegate.session.session import Session
from tidegate.sinks.deliver import deliver
from tidegate.store.status import read_status
from tidegate.store.version import NEWEST, STORAGE_VERSION
from tidegate.views.amend.rebuild import rebuild
from tidegate.views.versions.keeping import forget_versions

pytestmark = pytest.mark.runner("inprocess")

TABLE = "CREATE TABLE t (k VARCHAR, n INT, ts TIMESTAMP, WATERMARK FOR ts AS ts) APPEND ONLY;"
VIEW = """
CREATE MATERIALIZED VIEW v AS SELECT window_end, k, {what} AS x FROM TUMBLE(t, ts, INTERVAL '1 minute')
GROUP BY window_end, k EMIT ON WINDOW CLOSE;
"""
FILES = "CREATE SINK {name} FROM v WITH (connector = 'filesystem', path = '{name}'{more}) FORMAT PLAIN ENCODE JSON;"
MESSAGES = """
CREATE SINK {name} FROM v WITH (connector = 'kafka', topic = '{topic}', properties.bootstrap.server = '{servers}'{more})
FORMAT PLAIN ENCODE JSON;
"""
UPSERT = ", key.columns = 'window_end, k', amendments = 'upsert'"
COUNT, SUM = "count(*)", "sum(n)"


def opened(workbench: Workbench, what: str, *sinks: str) -> Session:
    workbench.assets(t=TABLE, v=VIEW.format(what=what), w="".join(sinks))
    return workbench.session()


def inserted(session: Session, *minutes: int) -> None:
    """Of minute m: one row of a, and two of b, which count m each. So a has the same by both queries in minute 1."""
    for m in minutes:
        values = [f"('{k}', {m}, '2026-01-01 00:{m:02}:0{i}')" for i, k in enumerate("abb")]
        session.execute(f"INSERT INTO t VALUES {', '.join(values)}")


def expected(minutes: Iterator[int] | range, what: str) -> list[tuple[int, str, int]]:
    """(minute, k, x) of windows."""
    factor = {"a": 1, "b": 2}
    return [(m, k, factor[k] * (1 if what == COUNT else m)) for m in minutes for k in "ab"]


def simple(rows: list[dict[str, Any]]) -> list[tuple[int, str, int]]:
    return sorted((int(row["window_end"][14:16]) - 1, row["k"], row["x"]) for row in rows)


def change(workbench: Workbench, what: str, *sinks: str) -> Session:
    session = opened(workbench, what, *sinks)
    rebuild(session)
    return session


def effects(session: Session) -> dict[str, tuple[str, str]]:
    return {one.name: (one.effect, "; ".join(one.what)) for one in planned(session.project, session.catalog)}


def test_E6_an_append_only_sink_goes_on_from_the_frontier_or_replays_as_it_says(workbench: Workbench) -> None:
    sinks = [
        FILES.format(name=name, more=more)
        for name, more in (
            ("on", ", on_change = 'from_frontier'"),
            ("again", ", on_change = 'replay'"),
            ("new", ", on_change = 'replay', snapshot = 'false'"),
            ("asks", ""),
        )
    ]
    session = opened(workbench, COUNT, *sinks)
    inserted(session, 1, 2, 3)
    session.run(["v"])
    inserted(session, 4)
    session.run(fail_fast=False)
    # Rows that are final, and not delivered yet, when the new version takes its place.
    inserted(session, 5, 6)
    session.run(["v"], upstream=True)
    session = change(workbench, SUM, *sinks)
    inserted(session, 7)
    failed = session.run(fail_fast=False).failed
    assert [(one.name, one.error["code"]) for one in failed] == [("asks", "TG542")]
    root = workbench.root
    on, again = (simple(delivered(root / name)) for name in ("on", "again"))
    assert on == sorted(expected(range(1, 6), COUNT) + expected(range(6, 7), SUM))
    assert again == sorted(expected(range(1, 6), COUNT) + expected(range(1, 7), SUM))
    assert simple(delivered(root / "new"))[-2:] == expected(range(6, 7), SUM)
    names = sorted(path.name for path in (root / "again").iterdir() if path.is_file())
    assert names == [
        *[name for name in names if name[0] == "0"],
        *[name for name in names if name.startswith("v00002-")],
    ]
    assert {s.name: (s.delivered, s.current) for s in read_status(session.project).sinks}["on"] == (12, True)
    assert session.run(["on", "again", "new"]).sinks[0].rows == 0


@pytest.fixture
def broker() -> Iterator[Broker]:
    with running(Broker()) as found:
        yield found


def messages(broker: Broker, topic: str) -> list[tuple[tuple[int, str], int | None]]:
    """(minute, k) and x of each message, None: the key is gone; those of a key in their order."""
    found = []
    for partition in broker.topics[topic].partitions:
        for message in partition.messages.values():
            key = json.loads(message.key or b"")
            value = None if message.value is None else json.loads(message.value)["x"]
            found.append(((int(key["window_end"][14:16]) - 1, key["k"]), value))
    return found


def latest(broker: Broker, topic: str) -> list[tuple[int, str, int]]:
    """What a compacted topic has."""
    newest = dict(messages(broker, topic))
    return sorted((*key, value) for key, value in newest.items() if value is not None)


def delivery(session: Session, name: str) -> SinkReport:
    (sink,) = [one for one in session.catalog.sinks if one.name == name]
    return deliver(session, sink)


#: b is in no window of an odd minute.
FEWER = VIEW.format(what=SUM).replace("GROUP BY", "WHERE k = 'a' OR n % 2 = 0 GROUP BY")


def test_E6_R2_a_sink_that_upserts_gets_the_differences_once_wherever_it_is_killed(
    workbench: Workbench, broker: Broker
) -> None:
    more = {"up": UPSERT, "on": ", key.columns = 'window_end, k', on_change = 'from_frontier'"}
    topics = {name: broker.topic(name, partitions=2) for name in more}
    sinks = [
        MESSAGES.format(name=name, topic=topics[name], servers=broker.bootstrap, more=text)
        for name, text in more.items()
    ]
    workbench.allow(endpoints=[broker.bootstrap])
    session = opened(workbench, COUNT, *sinks)
    inserted(session, 1, 2, 3)
    session.run()
    inserted(session, 4, 5)
    session.run(["v"])
    workbench.assets(v=FEWER)
    session = workbench.session()
    rebuild(session)
    before = {name: messages(broker, topics[name]) for name in more}
    wanted = [row for row in expected(range(1, 5), SUM) if row[1] == "a" or row[0] % 2 == 0]
    assert {k: v[0] for k, v in effects(session).items() if k in more} == {"up": "in place", "on": "in place"}
    lives, killed = 0, True
    while killed:
        killed, lives = False, lives + 1
        # Each life has one more effect, and in every other one a part of the messages arrives, and the rest does not.
        broker.faults.broken_sends = [(lives % 3, "the broker is gone")] if lives % 2 else []
        try:
            with Failpoints(None if lives % 2 else 1).armed():
                for name in more:
                    delivery(workbench.session(), name)
        except (Killed, TidegateError):
            killed = True
        assert lives < 60
    assert lives > 5
    broker.faults.broken_sends.clear()
    new = {name: messages(broker, topics[name])[len(before[name]) :] for name in more}
    assert latest(broker, topics["up"]) == wanted
    # Of the version before its last two windows, and of the new one what differs, and what is gone.
    rest = [((m, k), x) for m, k, x in expected(range(3, 5), COUNT)]
    same, gone = (1, "a", 1), [((1, "b"), None), ((3, "b"), None)]
    differs = [((m, k), x) for m, k, x in wanted if (m, k, x) != same]
    assert sorted(new["up"], key=str) == sorted([*rest, *differs, *gone], key=str)
    assert sorted(new["on"]) == rest
    inserted(session, 6, 7)
    session.run()
    assert latest(broker, topics["up"]) == sorted([*wanted, (5, "a", 5), (6, "a", 6), (6, "b", 12)])
    assert dict(messages(broker, topics["on"]))[5, "a"] == 5
    assert all(s.current for s in read_status(session.project).sinks)


def test_E6_what_a_sink_cannot_go_on_with_is_refused_before_anything_is_changed(workbench: Workbench) -> None:
    on, asks = (
        FILES.format(name=name, more=more)
        for name, more in (("on", ", on_change = 'from_frontier'"), ("asks", ""))
    )
    session = opened(workbench, COUNT, on, asks)
    inserted(session, 1, 2, 3)
    session.run()
    session = opened(workbench, SUM, on, asks)
    assert [effects(session)[name][0] for name in ("v", "on", "asks")] == [
        "new version",
        "in place",
        "refused",
    ]
    session.confirm = lambda text: True
    with pytest.raises(TidegateError, match="asks: it has delivered rows of") as caught:
        apply(session)
    assert caught.value.code == "TG534"
    # Without the one that asks, the other one is brought up with its view.
    session = opened(workbench, SUM, on)
    inserted(session, 4)
    session.confirm = lambda text: True
    apply(session)
    assert effects(session)["on"] == ("unchanged", "")
    assert simple(delivered(workbench.root / "on")) == expected(range(1, 3), COUNT) + expected(
        range(3, 4), SUM
    )
    # Upkeep leaves the version that a sink has yet to go on from, and the sink says so if it is gone all the same.
    inserted(session, 5)
    session = change(workbench, COUNT, on)
    assert {s.goes_on for s in read_status(session.project).sinks} == {True}
    policy = Policy(keep_versions=0.0)
    later = session.clock().timestamp() + 10
    maintain(session, "v", policy, now=later)
    table = session.tables.open(session.identifier("v"))
    assert [one.number for one in kept_versions(table.properties())] == [2]
    forget_versions(session, "v", lambda one: True)
    with pytest.raises(TidegateError, match="can't be read any more") as caught:
        delivery(session, "on")
    assert (caught.value.code, effects(session)["on"][0]) == ("TG542", "refused")
    # All rows can be had without it.
    session = opened(workbench, COUNT, on.replace("from_frontier", "replay"))
    assert delivery(session, "on").rows == 8
    # What was made anew is no version of it.
    session.forget("v")
    session.run(["v"])
    with pytest.raises(TidegateError, match="it was recreated"):
        delivery(session, "on")


QUERY = """
CREATE SINK s AS SELECT window_end, k, {what} AS x FROM TUMBLE(t, ts, INTERVAL '1 minute') GROUP BY window_end, k
EMIT ON WINDOW CLOSE WITH (connector = 'filesystem', path = 's', on_change = 'from_frontier') FORMAT PLAIN ENCODE JSON;
"""


def test_E6_a_sink_goes_on_with_another_query_of_its_own(workbench: Workbench) -> None:
    workbench.assets(t=TABLE, s=QUERY.format(what=COUNT))
    session = workbench.session()
    inserted(session, 1, 2, 3)
    session.run()
    workbench.assets(t=TABLE, s=QUERY.format(what=SUM))
    session = workbench.session()
    assert {name: effect for name, (effect, _) in effects(session).items()} == {
        "t": "unchanged",
        "s$rows": "new version",
        "s": "in place",
    }
    inserted(session, 4)
    session.confirm = lambda text: True
    apply(session, ["s"])
    assert simple(delivered(workbench.root / "s")) == expected(range(1, 3), COUNT) + expected(
        range(3, 4), SUM
    )
    assert effects(session)["s"] == ("unchanged", "")


ICEBERG = "CREATE SINK {name} FROM v WITH (connector = 'iceberg', {more});\n"


@pytest.mark.long_run
@pytest.mark.runner("spark", only=True)
def test_E6_the_table_of_a_sink_has_the_new_version_and_its_columns_in_one_commit(
    workbench: Workbench,
) -> None:
    sinks = [
        ICEBERG.format(name=name, more=more)
        for name, more in (
            ("up", "amendments = 'upsert'"),
            ("again", "on_change = 'replay'"),
            ("on", "on_change = 'from_frontier'"),
        )
    ]
    session = opened(workbench, COUNT, *sinks)
    inserted(session, 1, 2, 3)
    session.run()
    inserted(session, 4)
    session.run(["v"])
    wider = "sum(n) AS m, " + COUNT
    session = change(workbench, wider, *sinks)
    session.run()
    ends = [(m, k) for m in range(1, 4) for k in "ab"]

    def shown(name: str) -> list[tuple[Any, ...]]:
        rows = session.spark.table(f"tidegate.main.{name}").collect()
        return sorted((row["window_end"].minute - 1, row["k"], row["x"], row["m"]) for row in rows)

    count, total = ({(m, k): x for m, k, x in expected(range(1, 4), what)} for what in (COUNT, SUM))
    assert shown("up") == shown("again") == [(*key, count[key], total[key]) for key in ends]
    assert shown("on") == [(*key, count[key], None) for key in ends]
    session.run()
    inserted(session, 5)
    session.run()
    assert shown("on")[6:] == [(4, "a", 1, 4), (4, "b", 2, 8)]
    assert shown("up")[6:] == shown("again")[6:] == shown("on")[6:]
    # In the table that was changed by differences, what is the same has stayed where it was.
    session = change(
        workbench, wider.replace("sum(n)", "CASE WHEN max(n) = 2 THEN 0 ELSE sum(n) END"), *sinks
    )
    session.run()
    summary = session.spark.sql(
        "SELECT summary FROM tidegate.main.up.snapshots WHERE operation = 'overwrite' ORDER BY committed_at DESC"
    ).first()
    assert summary is not None
    assert [row[3] for row in shown("up")] == [1, 2, 0, 0, 3, 6, 4, 8]
    # A type that can't hold it is refused before anything of it is delivered, and the plan says so.
    session = opened(workbench, wider.replace(COUNT, "max(k)"), *sinks)
    told = effects(session)
    assert [told[name][0] for name in ("v", "up", "again", "on")] == ["new version", *["refused"] * 3]
    assert "column x is bigint there, and string in the new version" in told["up"][1]


@pytest.mark.long_run
@pytest.mark.runner("spark", only=True)
def test_E6_a_real_topic_gets_the_differences(workbench: Workbench, kafka: RealBroker) -> None:
    topic = kafka.topic("versions")
    sink = MESSAGES.format(name="up", topic=topic, servers=kafka.bootstrap, more=UPSERT)
    session = opened(workbench, COUNT, sink)
    inserted(session, 1, 2, 3)
    session.run()
    workbench.assets(v=FEWER)
    session = workbench.session()
    rebuild(session)
    assert delivery(session, "up").rows == 3
    assert delivery(session, "up").rows == 0
    found = [
        (message.key[0][3:], message.key[1], message.value and message.value["x"])
        for message in sent(kafka, topic)
    ]
    before = [("02", "a", 1), ("02", "b", 2), ("03", "a", 1), ("03", "b", 2)]
    assert sorted(found, key=str) == sorted(
        [*before, ("02", "b", None), ("03", "a", 2), ("03", "b", 4)], key=str
    )
    newest = {(minute, k): x for minute, k, x in found}
    assert newest == {("02", "a"): 1, ("02", "b"): None, ("03", "a"): 2, ("03", "b"): 4}


def test_E8_the_position_of_a_later_release_is_neither_read_nor_changed(workbench: Workbench) -> None:
    workbench.assets(a=TABLE + VIEW.format(what="sum(n)") + FILES.format(name="out", more=""))
    session = workbench.session()
    session.execute("INSERT INTO t VALUES ('a', 1, '2026-01-01 00:00:01'), ('a', 2, '2026-01-01 00:05:00')")
    session.run()
    file = workbench.root / "out" / "_tidegate" / "position.json"
    position = json.loads(file.read_text())
    assert position[STORAGE_VERSION] == str(NEWEST)
    later = json.dumps(position | {STORAGE_VERSION: str(NEWEST + 1)})
    file.write_text(later)
    session.execute("INSERT INTO t VALUES ('a', 3, '2026-01-01 00:09:00')")
    for ask in (lambda: session.run(fail_fast=True), lambda: read_status(session.project, ["out"])):
        with pytest.raises(TidegateError) as refused:
            ask()
        assert refused.value.code == "TG622"
    assert file.read_text() == later
    # One of an earlier release says nothing, and gets the version with its next delivery.
    file.write_text(json.dumps({key: value for key, value in position.items() if key != STORAGE_VERSION}))
    session.run()
    assert json.loads(file.read_text())[STORAGE_VERSION] == str(NEWEST)
    assert len(delivered(workbench.root / "out")) == 2
