"""What the analysis writes, Spark understands as it was meant: windows of every kind, types, functions, C7."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date, datetime
from typing import TYPE_CHECKING, Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from sqlglot import exp

from infra.spark_functions import read_functions
from tests.sql.dialect.failing import BY_ITSELF, ENOUGH, FAILING, MUCH, ROW, TODAY
from tests.sql.dialect.test_attempts import written
from tests.sql.support import HERE, prelude
from tests.support.quick import engine_session
from tidegate.jvm.attempts import know_attempts
from tidegate.sql import CreateView, Select, View, analyse
from tidegate.sql.dialect.dialect import to_spark, tokenize
from tidegate.sql.dialect.functions import reach_of, spark_functions
from tidegate.sql.dialect.infer import infer
from tidegate.sql.dialect.parsing import parse_query
from tidegate.sql.dialect.query import Query
from tidegate.sql.dialect.rewrite import safe
from tidegate.sql.dialect.text import Text
from tidegate.sql.dialect.types import UNKNOWN

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

COUNTED = "CREATE MATERIALIZED VIEW v AS SELECT window_start, window_end, count(*) AS n FROM {} GROUP BY 1, 2"


def view(sql: str) -> View:
    (statement,) = analyse(sql, prelude())
    assert isinstance(statement, CreateView)
    return statement.view


def over(spark: SparkSession, found: View, rows: str, columns: str, query: Query | None = None) -> DataFrame:
    """The view's query over rows given as VALUES; the other columns of its one input are NULL."""
    know_attempts(spark)
    upstream = prelude().get(found.inputs[0].name)
    given = [c.strip() for c in columns.split(",")]
    names = ", ".join(f"`{c}`" for c in given)
    items = [
        f"CAST({c.name if c.name in given else 'NULL'} AS {c.type}) AS `{c.name}`" for c in upstream.columns
    ]
    items += ["'p' AS _source_partition", "monotonically_increasing_id() AS _offset"]
    spark.sql(f"SELECT {', '.join(items)} FROM VALUES {rows} AS t({names})").createOrReplaceTempView("_slice")
    return spark.sql((query or found.query_sql).spark_sql({"input_0": "_slice"}))


def counts(frame: DataFrame) -> list[tuple]:
    return sorted(tuple(row) for row in frame.select("window_start", "window_end", "n").collect())


def test_C1_tumble_start_is_inclusive_end_exclusive(spark: SparkSession) -> None:
    found = view(COUNTED.format("TUMBLE(orders, ts, INTERVAL '1 hour')"))
    rows = "('2013-01-01 05:00:00'), ('2013-01-01 05:59:59.999999'), ('2013-01-01 06:00:00'), ('1969-12-31 23:30:00')"
    frame = over(spark, found, rows, "ts")
    assert counts(frame) == [
        (datetime(1969, 12, 31, 23), datetime(1970, 1, 1), 1),
        (datetime(2013, 1, 1, 5), datetime(2013, 1, 1, 6), 2),
        (datetime(2013, 1, 1, 6), datetime(2013, 1, 1, 7), 1),
    ]
    assert dict(frame.dtypes) == {
        "window_start": "timestamp_ntz",
        "window_end": "timestamp_ntz",
        "n": "bigint",
        "_window_start": "timestamp_ntz",
        "_window_end": "timestamp_ntz",
        "_rows": "bigint",
    }


@pytest.mark.parametrize(
    ("call", "column", "rows"),
    [
        (
            "TUMBLE(orders, ts, INTERVAL '90 minutes', INTERVAL '-10 minutes')",
            "ts",
            ["2013-01-01 05:11:12.5"],
        ),
        (
            "HOP(orders, ts, INTERVAL '15 minutes', INTERVAL '1 hour', INTERVAL '5 minutes')",
            "ts",
            ["2013-01-01 05:04:59"],
        ),
        ("HOP(orders, ts, INTERVAL '1 day', INTERVAL '1 week')", "ts", ["1969-12-28 00:00:00"]),
        (
            "HOP(readings, tz, INTERVAL '20 seconds', INTERVAL '1 minute', INTERVAL '7 seconds')",
            "tz",
            ["2013-01-01 05:00:06"],
        ),
        (
            "HOP(days, d, INTERVAL '2 days', INTERVAL '6 days', INTERVAL '1 day')",
            "d",
            ["1969-12-31", "2013-02-28"],
        ),
        ("TUMBLE(days, d, INTERVAL '1 week')", "d", ["2013-02-28"]),
        ("HOP(ticks, e, 10, 30, 3)", "e", ["-8", "2", "3"]),
        ("TUMBLE(ticks, e, 7, 3)", "e", ["-8", "2", "3"]),
    ],
)
def test_C1_windows_are_those_of_the_watermark_room(
    spark: SparkSession, call: str, column: str, rows: list[str]
) -> None:
    found = view(COUNTED.format(call))
    frame = over(spark, found, ", ".join(f"('{r}')" for r in rows), column)
    starts = {start for row in rows for start in found.accounts.window.starts(found.kind.parse(row))}
    expected = sorted((found.kind.format(s), found.kind.format(found.accounts.window.end(s))) for s in starts)
    shown = sorted(
        (_iso(row["_window_start"], found), _iso(row["_window_end"], found)) for row in frame.collect()
    )
    assert shown == expected


def _iso(value: datetime | date | int, found: View) -> str:
    text = str(value)
    return f"{text}+00:00" if found.kind.name == "TIMESTAMPTZ" else text


def test_A1_rows_counts_source_rows_and_rows_sql_names_them(spark: SparkSession) -> None:
    found = view(
        "CREATE MATERIALIZED VIEW v AS SELECT window_end, upper(customer) AS who, "
        "count(*) FILTER (WHERE price > 1) AS dear "
        "FROM TUMBLE((SELECT ts + INTERVAL '1 hour' AS t, customer, price FROM orders WHERE price > 0), t, "
        "INTERVAL '1 hour') "
        "GROUP BY window_end, who"
    )
    rows = (
        "('2013-01-01 05:00:00', 'a', 1), ('2013-01-01 05:10:00', 'A', 2), ('2013-01-01 05:20:00', 'b', -1)"
    )
    (row,) = over(spark, found, rows, "ts, customer, price").collect()
    end = datetime(2013, 1, 1, 7)
    assert (row["window_end"], row["who"], row["dear"], row["_rows"], row["_window_end"]) == (
        end,
        "A",
        1,
        2,
        end,
    )
    named = over(spark, found, rows, "ts, customer, price", found.accounts.rows_sql)
    assert named.columns == [
        "_window_start",
        "_window_end",
        "_source_partition",
        "_offset",
        "window_end",
        "who",
    ]
    assert [(r["_offset"], r["who"]) for r in named.orderBy("_offset").collect()] == [(0, "A"), (1, "A")]


def test_C7_nothing_throws_and_nothing_wraps(spark: SparkSession) -> None:
    found = view(
        "CREATE MATERIALIZED VIEW v AS SELECT window_start, max(id + 1) AS over, sum(id) AS total, "
        "max(CAST(customer AS INT)) AS number, -min(id) AS negative, max(CAST(customer AS DATE)) AS day "
        "FROM TUMBLE(orders, ts, INTERVAL '1 hour') GROUP BY 1"
    )
    big = 2**63 - 1
    rows = f"('2013-01-01 05:00:00', {big}, 'x'), ('2013-01-01 05:00:00', {big}, 'y')"
    (row,) = over(spark, found, rows, "ts, id, customer").collect()
    assert (row["over"], row["total"], row["number"], row["negative"], row["day"]) == (
        None,
        None,
        None,
        -big,
        None,
    )


@pytest.mark.parametrize("every", [24, pytest.param(1, marks=pytest.mark.long_run)])
def test_C7_what_fails_on_a_row_is_null_there(spark: SparkSession, every: int) -> None:
    """And Spark alone fails there: asked of every 24th in CI, because that changes with Spark's version only."""
    session = engine_session(spark)
    session.sql(ROW).createOrReplaceTempView("_row")

    def value(sql: str) -> object:
        try:
            return session.sql(f"SELECT {sql} FROM _row").first()[0]
        except (PySparkException, Py4JJavaError) as error:
            return f"failed: {str(error)[:300]}"

    spark_alone = {name: value(sql) for name, sql in list(FAILING.items())[::every]}
    assert {name: found for name, found in spark_alone.items() if "failed: " not in str(found)} == {}
    asked = [*FAILING.values(), *MUCH, *TODAY, *BY_ITSELF]
    # In one job; if they are not all NULL, each by itself says which is not.
    if value(" AND ".join(f"({written(sql)} IS NULL)" for sql in asked)) is not True:
        alone = {sql: value(f"{written(sql)} IS NULL") for sql in asked}
        assert {sql: found for sql, found in alone.items() if found is not True} == {}
    assert {sql: value(written(sql)) for sql in ENOUGH} == ENOUGH


def test_view_types_are_those_of_spark(spark: SparkSession) -> None:
    text = (HERE / "cases" / "views.sql").read_text("utf-8")
    known = 0
    for statement in analyse(text, prelude()):
        assert isinstance(statement, CreateView)
        found = statement.view
        upstream = prelude().get(found.inputs[0].name)
        types = dict(over(spark, found, "(NULL)", upstream.columns[0].name).dtypes)
        over(spark, found, "(NULL)", upstream.columns[0].name, found.accounts.rows_sql)
        for column in found.columns:
            if column.type != UNKNOWN:
                assert types[column.name] == column.type, (found.name, column)
                known += 1
    assert known > 30


def test_the_list_of_functions_is_that_of_this_spark(spark: SparkSession) -> None:
    assert spark_functions() == {"try_cast": "scalar", **read_functions(spark)}


def test_W4_every_function_of_chance_or_the_clock_is_known_as_such(spark: SparkSession) -> None:
    """By the class that computes it; functions that are built of others have no class of their own."""
    catalog = spark._jsparkSession.sessionState().catalog()
    identifier = spark._jvm.org.apache.spark.sql.catalyst.FunctionIdentifier
    for_name, loader = (
        spark._jvm.java.lang.Class.forName,
        spark._jvm.Thread.currentThread().getContextClassLoader(),
    )
    room = "org.apache.spark.sql.catalyst.expressions."
    varying = [
        for_name(room + kind, False, loader) for kind in ("Nondeterministic", "ExpressionWithRandomSeed")
    ]
    found = set()
    for name in spark_functions():
        if not spark.catalog.functionExists(name):
            continue
        made_by = for_name(catalog.lookupFunctionInfo(identifier(name)).getClassName(), False, loader)
        if any(kind.isAssignableFrom(made_by) for kind in varying):
            found.add(name)
    assert found >= {"uuid", "shuffle", "spark_partition_id"}
    assert not [name for name in found if reach_of(name) == "pure"]


def test_system_and_user_names_are_quoted(spark: SparkSession) -> None:
    (statement,) = analyse('SELECT "late_by", "orders$late".id FROM "orders$late"', prelude())
    assert isinstance(statement, Select)
    spark.sql("SELECT 1 AS id, 2 AS late_by").createOrReplaceTempView("`orders$late`")
    assert [tuple(r) for r in spark.sql(statement.spark_sql).collect()] == [(2, 1)]


# Answers that depend on the clock, on chance or on the machine.
_VARYING = re.compile(
    r"rand|uuid|now\(|current_|curdate|localtimestamp|shuffle|monotonic|unix_timestamp\(\)|uniform|session_user|"
    r"user\(\)|input_file|spark_partition|aes_encrypt|worker_logs|assert_true|raise_error|TIME'",
    re.IGNORECASE,
)
# Spellings of Spark that the dialect refuses.
_REFUSED = re.compile(r">>>|X '|VALUES '")


@pytest.mark.slow
@pytest.mark.parametrize("every", [24, pytest.param(1, marks=pytest.mark.long_run)])
def test_every_example_of_sparks_documentation_means_the_same(spark: SparkSession, every: int) -> None:
    """Through the dialect and back: same rows. And what the type inference claims to know is so. Of every 24th
    function in CI: what they mean changes with Spark's version only."""
    know_attempts(spark)
    compared, typed, wrong = 0, 0, []
    for query, theirs in _examples(spark, every):
        text = Text(query)
        node = parse_query(text, tokenize(text))
        again = spark.sql(to_spark(node))
        # The same plan has the same rows; another one is asked for them.
        if not _plan(again).sameResult(_plan(theirs)) and (truth := _rows(theirs)) is not None:
            assert _rows(again) == truth, query
        compared += 1
        if not isinstance(node, exp.Select) or len(node.expressions) != len(again.columns):
            continue
        for item, (_, type_) in zip(node.expressions, again.dtypes, strict=True):
            found = infer(item, lambda _: None)
            if found is not None and found.is_exact:
                typed += 1
                if str(found) != type_:
                    wrong.append((query, str(found), type_))
        careful = node.copy()
        careful.set("expressions", [safe(item, lambda _: None) for item in node.expressions])
        if careful != node and (truth := _rows(again)) is not None:
            frame = spark.sql(to_spark(careful))
            assert (_rows(frame), _types(frame)) == (truth, _types(again)), query
    assert wrong == []
    assert compared > 700 / every
    assert typed > 250 / every


def _examples(spark: SparkSession, every: int) -> Iterator[tuple[str, DataFrame]]:
    """The queries of Spark's documentation that the dialect takes, and Spark's own reading of them: those of one
    function in `every`."""
    catalog = spark._jsparkSession.sessionState().catalog()
    identifier = spark._jvm.org.apache.spark.sql.catalyst.FunctionIdentifier
    for name in list(filter(spark.catalog.functionExists, sorted(spark_functions())))[::every]:
        examples = catalog.lookupFunctionInfo(identifier(name)).getExamples()
        for query in dict.fromkeys(re.findall(r">\s*(SELECT .*?);\s*\n", examples, re.DOTALL)):
            if _VARYING.search(query) or _REFUSED.search(query) or '"' in query:
                continue
            try:
                theirs = spark.sql(query)
            except Exception:
                # Examples of errors.
                continue
            yield query, theirs


def _plan(frame: DataFrame) -> Any:
    return frame._jdf.queryExecution().analyzed()


def _types(frame: DataFrame) -> list[str]:
    return [type_ for _, type_ in frame.dtypes]


def _rows(frame: DataFrame) -> list[str] | None:
    """None for an example of an error."""
    try:
        return sorted(str(tuple(row)) for row in frame.limit(50).collect())
    except Exception:
        return None
