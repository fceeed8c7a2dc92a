"""Upkeep beside the ticks of a live group (`maintenance/live_upkeep.py`), on the runner without a JVM."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

import pytest

from tests.conftest import Workbench
from tests.session.test_deliveries_beside import PATIENCE, Beside
from tests.session.test_live import SOURCE, VIEWS, rows
from tests.session.test_live_driver import Heard, OneByOne
from tidegate.errors import TidegateError
from tidegate.maintenance.live_upkeep import LiveUpkeep
from tidegate.plan import events
from tidegate.plan.events import Event
from tidegate.project.jobs.maintenance import Policy
from tidegate.session import live_driver
from tidegate.session.live import LiveGroup
from tidegate.session.live_driver import LiveDriver, Pace, _Left
from tidegate.session.visits import Visit

pytestmark = pytest.mark.runner("inprocess")

_OFTEN = Policy(compact_when_files=2, settle=0)


_KEYED = """CREATE TABLE clicks (
    page VARCHAR PRIMARY KEY, ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL '5 seconds' WITH TTL
) WITH (connector = 'filesystem', path = 'in', max_files_per_batch = 1) FORMAT PLAIN ENCODE JSON;
"""


class Bench:
    """A group of a source and two views, and its upkeep, which looks each second of `now`."""

    def __init__(
        self,
        workbench: Workbench,
        turn: threading.Lock | None = None,
        source: str = SOURCE,
        views: str = VIEWS,
    ) -> None:
        self.workbench, self.beside, self.now = workbench, Beside(workbench), 0.0
        self.told: list[Event] = []
        workbench.assets(a=source, b=views)
        self.group = LiveGroup(workbench.session(), clock=lambda: self.now)
        self.upkeep = LiveUpkeep(
            self.group.context,
            "clicks",
            self.group.written[:1],
            every=1.0,
            clock=lambda: self.now,
            beside=self.beside,
            turn=turn,
        )
        self.upkeep._policy = lambda name: _OFTEN
        self.dropped = 0

    def ticks(self, count: int) -> None:
        """So many ticks, each of one row in a minute of its own."""
        for _ in range(count):
            self.workbench.json_lines(f"in/{self.dropped}.json", rows(f"12:{self.dropped:02}:10"))
            self.dropped += 1
            while self.group.tick(lambda event: None):
                pass

    def look(self, begins: bool = True) -> list[str]:
        """What it tells a second later."""
        self.told.clear()
        self.now += 2.0
        self.upkeep.between_ticks(self.told.append, begins)
        return [str(event.to_dict()["event"]) for event in self.told]

    def settle(self) -> None:
        """Let it end."""
        self.beside.may.set()
        assert self.upkeep._beside is not None
        self.upkeep._beside._thread.join(PATIENCE)
        assert not self.upkeep.is_under_way

    def files(self) -> int:
        context = self.workbench.session()
        return context.tables.upkeep(context.identifier("clicks")).shape().files

    def rows(self) -> int:
        return self.workbench.session().table("clicks").count()


def driven(workbench: Workbench, monkeypatch: pytest.MonkeyPatch) -> Bench:
    """For a driver, whose upkeep is that of the bench then, and has something to do at once."""
    bench = Bench(workbench)
    bench.upkeep._looked_at = -1.0
    monkeypatch.setattr(live_driver, "LiveUpkeep", lambda *_, **__: bench.upkeep)
    with bench.group:
        bench.ticks(4)
    return bench


def test_ticks_do_not_wait_for_upkeep_and_it_is_told_behind_them(workbench: Workbench) -> None:
    bench = Bench(workbench)
    with bench.group:
        bench.ticks(6)
        before = bench.files()
        assert (bench.look(), bench.upkeep.is_under_way) == ([], True)
        bench.ticks(2)
        # While one is under way, no other one begins.
        assert (bench.look(), bench.beside.opened) == ([], 1)
        bench.settle()
        assert (bench.look(begins=False), bench.beside.opened) == (["upkeep_finished"], 1)
        finished = bench.told[0]
        assert isinstance(finished, events.UpkeepFinished)
        assert (finished.name, len(finished.why)) == ("clicks", 1)
        assert (bench.files() < before, bench.rows()) == (True, 8)
        bench.ticks(1)
        assert bench.rows() == 9


def test_upkeep_that_fails_is_told_and_tried_again_at_the_next_look(workbench: Workbench) -> None:
    bench = Bench(workbench)
    bench.beside.errors = [TidegateError("TG508", "another upkeep is running")]
    with bench.group:
        bench.ticks(4)
        assert bench.look() == []
        bench.settle()
        assert bench.look(begins=False) == ["member_failed"]
        failed = bench.told[0]
        assert isinstance(failed, events.MemberFailed)
        assert (failed.name, failed.kind, failed.code, failed.attempt) == ("clicks", "upkeep", "TG508", 1)
        assert bench.look() == []
        bench.settle()
        assert bench.look(begins=False) == ["member_recovered", "upkeep_finished"]


def test_R2_upkeep_ends_before_the_leases_of_its_group(workbench: Workbench) -> None:
    bench = Bench(workbench)
    with bench.group:
        bench.ticks(4)
        before = bench.files()
        assert bench.look() == []
        threading.Timer(0.2, bench.beside.may.set).start()
        bench.upkeep.close()
        assert not bench.upkeep.is_under_way
        assert all(thread.name != "tidegate-upkeep-clicks" for thread in threading.enumerate())
        assert bench.files() == before


def test_of_all_groups_of_a_process_one_table_is_cared_for_at_a_time(workbench: Workbench) -> None:
    turn = threading.Lock()
    bench = Bench(workbench, turn)
    with bench.group:
        with turn:
            bench.ticks(4)
            # It waits without a thread, so it is not at work.
            assert (bench.look(), bench.upkeep.is_under_way, bench.beside.opened) == ([], False, 0)
        assert (bench.look(), bench.upkeep.is_under_way, turn.locked()) == ([], True, True)
        bench.settle()
        assert (bench.look(begins=False), bench.beside.opened, turn.locked()) == (
            ["upkeep_finished"],
            1,
            False,
        )
        # Nor does it keep the turn where nothing is due.
        bench.upkeep._policy = lambda name: Policy()
        assert (bench.look(), bench.beside.opened, turn.locked()) == ([], 1, False)


def test_T2_upkeep_of_a_table_whose_rows_are_replaced_is_between_two_ticks(workbench: Workbench) -> None:
    bench = Bench(workbench, source=_KEYED, views="")
    bench.beside.may.set()
    with bench.group:
        bench.ticks(4)
        assert (bench.look(), bench.beside.opened) == (["upkeep_finished"], 0)


def test_R2_a_run_is_lent_a_group_only_when_its_upkeep_is_over(
    workbench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It writes with the leases of the group. The group is at work meanwhile, and no other upkeep begins."""
    bench = driven(workbench, monkeypatch)
    visit, seen = Visit(["clicks"]), list[str]()

    class Hands(OneByOne):
        def hear(self, seconds: float | None) -> object | None:
            message = super().hear(seconds)
            if bench.upkeep.is_under_way and not bench.beside.may.is_set():
                assert heard.at_work == {"clicks"}
                seen.append("lent" if visit.complete(0.0) else "waits")
                if len(seen) == 1:
                    driver._hands.tell(visit)
                if len(seen) == 8:
                    bench.settle()
            elif visit.complete(0.0) and not seen.count("came"):
                seen.append("came")
                assert (list(visit.begin()), bench.upkeep.is_under_way) == (["clicks"], False)
                heard.rests("clicks")
                driver._hands.tell(_Left(visit))
                driver.close()
            return message

    def opened(stopping: Callable[[], bool]) -> AbstractContextManager[LiveGroup]:
        return nullcontext(bench.group)

    heard = Heard()
    driver = LiveDriver(Hands(), heard, Pace(threads=1))
    driver.open("clicks", opened)
    assert driver.run()
    assert (seen, bench.beside.opened) == (["waits"] * 8 + ["came"], 1)
    assert len(heard.of("clicks", events.UpkeepFinished)) == 1


def test_R2_a_group_that_ends_in_its_driver_stops_its_upkeep(
    workbench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = driven(workbench, monkeypatch)

    class Hands(OneByOne):
        def hear(self, seconds: float | None) -> object | None:
            message = super().hear(seconds)
            if bench.upkeep.is_under_way:
                threading.Timer(0.2, bench.beside.may.set).start()
                driver.close()
            return message

    driver = LiveDriver(Hands(), Heard(), Pace(threads=1))
    driver.open("clicks", lambda stopping: nullcontext(bench.group))
    assert driver.run()
    assert (bench.beside.opened, bench.upkeep.is_under_way) == (1, False)
