"""E5: where ticks of the current version come faster than the next one can follow, the current one stands a while."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tests.conftest import Workbench
from tests.session.test_apply_beside_live import Live
from tests.views.test_version_builds import GROUPED, after_each_slice
from tests.views.test_version_lives import CLOSE, HOURS, begun, inserted, opened, values
from tests.views.test_versions import TABLE
from tidegate.plan.versions import STANDS_UNTIL
from tidegate.session.session import Session
from tidegate.views.amend.rebuild import rebuild
from tidegate.views.amend.rollback import rollback
from tidegate.views.versions.build import finish
from tidegate.views.versions.held import let_stand

pytestmark = pytest.mark.runner("inprocess")

WINDOWS = HOURS.format(what="{what}", emit=CLOSE)


def said(session: Session) -> str | None:
    table = session.tables.open(session.identifier("v"))
    table.current()
    return table.property(STANDS_UNTIL)


class Busy:
    """Whenever a version has computed a slice, a row has come, and the current version has taken it in."""

    def __init__(self, session: Session) -> None:
        self.session, self.rows, self.commits = session, 0, 0

    def __call__(self) -> None:
        self.rows += 1
        inserted(self.session, f"{3 + self.rows // 60:02}:{self.rows % 60:02}")
        table = self.session.tables.open(self.session.identifier("v"))
        before = table.current().id
        self.session.run(["v"])
        table.refresh()
        self.commits += table.current().id != before


@pytest.mark.parametrize("query", [WINDOWS.replace("1 hour", "1 minute"), GROUPED], ids=["windows", "groups"])
def test_E5_a_version_that_is_always_a_tick_behind_is_swapped_in(
    workbench: Workbench, monkeypatch: pytest.MonkeyPatch, query: str
) -> None:
    workbench.assets(t=TABLE, v=query.format(what="count(*)"))
    inserted(session := workbench.session(), "00:00", "01:00", "02:00")
    session.run()
    workbench.assets(v=query.format(what="sum(n)"))
    version = begun(session := workbench.session())
    busy = Busy(session)
    with monkeypatch.context() as during:
        after_each_slice(during, busy)
        finish(version)
    # It has given way three times; the ticks that came behind these have left the current version as it was.
    assert busy.commits == 3 < busy.rows
    assert said(session) is None
    session.run()
    total = 3 + busy.rows
    assert sum(values(session, "v")) == 5 * (total if query == GROUPED else total - 1)


def test_E5_a_rollback_that_is_always_a_tick_behind_is_swapped_in(
    workbench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = WINDOWS.replace("1 hour", "1 minute")
    workbench.assets(t=TABLE, v=query.format(what="count(*)"))
    inserted(session := workbench.session(), "00:00", "01:00", "02:00")
    session.run()
    workbench.assets(v=query.format(what="sum(n)"))
    rebuild(session := workbench.session())
    session.confirm = lambda text: True
    busy = Busy(session)
    with monkeypatch.context() as during:
        after_each_slice(during, busy)
        rollback(session, "v")
    assert busy.commits == 3
    assert set(values(session, "v")) == {1}


def test_E5_R2_when_its_builder_was_killed_a_version_stands_for_half_a_minute_only(
    workbench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = opened(workbench, "count(*)")
    inserted(session, "00:00", "01:00", "02:00")
    session.run()
    let_stand(session, "v")
    inserted(session, "03:00")
    session.run()
    assert values(session, "v") == [1, 1]
    clock = session.clock
    monkeypatch.setattr(session, "clock", lambda: clock() + timedelta(seconds=31))
    session.run()
    assert values(session, "v") == [1, 1, 1]


def test_E5_live_mode_computes_what_a_version_that_stood_has_left(
    workbench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where nothing more arrives, which would tell of it."""
    session = opened(workbench, "count(*)")
    inserted(session, "00:00", "01:00", "02:00")
    live = Live(workbench)
    try:
        live.tick()
        let_stand(session, "v")
        inserted(session, "03:00")
        live.tick()
        live.tick()
        assert values(session, "v") == [1, 1]
        context = live.group.context
        clock = context.clock
        monkeypatch.setattr(context, "clock", lambda: clock() + timedelta(seconds=31))
        live.tick()
        assert values(session, "v") == [1, 1, 1]
    finally:
        live.end()
