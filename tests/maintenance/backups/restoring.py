"""A project whose sources get rows all the time, what becomes of these rows, and what is stored of them."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

from tests.oracles.oracle import Oracle, Row, View
from tidegate.project import Project
from tidegate.store.metadata import load_table
from tidegate.testing.runner import QUICK

if TYPE_CHECKING:
    from tests.support.kafka import Broker

NOON = 1_767_268_800  # 2026-01-01 12:00:00 UTC
SOURCES = ("clicks", "orders")
_SOURCE = """CREATE SOURCE {name} (id INT, k VARCHAR, ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL '5 seconds')
WITH ({connector}) FORMAT PLAIN ENCODE JSON;
CREATE MATERIALIZED VIEW {name}_minutes AS
SELECT window_end, k, count(*) AS n, sum(id) AS ids FROM TUMBLE({name}, ts, INTERVAL '1 minute')
GROUP BY window_end, k EMIT ON WINDOW CLOSE;
CREATE MATERIALIZED VIEW {name}_sorted AS SELECT ts, id, k FROM {name} EMIT ON WINDOW CLOSE;
"""
_SINKS = """CREATE SINK exported FROM clicks_minutes
WITH (connector = 'filesystem', path = 'out/exported') FORMAT PLAIN ENCODE JSON;
CREATE SINK logged FROM orders WITH (connector = 'filesystem', path = 'out/logged') FORMAT PLAIN ENCODE JSON;
CREATE SINK kept FROM orders_minutes WITH (connector = 'iceberg', table = 'kept');
"""


def write_project(root: Path, bootstrap: str, topic: str) -> None:
    """With the catalog that new projects have."""
    kafka = f"connector = 'kafka', topic = '{topic}', properties.bootstrap.server = '{bootstrap}'"
    kafka += ", scan.startup.mode = 'earliest', max_rows_per_batch = '40'"
    files = "connector = 'filesystem', path = 'in'"
    for name in ("assets", "resources", "in"):
        (root / name).mkdir(parents=True)
    texts = [_SOURCE.format(name=n, connector=c) for n, c in zip(SOURCES, (files, kafka), strict=True)]
    (root / "assets" / "all.sql").write_text("".join(texts) + _SINKS)
    catalog = {"type": "jdbc", "uri": "jdbc:sqlite:.tidegate/warehouse/catalog.db"}
    settings = {"spark": {"master": "local[2]", "conf": QUICK}, "warehouse": {"catalog": catalog}}
    (root / "resources" / "local.yaml").write_text(json.dumps(settings))


def at(seconds: int) -> str:
    return datetime.fromtimestamp(NOON + seconds, UTC).strftime("%Y-%m-%d %H:%M:%S")


@dataclass
class Arrivals:
    """Rows that arrive in the files of one source and in the topic of the other until `stop`; some of them are late.
    `sent`: by source, (id, key, seconds of event time) in their order."""

    root: Path
    broker: Broker
    topic: str
    sent: dict[str, list[tuple[int, str, int]]] = field(
        default_factory=lambda: {name: [] for name in SOURCES}
    )

    def __post_init__(self) -> None:
        self._rng, self._ended = Random(7), threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        now = 0
        while not self._ended.wait(0.3):
            now += 20
            self._send([now - self._rng.choice([0, 0, 1, 4, 9, 30, 70]) for _ in range(8)])

    def stop(self) -> None:
        self._ended.set()
        self._thread.join(30)

    def last(self) -> None:
        """Rows that close all windows but their own."""
        self._send([1_000_000])

    def _send(self, times: list[int]) -> None:
        for name in SOURCES:
            first = len(self.sent[name])
            rows = [(first + n, self._rng.choice("ab"), max(time, 0)) for n, time in enumerate(times)]
            texts = [json.dumps({"id": i, "k": k, "ts": at(time)}) for i, k, time in rows]
            if name == "orders":
                self.broker.send(self.topic, [(0, None, text, None) for text in texts])
            else:
                hidden = self.root / "in" / f".{first:08}"
                hidden.write_text("".join(f"{text}\n" for text in texts))
                hidden.rename(self.root / "in" / f"{first:08}.json")
            self.sent[name] += rows


def expected(rows: list[tuple[int, str, int]]) -> tuple[dict[int, str], Counter[Any], Counter[Any]]:
    """What the oracle makes of the rows of one source: outcomes by id, the final windows, the final sorted rows."""
    view = View("v", 60, keys=("k",), aggregates={"n": ("count", None), "ids": ("sum", "id")})
    oracle = Oracle(lambda row: None if row.event_time is None else row.event_time - 5, [view])
    oracle.enumerate(["0"])
    for number, key, time_ in rows:
        oracle.read(Row("0", number, time_, payload={"id": number, "k": key}))
    mark = oracle.flush()
    outcomes = {one.row.offset: one.outcome for one in oracle.decisions}
    windows = Counter((g["window_end"], g["k"], g["n"], g["ids"]) for g in oracle.shows("v"))
    assert mark is not None
    final = Counter((time_, i, k) for i, k, time_ in rows if outcomes[i] == "on_time" and time_ < mark)
    return outcomes, windows, final


def stored(root: Path, table: str, *columns: str, where: str | None = None) -> Counter[tuple[Any, ...]]:
    """Rows of a table, without a JVM, each as often as it is there; times in seconds as above."""
    from pyiceberg.table import StaticTable

    storage = Project.load(root).storage
    found = load_table(storage, table)
    assert found is not None
    static = StaticTable.from_metadata(found.metadata_location, storage.pyiceberg_properties())
    scan = (
        static.scan(selected_fields=columns) if where is None else static.scan(where, selected_fields=columns)
    )
    rows = scan.to_arrow().to_pylist()
    return Counter(tuple(_plain(row[name]) for name in columns) for row in rows)


def delivered(folder: Path, *columns: str) -> Counter[tuple[Any, ...]]:
    """Rows in the files of a sink."""
    files = sorted(path for path in folder.iterdir() if path.is_file())
    rows = [json.loads(line) for path in files for line in path.read_text().splitlines()]
    return Counter(tuple(_plain(row[name]) for name in columns) for row in rows)


def _plain(value: Any) -> Any:
    if isinstance(value, str) and value[:2] == "20":
        value = datetime.fromisoformat(value)
    return int(value.replace(tzinfo=UTC).timestamp()) - NOON if isinstance(value, datetime) else value


def commits(root: Path, table: str) -> int:
    """How often rows were committed to a log; 0 before."""
    found = load_table(Project.load(root).storage, table)
    return (found.integer("tidegate.epoch") or 0) if found is not None else 0


def wait(what: Callable[[], bool], tail: Callable[[], str], seconds: float = 240.0) -> None:
    deadline = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < deadline, tail()
        time.sleep(0.5)
