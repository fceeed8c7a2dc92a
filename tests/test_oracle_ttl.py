"""The oracle of tables WITH TTL on examples that fit on a screen (T1, T2)."""

from __future__ import annotations

from tests.oracle_ttl import Stored, TtlTable, at


def row(key: str, time: int, delay: int | None = 5) -> Stored:
    return Stored((key,), time, None if delay is None else time - delay, (time,))


def table(*rows: Stored) -> TtlTable:
    made = TtlTable()
    made.insert(rows)
    return made


def shown(made: TtlTable) -> list[tuple]:
    return sorted((r.key[0], r.event_time) for r in made.live())


def test_an_insert_of_a_key_that_is_there_is_an_upsert() -> None:
    assert shown(table(row("x", 10), row("x", 8))) == [("x", 8)]


def test_T1_a_change_at_or_below_the_watermark_is_expired() -> None:
    made = table(row("x", 10))
    made.insert([row("y", 5), row("z", 6)])
    assert shown(made) == [("x", 10), ("z", 6)]
    assert [r.key for r in made.late] == [("y",)]


def test_T2_a_row_at_or_below_the_watermark_is_cleaned() -> None:
    made = table(row("x", 6), row("y", 7))
    made.insert([row("z", 11)])
    assert shown(made) == [("y", 7), ("z", 11)]
    assert ("x",) not in made.stored


def test_T2_an_expired_row_is_absent_for_update_and_delete() -> None:
    made = table(row("x", 6), row("z", 11))
    made.update(lambda r: True, lambda r: at(r, 20))
    assert shown(made) == [("z", 20)]
    made.delete(lambda r: True)
    assert (shown(made), made.late) == ([], [])


def test_T1_an_update_to_an_expired_time_is_ignored() -> None:
    made = table(row("x", 10))
    made.update(lambda r: True, lambda r: at(r, 5))
    assert shown(made) == [("x", 10)]
    assert [(r.key, r.event_time) for r in made.late] == [(("x",), 5)]


def test_W2_an_expired_change_raises_nothing() -> None:
    made = table(row("x", 10))
    made.insert([Stored(("y",), 3, 100)])
    assert made.g == 5


def test_T1_an_expired_upsert_leaves_the_stored_row_alone() -> None:
    made = table(row("x", 10))
    made.insert([row("x", 4)])
    assert shown(made) == [("x", 10)]
