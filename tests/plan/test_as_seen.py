"""What a query sees that was written before the columns of its inputs were changed (E2, E5): a column is what it was,
whatever it is called now, and what cannot be told exactly is named."""

from __future__ import annotations

import json
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.simulate.scripts.changes import FIELDS, Change, Definition
from tests.sql.support import load
from tidegate.evolve.differences import evolution
from tidegate.plan.columns.as_seen import (
    BEFORE,
    KEPT,
    as_deployed,
    columns_before,
    until_then,
    with_columns_before,
)
from tidegate.plan.columns.changes import (
    CHANGES,
    SEEN,
    ColumnStep,
    columns_now,
    lost,
    narrowed,
    other_columns,
    seen,
    unfit,
    with_step,
)
from tidegate.sql.catalog.catalog import Catalog
from tidegate.sql.catalog.objects import InputAsSeen, Relation, View

LOG = "CREATE TABLE s ({}ts TIMESTAMP, WATERMARK FOR ts AS ts) APPEND ONLY;"
HOUR = "FROM TUMBLE(s, ts, INTERVAL '1 hour') GROUP BY window_end EMIT ON WINDOW CLOSE"
MOST = f"CREATE MATERIALIZED VIEW v AS SELECT window_end, max(amount) AS most {HOUR};"


def relation_of(catalog: Catalog) -> Relation:
    found = catalog.get("s")
    assert isinstance(found, Relation)
    return found


class Logged:
    """A log that is changed from one definition to the next, as runs change it."""

    def __init__(self, columns: str) -> None:
        self.catalog = load(Catalog(), LOG.format(columns))
        self.properties: dict[str, str] = {}

    def change(self, columns: str) -> None:
        old, now = relation_of(self.catalog), load(Catalog(), LOG.format(columns))
        wanted = evolution(old, relation_of(now), now, lambda name: None)
        assert not wanted.refused
        before = with_columns_before(self.properties, old)
        step = ColumnStep(1, "", "", wanted.changes)
        self.properties[CHANGES] = with_step(self.properties.get(CHANGES), step)
        self.properties[BEFORE] = before
        self.catalog = now

    def log(self, name: str) -> dict[str, str] | None:
        return self.properties if name == "s" else None

    def changes(self, name: str) -> str | None:
        return (self.log(name) or {}).get(CHANGES)

    def stored(self, text: str) -> dict[str, str]:
        """What the table of a view says that is made now."""
        view = self.view(text)
        return {
            "tidegate.definition": view.definition,
            "tidegate.inputs": json.dumps(view.reads),
            **seen(view, self.changes),
        }

    def view(self, text: str) -> View:
        found = load(self.catalog.copied(), text).get("v")
        assert isinstance(found, View)
        return found

    def deployed(self, stored: dict[str, str], text: str = MOST) -> View | None:
        """`text`: what its file says now, which is no part of what is found."""
        return as_deployed(Logged("amount INT, ").view(text), stored, self.catalog, self.log)


def says(logged: Logged, stored: dict[str, str]) -> str | None:
    return until_then(logged.deployed(stored), stored, logged.changes)


CONTINUES = "its current version continues with the columns of before"


@pytest.mark.parametrize(
    ("columns", "now"),
    [
        ("total INT RENAMED FROM amount, ", ("total", "int")),
        # Another column has its name.
        ("total INT RENAMED FROM amount, amount VARCHAR, ", ("total", "int")),
        ("note VARCHAR, total INT RENAMED FROM amount, amount INT, ", ("total", "int")),
    ],
)
def test_E5_an_old_query_sees_the_column_of_then_whatever_it_is_called_now(
    columns: str, now: tuple[str, str]
) -> None:
    logged = Logged("amount INT, ")
    stored = logged.stored(MOST)
    logged.change(columns)
    found = logged.deployed(stored)
    assert found is not None
    (one,) = found.seen
    assert [(c.name, c.type) for c in one.relation.columns] == [("amount", "int"), ("ts", "timestamp_ntz")]
    assert columns_now(one, logged.changes("s"))["amount"] == now
    assert (says(logged, stored), other_columns(found, stored, logged.changes)) == (CONTINUES, None)
    # What is made of it is of the same columns (a version that goes back, for example).
    assert seen(found, logged.changes) == {}
    assert found.seen_as("s") == one


def test_E5_a_query_that_does_not_see_the_change_is_read_as_it_was() -> None:
    """By today's definition, without a projection: nothing has become of what it names."""
    logged = Logged("amount INT, extra INT, ")
    stored = logged.stored(MOST)
    logged.change("amount INT, tip BIGINT RENAMED FROM extra, extra VARCHAR, ")
    found = logged.deployed(stored)
    assert found is not None
    assert (found.seen, says(logged, stored)) == ((), None)


def test_E5_a_query_of_all_columns_continues_with_those_of_then() -> None:
    every = "CREATE MATERIALIZED VIEW v AS SELECT * FROM s EMIT ON WINDOW CLOSE;"
    logged = Logged("a INT, b INT, ")
    stored = logged.stored(every)
    logged.change("b INT, c INT, a INT, ")
    found = logged.deployed(stored)
    assert found is not None
    assert [c.name for c in found.columns] == ["a", "b", "ts"]
    assert says(logged, stored) == CONTINUES


def test_E5_of_a_column_that_is_gone_or_has_other_values_it_says_what_stands_in_the_way() -> None:
    logged = Logged("amount INT, extra INT, at STRUCT<x INT>, ")
    stored = logged.stored(MOST)
    both = logged.stored(MOST.replace("max(amount)", "max(amount) + max(extra)"))
    within = logged.stored(MOST.replace("max(amount)", "max(s.at.x)"))
    logged.change("total INT RENAMED FROM amount, at STRUCT<x BIGINT>, ")
    no_rows = 'its current version gets no new rows: of "s", which it reads, '
    assert says(logged, both) == f'{no_rows}column "extra" is dropped'
    assert str(says(logged, within)).startswith(f'{no_rows}column "at" is widened from STRUCT<x INT>')
    # A column of the name of one that is gone is another one.
    logged.change("total INT, extra INT, at STRUCT<x BIGINT>, ")
    assert says(logged, both) == f'{no_rows}column "extra" is dropped'
    assert says(logged, stored) == CONTINUES


def test_E3_E5_a_wider_column_is_read_in_the_type_of_then_and_only_by_a_query_that_names_it() -> None:
    logged = Logged("amount INT, extra REAL, price DECIMAL(5,2), ")
    stored = logged.stored(MOST)
    logged.change("total BIGINT RENAMED FROM amount, extra DOUBLE, price DECIMAL(9,2), ")
    found = logged.deployed(stored)
    assert found is not None
    (one,) = found.seen
    assert [c.column for c in lost(one, logged.changes("s"))] == ["amount", "extra", "price"]
    assert narrowed(found, one, logged.changes("s")) == {"amount": "int"}
    assert says(logged, stored) == CONTINUES


@pytest.mark.parametrize(
    ("was", "condition"),
    [
        ("int", "x NOT BETWEEN -2147483648 AND 2147483647"),
        ("float", "x != CAST(x AS float)"),
        ("decimal(5,2)", "abs(x) >= 1000"),
        ("decimal(3,3)", "abs(x) >= 1"),
    ],
)
def test_E3_a_value_fits_into_the_type_of_then_or_it_is_told(was: str, condition: str) -> None:
    assert unfit("x", was) == condition


def test_E5_what_an_earlier_release_has_changed_is_not_known() -> None:
    logged = Logged("amount INT, ")
    stored = logged.stored(MOST)
    logged.change("total INT RENAMED FROM amount, ")
    del logged.properties[BEFORE]
    assert logged.deployed(stored) is None
    # Where the text holds all the same, it is that of another column.
    logged.change("total INT, amount INT, ")
    found = logged.deployed(stored)
    assert found is not None
    assert (found.seen, other_columns(found, stored, logged.changes) is None) == ((), False)


def busy(logged: Logged, columns: str, times: int) -> None:
    """The log is changed so many times, by a column that comes and goes."""
    for number in range(times):
        logged.change(columns + ("" if number % 2 else "x INT, "))


def test_E5_older_columns_are_not_kept_and_those_behind_them_do_where_the_query_sees_no_difference() -> None:
    logged = Logged("amount INT, ")
    stored = logged.stored(MOST)
    busy(logged, "amount INT, ", KEPT + 4)
    assert [one.number for one in columns_before(logged.properties[BEFORE])] == [*range(4, KEPT + 4)]
    logged.change("total INT RENAMED FROM amount, ")
    found = logged.deployed(stored)
    assert found is not None
    assert ([one.number for one in found.seen], says(logged, stored)) == ([5], CONTINUES)
    assert seen(found, logged.changes) == {SEEN: '{"s": 5}'}


def test_E5_older_columns_that_are_not_kept_are_not_taken_for_later_ones_of_their_names() -> None:
    logged = Logged("amount INT, ")
    stored = logged.stored(MOST)
    logged.change("total INT RENAMED FROM amount, amount INT, ")
    assert says(logged, stored) == CONTINUES
    busy(logged, "total INT, amount INT, ", KEPT)
    assert says(logged, stored) == (
        'its current version gets no new rows: of "s", which it reads, column "amount" is renamed to "total"; '
        'column "amount" INT is added'
    )


@given(st.integers(0, 10**9))
def test_E2_columns_are_followed_as_their_identities_say(seed: int) -> None:
    """Whatever was renamed, dropped, replaced, widened and added: by an oracle that knows nothing of names."""
    rng, now, number = Random(seed), Definition(), 0
    logged, known = Logged(now.sql()), [(now, 0)]
    for _ in range(rng.randint(1, 8)):
        what = rng.choice(["add", "drop", "rename", "replace", "widen"])
        name, to = rng.choice(FIELDS), rng.choice(["INT", "BIGINT"] if what == "add" else list(FIELDS))
        number += 1
        after = now.after(Change(what, name, to), number)
        if after is None or after == now or not after.columns:
            continue
        now = after
        logged.change(now.sql())
        known.append((now, len(known)))
    for then, at in known[:-1]:
        before = next(one for one in columns_before(logged.properties[BEFORE]) if one.number == at)
        assert [name for name, _ in before.columns] == [*(c.name for c in then.columns), "ts"]
        relation = relation_of(load(Catalog(), LOG.format(replace(then, renamed=()).sql())))
        found = columns_now(InputAsSeen(relation, at), logged.changes("s"))
        by_identity = {c.number: (c.name, c.kind.lower()) for c in now.columns}
        assert {name: found[name] for name in found if name != "ts"} == {
            c.name: by_identity.get(c.number) for c in then.columns
        }
        changed = {c.name for c in then.columns if by_identity.get(c.number, ("", ""))[1] != c.kind.lower()}
        assert {one.column for one in lost(InputAsSeen(relation, at), logged.changes("s"))} == changed
