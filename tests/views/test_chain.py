"""A chain of three views closes in one run and equals the oracle: minutes → hours → sessions (D3, C2, C3)."""

from __future__ import annotations

from datetime import datetime, timedelta
from random import Random

import pytest

from tests.conftest import Workbench
from tests.oracles.oracle import Oracle, Row
from tests.oracles.sessions import closed, sessions
from tests.oracles.windows import final, grouped, tumble

pytestmark = pytest.mark.runner("inprocess")

BEGIN = datetime(2026, 1, 1)
MINUTE, HOUR = 60, 3600
DELAY, GAP = 90, 2 * HOUR

SQL = """
CREATE TABLE events (id INT, k VARCHAR, v INT, ts TIMESTAMP,
    WATERMARK FOR ts AS ts - INTERVAL '90 seconds') APPEND ONLY;

CREATE MATERIALIZED VIEW per_minute AS
SELECT window_start, window_end, k, count(*) AS n, sum(v) AS s FROM TUMBLE(events, ts, INTERVAL '1 minute')
GROUP BY window_start, window_end, k EMIT ON WINDOW CLOSE;

CREATE MATERIALIZED VIEW per_hour AS
SELECT window_start, window_end, k, count(*) AS minutes, sum(n) AS n, max(s) AS s
FROM TUMBLE(per_minute, window_start, INTERVAL '1 hour')
GROUP BY window_start, window_end, k EMIT ON WINDOW CLOSE;

CREATE MATERIALIZED VIEW busy AS
SELECT window_start, window_end, k, count(*) AS hours, sum(n) AS n
FROM SESSION(per_hour, window_start, k, INTERVAL '2 hours')
GROUP BY window_start, window_end, k EMIT ON WINDOW CLOSE;
"""
BY_END = """
CREATE MATERIALIZED VIEW per_hour_by_end AS
SELECT window_start, window_end, k, count(*) AS minutes FROM TUMBLE(per_minute, window_end, INTERVAL '1 hour')
GROUP BY window_start, window_end, k EMIT ON WINDOW CLOSE;
"""


def events(rng: Random) -> list[tuple[int, str, int]]:
    """(second, key, value) in order of arrival over some days: busy hours with breaks of up to five hours, a few rows
    late."""
    out, now = [], 0
    while now < 2 * 24 * HOUR:
        now += rng.choice([20, 60, 600, 600, 1800, HOUR, 2 * HOUR, 5 * HOUR])
        second = max(now - rng.choice([0, 0, 0, 30, 90, 91, 600]), 0)
        out.append((second, rng.choice("xxy"), rng.randint(0, 9)))
    return out


def marks(watermark: int) -> tuple[int, int, int]:
    """D3, D1: the watermarks of per_minute's window_start and window_end, and of per_hour's window_start."""
    start = watermark // MINUTE * MINUTE
    return start, start + MINUTE, start // HOUR * HOUR


def chain(on_time: list[Row], watermark: int | None) -> dict[str, list[tuple]]:
    """Every view after the watermark, from the rules alone."""
    if watermark is None:
        return {"per_minute": [], "per_hour": [], "busy": [], "per_hour_by_end": []}
    by_start, by_end, by_hour = marks(watermark)
    out: dict[str, list[tuple]] = {}

    minutes = final(grouped(on_time, tumble(MINUTE), ("k",)), watermark)
    rows = [(g.start, g.end, *g.keys, len(g.rows), sum(r.payload["v"] for r in g.rows)) for g in minutes]
    out["per_minute"] = rows
    started = [
        Row("0", i, start, payload={"k": k, "n": n, "s": s}) for i, (start, _, k, n, s) in enumerate(rows)
    ]
    ended = [Row("0", i, end, payload={"k": k}) for i, (_, end, k, *_) in enumerate(rows)]

    hours = final(grouped(started, tumble(HOUR), ("k",)), by_start)
    out["per_hour"] = rows = [
        (
            g.start,
            g.end,
            *g.keys,
            len(g.rows),
            sum(r.payload["n"] for r in g.rows),
            max(r.payload["s"] for r in g.rows),
        )
        for g in hours
    ]
    ending = final(grouped(ended, tumble(HOUR), ("k",)), by_end)
    out["per_hour_by_end"] = [(g.start, g.end, *g.keys, len(g.rows)) for g in ending]

    hourly = [Row("0", i, start, payload={"k": k, "n": n}) for i, (start, _, k, _, n, _) in enumerate(rows)]
    found = closed(sessions(hourly, GAP, ("k",)), by_hour)
    out["busy"] = [(s.start, s.end, *s.keys, len(s.rows), sum(r.payload["n"] for r in s.rows)) for s in found]
    return out


def shown(workbench_session, view: str) -> list[tuple]:
    rows = workbench_session.table(view).collect()
    return sorted(
        tuple((v - BEGIN) // timedelta(seconds=1) if isinstance(v, datetime) else v for v in row)
        for row in rows
    )


def test_D3_a_chain_of_three_views_closes_in_one_run(workbench: Workbench) -> None:
    workbench.assets(chain=SQL, by_end=BY_END)
    session = workbench.session()
    oracle = Oracle(strategy=lambda row: row.event_time - DELAY)
    oracle.enumerate(["0"])
    arrivals = events(Random(4))
    third = len(arrivals) // 3
    done = 0
    for batch in (arrivals[:third], arrivals[third : 2 * third], arrivals[2 * third :]):
        values = []
        for second, k, v in batch:
            values.append(f"({done}, '{k}', {v}, '{BEGIN + timedelta(seconds=second)}')")
            oracle.read(Row("0", done, second, payload={"k": k, "v": v}))
            done += 1
        oracle.flush()
        session.execute(f"INSERT INTO events VALUES {', '.join(values)}")
        session.run()
        on_time = [d.row for d in oracle.decisions if d.outcome == "on_time"]
        for view, expected in chain(on_time, oracle.g).items():
            assert shown(session, view) == sorted(expected), view
    assert any(decision.outcome == "late" for decision in oracle.decisions)
    assert len(shown(session, "busy")) > 3


def test_D3_a_row_that_closes_everything_closes_the_whole_chain_at_once(workbench: Workbench) -> None:
    session = workbench.assets(chain=SQL).session()
    session.execute(
        "INSERT INTO events VALUES (1, 'x', 5, '2026-01-01 00:10:00'), (2, 'x', 6, '2026-01-01 01:20:00')"
    )
    session.run()
    assert [len(shown(session, view)) for view in ("per_minute", "per_hour", "busy")] == [1, 1, 0]
    session.execute("INSERT INTO events VALUES (3, 'x', 7, '2026-01-01 03:01:29')")
    session.run()
    # One second short of 03:00 with the delay: the hour that begins at 03:00 is not reached by the watermark.
    assert shown(session, "busy") == []
    session.execute("INSERT INTO events VALUES (4, 'x', 7, '2026-01-01 03:01:30')")
    session.run()
    assert shown(session, "busy") == [(0, 3 * HOUR, "x", 2, 2)]
