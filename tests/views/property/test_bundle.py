"""The comparison that the property tests rest on: it passes what is equal and names the smallest case that is not."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from types import SimpleNamespace

import pytest

from tests.oracles.cases import Feed, play
from tests.oracles.oracle import Row
from tests.oracles.over import released
from tests.views.property.bundle import BEGIN, Bundle, Checked


def row(offset: int, case: int, time: int, wm: int | None = None) -> Row:
    return Row("a", offset, time, None, {"c": case, "k": "x", "v": 1, "id": offset, "wm": wm})


FEED = Feed([[[row(0, 1, 3), row(1, 1, 4), row(2, 2, 5), row(3, -1, 9, wm=9)]]])
VIEW = Checked(
    "sorted_rows",
    "SELECT c, id, ts FROM events",
    lambda seen: [
        (r.payload["c"], r.payload["id"], r.event_time)
        for r in released(seen["events"].rows, seen["events"].watermark)
    ],
)


def bundle(shown: list[tuple]) -> Bundle:
    """A bundle whose engine shows these rows, whatever it is asked for."""
    made = Bundle.__new__(Bundle)
    made.feeds, made.views, made.integers, made.columns = {"events": FEED}, [VIEW], False, "c INT"
    made.seen = {"events": play(FEED)}
    made.session = SimpleNamespace(table=lambda name: SimpleNamespace(collect=lambda: shown))
    return made


RIGHT = [
    (1, 0, BEGIN + timedelta(seconds=3)),
    (1, 1, BEGIN + timedelta(seconds=4)),
    (2, 2, BEGIN + timedelta(seconds=5)),
]


def test_what_equals_the_oracle_passes() -> None:
    bundle(RIGHT[::-1]).compare(VIEW, "sorted_rows", 0)


@pytest.mark.parametrize(
    ("shown", "told"),
    [
        (RIGHT[:1], r"in 2 cases after step 0; the smallest is case 2\.\nmissing: \[\(2, 2, 5\)\]"),
        (
            [*RIGHT, RIGHT[0]],
            r"in 1 cases after step 0; the smallest is case 1\.\nmissing: \[\]\nsurplus: \[\(1, 0, 3",
        ),
        ([], "INSERT INTO events VALUES\n  \\(2, 'a', 2, 'x', 1, '2026-01-01 00:00:05', NULL\\)"),
    ],
)
def test_what_is_missing_or_twice_is_told_with_the_smallest_case_as_sql(
    shown: list[tuple], told: str
) -> None:
    with pytest.raises(AssertionError, match=told):
        bundle(shown).compare(VIEW, "sorted_rows", 0)


def test_C4_rows_out_of_order_are_told() -> None:
    bundle(RIGHT).compare(replace(VIEW, ordered=True), "sorted_rows", 0)
    with pytest.raises(AssertionError, match=r"sorted_rows is out of order: \(\(2, 2, 5"):
        bundle(RIGHT[::-1]).compare(replace(VIEW, ordered=True), "sorted_rows", 0)
