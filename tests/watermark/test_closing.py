"""C2 and C6: the one boundary between open and closed."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.watermark import (
    Hop,
    Identity,
    Tumble,
    Window,
    WindowEnd,
    WindowStart,
    window_is_closed,
)

WINDOWS = [Tumble(10), Tumble(10, 3), Hop(5, 10), Hop(5, 15, -2)]


@pytest.mark.parametrize(("watermark", "closed"), [(None, False), (59, False), (60, True), (61, True)])
def test_C2_a_window_is_final_once_the_watermark_reaches_its_end(watermark: int | None, closed: bool) -> None:
    assert bool(window_is_closed(60, watermark)) is closed


@pytest.mark.parametrize(("derived", "closed"), [(None, False), (5, False), (6, True)])
def test_C6_a_group_is_final_once_its_watermark_is_strictly_beyond_it(
    derived: int | None, closed: bool
) -> None:
    assert bool(window_is_closed(5 + 1, derived)) is closed


def test_C6_arrays_answer_like_integers() -> None:
    ends = np.array([50, 60, 70])
    assert window_is_closed(ends, 60).tolist() == [True, True, False]
    assert window_is_closed(ends, None).tolist() == [False, False, False]


@given(st.sampled_from(WINDOWS), st.integers(-40, 40), st.none() | st.integers(-40, 40))
def test_C6_the_derived_watermarks_of_both_bounds_close_a_window_when_C2_does(
    window: Window, t: int, watermark: int | None
) -> None:
    for start in window.starts(t):
        final = window_is_closed(window.end(start), watermark)
        assert window_is_closed(start + 1, WindowStart(Identity(), window).at(watermark)) == final
        assert window_is_closed(window.end(start) + 1, WindowEnd(Identity(), window).at(watermark)) == final


@given(st.sampled_from(WINDOWS), st.integers(-40, 40), st.integers(0, 40))
def test_W3_no_row_on_time_belongs_to_a_window_that_is_final(
    window: Window, watermark: int, ahead: int
) -> None:
    on_time = watermark + ahead
    assert not any(window_is_closed(window.end(start), watermark) for start in window.starts(on_time))
