"""SOURCE_WATERMARK() (S1-S4): the vectorised form against the rules read row by row, under any cut (W4)."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.watermark import Delay, GateConfig, GateState, PrecedingRows, SourceWatermark, TimeKind, judge
from tidegate.watermark.preceding import Values, remember

SECOND = 1_000_000
DAY = 86_400 * SECOND
#: The rule's own numbers, in microseconds.
DEFAULT = SourceWatermark(
    5000, 0.95, 250, 50_000, 7 * DAY, ((250, 7 * DAY), (500, 30 * SECOND), (750, 10 * SECOND), (1000, SECOND))
)
LOWEST, HIGHEST = -(2**63), 2**63 - 1
Row = tuple[int, bool]  # event time, accepted


class ByTheRule:
    """semantics.md, W1, W2, W9 and S1-S4, one row after the other; exact integers, no limits."""

    def __init__(
        self, s: SourceWatermark, percent: tuple[int, int], skew: int | None = None, clock: int = 0
    ) -> None:
        self.s, self.percent, self.skew, self.clock = s, percent, skew, clock
        self.wp: int | None = None
        self.newest: int | None = None
        self.last: list[int] = []
        self.rows, self.quantile = 0, 0

    def read(self, time: int, accepted: bool, g: int | None) -> object:
        """The row's outcome: what it missed, "rejected", or None for on time."""
        if not accepted:
            return "rejected"
        future = self.skew is not None and time > self.clock + self.skew
        if not future and (self.newest is None or time > self.newest):
            self.newest = time
        self.rows += 1
        behind = 0 if self.newest is None else max(self.newest - time, 0)
        self.last = [*self.last, min(behind, HIGHEST)][-self.s.window :]
        bars = [bar for bar in (self.wp, g) if bar is not None]
        late = bool(bars) and time < max(bars)
        if not late and not future:
            assert self.newest is not None
            margin = next((margin for row, margin in self.s.warm_up if self.rows <= row), 0)
            delay = min(max(self.quantile + margin, self.s.min_delay), self.s.max_delay)
            value = max(self.newest - delay, LOWEST)
            self.wp = value if self.wp is None else max(self.wp, value)
        if self.rows % self.s.interval == 0:
            count, hundred = self.percent
            rank = -(-count * len(self.last) // hundred)  # the smallest rank that covers so many of them
            self.quantile = sorted(self.last)[rank - 1]
        return max(bars) if late else None


def judged(
    strategy: SourceWatermark,
    rows: list[Row],
    cuts: list[int],
    published: int | None = None,
    skew: int | None = None,
    clock: int = 0,
) -> tuple[list[object], GateState]:
    """What the gate says, the rows cut into calls at these places, the state packed and unpacked between them."""
    config = GateConfig(TimeKind.EPOCH, strategy, max_future_skew=skew)
    state, out = GateState(), []
    for start, end in zip([0, *cuts], [*cuts, len(rows)], strict=True):
        times = np.array([time for time, _ in rows[start:end]], dtype=np.int64)
        accepted = np.array([ok for _, ok in rows[start:end]], dtype=bool)
        result = judge(config, state, published, times, accepted, clock=clock)
        for late, missed, ok in zip(
            result.late.tolist(), result.missed.tolist(), accepted.tolist(), strict=True
        ):
            out.append("rejected" if not ok else missed if late else None)
        state = GateState.from_dict(result.state.to_dict())
    return out, state


def expected(
    strategy: SourceWatermark, rows: list[Row], published: int | None = None, **skew: int | None
) -> tuple[list[object], int | None]:
    rule = ByTheRule(strategy, (95, 100), **skew)  # type: ignore[arg-type]
    return [rule.read(time, ok, published) for time, ok in rows], rule.wp


def a_source(seed: int, n: int) -> list[Row]:
    """Rows a second apart, every fifth up to two minutes behind, one in a hundred rejected."""
    random = np.random.default_rng(seed)
    behind = np.where(random.random(n) < 0.2, random.integers(0, 120 * SECOND, n), 0)
    times = np.arange(n) * SECOND - behind
    return list(zip(times.tolist(), (random.random(n) < 0.99).tolist(), strict=True))


@pytest.mark.medium
@pytest.mark.parametrize("seed", [1, 2])
def test_S1_to_S4_the_rules_own_numbers_over_a_window_that_has_moved_on(seed: int) -> None:
    rows = a_source(seed, 7000)
    outcomes, wp = expected(DEFAULT, rows)
    assert 0 < sum(isinstance(o, int) for o in outcomes) < len(rows) * 0.1
    for cuts in ([], [1], [250, 251, 5000, 6999], list(range(100, 7000, 613))):
        out, state = judged(DEFAULT, rows, cuts)
        assert out == outcomes
        assert state.watermark == wp


def test_S3_the_margins_of_the_warm_up_by_rows_seen() -> None:
    rows = [(i * SECOND, True) for i in range(1, 1003)]  # in order: nothing is ever behind
    trailing = {}
    state = GateState()
    for time, ok in rows:
        state = judge(
            GateConfig(TimeKind.TIMESTAMP, DEFAULT), state, None, np.array([time]), np.array([ok])
        ).state
        trailing[time // SECOND] = time - state.watermark
    assert trailing[1] == trailing[250] == 7 * DAY
    assert trailing[251] == trailing[500] == 30 * SECOND
    assert trailing[501] == trailing[750] == 10 * SECOND
    assert trailing[751] == trailing[1000] == SECOND
    assert trailing[1001] == 50_000  # S2: never less than 50 ms


def test_S2_the_quantile_is_taken_by_nearest_rank_and_the_delay_never_above_seven_days() -> None:
    strategy = SourceWatermark(100, 0.95, 20, 0, 50, ())
    behind = [*range(1, 20), 1000]  # of twenty values the nineteenth: 19
    rows = [(1000 - b, True) for b in [0, *behind[:-1]]] + [(1001, True)]
    assert judged(strategy, [*rows, (2000, True)], [])[1].watermark == 2000 - 18
    far = [(0, True), (10_000, True), *[(0, True)] * 18, (20_000, True)]
    assert judged(strategy, far, [])[1].watermark == 20_000 - 50


def test_S4_an_estimate_is_used_from_the_next_row_on() -> None:
    strategy = SourceWatermark(10, 0.95, 3, 1, 1000, ())
    rows = [(100, True), (90, True), (80, True), (101, True)]
    assert [judged(strategy, rows[: i + 1], [])[1].watermark for i in range(4)] == [99, 99, 99, 99]
    # 80 is late by the 99 of before; 20 is what the estimate says after it, so 101 offers 81 and Wp stays.
    assert judged(strategy, rows, [])[0] == [None, 99, 99, None]
    assert judged(strategy, [*rows, (140, True)], [])[1].watermark == 120
    # The third row is on time: its own offer is still by the estimate of before, 1, and that of the fourth by 10.
    rows = [(100, True), (90, True), (101, True), (102, True)]
    assert [judged(strategy, rows[: i + 1], [])[1].watermark for i in range(4)] == [99, 99, 100, 100]


def test_S1_W2_late_rows_count_and_rejected_rows_do_not() -> None:
    strategy = SourceWatermark(10, 1.0, 2, 1, 1000, ())
    late = [(100, True), (50, True), (200, True)]
    assert judged(strategy, late, [])[1].watermark == 150
    rejected = [(100, True), (50, False), (200, True)]
    assert judged(strategy, rejected, [])[1].watermark == 199


def test_W9_a_row_too_far_in_the_future_raises_neither_wp_nor_the_largest_event_time() -> None:
    strategy = SourceWatermark(10, 1.0, 2, 5, 1000, ())
    rows = [(100, True), (900, True), (110, True)]
    out, state = judged(strategy, rows, [], skew=50, clock=100)
    assert out == [None, None, None]
    assert (state.watermark, state.max_event_time, state.on_time) == (105, 900, 3)
    assert judged(strategy, rows, [])[0] == [None, None, 895]


def test_R1_the_memory_is_committed_small_and_a_smaller_window_forgets_the_rest() -> None:
    _, state = judged(DEFAULT, a_source(3, 6000), [])
    assert len(state.to_dict()["memory"]) < 30_000
    narrow = SourceWatermark(10, 0.95, 250, 50_000, 7 * DAY, ())
    assert narrow.rows(state.memory) == state.on_time + state.late
    after = judge(GateConfig(TimeKind.TIMESTAMP, narrow), state, None, np.array([0]), np.array([True])).state
    assert after.memory is not None
    assert len(after.memory.numbers) == 5 + 10


@pytest.mark.parametrize(
    "numbers",
    [
        (0, 0.95, 250, 1, 2, ()),
        (10, 0.0, 250, 1, 2, ()),
        (10, 1.5, 250, 1, 2, ()),
        (10, 0.5, 0, 1, 2, ()),
        (10, 0.5, 1, 3, 2, ()),
        (10, 0.5, 1, 1, 2, ((5, 1), (4, 1))),
        (10, 0.5, 1, 1, 2, ((5, -1),)),
    ],
)
def test_numbers_that_make_no_sense_are_refused(numbers: tuple) -> None:
    with pytest.raises(ValueError):
        SourceWatermark(*numbers)


a_time = st.one_of(
    st.integers(-20, 20), st.integers(0, 200), st.sampled_from([LOWEST, 0, HIGHEST - 100, HIGHEST])
)
a_strategy = st.builds(
    SourceWatermark,
    st.integers(1, 12),
    st.just(0.95),
    st.integers(1, 7),
    st.integers(0, 3),
    st.integers(3, 40),
    st.sampled_from([(), ((3, 10),), ((2, 30), (5, 4), (9, 1))]),
)


@pytest.mark.medium
@given(
    a_strategy,
    st.lists(st.tuples(a_time, st.sampled_from([True, True, True, False])), max_size=60),
    st.none() | st.integers(-20, 60),
    st.none() | st.integers(0, 30),
    st.integers(-10, 100),
    st.lists(st.integers(0, 60), max_size=5),
)
def test_W4_any_numbers_under_any_cut_are_judged_as_the_rules_say_row_by_row(
    strategy: SourceWatermark,
    rows: list[Row],
    published: int | None,
    skew: int | None,
    clock: int,
    cuts: list[int],
) -> None:
    outcomes, wp = expected(strategy, rows, published, skew=skew, clock=clock)
    out, state = judged(strategy, rows, sorted(c for c in cuts if c <= len(rows)), published, skew, clock)
    assert out == outcomes
    assert state.watermark == wp
    assert strategy.rows(state.memory) == sum(ok for _, ok in rows)


def test_W13_a_changed_strategy_begins_with_what_it_remembers_itself() -> None:
    _, state = judged(DEFAULT, a_source(4, 300), [])
    rows = (np.array([400 * SECOND]), np.array([True]))
    other = judge(GateConfig(TimeKind.TIMESTAMP, Delay(5)), state, None, *rows).state
    assert other.memory is None
    again = judge(GateConfig(TimeKind.TIMESTAMP, DEFAULT), other, None, *rows).state
    assert DEFAULT.rows(again.memory) == 1
    window = PrecedingRows("max", "v", 2, 0, "bigint", "bigint")
    memory = remember((window,), None, [Values(*rows)])
    assert DEFAULT.rows(memory) == 0
