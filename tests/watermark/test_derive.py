"""D1: how a column's watermark follows from its source's."""

from __future__ import annotations

import pytest

from tidegate.watermark import (
    Derived,
    Hop,
    Identity,
    SessionMark,
    Shift,
    TimeKind,
    Tumble,
    WindowEnd,
    WindowStart,
)
from tidegate.watermark.derive import EarliestOpen, least

MINUTE = 60_000_000
HOURLY = Tumble(60 * MINUTE)
ROLLING = Hop(15 * MINUTE, 60 * MINUTE, 5 * MINUTE)


@pytest.mark.parametrize(
    ("derived", "minutes"),
    [
        (Identity(), 640),
        (Shift(Identity(), -10 * MINUTE), 630),
        (WindowStart(Identity(), HOURLY), 600),
        (WindowEnd(Identity(), HOURLY), 660),
        (WindowStart(Shift(Identity(), -50 * MINUTE), HOURLY), 540),
        (WindowStart(Identity(), ROLLING), 590),
        (WindowEnd(Identity(), ROLLING), 650),
        (Shift(WindowEnd(Identity(), HOURLY), 5 * MINUTE), 665),
    ],
)
def test_D1_the_watermark_travels(derived: Derived, minutes: int) -> None:
    assert derived.at(640 * MINUTE) == minutes * MINUTE
    assert derived.at(None) is None


@pytest.mark.parametrize(
    ("derived", "ticks", "readable"),
    [
        (Identity(), "watermark", "watermark"),
        (Shift(Identity(), -60 * MINUTE), "watermark - 3600000000", "watermark - 1 hour"),
        (
            WindowStart(Identity(), Tumble(MINUTE)),
            "tumble_start(watermark, 60000000)",
            "tumble_start(watermark, 1 minute)",
        ),
        (
            WindowEnd(Shift(Identity(), MINUTE), ROLLING),
            "hop_end(watermark + 60000000, 900000000, 3600000000, 300000000)",
            "hop_end(watermark + 1 minute, 15 minutes, 1 hour, 5 minutes)",
        ),
    ],
)
def test_D1_explain_can_print_it(derived: Derived, ticks: str, readable: str) -> None:
    assert derived.describe() == ticks
    assert derived.describe(TimeKind.TIMESTAMP) == readable


def test_D2_the_least_of_several_once_all_are_defined() -> None:
    union = least(Identity(0), Identity(1), Shift(Identity(2), -10))
    assert union.at(50, 40, 60) == 40
    assert union.at(50, 70, 55) == 45
    for marks in ((None, 40, 60), (50, None, 60), (50, 40, None)):
        assert union.at(*marks) is None


def test_D3_window_start_waits_for_the_earliest_open_session() -> None:
    assert EarliestOpen().at(SessionMark(50, 30)) == 30
    assert EarliestOpen().at(SessionMark(50, 70)) == 50
    assert EarliestOpen().at(SessionMark(50, None)) == 50
    assert EarliestOpen().at(SessionMark(None, 30)) is None
    # window_end carries the frontier itself.
    assert Identity().at(SessionMark(50, 30)) == 50
