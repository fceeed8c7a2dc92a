"""What ticks took, and what a plan expects from that (E1)."""

from __future__ import annotations

import json

import pytest

from tidegate.plan.closing import PARTIAL
from tidegate.plan.costs import COST, expected_seconds, with_cost


def test_E1_a_tick_says_how_many_rows_were_new_and_what_it_took() -> None:
    first = with_cost({}, [{"tidegate.on_time": "100"}, {"tidegate.groups": "5"}, {}], 2.0)
    assert json.loads(first[COST]) == {"inputs": 105, "rows": 105, "seconds": 2.0}
    second = with_cost(first, [{"tidegate.on_time": "110"}, {"tidegate.groups": "5"}], 0.5)
    assert json.loads(second[COST]) == {"inputs": 115, "rows": 10, "seconds": 0.5}
    # An input that was made anew has no new rows.
    assert json.loads(with_cost(second, [{"tidegate.on_time": "3"}], 0.5)[COST])["rows"] == 0
    # Of a tick of an earlier release nothing is known.
    assert json.loads(with_cost({"tidegate.tick": "1"}, [{"tidegate.on_time": "9"}], 1.0)[COST])["rows"] == 0


def test_E1_the_parts_of_a_slice_count_together() -> None:
    one = with_cost({}, [{"tidegate.on_time": "100"}], 2.0)
    two = with_cost({**one, PARTIAL: "true"}, [{"tidegate.on_time": "100"}], 3.0)
    assert json.loads(two[COST]) == {"inputs": 100, "rows": 100, "seconds": 5.0}


@pytest.mark.parametrize(
    ("ticks", "rows", "expected"),
    [
        ([(10, 1.0), (1000, 2.0), (5, 1.0)], 5000, 10.0),
        ([(0, 1.0)], 5000, None),
        ([(10, 1.0)], 0, None),
        ([], 5000, None),
    ],
)
def test_E1_more_rows_take_as_long_as_at_the_pace_of_the_largest_tick(
    ticks: list[tuple[int, float]], rows: int, expected: float | None
) -> None:
    said = [{COST: json.dumps({"inputs": n, "rows": n, "seconds": seconds})} for n, seconds in ticks]
    assert expected_seconds([{"tidegate.tick": "1"}, *said], rows) == expected
