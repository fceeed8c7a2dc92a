"""The session oracle on examples that fit on a screen, and wrong sessions that the bundle shows (C1, C3, D3)."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.oracles.cases import Shape, case_rows, differing, feed, grows, marks, play
from tests.oracles.oracle import Row
from tests.oracles.sessions import Session, closed, derived, sessions

GAP = 5
SHAPE = Shape(deltas=(0, 1, GAP - 1, GAP, GAP, GAP + 1))


def rows(*times: int, k: str = "x") -> list[Row]:
    return [Row("0", i, time, payload={"k": k}) for i, time in enumerate(times)]


def spans(found: list[Session]) -> list[tuple[int, int, int]]:
    return sorted((s.start, s.end, len(s.rows)) for s in found)


def test_C1_a_session_starts_at_its_first_row_and_ends_a_gap_after_its_last() -> None:
    assert spans(sessions(rows(3, 1, 6), GAP)) == [(1, 11, 3)]


def test_C3_two_rows_exactly_a_gap_apart_are_two_sessions() -> None:
    assert spans(sessions(rows(1, 6), GAP)) == [(1, 6, 1), (6, 11, 1)]
    assert spans(sessions(rows(1, 5), GAP)) == [(1, 10, 2)]


def test_C3_a_row_between_two_sessions_joins_them() -> None:
    assert spans(sessions(rows(1, 9), GAP)) == [(1, 6, 1), (9, 14, 1)]
    assert spans(sessions(rows(1, 9, 5), GAP)) == [(1, 14, 3)]


def test_C1_keys_have_sessions_of_their_own() -> None:
    both = rows(1, 3) + rows(2, k="y")
    assert spans(sessions(both, GAP, ("k",))) == [(1, 8, 2), (2, 7, 1)]
    assert spans(sessions(both, GAP)) == [(1, 8, 3)]


def test_C3_a_session_is_final_when_the_watermark_is_at_its_end() -> None:
    found = sessions(rows(1, 3, 20), GAP)
    assert [spans(closed(found, w)) for w in (None, 7, 8)] == [[], [], [(1, 8, 2)]]


def test_D3_window_start_waits_for_the_earliest_open_session() -> None:
    found = sessions(rows(1, 3, 20, 30), GAP)
    assert derived(found, None) is None
    assert derived(found, 7) == (1, 7)
    assert derived(found, 8) == (8, 8)
    assert derived(found, 24) == (20, 24)
    assert derived(found, 40) == (40, 40)


@st.composite
def cases(draw: st.DrawFn) -> list[tuple[int, Row]]:
    """(step, row) of one case."""
    rng = draw(st.randoms(use_true_random=False))
    given_rows = case_rows(rng, SHAPE, [10, 20, 30, 40])
    return [(step, Row("0", i, t, payload={"k": k})) for i, (step, t, k, _) in enumerate(given_rows)]


@pytest.mark.medium
@given(cases())
def test_property_C3_neighbours_in_a_session_are_less_than_a_gap_apart_and_sessions_are_not(case) -> None:
    members = [row for _, row in case]
    found = sessions(members, GAP, ("k",))
    assert sorted(r.offset for s in found for r in s.rows) == sorted(r.offset for r in members)
    for one in found:
        times = [row.event_time for row in one.rows]
        assert all(b - a < GAP for a, b in pairwise(times))
        others = [s for s in found if s is not one and s.keys == one.keys]
        assert all(s.end <= one.start or one.end <= s.start for s in others)


@pytest.mark.medium
@given(cases())
def test_property_C3_what_is_closed_never_changes_and_D3_nothing_closes_below_the_derived_watermark(
    case,
) -> None:
    """The rule that makes closing by the watermark right: no on-time row can reach a closed session (W1)."""
    marks_ = [None, 10, 20, 30, 40]
    history, promised = [], None
    for step in range(4):
        on_time = [r for s, r in case if s <= step and (marks_[s] is None or r.event_time >= marks_[s])]
        found = sessions(on_time, GAP, ("k",))
        history.append(
            [
                (s.keys, s.start, s.end, tuple(r.offset for r in s.rows))
                for s in closed(found, marks_[step + 1])
            ]
        )
        new = set(history[-1]) - set(history[-2] if step else [])
        if promised is not None:
            assert all(start >= promised[0] and end >= promised[1] for _, start, end, _ in new)
        promised = derived(found, marks_[step + 1])
    assert grows(history)


# Wrong sessions, and whether the bundle that the engine is tested with would show them.


def emitted(members: list[Row], watermark: int) -> list:
    return spans(closed(sessions(members, GAP, ("k",)), watermark))


def merged_at_the_gap(members: list[Row], watermark: int) -> list:
    found = sessions(members, GAP + 1, ("k",))
    return [(s.start, s.end - 1, len(s.rows)) for s in found if s.end - 1 <= watermark]


def closed_without_the_gap(members: list[Row], watermark: int) -> list:
    return spans([s for s in sessions(members, GAP, ("k",)) if s.rows[-1].event_time < watermark])


def closed_beyond_the_end(members: list[Row], watermark: int) -> list:
    return spans([s for s in sessions(members, GAP, ("k",)) if s.end < watermark])


def without_keys(members: list[Row], watermark: int) -> list:
    return spans(closed(sessions(members, GAP), watermark))


def of_rows_below_the_watermark_only(members: list[Row], watermark: int) -> list:
    below = [row for row in members if row.event_time < watermark]
    return [(s.start, s.end, len(s.rows)) for s in sessions(below, GAP, ("k",))]


WRONG = [
    merged_at_the_gap,
    closed_without_the_gap,
    closed_beyond_the_end,
    without_keys,
    of_rows_below_the_watermark_only,
]


@pytest.mark.parametrize("wrong", WRONG, ids=lambda f: f.__name__)
def test_the_bundle_shows_wrong_sessions(wrong) -> None:
    rng = Random(0)
    assert len(differing(play(feed(rng, 200, SHAPE, marks(rng))), emitted, wrong)) >= 10
