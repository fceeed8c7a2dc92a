"""The oracle of columns on examples that fit on a screen (E2, E3)."""

from __future__ import annotations

from tests.oracles.columns import Column, added, dropped, held, renamed, widened

FIELDS = {"a": 1, "b": 2, "c": 3}
FIRST = (Column("a", "INT", 0),)


def test_E2_a_renamed_column_keeps_what_it_had_and_reads_its_new_name_from_then_on() -> None:
    now = renamed(FIRST, "a", "b")
    assert held(FIELDS, FIRST, now) == {"b": 1}
    assert held(FIELDS, now, now) == {"b": 2}


def test_E2_another_column_of_an_old_name_has_nothing_of_it() -> None:
    now = added(renamed(FIRST, "a", "b"), "a", "INT", 1)
    assert held(FIELDS, FIRST, now) == {"b": 1, "a": None}
    again = added(dropped(FIRST, "a"), "a", "INT", 1)
    assert held(FIELDS, FIRST, again) == {"a": None}
    assert held(FIELDS, again, again) == {"a": 1}


def test_E2_a_column_that_was_there_and_is_gone_shows_nothing() -> None:
    assert held(FIELDS, FIRST, ()) == {}
    assert held(FIELDS, (), FIRST) == {"a": None}


def test_E3_a_wider_type_changes_no_value() -> None:
    now = widened(FIRST, "a")
    assert [column.kind for column in now] == ["BIGINT"]
    assert widened(now, "a") == now
    assert held(FIELDS, FIRST, now) == {"a": 1}
