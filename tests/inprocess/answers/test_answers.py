"""What is answered without the server is what the server answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest

from tests.inprocess import held
from tests.inprocess.answers.plans import answer
from tests.inprocess.answers.terms import Declined
from tests.inprocess.session import new_spark, without_a_jvm

pytestmark = pytest.mark.medium

_STRUCT = pa.struct([("a", pa.int32()), ("B", pa.string())])
ROWS = pa.table(
    {
        "id": pa.array([1, 2, 3, None, 5, 2], pa.int32()),
        "big": pa.array([2**40, -1, 0, 7, None, -(2**40)], pa.int64()),
        "text": pa.array(["a", None, "", "B b", "ä", "a"], pa.string()),
        "bytes": pa.array([b"a", b"", None, b"b", b"\xc3\xa4", b"c"], pa.binary()),
        "yes": pa.array([True, False, None, True, None, False], pa.bool_()),
        "at": pa.array([0, 1, None, 10**15, -5, 1], pa.timestamp("us")),
        "since": pa.array([0, 1, None, 10**15, -5, 1], pa.timestamp("us", "UTC")),
        "pair": pa.array(
            [{"a": 1, "B": "x"}, None, {"a": None, "B": None}, None, {"a": 2, "B": ""}, None], _STRUCT
        ),
        "pairs": pa.array(
            [[{"a": 1, "B": "x"}], [], None, [{"a": 2, "B": None}] * 2, None, []], pa.list_(_STRUCT)
        ),
        "odd name": pa.array([1, 1, 2, 2, 3, 3], pa.int32()),
    }
)


@pytest.fixture(scope="module", autouse=True)
def in_process() -> Iterator[None]:
    with without_a_jvm():
        yield


def of_server() -> Any:
    """A session whose questions all go to the server."""
    spark: Any = new_spark()
    spark.conf.set("spark.tidegate.cores", "3")
    assert not spark.conf.answers
    return spark


def is_answered(frame: Any) -> bool:
    try:
        answer(frame._plan).table()
    except Declined:
        return False
    return True


def shown(rows: pa.Table, in_order: bool = False) -> tuple[Any, ...]:
    """Names, types and rows, which nothing says the order of unless it is asked for."""
    names = [name for name in rows.column_names if not name.startswith("?")]
    kinds = [str(column.type).replace("item", "element").replace(" not null", "") for column in rows.columns]
    found = [repr(row) for row in zip(*(column.to_pylist() for column in rows.columns), strict=True)]
    return names or kinds, kinds, found if in_order else sorted(found)


def same(ask: Callable[[Any], Any], rows: pa.Table = ROWS, in_order: bool = False) -> None:
    """It is answered, and as the server does; its columns, too, and so it is without rows."""
    for some in (rows, rows.slice(0, 0), rows.slice(1, 3)):
        frame = ask(held.frame_of(new_spark(), some))
        assert is_answered(frame)
        told = ask(held.frame_of(of_server(), some)).toArrow()
        if any(name.startswith("?") for name in frame.toArrow().column_names):
            told = told.rename_columns(frame.toArrow().column_names)
        assert shown(frame.toArrow(), in_order) == shown(told, in_order)
        columns = ask(held.frame_of(new_spark(), some))
        assert [(one.name, one.dataType) for one in columns.schema] == [
            (one.name, one.dataType) for one in frame.schema
        ]


@pytest.mark.parametrize(
    "text",
    [
        "id",
        "`odd name`",
        "id = 2 AS x",
        "id <> 2 AS x",
        "id < big AS x",
        "text >= 'a' AS x",
        "at > TIMESTAMP_NTZ '1970-01-01 00:00:00' AS x",
        "id <=> NULL AS x",
        "text <=> 'a' AS x",
        "yes AND id > 1 AS x",
        "yes OR id > 1 AS x",
        "NOT yes AS x",
        "NULL AND yes AS x",
        "id IS NULL AS x",
        "id IS NOT NULL AS x",
        "pair IS NULL AS x",
        "coalesce(id, 7) AS x",
        "coalesce(NULL, text, 'z') AS x",
        "coalesce(id, big) AS x",
        "CASE WHEN yes THEN id WHEN id > 2 THEN 9 END AS x",
        "CASE WHEN yes THEN NULL ELSE text END AS x",
        "IF(yes, 1L, id) AS x",
        "id + 1 AS x",
        "id - big AS x",
        "id + 2147483647 AS x",
        "try_add(big, 1L) AS x",
        "try_add(at, INTERVAL '0.000001' SECOND) AS x",
        "try_subtract(at, INTERVAL '90' MINUTES) AS x",
        "id IN (1, 3) AS x",
        "text IN ('a', '') AS x",
        "CAST(id AS BIGINT) AS x",
        "CAST(id AS STRING) AS x",
        "CAST(NULL AS STRING) AS x",
        "CAST(NULL AS struct<a: int, b: array<string>>) AS x",
        "CAST(at AS TIMESTAMP_LTZ) AS x",
        "CAST(since AS TIMESTAMP_NTZ) AS x",
        "unix_micros(since) AS x",
        "timestamp_micros(big) AS x",
        "pmod(big, 86400000000L) AS x",
        "(big - -9999999L) div 1000L AS x",
        "named_struct('n', id, 'm', text) AS x",
        "row_number() OVER (PARTITION BY yes ORDER BY at, big, id) AS x",
        "lead(id) OVER (PARTITION BY yes ORDER BY at, big, id) AS x",
        "lag(text, 2) OVER (ORDER BY at DESC, big, id) AS x",
        "first_value(id) OVER (ORDER BY at, big ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) AS x",
        "count(*) OVER (PARTITION BY yes ORDER BY at, big ROWS BETWEEN 2 PRECEDING AND 1 PRECEDING) AS x",
        "count(id) OVER (PARTITION BY `odd name`) AS x",
        "sum(id) OVER (ORDER BY at RANGE BETWEEN CURRENT ROW AND CURRENT ROW) AS x",
        "max(at) OVER (PARTITION BY yes ORDER BY at) AS x",
        "min(text) OVER (PARTITION BY yes) AS x",
    ],
)
def test_a_text(text: str) -> None:
    same(lambda frame: frame.selectExpr("id AS i", text))


def _questions() -> dict[str, Callable[[Any], Any]]:
    return _of_columns() | _of_rows()


def _of_columns() -> dict[str, Callable[[Any], Any]]:
    """Questions by PySpark's functions."""
    from pyspark.sql import functions as F

    return {
        "star": lambda frame: frame.select("*", F.col("id").alias("x")),
        # (Sail takes what lies under a value that is NULL.)
        "fields": lambda frame: frame.where("pair IS NOT NULL").select("pair.*", F.col("pair.a").alias("x")),
        "literals": lambda frame: frame.select(F.lit("a").alias("x"), F.lit(None).cast("string").alias("y")),
        "named anew": lambda frame: frame.withColumn("ID", F.lit(1)).withColumn("new", F.col("ID") + 1),
        "where": lambda frame: frame.where((F.col("id") > 1) & ~F.coalesce(F.col("yes"), F.lit(False))),
        "nothing": lambda frame: frame.where("false"),
        "limit": lambda frame: frame.limit(2),
        "drop": lambda frame: frame.drop("ID", "missing"),
        "renamed": lambda frame: frame.select("id", "text").toDF("a", "b.c"),
        "alias of a struct": lambda frame: frame.select("id", "pair").alias("pair").select("pair.*"),
        "alias and more": lambda frame: frame.alias("t").withColumn("x", F.lit(1)).selectExpr("t.id AS x"),
        "alias": lambda frame: frame.alias("t").where("t.id = 2").selectExpr("t.text AS x"),
        "texts": lambda frame: frame.select(
            F.concat("text", F.lit("-"), "text").alias("a"),
            F.concat_ws("/", F.coalesce(F.col("text"), F.lit("(null)")), "text").alias("b"),
            F.replace(F.col("text"), F.lit("a"), F.lit("%61+")).alias("c"),
            F.url_decode(F.lit("a%20b+c")).alias("d"),
            F.regexp_replace(F.concat(F.lit("file:/"), "text"), "^file:/+", "file:///").alias("e"),
            F.octet_length("bytes").alias("f"),
            # (Of NULL, Sail says that it is none.)
            F.is_valid_utf8(F.coalesce(F.col("bytes"), F.lit(b"")).cast("string")).alias("g"),
            F.concat_ws("/", F.when(F.col("yes"), F.col("text"))).alias("h"),
        ),
    }


def _of_rows() -> dict[str, Callable[[Any], Any]]:
    """The same of several rows at once."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    def day() -> Any:
        return Window.partitionBy("yes").orderBy(F.col("at").desc(), "big", "id")

    return {
        "groups": lambda frame: frame.groupBy("yes").agg(
            F.count(F.lit(1)).alias("n"),
            F.count("id").alias("ids"),
            F.count_distinct("id").alias("distinct"),
            F.count_if(F.col("id") > 1).alias("some"),
            F.sum("id").alias("sum"),
            F.min("at").alias("first"),
            F.max("text").alias("last"),
            (F.count("big") - F.count_distinct("big")).alias("repeated"),
        ),
        "all": lambda frame: frame.agg(
            F.count(F.lit(1)).alias("n"), F.coalesce(F.sum("id"), F.lit(0)).alias("s")
        ),
        "distinct": lambda frame: frame.select("yes", "odd name").distinct(),
        "semi": lambda frame: frame.join(
            frame.where("id > 1").select("id", "yes"), ["id", "yes"], "left_semi"
        ),
        "anti": lambda frame: frame.join(frame.where("id > 1").select("id"), "id", "left_anti"),
        "union": lambda frame: frame.select("id", "text").unionByName(
            frame.select("text", "id").where("id = 1")
        ),
        "inline": lambda frame: frame.selectExpr("inline(pairs)"),
        "number": lambda frame: frame.withColumn("n", F.row_number().over(day())).where("n = 1"),
        "next": lambda frame: frame.withColumn("n", F.lead("id", 1).over(day())),
        "any": lambda frame: frame.withColumn("n", F.max(F.col("id").isNull()).over(day())),
        "read": lambda frame: frame.select(
            F.from_json(F.lit(None).cast("string"), "a int, b string").alias("x")
        ),
    }


@pytest.mark.parametrize("name", _questions())
def test_a_question(name: str) -> None:
    same(_questions()[name])


def test_fields_of_what_is_null_are_null() -> None:
    pair = pa.StructArray.from_arrays(
        [pa.array([1, 2, 3], pa.int32())], names=["a"], mask=pa.array([False, True, False])
    )
    for rows in (pa.table({"pair": pair}), pa.table({"pair": pair.slice(1)})):
        frame = held.frame_of(new_spark(), rows).selectExpr("pair.a AS x")
        assert is_answered(frame)
        assert frame.toArrow()["x"].to_pylist() == [
            None if one is None else one["a"] for one in rows["pair"].to_pylist()
        ]


@pytest.mark.parametrize("nulls", ["FIRST", "LAST"])
@pytest.mark.parametrize("way", ["ASC", "DESC"])
def test_an_order(nulls: str, way: str) -> None:
    from pyspark.sql import functions as F

    by = {"ASCFIRST": "asc_nulls_first", "ASCLAST": "asc_nulls_last"}
    by |= {"DESCFIRST": "desc_nulls_first", "DESCLAST": "desc_nulls_last"}
    same(lambda frame: frame.orderBy(getattr(F.col("text"), by[way + nulls])(), "big"), in_order=True)


def test_a_query_over_views() -> None:
    def ask(frame: Any) -> Any:
        frame.createOrReplaceTempView("rows")
        return frame.sparkSession.sql(
            "SELECT `id`, x, 1L AS `n` FROM (SELECT *, `text` AS x FROM `rows`) WHERE `id` > 1"
        )

    same(ask)


@pytest.mark.parametrize(
    "text",
    [
        "CAST(text AS INT) AS x",
        "CAST(big AS INT) AS x",
        "CAST(at AS STRING) AS x",
        "id / 2 AS x",
        "CAST(id AS DOUBLE) = 1.0D AS x",
        "rand() AS x",
        "upper(text) AS x",
        "text LIKE 'a%' AS x",
        "id = text AS x",
        "try_add(9223372036854775807L, big) AS x",
        "first_value(id) IGNORE NULLS OVER (ORDER BY at) AS x",
        "count(DISTINCT id) OVER (PARTITION BY yes) AS x",
        "sum(id) OVER (ORDER BY at RANGE BETWEEN INTERVAL '1' DAY PRECEDING AND CURRENT ROW) AS x",
        "ID AS x",
        "missing AS x",
        "pair.c AS x",
        "1.5 AS x",
        "INTERVAL '1' MONTH AS x",
        "INTERVAL '1' DAY AS x",
        "at + INTERVAL '1.5' DAY AS x",
        "id + 1",
        "struct(id = 1) AS x",
        "-CAST('3' AS STRING) AS x",
        "yes = id < 2 AS x",
        "yes <=> id IN (1, 2) AS x",
        "TIMESTAMP '2020-01-01 00:00:00+02:00' AS x",
        "TIMESTAMP_NTZ '20200101' AS x",
        "inline(pairs) AS (a, b)",
        "count(1) OVER (PARTITION BY pair) AS x",
        "aggregate(array(id), 0, (a, b) -> a + b) AS x",
        "CAST(99999999999999999999 AS BIGINT) AS x",
    ],
)
def test_what_the_server_is_asked(text: str) -> None:
    assert not is_answered(held.frame_of(new_spark(), ROWS).selectExpr("id AS i", text))


def test_other_questions_that_the_server_is_asked() -> None:
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    frame = held.frame_of(new_spark(), ROWS)
    some = Window.orderBy("at").rowsBetween(-5, 5)
    empty = F.array().cast("array<int>")
    asked = [
        frame.select(F.first_value("id", True).over(some).alias("x")),
        frame.select(F.aggregate(empty, F.lit(5), lambda a, b: a + b, lambda a: a * 10).alias("x")),
        frame.select(F.col("id").isin([]).alias("x")),
        frame.groupBy("yes").agg(F.try_sum(F.col("big") + F.lit(2**62) + F.lit(2**61)).alias("x")),
    ]
    assert [is_answered(one) for one in asked] == [False] * 4
    assert frame.drop(*frame.columns).count() == ROWS.num_rows
    assert not frame.select().isEmpty()
    spark: Any = new_spark()
    spark.conf.set("spark.sql.caseSensitive", "true")
    assert not spark.conf.answers


def test_times_before_1970_and_far_away() -> None:
    texts = ["1969-12-31 23:59:59.5", "9999-12-31 23:59:59.999999", "2026-01-01"]
    same(
        lambda frame: frame.selectExpr(*(f"TIMESTAMP_NTZ '{text}' AS x{at}" for at, text in enumerate(texts)))
    )


def test_a_column_of_a_view_is_named_by_the_alias() -> None:
    from pyspark.sql import functions as F

    def ask(frame: Any) -> Any:
        left = frame.select("id", "text").alias("l").withColumn("x", F.lit(1))
        return left.join(frame.select("id").alias("r"), F.col("l.id") == F.col("r.id")).select("l.text", "x")

    frame = ask(held.frame_of(new_spark(), ROWS))
    assert shown(frame.toArrow()) == shown(ask(held.frame_of(of_server(), ROWS)).toArrow())


def test_what_is_left_for_the_server_has_rows_in_the_place_of_what_is_answered() -> None:
    def ask(frame: Any) -> Any:
        return frame.where("id > 1").selectExpr("id + 1 AS a").selectExpr("a * 2 AS b").where("b > 6")

    frame = ask(held.frame_of(new_spark(), ROWS))
    assert not is_answered(frame)
    left = held._rest(frame)._plan
    assert type(left._child._child).__name__ == "HeldRows"
    assert shown(frame.toArrow()) == shown(ask(held.frame_of(of_server(), ROWS)).toArrow())


@pytest.mark.slow
@pytest.mark.parametrize("first", range(300, 330, 6))
def test_histories_get_the_answers_of_the_server(first: int, monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.simulate.play import play
    from tests.simulate.scripts.script import script_of

    computed, compared = held._computed, list[int]()

    def both(frame: Any) -> pa.Table | None:
        known = held.rows_of(frame) is not None or type(frame._plan).__name__ == "HeldRows"
        found = computed(frame)
        if found is not None and not known:
            told = type(frame)(frame._plan, of_server()).toArrow()
            named = told.rename_columns(found.column_names) if "?" in str(found.column_names) else told
            assert shown(found) == shown(named)
            compared.append(found.num_rows)
        return found

    monkeypatch.setattr(held, "_computed", both)
    for seed in range(first, first + 3):
        assert play(script_of(seed)).wrong is None
    assert compared
