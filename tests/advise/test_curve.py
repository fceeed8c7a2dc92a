"""The curve, its knee and the choice that is recommended: plain numbers."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from tidegate.advise.curve import Curve, choices, percent, recommended
from tidegate.advise.grid import delays, place, quantile
from tidegate.watermark import TimeKind

#: 1,000 rows: 600 in order, then fewer and fewer that need more and more, one that nothing saves.
ROWS = {0: 600, 10: 200, 20: 100, 30: 60, 60: 30, 600: 9}


def test_completeness_counts_rows_up_to_the_delay_and_is_flat_between() -> None:
    curve = Curve.of(ROWS, 1000)
    assert [curve.on_time(d) for d in (0, 9, 10, 29, 30, 599, 600, 10**9)] == [
        600, 600, 800, 900, 960, 990, 999, 999,
    ]  # fmt: skip
    assert curve.at(60) == 0.99
    assert curve.shares == [0.6, 0.8, 0.9, 0.96, 0.99, 0.999]


def test_needed_is_the_shortest_delay_that_reaches_the_target_exactly() -> None:
    curve = Curve.of(ROWS, 1000)
    assert [curve.needed(t) for t in (0.5, 0.6, 0.61, 0.9, 0.9001, 0.99, 0.991, 0.999)] == [
        0, 0, 10, 20, 30, 60, 600, 600,
    ]  # fmt: skip
    assert curve.needed(1.0) is None
    assert recommended(curve, 1.0) == 600, "the shortest of the best"
    # 0.07 * 100 is not 7 in floating point.
    assert Curve.of({0: 7, 5: 93}, 100).needed(0.07) == 0


def test_the_knee_is_where_more_delay_begins_to_buy_little() -> None:
    # 30 is 36 points of 40 up after 1/20 of the way, 60 is 39 after 1/10.
    assert Curve.of(ROWS, 1000).knee == 60
    assert Curve.of({0: 10}, 10).knee == 0, "in order: there is nothing to gain"
    assert Curve.of({}, 3).knee == 0, "late under any delay"
    straight = Curve.of(dict.fromkeys(range(0, 100, 10), 10), 100)
    assert straight.knee == 90, "nowhere bent: its end"
    # One straggler in a million does not move it.
    assert Curve.of({0: 600_000, 5: 399_999, 10**9: 1}, 1_000_000).knee == 5


def test_choices_have_each_delay_once_with_all_its_reasons() -> None:
    found = choices(Curve.of(ROWS, 1000), declared=60, target=0.99)
    assert [(c.delay, c.why) for c in found] == [
        (0, "no delay"),
        (30, "95 % on time"),
        (60, "knee, declared, 99 % on time, recommended"),
        (600, "99.9 % on time, the best that a delay can do"),
    ]
    assert [(c.on_time, c.late, c.share) for c in found][2] == (990, 10, 0.99)
    # A strategy that runs ahead of the event time is no delay.
    assert all("declared" not in c.why for c in choices(Curve.of(ROWS, 1000), declared=-5, target=0.9))


def test_percent_has_no_more_digits_than_it_has() -> None:
    assert [percent(x) for x in (1, 0.999, 0.95, 0.123456)] == ["100 %", "99.9 %", "95 %", "12.3456 %"]


@pytest.mark.parametrize("kind", list(TimeKind))
def test_the_delays_are_few_and_ascending(kind: TimeKind) -> None:
    found = delays(kind)
    assert found[0] == 0
    assert np.all(np.diff(found) > 0)
    assert len(found) < 2_000


def test_delays_are_fine_enough_wherever_a_choice_is_made() -> None:
    found = delays(TimeKind.TIMESTAMP)
    beyond = found[found >= 1_000_000]
    beyond = beyond[beyond < 3_650 * 86_400_000_000 // 10]
    assert (np.diff(beyond) / beyond[:-1]).max() < 0.15
    minute = 60_000_000
    assert all(m * minute in set(found.tolist()) for m in range(361)), "whole minutes of the first six hours"


def test_quantiles_are_by_nearest_rank_and_rounded_up_to_a_delay() -> None:
    random, points = Random(1), np.arange(0, 1000, 10)
    for _ in range(50):
        values = [random.randrange(900) for _ in range(random.randrange(1, 400))]
        counts = np.bincount(place(np.array(values), points), minlength=len(points) + 2)
        for share in (0.5, 0.95, 0.999):
            rank = -(-round(share * 10_000) * len(values) // 10_000)
            exact = sorted(values)[rank - 1]
            assert quantile(counts, points, share) == -(-exact // 10) * 10
    assert quantile(np.zeros(102, dtype=np.int64), points, 0.5) is None
    beyond = np.bincount([101, 101, 3], minlength=102)
    assert (quantile(beyond, points, 0.3), quantile(beyond, points, 0.5)) == (30, None)
