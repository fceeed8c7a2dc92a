"""E5: a version is computed from the present results below it, takes the place of the very version that it was begun
for, and nobody commits on it what was made of another one."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import pytest

from tests.conftest import Workbench
from tests.views.test_versions import TABLE, rows_of
from tidegate.errors import TidegateError
from tidegate.plan.versions import kept_versions
from tidegate.session.session import Session
from tidegate.sql.catalog.objects import View
from tidegate.views.amend import amend as amending
from tidegate.views.amend.rebuild import rebuild
from tidegate.views.amend.rollback import rollback
from tidegate.views.revisions.amend_report import AmendmentScope
from tidegate.views.versions.build import VersionBuild
from tidegate.views.versions.finish import finish
from tidegate.views.view_table import ViewTable

pytestmark = pytest.mark.runner("inprocess")

HOURS = """CREATE MATERIALIZED VIEW v AS SELECT window_end, {what} AS x FROM TUMBLE(t, ts, INTERVAL '1 hour')
GROUP BY window_end{emit};"""
CLOSE = " EMIT ON WINDOW CLOSE"
READER = "CREATE MATERIALIZED VIEW d AS SELECT v.window_end, v.x + {plus} AS y FROM v EMIT ON WINDOW CLOSE;"


def opened(workbench: Workbench, what: str, emit: str = CLOSE, **more: str) -> Session:
    workbench.assets(t=TABLE, v=HOURS.format(what=what, emit=emit), **more)
    return workbench.session()


def inserted(session: Session, *times: str) -> None:
    for time in times:
        session.execute(f"INSERT INTO t VALUES ('a', 5, '2026-01-01 {time}:00')")


def view_of(session: Session, name: str) -> View:
    found = session.catalog.get(name)
    assert isinstance(found, View)
    return found


def begun(session: Session, name: str = "v") -> VersionBuild:
    return VersionBuild(session, view_of(session, name))


def values(session: Session, name: str) -> list[int]:
    return [row[1] for row in sorted(session.table(name).collect())]


def test_E5_the_last_slice_of_a_driver_that_was_too_late_makes_no_table(workbench: Workbench) -> None:
    """Its files would be the view's, and would be deleted with it."""
    session = opened(workbench, "count(*)", "")
    inserted(session, "00:00", "02:00", "05:00")
    session.run()
    a, b = opened(workbench, "sum(n)", ""), opened(workbench, "sum(n)", "")
    one, two = begun(a), begun(b)
    one.advance()
    assert one.swapped()
    new = rows_of(a, a.identifier("v"))
    for step in (two.advance, two.swapped):
        with pytest.raises(TidegateError, match="TG502"):
            step()
    assert not a.tables.exists(a.identifier("v$next"))
    assert rows_of(a, a.identifier("v")) == new


def test_E5_an_amendment_of_the_version_of_before_is_not_stored(
    workbench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = opened(workbench, "count(*)")
    inserted(old, "00:00", "02:00", "05:00")
    old.run()
    inserted(old, "03:10")  # late, in a window that has no rows
    opened(workbench, "sum(n)")
    commit = amending._Amendment._commit

    def swapped_first(amendment: Any, *given: Any) -> None:
        rebuild(workbench.session())
        commit(amendment, *given)

    monkeypatch.setattr(amending._Amendment, "_commit", swapped_first)
    # On another machine: its leases are not ours.
    monkeypatch.setattr(Session, "lease", lambda *_: nullcontext())
    with pytest.raises(TidegateError, match="TG502"):
        amending.amend_view(old, view_of(old, "v"), AmendmentScope())
    assert values(workbench.session(), "v") == [5, 5]
    assert "tidegate.absorbed" not in old.tables.open(old.identifier("v")).current().facts


def test_E5_one_of_two_drivers_swaps(workbench: Workbench, monkeypatch: pytest.MonkeyPatch) -> None:
    session = opened(workbench, "count(*)")
    inserted(session, "00:00", "02:00", "05:00")
    session.run()
    a, b = opened(workbench, "sum(n)"), opened(workbench, "sum(n)")
    one = begun(a)
    one.advance()
    two = begun(b)
    # The other one has not removed its table yet.
    monkeypatch.setattr(Session, "forget_next", lambda *_: None)
    assert one.swapped()
    with pytest.raises(TidegateError, match="TG502"):
        two.swapped()
    table = a.tables.open(a.identifier("v"))
    assert table.property("tidegate.generation") == "2"
    assert [kept.number for kept in kept_versions(table.properties())] == [1]


def test_E5_a_version_of_a_reader_is_of_the_present_results_below(workbench: Workbench) -> None:
    session = opened(workbench, "count(*)", d=READER.format(plus=0))
    inserted(session, "00:00", "02:00", "05:00")
    session.run()
    running = ViewTable(session, view_of(session, "d"))
    session = opened(workbench, "count(*)", d=READER.format(plus=1000))
    version = begun(session, "d")
    while version.advance():
        pass
    rebuild(opened(workbench, "sum(n)"), ["v"], with_readers=False)
    inserted(session, "07:00")
    session.run(["v"])
    # Neither who has it open continues with the other results below, nor is the version swapped in.
    with pytest.raises(TidegateError, match="TG506"):
        running.tick()
    assert not version.swapped()
    assert session.tables.open(session.identifier("d")).property("tidegate.stale") is None
    # It begins anew.
    finish(version)
    assert values(workbench.session(), "d") == [1005, 1005, 1005]
    inserted(session, "09:00")
    workbench.session().run()
    assert values(workbench.session(), "d") == [1005, 1005, 1005, 1005]


def test_E8_readers_whose_commits_do_not_say_what_they_have_read_get_a_mark(
    workbench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = opened(workbench, "count(*)", d=READER.format(plus=0))
    inserted(session, "00:00", "02:00")
    with monkeypatch.context() as earlier:
        earlier.setattr("tidegate.views.resolve.View", Session)  # (of an earlier release)
        session.run()
    version = begun(session := opened(workbench, "sum(n)"))
    version.advance()
    reader = session.tables.open(session.identifier("d"))
    # A try that is refused leaves them as they were.
    with monkeypatch.context() as refused:
        refused.setattr(type(version.current), "swap", _refused)
        assert not version.swapped()
    reader.refresh()
    assert not reader.property("tidegate.stale")
    assert version.swapped()
    reader.refresh()
    assert reader.property("tidegate.stale") == "v"
    with pytest.raises(TidegateError, match="TG506"):
        workbench.session().run()
    assert [one.view for one in rebuild(workbench.session())] == ["d"]
    assert values(workbench.session(), "d") == [5]


def _refused(*_: object) -> int:
    raise TidegateError("TG502", "others were faster")


def test_E8_who_does_not_say_which_results_below_he_has_read_does_not_go_back_to_them(
    workbench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A version of an earlier release, and what it has read was swapped since."""
    session = opened(workbench, "count(*)", d=READER.format(plus=0))
    inserted(session, "00:00", "02:00")
    with monkeypatch.context() as earlier:
        earlier.setattr("tidegate.views.resolve.View", Session)
        session.run()
    rebuild(session := opened(workbench, "count(*)", d=READER.format(plus=1)))
    session.confirm = lambda text: True
    rollback(session, "d")
    rollback(session, "d")
    assert values(session, "d") == [2]
    rebuild(session := opened(workbench, "sum(n)", d=READER.format(plus=1)))
    session.confirm = lambda text: True
    with pytest.raises(TidegateError, match=r'TG506.*version 1 of "d" can be read, but not continued'):
        rollback(session, "d", 1)
    assert session.opened("d$next") is None
