"""How often live mode lists the folder of a source in which nothing new comes; no JVM."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.conftest import Workbench
from tests.session.test_live import SOURCE, VIEWS, live, rows
from tidegate.cli.commands.runs.live_worker import LiveWorker
from tidegate.cli.commands.runs.served import Files
from tidegate.ingest.sources import filesystem
from tidegate.project import Project
from tidegate.session.live import LiveGroup, settled
from tidegate.session.live_driver import LiveDriver, Opening, Pace
from tidegate.session.members.member import SourceMember
from tidegate.session.session import Session
from tidegate.warm.likeness import likeness_of

pytestmark = pytest.mark.runner("inprocess")


def test_a_quiet_folder_is_listed_less_often_and_at_once_by_whoever_asks(
    workbench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    workbench.assets(a=SOURCE, b=VIEWS).json_lines("in/1.json", rows("12:00:10"))
    listed, real = list[float](), filesystem.list_files

    def counted(*given: Any) -> Any:
        listed.append(bench.now)
        return real(*given)

    monkeypatch.setattr(filesystem, "list_files", counted)

    def tick_until(end: float) -> int:
        """How often the folder is listed meanwhile."""
        listed.clear()
        while bench.now < end:
            bench.now += 2.0
            bench.tick()
        return len(listed)

    with live(workbench, interval=2.0) as bench:
        assert tick_until(20.0) == 10
        assert tick_until(600.0) < 60
        assert tick_until(800.0) == 10
        bench.drop("2", "12:01:10")
        bench.drop("3", "12:02:10")
        # Each batch of a backlog looks for more; and then the folder is no quiet one any more.
        tick_until(824.0)
        assert bench.minutes() == [("12:00", 1), ("12:01", 1)]
        assert tick_until(844.0) > 5
        tick_until(1000.0)
        # A run has had the leases of the group meanwhile, and read what was there.
        bench.drop("4", "12:03:10")
        bench.group.open_anew()
        assert (tick_until(1002.0), bench.minutes()[-1]) == (1, ("12:02", 1))


@pytest.mark.parametrize(("over", "interval"), [(settled, 0.0), (Pace().over, 7.0)])
def test_a_worker_opens_a_group_with_its_interval_unless_the_group_ends_when_nothing_waits(
    workbench: Workbench,
    monkeypatch: pytest.MonkeyPatch,
    over: Callable[[LiveGroup], bool],
    interval: float,
) -> None:
    workbench.assets(a=SOURCE)
    root, session, opened = workbench.root, workbench.session(), list[Opening]()
    monkeypatch.setattr(Session, "beside", lambda *_: nullcontext(session))
    environ = dict(os.environ)
    files = Files(root, "local", environ, likeness_of(root, "local", environ))
    worker = LiveWorker("*", Project.load(root), files, Pace(over=over), None, False)
    worker._session = session
    driver = cast("LiveDriver", SimpleNamespace(open=lambda name, opening, *pace: opened.append(opening)))
    worker._do(driver, {"open": "clicks", "members": ["clicks"], "interval": 7.0, "priority": 1, "hung": {}})
    with opened[0](lambda: False) as group:
        (member,) = group.members
    assert isinstance(member, SourceMember)
    assert member._listings.interval == interval
