"""The oracle of a broker's partitions on examples that fit on a screen (W6 to W9, R3)."""

from __future__ import annotations

from collections.abc import Mapping

from tests.oracles.oracle import Row
from tests.oracles.partitions import Partitions


class Feed:
    """One batch after the other; `rows`: of each partition the times that arrive."""

    def __init__(self, *, advance: bool = False) -> None:
        self.oracle = Partitions(lambda row: row.event_time, 300, 1000, 300, advance)

    def batch(
        self, clock: int, rows: Mapping[str, list[int]], ends: Mapping[str, int] | None = None
    ) -> int | None:
        """All that is there is read, and who is idle is so. `ends`: of partitions without rows in this batch."""
        oracle, found, until = self.oracle, list[Row](), dict(ends or {})
        for name, times in rows.items():
            at = oracle.position.get(name, 0)
            found += [Row(name, at + i, time) for i, time in enumerate(times)]
            until[name] = at + len(times)
        until = oracle.position | until
        starts = {name: 0 for name in until if name not in oracle.wp}
        oracle.batch(clock, until, starts, until, {}, found)
        return oracle.publish(oracle.idle())

    def outcomes(self) -> list[str]:
        return [decision.outcome for decision in self.oracle.decisions]


def test_W7_a_silent_partition_leaves_the_minimum_after_the_timeout_and_no_earlier() -> None:
    feed = Feed()
    assert feed.batch(0, {"0": [10], "1": [20]}) == 10
    assert feed.batch(299, {"1": [30]}) == 10
    assert feed.batch(300, {"1": [40]}) == 40
    assert (feed.oracle.state("0"), feed.oracle.state("1")) == ("idle", "active")


def test_W7_one_that_wakes_up_starts_at_the_published_watermark() -> None:
    feed = Feed()
    feed.batch(0, {"0": [10], "1": [20]})
    feed.batch(300, {"1": [40]})
    assert feed.batch(310, {"0": [39]}) == 40
    assert feed.outcomes()[-1] == "late"
    assert feed.oracle.wp["0"] == 40


def test_W7_where_all_are_idle_the_watermark_holds_or_follows_the_clock() -> None:
    for advance, published in ((False, 20), (True, 340)):
        feed = Feed(advance=advance)
        feed.batch(0, {"0": [20]})
        feed.batch(20, {"0": [20]})
        assert feed.batch(340, {}) == published


def test_W6_an_empty_partition_takes_no_part_and_R3_begins_at_the_published_watermark() -> None:
    feed = Feed()
    assert feed.batch(0, {"0": [10]}, {"1": 0}) == 10
    assert feed.oracle.state("1") == "empty"
    assert feed.batch(10, {"0": [50], "2": []}) == 50
    assert feed.oracle.wp["2"] == 10
    assert feed.batch(20, {"2": [20]}) == 50
    assert feed.outcomes()[-1] == "late"


def test_W9_a_row_beyond_the_clock_is_on_time_and_raises_nothing() -> None:
    feed = Feed()
    assert feed.batch(10, {"0": [5, 1011, 7]}) == 7
    assert feed.outcomes() == ["on_time"] * 3
    assert feed.oracle.state("0") == "future"
    assert feed.batch(11, {"0": [1011]}) == 1011


def test_W8_a_partition_whose_watermark_stands_still_while_rows_come_is_stalled() -> None:
    feed = Feed()
    feed.batch(10, {"0": [5]})
    feed.batch(310, {"0": [5]})
    assert feed.oracle.state("0") == "active"
    feed.batch(311, {"0": [5]})
    assert feed.oracle.state("0") == "stalled"
