"""The oracle of strategies that remember rows, on examples that fit on a screen (S1–S4, W11, W2)."""

from __future__ import annotations

import pytest

from tests.oracles.strategies import DAY, Partition, Preceding, SourceWatermark, nearest_rank


def after(times: list[int]) -> SourceWatermark:
    strategy = SourceWatermark()
    for time in times:
        strategy.see(time)
    return strategy


def test_S1_out_of_orderness_is_the_distance_to_the_maximum_so_far() -> None:
    assert after([100, 90, 120, 100, 130]).out_of_orderness == [0, 10, 0, 20, 0]


def test_S2_the_quantile_is_by_nearest_rank() -> None:
    assert nearest_rank(list(range(1, 21)), 95) == 19
    assert nearest_rank(list(range(1, 22)), 95) == 20
    assert nearest_rank([7], 95) == 7


@pytest.mark.parametrize(
    ("rows", "delay"),
    [(1, 7 * DAY), (250, 7 * DAY), (251, 30_000), (501, 10_000), (751, 1_000), (1000, 1_000), (1001, 50)],
)
def test_S3_the_margin_shrinks_as_rows_are_seen(rows: int, delay: int) -> None:
    """In order, so that q95 is 0; at last the delay is at its lower bound (S2)."""
    assert after(list(range(rows))).delay() == delay


def test_S4_a_new_estimate_is_used_from_the_next_row_on() -> None:
    strategy = after([DAY] * 1250)
    for _ in range(249):
        strategy.see(DAY - 400)
    assert strategy.q95 == 0
    assert strategy.see(DAY - 400) == DAY - 50
    assert strategy.see(DAY) == DAY - 400


def test_S1_only_the_last_5000_rows_are_remembered() -> None:
    times = [DAY] + [DAY - 400] * 499 + [DAY] * 5000
    assert after(times).q95 == 0
    assert after(times[:1000]).q95 == 400


def test_W2_late_rows_count_for_the_estimate_and_raise_nothing() -> None:
    partition = Partition(SourceWatermark())
    for _ in range(1500):
        partition.read(DAY)
    assert partition.wp == DAY - 50
    assert [partition.read(DAY - 60) for _ in range(250)] == [("late", DAY - 50)] * 250
    assert isinstance(partition.strategy, SourceWatermark)
    assert partition.strategy.q95 == 60


def test_W11_an_outlier_is_left_out_until_a_row_is_beyond_it() -> None:
    def without_maximum(frame: list[int]) -> int | None:
        return None if frame[-1] == max(frame) else frame[-1] - 5

    partition = Partition(Preceding(2, without_maximum))
    assert [partition.read(t)[0] for t in (100, 10, 12, 14, 6, 5)] == ["on_time"] * 4 + ["late", "late"]
    assert partition.wp == 7
