"""Other columns of a stored table, and another name, from Iceberg's Java and from the tests' own implementation of the
port (`tidegate/iceberg/table_change.py`)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.inprocess.test_conformance import EPOCH, added, made, session, shown, written
from tidegate.errors import TidegateError
from tidegate.iceberg.layout import NewTable
from tidegate.iceberg.table_change import TableChange
from tidegate.iceberg.tables import with_columns

if TYPE_CHECKING:
    import pyarrow as pa

    from tests.conftest import Workbench
    from tidegate.session.session import Session
    from tidegate.tasks.writer import WriteTarget

pytestmark = pytest.mark.runner("inprocess", "spark", long_run="spark")
__all__ = ["session"]  # the fixture

CHANGE = TableChange(
    dropped=("name",),
    renamed=(("id", "number"),),
    widened=((("small",), "bigint"),),
    added=((("name",), "bigint"), (("id",), "decimal(5,2)")),
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
    # By the ids, whatever else has had a column's name since.
    table.current()
    system = {"_open": "_open", "_window_end": "_window_end", "small": "small"}
    assert table.names_at(first) == {"id2": "id", **system}
    assert table.names_at(second) == {"id2": "number", "name": "name", "id": "id", **system}


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


def test_R2_no_file_is_written_for_a_table_that_does_not_show_an_added_column(session: Session) -> None:
    """A catalog may answer with the table from before, whose files would leave the column out, and no commit is refused
    for that: a column comes without a snapshot."""
    identifier = made(session)
    storage, table, other = session.project.storage, session.tables.open(identifier), "`more of it`"
    before = table.target(storage, "_open")

    def missing(schema: pa.Schema) -> list[tuple[str, str]]:
        return [] if "more of it" in schema.names else [(other, "bigint")]

    def answers(stale: int) -> Callable[[], WriteTarget]:
        given = iter([before] * stale)
        return lambda: next(given, None) or table.target(storage, "_open")

    # One that shows the column late; then it is there, and the first answer is from before: it is not added again.
    for stale in (3, 1, 0):
        assert "more of it" in with_columns(session.tables, table, answers(stale), missing).schema.names
    assert session.tables.rows(identifier).columns.count("more of it") == 1
    with pytest.raises(TidegateError) as caught:
        with_columns(session.tables, table, lambda: before, lambda schema: [("once", "bigint")])
    assert (caught.value.code, "once" in session.tables.rows(identifier).columns) == ("TG502", True)


@pytest.fixture
def on_sqlite(workbench: Workbench) -> Session:
    """With a catalog that is no folder."""
    catalog = {"type": "jdbc", "uri": "jdbc:sqlite:.tidegate/warehouse/catalog.db"}
    opened = workbench.with_catalog(catalog).session()
    opened.execute("CREATE TABLE exists_only_for_its_namespace (ts TIMESTAMP) APPEND ONLY")
    opened.execute("INSERT INTO exists_only_for_its_namespace VALUES ('2026-01-01')")
    return opened


def test_a_renamed_table_is_the_same_table_in_the_same_place(on_sqlite: Session) -> None:
    identifier, other = made(on_sqlite), on_sqlite.identifier("Other$x")
    table = on_sqlite.tables.open(identifier)
    files, target = written(on_sqlite, table, [(1, "a", False)])
    table.append(files, target, {"tidegate.tick": "1"}, table.current())
    known = table.current(), table.uuid, table.location
    on_sqlite.tables.rename_table(identifier, "Other$x")
    assert not on_sqlite.tables.exists(identifier)
    again = on_sqlite.tables.open(other)
    assert (again.current(), again.uuid, again.location) == known
    assert [row["id"] for row in on_sqlite.tables.rows(other).collect()] == [1]
    files, target = written(on_sqlite, again, [(2, "b", False)])
    again.append(files, target, {"tidegate.tick": "2"}, again.current())
    assert sorted(row["id"] for row in on_sqlite.tables.rows(other).collect()) == [1, 2]


def test_a_name_that_is_taken_and_a_table_that_is_gone_are_refused(on_sqlite: Session) -> None:
    one, other = made(on_sqlite), made(on_sqlite, "u")
    with pytest.raises(TidegateError, match="TG502"):
        on_sqlite.tables.rename_table(one, "u")
    assert on_sqlite.tables.open(one).uuid != on_sqlite.tables.open(other).uuid
    on_sqlite.tables.drop_table(one)
    with pytest.raises(TidegateError, match="TG502"):
        on_sqlite.tables.rename_table(one, "v")


def test_a_table_may_have_a_folder_that_has_not_its_name(on_sqlite: Session) -> None:
    place = on_sqlite.tables.open(made(on_sqlite)).location + "-aside"
    identifier = on_sqlite.identifier("w")
    new = NewTable(identifier, (("id", "bigint"),), (), {"format-version": "2"})
    on_sqlite.tables.create_table(replace(new, location=place))
    assert on_sqlite.tables.open(identifier).location == place
    on_sqlite.tables.drop_table(identifier)
    assert not on_sqlite.tables.exists(identifier)
