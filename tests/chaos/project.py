"""The project that `make chaos` and `make soak` run, and what the oracle has to know of it."""

from __future__ import annotations

import json
from pathlib import Path

from tests.chaos.load import DELAY_SECONDS
from tests.chaos.replay import Rules
from tests.oracles.oracle import View
from tidegate.testing.runner import QUICK

SOURCE, SORTED = "events", "in_order"
_SQL = f"""\
CREATE SOURCE {SOURCE} (id BIGINT, sensor VARCHAR, amount BIGINT, ts TIMESTAMP,
    WATERMARK FOR ts AS ts - INTERVAL '{DELAY_SECONDS} seconds')
WITH (connector = 'kafka', topic = '{{topic}}', properties.bootstrap.server = '{{bootstrap}}',
    scan.startup.mode = 'earliest', max_rows_per_batch = '{{batch}}', idle_timeout = '{{idle}} seconds')
FORMAT PLAIN ENCODE JSON;

CREATE MATERIALIZED VIEW per_minute AS
SELECT window_start, window_end, sensor, count(*) AS n, sum(amount) AS total, min(amount) AS low, max(amount) AS high
FROM TUMBLE({SOURCE}, ts, INTERVAL '1 minute') GROUP BY window_start, window_end, sensor EMIT ON WINDOW CLOSE;

CREATE MATERIALIZED VIEW rolling AS
SELECT window_start, window_end, count(*) AS n, sum(id) AS ids, count(amount) AS known
FROM HOP({SOURCE}, ts, INTERVAL '20 seconds', INTERVAL '1 minute') GROUP BY window_start, window_end
EMIT ON WINDOW CLOSE;
"""
_IN_ORDER = f"""
CREATE MATERIALIZED VIEW {SORTED} AS SELECT ts, id, sensor, amount FROM {SOURCE} EMIT ON WINDOW CLOSE;
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


def write_project(
    root: Path,
    bootstrap: str,
    topic: str,
    idle_seconds: int,
    batch: int = 100_000,
    in_order: bool = True,
    small: bool = False,
) -> None:
    """`assets/` and `resources/` of a project that reads the topic; `in_order`: with the sorted view; `small`: with a
    Spark for few rows."""
    (root / "assets").mkdir(parents=True)
    (root / "resources").mkdir()
    text = _SQL.format(topic=topic, bootstrap=bootstrap, batch=batch, idle=idle_seconds)
    (root / "assets" / "events.sql").write_text(text + (_IN_ORDER if in_order else ""))
    conf = {"spark.driver.memory": "2g"} | (QUICK if small else {})
    settings = {"spark": {"master": "local[2]", "conf": conf}, "warehouse": {"path": ".tidegate/warehouse"}}
    (root / "resources" / "local.yaml").write_text(json.dumps(settings))


def rules(idle_seconds: int) -> Rules:
    """What the oracle is told of the project."""
    return Rules(DELAY_SECONDS * 1_000_000, idle_seconds * 1000, views=VIEWS)
