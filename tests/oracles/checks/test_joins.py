"""The oracle of joins and unions on examples that fit on a screen, and wrong ones that the bundle shows (D2, C4)."""

from __future__ import annotations

import sqlite3
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.oracles.cases import Shape, beside, by_case, case_rows, feed, grows, marks, play
from tests.oracles.joins import Join, union
from tests.oracles.oracle import Row

#: a.t BETWEEN b.t - 5 AND b.t + 2
JOIN = Join(before=5, after=2, keys=("k",))
SHAPE = Shape(deltas=(0, 1, 2, 3, 4, 5, 6), keys=("x", "x", "y", None), rows=7)


def rows(*times: int, k: str | None = "x") -> list[Row]:
    return [Row("0", i, time, payload={"k": k}) for i, time in enumerate(times)]


def times(pairs) -> list[tuple]:
    return sorted(((a and a.event_time, b and b.event_time) for a, b in pairs), key=str)


def test_D2_both_ends_of_the_interval_belong_to_it() -> None:
    assert times(JOIN.pairs(rows(4, 5, 12, 13), rows(10))) == [(12, 10), (5, 10)]


def test_D2_each_side_has_its_own_watermark() -> None:
    assert JOIN.watermarks(20, 100) == (20, 18)
    assert JOIN.watermarks(100, 20) == (15, 20)
    assert JOIN.watermarks(None, 20) is None


def test_C4_a_pair_is_released_by_the_time_of_a() -> None:
    a, b = rows(9), rows(10)
    assert JOIN.released(a, b, 9, 100) == []
    assert JOIN.released(a, b, 100, 14) == []
    assert times(JOIN.released(a, b, 10, 15)) == [(9, 10)]


def test_D2_an_unmatched_row_waits_until_no_match_can_come() -> None:
    left = replace(JOIN, kind="left")
    # A b.t of 14 would match a.t of 9, and is on time while Wb is 14.
    assert left.released(rows(9), [], 100, 14) == []
    assert times(left.released(rows(9), [], 100, 15)) == [(9, None)]
    assert JOIN.released(rows(9), [], 100, 100) == []


def test_D2_an_unmatched_row_of_the_other_side() -> None:
    right = replace(JOIN, kind="right")
    # An a.t of 11 would match b.t of 9, and is on time while Wa is 11.
    assert right.released([], rows(9), 11, 100, by="b") == []
    assert times(right.released([], rows(9), 12, 100, by="b")) == [(None, 9)]


def test_C4_a_full_join_is_released_in_the_order_of_the_time_of_either_side() -> None:
    full = replace(JOIN, kind="full")
    # b.t of 9 is final when Wa is 12; but until Wb is 15 there may come an a.t of 9 or less, which stands before it.
    assert full.watermarks(12, 14) == (9, 10)
    assert full.released([], rows(9), 12, 14) == []
    assert times(full.released(rows(3), rows(9), 12, 15)) == [(3, None), (None, 9)]


def test_a_null_key_matches_nothing() -> None:
    assert JOIN.pairs(rows(9, k=None), rows(9, k=None)) == []
    full = replace(JOIN, kind="full")
    assert times(full.pairs(rows(9, k=None), rows(9, k=None))) == [(9, None), (None, 9)]


def test_the_condition_decides_what_is_unmatched() -> None:
    left = replace(JOIN, kind="left", condition=lambda a, b: False)
    assert times(left.pairs(rows(9), rows(9))) == [(9, None)]


def test_D2_a_union_has_the_minimum_once_all_have_one() -> None:
    assert union([rows(1), rows(2)], [5, None])[1] is None
    found, mark = union([rows(1), rows(2)], [5, 3])
    assert ([row.event_time for row in found], mark) == ([1, 2], 3)


@pytest.mark.medium
@given(
    st.randoms(use_true_random=False),
    st.sampled_from(["inner", "left", "right", "full"]),
    st.sampled_from("ab"),
)
def test_property_D2_what_is_released_never_changes(rng: Random, kind: str, by: str) -> None:
    """The rule that makes release by the watermark right: no on-time row of either side can add to it (W1)."""
    join = replace(JOIN, kind=kind)
    watermarks = {"a": [10, 20, 30, 40], "b": [5, 25, 25, 50]}
    given_rows = {
        side: [
            (step, Row("0", i, time, payload={"k": k}))
            for i, (step, time, k, _) in enumerate(case_rows(rng, SHAPE, watermarks[side]))
        ]
        for side in "ab"
    }
    history = []
    for step in range(4):
        on_time = {
            side: [
                r
                for s, r in given_rows[side]
                if s <= step and (s == 0 or r.event_time >= watermarks[side][s - 1])
            ]
            for side in "ab"
        }
        wa, wb = watermarks["a"][step], watermarks["b"][step]
        found = join.released(on_time["a"], on_time["b"], wa, wb, by)
        history.append([(a and a.offset, b and b.offset) for a, b in found])
    assert grows(history)


@pytest.mark.medium
@given(st.randoms(use_true_random=False), st.sampled_from(["inner", "left", "right", "full"]))
def test_property_pairs_are_those_of_another_database(rng: Random, kind: str) -> None:
    sides = {
        side: [
            Row("0", i, time, payload={"k": k})
            for i, (_, time, k, _) in enumerate(case_rows(rng, SHAPE, [5, 10]))
        ]
        for side in "ab"
    }
    database = sqlite3.connect(":memory:")
    for side, members in sides.items():
        database.execute(f"CREATE TABLE {side} (o, t, k)")
        data = [(r.offset, r.event_time, r.payload["k"]) for r in members]
        database.executemany(f"INSERT INTO {side} VALUES (?, ?, ?)", data)
    theirs = database.execute(
        f"SELECT a.o, b.o FROM a {kind} JOIN b ON a.k = b.k AND a.t BETWEEN b.t - 5 AND b.t + 2"
    ).fetchall()
    pairs = replace(JOIN, kind=kind).pairs(sides["a"], sides["b"])
    ours = [(a.offset if a else None, b.offset if b else None) for a, b in pairs]
    assert sorted(ours, key=str) == sorted(theirs, key=str)


# Wrong joins, and whether the bundle that the engine is tested with would show them.


def released(join: Join, shift_a: int = 0, shift_b: int = 0, derive: bool = True):
    def rule(a: list[Row], b: list[Row], wa: int, wb: int) -> list:
        if derive:
            found = join.released(a, b, wa + shift_a, wb + shift_b)
        else:
            found = [
                (x, y)
                for x, y in join.pairs(a, b)
                if (x is None or x.event_time < wa) and (y is None or y.event_time < wb)
            ]
        return [(x and x.payload["id"], y and y.payload["id"]) for x, y in found]

    return rule


LEFT, FULL = replace(JOIN, kind="left"), replace(JOIN, kind="full")
WRONG = {
    "an end of the interval left out": (JOIN, released(replace(JOIN, after=1))),
    "the other end left out": (JOIN, released(replace(JOIN, before=4))),
    "the interval turned round": (JOIN, released(replace(JOIN, before=2, after=5))),
    "keys forgotten": (JOIN, released(replace(JOIN, keys=()))),
    "unmatched rows left out": (LEFT, released(JOIN)),
    "the other side's unmatched rows left out": (FULL, released(LEFT)),
    "a row at its watermark released": (LEFT, released(LEFT, shift_a=1)),
    "unmatched rows released one too early": (LEFT, released(LEFT, shift_b=1)),
    "unmatched rows released by their own watermark": (LEFT, released(LEFT, derive=False)),
}


@pytest.mark.parametrize("name", WRONG)
def test_the_bundle_shows_wrong_joins(name: str) -> None:
    rng = Random(0)
    join, wrong = WRONG[name]
    watermarks = {"a": marks(rng)}
    watermarks["b"] = beside(rng, watermarks["a"])
    a_feed = feed(rng, 200, SHAPE, watermarks["a"])
    b_feed = feed(rng, 200, SHAPE, watermarks["b"], other=a_feed)
    noticed = set()
    for a, b in zip(play(a_feed), play(b_feed), strict=True):
        if a.watermark is None or b.watermark is None:
            continue
        left, right = by_case(a.rows), by_case(b.rows)
        for case in left.keys() | right.keys():
            given_case = (left.get(case, []), right.get(case, []), a.watermark, b.watermark)
            if sorted(wrong(*given_case), key=str) != sorted(released(join)(*given_case), key=str):
                noticed.add(case)
    assert len(noticed) >= 10
