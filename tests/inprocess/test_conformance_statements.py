"""Statements that change the rows of a stored table (MERGE, DELETE), from Spark and from the tests' own implementation
of the port (`tidegate/iceberg/statement.py`)."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from tests.inprocess.test_conformance import EPOCH, added, made, session, shown
from tidegate.errors import TidegateError
from tidegate.iceberg.merge import Merge
from tidegate.iceberg.protocol import Snapshot
from tidegate.iceberg.statement import StatementBranch

if TYPE_CHECKING:
    from tidegate.iceberg.tables import StoredTable
    from tidegate.session.session import Session

pytestmark = pytest.mark.runner("inprocess", "spark")
__all__ = ["session"]  # the fixture


def merge(session: Session, table: StoredTable, number: int, epoch: str, base: Snapshot) -> None:
    """Give a table the row of this number, unless it has one."""
    changes = session.spark.createDataFrame([(number, "m", False)], "id bigint, name string, _open boolean")
    names = ("`id`", "`name`", "`_open`")
    table.merge_rows(Merge(changes, "t.`id` = s.`id`", (), names, "", {EPOCH: epoch}), base)


def test_rows_are_merged_and_deleted_in_one_commit_each(session: Session) -> None:
    identifier = made(session)
    table = session.tables.open(identifier)
    added(session, table, [(1, "a", False), (2, "b", False), (3, "c", False)])
    changes = session.spark.createDataFrame(
        [(1, "A", False, False), (2, None, False, True), (4, "d", False, False), (5, "e", False, True)],
        "id bigint, name string, _open boolean, gone boolean",
    )
    table.merge_rows(
        Merge(
            changes,
            "t.`id` = s.`id`",
            (("s.gone", None), (None, ("`name`",))),
            ("`id`", "`name`", "`_open`"),
            "NOT s.gone",
            {EPOCH: "2"},
        ),
        table.current(),
    )
    assert shown(session, identifier) == [(1, "A", False), (3, "c", False), (4, "d", False)]
    assert table.current().summary[EPOCH] == "2"
    table.delete_rows("`name` = 'c' OR `name` IS NULL", {EPOCH: "3"}, table.current())
    assert shown(session, identifier) == [(1, "A", False), (4, "d", False)]
    assert table.current().summary[EPOCH] == "3"
    table.delete_rows("`id` = 77", {EPOCH: "4"}, table.current())
    assert shown(session, identifier) == [(1, "A", False), (4, "d", False)]


def test_R2_a_statement_is_committed_on_the_snapshot_that_it_was_made_for(session: Session) -> None:
    """Whatever others have committed since, also without rows. Upkeep that came in between is no conflict."""
    identifier = made(session)
    table, late = session.tables.open(identifier), session.tables.open(identifier)
    empty = late.current()
    merge(session, table, 1, "1", empty)
    stood = late.current()
    for base in (empty, stood):
        table.append([], None, {EPOCH: "2"}, table.current())
        with pytest.raises(TidegateError) as caught:
            merge(session, late, 9, "9", base)
        assert caught.value.code == "TG502"
        with pytest.raises(TidegateError) as caught:
            late.delete_rows("`id` = 1", {EPOCH: "9"}, base)
        assert caught.value.code == "TG502"
    assert (shown(session, identifier), late.current().integer(EPOCH)) == ([(1, "m", False)], 2)
    added(session, table, [(2, "m", False)], facts={EPOCH: "3"})
    stood = late.current()
    assert session.tables.upkeep(identifier).compact(least_files=2) == (2, 1)
    merge(session, late, 3, "4", stood)
    stood = late.current()
    session.tables.upkeep(identifier).merge_manifests()
    late.delete_rows("`id` = 2", {EPOCH: "5"}, stood)
    assert shown(session, identifier) == [(1, "m", False), (3, "m", False)]
    assert late.current().integer(EPOCH) == 5


@pytest.mark.runner("spark")
def test_R2_a_statement_that_broke_off_is_none(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its process has ended before what it had written became the table's; expiry removes it."""

    class Ended(BaseException):
        pass

    def end(*_: object) -> None:
        raise Ended

    identifier = made(session)
    table = session.tables.open(identifier)
    added(session, table, [(1, "a", False)])
    before = table.current()
    with monkeypatch.context() as patched:
        patched.setattr(StatementBranch, "publish", end)
        with pytest.raises(Ended):
            merge(session, table, 2, "2", before)
    assert (table.current(), shown(session, identifier)) == (before, [(1, "a", False)])
    upkeep = session.tables.upkeep(identifier)
    assert [ours for _, ours, _ in upkeep.shape().snapshots] == [True]
    merge(session, table, 3, "3", before)
    merge(session, table, 3, "3", table.current())
    assert shown(session, identifier) == [(1, "a", False), (3, "m", False)]
    assert len(table.java.refs()) == 2
    (left,) = set(table.java.refs()) - {"main"}
    table.java.manageSnapshots().setMaxRefAgeMs(left, 1).commit()
    upkeep.expire(int(time.time() * 1000) + 1000)
    table.refresh()  # a handle on a REST catalog does not look by itself after its own commit
    assert (set(table.java.refs()), len(table.snapshot_ids())) == ({"main"}, 1)
    assert shown(session, identifier) == [(1, "a", False), (3, "m", False)]
