"""W4, B1: no definition reads the clock by a literal either: 'now', 'today', … where a time is meant."""

from __future__ import annotations

import pytest

from tidegate.errors import TidegateError
from tidegate.sql import analyse, load_catalog

TABLE = "CREATE TABLE t (id INT, name VARCHAR, ts TIMESTAMP, day DATE, WATERMARK FOR ts AS ts) APPEND ONLY;"
VIEW = "CREATE MATERIALIZED VIEW v AS SELECT ts, id FROM t WHERE {} EMIT ON WINDOW CLOSE;"

REFUSED = [
    "ts > CAST('now' AS TIMESTAMP)",
    "ts > TIMESTAMP 'now'",
    "ts > timestamptz 'Now'",
    "day = DATE 'today'",
    "day = date ' TOMORROW '",
    "day < 'yesterday'::date",
    "ts > 'now'::timestamp",
    "TRY_CAST('now' AS TIMESTAMP) > ts",
    "ts > CAST('now UTC' AS TIMESTAMP)",
    "ts > CAST('nowZ' AS TIMESTAMP)",
    "ts > CAST('today Europe/Berlin' AS TIMESTAMP)",
    "ts > CAST('today +01:00' AS TIMESTAMP)",
    "ts > CAST(r'now' AS TIMESTAMP)",
    "ts > 'now'",
    "'today' = day",
    "ts <=> 'now'",
    "ts IS DISTINCT FROM 'now'",
    "ts IN (TIMESTAMP '2026-01-01 00:00:00', 'now')",
    "ts BETWEEN '2026-01-01' AND 'now'",
    "'now' BETWEEN ts AND ts + INTERVAL '1 day'",
    "CASE ts WHEN 'now' THEN true END",
    "nullif(ts, 'now') IS NULL",
    "ts > 'now' - INTERVAL '1 day'",
    "ts - 'now' > INTERVAL '1 day'",
    "ts > to_timestamp('now')",
    "day = to_date('today')",
    "day = date('today')",
    "date_add('today', id) = day",
    "datediff(day, 'today') > 1",
    "date_trunc('hour', 'now') = ts",
    "EXTRACT(YEAR FROM 'now') = id",
    "year('now') = id",
    "ts > CAST(lower('NOW') AS TIMESTAMP)",
    "ts > CAST('no' || 'w' AS TIMESTAMP)",
    "ts > to_timestamp(concat('no', 'w'))",
    "ts > CAST(('now') AS TIMESTAMP)",
    "ts > CAST(CAST('now' AS VARCHAR) AS TIMESTAMP)",
    "size(CAST(array('now') AS TIMESTAMP[])) = id",
    "ts > CAST('10:11:12' AS TIMESTAMPTZ)",
    "ts > TIMESTAMPTZ ' T10:11'",
    "ts > to_timestamp('10:11:12+02:00')",
    "ts > try_to_timestamp('9:1')",
    "to_utc_timestamp('10:11:12', 'UTC') = ts",
    "date_trunc('hour', '10:11') = ts",
    "CAST(ts AS TIMESTAMPTZ) > '10:11:12'",
]
ACCEPTED = [
    "name = 'now'",
    "name IN ('today', 'tomorrow')",
    "name LIKE 'now%'",
    "name <> 'today' AND ts > TIMESTAMP '2026-01-01 00:00:00'",
    "concat(name, ' today') = 'x'",
    "concat(ts, ' today at noon') = 'x'",
    "CASE name WHEN 'now' THEN true END",
    "CAST(name AS TIMESTAMP) > ts",
    "ts > TIMESTAMP 'epoch'",
    "ts > CAST(('2026-01-01') AS TIMESTAMP)",
    "ts > '2026-01-01'",
    "ts > CAST('nowhere' AS TIMESTAMP)",
    "date_trunc('HOUR', ts) = ts",
    "date_format(ts, 'yyyy' || '-MM') = name",
    "to_timestamp(concat(name, ' 00:00:00')) = ts",
    "coalesce(name, 'today') = 'x'",
    "upper('now') = name",
    "name = '10:11:12'",
    "ts > to_timestamp('10:11', 'HH:mm')",
    "hour('10:11:12') = id",
    "ts > TIMESTAMPTZ '2026-01-01 10:11:12'",
]


@pytest.mark.parametrize("condition", REFUSED)
def test_W4_a_literal_that_reads_the_clock_is_refused_like_now(condition: str) -> None:
    with pytest.raises(TidegateError) as caught:
        load_catalog([("t.sql", TABLE), ("v.sql", VIEW.format(condition))])
    assert caught.value.code == "TG220"
    assert caught.value.location is not None
    assert "'" in caught.value.location.text[caught.value.location.column - 1 :][:2]


@pytest.mark.parametrize("condition", ACCEPTED)
def test_W4_a_text_that_is_no_time_is_a_text(condition: str) -> None:
    load_catalog([("t.sql", TABLE), ("v.sql", VIEW.format(condition))])


@pytest.mark.parametrize(
    "definition",
    [
        "CREATE TABLE t (ts TIMESTAMP, at TIMESTAMP AS 'now', WATERMARK FOR ts AS ts) APPEND ONLY;",
        "CREATE TABLE t (ts TIMESTAMP, at DATE AS coalesce('today'), WATERMARK FOR ts AS ts) APPEND ONLY;",
        "CREATE TABLE t (ts TIMESTAMP, WATERMARK FOR ts AS TIMESTAMP 'now' - INTERVAL '1 minute') APPEND ONLY;",
        "CREATE TABLE t (ts TIMESTAMP, WATERMARK FOR ts AS CASE WHEN ts > 'now' THEN NULL ELSE ts END) APPEND ONLY;",
        f"{TABLE} CREATE SINK s AS SELECT ts, DATE 'today' AS d FROM t EMIT ON WINDOW CLOSE "
        "WITH (connector = 'console');",
        f"{TABLE} CREATE MATERIALIZED VIEW v AS SELECT count(*) AS n FROM t GROUP BY id HAVING max(ts) > 'now';",
        f"{TABLE} CREATE MATERIALIZED VIEW v AS SELECT a.ts FROM t a JOIN t b ON a.ts = b.ts AND b.ts > 'now' "
        "EMIT ON WINDOW CLOSE;",
        f"{TABLE} CREATE MATERIALIZED VIEW v AS SELECT ts, lag(ts, 1, 'now') OVER (ORDER BY ts) AS x FROM t "
        "EMIT ON WINDOW CLOSE;",
        "CREATE SOURCE s (ts TIMESTAMP, WATERMARK FOR ts AS ts) WITH (connector = 'replay', path = 'x', "
        "order.columns = 'ts', filter = 'ts < TIMESTAMP ''now''') FORMAT PLAIN ENCODE JSON;",
    ],
)
def test_W4_wherever_a_definition_has_an_expression(definition: str) -> None:
    with pytest.raises(TidegateError) as caught:
        load_catalog([("all.sql", definition)])
    assert caught.value.code == "TG220"


def test_W4_what_a_statement_inserts_is_recorded_once_and_may_be_the_clock() -> None:
    catalog = load_catalog([("t.sql", TABLE)])
    assert len(list(analyse("INSERT INTO t VALUES (1, 'x', TIMESTAMP 'now', DATE 'today')", catalog))) == 1
    assert len(list(analyse("SELECT * FROM t WHERE ts > TIMESTAMP 'now'", catalog))) == 1
