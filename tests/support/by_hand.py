"""Statements on stored tables that only tests give: what corrupts a table, or what another program does to it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tidegate.session.session import Session


def by_hand(session: Session, statement: str) -> None:
    """DELETE FROM, UPDATE, INSERT INTO … SELECT or ALTER TABLE … SET TBLPROPERTIES, of tables by their identifiers,
    past everything that tidegate looks after."""
    from tests.inprocess.stored.tables import InProcessTables

    if isinstance(session.tables, InProcessTables):
        from tests.inprocess.statements import execute

        execute(session.tables, statement)
    else:
        session.spark.sql(statement)
