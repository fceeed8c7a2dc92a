"""Other columns of a stored table, from Iceberg's Java and from the tests' own implementation of the port
(`tidegate/iceberg/table_change.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.inprocess.test_conformance import EPOCH, added, made, session, shown
from tidegate.errors import TidegateError
from tidegate.iceberg.table_change import TableChange

if TYPE_CHECKING:
    from tidegate.session.session import Session

pytestmark = pytest.mark.runner("inprocess", "spark")
__all__ = ["session"]  # the fixture

CHANGE = TableChange(
    dropped=("name",),
    renamed=(("id", "number"),),
    widened=(("small", "bigint"),),
    added=(("name", "bigint"), ("id", "decimal(5,2)")),
    order=("name", "number", "_open", "_window_end", "id", "small"),
    properties={"said": "yes"},
)


def test_E2_E7_columns_change_in_one_commit_and_are_found_by_their_ids(session: Session) -> None:
    identifier = made(session)
    session.tables.add_stored_column(identifier, "small", "int")
    table = session.tables.open(identifier)
    first = added(session, table, [(1, "a", False)])
    second = table.append([], None, {EPOCH: "2"}, table.current(), change=CHANGE)
    now = table.current()
    assert (now.id, now.integer(EPOCH), table.property("said")) == (second, 2, "yes")
    rows = session.tables.rows(identifier)
    assert rows.columns == list(CHANGE.order)
    assert dict(rows.dtypes)["small"] == "bigint"
    assert [tuple(row) for row in rows.collect()] == [(None, 1, False, 1, None, None)]
    # Who asks for an earlier snapshot sees what the table was then.
    assert shown(session, identifier, first) == [(1, "a", False)]
    third = table.append([], None, {EPOCH: "3"}, now, change=TableChange(renamed=(("number", "id2"),)))
    assert session.tables.rows(identifier, third).columns[:2] == ["name", "id2"]


def test_R2_E7_a_change_is_fenced_and_is_not_there_without_its_commit(session: Session) -> None:
    identifier = made(session)
    session.tables.add_stored_column(identifier, "small", "int")
    table, late = session.tables.open(identifier), session.tables.open(identifier)
    base = late.current()
    added(session, table, [(1, "a", False)])
    columns = session.tables.rows(identifier).columns
    with pytest.raises(TidegateError) as caught:
        late.append([], None, {EPOCH: "9"}, base, change=CHANGE)
    assert caught.value.code == "TG502"
    assert (session.tables.rows(identifier).columns, late.property("said")) == (columns, None)
    # And nothing of before is put on a change.
    stood = late.current()
    table.append([], None, {EPOCH: "2"}, table.current(), change=CHANGE)
    with pytest.raises(TidegateError) as caught:
        late.append([], None, {EPOCH: "9"}, stood)
    assert caught.value.code == "TG502"
    assert late.current().integer(EPOCH) == 2
