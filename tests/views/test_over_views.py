"""OVER in views, from statements to stored rows: ticks, carried rows, Top-N, and the fraud example of the RFC (C5)."""

from __future__ import annotations

from datetime import datetime, timedelta
from decimal import Decimal
from random import Random
from typing import TYPE_CHECKING

import pytest

from tests.conftest import Workbench
from tests.oracles.oracle import Row
from tests.oracles.over import Call, Range, Rows, SessionGap, over
from tidegate.audit.view import audit_view

if TYPE_CHECKING:
    from tidegate.session.session import Session

pytestmark = pytest.mark.runner("inprocess")

NOON = datetime(2026, 1, 1, 12)
ORDERS = """
CREATE TABLE orders (id BIGINT, order_time TIMESTAMP, price DECIMAL, customer_id BIGINT,
  WATERMARK FOR order_time AS order_time - INTERVAL '1' MINUTE) APPEND ONLY;
"""
# The RFC names next_price in WHERE of the same SELECT, which SQL's scoping does not allow.
ALERTS = """
CREATE MATERIALIZED VIEW alerts AS SELECT * FROM (
  SELECT customer_id, price, order_time,
    lead(price, 1) OVER w AS next_price,
    lead(order_time, 1) OVER w AS next_order_time
  FROM orders
  WINDOW w AS (PARTITION BY customer_id ORDER BY order_time)
)
WHERE abs(next_price - price) > 10000 AND next_order_time - order_time < INTERVAL '30' SECOND
EMIT ON WINDOW CLOSE;
"""
A = "CREATE TABLE a (k VARCHAR, n BIGINT, ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL '2 minutes') APPEND ONLY;"
EVERYTHING = """
CREATE MATERIALIZED VIEW v AS
SELECT n, k, ts, row_number() OVER w AS r, sum(n) OVER w AS s, sum(n) OVER (w ROWS 2 PRECEDING) AS last3,
  avg(n) OVER (w RANGE INTERVAL '2 minutes' PRECEDING) AS mean,
  sum(n) OVER (w SESSION WITH GAP INTERVAL '5 minutes') AS visit,
  max(n) OVER (w ROWS BETWEEN 2 PRECEDING AND 1 FOLLOWING EXCLUDE CURRENT ROW) AS others
FROM a WINDOW w AS (PARTITION BY k ORDER BY ts) {emit};
"""
CALLS = [
    Call("row_number"),
    Call("sum", "n"),
    Call("sum", "n", Rows(-2, 0)),
    Call("avg", "n", Range(-2, 0)),
    Call("sum", "n", SessionGap(5)),
    Call("max", "n", Rows(-2, 1), exclude_current=True),
]
TOP = """
CREATE MATERIALIZED VIEW top AS SELECT window_start, k, c FROM (
  SELECT *, row_number() OVER (PARTITION BY window_start ORDER BY c DESC) AS r FROM (
    SELECT k, window_start, count(*) AS c FROM TUMBLE(a, ts, INTERVAL '10 minutes') GROUP BY k, window_start))
WHERE r <= 2 EMIT ON WINDOW CLOSE;
"""


def rows(session: Session, name: str) -> list[tuple]:
    return [tuple(row) for row in session.table(name).collect()]


def carried(session: Session, name: str) -> int:
    return session.tables.rows(session.identifier(name)).where("_open IS NULL").count()


def order(session: Session, *orders: tuple[int, int, int]) -> None:
    values = ", ".join(
        f"({i}, '{NOON + timedelta(seconds=second)}', {price}, {customer})"
        for i, (customer, second, price) in enumerate(orders)
    )
    session.execute(f"INSERT INTO orders VALUES {values}")
    session.run()


def test_C5_the_fraud_example_of_the_rfc(workbench: Workbench) -> None:
    session = workbench.session()
    session.execute(ORDERS + ALERTS)
    # Customer 1 jumps within 20 seconds, and again within 40; customer 2 is quiet after its first order.
    order(session, (1, 20, 20_000), (1, 0, 10), (2, 10, 100), (1, 60, 5))
    assert rows(session, "alerts") == []
    order(session, (3, 90, 1))  # The watermark is at 30 seconds: the jump of customer 1 is known.
    alert = (1, Decimal(10), NOON, Decimal(20_000), NOON + timedelta(seconds=20))
    assert rows(session, "alerts") == [alert]
    assert carried(session, "alerts") == 2  # The rows that wait for their next one: of customers 1 and 2.
    session = workbench.session()  # As a new process: what was carried is in the view's own table.
    order(session, (3, 110, 10_002), (2, 200, 50_000))
    assert rows(session, "alerts") == [alert, (3, Decimal(1), NOON + timedelta(seconds=90), Decimal(10_002),
                                               NOON + timedelta(seconds=110))]  # fmt: skip
    assert carried(session, "alerts") == 3
    assert audit_view(session, "alerts").ok


@pytest.mark.parametrize("emit", ["EMIT ON WINDOW CLOSE", pytest.param("", marks=pytest.mark.long_run)])
def test_C5_live_rows_equal_the_oracle_after_every_run(workbench: Workbench, emit: str) -> None:
    random, session = Random(7), workbench.session()
    session.execute(A + EVERYTHING.format(emit=emit))
    logged: list[Row] = []
    watermark = now = 0
    for _ in range(4):
        values = []
        for _ in range(12):
            now += random.choice((0, 0, 1, 1, 2, 6))
            minute = max(watermark, now - random.choice((0, 0, 1, 2)))
            payload = {"k": random.choice("xyz"), "n": random.choice((1, 2, 3, 4, None))}
            logged.append(Row("0", len(logged), minute, payload=payload))
            values.append(
                f"('{payload['k']}', {payload['n'] or 'NULL'}, '{NOON + timedelta(minutes=minute)}')"
            )
            watermark = max(watermark, minute - 2)
        session.execute(f"INSERT INTO a VALUES {', '.join(values)}")
        session.run()
        found = over(logged, watermark, CALLS, ("k",))
        expected = [
            (
                one.row.payload["n"],
                one.row.payload["k"],
                NOON + timedelta(minutes=one.row.event_time),
                *one.values,
            )
            for one in found
        ]
        closed = session.tables.rows(session.identifier("v")).where("NOT _open")
        stored = [
            tuple(row)
            for row in closed.select("n", "k", "ts", "r", "s", "last3", "mean", "visit", "others").collect()
        ]
        assert sorted(stored, key=repr) == sorted(expected, key=repr)
        shown = len(rows(session, "v"))
        assert shown == (len(expected) if emit else len(logged))
        assert carried(session, "v") <= 3 * 12
    assert len(expected) > 25
    assert audit_view(session, "v").ok


def test_C5_the_top_of_each_window_is_plain_sql_of_closed_windows(workbench: Workbench) -> None:
    session = workbench.session()
    session.execute(A + TOP)
    session.execute(
        "INSERT INTO a SELECT k, 1, TIMESTAMP_NTZ '2026-01-01 12:00:00' + INTERVAL '1 minute' * m "
        "FROM VALUES ('x', 1), ('y', 1), ('y', 2), ('z', 3), ('x', 13), ('x', 30) AS t(k, m)"
    )
    session.run()
    # x and z are level: the columns decide, the same in every run.
    ten = timedelta(minutes=10)
    assert sorted(rows(session, "top")) == [(NOON, "x", 1), (NOON, "y", 2), (NOON + ten, "x", 1)]
    assert audit_view(session, "top").ok
