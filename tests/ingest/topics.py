"""A project that reads a Kafka topic: its rows, its batches, and what was judged of them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.conftest import Workbench
from tests.support.brokers import AnyBroker
from tidegate.ingest.stream import SourceFeed
from tidegate.session.run import connect
from tidegate.session.session import Session

SOURCE = (
    "CREATE SOURCE s (id INT, ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL '5 seconds') WITH (connector = 'kafka', "
    "topic = '{topic}', properties.bootstrap.server = '{servers}'{options}) FORMAT PLAIN ENCODE JSON;"
)

VIEW = (
    "CREATE MATERIALIZED VIEW v AS SELECT window_start, count(*) AS n, sum(id) AS ids "
    "FROM TUMBLE(s, ts, INTERVAL '10 seconds') GROUP BY window_start EMIT ON WINDOW CLOSE;"
)

#: Wall clock of the tests.
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def at(seconds: float) -> str:
    """An event time."""
    return (datetime(2026, 1, 1) + timedelta(seconds=seconds)).isoformat(sep=" ")


def row(id_: int, seconds: float) -> str:
    return json.dumps({"id": id_, "ts": at(seconds)})


def send(broker: AnyBroker, topic: str, rows: Iterable[tuple[int, Any]]) -> None:
    """(partition, value) in this order."""
    broker.send(topic, [(partition, None, value, None) for partition, value in rows])


def project(workbench: Workbench, broker: AnyBroker, topic: str, sql: str = VIEW, **options: str) -> Session:
    given = "".join(f", {name.replace('__', '.')} = '{value}'" for name, value in options.items())
    workbench.assets(s=SOURCE.format(topic=topic, servers=broker.bootstrap, options=given), v=sql)
    return workbench.session()


def advance(session: Session, clock: datetime, max_rows: int | None = None) -> int:
    """What a tick of the source does at this wall clock, until nothing waits; how many batches that were."""
    relation = session.relation("s")
    log = session.log(relation)
    connector = connect(session, log, max_rows)
    assert connector is not None
    connector.pending()
    feed = SourceFeed(session.project.storage, log, connector, session.work_folder("s"), lambda: clock)
    batches: list[Any] = []
    while feed.advance(batches.append):
        pass
    connector.close()
    return len(batches)


def judged(session: Session) -> list[tuple[str, int, str]]:
    rows = session.table("s$raw").orderBy("partition", "offset").collect()
    return [(r["partition"], r["offset"], r["outcome"]) for r in rows]


def newest(session: Session) -> dict[str | None, tuple[str, str | None]]:
    """Of each partition (None: the source) the state and watermark (seconds of the day) of the newest commit."""
    history = session.table("s$watermarks").orderBy("epoch").collect()
    midnight = datetime(2026, 1, 1)
    return {
        r["partition"]: (r["state"], r["watermark"] and (r["watermark"] - midnight).total_seconds())
        for r in history
    }
