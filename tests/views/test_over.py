"""OVER windows on Spark against the oracle (C5): random rows, random watermarks, many cases in one job each.

A case is its own value of column `c`, part of every key; all cases of a job see the same watermarks.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from tests.oracles.oracle import Row
from tests.oracles.over import Call, Range, Released, Rows, SessionGap, value
from tests.oracles.over import over as oracle
from tidegate.iceberg.layout import quote
from tidegate.sql.catalog.objects import Over, OverFunction, View
from tidegate.sql.dialect.dialect import Read
from tidegate.sql.dialect.query import OVER, Query, called, own, quoted_column, select_from
from tidegate.views.over import CARRIED, carried_type, evaluate
from tidegate.watermark import Identity, TimeKind

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CASES = 40
THOROUGH = os.environ.get("TIDEGATE_HYPOTHESIS") == "thorough"
TYPES = {
    TimeKind.EPOCH: ("bigint", "t"),
    TimeKind.TIMESTAMP: ("timestamp_ntz", "CAST(timestamp_micros(t) AS TIMESTAMP_NTZ)"),
    TimeKind.TIMESTAMPTZ: ("timestamp", "timestamp_micros(t)"),
    TimeKind.DATE: ("date", "date_from_unix_date(CAST(t AS INT))"),
}
UNBOUNDED = Rows(None, 0)


@dataclass(frozen=True)
class Asked:
    """A call with its keys (beside the case)."""

    call: Call
    keys: tuple[str, ...] = ("k",)


def asked(*calls: Call, keys: tuple[str, ...] = ("k",)) -> list[Asked]:
    return [Asked(call, keys) for call in calls]


FAMILIES: dict[str, list[Asked]] = {
    "from_the_beginning": asked(
        *(Call(f) for f in ("row_number", "rank", "dense_rank")),
        *(Call(f, "v") for f in ("count", "sum", "avg", "min", "max", "first_value", "last_value")),
        Call("count"),
        Call("lag", "v"),
        Call("lag", "v", n=2, default=-7),
        Call("sum", "v", Rows(None, -1)),
        Call("first_value", "v", Rows(None, -2)),
    ),
    "rows": asked(
        Call("lead", "v"),
        Call("lead", "v", n=2, default=-7),
        Call("sum", "v", Rows(-2, 1)),
        Call("avg", "v", Rows(-3, -1)),
        Call("count", None, Rows(1, 2)),
        Call("max", "v", Rows(None, 2)),
        Call("sum", "v", Rows(-2, 2), exclude_current=True),
        Call("last_value", "v", Rows(-1, 1), exclude_current=True),
        Call("min", "v", Rows(None, 1), exclude_current=True),
        Call("first_value", "v", Rows(None, 1), exclude_current=True),
    ),
    "range": asked(
        Call("sum", "v", Range(-3, 0)),
        Call("count", None, Range(-2, 2)),
        Call("first_value", "v", Range(-3, 1)),
        Call("last_value", "v", Range(-3, 0)),
        Call("avg", "v", Range(None, 0)),
        Call("sum", "v", Range(None, 2)),
        Call("count", "v", Range(None, -2)),
        Call("sum", "v", Range(-2, 1), exclude_current=True),
        Call("last_value", "v", Range(None, 2), exclude_current=True),
    ),
    "range_to_the_row": asked(Call("sum", "v", Range(None, 0)), Call("max", "v", Range(-4, -2))),
    "range_alone": asked(Call("sum", "v", Range(None, 0))),
    "session": asked(
        *(Call(f, "v", SessionGap(3)) for f in ("sum", "count", "avg", "min", "first_value", "last_value")),
        Call("count", None, SessionGap(3)),
        Call("sum", "v", SessionGap(3), exclude_current=True),
        Call("first_value", "v", SessionGap(3), exclude_current=True),
    ),
    "several_keys": [
        *asked(Call("lead", "v"), Call("sum", "v")),
        *asked(Call("sum", "v"), Call("dense_rank"), Call("lag", "v", n=3), keys=("j",)),
        *asked(Call("count", None, Range(-4, 2)), Call("rank"), keys=()),
        *asked(Call("max", "v", SessionGap(4)), keys=("j", "k")),
        *asked(Call("sum", "v", Rows(-1, 2)), keys=("j", "k")),
    ],
}


def cases(random: Random) -> dict[int, list[Row]]:
    """Some rows for each case: crowded times with ties and gaps, NULLs, keys that fall quiet."""
    found = {}
    for case in range(CASES):
        rows, time = [], random.randint(0, 4)
        for i in range(random.randint(1, 14)):
            time += random.choice((0, 0, 0, 1, 1, 2, 3, 4, 6))
            payload = {
                "c": case,
                "k": random.choice(("x", "x", "y", None)),
                "j": random.randint(0, 1),
                "v": random.choice((None, 0, 1, 2, 3, -4)),
            }
            rows.append(Row(random.choice("ab"), i, time, payload=payload))
        found[case] = rows
    return found


def frame(spark: SparkSession, rows: Sequence[Row], kind: TimeKind) -> DataFrame:
    data = [
        (*(row.payload[n] for n in ("c", "k", "j", "v")), row.partition, row.offset, row.event_time)
        for row in rows
    ]
    made = spark.createDataFrame(data, "c int, k string, j int, v int, p string, o bigint, t bigint")
    return made.selectExpr("c", "k", "j", "v", "p", "o", f"{TYPES[kind][1]} AS t")


def function(i: int, one: Asked) -> OverFunction:
    """The oracle's call as the engine gets it."""
    call, frame = one.call, one.call.frame
    name, argument = call.function, f"`{call.column}`" if call.column else None
    text = f"{'try_' if name in ('sum', 'avg') else ''}{name}({argument or '*'})"
    unit, preceding, following = "rows", None, 0
    if name in ("lag", "lead"):
        text = f"{name}(`v`, {call.n}" + (")" if call.default is None else f", {call.default})")
        preceding, following = (call.n, 0) if name == "lag" else (0, call.n)
    elif name in ("row_number", "rank", "dense_rank"):
        text = f"{name}()"
    elif isinstance(frame, SessionGap):
        unit, preceding = "session", frame.gap
    else:
        unit = "rows" if isinstance(frame, Rows) else "range"
        preceding, following = None if frame.start is None else -frame.start, frame.end
    keys = tuple(f"`{key}`" for key in ("c", *one.keys))
    return OverFunction(
        f"f{i}", name, text, keys, ("`t`",), unit, preceding, following, argument, call.exclude_current
    )


def computed(*names: str) -> Query:
    """These columns, and what every view's query yields beside its own."""
    items = [*map(quoted_column, (*names, "_window_start", "_window_end")), called(own("1L"), "_rows")]
    return Query(select_from(items, Read(this=OVER)))


def view(functions: Sequence[OverFunction], kind: TimeKind, emit: bool = True) -> View:
    query = computed("c", "p", "o", *(f.name for f in functions))
    over = Over(query, "t", ("`p`", "`o`"), tuple(functions), query)
    return View(
        "v", (), (), emit, kind, Identity(), (), query, ("p", "o"), over, None, None, None, (), (), (), ""
    )


class Ticks:
    """A view over rows that arrive, tick by tick, as the engine's tick would call it."""

    def __init__(self, spark: SparkSession, view: View) -> None:
        self.view, self._spark = view, spark
        self.carried: DataFrame | None = None
        self.frontier: int | None = None

    def tick(self, rows: DataFrame, watermark: int | None) -> list[Any]:
        found = evaluate(self._spark, self.view, rows, self.carried, self.frontier, watermark)
        result = found.result.collect()
        if found.carried is not None:
            kept = found.carried.collect()
            schema = f"{quote(CARRIED)} {carried_type(self._spark, self.view, rows)}"
            assert (
                self._spark.createDataFrame([], schema).schema.simpleString()
                == found.carried.schema.simpleString()
            )
            self.carried, self.frontier = self._spark.createDataFrame(kept, schema), watermark
        found.close()
        return result


def of_case(rows: Sequence[Row], watermark: int | None, all_asked: Sequence[Asked]) -> dict[tuple, tuple]:
    """The oracle's released rows by (partition, offset): released by each set of calls with the same keys."""
    found: list[dict[tuple, Any]] = []
    for one in all_asked:
        released: list[Released] = oracle(rows, watermark, [one.call], one.keys)
        found.append({(r.row.partition, r.row.offset): r.values[0] for r in released})
    places = set.intersection(*(set(f) for f in found))
    return {place: tuple(f[place] for f in found) for place in places}


def of_result(result: Sequence[Any], count: int) -> dict[int, dict[tuple, tuple]]:
    found: dict[int, dict[tuple, tuple]] = {}
    for row in result:
        place = (row["p"], row["o"])
        case = found.setdefault(row["c"], {})
        assert place not in case, "a row was released twice"
        case[place] = tuple(row[f"f{i}"] for i in range(count))
    return found


#: `make property` asks for all families; what they have in common is asked of some, and without a JVM of random ones
#: (`property/test_property_over.py`).
_RELEASED = {"several_keys"}
_OPEN = {"from_the_beginning"}


def families(names: Iterable[str], few: set[str]) -> list[Any]:
    return [pytest.param(n, marks=() if n in few else pytest.mark.long_run) for n in names]


@pytest.mark.parametrize("name", families(FAMILIES, _RELEASED))
def test_C5_released_rows_equal_the_oracle_after_every_watermark(name: str, spark: SparkSession) -> None:
    seed = list(FAMILIES).index(name)
    random = Random(seed)
    kind = list(TYPES)[seed % len(TYPES)]
    every, calls = cases(random), FAMILIES[name]
    rows = [row for case in every.values() for row in case]
    functions = [function(i, one) for i, one in enumerate(calls)]
    ticks = Ticks(spark, view(functions, kind))
    released: dict[int, dict[tuple, tuple]] = {}
    marks = [*sorted(random.sample(range(2, 35), 4 if THOROUGH else 2)), 60]
    all_rows = frame(spark, rows, kind).cache()
    for mark in marks:
        result = ticks.tick(all_rows, mark)
        assert not any(row["_open"] for row in result)
        for case, found in of_result(result, len(calls)).items():
            assert not found.keys() & released.get(case, {}).keys(), "a row was released twice"
            released.setdefault(case, {}).update(found)
        for case in every:
            assert released.get(case, {}) == of_case(every[case], mark, calls), (name, case, mark)
    # Stream equals batch: all rows at once give what the ticks gave.
    at_once = Ticks(spark, view(functions, kind)).tick(all_rows, marks[-2])
    expected = {case: of_case(found, marks[-2], calls) for case, found in every.items()}
    assert of_result(at_once, len(calls)) == {case: found for case, found in expected.items() if found}


@pytest.mark.parametrize(
    "name", families(["from_the_beginning", "rows", "range", "range_alone", "session"], _OPEN)
)
def test_C5_without_emit_rows_are_shown_open_until_their_frames_are_complete(
    name: str, spark: SparkSession
) -> None:
    every, calls = cases(Random(name)), FAMILIES[name]
    rows = [row for case in every.values() for row in case]
    functions = [function(i, one) for i, one in enumerate(calls)]
    ticks = Ticks(spark, view(functions, TimeKind.EPOCH, emit=False))
    all_rows = frame(spark, rows, TimeKind.EPOCH).cache()
    released: dict[int, dict[tuple, tuple]] = {}
    for mark in (None, 9, 17):
        result = ticks.tick(all_rows, mark)
        for case, found in of_result([r for r in result if not r["_open"]], len(calls)).items():
            released.setdefault(case, {}).update(found)
        shown = of_result([r for r in result if r["_open"]], len(calls))
        for case, members in every.items():
            assert released.get(case, {}) == of_case(members, mark, calls)
            expected = {}
            for row in members:
                if (row.partition, row.offset) in released.get(case, {}):
                    continue
                of_key = [m for m in members if m.payload["k"] == row.payload["k"]]
                ordered = sorted(of_key, key=lambda m: (m.event_time, m.partition, m.offset))
                at = next(i for i, m in enumerate(ordered) if m is row)
                expected[row.partition, row.offset] = tuple(value(ordered, at, one.call) for one in calls)
            assert shown.get(case, {}) == expected, (name, case, mark)


def test_C5_what_is_carried_does_not_grow_with_the_log(spark: SparkSession) -> None:
    calls = asked(
        Call("lead", "v"), Call("sum", "v"), Call("sum", "v", Rows(-2, 0)), Call("avg", "v", Range(-3, 0))
    )
    functions = [function(i, one) for i, one in enumerate(calls)]
    ticks = Ticks(spark, view(functions, TimeKind.EPOCH))
    carried = []
    for mark in (100, 200, 300):
        rows = [Row("a", t, t, payload={"c": 0, "k": "x", "j": 0, "v": 1}) for t in range(mark - 100, mark)]
        result = ticks.tick(frame(spark, rows, TimeKind.EPOCH), mark)
        assert ticks.carried is not None
        carried.append(ticks.carried.count())
        assert max(row["f1"] for row in result) == mark - 1
    # The row that waits for its next one, the two before it, and one more for frames of later rows.
    assert carried == [3, 3, 3]


@pytest.mark.long_run
def test_C7_sums_and_averages_of_decimals_are_sparks_own_however_they_are_cut(spark: SparkSession) -> None:
    values = [
        Decimal(x) for x in ("1.0000000001", "2.0000000003", "-7.1234567891", "123456789012345678.5", "0.1")
    ]
    schema = "c int, v decimal(28,10), o bigint, t bigint"
    rows = spark.createDataFrame([(0, v, i, i) for i, v in enumerate(values)], schema)
    running = [
        OverFunction(f"f{i}", name, f"try_{name}(`v`)", ("`c`",), ("`t`",), "rows", None, 0, "`v`")
        for i, name in enumerate(("sum", "avg"))
    ]
    query = computed("o", "f0", "f1")
    over = Over(query, "t", ("`o`",), tuple(running), query)
    whole = View(
        "v", (), (), True, TimeKind.EPOCH, Identity(), (), query, (), over, None, None, None, (), (), (), ""
    )
    ticks, found = Ticks(spark, whole), []
    for mark in (2, 3, 5):
        found += [(row["o"], row["f0"], row["f1"]) for row in ticks.tick(rows, mark)]
    window = "OVER (ORDER BY t ROWS UNBOUNDED PRECEDING)"
    expected = rows.selectExpr("o", f"sum(v) {window} AS s", f"avg(v) {window} AS a").collect()
    assert sorted(found) == sorted(tuple(row) for row in expected)


def test_C7_a_sum_that_does_not_fit_is_null_only_there_however_it_is_cut(spark: SparkSession) -> None:
    values = [2**62, 2**62, -(2**62), 5]
    rows = spark.createDataFrame(
        [(0, v, i, i) for i, v in enumerate(values)], "c int, v bigint, o bigint, t bigint"
    )
    running = (OverFunction("f0", "sum", "try_sum(`v`)", ("`c`",), ("`t`",), "rows", None, 0, "`v`"),)
    query = computed("o", "f0")
    over = Over(query, "t", ("`o`",), running, query)
    whole = View(
        "v", (), (), True, TimeKind.EPOCH, Identity(), (), query, (), over, None, None, None, (), (), (), ""
    )
    for cut in ((1, 2, 3, 4), (2, 4), (4,)):
        ticks, found = Ticks(spark, whole), {}
        for mark in cut:
            found |= {row["o"]: row["f0"] for row in ticks.tick(rows, mark)}
        assert found == {0: 2**62, 1: None, 2: 2**62, 3: 2**62 + 5}, cut
