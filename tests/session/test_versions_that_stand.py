"""E5: where ticks of the current version come faster than the next one can follow, the current one stands a while."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from types import SimpleNamespace

import pytest

from tests.conftest import Workbench
from tests.session.test_apply_beside_live import Live
from tests.views.test_version_builds import GROUPED, after_each_slice
from tests.views.test_version_lives import CLOSE, HOURS, begun, inserted, opened, values
from tests.views.test_versions import TABLE
from tidegate.errors import TidegateError
from tidegate.plan.versions import STANDS_UNTIL
from tidegate.session.live import LiveGroup, settled
from tidegate.session.session import Session
from tidegate.views.amend.rebuild import rebuild
from tidegate.views.amend.rollback import rollback
from tidegate.views.versions import build
from tidegate.views.versions import finish as finishing
from tidegate.views.versions.build import VersionBuild
from tidegate.views.versions.finish import finish
from tidegate.views.versions.held import let_stand

pytestmark = pytest.mark.runner("inprocess")

MINUTES = HOURS.replace("1 hour", "1 minute").format(what="{what}", emit=CLOSE)


def counted(workbench: Workbench) -> Session:
    """A view of hours, of which two are closed, with one row each."""
    session = opened(workbench, "count(*)")
    inserted(session, "00:00", "01:00", "02:00")
    session.run()
    return session


def edited(workbench: Workbench, query: str) -> Session:
    """A view that counts these rows, and whose file has been edited: it sums."""
    workbench.assets(t=TABLE, v=query.format(what="count(*)"))
    inserted(session := workbench.session(), "00:00", "01:00", "02:00")
    session.run()
    workbench.assets(v=query.format(what="sum(n)"))
    return workbench.session()


def said(session: Session) -> str | None:
    table = session.tables.open(session.identifier("v"))
    table.current()
    return table.property(STANDS_UNTIL)


class Busy:
    """Whenever a version has computed a slice, a row has come, and live mode has ticked, `after` something else."""

    def __init__(self, workbench: Workbench, after: Callable[[], object] = lambda: None) -> None:
        self.session, self._after = workbench.session(), after
        self.group, self.rows, self.commits = LiveGroup(workbench.session()), 0, 0

    def __call__(self) -> None:
        self._after()
        self.rows += 1
        inserted(self.session, f"{3 + self.rows // 60:02}:{self.rows % 60:02}")
        table = self.session.tables.open(self.session.identifier("v"))
        before = table.current().id
        self.group.tick(lambda event: None)
        table.refresh()
        self.commits += table.current().id != before


@pytest.mark.parametrize("query", [MINUTES, GROUPED], ids=["windows", "groups"])
def test_E5_a_version_that_is_always_a_tick_behind_is_swapped_in(
    workbench: Workbench, monkeypatch: pytest.MonkeyPatch, query: str
) -> None:
    version = begun(session := edited(workbench, query))
    busy = Busy(workbench)
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
    rebuild(session := edited(workbench, MINUTES))
    session.confirm = lambda text: True
    busy = Busy(workbench)
    with monkeypatch.context() as during:
        after_each_slice(during, busy)
        rollback(session, "v")
    assert busy.commits == 3
    assert set(values(session, "v")) == {1}


def test_E5_a_version_stands_for_as_long_as_a_slow_builder_needs(
    workbench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A slice takes 40 seconds."""
    version, passed = begun(session := edited(workbench, MINUTES)), [0.0]

    def pass_by() -> None:
        passed[0] += 40.0

    busy, began = Busy(workbench, pass_by), session.clock()
    for one in (session, busy.group.context):
        monkeypatch.setattr(one, "clock", lambda: began + timedelta(seconds=passed[0]))
    monkeypatch.setattr(finishing, "time", SimpleNamespace(monotonic=lambda: passed[0]))
    with monkeypatch.context() as during:
        after_each_slice(during, busy)
        finish(version)
    assert busy.commits == 3


@pytest.mark.parametrize("ahead", [0, 7200], ids=["equal clocks", "a clock two hours ahead"])
def test_E5_R2_when_its_builder_was_killed_live_mode_continues_by_itself(
    workbench: Workbench, monkeypatch: pytest.MonkeyPatch, ahead: int
) -> None:
    session = counted(workbench)
    clock = session.clock
    monkeypatch.setattr(session, "clock", lambda: clock() + timedelta(seconds=ahead))
    let_stand(session, "v")
    inserted(session, "03:00")
    group = LiveGroup(workbench.session())
    group.tick(lambda event: None)
    assert values(session, "v") == ([1, 1, 1] if ahead else [1, 1])
    monkeypatch.setattr(group.context, "clock", lambda: clock() + timedelta(seconds=31))
    group.tick(lambda event: None)
    assert values(session, "v") == [1, 1, 1]


def test_E5_who_asks_for_one_tick_has_it(workbench: Workbench) -> None:
    """A run, or an erasure, whose next tick would come too late, or never."""
    session = counted(workbench)
    let_stand(session, "v")
    inserted(session, "03:00")
    session.run()
    assert values(session, "v") == [1, 1, 1]


def test_E5_what_can_not_be_said_now_is_no_error_of_the_builder(
    workbench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted(workbench)
    version, asked = begun(session := opened(workbench, "sum(n)")), list[float]()

    def busy(context: object, name: str, seconds: float) -> None:
        asked.append(seconds)
        raise TidegateError("TG508", "it is written")

    monkeypatch.setattr(build, "let_stand", busy)
    monkeypatch.setattr(VersionBuild, "_is_behind", lambda *_: len(asked) < 2)
    finish(version)
    assert len(asked) == 2
    assert values(session, "v") == [5, 5]


def test_E5_live_mode_computes_what_a_version_that_stood_has_left(
    workbench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where nothing more arrives, which would tell of it."""
    session = counted(workbench)
    live = Live(workbench)
    try:
        live.tick()
        let_stand(session, "v")
        inserted(session, "03:00")
        live.tick()
        live.tick()
        assert values(session, "v") == [1, 1]
        assert not settled(live.group)
        context = live.group.context
        clock = context.clock
        monkeypatch.setattr(context, "clock", lambda: clock() + timedelta(seconds=31))
        live.tick()
        assert values(session, "v") == [1, 1, 1]
        assert settled(live.group)
    finally:
        live.end()
