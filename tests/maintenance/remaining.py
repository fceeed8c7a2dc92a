"""Views whose rows do not show by what a person's rows are found, and what the oracle says that they are over the rows
that are there: sessions, joins, OVER, the first row of each key, and groups over sorted rows."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from tests.maintenance.people import WHO
from tests.oracles.joins import Join
from tests.oracles.oracle import Row, larger
from tests.oracles.over import Call, over
from tests.oracles.sessions import closed, sessions
from tests.oracles.windows import tumble
from tidegate.session.session import Session

#: Whose calls go: the other side of the join.
CALLER = "yann.yates.younger@example.com"

CALLS = """
CREATE SOURCE calls (caller VARCHAR, made TIMESTAMP, WATERMARK FOR made AS made - INTERVAL '5 minutes')
WITH (connector = 'filesystem', path = 'calls', max_files_per_batch = 1) FORMAT PLAIN ENCODE JSON;
"""
VISITS = """
CREATE MATERIALIZED VIEW visits AS SELECT window_start, window_end, count(*) AS n, max(customer) AS last
FROM SESSION(orders, at, INTERVAL '61 minutes') GROUP BY window_start, window_end EMIT ON WINDOW CLOSE;
"""
PAIRS = """
CREATE MATERIALIZED VIEW pairs AS SELECT o.at, o.id, o.customer, c.caller FROM orders o LEFT JOIN calls c
ON o.at BETWEEN c.made - INTERVAL '30 minutes' AND c.made + INTERVAL '30 minutes' EMIT ON WINDOW CLOSE;
"""
STEPS = """
CREATE MATERIALIZED VIEW steps AS SELECT id, lag(customer) OVER w AS before, lead(customer) OVER w AS later,
row_number() OVER w AS nth FROM orders WINDOW w AS (ORDER BY at) EMIT ON WINDOW CLOSE;
"""
FIRSTS = """
CREATE MATERIALIZED VIEW firsts AS SELECT customer, at FROM (SELECT customer, at, row_number() OVER
(PARTITION BY customer ORDER BY at) AS r FROM orders) WHERE r = 1 EMIT ON WINDOW CLOSE;
"""
DAYS = """
CREATE MATERIALIZED VIEW sorted AS SELECT at, id, customer FROM orders EMIT ON WINDOW CLOSE;
CREATE MATERIALIZED VIEW days AS SELECT window_end, count(*) AS n, max(customer) AS last
FROM TUMBLE(sorted, at, INTERVAL '1 day') GROUP BY window_end EMIT ON WINDOW CLOSE;
"""
ABOVE = """
CREATE MATERIALIZED VIEW long AS SELECT window_start, n FROM visits WHERE n > 1 EMIT ON WINDOW CLOSE;
"""
EVERY = """
CREATE MATERIALIZED VIEW both AS SELECT id, customer FROM orders UNION ALL SELECT id, upper(customer) FROM orders;
"""
VIEWS = CALLS + VISITS + PAIRS + STEPS + FIRSTS + DAYS + ABOVE + EVERY
NAMES = ("visits", "pairs", "steps", "firsts", "days", "long", "both")

_EPOCH, _MICRO, _MINUTE = datetime(1970, 1, 1), timedelta(microseconds=1), 60_000_000
_DAY = 24 * 60 * _MINUTE


def call(root: Path, *numbers: int) -> None:
    """Files of calls of these days."""
    (root / "calls").mkdir(exist_ok=True)
    for number in numbers:
        day = f"2026-01-{number:02}"
        made = [("tom", "08:50"), (CALLER, "09:20"), (CALLER, "11:10"), ("tom", "12:00")]
        lines = [json.dumps({"caller": who, "made": f"{day} {at}:00"}) for who, at in made]
        (root / "calls" / f"{number:02}.json").write_text("".join(f"{line}\n" for line in lines))


def shown(session: Session, names: tuple[str, ...] = NAMES) -> dict[str, list[tuple[Any, ...]]]:
    """What the views have."""
    return {name: _sorted(session.execute(f"SELECT * FROM {name}").rows()) for name in names}


def truth(session: Session, names: tuple[str, ...] = NAMES) -> dict[str, list[tuple[Any, ...]]]:
    """What they are over the rows that the logs have now, and with the watermarks that those have."""
    orders, order_mark = _log(session, "orders", "SELECT at, id, customer FROM orders", ("id", "customer"))
    visits = closed(sessions(orders, 61 * _MINUTE), order_mark)
    last = {"visits": [(v.start, v.end, [row.payload["customer"] for row in v.rows]) for v in visits]}
    found: dict[str, list[tuple[Any, ...]]] = {
        "visits": [(_at(s), _at(e), len(who), max(who)) for s, e, who in last["visits"]],
        "long": [(_at(s), len(who)) for s, _, who in last["visits"] if len(who) > 1],
        "both": [(r.payload["id"], f(r.payload["customer"])) for r in orders for f in (str, str.upper)],
    }
    calls = [Call("lag", "customer"), Call("lead", "customer"), Call("row_number")]
    found["steps"] = [(one.row.payload["id"], *one.values) for one in over(orders, order_mark, calls)]
    places = over(orders, order_mark, [Call("row_number")], ("customer",))
    firsts = [one.row for one in places if one.values == (1,)]
    found["firsts"] = [(row.payload["customer"], _at(row.event_time)) for row in firsts]
    by_day: dict[int, list[str]] = {}
    for row in orders:
        for _, end in tumble(_DAY)(row.event_time):
            by_day.setdefault(end, []).append(row.payload["customer"])
    found["days"] = [(_at(e), len(w), max(w)) for e, w in by_day.items() if order_mark and e <= order_mark]
    if "pairs" in names:
        made, call_mark = _log(session, "calls", "SELECT made, caller FROM calls", ("caller",))
        join = Join(30 * _MINUTE, 30 * _MINUTE, kind="left")
        found["pairs"] = [
            (_at(a.event_time), *a.payload.values(), None if b is None else b.payload["caller"])
            for a, b in join.released(orders, made, order_mark, call_mark)
            if a is not None
        ]
    return {name: _sorted(found[name]) for name in names}


def _log(session: Session, name: str, query: str, columns: tuple[str, ...]) -> tuple[list[Row], int | None]:
    """The rows of a log that are on time, and its watermark. (No two have the same time.)"""
    rows = [
        Row("0", at, (time - _EPOCH) // _MICRO, payload=dict(zip(columns, values, strict=True)))
        for at, (time, *values) in enumerate(session.execute(query).rows())
    ]
    assert len({row.event_time for row in rows}) == len(rows)
    mark = session.tables.open(session.identifier(name)).current().integer("tidegate.watermark")
    return rows, larger(mark, None)


def _at(ticks: int) -> datetime:
    return _EPOCH + ticks * _MICRO


def _sorted(rows: list[Any]) -> list[tuple[Any, ...]]:
    return sorted(map(tuple, rows), key=str)


def has(rows: dict[str, list[tuple[Any, ...]]], who: str = WHO) -> set[str]:
    """The names of those that show a person."""
    return {name for name, found in rows.items() if who.casefold() in str(found).casefold()}
