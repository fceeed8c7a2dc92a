"""The oracle of order and OVER on examples that fit on a screen, and wrong ones that the bundle shows (C4, C5)."""

from __future__ import annotations

import sqlite3
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.oracles.cases import Shape, case_rows, differing, feed, grows, marks, play
from tests.oracles.oracle import Row
from tests.oracles.over import Call, Range, Rows, SessionGap, arrival_order, over, released, so_far, value

SHAPE = Shape(deltas=(0, 0, 0, 1, 4, 5, 5, 6))


def rows(*times: int, k: str = "x") -> list[Row]:
    """Values are 10, 20, … in order of arrival."""
    return [Row("0", i, time, payload={"k": k, "v": 10 * i + 10}) for i, time in enumerate(times)]


def values(found) -> list:
    """The only call's value of each released row, in order."""
    ordered = sorted(found, key=lambda one: arrival_order(one.row))
    return [(one.row.event_time, one.values[0]) for one in ordered]


def run(call: Call, watermark: int | None, *times: int) -> list:
    return values(over(rows(*times), watermark, [call], ("k",)))


def test_C4_rows_below_the_watermark_are_released_in_order() -> None:
    given = [Row("b", 0, 1), Row("a", 1, 3), Row("a", 0, 3), Row("b", 1, 1), Row("a", 2, 5)]
    places = [(r.event_time, r.partition, r.offset) for r in released(given, 5)]
    assert places == [(1, "b", 0), (1, "b", 1), (3, "a", 0), (3, "a", 1)]
    assert released(given, None) == []


def test_C5_lag_and_ranks_need_nothing_that_comes() -> None:
    assert run(Call("lag", "v"), 5, 3, 1, 3, 5) == [(1, None), (3, 20), (3, 10)]
    assert run(Call("lag", "v", n=2, default=-1), 4, 3, 1, 3) == [(1, -1), (3, -1), (3, 20)]
    assert run(Call("row_number"), 4, 3, 1, 3) == [(1, 1), (3, 2), (3, 3)]
    assert run(Call("rank"), 9, 3, 1, 3, 4) == [(1, 1), (3, 2), (3, 2), (4, 4)]
    assert run(Call("dense_rank"), 9, 3, 1, 3, 4) == [(1, 1), (3, 2), (3, 2), (4, 3)]


def test_C5_lead_waits_until_the_next_row_is_below_the_watermark() -> None:
    assert run(Call("lead", "v"), 3, 1, 2, 3) == [(1, 20)]
    assert run(Call("lead", "v"), 4, 1, 2, 3) == [(1, 20), (2, 30)]
    assert run(Call("lead", "v", n=2), 4, 1, 2, 3) == [(1, 30)]


def test_C5_the_last_row_of_a_key_waits_for_lead_however_far_the_watermark_is() -> None:
    both = rows(1, 2) + rows(1, k="y")
    assert values(over(both, 1000, [Call("lead", "v")], ("k",))) == [(1, 20)]


def test_C5_a_row_waits_for_the_slowest_of_its_calls() -> None:
    calls = [Call("row_number"), Call("lead", "v")]
    assert [one.values for one in over(rows(1, 2), 9, calls)] == [(1, 20)]


def test_C2_without_emit_every_row_is_there_with_what_is_known() -> None:
    assert values(so_far(rows(1, 2), [Call("lead", "v")])) == [(1, 20), (2, None)]
    assert values(so_far(rows(1, 2), [Call("sum", "v", Rows(0, 1))])) == [(1, 30), (2, 20)]


def test_C5_the_default_frame_is_by_rows_and_not_by_peers() -> None:
    assert run(Call("sum", "v"), 9, 1, 1, 2) == [(1, 10), (1, 30), (2, 60)]
    assert run(Call("sum", "v", Range(None)), 9, 1, 1, 2) == [(1, 30), (1, 30), (2, 60)]


def test_C5_rows_frames() -> None:
    behind = Rows(-2, -1)
    assert run(Call("sum", "v", behind), 9, 1, 2, 3) == [(1, None), (2, 10), (3, 30)]
    assert run(Call("count", None, behind), 9, 1, 2, 3) == [(1, 0), (2, 1), (3, 2)]
    around = Rows(-1, 1)
    assert run(Call("sum", "v", around), 9, 1, 2, 3) == [(1, 30), (2, 60)]
    assert run(Call("first_value", "v", around), 9, 1, 2, 3) == [(1, 10), (2, 10)]
    assert run(Call("last_value", "v", around), 9, 1, 2, 3) == [(1, 20), (2, 30)]
    assert run(Call("max", "v", around), 3, 1, 2, 3) == [(1, 20)]


def test_C5_a_range_frame_closes_by_the_watermark_alone() -> None:
    ahead = Call("sum", "v", Range(0, 2))
    assert run(ahead, 3, 1, 2) == []
    assert run(ahead, 4, 1, 2) == [(1, 30)]
    assert run(ahead, 5, 1, 2) == [(1, 30), (2, 20)]
    assert run(Call("sum", "v", Range(-2, 0)), 9, 1, 2, 3, 4) == [(1, 10), (2, 30), (3, 60), (4, 90)]


def test_C5_a_session_frame_closes_by_the_watermark_alone() -> None:
    call = Call("count", None, SessionGap(5))
    assert run(call, 7, 1, 3, 8) == []
    assert run(call, 8, 1, 3, 8) == [(1, 2), (3, 2)]
    assert run(call, 13, 1, 3, 8) == [(1, 2), (3, 2), (8, 1)]


def test_C5_exclude_current_row() -> None:
    assert run(Call("sum", "v", Rows(-1), exclude_current=True), 9, 1, 2, 3) == [(1, None), (2, 10), (3, 20)]
    other = Call("avg", "v", SessionGap(5), exclude_current=True)
    assert run(other, 20, 1, 3, 4) == [(1, 25), (3, 20), (4, 15)]


CALLS = [
    Call("lead", "v", n=2),
    Call("lag", "v"),
    Call("dense_rank"),
    Call("sum", "v", Rows(-1, 1)),
    Call("last_value", "v", Rows(None, 2)),
    Call("sum", "v", Range(-5, 5)),
    Call("count", "v", SessionGap(5), exclude_current=True),
]


@pytest.mark.medium
@given(st.randoms(use_true_random=False), st.sampled_from(CALLS))
def test_property_C5_what_is_released_never_changes(rng: Random, call: Call) -> None:
    """The rule that makes release by the watermark right: no on-time row can change a released value (W1)."""
    watermarks = [10, 20, 30, 40]
    case = [
        (step, Row("0", i, time, payload={"k": k, "v": i}))
        for i, (step, time, k, _) in enumerate(case_rows(rng, SHAPE, watermarks))
    ]
    history = []
    for step, watermark in enumerate(watermarks):
        on_time = [r for s, r in case if s <= step and (s == 0 or r.event_time >= watermarks[s - 1])]
        history.append([(one.row.offset, one.values) for one in over(on_time, watermark, [call], ("k",))])
    assert grows(history)


#: The same calls for the oracle and, as written, for SQLite.
SECOND_OPINION = [
    (Call("lead", "v", n=2, default=-1), "lead(v, 2, -1) OVER w"),
    (Call("lag", "v"), "lag(v) OVER w"),
    (Call("row_number"), "row_number() OVER w"),
    (Call("rank"), "rank() OVER t"),
    (Call("dense_rank"), "dense_rank() OVER t"),
    (Call("sum", "v"), "sum(v) OVER (w ROWS UNBOUNDED PRECEDING)"),
    (Call("count", None, Rows(-2, -1)), "count(*) OVER (w ROWS BETWEEN 2 PRECEDING AND 1 PRECEDING)"),
    (Call("avg", "v", Rows(-1, 2)), "avg(v) OVER (w ROWS BETWEEN 1 PRECEDING AND 2 FOLLOWING)"),
    (
        Call("first_value", "v", Rows(-1, 1)),
        "first_value(v) OVER (w ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING)",
    ),
    (
        Call("last_value", "v", Rows(1, 2)),
        "last_value(v) OVER (w ROWS BETWEEN 1 FOLLOWING AND 2 FOLLOWING)",
    ),
    (Call("min", "v", Range(-5, 4)), "min(v) OVER (t RANGE BETWEEN 5 PRECEDING AND 4 FOLLOWING)"),
    (Call("sum", "v", Range(None)), "sum(v) OVER (t RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)"),
    (
        Call("sum", "v", Rows(-2, 1), exclude_current=True),
        "sum(v) OVER (w ROWS BETWEEN 2 PRECEDING AND 1 FOLLOWING EXCLUDE CURRENT ROW)",
    ),
    (
        Call("count", "v", Range(-5), exclude_current=True),
        "count(v) OVER (t RANGE BETWEEN 5 PRECEDING AND CURRENT ROW EXCLUDE CURRENT ROW)",
    ),
]


@pytest.mark.medium
@given(st.randoms(use_true_random=False))
def test_property_C5_values_are_those_of_another_database(rng: Random) -> None:
    members = [
        Row(rng.choice("ab"), i, time, payload={"k": k, "v": v})
        for i, (_, time, k, v) in enumerate(case_rows(rng, SHAPE, [10, 20, 30]))
    ]
    database = sqlite3.connect(":memory:")
    database.execute("CREATE TABLE data (p, o, ts, k, v)")
    stored = [(r.partition, r.offset, r.event_time, r.payload["k"], r.payload["v"]) for r in members]
    database.executemany("INSERT INTO data VALUES (?, ?, ?, ?, ?)", stored)
    written = ", ".join(text for _, text in SECOND_OPINION)
    theirs = database.execute(
        f"SELECT o, {written} FROM data WINDOW w AS (PARTITION BY k ORDER BY ts, p, o), "
        "t AS (PARTITION BY k ORDER BY ts) ORDER BY o"
    ).fetchall()
    by_key = [sorted((r for r in members if r.payload["k"] == k), key=arrival_order) for k in SHAPE.keys[1:]]
    ours = [
        (row.offset, *(value(ordered, i, call) for call, _ in SECOND_OPINION))
        for ordered in by_key
        for i, row in enumerate(ordered)
    ]
    assert sorted(ours) == theirs


# Wrong order and frames, and whether the bundle that the engine is tested with would show them.

CALL = {
    "lead": Call("lead", "v"),
    "lag": Call("lag", "v"),
    "dense_rank": Call("dense_rank"),
    "default": Call("sum", "v"),
    "range": Call("sum", "v", Range(-5, 5)),
    "session": Call("sum", "v", SessionGap(5)),
    "exclude": Call("sum", "v", Rows(-2, 0), exclude_current=True),
}


def result(call: Call, wrong_order=arrival_order, keys=("k",), shift: int = 0):
    def rule(members: list[Row], watermark: int) -> list:
        found = over(members, watermark + shift, [call], keys, wrong_order)
        return [(one.row.payload["id"], one.values) for one in found]

    return rule


def by_id(row: Row) -> tuple:
    return row.event_time, row.payload["v"] or 0


def lead_without_waiting(members: list[Row], watermark: int) -> list:
    """The last row of each key released with NULL: what a batch engine does."""
    found = over([r for r in members if r.event_time < watermark], 10**6, [Call("row_number")], ("k",))
    leads = dict(result(CALL["lead"])(members, watermark))
    return [(one.row.payload["id"], leads.get(one.row.payload["id"], (None,))) for one in found]


WRONG = {
    "ties in another order": ("lag", result(CALL["lag"], by_id)),
    "equal to the watermark is released": ("lag", result(CALL["lag"], shift=1)),
    "without keys": ("lag", result(CALL["lag"], keys=())),
    "lead does not wait": ("lead", lead_without_waiting),
    "rank instead of dense_rank": ("dense_rank", result(Call("rank"))),
    "default frame by peers": ("default", result(Call("sum", "v", Range(None)))),
    "range frame one too long": ("range", result(Call("sum", "v", Range(-6, 5)))),
    "range frame closes at its end": ("range", result(CALL["range"], shift=1)),
    "session frame merges at the gap": ("session", result(Call("sum", "v", SessionGap(6)))),
    "current row not excluded": ("exclude", result(replace(CALL["exclude"], exclude_current=False))),
}


@pytest.mark.parametrize("name", WRONG)
def test_the_bundle_shows_wrong_order_and_frames(name: str) -> None:
    rng = Random(0)
    call, wrong = WRONG[name]
    states = play(feed(rng, 200, SHAPE, marks(rng)))
    assert len(differing(states, result(CALL[call]), wrong)) >= 10
