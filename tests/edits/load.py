"""The rows that arrive while a project is edited, and the project itself."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path
from random import Random
from typing import Any

from tests.oracles.oracle import Row
from tests.simulate.scripts.changes import Definition, fields
from tests.simulate.scripts.pipelines import DELAY, written
from tests.simulate.scripts.views import VIEWS
from tidegate.testing.runner import QUICK

SOURCE, PARTITIONS = "events", 2
_SQL = """\
CREATE SOURCE {source} (id INT, k VARCHAR, v INT, {columns}ts TIMESTAMP,
    WATERMARK FOR ts AS ts - INTERVAL '{delay} seconds')
WITH (connector = 'kafka', topic = '{topic}', properties.bootstrap.server = '{bootstrap}',
    scan.startup.mode = 'earliest', max_rows_per_batch = '200')
FORMAT PLAIN ENCODE JSON;
"""
#: Rows a second, and seconds of event time from one to the next.
_RATE, _STEP = 40.0, 1
#: Event time of the last row of each partition, in seconds behind the others: it closes all windows but its own.
_FAR = 10_000


def write_project(root: Path) -> None:
    """All but its definitions."""
    (root / "assets").mkdir(parents=True)
    (root / "resources").mkdir()
    conf = {"spark.driver.memory": "1500m"} | QUICK
    # (In a catalog that is a folder, a new version is not swapped while live mode runs.)
    catalog = {"type": "jdbc", "uri": "jdbc:sqlite:.tidegate/warehouse/catalog.db"}
    warehouse = {"path": ".tidegate/warehouse", "catalog": catalog}
    settings = {"spark": {"master": "local[2]", "conf": conf}, "warehouse": warehouse}
    (root / "resources" / "local.yaml").write_text(json.dumps(settings))


def write_definitions(
    root: Path, topic: str, bootstrap: str, definition: Definition, queries: dict[str, str]
) -> None:
    """`queries`: by the names of views, whose query each has. The file is the old one or the new one for who reads."""
    text = _SQL.format(source=SOURCE, columns=definition.sql(), delay=DELAY, topic=topic, bootstrap=bootstrap)
    for name, query in queries.items():
        text += f"CREATE MATERIALIZED VIEW {name} AS {VIEWS[query].sql} EMIT ON WINDOW CLOSE;\n"
    new = root / "all.sql"
    new.write_text(text)
    new.replace(root / "assets" / "all.sql")


def message(number: int, rng: Random, at: int) -> dict[str, Any]:
    """A row as the topic has it."""
    value = None if rng.random() < 0.1 else rng.randint(-3, 9)
    return {"id": number, "k": rng.choice("xy"), "v": value, "ts": written(at)} | fields(number)


def offered(row: Row) -> int | None:
    """The watermark that a row offers, in seconds."""
    return None if row.event_time is None else row.event_time - DELAY


class Load:
    """Rows, at a steady rate, from a thread of its own."""

    def __init__(self, bootstrap: str, topic: str, seed: int) -> None:
        from kafka import KafkaProducer

        self._producer = KafkaProducer(bootstrap_servers=bootstrap, acks="all", enable_idempotence=True)
        self._topic, self._rng = topic, Random(seed)
        self._now = self.sent = 0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def end(self) -> None:
        """With rows that close everything."""
        self._ended.set()
        self._thread.join()
        for partition in range(PARTITIONS):
            self._send(self._now + _FAR, partition)
        self._producer.flush()
        self._producer.close()

    def _run(self) -> None:
        began = time.monotonic()
        while not self._ended.is_set():
            self._now += _STEP
            lag = self._rng.choice([0, 0, 0, 5, 20, 21, 60])
            self._send(max(self._now - lag, 0), self._rng.randrange(PARTITIONS))
            time.sleep(max(0.0, self.sent / _RATE - (time.monotonic() - began)))

    def _send(self, at: int, partition: int) -> None:
        self.sent += 1
        value = json.dumps(message(self.sent, self._rng, at)).encode()
        self._producer.send(self._topic, value, partition=partition)
