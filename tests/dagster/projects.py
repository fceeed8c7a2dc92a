"""A small project for Dagster's tests: JSON lines of two shops, a table, and two views."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

ORDERS = """\
-- Orders of two shops.
-- One folder per shop.
CREATE SOURCE orders (
  id BIGINT NOT NULL,
  amount DECIMAL,
  ordered_at TIMESTAMP,
  day DATE AS CAST(ordered_at AS DATE),
  WATERMARK FOR ordered_at AS ordered_at - INTERVAL '10 minutes'
) WITH (connector = 'filesystem', path = 'data/orders') FORMAT PLAIN ENCODE JSON;

-- Final when the hour is over.
CREATE MATERIALIZED VIEW orders_hourly AS
SELECT window_start, window_end, count(*) AS orders, sum(amount) AS revenue
FROM TUMBLE(orders, ordered_at, INTERVAL '1 hour')
GROUP BY window_start, window_end
EMIT ON WINDOW CLOSE;
"""

NOTES = """\
CREATE TABLE notes (
  at TIMESTAMPTZ,
  text VARCHAR,
  WATERMARK FOR at AS at
) APPEND ONLY;

CREATE MATERIALIZED VIEW notes_daily AS
SELECT window_start, window_end, count(*) AS notes
FROM TUMBLE(notes, at, INTERVAL '1 day')
GROUP BY window_start, window_end;
"""

JOINED = """\
CREATE TABLE returns (at TIMESTAMP, WATERMARK FOR at AS at) APPEND ONLY;

CREATE MATERIALIZED VIEW together AS
SELECT ordered_at AS at FROM orders UNION ALL SELECT at FROM returns EMIT ON WINDOW CLOSE;

CREATE MATERIALIZED VIEW together_daily AS
SELECT window_start, count(*) AS n FROM TUMBLE(together, at, INTERVAL '1 day') GROUP BY window_start;
"""

EXPORTED = """\
-- For the accountants.
CREATE SINK exported FROM orders_hourly
WITH (connector = 'filesystem', path = 'out') FORMAT PLAIN ENCODE JSON;
"""
SINKS = f"""{EXPORTED}
CREATE SINK large AS SELECT ordered_at, amount FROM orders WHERE amount > 1 EMIT ON WINDOW CLOSE
WITH (connector = 'iceberg', table = 'exported.large');

CREATE SINK shown FROM orders WITH (connector = 'console', rows = 1, snapshot = 'false');
"""

# berlin reaches 11:30, paris only 10:40: the published watermark is 10:30, and one hour is closed.
BERLIN = ["09:05", "09:20", "10:15", "09:50", "11:30"]
PARIS = ["09:10", "10:40"]


def write_project(root: Path, jobs: str | None = None) -> Path:
    """The project's files below `root`; berlin's 09:50 is late (10:05 had been promised)."""
    (root / "assets").mkdir(parents=True)
    (root / "assets" / "orders.sql").write_text(ORDERS, encoding="utf-8")
    (root / "assets" / "notes.sql").write_text(NOTES, encoding="utf-8")
    write_orders(root, "berlin", BERLIN)
    write_orders(root, "paris", PARIS)
    if jobs is not None:
        (root / "jobs").mkdir()
        (root / "jobs" / "jobs.yaml").write_text(jobs, encoding="utf-8")
    return root


def write_orders(root: Path, shop: str, times: list[str], file: str = "1.json") -> None:
    """One file of orders of 2026-03-01 at these times of day."""
    rows: list[dict[str, Any]] = [
        {"id": i, "amount": 2.5, "ordered_at": f"2026-03-01 {time}:00"} for i, time in enumerate(times)
    ]
    target = root / "data" / "orders" / shop / file
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
