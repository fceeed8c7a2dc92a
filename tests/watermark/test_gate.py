"""The gate: W1, W2, W4, W5 for one partition, and its vectorised form against the rule read row by row."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tidegate.watermark import Column, Delay, Expression, GateConfig, GateState, TimeKind, is_late, judge
from tidegate.watermark.strategy import Strategy

LOWEST, HIGHEST = -(2**63), 2**63 - 1
Row = tuple[int, bool, int | None]  # event time, accepted, value of an Expression strategy


def config(strategy: Strategy) -> GateConfig:
    return GateConfig(TimeKind.EPOCH, strategy)


def times(*values: int) -> np.ndarray:
    return np.array(values, dtype=np.int64)


def run(strategy: Strategy, *values: int, state: GateState | None = None, published: int | None = None):
    """Judge rows that are all accepted; returns (event times that were late, what they missed, the state)."""
    result = judge(
        config(strategy), state or GateState(), published, times(*values), np.ones(len(values), bool)
    )
    late = times(*values)[result.late].tolist()
    return late, result.missed[result.late].tolist(), result.state


def test_W1_the_watermark_is_compared_as_it_stood_before_the_row() -> None:
    assert run(Column(), 10, 12, 11) == ([11], [12], GateState(12, 0, 2, 1, 0, 12))


def test_W1_equal_is_on_time() -> None:
    late, _, state = run(Delay(10), 30, 20, 19)
    assert late == [19]
    assert state.watermark == 20


def test_W1_an_undefined_watermark_makes_nothing_late() -> None:
    assert run(Column(), LOWEST)[0] == []
    assert run(Column())[2] == GateState()


def test_W1_the_lowest_time_there_is_makes_a_watermark_too() -> None:
    assert run(Column(), LOWEST)[2].watermark == LOWEST


def test_W1_the_later_of_wp_and_g_decides_and_is_what_a_late_row_missed() -> None:
    late, missed, state = run(Delay(0), 5, 20, 8, state=GateState(watermark=3), published=7)
    assert (late, missed) == ([5, 8], [7, 20])
    assert state.watermark == 20


def test_W2_a_late_row_never_raises_the_watermark() -> None:
    # 96 is late, and 96 + 10 would have made 105 late as well.
    late, missed, state = run(Delay(-10), 90, 96, 105)
    assert (late, missed) == ([96], [100])
    assert state.watermark == 115


def test_W2_a_row_late_by_g_alone_does_not_raise_wp_either() -> None:
    assert run(Column(), 5, published=7)[2] == GateState(None, 0, 0, 1, 0, 5)
    assert run(Column(), 5, published=7, state=GateState(watermark=2))[2].watermark == 2


def test_W2_a_late_row_still_counts_for_the_largest_event_time() -> None:
    assert run(Delay(-100), 10, 60)[2] == GateState(110, 0, 1, 1, 0, 60)


def test_W2_a_null_strategy_value_raises_nothing() -> None:
    valid = np.array([True, False, True])
    result = judge(
        config(Expression("…")), GateState(), None, times(5, 90, 7), np.ones(3, bool), times(5, 90, 7), valid
    )
    assert result.late.tolist() == [False, False, False]
    assert result.state.watermark == 7
    nothing = judge(
        config(Expression("…")), GateState(), None, times(5), np.ones(1, bool), times(5), np.array([False])
    )
    assert nothing.state.watermark is None


def test_W5_rejected_rows_are_counted_but_neither_judged_nor_raising() -> None:
    accepted = np.array([True, False, True])
    result = judge(config(Column()), GateState(), None, times(10, 99, 9), accepted)
    assert result.late.tolist() == [False, False, True]
    assert result.state == GateState(watermark=10, on_time=1, late=1, rejected=1, max_event_time=10)


def test_R1_the_state_survives_as_plain_integers() -> None:
    state = GateState(7, 3, 2, 1, 0, 9)
    assert GateState.from_dict(state.to_dict()) == state
    assert GateState.from_dict(GateState().to_dict()) == GateState()
    assert all(type(value) is int for value in run(Column(), 1, 2)[2].to_dict().values())
    with pytest.raises(TypeError):
        GateState.from_dict({"watermrk": 7})


def test_R1_a_call_changes_neither_its_state_nor_its_arrays() -> None:
    state, rows, accepted = GateState(watermark=1), times(90, 96, 105), np.ones(3, bool)
    for array in (rows, accepted):
        array.setflags(write=False)
    judge(config(Delay(-10)), state, 5, rows, accepted)
    assert state == GateState(watermark=1)


def test_the_offset_is_left_to_the_engine() -> None:
    assert run(Column(), 5, state=GateState(next_offset=40))[2].next_offset == 40


@pytest.mark.parametrize(
    ("strategy", "arrays", "message"),
    [
        (Column(), (times(1), np.ones(2, bool)), "accepted must be bool"),
        (Column(), (np.array([1.5]), np.ones(1, bool)), "event_time must be int64"),
        (Column(), (times(1), np.ones(1, bool), times(1)), "for an Expression"),
        (Expression("…"), (times(1), np.ones(1, bool)), "needs the values"),
        (
            Expression("…"),
            (times(1), np.ones(1, bool), times(1), np.array([1])),
            "strategy_valid must be bool",
        ),
    ],
)
def test_arrays_that_do_not_fit_are_refused(
    strategy: Strategy, arrays: tuple[np.ndarray, ...], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        judge(config(strategy), GateState(), None, *arrays)


@pytest.mark.parametrize(
    ("event_time", "watermark", "published", "late"),
    [(4, 5, None, True), (5, 5, None, False), (4, None, 5, True), (4, None, None, False), (6, 5, 7, True)],
)
def test_W1_is_late_says_the_same_for_integers_and_arrays(
    event_time: int, watermark: int | None, published: int | None, late: bool
) -> None:
    assert is_late(event_time, watermark, published) is late
    assert is_late(times(event_time), watermark, published).tolist() == [late]
    if watermark is not None:
        assert is_late(times(event_time), times(watermark), published).tolist() == [late]


def test_T1_where_rows_expire_an_event_time_exactly_at_the_watermark_is_late() -> None:
    assert is_late(5, 5, None, expires=True) is True
    assert is_late(6, 5, None, expires=True) is False
    assert is_late(times(4, 5, 6), times(5, 5, 5), None, expires=True).tolist() == [True, True, False]
    assert is_late(5, None, None, expires=True) is False
    result = judge(
        GateConfig(TimeKind.EPOCH, Delay(10), expires=True),
        GateState(),
        2,
        times(2, 30, 20, 21),
        np.ones(4, bool),
    )
    assert (result.late.tolist(), result.missed[result.late].tolist()) == (
        [True, False, True, False],
        [2, 20],
    )
    assert result.state.watermark == 20


def test_W9_a_row_ahead_of_the_clock_is_on_time_counted_and_raises_nothing() -> None:
    gate = GateConfig(TimeKind.EPOCH, Column(), max_future_skew=10)
    result = judge(gate, GateState(), None, times(5, 31, 30, 29), np.ones(4, bool), clock=20)
    assert result.late.tolist() == [False, False, False, True]
    assert result.state == GateState(watermark=30, on_time=3, late=1, max_event_time=31)
    with pytest.raises(ValueError, match="clock"):
        judge(gate, GateState(), None, times(5), np.ones(1, bool))


def test_by_batch_rows_are_compared_with_the_watermark_from_before_the_batch() -> None:
    gate = GateConfig(TimeKind.EPOCH, Column(), by_batch=True)
    start = GateState(watermark=10)
    first = judge(gate, start, None, times(9, 30, 10), np.ones(3, bool), batch_start=start)
    assert first.late.tolist() == [True, False, False]
    # The second part of the same batch: still by 10, and what the first part offered stays.
    second = judge(gate, first.state, None, times(11, 9, 20), np.ones(3, bool), batch_start=start)
    assert second.late.tolist() == [False, True, False]
    assert second.missed.tolist() == [10, 10, 10]
    assert second.state.watermark == 30


def by_the_rule(
    strategy: Strategy,
    state: GateState,
    published: int | None,
    rows: list[Row],
    expires: bool = False,
    furthest: int = HIGHEST,
    by_batch: bool = False,
):
    """W1 and W2 (and T1, where rows expire) as they are written, one row after the other. `furthest`: the latest time
    that is not too far in the future (W9). `by_batch`: the rows are one micro-batch, and granularity is 'batch'."""
    wp, newest = state.watermark, state.max_event_time
    outcomes: list[int | str | None] = []
    for time, accepted, value in rows:
        if not accepted:
            outcomes.append("rejected")
            continue
        newest = time if newest is None else max(newest, time)
        bars = [bar for bar in (state.watermark if by_batch else wp, published) if bar is not None]
        if bars and (time < max(bars) or (expires and time == max(bars) != LOWEST)):
            outcomes.append(max(bars))
            continue
        outcomes.append(None)
        if isinstance(strategy, Column):
            value = time
        elif isinstance(strategy, Delay):
            value = min(max(time - strategy.ticks, LOWEST), HIGHEST)
        if value is not None and time <= furthest and (wp is None or value > wp):
            wp = value
    return outcomes, wp, newest


small = st.integers(-6, 6)
extreme = st.sampled_from([LOWEST, LOWEST + 1, -1, 0, 1, HIGHEST - 1, HIGHEST])
mark = st.none() | small | extreme
time_of_a_row = st.one_of(small, small, st.integers(-50, 50), extreme)
a_row = st.tuples(time_of_a_row, st.sampled_from([True, True, True, False]), st.none() | time_of_a_row)
a_strategy = st.one_of(
    st.just(Column()),
    st.builds(Delay, small | st.sampled_from([HIGHEST, -HIGHEST])),
    st.just(Expression("…")),
)


@pytest.mark.medium
@given(
    a_strategy,
    st.booleans(),
    st.booleans(),
    st.none() | st.integers(0, 9) | st.just(HIGHEST),
    mark,
    mark,
    st.lists(a_row, max_size=40),
    st.data(),
)
@example(
    Delay(-10), False, False, None, None, None, [(90, True, None), (96, True, None), (105, True, None)], None
)
def test_W4_any_strategy_and_any_cut_is_judged_as_the_rule_says_row_by_row(
    strategy: Strategy,
    expires: bool,
    by_batch: bool,
    skew: int | None,
    wp: int | None,
    published: int | None,
    rows: list[Row],
    data: st.DataObject | None,
) -> None:
    start = GateState(watermark=wp)
    gate = GateConfig(TimeKind.EPOCH, strategy, expires, skew, by_batch)
    furthest = HIGHEST if skew is None else min(3 + skew, HIGHEST)
    outcomes, last, newest = by_the_rule(strategy, start, published, rows, expires, furthest, by_batch)
    cuts = data.draw(st.lists(st.integers(0, len(rows)), max_size=4)) if data else []
    state, judged = start, []
    for begin, end in zip([0, *sorted(cuts)], [*sorted(cuts), len(rows)], strict=True):
        piece = rows[begin:end]
        event_time = times(*(time for time, _, _ in piece))
        accepted = np.array([accepted for _, accepted, _ in piece], dtype=bool)
        offered = ()
        if isinstance(strategy, Expression):
            values = [value for _, _, value in piece]
            offered = (
                times(*(value or 0 for value in values)),
                np.array([v is not None for v in values], bool),
            )
        result = judge(gate, state, published, event_time, accepted, *offered, clock=3, batch_start=start)
        for late, missed, ok in zip(result.late.tolist(), result.missed.tolist(), accepted, strict=True):
            judged.append(("rejected" if not ok else None) if not late else missed)
        state = result.state
    assert judged == outcomes
    assert state == GateState(
        watermark=last,
        on_time=outcomes.count(None),
        late=sum(isinstance(outcome, int) for outcome in outcomes),
        rejected=outcomes.count("rejected"),
        max_event_time=newest,
    )


@pytest.mark.medium
@given(st.integers(0, 2**32 - 1), st.sampled_from([2, 50, 3000]))
def test_W2_thousands_of_contaminating_late_rows_are_judged_as_the_rule_says(seed: int, spread: int) -> None:
    random = np.random.default_rng(seed)
    n = 6000  # several rounds of the exact walk
    event_time = np.arange(n) + random.integers(-spread, spread, n)
    offered = event_time + random.integers(-spread, spread, n)
    result = judge(config(Expression("…")), GateState(), None, event_time, np.ones(n, bool), offered)
    rows = [(time, True, value) for time, value in zip(event_time.tolist(), offered.tolist(), strict=True)]
    outcomes, last, _ = by_the_rule(Expression("…"), GateState(), None, rows)
    assert result.late.tolist() == [outcome is not None for outcome in outcomes]
    assert result.missed[result.late].tolist() == [outcome for outcome in outcomes if outcome is not None]
    assert result.state.watermark == last
