"""C1 and D1: windows of whole months, and what they answer about time."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.oracles.windows import months
from tidegate.watermark import CalendarHop, CalendarTumble, TimeKind

DAY = TimeKind.DATE
INSTANT = TimeKind.TIMESTAMP
MICROS_PER_DAY = 86_400_000_000


def dates(window: CalendarTumble | CalendarHop, text: str) -> list[tuple[str, str]]:
    kind = window.kind
    return [(kind.format(start), kind.format(end)) for start, end in window.bounds(kind.parse(text))]


def test_C1_a_month_has_the_length_of_that_month() -> None:
    assert dates(CalendarTumble(DAY, 1), "2024-02-29") == [("2024-02-01", "2024-03-01")]
    assert dates(CalendarTumble(INSTANT, 1), "2023-02-28 23:59:59.999999") == [
        ("2023-02-01 00:00:00", "2023-03-01 00:00:00")
    ]


def test_C1_quarters_and_years_begin_in_january() -> None:
    assert dates(CalendarTumble(DAY, 3), "2024-06-30") == [("2024-04-01", "2024-07-01")]
    assert dates(CalendarTumble(DAY, 12), "1969-12-31") == [("1969-01-01", "1970-01-01")]


def test_C1_an_offset_of_months_and_days_makes_fiscal_years() -> None:
    fiscal = CalendarTumble(DAY, 12, offset_months=3, offset=5)
    assert dates(fiscal, "2024-04-05") == [("2023-04-06", "2024-04-06")]
    assert dates(fiscal, "2024-04-06") == [("2024-04-06", "2025-04-06")]
    assert fiscal.describe(DAY) == "TUMBLE 1 year, offset 3 months 5 days"


def test_C1_a_hop_of_months_covers_every_day_size_over_slide_times() -> None:
    assert dates(CalendarHop(DAY, 1, 3), "2024-03-31") == [
        ("2024-01-01", "2024-04-01"),
        ("2024-02-01", "2024-05-01"),
        ("2024-03-01", "2024-06-01"),
    ]


def test_C1_an_integer_column_has_no_months() -> None:
    with pytest.raises(ValueError, match="integer"):
        CalendarTumble(TimeKind.EPOCH, 1)


@pytest.mark.parametrize(("slide", "size"), [(0, 1), (1, 0), (-1, 1), (2, 3), (6, 3)])
def test_C1_a_hop_of_months_is_a_multiple_of_its_slide(slide: int, size: int) -> None:
    with pytest.raises(ValueError):
        CalendarHop(DAY, slide, size)


@pytest.mark.parametrize(
    ("window", "days"),
    [
        (CalendarTumble(DAY, 1), 31),
        (CalendarTumble(DAY, 2), 62),
        (CalendarTumble(DAY, 6), 184),
        (CalendarTumble(DAY, 6, offset_months=3), 183),
        (CalendarTumble(DAY, 3), 92),
        (CalendarHop(DAY, 1, 2), 62),
        (CalendarTumble(DAY, 12), 366),
        (CalendarTumble(DAY, 48), 1461),
    ],
)
def test_C1_the_reach_is_the_longest_window_of_the_grid(window: CalendarTumble, days: int) -> None:
    assert window.reach == days


windows = st.builds(
    CalendarTumble, st.just(DAY), st.integers(1, 30), st.integers(-40, 40), st.integers(-70, 70)
) | st.builds(
    lambda slide, n, months, days: CalendarHop(DAY, slide, slide * n, months, days),
    st.integers(1, 15),
    st.integers(1, 4),
    st.integers(-40, 40),
    st.integers(-70, 70),
)
#: From 1877 to 2062: the 29th of February of 1900 that never was, and that of 2000.
days = st.integers(-34_000, 34_000)


@given(windows, days)
def test_C1_bounds_are_all_windows_that_contain_the_time(
    window: CalendarTumble | CalendarHop, t: int
) -> None:
    found = window.bounds(t)
    assert len(found) == window.size_months // window.slide_months
    assert all(start <= t < end <= start + window.reach for start, end in found)
    assert [start for start, _ in found] == window.starts(t) == sorted({start for start, _ in found})
    # The next windows of the grid do not hold it.
    assert window.starts(found[0][0] - 1)[0] < found[0][0]
    assert window.end(window.starts(found[0][0] - 1)[0]) <= t
    assert all(window.starts(start)[-1] == start for start, _ in found)


@given(st.integers(1, 30), st.integers(1, 4), st.integers(-20_000, 34_000))
def test_C1_months_are_those_of_the_oracle(slide: int, n: int, t: int) -> None:
    window = CalendarHop(INSTANT, slide, slide * n)
    instant = np.datetime64(t * MICROS_PER_DAY + 1, "us")
    expected = [
        tuple(int(np.datetime64(bound, "us").astype(np.int64)) for bound in pair)
        for pair in months(slide * n, slide)(instant.item())
    ]
    assert window.bounds(int(instant.astype(np.int64))) == sorted(expected)


@given(windows, days)
def test_D1_the_derived_watermark_is_that_of_the_earliest_open_window(
    window: CalendarTumble | CalendarHop, watermark: int
) -> None:
    start, end = window.watermark_start(watermark), window.watermark_end(watermark)
    assert (start, end) == window.bounds(watermark)[0]
    previous = window.bounds(start - 1)[0]
    assert previous[1] <= watermark < end


@given(windows, st.lists(days, min_size=1, max_size=5))
def test_C1_arrays_answer_like_integers(window: CalendarTumble | CalendarHop, times: list[int]) -> None:
    assert window.starts(np.array(times)).tolist() == [window.starts(t) for t in times]
    assert window.end(np.array(times)).tolist() == [window.end(t) for t in times]
