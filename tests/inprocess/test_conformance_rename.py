"""Another name for a stored table, from Iceberg's Java and from the tests' own implementation of the port."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.conftest import Workbench
from tests.inprocess.test_conformance import made, written
from tidegate.errors import TidegateError
from tidegate.iceberg.layout import NewTable
from tidegate.session.session import Session

pytestmark = pytest.mark.runner("inprocess", "spark")


@pytest.fixture
def session(workbench: Workbench) -> Session:
    """With a catalog that is no folder."""
    catalog = {"type": "jdbc", "uri": "jdbc:sqlite:.tidegate/warehouse/catalog.db"}
    opened = workbench.with_catalog(catalog).session()
    opened.execute("CREATE TABLE exists_only_for_its_namespace (ts TIMESTAMP) APPEND ONLY")
    opened.execute("INSERT INTO exists_only_for_its_namespace VALUES ('2026-01-01')")
    return opened


def test_a_renamed_table_is_the_same_table_in_the_same_place(session: Session) -> None:
    identifier, other = made(session), session.identifier("Other$x")
    table = session.tables.open(identifier)
    files, target = written(session, table, [(1, "a", False)])
    table.append(files, target, {"tidegate.tick": "1"}, table.current())
    known = table.current(), table.uuid, table.location
    session.tables.rename_table(identifier, "Other$x")
    assert not session.tables.exists(identifier)
    again = session.tables.open(other)
    assert (again.current(), again.uuid, again.location) == known
    assert [row["id"] for row in session.tables.rows(other).collect()] == [1]
    files, target = written(session, again, [(2, "b", False)])
    again.append(files, target, {"tidegate.tick": "2"}, again.current())
    assert sorted(row["id"] for row in session.tables.rows(other).collect()) == [1, 2]


def test_a_name_that_is_taken_and_a_table_that_is_gone_are_refused(session: Session) -> None:
    one, other = made(session), made(session, "u")
    with pytest.raises(TidegateError, match="TG502"):
        session.tables.rename_table(one, "u")
    assert session.tables.open(one).uuid != session.tables.open(other).uuid
    session.tables.drop_table(one)
    with pytest.raises(TidegateError, match="TG502"):
        session.tables.rename_table(one, "v")


def test_a_table_may_have_a_folder_that_has_not_its_name(session: Session) -> None:
    place = session.tables.open(made(session)).location + "-aside"
    identifier = session.identifier("w")
    new = NewTable(identifier, (("id", "bigint"),), (), {"format-version": "2"})
    session.tables.create_table(replace(new, location=place))
    assert session.tables.open(identifier).location == place
    session.tables.drop_table(identifier)
    assert not session.tables.exists(identifier)
