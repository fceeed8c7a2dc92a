"""Causes made for real: a broker, a killed process, a skewed producer, real commits. The sensor names each of them,
and the alert arrives at a webhook."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import dagster as dg
import pytest

from tests.alerts.webhook import Webhook, webhook
from tests.conftest import Workbench
from tests.ingest.topics import advance
from tests.support.kafka import Broker
from tidegate.dagster import load_definitions
from tidegate.ingest.stream import SourceFeed
from tidegate.session.run import connect
from tidegate.session.session import Session

pytestmark = pytest.mark.spark

SQL = """
CREATE SOURCE s (id INT, ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL '5 seconds')
WITH (connector = 'kafka', topic = '{s}', properties.bootstrap.server = '{servers}', idle_timeout = '1 hour')
FORMAT PLAIN ENCODE JSON;
CREATE MATERIALIZED VIEW v AS SELECT window_start, window_end, count(*) AS n
FROM TUMBLE(s, ts, INTERVAL '1 second') GROUP BY window_start, window_end EMIT ON WINDOW CLOSE;
CREATE SOURCE nulls (id INT, ts TIMESTAMP, WATERMARK FOR ts AS CASE WHEN id < 100 THEN ts END)
WITH (connector = 'kafka', topic = '{nulls}', properties.bootstrap.server = '{servers}')
FORMAT PLAIN ENCODE JSON;
"""
JOBS = """
stalls:
  - {{asset: "*", silent: 2 seconds, all_late: 1 second, strategy_null: 1 second, at_least_rows: 3,
      view_behind: 1 second, backlog_for: 5 seconds, backlog_rows: 50, clock_skew: 1 minute,
      not_running: {not_running}}}
alerts:
  targets: [{{name: hook, url: "json://127.0.0.1:${{STALL_PORT}}/"}}]
  routes: [{{to: [hook], settle: 1 second}}]
"""
HOLDER = """
import pathlib, sys, time
from tidegate.runtime.lease import lease
with lease(pathlib.Path(sys.argv[1]), "s"):
    print("held", flush=True)
    time.sleep(600)
"""
GOOD, SILENT, LATE, FUTURE, SKEWED = range(5)
ROUNDS = 4


@pytest.fixture
def hook(monkeypatch: pytest.MonkeyPatch) -> Iterator[Webhook]:
    with webhook() as found:
        monkeypatch.setenv("STALL_PORT", str(found.port))
        yield found


class Ticks:
    """The sensor, tick by tick, with its cursor."""

    def __init__(self, root: Any) -> None:
        self.root, self.cursor = root, None
        [self.sensor] = [s for s in load_definitions(root).sensors if s.name == "tidegate_watermark_stall"]

    def tick(self) -> dict[str, dg.AssetCheckEvaluation]:
        """One evaluation: what it recorded, by asset."""
        with dg.DagsterInstance.ephemeral() as instance:
            result = self.sensor(dg.build_sensor_context(instance=instance, cursor=self.cursor))
        assert isinstance(result, dg.SensorResult)
        self.cursor = result.cursor
        return {e.asset_key.to_user_string(): e for e in result.asset_events}

    def after_a_second(self, name: str) -> dict[tuple[str, str], dict[str, Any]]:
        """What holds of an asset after two ticks that are further apart than the limits: the causes."""
        first = self.tick()
        time.sleep(1.1)
        return causes((first | self.tick())[name])


def causes(event: dg.AssetCheckEvaluation) -> dict[tuple[str, str], dict[str, Any]]:
    table = event.metadata.get("causes")
    return {(r.data["cause"], r.data["partition"]): r.data for r in table.records} if table else {}


def row(id_: int, at: datetime) -> str:
    return json.dumps({"id": id_, "ts": at.strftime("%Y-%m-%d %H:%M:%S.%f")})


def advance_nulls(session: Session) -> None:
    """As `advance`, for the other source."""
    relation = session.relation("nulls")
    log = session.log(relation)
    connector = connect(session, log)
    assert connector is not None
    connector.pending()
    feed = SourceFeed(session.project.storage, log, connector, session.work_folder("nulls"), session.clock)
    while feed.advance(lambda event: None):
        pass
    connector.close()


def send_what_goes_wrong(kafka: Broker, session: Session, topic: str, nulls: str) -> None:
    """One partition falls silent, one is late, one has a time far ahead, the clock of one's producer is wrong; and an
    expression that gives a watermark once, and then none."""
    for turn in range(ROUNDS):
        now, hour = datetime.now(UTC), timedelta(hours=1)
        good = [(GOOD, now), (SKEWED, now + hour)]
        rows = [*good, (SILENT, now), (LATE, now), (FUTURE, now), (FUTURE, now + 3 * hour)]
        if turn:
            rows = [*good, *[(LATE, now - hour)] * 2, (FUTURE, now)]
        kafka.send(topic, [(p, None, row(turn, at), None) for p, at in rows])
        advance(session, now)
        if turn in (0, ROUNDS - 1):
            kafka.send(nulls, [(0, None, row(1 if not turn else 100 + i, now), None) for i in range(5)])
            advance_nulls(session)
        time.sleep(max(0.0, 0.7 - (datetime.now(UTC) - now).total_seconds()))


def all_are_named(events: Any, hook: Webhook) -> None:
    """Every cause in the checks of its asset, and all of them in one message."""
    found = causes(events["s"])
    assert set(found) == {
        ("silent_partition", str(SILENT)),
        ("all_late", str(LATE)),
        ("future_timestamp", str(FUTURE)),
        ("producer_skew", str(SKEWED)),
    }
    assert (events["s"].passed, events["s"].severity) == (False, dg.AssetCheckSeverity.ERROR)
    # Which offset: the row behind it came first.
    assert "a row at offset 1 of" in found["future_timestamp", str(FUTURE)]["what"]
    assert f"{ROUNDS - 1} rows since" in found["future_timestamp", str(FUTURE)]["what"]
    assert (
        "1 hour ahead of the clock; the timestamps of its messages are not"
        in found["producer_skew", str(SKEWED)]["what"]
    )
    assert f"all {2 * (ROUNDS - 1)} rows" in found["all_late", str(LATE)]["what"]
    assert found["silent_partition", str(SILENT)]["waits"].startswith("v: window_end 20")
    [null] = causes(events["nulls"]).values()
    assert (null["cause"], "CASE WHEN id < 100" in null["what"]) == ("strategy_null", True)
    [behind] = causes(events["v"]).values()
    assert (behind["cause"], "never computed" in behind["what"]) == ("view_behind", True)
    assert behind["waits"].startswith("v: window_end ")
    [message] = hook.got
    assert (message["type"], message["title"].split(": ", 1)[1]) == ("failure", "6 problems: s, nulls, v")
    told = {
        line.split()[1].rstrip(":")
        for line in message["message"].splitlines()
        if line.split()[:1] in (["ERROR"], ["WARNING"])
    }
    assert told == {
        "future_timestamp",
        "all_late",
        "silent_partition",
        "producer_skew",
        "strategy_null",
        "view_behind",
    }


def test_every_cause_is_named_and_its_alert_arrives(
    workbench: Workbench, kafka: Broker, hook: Webhook
) -> None:
    topic, nulls = kafka.topic(partitions=5), kafka.topic(partitions=1)
    workbench.allow(alerts=["STALL_PORT"]).assets(
        all=SQL.format(s=topic, nulls=nulls, servers=kafka.bootstrap)
    )
    jobs = workbench.root / "jobs" / "jobs.yaml"
    jobs.parent.mkdir()
    jobs.write_text(JOBS.format(not_running="1 hour"))
    session, ticks = workbench.session(), Ticks(workbench.root)

    send_what_goes_wrong(kafka, session, topic, nulls)

    events = ticks.tick()
    all_are_named(events, hook)
    # The same again is no news.
    assert (ticks.tick(), len(hook.got)) == ({}, 1)

    # More arrives than is read.
    sent, until = 0, time.monotonic() + 60
    while "s" not in (grown := ticks.tick()) and time.monotonic() < until:
        now = datetime.now(UTC)
        sent += kafka.send(topic, [(GOOD, None, row(1, now), None) for _ in range(40)])
        time.sleep(0.5)
    assert ("backlog_growing", "") in causes(grown["s"])
    [told] = [m["message"] for m in hook.got[1:]]
    assert f"{sent:,} rows wait, {sent:,} of them in partition {GOOD}; " in told

    # A process holds it, and does nothing; then it is killed.
    locks = workbench.root / ".tidegate" / "locks" / "main"
    holder = subprocess.Popen([sys.executable, "-c", HOLDER, str(locks)], stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    jobs.write_text(JOBS.format(not_running="1 second"))
    assert set(ticks.after_a_second("s")) == {("stuck", "")}
    os.kill(holder.pid, signal.SIGKILL)
    holder.wait(20)
    stopped = ticks.after_a_second("s")
    assert set(stopped) == {("not_running", "")}
    assert f"process {holder.pid} on " in stopped["not_running", ""]["what"]
    assert f"{sent:,} rows wait at the broker" in stopped["not_running", ""]["what"]
    assert any("ERROR not_running: s: not running" in m["message"] for m in hook.got)

    # Somebody starts it again: it is over, and that is told, too.
    with session.lease("s"):
        advance(session, datetime.now(UTC))
    ticks.after_a_second("s")
    assert any("OVER not_running: s, from" in m["message"] for m in hook.got)
