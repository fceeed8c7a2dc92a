"""Calls with OVER, resolved: what the engine gets to know, and what is refused, where (C5)."""

from __future__ import annotations

import pytest
from sqlglot import exp

from tidegate.errors import TidegateError
from tidegate.sql.dialect import dialect
from tidegate.sql.dialect.parsing import parse_query
from tidegate.sql.dialect.text import Text
from tidegate.sql.dialect.types import parse_ddl
from tidegate.sql.resolve.scope import ColumnScope, LostWatermark, ScopeColumn
from tidegate.sql.views.over import OverCall, extract
from tidegate.watermark import Identity

SECOND = 1_000_000


def read(sql: str, ties: tuple[str, ...] | None = None) -> tuple[list[str], list[OverCall]]:
    """`sql` is a SELECT from one relation with the columns below; TIMESTAMP `t` carries the watermark."""
    text = Text(sql)
    select = parse_query(text, dialect.tokenize(text))
    lost = LostWatermark("a watermark does not pass through abs()", text.at((0, 0)))
    types = {"t": "timestamp_ntz", "window_start": "timestamp_ntz", "e": "timestamp_ntz", "k": "string"}
    types |= {"price": "decimal(28,10)", "n": "bigint", "ok": "boolean"}
    columns = tuple(
        ScopeColumn(
            name,
            parse_ddl(ddl),
            Identity() if name in ("t", "window_start") else None,
            lost=lost if name == "e" else None,
        )
        for name, ddl in types.items()
    )
    nodes, calls = extract(
        text, select.expressions, select.args.get("windows") or [], ColumnScope(text, columns), ties
    )
    return [dialect.to_text(node) for node in nodes], calls


def call(sql: str) -> OverCall:
    (found,) = read(sql)[1]
    return found


def test_C5_the_fraud_example_shares_one_window() -> None:
    items, calls = read(
        "SELECT k, lead(price, 1) OVER w AS next_price, lead(t, 1) OVER w AS next_time FROM orders "
        "WINDOW w AS (PARTITION BY k ORDER BY t)"
    )
    assert items == ["k", '"_over_0" AS next_price', '"_over_1" AS next_time']
    first, second = (c.function for c in calls)
    assert (first.function, first.call, first.type) == ("lead", "lead(`price`, 1)", "decimal(28,10)")
    assert (first.unit, first.preceding, first.following) == ("rows", 0, 1)
    assert (first.keys, first.order) == (second.keys, second.order) == (("`k`",), ("`t`",))
    assert (second.call, second.type) == ("lead(`t`, 1)", "timestamp_ntz")
    assert [c.ahead for c in calls] == [None, None]
    assert calls[0].time is not None
    assert calls[0].time.name == "t"


def exact(argument: str, over: str = "") -> str:
    """The sum of a BIGINT (C7)."""
    return f"TRY_CAST(try_sum(CAST({argument} AS decimal(38,0))){over} AS bigint)"


@pytest.mark.parametrize(
    ("frame", "expected"),
    [
        ("", ("rows", None, 0, False)),
        ("ROWS 2 PRECEDING", ("rows", 2, 0, False)),
        ("ROWS BETWEEN 2 PRECEDING AND 1 FOLLOWING", ("rows", 2, 1, False)),
        ("ROWS BETWEEN 3 PRECEDING AND 2 PRECEDING", ("rows", 3, -2, False)),
        ("ROWS BETWEEN 1 FOLLOWING AND 2 FOLLOWING", ("rows", -1, 2, False)),
        ("RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW", ("range", None, 0, False)),
        ("RANGE BETWEEN INTERVAL '1' MINUTE PRECEDING AND INTERVAL '2 seconds' FOLLOWING",
         ("range", 60 * SECOND, 2 * SECOND, False)),
        ("SESSION WITH GAP INTERVAL '5' MINUTE", ("session", 300 * SECOND, 0, False)),
        ("ROWS BETWEEN 2 PRECEDING AND 1 FOLLOWING EXCLUDE CURRENT ROW", ("rows", 2, 1, True)),
        ("ROWS BETWEEN 2 PRECEDING AND CURRENT ROW EXCLUDE CURRENT ROW", ("rows", 2, -1, False)),
        ("ROWS BETWEEN CURRENT ROW AND 2 FOLLOWING EXCLUDE CURRENT ROW", ("rows", -1, 2, False)),
        ("ROWS BETWEEN 3 PRECEDING AND 2 PRECEDING EXCLUDE CURRENT ROW", ("rows", 3, -2, False)),
        ("ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW EXCLUDE NO OTHERS", ("rows", None, 0, False)),
    ],
)  # fmt: skip
def test_C5_frames(frame: str, expected: tuple) -> None:
    found = call(f"SELECT sum(n) OVER (PARTITION BY k ORDER BY t {frame}) AS s FROM orders").function
    assert (found.unit, found.preceding, found.following, found.exclude_current) == expected
    assert (found.call, found.argument, found.type) == (exact("`n`"), "`n`", "bigint")


def test_D4_how_far_behind_the_watermark_rows_are_released() -> None:
    frames = {
        "": 0,
        "ROWS BETWEEN 3 PRECEDING AND 1 PRECEDING": 0,
        "RANGE BETWEEN CURRENT ROW AND INTERVAL '2' SECOND FOLLOWING": 2 * SECOND,
        "ROWS BETWEEN CURRENT ROW AND 1 FOLLOWING": None,
        "SESSION WITH GAP INTERVAL '2' SECOND": None,
    }
    for frame, ahead in frames.items():
        assert call(f"SELECT sum(n) OVER (ORDER BY t {frame}) AS x FROM o").ahead == ahead


def test_C5_a_window_builds_on_another() -> None:
    found = call(
        "SELECT sum(n) OVER (v ROWS 2 PRECEDING) AS s FROM o "
        "WINDOW w AS (PARTITION BY k), v AS (w ORDER BY t, n DESC, price NULLS LAST)"
    ).function
    assert found.keys == ("`k`",)
    assert found.order == ("`t`", "`n` DESC", "`price` NULLS LAST")
    assert found.preceding == 2


def test_C5_functions_under_other_names() -> None:
    every = {
        "count(*)": ("count", "count(*)", None),
        "count_if(ok)": ("count", "count_if(`ok`)", "CASE WHEN `ok` THEN 1 END"),
        "sum(n) FILTER (WHERE ok)": (
            "sum",
            exact("CASE WHEN `ok` THEN `n` END"),
            "CASE WHEN `ok` THEN `n` END",
        ),
        "count(*) FILTER (WHERE ok)": (
            "count",
            "count(CASE WHEN `ok` THEN 1 END)",
            "CASE WHEN `ok` THEN 1 END",
        ),
        "bool_and(ok)": ("min", "bool_and(`ok`)", "`ok`"),
        "first(n)": ("first_value", "first(`n`)", "`n`"),
        "first_value(n) IGNORE NULLS": ("first_value", "first_value(`n`) IGNORE NULLS", "`n`"),
        "last_value(n, true)": ("last_value", "last_value(`n`) IGNORE NULLS", "`n`"),
        "sum(n + 1)": ("sum", exact("try_add(`n`, 1)"), "try_add(`n`, 1)"),
    }
    for written, expected in every.items():
        found = call(f"SELECT {written} OVER (ORDER BY t) AS x FROM o").function
        assert (found.function, found.call, found.argument) == expected
        assert found.ignore_nulls == ("IGNORE" in found.call)


def test_C5_in_one_closed_window_a_call_is_plain_spark_sql() -> None:
    plain = {
        "row_number() OVER (PARTITION BY window_start ORDER BY n DESC)":
            "row_number() OVER (PARTITION BY `window_start` ORDER BY `n` DESC, `k`)",
        "rank() OVER (PARTITION BY window_start ORDER BY n)":
            "rank() OVER (PARTITION BY `window_start` ORDER BY `n`)",
        "ntile(4) OVER (PARTITION BY k, window_start ORDER BY n)":
            "ntile(4) OVER (PARTITION BY `k`, `window_start` ORDER BY `n`, `k`)",
        "sum(n) OVER (PARTITION BY window_start ORDER BY n)":
            exact("`n`", " OVER (PARTITION BY `window_start` ORDER BY `n`, `k` "
            "ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)"),
        "sum(n) OVER (PARTITION BY window_start)":
            exact("`n`", " OVER (PARTITION BY `window_start`)"),
        "sum(n) OVER (PARTITION BY window_start ORDER BY n ROWS BETWEEN 2 PRECEDING AND CURRENT ROW "
        "EXCLUDE CURRENT ROW)":
            exact("`n`", " OVER (PARTITION BY `window_start` ORDER BY `n`, `k` "
            "ROWS BETWEEN 2 PRECEDING AND 1 PRECEDING)"),
        "last_value(n) OVER (PARTITION BY window_start ORDER BY n ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING)":
            "last_value(`n`) OVER (PARTITION BY `window_start` ORDER BY `n`, `k` "
            "ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING)",
    }  # fmt: skip
    for written, expected in plain.items():
        (found,) = read(f"SELECT {written} AS x FROM o", ties=("k",))[1]
        assert dialect.to_spark(found.plain) == expected
        assert found.closed_by == ("window_start",)
        assert (found.ahead, found.function.name) == (0, "_over_0")


def test_C5_ties_in_a_closed_window_are_decided_by_all_columns() -> None:
    (found,) = read("SELECT row_number() OVER (PARTITION BY window_start ORDER BY n) AS x FROM o")[1]
    last = "`t`, `window_start`, `e`, `k`, `price`, `n`, `ok`"
    assert (
        dialect.to_spark(found.plain)
        == f"row_number() OVER (PARTITION BY `window_start` ORDER BY `n`, {last})"
    )


@pytest.mark.parametrize(
    ("item", "code", "message", "hint", "under"),
    [
        ("sum(n) OVER ()", "TG361", "no ORDER BY", "ORDER BY t", "sum(n) OVER ()"),
        ("sum(n) OVER (ORDER BY n)", "TG361", '"n" carries no watermark', "ORDER BY t, n", "n"),
        ("sum(n) OVER (ORDER BY n + 1)", "TG361", "this expression carries no", "ORDER BY t, n + 1", "n + 1"),
        ("sum(n) OVER (ORDER BY t DESC)", "TG361", "must be ascending", "lead for lag", "t"),
        ("sum(n) OVER (ORDER BY e)", "TG361", '"e" lost its watermark', "ORDER BY t", "e"),
        ("lag(n) OVER (ORDER BY t), lag(n) OVER (ORDER BY window_start)", "TG361", "ordered by t", "same column",
         "lag(n) OVER (ORDER BY window_start)"),
        ("sum(n) OVER w", "TG362", 'no window "w"', "WINDOW w AS", "w"),
        ("sum(n) OVER (ORDER BY t GROUPS 2 PRECEDING)", "TG362", "GROUPS frames", "ROWS counts rows", None),
        ("sum(n) OVER (ORDER BY t ROWS BETWEEN 1 PRECEDING AND UNBOUNDED FOLLOWING)", "TG362", "never complete",
         "SESSION WITH GAP", None),
        ("sum(n) OVER (ORDER BY t RANGE 5 PRECEDING)", "TG362", "expected an INTERVAL", "fixed length", None),
        ("sum(n) OVER (ORDER BY t RANGE INTERVAL '1' MONTH PRECEDING)", "TG362", "no fixed length", "INTERVAL", None),
        ("sum(n) OVER (ORDER BY t, n RANGE INTERVAL '1' DAY PRECEDING)", "TG362", "one expression", "ROWS frame", None),
        ("sum(n) OVER (ORDER BY t ROWS n PRECEDING)", "TG362", "must be a number of rows", "length of time", "n"),
        ("sum(n) OVER (ORDER BY t ROWS BETWEEN 1 FOLLOWING AND 2 PRECEDING)", "TG362", "ends before", "ROWS", None),
        ("sum(n) OVER (ORDER BY t ROWS BETWEEN CURRENT ROW AND CURRENT ROW EXCLUDE CURRENT ROW)", "TG362",
         "never contains a row", "ROWS", None),
        ("sum(n) OVER (ORDER BY t ROWS 2 PRECEDING EXCLUDE TIES)", "TG362", "EXCLUDE TIES", "CURRENT ROW", None),
        ("sum(n) OVER (ORDER BY t SESSION WITH GAP INTERVAL '0' SECOND)", "TG362", "longer than zero", "", None),
        ("row_number() OVER (ORDER BY t ROWS 2 PRECEDING)", "TG362", "row_number has no frame", "leave", None),
        ("ntile(4) OVER (ORDER BY t)", "TG363", "needs all rows", "PARTITION BY window_start", "ntile"),
        ("lag(n, -1) OVER (ORDER BY t)", "TG363", "not negative", "use lead", "-1"),
        ("lag(n, n) OVER (ORDER BY t)", "TG363", "a number as its second", "lag(x, 1)", "n"),
        ("lag(n) IGNORE NULLS OVER (ORDER BY t)", "TG363", "any number of rows away", "last_value", "lag"),
        ("stddev(n) OVER (ORDER BY t)", "TG363", "every earlier row again", "ROWS BETWEEN 100", "stddev"),
        ("count(DISTINCT n) OVER (ORDER BY t)", "TG363", "DISTINCT", "row_number()", "count"),
        ("nth_value(n, 2) OVER (ORDER BY t)", "TG363", "every earlier row again", "ROWS BETWEEN", "nth_value"),
        ("collect_list(n) OVER (ORDER BY t SESSION WITH GAP INTERVAL '1' DAY)", "TG363", "order of rows", "write ROWS",
         "collect_list"),
        ("first_value(n) FILTER (WHERE ok) OVER (ORDER BY t)", "TG363", "FILTER", "IGNORE NULLS", "first_value"),
        ("abs(n) OVER (ORDER BY t)", "TG210", "abs can't have OVER", "row_number", "abs"),
        ("sum(lag(n) OVER (ORDER BY t)) OVER (ORDER BY t)", "TG210", "inside OVER", "subquery",
         "lag(n) OVER (ORDER BY t)"),
        ("sum(max(n)) OVER (ORDER BY t)", "TG210", "max is an aggregate", "", "max"),
    ],
)  # fmt: skip
def test_C5_refused(item: str, code: str, message: str, hint: str, under: str | None) -> None:
    with pytest.raises(TidegateError) as caught:
        read(f"SELECT {item} FROM orders")
    refused = caught.value
    assert refused.code == code, refused
    assert message in refused.message
    assert hint in (refused.hint or "")
    at = refused.location
    assert at is not None
    shown = at.text[at.column - 1 : at.column - 1 + at.length]
    assert shown == under if under is not None else "OVER" in shown, refused


def test_C5_what_batch_queries_and_strategies_cannot_say_is_refused() -> None:
    from tidegate.sql.resolve.scope import check_functions

    for frame in ("ROWS 2 PRECEDING EXCLUDE CURRENT ROW", "SESSION WITH GAP INTERVAL '1' DAY"):
        text = Text(f"SELECT sum(n) OVER (ORDER BY t {frame}) FROM orders")
        with pytest.raises(TidegateError, match="TG362"):
            check_functions(text, parse_query(text, dialect.tokenize(text)))


def test_a_call_without_a_name_is_called_as_its_function() -> None:
    items, _ = read("SELECT Lead(n) OVER (ORDER BY t), (sum(n) OVER (ORDER BY t)) FROM orders")
    assert items == ['"_over_0" AS lead', '"_over_1" AS sum']


def test_a_window_that_nobody_uses_is_checked_too() -> None:
    with pytest.raises(TidegateError, match="TG202"):
        read("SELECT lead(n) OVER (ORDER BY t) AS x FROM orders WINDOW w AS (PARTITION BY nope)")


def test_the_window_is_gone_from_the_expression_it_stood_in() -> None:
    items, calls = read("SELECT coalesce(lag(n) OVER (ORDER BY t), 0) + 1 AS x, n FROM orders")
    assert items == ['coalesce("_over_0", 0) + 1 AS x', "n"]
    assert isinstance(calls[0].order[0], exp.Ordered)
