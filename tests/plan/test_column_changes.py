"""What several changes of columns come to in all, and which views they concern (E2, E3)."""

from __future__ import annotations

import re

import pytest

from tests.sql.support import load
from tidegate.errors import TidegateError
from tidegate.plan.columns.changes import ColumnChange, concerned, described, in_all
from tidegate.sql.catalog.catalog import Catalog
from tidegate.sql.catalog.objects import View
from tidegate.sql.views.column_lineage import column_lineage
from tidegate.sql.views.named_columns import named_in

A = ColumnChange("rename", "a", "b")
BACK = ColumnChange("rename", "b", "a")
GONE, NEW = ColumnChange("drop", "a"), ColumnChange("add", "a", "int")


ORDER = ColumnChange("reorder", "b, a", was="a, b")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ([A, BACK], ""),
        ([A, ColumnChange("rename", "b", "c")], 'column "a" is renamed to "c"'),
        ([NEW, GONE], ""),
        ([GONE, NEW], 'column "a" is dropped; column "a" INT is added'),
        ([A, NEW], 'column "a" is renamed to "b"; column "a" INT is added'),
        ([A, NEW, GONE, BACK], ""),
        (
            [ColumnChange("widen", "a", "bigint", "int"), A],
            'column "a" is renamed to "b"; column "b" is widened',
        ),
        ([NEW, ColumnChange("widen", "a", "bigint", "int")], 'column "a" BIGINT is added'),
        ([ColumnChange("relax", "a")], ""),
        # What takes columns by their place sees it (O1, R4).
        ([ORDER], "the order of the columns is b, a"),
        ([ORDER, ColumnChange("reorder", "a, b", was="b, a")], ""),
        # A log of an earlier release does not say what it was.
        ([ColumnChange("reorder", "b, a")], ""),
    ],
)
def test_E2_E3_changes_that_cancel_out_are_none(changes: list[ColumnChange], said: str) -> None:
    found = described(in_all(changes))
    assert found == said if not said.endswith("widened") else found.startswith(said)


S_COLUMNS = "amount INT; shop VARCHAR; at STRUCT<x INT, y STRUCT<z INT>>; xs STRUCT<k INT>[]; m INT"
RELATIONS = f"""
CREATE TABLE s ({S_COLUMNS.replace(";", ",")}, ts TIMESTAMP, WATERMARK FOR ts AS ts) APPEND ONLY;
CREATE TABLE t (id INT, name VARCHAR, m INT, at STRUCT<x INT>, ts TIMESTAMP, WATERMARK FOR ts AS ts) APPEND ONLY;
"""
HOUR = "TUMBLE(s, ts, INTERVAL '1 hour')"
#: A query; which columns of s it reads; and names that it has, but that are no columns of s.
QUERIES = [
    (
        f"SELECT window_start, count(*) AS n, sum(amount) AS revenue FROM {HOUR} GROUP BY window_start",
        "amount ts window_start",
        "n revenue hour tumble count sum s",
    ),
    # A name that is an alias, and may be a column once there is one.
    (f"SELECT window_end, count(*) AS n FROM {HOUR} GROUP BY window_end HAVING n > 1", "n ts", "hour"),
    (f"SELECT window_end, shop AS k, count(*) AS n FROM {HOUR} GROUP BY window_end, k", "k shop", "n amount"),
    ("SELECT ts, shop, 'amount' AS \"from\" FROM s WHERE m > 1 -- at", "ts shop m", "amount from at"),
    ("SELECT ts, CASE WHEN amount > 1 THEN CAST(m AS BIGINT) END AS c FROM s", "amount m", "bigint c shop"),
    ("SELECT ts, transform(xs, e -> e.k + m) AS ks FROM s", "xs m", "e k ks"),
    ("SELECT ts, sum(amount) FILTER (WHERE m > 1) OVER w AS n FROM s WINDOW w AS (PARTITION BY shop ORDER BY ts)",
     "amount m shop ts", "n w at"),
    ("SELECT ts, lag(m) OVER (PARTITION BY shop ORDER BY ts) AS n FROM s", "m shop ts", "n lag amount"),
    # Stars.
    ("SELECT * FROM s", "amount whatever", ""),
    ("SELECT a.* FROM s AS a JOIN t ON a.ts = t.ts", "whatever", ""),
    ("SELECT t.* , s.m AS own FROM s JOIN t ON s.ts = t.ts", "m ts", "name id own amount"),
    ("SELECT * FROM (SELECT ts, amount AS n FROM s) q", "ts amount", "n q shop"),
    ("WITH c AS (SELECT * FROM s) SELECT ts, m FROM c", "whatever", ""),
    ("SELECT window_end, count(DISTINCT shop) AS n FROM TUMBLE((SELECT ts, shop FROM s), ts, INTERVAL '1 day') "
     "GROUP BY window_end", "ts shop", "n window_end day"),
    # Names of sides.
    ("SELECT a.ts, a.amount, b.name FROM s AS a JOIN t AS b ON a.ts = b.ts AND a.m = b.id",
     "ts amount m a b", "name id"),
    ("SELECT s.ts, name FROM s JOIN t ON s.ts = t.ts", "ts name", "id amount"),
    ("SELECT s.ts, s.amount FROM s JOIN t USING (ts, m)", "ts m amount", "id"),
    ("SELECT s.ts, s.amount FROM s NATURAL JOIN t", "whatever", ""),
    ("SELECT ts, amount FROM s UNION ALL SELECT ts, id FROM t", "ts amount", "id name m"),
    ("WITH c AS (SELECT ts, amount AS n, m FROM s) SELECT ts, n, c.m FROM c", "ts amount m", "n c shop"),
    ("SELECT q.n, q.ts FROM (SELECT ts, amount AS n FROM s) AS q JOIN t ON q.ts = t.ts", "ts amount", "n q id"),
    ("SELECT s.ts, n FROM s JOIN (SELECT ts, id AS n FROM t) AS q ON s.ts = q.ts", "ts n q", "id m"),
    # Fields.
    ("SELECT ts, at.x AS a FROM s", "at.x at", "at.y at.w x a"),
    ("SELECT ts, s.at.y.z AS a FROM s", "at.y.z at.y at", "at.x at.y.w z"),
    ("SELECT ts, (at).x AS a FROM s", "at.x at", "at.y"),
    ("SELECT ts, at FROM s", "at at.x at.new", "x new"),
    ("SELECT ts, at.y AS a FROM s WHERE at IS NOT NULL", "at.x at.new", "new"),
    ("SELECT ts, xs[0].k AS a FROM s", "xs xs.k xs.new", "k new"),
    ("SELECT S.TS, Amount FROM S", "ts amount", "shop"),
]  # fmt: skip


@pytest.mark.parametrize(("query", "reads", "others"), QUERIES)
@pytest.mark.parametrize("emit", [" EMIT ON WINDOW CLOSE", ""])
def test_E3_a_view_is_concerned_by_the_columns_that_its_statement_reads(
    query: str, reads: str, others: str, emit: str
) -> None:
    text = f"CREATE MATERIALIZED VIEW v AS {query}{emit}"
    named = named_in(_view(text), text, "s")
    paths = [tuple(name.split(".")) for name in f"{reads} {others}".split()]
    assert [".".join(path) for path in paths if named.reads(path)] == reads.split()


@pytest.mark.parametrize("query", [query for query, _, _ in QUERIES])
def test_E3_a_view_that_reads_as_another_one_is_concerned(query: str) -> None:
    """As the analysis has it: with a column of every word of the statement, and without each column that there is."""
    text = f"CREATE MATERIALIZED VIEW v AS {query};"

    def meaning(relations: str) -> str:
        try:
            catalog = load(Catalog(), relations + text)
        except TidegateError as problem:
            return problem.message
        found = catalog.get("v")
        assert isinstance(found, View)
        over = found.over.functions if found.over is not None else ()
        return repr((found.columns, column_lineage(catalog, found), found.group_columns, found.clock, over))

    named, before, columns = named_in(_view(text), text, "s"), meaning(RELATIONS), S_COLUMNS.split("; ")
    for word in {word.lower() for word in re.findall(r"\w+", query)}:
        if word not in [column.split()[0] for column in columns]:
            after = meaning(
                RELATIONS.replace(S_COLUMNS.replace(";", ","), f'{", ".join(columns)}, "{word}" INT')
            )
            assert after == before or named.reads((word,)), word
    for column in columns:
        left = ", ".join(one for one in columns if one != column)
        after = meaning(RELATIONS.replace(S_COLUMNS.replace(";", ","), left))
        assert after == before or named.reads((column.split()[0],)), column


def _view(text: str) -> View:
    """Some queries name an alias in a place for columns, which is no view as long as there is no such column."""
    try:
        found = load(Catalog(), f"{RELATIONS}{text};").get("v")
    except TidegateError:
        found = load(Catalog(), f"{RELATIONS}CREATE MATERIALIZED VIEW v AS SELECT ts FROM s;").get("v")
    assert isinstance(found, View)
    return found


@pytest.mark.parametrize(
    "query", ["SELECT ts FROM", "SELECT ts FROM s ORDER BY m LIMIT 1", "SELECT ts FROM q", "VALUES (1)"]
)
def test_E3_what_is_not_understood_concerns_a_view(query: str) -> None:
    assert named_in(_view(""), query, "s").reads(("whatever",))


@pytest.mark.parametrize(
    ("was", "now", "concerned_views"),
    [
        ("struct<x:int,y:int>", "struct<x:int,y:int,z:int>", "whole"),
        ("struct<x:int,y:int>", "struct<x:int,y:bigint>", "whole"),
        ("struct<x:int,y:int>", "struct<x:bigint,y:int>", "field whole"),
        ("struct<x:struct<a:int>>", "struct<x:struct<a:int,b:int>>", "field whole"),
        ("struct<x:int,y:array<struct<a:int>>>", "struct<x:int,y:array<struct<a:int,b:int>>>", "whole"),
        ("array<struct<x:int>>", "array<struct<x:int,y:int>>", "field whole"),
        (None, "struct<x:int,y:int,z:int>", "field whole"),
    ],
)
def test_E3_a_view_of_one_field_is_not_concerned_by_another_one(
    was: str | None, now: str, concerned_views: str
) -> None:
    queries = {"field": "SELECT ts, at.x FROM s", "whole": "SELECT ts, at FROM s"}
    change = ColumnChange("widen", "at", now, was)
    texts = {name: f"CREATE MATERIALIZED VIEW v AS {query}" for name, query in queries.items()}
    found = [name for name, text in texts.items() if [*concerned(_view(text), "s", text, [change])]]
    assert found == concerned_views.split()
