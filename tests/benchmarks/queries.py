"""The questions, in each engine's own words. All of them: watermark delay, then one aggregate or neighbour per key."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

SECOND = 1_000_000

#: Columns that identify a row of each question's result.
KEYS = {
    "windows": ("window_start", "key"),
    "sessions": ("window_start", "key"),
    "neighbours": ("part", "off"),
}


@dataclass(frozen=True)
class Query:
    """`kind`: windows (tumbling if size = slide, else hopping), sessions or neighbours (lag and lead). Seconds."""

    kind: str
    size_s: int = 60
    slide_s: int = 60
    gap_s: int = 30
    delay_s: int = 5

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @property
    def keys(self) -> tuple[str, ...]:
        return KEYS[self.kind]


def window_of(query: Query, rows: str = "events") -> str:
    """What tidegate has after FROM."""
    if query.kind == "sessions":
        return f"SESSION({rows}, ts, key, INTERVAL '{query.gap_s} seconds')"
    if query.size_s == query.slide_s:
        return f"TUMBLE({rows}, ts, INTERVAL '{query.size_s} seconds')"
    return f"HOP({rows}, ts, INTERVAL '{query.slide_s} seconds', INTERVAL '{query.size_s} seconds')"


def tidegate_view(query: Query, name: str = "result", rows: str = "events") -> str:
    """CREATE MATERIALIZED VIEW."""
    if query.kind == "neighbours":
        return f"""CREATE MATERIALIZED VIEW {name} AS
            SELECT part, off, ts, key, lag(amount) OVER w AS before, lead(amount) OVER w AS after
            FROM {rows} WINDOW w AS (PARTITION BY key ORDER BY ts) EMIT ON WINDOW CLOSE;"""
    return f"""CREATE MATERIALIZED VIEW {name} AS
        SELECT window_start, window_end, key, count(*) AS cnt, sum(amount) AS total FROM {window_of(query, rows)}
        GROUP BY window_start, window_end, key EMIT ON WINDOW CLOSE;"""


def tidegate_source(query: Query, options: dict[str, str], encode: str, hidden: bool = True) -> str:
    """CREATE SOURCE events. `hidden`: whether rows say themselves where they stand (part, off)."""
    place = "part INT, off BIGINT, " if hidden else ""
    given = ", ".join(f"{name} = '{value}'" for name, value in options.items())
    return f"""CREATE SOURCE events ({place}ts TIMESTAMP, key BIGINT, amount BIGINT, payload VARCHAR,
        WATERMARK FOR ts AS ts - INTERVAL '{query.delay_s} seconds') WITH ({given}) FORMAT PLAIN ENCODE {encode};"""


def flink_query(query: Query) -> tuple[str, str]:
    """Columns of the result, and the SELECT over `events`."""
    if query.kind == "neighbours":
        return (
            "part INT, `off` BIGINT, `before` BIGINT",
            "SELECT part, `off`, LAG(amount) OVER (PARTITION BY `key` ORDER BY ts) FROM events",
        )
    if query.kind == "sessions":
        call = f"SESSION(TABLE events PARTITION BY `key`, DESCRIPTOR(ts), INTERVAL '{query.gap_s}' SECOND)"
    elif query.size_s == query.slide_s:
        call = f"TUMBLE(TABLE events, DESCRIPTOR(ts), INTERVAL '{query.size_s}' SECOND)"
    else:
        call = (
            f"HOP(TABLE events, DESCRIPTOR(ts), INTERVAL '{query.slide_s}' SECOND, "
            f"INTERVAL '{query.size_s}' SECOND)"
        )
    columns = "window_start TIMESTAMP(3), window_end TIMESTAMP(3), `key` BIGINT, cnt BIGINT, total BIGINT"
    return columns, (
        "SELECT window_start, window_end, `key`, COUNT(*), SUM(amount) "
        f"FROM TABLE({call}) GROUP BY window_start, window_end, `key`"
    )


def duckdb_query(query: Query, late_rule: bool) -> str:
    """The SELECT over `raw` (part, off, ts, key, amount). `late_rule`: W1 as a window function, else all rows."""
    rows = "raw"
    if late_rule:
        rows = f"""(SELECT * EXCLUDE (newest) FROM (SELECT *, max(ts) OVER (PARTITION BY part ORDER BY off
            ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS newest FROM raw)
            WHERE newest IS NULL OR ts >= newest - INTERVAL {query.delay_s} SECOND)"""
    if query.kind == "neighbours":
        return f"""SELECT part, off, lag(amount) OVER w AS before, lead(amount) OVER w AS after FROM {rows}
            WINDOW w AS (PARTITION BY key ORDER BY ts, part, off)"""
    if query.kind == "sessions":
        return f"""SELECT min(ts) AS window_start, max(ts) + INTERVAL {query.gap_s} SECOND AS window_end, key,
            count(*) AS cnt, sum(amount)::BIGINT AS total FROM (
                SELECT *, sum(new) OVER (PARTITION BY key ORDER BY ts ROWS UNBOUNDED PRECEDING) AS session FROM (
                    SELECT *, (ts - lag(ts) OVER (PARTITION BY key ORDER BY ts)
                        >= INTERVAL {query.gap_s} SECOND)::INT AS new FROM {rows}))
            GROUP BY key, coalesce(session, 0)"""
    steps = query.size_s // query.slide_s
    if steps > 1:
        earlier = f"ts - to_seconds(step * {query.slide_s})"
        rows = f"(SELECT {earlier} AS ts, key, amount FROM {rows}, range({steps}) r(step))"
    bucket = f"time_bucket(INTERVAL {query.slide_s} SECOND, ts)"
    return f"""SELECT {bucket} AS window_start, {bucket} + INTERVAL {query.size_s} SECOND AS window_end, key,
        count(*) AS cnt, sum(amount)::BIGINT AS total FROM {rows} GROUP BY ALL"""
