"""The project that `make chaos` and `make soak` run, and what the oracle has to know of it."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from tests.chaos.load import DELAY_SECONDS
from tests.chaos.replay import Rules
from tests.oracles.oracle import View
from tidegate.testing.runner import QUICK

#: What the first group's objects are called; those of the others have its number behind (`named`).
SOURCE, SORTED, SINK = "events", "in_order", "delivered"
_SQL = f"""\
CREATE SOURCE {SOURCE}{{n}} (id BIGINT, sensor VARCHAR, amount BIGINT, ts TIMESTAMP,
    WATERMARK FOR ts AS ts - INTERVAL '{DELAY_SECONDS} seconds')
WITH (connector = 'kafka', topic = '{{topic}}', properties.bootstrap.server = '{{bootstrap}}',
    scan.startup.mode = 'earliest', max_rows_per_batch = '100000', idle_timeout = '{{idle}} seconds')
FORMAT PLAIN ENCODE JSON;

CREATE MATERIALIZED VIEW per_minute{{n}} AS
SELECT window_start, window_end, sensor, count(*) AS n, sum(amount) AS total, min(amount) AS low, max(amount) AS high
FROM TUMBLE({SOURCE}{{n}}, ts, INTERVAL '1 minute') GROUP BY window_start, window_end, sensor EMIT ON WINDOW CLOSE;

CREATE MATERIALIZED VIEW rolling{{n}} AS
SELECT window_start, window_end, count(*) AS n, sum(id) AS ids, count(amount) AS known
FROM HOP({SOURCE}{{n}}, ts, INTERVAL '20 seconds', INTERVAL '1 minute') GROUP BY window_start, window_end
EMIT ON WINDOW CLOSE;

CREATE MATERIALIZED VIEW {SORTED}{{n}} AS SELECT ts, id, sensor, amount FROM {SOURCE}{{n}} EMIT ON WINDOW CLOSE;
"""
_SINK = f"""
CREATE SINK {SINK}{{n}} FROM {SORTED}{{n}}
WITH (connector = 'kafka', topic = '{{topic}}', properties.bootstrap.server = '{{target}}', key.columns = 'sensor',
    key.encode = 'text') FORMAT PLAIN ENCODE JSON;
"""
_MINUTE = 60_000_000
VIEWS = (
    View(
        "per_minute",
        _MINUTE,
        keys=("sensor",),
        aggregates={
            "n": ("count", None),
            "total": ("sum", "amount"),
            "low": ("min", "amount"),
            "high": ("max", "amount"),
        },
    ),
    View(
        "rolling",
        _MINUTE,
        slide=_MINUTE // 3,
        aggregates={"n": ("count", None), "ids": ("sum", "id"), "known": ("count", "amount")},
    ),
)
#: The columns of the sorted view behind its time.
SORTED_COLUMNS = ("id", "sensor", "amount")


def named(base: str, number: int) -> str:
    """What an object of a group is called."""
    return base if number == 1 else f"{base}_{number}"


@dataclass(frozen=True)
class ChaosGroup:
    """A source over a topic, its three views, and perhaps a sink: a group of live mode. `number`: from 1; `bootstrap`:
    of the broker that has the topic; `target`: of the broker that the sink delivers to, None: there is no sink."""

    number: int
    bootstrap: str
    topic: str
    target: str | None = None

    @property
    def source(self) -> str:
        """Its source's name, and thereby its own."""
        return named(SOURCE, self.number)

    @property
    def sink(self) -> str:
        return named(SINK, self.number)

    @property
    def sink_topic(self) -> str:
        return f"{self.topic}_{SINK}"

    def needs(self, bootstrap: str) -> bool:
        """Whether it can't do all of its work without this broker."""
        return bootstrap in (self.bootstrap, self.target)

    def sql(self, idle_seconds: int) -> str:
        n = named("", self.number)
        text = _SQL.format(n=n, topic=self.topic, bootstrap=self.bootstrap, idle=idle_seconds)
        return text + (_SINK.format(n=n, topic=self.sink_topic, target=self.target) if self.target else "")


def make_groups(count: int, near: str, far: str) -> list[ChaosGroup]:
    """So many groups, all with a topic of the broker `near`, but the last one of three or more: its topic is of the
    broker `far`. The second one's sink delivers there. So the first one needs `near` alone."""
    return [
        ChaosGroup(n, far if n == count > 2 else near, named("chaos", n), far if n == 2 else None)
        for n in range(1, count + 1)
    ]


def write_project(root: Path, groups: Iterable[ChaosGroup], idle_seconds: int, small: bool = False) -> None:
    """`assets/` and `resources/` of a project with these groups; `small`: with a Spark for few rows."""
    (root / "assets").mkdir(parents=True)
    (root / "resources").mkdir()
    for group in groups:
        (root / "assets" / f"{group.source}.sql").write_text(group.sql(idle_seconds))
    conf = {"spark.driver.memory": "2g"} | (QUICK if small else {})
    settings = {"spark": {"master": "local[2]", "conf": conf}, "warehouse": {"path": ".tidegate/warehouse"}}
    (root / "resources" / "local.yaml").write_text(json.dumps(settings))


def rules(idle_seconds: int) -> Rules:
    """What the oracle is told of each group."""
    return Rules(DELAY_SECONDS * 1_000_000, idle_seconds * 1000, views=VIEWS)
