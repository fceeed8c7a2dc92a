"""The oracle of grouped windows on examples that fit on a screen, and wrong ones that the bundle shows (C1, C2, C6)."""

from __future__ import annotations

from datetime import datetime
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.oracles.cases import Shape, differing, feed, marks, play
from tests.oracles.oracle import Row, View, windows_of
from tests.oracles.windows import (
    Windows,
    cumulate,
    final,
    grouped,
    hop,
    instant,
    is_final,
    months,
    top,
    tumble,
)

SHAPE = Shape(deltas=(0, 1, 4, 5, 6, 9, 10, 11))


def rows(*times: int) -> list[Row]:
    return [Row("0", i, time, payload={"k": "x"}) for i, time in enumerate(times)]


def spans(groups) -> list[tuple]:
    return sorted((g.start, g.end, len(g.rows)) for g in groups)


def test_C1_cumulate_windows_begin_together_and_grow_by_a_step() -> None:
    windows = cumulate(5, 15)
    assert windows(0) == [(0, 5), (0, 10), (0, 15)]
    assert windows(4) == [(0, 5), (0, 10), (0, 15)]
    assert windows(5) == [(0, 10), (0, 15)]
    assert windows(14) == [(0, 15)]
    assert windows(15) == [(15, 20), (15, 25), (15, 30)]


def test_C2_cumulate_windows_close_one_after_the_other() -> None:
    groups = grouped(rows(1, 6), cumulate(5, 15))
    assert spans(final(groups, 4)) == []
    assert spans(final(groups, 5)) == [(0, 5, 1)]
    assert spans(final(groups, 10)) == [(0, 5, 1), (0, 10, 2)]


def test_C1_tumble_and_hop_with_an_offset() -> None:
    assert tumble(10, 3)(2) == [(-7, 3)]
    assert tumble(10, 3)(3) == [(3, 13)]
    assert hop(5, 15)(5) == [(5, 20), (0, 15), (-5, 10)]


@given(st.integers(-50, 50), st.integers(1, 9), st.integers(1, 4), st.integers(-9, 9))
def test_property_C1_hop_is_that_of_the_other_oracle(time: int, slide: int, times: int, offset: int) -> None:
    view = View("v", slide * times, slide, offset)
    assert [start for start, _ in hop(slide, slide * times, offset)(time)] == windows_of(view, time)


def test_C1_months_and_years_are_those_of_the_calendar() -> None:
    at = datetime(2024, 2, 29, 23, 59)
    assert months(1)(at) == [(datetime(2024, 2, 1), datetime(2024, 3, 1))]
    assert months(3)(at) == [(datetime(2024, 1, 1), datetime(2024, 4, 1))]
    assert months(12)(at) == [(datetime(2024, 1, 1), datetime(2025, 1, 1))]
    assert months(1)(datetime(2024, 3, 1)) == [(datetime(2024, 3, 1), datetime(2024, 4, 1))]
    assert months(2, slide=1)(at) == [
        (datetime(2024, 2, 1), datetime(2024, 4, 1)),
        (datetime(2024, 1, 1), datetime(2024, 3, 1)),
    ]


def test_C6_a_group_of_one_instant_is_final_when_the_watermark_is_beyond_it() -> None:
    groups = grouped(rows(3, 3, 5), instant)
    assert spans(final(groups, 3)) == []
    assert spans(final(groups, 4)) == [(3, 3, 2)]
    assert not is_final(3, 3, None)


def test_top_rows_have_their_numbers() -> None:
    found = top(rows(5, 9, 1), 2, order=lambda row: -row.event_time)
    assert [(row.event_time, n) for row, n in found] == [(9, 1), (5, 2)]


# Wrong windows, and whether the bundle that the engine is tested with would show them.


def result(windows: Windows, keys: tuple[str, ...] = ("k",)):
    def rule(members: list[Row], watermark: int) -> list:
        return [
            (g.start, g.end, g.keys[:1], len(g.rows))
            for g in final(grouped(members, windows, keys), watermark)
        ]

    return rule


def end_inclusive(members: list[Row], watermark: int) -> list:
    windows = hop(5, 15)
    return result(lambda time: windows(time) + ([(time - 15, time)] if time % 5 == 0 else []))(
        members, watermark
    )


def one_step_only(time: int) -> list[tuple[int, int]]:
    return cumulate(5, 15)(time)[:1]


def closed_with_the_whole(members: list[Row], watermark: int) -> list:
    """Cumulate windows that wait for the last of them."""
    found = result(cumulate(5, 15))(members, watermark)
    return [one for one in found if one[0] + 15 <= watermark]


def instant_at_the_watermark(members: list[Row], watermark: int) -> list:
    return result(instant)(members, watermark + 1)


WRONG = {
    "window_end is inclusive": (hop(5, 15), end_inclusive),
    "offset forgotten": (tumble(10, 3), result(tumble(10))),
    "cumulate is a tumble": (cumulate(5, 15), result(tumble(15))),
    "cumulate adds nothing up": (cumulate(5, 15), result(one_step_only)),
    "cumulate closes at its last end": (cumulate(5, 15), closed_with_the_whole),
    "an instant at the watermark is final": (instant, instant_at_the_watermark),
}


@pytest.mark.parametrize("name", WRONG)
def test_the_bundle_shows_wrong_windows(name: str) -> None:
    rng = Random(0)
    windows, wrong = WRONG[name]
    states = play(feed(rng, 200, SHAPE, marks(rng)))
    assert len(differing(states, result(windows), wrong)) >= 10
