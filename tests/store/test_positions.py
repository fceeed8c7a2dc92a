"""Positions of sinks: what is kept beside the rows says the same again when it is read."""

from __future__ import annotations

from dataclasses import asdict

import pytest

from tidegate.store.positions import Position


@pytest.mark.parametrize(
    "position", [Position("t", 3, 40, 5, 2, 1_000), Position("t", 0), Position("t", 3, 40)]
)
def test_R2_a_position_survives_both_of_its_forms(position: Position) -> None:
    assert Position.of_summary(position.to_summary()) == position
    assert Position.of_document({"sink": "s", "pending": None} | asdict(position)) == position
    assert position.rows == position.total - position.skipped


def test_B2_one_that_was_written_before_there_were_amendments_has_followed_none() -> None:
    expected = Position("t", 3, 40, 5)
    names = ("table", "tick", "total", "skipped")
    assert Position.of_document({name: getattr(expected, name) for name in names}) == expected
    assert (
        Position.of_summary({f"tidegate.delivered-{name}": str(getattr(expected, name)) for name in names})
        == expected
    )
    assert Position.of_summary({"added-records": "2"}) is None
