"""E5: what is gone of a view's past stays on record where the view goes back to an earlier version, and what is there
stays."""

from __future__ import annotations

import pytest

from tests.conftest import Workbench
from tests.views.test_valid_from import days, opened, retired, rows, windows
from tidegate.amend.run import amend
from tidegate.audit.view import audit_view
from tidegate.plan.gaps import RETAINED_FROM
from tidegate.session.session import Session
from tidegate.views.amend.rebuild import rebuild
from tidegate.views.amend.rollback import rollback

pytestmark = pytest.mark.runner("inprocess")

COUNT, SUM = windows("count(*) AS x"), windows("sum(n) AS x")


def said(session: Session, key: str) -> str | None:
    return session.tables.open(session.identifier("v")).property(key)


def test_E5_R5_who_goes_back_has_the_edge_of_the_retention_of_that_version(workbench: Workbench) -> None:
    session = opened(workbench, COUNT)
    days(session, 1, 2, 3, 4, 5)
    session.run()
    assert retired(session, name="v")
    kept, edge = rows(session), said(session, RETAINED_FROM)
    assert edge is not None
    rebuild(session := opened(workbench, SUM), ["v"])
    assert said(session, RETAINED_FROM) is None
    whole = rows(session)
    assert len(whole) > len(kept)
    rollback(session, "v")
    assert (rows(session), said(session, RETAINED_FROM)) == (kept, edge)
    # So neither does an audit miss the rows that are gone, nor does an amendment compute them again.
    session = opened(workbench, COUNT)
    assert audit_view(session, "v").ok
    assert [one.windows for one in amend(session, ["v"])] == [0]
    # And the other way: what is gone of this version is not gone of the one that it goes back to.
    rollback(session, "v", 2)
    assert (rows(session), said(session, RETAINED_FROM)) == (whole, None)
