"""Hints that name a way out lead out: what they say is done here."""

from __future__ import annotations

import re

import pytest

from tidegate.errors import TidegateError
from tidegate.sql import analyse, load_catalog

SOURCE = (
    "CREATE SOURCE s ({columns}, WATERMARK FOR {time} AS {time}) "
    "WITH (connector = 'filesystem', path = 'x') FORMAT PLAIN ENCODE JSON;"
)


@pytest.mark.parametrize(
    ("columns", "time"),
    [
        ("ts VARCHAR", "ts"),
        ("event_time VARCHAR", "event_time"),
        ("event_time VARCHAR, Event_Time2 INT", "event_time"),
        ('"order" VARCHAR', '"order"'),
        ('"the time" VARCHAR', '"the time"'),
        ('"a""b" VARCHAR', '"a""b"'),
        ("seconds DOUBLE", "seconds"),
        ("seconds DECIMAL(20, 6)", "seconds"),
    ],
)
def test_W10_the_column_that_the_hint_of_TG301_adds_carries_a_watermark(columns: str, time: str) -> None:
    with pytest.raises(TidegateError) as caught:
        load_catalog([("s.sql", SOURCE.format(columns=columns, time=time))])
    assert caught.value.code == "TG301"
    added = re.fullmatch(
        r"add a column for it, and write the name of that column here: ((\w+) TIMESTAMP.*)",
        caught.value.hint or "",
    )
    assert added is not None, caught.value.hint
    followed = SOURCE.format(columns=f"{columns}, {added[1]}", time=added[2])
    assert load_catalog([("s.sql", followed)]).relations[0].watermark is not None


@pytest.mark.parametrize("type_", ["BOOLEAN", "BYTEA", "VARCHAR[]"])
def test_W10_there_is_no_cast_where_none_leads_to_a_time(type_: str) -> None:
    with pytest.raises(TidegateError) as caught:
        load_catalog([("s.sql", SOURCE.format(columns=f"x {type_}", time="x"))])
    assert (caught.value.code, caught.value.hint) == ("TG301", "name a column that holds a time")


def test_W10_a_gate_inline_computes_the_time_in_a_subquery() -> None:
    table = "CREATE TABLE t (event_time VARCHAR, n INT) APPEND ONLY;"
    view = (
        "CREATE MATERIALIZED VIEW v AS SELECT * FROM WATERMARK({rows}, {time}, INTERVAL '1 minute') "
        "EMIT ON WINDOW CLOSE;"
    )
    with pytest.raises(TidegateError) as caught:
        load_catalog([("a.sql", table), ("v.sql", view.format(rows="t", time="event_time"))])
    assert caught.value.code == "TG301"
    found = re.fullmatch(
        r"compute it in a subquery: (\(SELECT \*, .* AS (\w+) FROM t\))", caught.value.hint or ""
    )
    assert found is not None, caught.value.hint
    load_catalog([("a.sql", table), ("v.sql", view.format(rows=found[1], time=found[2]))])


@pytest.mark.parametrize(
    ("sql", "word"),
    [
        ("SELECT id FROM t\nSELECT id FROM t", "SELECT"),
        ("SELECT id FROM t ORDER BY id\nWITH x AS (SELECT 1 AS a) SELECT a FROM x", "WITH"),
        ("DELETE FROM t WHERE id = 1\nSELECT 1", "SELECT"),
        ("CREATE TABLE u (id INT)\nSELECT * FROM u", "SELECT"),
        ("CREATE MATERIALIZED VIEW v AS SELECT id FROM t EMIT ON WINDOW CLOSE\nSELECT * FROM v", "SELECT"),
        # Here a query is part of the statement, or would be.
        ("SELECT (1 SELECT 2)", None),
        ("SELECT id, SELECT 1 FROM t", None),
        ("SELECT id FROM t WHERE\nSELECT 1", None),
        ("CREATE MATERIALIZED VIEW v\nSELECT id FROM t", None),
    ],
)
def test_TG102_a_query_behind_a_statement_that_may_be_complete_lacks_a_semicolon(
    sql: str, word: str | None
) -> None:
    catalog = load_catalog([("t.sql", "CREATE TABLE t (id INT, PRIMARY KEY (id))")])
    with pytest.raises(TidegateError) as caught:
        list(analyse(sql, catalog))
    assert caught.value.code == "TG102"
    assert caught.value.hint == (f"is a ; missing before {word}?" if word else None)
