"""WHERE of plain windows (`conditions.py`) beside Spark's SQL over the same rows, and what is left to SQL."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from tests.sql.support import load
from tidegate.sql import Catalog
from tidegate.sql.catalog.objects import View
from tidegate.tasks.conditions import fulfilled
from tidegate.tasks.pane_parts import by_position
from tidegate.watermark import PaneWindows, RowCondition, Value

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SOURCE = """
CREATE TABLE t (ts TIMESTAMP, k VARCHAR, v BIGINT, i INT, b BOOLEAN, f DOUBLE, d DATE, n DECIMAL(10, 2),
  WATERMARK FOR ts AS ts - INTERVAL '5 seconds') APPEND ONLY;
"""


def pane_windows(where: str) -> PaneWindows | None:
    view = f"""CREATE MATERIALIZED VIEW w AS SELECT window_end, count(*) AS n
        FROM TUMBLE(t, ts, INTERVAL '10 seconds') WHERE {where} GROUP BY window_end EMIT ON WINDOW CLOSE;"""
    found = load(Catalog(), SOURCE + view).get("w")
    assert isinstance(found, View)
    return found.pane_windows


NUMBERS = ("v", "i", "v % 3", "(i % 7)")
TEXTS = ("''", "'a'", "'b'", "'aa'", "'é'", "'%'")


def some_condition(chance: random.Random, depth: int = 3) -> str:
    def number() -> str:
        return chance.choice([*NUMBERS, str(chance.randint(-4, 4)), "9223372036854775807"])

    def text() -> str:
        return chance.choice(["k", *TEXTS])

    def sign() -> str:
        return chance.choice(["=", "<>", "!=", "<", "<=", ">", ">="])

    def inner() -> str:
        return f"({some_condition(chance, depth - 1)})"

    def negated() -> str:
        return chance.choice(["", "NOT "])

    simple: list[Callable[[], str]] = [
        lambda: f"{chance.choice(NUMBERS)} {sign()} {number()}",
        lambda: f"k {sign()} {text()}",
        lambda: f"b {chance.choice(['=', '<>'])} {chance.choice(['TRUE', 'FALSE', 'b'])}",
        lambda: "b",
        lambda: f"{chance.choice('kvib')} IS {negated()}NULL",
        lambda: (
            f"{chance.choice(NUMBERS)} {negated()}IN ({', '.join(str(chance.randint(-3, 3)) for _ in range(3))})"
        ),
        lambda: f"k {negated()}IN ({', '.join(chance.sample(TEXTS, 2))})",
        lambda: f"{chance.choice(NUMBERS)} {negated()}BETWEEN {number()} AND {number()}",
        lambda: f"1 {sign()} {number()}",
    ]
    combined: list[Callable[[], str]] = [
        lambda: f"{inner()} AND {inner()}",
        lambda: f"{inner()} OR {inner()}",
        lambda: f"NOT {inner()}",
    ]
    return chance.choice(combined if depth and chance.random() < 0.6 else simple)()


@pytest.mark.spark
def test_it_lets_through_the_rows_that_sparks_sql_does(spark: SparkSession) -> None:
    chance = random.Random(7)
    size, big = 200, 2**63 - 1
    rows = pa.RecordBatch.from_pydict(
        {
            "k": chance.choices([None, "", "a", "b", "aa", "é", "%"], k=size),
            "v": pa.array(chance.choices([None, *range(-5, 6), big, -big - 1], k=size), pa.int64()),
            "i": pa.array(chance.choices([None, *range(-5, 6), 2**31 - 1], k=size), pa.int32()),
            "b": pa.array(chance.choices([None, True, False], k=size), pa.bool_()),
        }
    )
    conditions = sorted({some_condition(chance) for _ in range(250)})
    ours = {}
    for where in conditions:
        found = pane_windows(where)
        assert found is not None, where
        assert found.condition is not None
        assert set(by_position(found)[1]) <= {"ts", *"kvib"}
        ours[where] = fulfilled(found.condition, rows).to_pylist()
    frame = spark.createDataFrame(pa.Table.from_batches([rows]))
    theirs = frame.selectExpr(
        *[f"coalesce({where}, false) AS c{n}" for n, where in enumerate(conditions)]
    ).collect()
    for n, where in enumerate(conditions):
        assert ours[where] == [row[n] for row in theirs], where
    assert any(any(found) and not all(found) for found in ours.values())


@pytest.mark.parametrize(
    "where",
    [
        "f > 1",  # NaN is the largest number to Spark
        "n = 1",
        "d = DATE '2026-01-01'",
        "ts > TIMESTAMP '2026-01-01 00:00:00'",
        "window_end > TIMESTAMP '2026-01-01 00:00:00'",
        "v = '1'",
        "v = 1.0",
        "v = 9223372036854775808",
        "v + 1 = 2",
        "v % 0 = 1",
        "v % -2 = 1",
        "v % i = 1",
        "k LIKE 'a%'",
        "upper(k) = 'A'",
        "b > FALSE",
        "v = NULL",
        "k IN ('a', NULL)",
        "b AND f > 1",
        "v IS DISTINCT FROM 1",
    ],
)
def test_the_rest_is_sql(where: str) -> None:
    assert pane_windows(where) is None


def test_what_where_says() -> None:
    found = pane_windows("k = 'a' AND NOT (v % 50 <> 3 OR b)")
    assert found is not None
    rest = RowCondition("%", (Value("v", "bigint"), 50))
    assert found.condition == RowCondition(
        "and",
        (
            RowCondition("=", (Value("k", "string"), "a")),
            RowCondition(
                "not", (RowCondition("or", (RowCondition("<>", (rest, 3)), Value("b", "boolean"))),)
            ),
        ),
    )
