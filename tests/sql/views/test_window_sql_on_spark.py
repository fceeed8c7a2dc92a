"""C1 and C3: the SQL that gives rows their windows, on Spark, against plain Python: many windows and times in a job."""

from __future__ import annotations

import random
from collections import Counter
from typing import TYPE_CHECKING

import pytest
from sqlglot import exp

from tests.oracles.oracle import Row
from tests.oracles.sessions import sessions
from tidegate.sql.dialect.dialect import Read, to_spark
from tidegate.sql.views.window_sql import session_sql, window_sql
from tidegate.watermark import CalendarHop, CalendarTumble, Cumulate, Hop, TimeKind, Tumble, Window

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

DAY = 86_400_000_000
TYPES = {
    TimeKind.TIMESTAMP: "timestamp_ntz",
    TimeKind.TIMESTAMPTZ: "timestamp",
    TimeKind.DATE: "date",
    TimeKind.EPOCH: "bigint",
}
#: A bigint as a time, and a time as a bigint.
TIME = {
    TimeKind.TIMESTAMP: "CAST(timestamp_micros({}) AS TIMESTAMP_NTZ)",
    TimeKind.TIMESTAMPTZ: "timestamp_micros({})",
    TimeKind.DATE: "date_from_unix_date({})",
    TimeKind.EPOCH: "{}",
}
TICKS = {
    TimeKind.TIMESTAMP: "unix_micros(CAST({} AS TIMESTAMP))",
    TimeKind.TIMESTAMPTZ: "unix_micros({})",
    TimeKind.DATE: "CAST(unix_date({}) AS BIGINT)",
    TimeKind.EPOCH: "{}",
}
TIMES, EVENTS = Read(this="times"), Read(this="events")


def text(item: exp.Expr) -> str:
    return to_spark(item, {"times": "times", "events": "events"})


def some_window(chance: random.Random, kind: TimeKind) -> Window:
    if kind is not TimeKind.EPOCH and chance.random() < 0.5:
        slide = chance.choice([1, 1, 2, 3, 4, 6, 12, 24])
        months = chance.choice([0, 0, 1, 3, -5, 17])
        days = chance.choice([0, 0, 5, -40, 400]) * (1 if kind is TimeKind.DATE else DAY) + (
            0 if kind is TimeKind.DATE else chance.choice([0, 1, -3_600_000_000])
        )
        if chance.random() < 0.5:
            return CalendarTumble(kind, slide, months, days)
        return CalendarHop(kind, slide, slide * chance.randint(1, 4), months, days)
    unit = 1 if kind in (TimeKind.DATE, TimeKind.EPOCH) else chance.choice([1_000, 1_000_000, 3_600_000_000])
    slide = chance.randint(1, 30) * unit
    size, offset = slide * chance.randint(1, 5), chance.randint(-50, 50) * unit
    return chance.choice([Tumble(size, offset), Hop(slide, size, offset), Cumulate(slide, size, offset)])


def some_times(chance: random.Random, kind: TimeKind) -> list[int]:
    """Around now, around the epoch, on the edges of days, before 1900."""
    unit = 1 if kind in (TimeKind.DATE, TimeKind.EPOCH) else DAY
    days = (
        [chance.randint(-40_000, 40_000) for _ in range(20)] + list(range(-3, 4)) + [11_016, 19_782, -25_509]
    )
    times = [day * unit for day in days]
    return times if unit == 1 else times + [t + chance.randint(-DAY, DAY) for t in times] + [-1, 1]


@pytest.mark.parametrize("kind", TimeKind, ids=lambda kind: kind.name)
def test_C1_the_windows_of_a_row_are_those_of_plain_python(spark: SparkSession, kind: TimeKind) -> None:
    chance = random.Random(f"windows {kind.name}")
    times = some_times(chance, kind)
    windows = [some_window(chance, kind) for _ in range(40)]
    values = ", ".join(f"({t}L)" for t in times)
    given = spark.sql(f"SELECT * FROM VALUES {values}, (NULL) AS v(x)")
    time = TIME[kind].format("CAST(x AS INT)" if kind is TimeKind.DATE else "x")
    given.selectExpr("x", f"{time} AS t").createOrReplaceTempView("times")
    parts = [
        f"SELECT {n} AS n, x, {TICKS[kind].format('window_start')} AS a, {TICKS[kind].format('window_end')} AS b "
        f"FROM {text(window_sql(TIMES, ['x'], '`t`', window, kind, TYPES[kind]))}"
        for n, window in enumerate(windows)
    ]
    found = Counter(tuple(row) for row in spark.sql(" UNION ALL ".join(parts)).collect())
    expected = Counter(
        (n, t, start, end)
        for n, window in enumerate(windows)
        for t in times
        for start, end in window.bounds(t)
    )
    assert {type(window) for window in windows} >= {Tumble, Hop, Cumulate}
    assert found == expected


@pytest.mark.parametrize(("type_", "most"), [("smallint", 2**15), ("int", 2**31), ("bigint", 2**63)])
def test_C1_a_bound_that_the_type_can_not_hold_is_null_and_no_row_is_lost(
    spark: SparkSession, type_: str, most: int
) -> None:
    times = [-most, -most + 1, most - 2, most - 1]
    spark.createDataFrame([(t,) for t in times], "x bigint").selectExpr(
        f"CAST(x AS {type_}) AS x"
    ).createOrReplaceTempView("times")
    for window in (Tumble(100, 7), Cumulate(50, 100)):
        found = spark.sql(
            f"SELECT * FROM {text(window_sql(TIMES, ['x'], '`x`', window, TimeKind.EPOCH, type_))}"
        )
        rows = [tuple(row) for row in found.collect()]
        assert {x for x, _, _ in rows} == set(times)
        for x, start, end in rows:
            possible = window.bounds(x)
            assert start in [None, *(start for start, _ in possible)]
            assert end in [None, *(end for _, end in possible)]
            # Nothing wraps around: a window that would end beyond the type has no end.
            assert end is None or end > x
        assert [r for r in rows if r[0] == most - 1 and r[2] is None]


def test_C1_months_at_the_end_of_the_calendar_are_null_and_no_row_is_lost(spark: SparkSession) -> None:
    last = "SELECT date_from_unix_date(2147483647) AS t UNION ALL SELECT DATE '2024-02-29'"
    spark.sql(last).createOrReplaceTempView("times")
    query = text(window_sql(TIMES, ["t"], "`t`", CalendarTumble(TimeKind.DATE, 1), TimeKind.DATE, "date"))
    bounds = "CAST(window_start AS STRING), CAST(window_end AS STRING)"
    found = spark.sql(f"SELECT unix_date(t) = 2147483647 AS last, {bounds} FROM {query}")
    assert sorted(tuple(row) for row in found.collect()) == [
        (False, "2024-02-01", "2024-03-01"),
        (True, None, None),
    ]


@pytest.mark.parametrize("kind", TimeKind, ids=lambda kind: kind.name)
def test_C3_sessions_are_those_of_plain_python(spark: SparkSession, kind: TimeKind) -> None:
    """120 cases a kind in one job: ties, NULL keys, rows exactly the gap apart."""
    chance = random.Random(f"sessions {kind.name}")
    unit = 1 if kind in (TimeKind.DATE, TimeKind.EPOCH) else 60_000_000
    gap = 5 * unit
    rows = [
        (case, n, chance.choice(["a", "b", None]), chance.randint(-20, 20) * unit)
        for case in range(120)
        for n in range(chance.randint(0, 12))
    ]
    x = "CAST(x AS INT)" if kind is TimeKind.DATE else "x"
    spark.createDataFrame([*rows, (0, 99, "a", None)], "c int, n int, k string, x bigint").selectExpr(
        "c", "n", "k", f"{TIME[kind].format(x)} AS t"
    ).repartition(7).createOrReplaceTempView("events")
    parts = []
    for keys in (["`c`", "`k`"], ["`c`"]):
        query = text(session_sql(EVENTS, ["c", "n", "k"], "`t`", keys, gap, kind, TYPES[kind]))
        start, end = TICKS[kind].format("window_start"), TICKS[kind].format("window_end")
        parts.append(f"SELECT {len(keys)} AS keys, c, n, {start} AS a, {end} AS b FROM {query}")
    found = Counter(tuple(row) for row in spark.sql(" UNION ALL ".join(parts)).collect())
    given = [Row("p", n, t, payload={"c": c, "n": n, "k": k}) for c, n, k, t in rows]
    expected = Counter(
        (len(keys), row.payload["c"], row.payload["n"], session.start, session.end)
        for keys in (("c", "k"), ("c",))
        for session in sessions(given, gap, keys)
        for row in session.rows
    )
    assert found == expected


def test_C3_rows_exactly_the_gap_apart_are_two_sessions_without_keys_too(spark: SparkSession) -> None:
    spark.sql("SELECT * FROM VALUES (0), (4), (9), (9), (13) AS v(t)").createOrReplaceTempView("events")
    query = text(session_sql(EVENTS, ["t"], "`t`", [], 5, TimeKind.EPOCH, "int"))
    found = spark.sql(f"SELECT t, window_start, window_end FROM {query} ORDER BY t")
    assert [tuple(row) for row in found.collect()] == [
        (0, 0, 9),
        (4, 0, 9),
        (9, 9, 18),
        (9, 9, 18),
        (13, 9, 18),
    ]
