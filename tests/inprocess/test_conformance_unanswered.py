"""A commit of which nobody has told the writer whether it is stored, from Iceberg's Java and from the tests' own
implementation of the port: it is looked for (R1)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.inprocess.test_conformance import EPOCH, added, made, session, shown
from tests.inprocess.test_conformance_statements import merge
from tidegate.errors import TidegateError
from tidegate.iceberg.protocol import AnswerLost

if TYPE_CHECKING:
    from tidegate.session.session import Session

__all__ = ["session"]  # the fixture


@pytest.mark.runner("inprocess", only=True)
def test_R1_a_commit_whose_answer_is_lost_is_found_if_it_is_there(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pyiceberg.exceptions import CommitStateUnknownException

    from tests.inprocess.stored.catalog import FolderCatalog

    identifier = made(session)
    table = session.tables.open(identifier)
    commit = FolderCatalog.commit_table
    for stored in (True, False):

        def unanswered(*given: Any, stored: bool = stored) -> Any:
            if stored:
                commit(*given)
            raise CommitStateUnknownException("no answer")

        base = table.current()
        monkeypatch.setattr(FolderCatalog, "commit_table", unanswered)
        if stored:
            assert added(session, table, [(1, "a", False)], base) == table.current().id
        else:
            with pytest.raises(CommitStateUnknownException):
                added(session, table, [(2, "b", False)], base)
    assert shown(session, identifier) == [(1, "a", False)]


@pytest.mark.runner("spark")
def test_R1_a_commit_whose_answer_is_lost_is_found_by_its_snapshot_or_is_not_there(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In every catalog; where the network takes the answer, see `test_rest_catalog.py` and `test_lost_answers.py`."""
    from tidegate.iceberg import commit

    identifier = made(session)
    table, other = session.tables.open(identifier), session.tables.open(identifier)
    asked, meanwhile = commit.attempted, False

    def unanswered(update: Any) -> Any:
        assert type(asked(update)).__name__ == "Stored"
        if meanwhile:
            monkeypatch.setattr(commit, "attempted", asked)
            added(session, other, [(3, "c", False)], facts={EPOCH: "3"})
        return AnswerLost(TidegateError("TG620", "no answer"), update.own)

    def unheard(update: Any) -> Any:
        return AnswerLost(TidegateError("TG620", "no answer"), update.own)

    monkeypatch.setattr(commit, "attempted", unanswered)
    assert added(session, table, [(1, "a", False)]) == table.current().id
    # Another writer may have gone on from it before it was looked for.
    meanwhile = True
    second = added(session, table, [(2, "b", False)], facts={EPOCH: "2"})
    assert (second in table.snapshot_ids(), table.current().integer(EPOCH)) == (True, 3)
    monkeypatch.setattr(commit, "attempted", unheard)
    with pytest.raises(TidegateError) as caught:
        added(session, table, [(4, "d", False)], facts={EPOCH: "4"})
    assert caught.value.code == "TG620"
    assert shown(session, identifier) == [(1, "a", False), (2, "b", False), (3, "c", False)]


@pytest.mark.runner("spark")
def test_R1_a_commit_that_is_refused_after_it_was_stored_is_whole(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A catalog that was asked twice refuses the second time. Nothing of what is stored is removed. If somebody else
    has removed it, it can't be read: to go on from it would hide that."""
    from tidegate.iceberg import commit

    identifier = made(session)
    table = session.tables.open(identifier)
    added(session, table, [(1, "a", False)])
    asked, removed = commit.attempted, False

    def twice(update: Any) -> Any:
        assert type(asked(update)).__name__ == "Stored"
        if removed:
            java = session.tables.open(identifier).java
            java.io().deleteFile(java.currentSnapshot().manifestListLocation())
        return asked(update)

    monkeypatch.setattr(commit, "attempted", twice)
    added(session, table, [(2, "b", False)], facts={EPOCH: "2"})
    assert shown(session, identifier) == [(1, "a", False), (2, "b", False)]
    removed = True
    with pytest.raises(TidegateError) as caught:
        added(session, table, [(3, "c", False)], facts={EPOCH: "3"})
    assert caught.value.code == "TG502"


@pytest.mark.runner("spark")
def test_R1_a_statement_whose_answer_is_lost_is_found_by_its_snapshot_and_not_made_again(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In every catalog: what makes the rows of a MERGE, or of a deletion, the table's is a commit like any other."""
    from tidegate.iceberg import statement

    identifier = made(session)
    table, other = session.tables.open(identifier), session.tables.open(identifier)
    added(session, table, [(0, "a", False)])
    asked, attempts, meanwhile = statement.attempted, 0, False

    # (What begins the branch of a statement makes no snapshot.)
    def unanswered(update: Any) -> Any:
        nonlocal attempts
        if update.own is None:
            return asked(update)
        attempts += 1
        assert type(asked(update)).__name__ == "Stored"
        if meanwhile:
            added(session, other, [(9, "c", False)], facts={EPOCH: "9"})
        return AnswerLost(TidegateError("TG620", "no answer"), update.own)

    def unheard(update: Any) -> Any:
        lost = AnswerLost(TidegateError("TG620", "no answer"), update.own)
        return asked(update) if update.own is None else lost

    monkeypatch.setattr(statement, "attempted", unanswered)
    merge(session, table, 1, "1", table.current())
    table.delete_rows("`id` = 0", {EPOCH: "2"}, table.current())
    # Another writer may have gone on from it before it was looked for.
    meanwhile = True
    merge(session, table, 3, "3", table.current())
    assert (attempts, table.current().integer(EPOCH)) == (3, 9)
    rows = [(1, "m", False), (3, "m", False), (9, "c", False)]
    assert shown(session, identifier) == rows
    # One that has not arrived is only a branch, which nobody reads.
    monkeypatch.setattr(statement, "attempted", unheard)
    with pytest.raises(TidegateError) as caught:
        merge(session, table, 4, "4", table.current())
    assert caught.value.code == "TG620"
    assert (shown(session, identifier), table.current().integer(EPOCH)) == (rows, 9)
