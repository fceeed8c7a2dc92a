"""C1 and D1: windows over integers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.oracles.windows import cumulate, hop
from tidegate.watermark import Cumulate, Hop, TimeKind, Tumble

MINUTE = 60_000_000


def minutes(text: str) -> int:
    hour, minute = text.split(":")
    return (int(hour) * 60 + int(minute)) * MINUTE


def test_C1_window_start_is_inclusive_and_window_end_exclusive() -> None:
    hourly = Tumble(60)
    assert hourly.starts(59) == [0]
    assert hourly.starts(60) == [60]
    assert hourly.end(60) == 120


def test_C1_times_before_the_epoch_round_down() -> None:
    assert Tumble(60).starts(-1) == [-60]


def test_C1_an_offset_moves_the_grid() -> None:
    assert Tumble(60, offset=10).starts(9) == [-50]
    assert Tumble(60, offset=70).starts(10) == [10]
    assert Tumble(60, offset=-50).starts(10) == [10]


def test_C1_a_row_is_in_every_hop_that_covers_it() -> None:
    assert Hop(slide=15, size=60).starts(62) == [15, 30, 45, 60]
    assert Hop(slide=15, size=60, offset=5).starts(62) == [5, 20, 35, 50]


def test_C1_arrays_answer_like_integers() -> None:
    rows = Hop(15, 30, 4).starts(np.array([3, 4, 62]))
    assert rows.tolist() == [Hop(15, 30, 4).starts(t) for t in (3, 4, 62)]
    assert Tumble(10).end(np.array([0, 10])).tolist() == [10, 20]


@pytest.mark.parametrize(
    "bad",
    [
        lambda: Tumble(0),
        lambda: Tumble(-1),
        lambda: Hop(0, 10),
        lambda: Hop(3, 10),
        lambda: Hop(20, 10),
        lambda: Cumulate(3, 10),
        lambda: Cumulate(0, 10),
    ],
)
def test_C1_lengths_are_positive_and_a_hop_is_a_multiple_of_its_slide(bad) -> None:
    with pytest.raises(ValueError):
        bad()


def test_C1_the_ends_of_int64_do_not_overflow() -> None:
    lowest, highest = -(2**63), 2**63 - 1
    assert Tumble(60).starts(highest) == [highest - highest % 60]
    assert Tumble(60, 7).starts(np.array([highest])).tolist() == [Tumble(60, 7).starts(highest)]
    assert Tumble(3, 7).starts(np.array([lowest])).tolist() == [[lowest]]
    assert Hop(15, 60).starts(lowest)[-1] <= lowest


def test_D1_tumble_of_the_rfc() -> None:
    half_hourly = Tumble(30 * MINUTE)
    assert half_hourly.watermark_start(minutes("10:40")) == minutes("10:30")
    assert half_hourly.watermark_end(minutes("10:40")) == minutes("11:00")


def test_D1_hop_derives_from_the_earliest_window_still_open() -> None:
    rolling = Hop(slide=15, size=60)
    assert (rolling.watermark_start(62), rolling.watermark_end(62)) == (15, 75)
    # At 60 the window [0, 60) has just closed, and [15, 75) is the earliest one open.
    assert (rolling.watermark_start(60), rolling.watermark_end(60)) == (15, 75)
    assert (rolling.watermark_start(59), rolling.watermark_end(59)) == (0, 60)


windows = st.builds(Tumble, st.integers(1, 9), st.integers(-20, 20)) | st.builds(
    lambda slide, n, offset: Hop(slide, slide * n, offset),
    st.integers(1, 9),
    st.integers(1, 4),
    st.integers(-20, 20),
)


def grid(window: Tumble | Hop) -> list[int]:
    """Every window start within reach of the times tested here, found by counting."""
    return [start for start in range(-200, 200) if (start - window.offset) % window.slide == 0]


@given(windows, st.integers(-60, 60))
def test_C1_starts_are_all_windows_that_contain_the_time(window: Tumble | Hop, t: int) -> None:
    assert window.starts(t) == [start for start in grid(window) if start <= t < start + window.size]


@given(windows, st.integers(-60, 60))
def test_D1_the_derived_watermark_is_that_of_the_earliest_open_window(
    window: Tumble | Hop, watermark: int
) -> None:
    earliest = min(start for start in grid(window) if start + window.size > watermark)
    assert window.watermark_start(watermark) == earliest
    assert window.watermark_end(watermark) == earliest + window.size


def test_C1_a_window_says_what_it_is() -> None:
    assert Tumble(60 * MINUTE).describe(TimeKind.TIMESTAMP) == "TUMBLE 1 hour"
    assert Hop(15 * MINUTE, 60 * MINUTE, 5 * MINUTE).describe(TimeKind.TIMESTAMP) == (
        "HOP 15 minutes / 1 hour, offset 5 minutes"
    )
    assert Hop(60, 60).describe(TimeKind.EPOCH) == "HOP 60 / 60"
    assert Cumulate(15 * MINUTE, 60 * MINUTE, 5 * MINUTE).describe(TimeKind.TIMESTAMP) == (
        "CUMULATE 15 minutes / 1 hour, offset 5 minutes"
    )


def test_C1_a_row_is_in_every_cumulating_window_that_ends_after_it() -> None:
    daily = Cumulate(step=6, size=24)
    assert daily.bounds(0) == [(0, 6), (0, 12), (0, 18), (0, 24)]
    assert daily.bounds(12) == [(0, 18), (0, 24)]
    assert daily.bounds(23) == [(0, 24)]
    assert Cumulate(6, 24, offset=1).bounds(0) == [(-23, 1)]


def test_D1_cumulate_derives_from_the_earliest_window_still_open() -> None:
    daily = Cumulate(6, 24)
    assert (daily.watermark_start(11), daily.watermark_end(11)) == (0, 12)
    assert (daily.watermark_start(12), daily.watermark_end(12)) == (0, 18)
    assert (daily.watermark_start(24), daily.watermark_end(24)) == (24, 30)


cumulating = st.builds(
    lambda step, n, offset: Cumulate(step, step * n, offset),
    st.integers(1, 9),
    st.integers(1, 6),
    st.integers(-80, 80),
)


@given(cumulating, st.integers(-200, 200))
def test_C1_cumulating_windows_are_those_of_the_oracle(window: Cumulate, t: int) -> None:
    found = [
        (start + window.offset, end + window.offset)
        for start, end in cumulate(window.step, window.size)(t - window.offset)
    ]
    assert window.bounds(t) == found
    assert window.starts(t) == sorted({start for start, _ in found})
    assert window.starts(np.array([t])).tolist() == [window.starts(t)]


@given(windows, st.integers(-200, 200))
def test_C1_hopping_windows_are_those_of_the_oracle(window: Tumble | Hop, t: int) -> None:
    assert window.bounds(t) == sorted(hop(window.slide, window.size, window.offset)(t))


@given(cumulating, st.integers(-200, 200))
def test_D1_the_watermark_of_cumulate_is_that_of_the_smallest_end_beyond(
    window: Cumulate, watermark: int
) -> None:
    every = [bounds for t in range(watermark - 60, watermark + 60) for bounds in window.bounds(t)]
    ends = [(end, start) for start, end in every if end > watermark]
    assert (window.watermark_end(watermark), window.watermark_start(watermark)) == min(ends)


@given(windows | cumulating, st.integers(-200, 200))
def test_C1_no_window_is_longer_than_the_reach(window: Tumble | Hop | Cumulate, t: int) -> None:
    assert max(end - start for start, end in window.bounds(t)) == window.reach
