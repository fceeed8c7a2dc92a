"""What is too long for a name, an interval or a number of windows is refused, with its place, before anything runs."""

from __future__ import annotations

import re

import pytest

from tests.sql.support import load, prelude
from tidegate.errors import TidegateError
from tidegate.sql import Catalog, analyse
from tidegate.sql.catalog.objects import View
from tidegate.sql.dialect.inner_names import MARK, inner

VIEW = "CREATE MATERIALIZED VIEW v AS SELECT window_end, count(*) AS n FROM {} GROUP BY window_end"
MONTHS, SECONDS = "INTERVAL '999999999999 months'", "INTERVAL '999999999999999999999 seconds'"


@pytest.mark.parametrize(
    ("sql", "code", "message"),
    [
        (f"CREATE TABLE {'x' * 300} (id INT)", "TG205", "this name has 300 bytes; at most 200 are allowed"),
        (f'CREATE TABLE "{"é" * 101}" (id INT)', "TG205", "this name has 202 bytes"),
        (
            f"CREATE MATERIALIZED VIEW {'x' * 201} AS SELECT id FROM orders",
            "TG205",
            "this name has 201 bytes",
        ),
        (
            VIEW.format(f"TUMBLE(orders, ts, {MONTHS})"),
            "TG311",
            "longer than the distance between any two times",
        ),
        (
            VIEW.format(f"TUMBLE(orders, ts, {SECONDS})"),
            "TG311",
            "longer than the distance between any two times",
        ),
        (
            VIEW.format(f"SESSION(orders, ts, id, {SECONDS})"),
            "TG311",
            "longer than the distance between any two times",
        ),
        (VIEW.format(f"HOP(orders, ts, INTERVAL '1 month', {MONTHS})"), "TG311", "must be whole months"),
        (
            VIEW.format("HOP(orders, ts, INTERVAL '1 second', INTERVAL '100000 seconds')"),
            "TG311",
            "every row would be in 100,000 windows of HOP; at most 10,000 are allowed",
        ),
        (
            VIEW.format("HOP(orders, ts, INTERVAL '1 month', INTERVAL '200000 months')"),
            "TG311",
            "every row would be in 200,000 windows of HOP",
        ),
        (
            f"CREATE TABLE t (ts TIMESTAMP, WATERMARK FOR ts AS ts - {SECONDS})",
            "TG303",
            "longer than the distance",
        ),
        (
            f"CREATE TABLE t (ts TIMESTAMP, WATERMARK FOR ts AS ts - {MONTHS})",
            "TG303",
            "longer than the distance",
        ),
        (f"SELECT ts + {MONTHS} AS x FROM orders", "TG214", re.escape(f"{MONTHS} is too long")),
        (f"SELECT id FROM orders WHERE ts > tz - {SECONDS}", "TG214", "is too long"),
        ("SELECT id FROM orders WHERE ts > now() - INTERVAL 300000 YEARS", "TG214", "is too long"),
    ],
)
def test_what_is_too_long_is_refused(sql: str, code: str, message: str) -> None:
    with pytest.raises(TidegateError, match=message) as caught:
        list(analyse(f"{sql};", prelude()))
    assert caught.value.code == code
    assert caught.value.location is not None


def test_what_is_long_is_not() -> None:
    long = [
        VIEW.format("HOP(orders, ts, INTERVAL '1 second', INTERVAL '10000 seconds')"),
        VIEW.format("TUMBLE(orders, ts, INTERVAL '10000 years')"),
        f"CREATE TABLE {'x' * 200} (ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL '9000 years') APPEND ONLY",
    ]
    for sql in long:
        assert len(list(analyse(f"{sql};", prelude()))) == 1


def test_inside_names_make_way_for_users_names() -> None:
    """Of a join's right side, of USING, of a FULL JOIN's time, of the right side of UNION ALL."""
    table = 'CREATE TABLE {} (ts TIMESTAMP, k INT, "{}" INT, WATERMARK FOR ts AS ts) APPEND ONLY;\n'
    queries = {
        "_1_ts": "SELECT a.ts, a.k, b.ts AS t FROM a JOIN b ON a.k = b.k AND a.ts = b.ts",
        "_using_1_0": "SELECT * FROM a FULL JOIN b USING (ts, k)",
        "_time_1": "SELECT * FROM a FULL JOIN b USING (ts, k)",
        "_column_3": "SELECT ts, k, z, 1 AS y FROM b UNION ALL SELECT *, 1 FROM a",
    }
    for name, query in queries.items():
        catalog = load(Catalog(), table.format("a", name) + table.format("b", "z"))
        load(catalog, f"CREATE MATERIALIZED VIEW v AS {query} EMIT ON WINDOW CLOSE;")
        view = catalog.get("v")
        assert isinstance(view, View)
        made = re.findall(rf"AS `({MARK}?{name})`", str(view.query_sql))
        assert made == [f"{MARK}{name}"], view.query_sql


def test_no_statement_writes_an_inside_name() -> None:
    view = f'CREATE MATERIALIZED VIEW v AS SELECT id AS "{inner("x")}" FROM orders'
    for sql in (f'CREATE TABLE t ("{inner("x")}" INT)', view):
        with pytest.raises(TidegateError, match="control character") as caught:
            list(analyse(f"{sql};", prelude()))
        assert caught.value.code == "TG205"
