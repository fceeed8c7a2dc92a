"""X1: SQL of a project and of the shell reaches relations and pure functions, and nothing else of the machine."""

from __future__ import annotations

import json
from importlib.resources import files

import pytest

from tests.sql.support import prelude
from tidegate.errors import TidegateError
from tidegate.sql import analyse
from tidegate.sql.dialect.functions import reach_of, spark_functions

PATH = "reflect('java.lang.System', 'getenv', 'PATH')"
#: Where an expression can stand in a query, a change or a definition.
PLACES = [
    "SELECT {}",
    "SELECT upper({}) || 'x'",
    "SELECT transform(array(1), x -> {})",
    "SELECT CASE WHEN {} = 'x' THEN 1 END",
    "SELECT {}::int",
    "SELECT ({})[0]",
    "SELECT named_struct('a', {}).a",
    "SELECT listagg({}) WITHIN GROUP (ORDER BY {}) FROM orders",
    "SELECT count(*) FILTER (WHERE {} = '1') FROM orders",
    "SELECT row_number() OVER (ORDER BY {}) FROM orders",
    "SELECT * FROM orders WHERE {} = 'x'",
    "SELECT * FROM orders WHERE id IN (SELECT length({}))",
    "SELECT * FROM orders ORDER BY {}",
    "SELECT * FROM orders LIMIT length({})",
    "SELECT id FROM orders GROUP BY id, {}",
    "SELECT id FROM orders GROUP BY id HAVING {} = 'x'",
    "SELECT id FROM orders QUALIFY {} = 'x'",
    "SELECT * FROM orders JOIN orders AS o ON {} = 'x'",
    "SELECT * FROM orders LATERAL VIEW explode(array({})) t AS x",
    "SELECT * FROM (SELECT {}) AS q",
    "WITH q AS (SELECT {} AS x) SELECT * FROM q",
    "SELECT 1 UNION ALL SELECT {}",
    "SELECT * FROM range(length({}))",
    "VALUES ({})",
    "INSERT INTO plain SELECT length({}), NULL",
    "INSERT INTO plain VALUES (length({}), NULL)",
    "UPDATE deposits SET status = {} WHERE trx_id = 'x'",
    "DELETE FROM deposits WHERE status = {}",
    "CREATE TABLE t (a INT, b VARCHAR AS {})",
    "CREATE TABLE t (a TIMESTAMP, WATERMARK FOR a AS a - INTERVAL '1 second' * length({})) APPEND ONLY",
    "CREATE TABLE t (a TIMESTAMP, WATERMARK FOR a AS CASE WHEN {} = 'x' THEN a END) APPEND ONLY",
    "ALTER TABLE days ALTER WATERMARK FOR d AS CASE WHEN {} = 'x' THEN d END",
    "CREATE MATERIALIZED VIEW v AS SELECT {} AS x FROM orders EMIT ON WINDOW CLOSE",
    "CREATE MATERIALIZED VIEW v AS SELECT ts FROM orders WHERE {} = 'x' EMIT ON WINDOW CLOSE",
    "CREATE MATERIALIZED VIEW v AS SELECT window_start, max({}) AS x FROM TUMBLE(orders, ts, INTERVAL '1 hour') "
    "GROUP BY window_start EMIT ON WINDOW CLOSE",
    "CREATE MATERIALIZED VIEW v AS SELECT window_start FROM TUMBLE((SELECT ts FROM orders WHERE {} = 'x'), ts, "
    "INTERVAL '1 hour') GROUP BY window_start EMIT ON WINDOW CLOSE",
    "CREATE MATERIALIZED VIEW v AS SELECT ts, lag({}) OVER (ORDER BY ts) AS x FROM orders EMIT ON WINDOW CLOSE",
    "CREATE MATERIALIZED VIEW v AS SELECT o.ts FROM orders AS o JOIN customers AS c ON o.id = c.id AND {} = c.name "
    "EMIT ON WINDOW CLOSE",
    "CREATE MATERIALIZED VIEW v AS SELECT d FROM WATERMARK(days, d, CASE WHEN {} = 'x' THEN d END) "
    "EMIT ON WINDOW CLOSE",
    "CREATE SINK s AS SELECT {} AS x FROM readings WITH (connector = 'console')",
]
#: Other ways out of the query.
WAYS = [
    "SELECT TRANSFORM(id) USING 'cat /etc/passwd' FROM orders",
    "FROM orders SELECT TRANSFORM(id) USING 'cat /etc/passwd'",
    "SELECT `reflect`('a', 'b')",
    "SELECT \"Reflect\"('a', 'b')",
    "SELECT system.builtin.reflect('a', 'b')",
    "SELECT identifier('reflect')('a', 'b')",
    "SELECT * FROM identifier('parquet.`/etc`')",
    "SELECT * FROM parquet.`/etc/passwd`",
    "SELECT * FROM read_files('/etc/passwd')",
    "SELECT * FROM python_worker_logs()",
    "SELECT current_user",
    "SELECT session_user",
    "SELECT user()",
    "SELECT input_file_name() FROM orders",
    "SELECT from_xml('<r/>', 'a INT', map('rowValidationXSDPath', 'file:///etc/passwd'))",
]


@pytest.mark.parametrize("place", PLACES)
def test_X1_a_function_that_reaches_the_machine_is_refused_wherever_it_stands(place: str) -> None:
    with pytest.raises(TidegateError) as refused:
        list(analyse(place.replace("{}", PATH), prelude()))
    assert refused.value.code == "TG221"
    assert refused.value.location is not None
    assert "reflect" in refused.value.location.text


@pytest.mark.parametrize("way", WAYS)
def test_X1_no_other_way_leads_out_of_a_query(way: str) -> None:
    with pytest.raises(TidegateError):
        list(analyse(way, prelude()))


def test_X1_every_function_is_classified_and_a_new_one_is_refused() -> None:
    table = json.loads(files("tidegate.sql.dialect").joinpath("spark_functions.json").read_text("utf-8"))
    assert {reach for _, reach in table.values()} == {"pure", "varying", "machine", "failing", "throwing"}
    assert {reach_of(name) for name in spark_functions()} == {
        "pure",
        "varying",
        "machine",
        "failing",
        "throwing",
    }
    assert reach_of("a_function_of_a_later_spark") == "machine"
    assert [n for n, (_, reach) in table.items() if reach == "machine"] == [
        "current_user", "from_avro", "from_protobuf", "from_xml", "input_file_block_length",
        "input_file_block_start", "input_file_name", "java_method", "python_worker_logs", "reflect",
        "schema_of_xml", "session_user", "to_protobuf", "try_reflect", "user",
    ]  # fmt: skip
