"""The oracle on the specification's own examples, and tidegate.watermark against it on random rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.oracles import oracle as spec
from tests.oracles.oracle import Oracle, Row, View
from tidegate.watermark import (
    Column,
    Delay,
    Expression,
    GateConfig,
    GateState,
    Hop,
    Identity,
    Shift,
    Strategy,
    TimeKind,
    Tumble,
    WindowEnd,
    WindowStart,
    judge,
    publish,
    start_watermark,
    window_is_closed,
)


def minutes(hours: int, minute: int, second: int = 0) -> int:
    """Seconds since midnight."""
    return (hours * 60 + minute) * 60 + second


def read(oracle: Oracle, *times: int, partition: str = "0") -> list[str]:
    """Enumerate, read and flush one input; returns the outcomes of its rows."""
    oracle.enumerate([partition])
    first = sum(decision.row.partition == partition for decision in oracle.decisions)
    outcomes = [oracle.read(Row(partition, first + i, t)).outcome for i, t in enumerate(times)]
    oracle.flush()
    return outcomes


def delayed(ticks: int, *views: View) -> Oracle:
    return Oracle(lambda row: row.event_time - ticks, views)


def counting(size: int, **options) -> View:
    return View("v", size, aggregates={"n": ("count", None)}, **options)


def emitted(oracle: Oracle) -> list[tuple[int, int, int]]:
    return [(g["window_start"], g["window_end"], g["n"]) for g in oracle.emitted["v"]]


def test_W1_events_of_the_documentation() -> None:
    oracle = delayed(10, counting(3600))
    f, g, h, i = (minutes(11, 59, 30), minutes(12, 0), minutes(12, 0, 11), minutes(11, 59, 50))
    assert read(oracle, f, g) == ["on_time", "on_time"]
    assert (oracle.g, emitted(oracle)) == (minutes(11, 59, 50), [])
    assert read(oracle, h, i) == ["on_time", "late"]
    late = oracle.decisions[-1]
    assert (late.missed, late.late_by, oracle.g) == (minutes(12, 0, 1), 11, minutes(12, 0, 1))
    assert emitted(oracle) == [(minutes(11, 0), minutes(12, 0), 1)]


def test_C2_orders_of_the_blog_show_open_windows() -> None:
    view = View(
        "v", 60, aggregates={"n": ("count", None), "total": ("sum", "amount")}, emit_on_window_close=False
    )
    oracle = delayed(5, view)
    oracle.enumerate(["0"])
    for offset, (seconds, amount) in enumerate([(0, 100), (30, 200), (60, 150), (90, 300), (120, 250)]):
        oracle.read(Row("0", offset, seconds, payload={"amount": amount}))
    oracle.flush()
    shown = [(g["window_start"], g["n"], g["total"]) for g in oracle.shows("v")]
    assert shown == [(0, 2, 300), (60, 2, 450), (120, 1, 250)]
    assert read(oracle, 45) == ["late"]


def test_D1_derivation_of_the_rfc() -> None:
    view = counting(minutes(0, 30))
    assert spec.derived(view, minutes(10, 40)) == (minutes(10, 30), minutes(11, 0))
    assert spec.derived(view, None) is None


def test_W2_a_late_row_never_raises() -> None:
    oracle = Oracle(lambda row: row.event_time + 10)
    assert read(oracle, 90, 96, 105) == ["on_time", "late", "on_time"]
    assert oracle.g == 115


def test_W2_a_null_strategy_value_raises_nothing() -> None:
    oracle = Oracle(lambda row: None)
    assert read(oracle, 9, 1) == ["on_time", "on_time"]
    assert oracle.g is None


def test_W5_a_rejected_row_is_counted_and_raises_nothing() -> None:
    oracle = delayed(0, counting(60))
    oracle.enumerate(["0"])
    oracle.read(Row("0", 0, 90, reject="not_null"))
    oracle.read(Row("0", 1, None, reject="null_event_time"))
    oracle.read(Row("0", 2, 10))
    oracle.flush()
    assert oracle.g == 10
    assert oracle.partition_accounts() == {"0": spec.Account(raw=3, counted=1, rejected=2)}
    assert oracle.window_accounts("v") == {
        60: spec.Account(raw=1, rejected=1),
        0: spec.Account(raw=1, counted=1),
    }


def test_W6_g_waits_for_every_partition_and_is_the_minimum() -> None:
    oracle = delayed(0)
    oracle.enumerate(["a", "b"])
    oracle.read(Row("a", 0, 50))
    assert oracle.flush() is None
    oracle.read(Row("b", 0, 20))
    assert oracle.flush() == 20


def test_R3_a_new_partition_starts_at_g_and_g_does_not_go_back() -> None:
    oracle = delayed(0)
    read(oracle, 50, partition="a")
    assert read(oracle, 49, 50, partition="b") == ["late", "on_time"]
    assert (oracle.wp, oracle.g) == ({"a": 50, "b": 50}, 50)


def test_C1_hop_windows_with_an_offset() -> None:
    assert spec.windows_of(counting(30, slide=15, offset=5), 19) == [5, -10]
    assert spec.windows_of(counting(30, slide=15, offset=5), 20) == [20, 5]


def test_C2_a_window_is_emitted_once_when_the_watermark_reaches_its_end() -> None:
    oracle = delayed(0, counting(60))
    read(oracle, 10, 59)
    assert emitted(oracle) == []
    read(oracle, 60)
    assert emitted(oracle) == [(0, 60, 2)]
    oracle.flush()
    assert emitted(oracle) == [(0, 60, 2)]


def test_D1_a_window_over_a_shifted_time_closes_by_the_shifted_watermark() -> None:
    oracle = delayed(0, counting(60, shift=-30))
    read(oracle, 40, 89)
    assert emitted(oracle) == []
    read(oracle, 90)
    assert emitted(oracle) == [(0, 60, 2)]


def test_A1_rows_that_where_leaves_out_are_filtered() -> None:
    oracle = delayed(0, counting(60, where=lambda row: row.event_time != 1))
    read(oracle, 1, 2, 1)
    assert oracle.window_accounts("v") == {0: spec.Account(raw=3, counted=1, filtered=1, late=1)}


def test_aggregates_pass_over_nulls() -> None:
    rows = [Row("0", i, 0, payload={"x": x}) for i, x in enumerate([None, 3, 1])]
    calls = {"count": 2, "sum": 4, "avg": 2, "min": 1, "max": 3}
    assert {call: spec.aggregate(call, "x", rows) for call in calls} == calls
    assert spec.aggregate("sum", "x", rows[:1]) is None
    assert spec.aggregate("count", "x", rows[:1]) == 0


# tidegate.watermark against the oracle


@dataclass(frozen=True)
class Case:
    """A strategy twice: as configuration, and as the oracle's function."""

    strategy: Strategy
    value: Callable[[Row], int | None]


class Gates:
    """What an engine does with tidegate.watermark: one state per partition, judged batch by batch."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.states: dict[str, GateState] = {}
        self.published: int | None = None
        self.outcomes: dict[tuple[str, int], tuple[str, int | None]] = {}
        self.on_time: list[Row] = []

    def enumerate(self, partitions: set[str]) -> None:
        for partition in partitions - self.states.keys():
            self.states[partition] = GateState(watermark=start_watermark(self.published))

    def batch(self, rows: list[Row]) -> None:
        for partition in {row.partition for row in rows}:
            self._judge(partition, [row for row in rows if row.partition == partition])
        self.published = publish((state.watermark for state in self.states.values()), self.published)

    def _judge(self, partition: str, rows: list[Row]) -> None:
        event_time = np.array([row.event_time or 0 for row in rows], dtype=np.int64)
        accepted = np.array([row.reject is None for row in rows])
        offered: tuple[np.ndarray, ...] = ()
        if isinstance(self.case.strategy, Expression):
            values = [self.case.value(row) for row in rows]
            offered = (np.array([v or 0 for v in values]), np.array([v is not None for v in values]))
        config = GateConfig(TimeKind.EPOCH, self.case.strategy)
        result = judge(config, self.states[partition], self.published, event_time, accepted, *offered)
        # What is committed is what comes back from storage (R1).
        self.states[partition] = GateState.from_dict(result.state.to_dict())
        for row, late, missed in zip(rows, result.late.tolist(), result.missed.tolist(), strict=True):
            if row.reject is not None:
                outcome = ("rejected", None)
            else:
                outcome = ("late", missed) if late else ("on_time", None)
            self.outcomes[row.partition, row.offset] = outcome
            if outcome[0] == "on_time":
                self.on_time.append(row)


class Slices:
    """A view as an engine keeps it: closed slices appended, each computed from the earliest window still open on."""

    def __init__(self, view: View) -> None:
        self.view = view
        self.window = (
            Tumble(view.size, view.offset) if view.slide is None else Hop(view.slide, view.size, view.offset)
        )
        self.frontier: int | None = None
        self.emitted: dict[int, int] = {}

    def advance(self, on_time: list[Row], published: int | None) -> None:
        watermark = Shift(Identity(), self.view.shift).at(published)
        if watermark is None:
            return
        counts: dict[int, int] = {}
        for row in on_time:
            time = row.event_time + self.view.shift
            if self.frontier is None or time >= self.window.watermark_start(self.frontier):
                for start in self.window.starts(time):
                    counts[start] = counts.get(start, 0) + 1
        for start, count in counts.items():
            end = self.window.end(start)
            done = self.frontier is not None and window_is_closed(end, self.frontier)
            if window_is_closed(end, watermark) and not done:
                assert start not in self.emitted, "C2: a window is emitted once"
                self.emitted[start] = count
        self.frontier = watermark


times = st.one_of(st.integers(-8, 8), st.integers(-60, 60))
cases = st.one_of(
    st.just(Case(Column(), lambda row: row.event_time)),
    st.integers(-6, 12).map(lambda ticks: Case(Delay(ticks), lambda row: row.event_time - ticks)),
    st.just(Case(Expression("wm"), lambda row: row.payload["wm"])),
)
views = st.builds(
    lambda slide, times, tumble, offset, shift: counting(
        slide * times, slide=None if tumble else slide, offset=offset, shift=shift
    ),
    st.integers(1, 12),
    st.integers(1, 3),
    st.booleans(),
    st.integers(-20, 20),
    st.sampled_from([0, 0, -7, 30]),
)


@st.composite
def inputs(draw: st.DrawFn) -> list[list[Row]]:
    """Up to three inputs; each enumerates its partitions, so some appear later than others."""
    offsets: dict[str, int] = {}
    arrivals = []
    for _ in range(draw(st.integers(1, 3))):
        rows = []
        for partition, time, fate, wm in draw(
            st.lists(
                st.tuples(
                    st.sampled_from("abc"),
                    times,
                    st.sampled_from(["", "", "", "", "null", "bad"]),
                    st.none() | times,
                ),
                max_size=25,
            )
        ):
            offset = offsets.get(partition, 0)
            offsets[partition] = offset + 1
            reject = {"": None, "null": "null_event_time", "bad": "not_null"}[fate]
            rows.append(Row(partition, offset, None if fate == "null" else time, reject, {"wm": wm}))
        arrivals.append(rows)
    return arrivals


@pytest.mark.medium
@settings(max_examples=max(400, settings().max_examples))
@given(cases, views, inputs(), st.randoms(use_true_random=False))
def test_the_watermark_room_does_what_the_oracle_says_however_batches_are_cut(
    case: Case, view: View, arrivals: list[list[Row]], random
) -> None:
    oracle = Oracle(case.value, [view])
    gates, slices = Gates(case), Slices(view)
    for rows in arrivals:
        partitions = {row.partition for row in rows}
        oracle.enumerate(partitions)
        gates.enumerate(partitions)
        for row in rows:
            oracle.read(row)
        oracle.flush()
        # W4: the oracle commits once per input, the gates wherever chance cuts.
        cuts = sorted(random.sample(range(len(rows) + 1), min(len(rows), random.randint(0, 4))))
        for begin, end in zip([0, *cuts], [*cuts, len(rows)], strict=True):
            gates.batch(rows[begin:end])
            slices.advance(gates.on_time, gates.published)
        assert gates.published == oracle.g
        assert {p: state.watermark for p, state in gates.states.items()} == oracle.wp
        assert slices.emitted == {g["window_start"]: g["n"] for g in oracle.emitted["v"]}

    decided = {(d.row.partition, d.row.offset): d for d in oracle.decisions}
    assert gates.outcomes == {place: (d.outcome, d.missed) for place, d in decided.items()}
    for partition, account in oracle.partition_accounts().items():
        state = gates.states[partition]
        assert account.adds_up()
        assert (state.on_time, state.late, state.rejected) == (
            account.counted,
            account.late,
            account.rejected,
        )
    assert all(account.adds_up() for account in oracle.window_accounts("v").values())


@given(views, st.none() | times, times)
def test_D1_and_C6_derivation_and_closing_are_the_oracles(
    view: View, watermark: int | None, time: int
) -> None:
    window = Slices(view).window
    start, end = (
        WindowStart(Shift(Identity(), view.shift), window),
        WindowEnd(Shift(Identity(), view.shift), window),
    )
    expected = spec.derived(view, watermark)
    assert (start.at(watermark), end.at(watermark)) == (expected or (None, None))
    assert window.starts(time + view.shift) == sorted(spec.windows_of(view, time))
    for s in window.starts(time + view.shift):
        final = watermark is not None and watermark + view.shift >= s + view.size
        # C6: a group by either bound is final iff that bound's own watermark is beyond it.
        assert window_is_closed(s + 1, start.at(watermark)) == final
        assert window_is_closed(s + view.size + 1, end.at(watermark)) == final


def test_the_oracle_knows_nothing_of_tidegate() -> None:
    assert not [
        name for name, value in vars(spec).items() if "tidegate" in str(getattr(value, "__module__", ""))
    ]


@pytest.mark.parametrize("order", [["a", "b"], ["b", "a"]])
def test_W1_partitions_do_not_hear_of_each_other(order: list[str]) -> None:
    oracle = delayed(0)
    oracle.enumerate(["a", "b"])
    rows = {"a": Row("a", 0, 100), "b": Row("b", 0, 1)}
    assert [oracle.read(rows[partition]).outcome for partition in order] == ["on_time", "on_time"]
