"""What tidegate gives to Spark for a view is a syntax tree: whose rows it reads is a node, and no text is one."""

from __future__ import annotations

import pytest

from tests.sql.support import load
from tidegate.sql import Catalog, View

TABLE = 'CREATE TABLE t (k VARCHAR, "{input_0}" VARCHAR, ts TIMESTAMP, WATERMARK FOR ts AS ts) APPEND ONLY;'
#: Texts and names that look like what stands for the rows in the text that people are shown.
WORDS = "'{input_0}' AS a, \"{input_0}\" AS b, k AS \"{over}\", '{slice}' AS d"
EMIT = "EMIT ON WINDOW CLOSE;"


def view(query: str) -> View:
    catalog = load(Catalog(), TABLE)
    load(catalog, f"CREATE MATERIALIZED VIEW v AS {query} {EMIT}")
    found = catalog.get("v")
    assert isinstance(found, View)
    return found


def test_a_users_text_in_braces_is_never_taken_for_what_a_view_reads() -> None:
    sql = view(f"SELECT ts, {WORDS} FROM t WHERE k <> '{{input_0}}'").query_sql.spark_sql({"input_0": "rows"})
    assert sql.count("`rows`") == 1
    assert "'{input_0}' AS `a`, `{input_0}` AS `b`, `k` AS `{over}`, '{slice}' AS `d`" in sql
    assert "`k` <> '{input_0}'" in sql
    over = view(f"SELECT ts, {WORDS}, row_number() OVER (PARTITION BY k ORDER BY ts) AS n FROM t").over
    assert over is not None
    sql = over.query_sql.spark_sql({"over": "rows"})
    assert sql.count("`rows`") == 1
    assert "'{input_0}' AS `a`" in sql
    assert "`{over}`" in sql


def test_a_gate_inline_keeps_the_texts_of_its_query() -> None:
    rows = "SELECT ts, '{slice}' AS a, k AS \"{input_0}\" FROM t WHERE k <> '{slice}'"
    (found,) = view(f"SELECT * FROM WATERMARK(({rows}), ts, INTERVAL '1 hour')").gates
    sql = found.connector.sql.spark_sql({"slice": "rows"})  # type: ignore[union-attr]  # the connector of gates
    assert sql.count("`rows`") == 1
    assert "'{slice}' AS `a`, `k` AS `{input_0}`" in sql


def test_a_query_is_spelled_once_for_the_names_of_all_ticks(monkeypatch: pytest.MonkeyPatch) -> None:
    query = view(f"SELECT ts, {WORDS} FROM t").query_sql
    first = query.spark_sql({"input_0": "rows"})
    monkeypatch.setattr("tidegate.sql.dialect.query.to_spark", None)
    assert query.spark_sql({"input_0": "rows"}) is first


def test_queries_of_the_same_text_are_equal_and_of_others_are_not() -> None:
    one, same, other = (view(f"SELECT ts, '{text}' AS a FROM t").query_sql for text in ("x", "x", "y"))
    assert one == same
    assert hash(one) == hash(same)
    assert one != other
