"""Deliveries beside the ticks of their group (`sinks/beside.py`), on the runner without a JVM."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

import pytest

from tests.conftest import Workbench
from tests.session.test_live import SINK, SOURCE, VIEWS, rows
from tests.session.test_live_driver import Heard, OneByOne
from tidegate.errors import TidegateError
from tidegate.plan import events
from tidegate.plan.events import Event
from tidegate.runtime.context import Context
from tidegate.session.live import LiveGroup
from tidegate.session.live_driver import LiveDriver, Pace, _Left
from tidegate.session.members.sink_member import SinkMember
from tidegate.session.turns import Retries
from tidegate.session.visits import Visit

pytestmark = pytest.mark.runner("inprocess")

PATIENCE = 30.0


class Beside:
    """Opens the session of what is done beside ticks, which waits there until it `may`."""

    def __init__(self, workbench: Workbench) -> None:
        self._workbench = workbench
        self.may, self.opened, self.stopped = threading.Event(), 0, False
        self.errors: list[Exception] = []

    @contextmanager
    def __call__(self) -> Iterator[tuple[Context, Callable[[], None]]]:
        self.opened += 1
        assert self.may.wait(PATIENCE)
        if self.errors:
            raise self.errors.pop()
        yield self._workbench.session(), self.stop

    def stop(self) -> None:
        self.stopped = True


class Bench:
    """A group with a view of one row for each minute, and a sink."""

    def __init__(self, workbench: Workbench, sink: str = SINK) -> None:
        self.workbench, self.beside, self.now = workbench, Beside(workbench), 0.0
        self.told: list[Event] = []
        workbench.assets(a=SOURCE, b=VIEWS, c=sink)
        retries = Retries(first=10.0, longest=40.0)
        self.group = LiveGroup(
            workbench.session(), retries=retries, clock=lambda: self.now, beside=self.beside
        )

    def comes(self, name: str, *times: str) -> None:
        self.workbench.json_lines(f"in/{name}.json", rows(*times))

    def tick(self) -> list[str]:
        """What it has told, but for slices of the view above."""
        self.told.clear()
        while self.group.tick(self.told.append):
            pass
        told = [event.to_dict() for event in self.told]
        return [str(one["event"]) for one in told if one.get("view") != "per_hour"]

    def settle(self) -> None:
        """Let the delivery end."""
        self.beside.may.set()
        sink = self.group.members[-1]
        assert isinstance(sink, SinkMember)
        assert sink._deliveries is not None
        assert sink._deliveries._over.wait(PATIENCE)

    @property
    def delivering(self) -> tuple[str, ...]:
        finished = self.told[-1]
        assert isinstance(finished, events.TickFinished)
        return finished.delivering

    def lines(self) -> list[str]:
        files = sorted((self.workbench.root / "out").glob("*.jsonl"))
        return [
            line.split('"window_start":"')[1][11:16] for f in files for line in f.read_text().splitlines()
        ]


def test_R2_what_becomes_final_during_the_first_delivery_is_committed_and_delivered_behind_it(
    workbench: Workbench,
) -> None:
    bench = Bench(workbench)
    bench.comes("1", "12:00:10", "12:02:30")
    with bench.group:
        bench.group.prepare(bench.told.append)
        assert bench.tick() == ["batch_committed", "slice_committed", "tick_finished"]
        assert (bench.delivering, bench.lines()) == (("out",), [])
        bench.comes("2", "12:04:30")
        assert bench.tick() == ["batch_committed", "slice_committed", "tick_finished"]
        assert bench.delivering == ("out",)
        bench.settle()
        # It has begun before the second commit; what that has closed is delivered behind it.
        assert bench.tick() == ["tick_finished"]
        assert (bench.delivering, bench.group.is_delivering) == ((), True)
        bench.settle()
        assert bench.tick() == ["tick_finished"]
        assert (bench.group.is_delivering, bench.lines()) == (False, ["12:00", "12:02"])
        # From then on it is at work only where something has become final.
        assert bench.tick() == ["tick_finished"]
        assert not bench.group.is_delivering
        bench.comes("3", "12:06:30")
        assert bench.tick() == ["batch_committed", "slice_committed", "tick_finished"]
        bench.settle()
        bench.tick()
        assert (bench.beside.opened, bench.lines()) == (1, ["12:00", "12:02", "12:04"])


def test_a_delivery_that_fails_is_told_and_tried_again_and_has_not_recovered_before(
    workbench: Workbench,
) -> None:
    bench = Bench(workbench)
    bench.beside.errors = [OSError("no space"), TidegateError("TG545", "the target refuses")]
    bench.comes("1", "12:00:10", "12:01:30")
    with bench.group:
        bench.tick()
        for wait, attempt, code in ((10.0, 1, "TG545"), (20.0, 2, None)):
            bench.settle()
            assert bench.tick()[0] == "member_failed"
            failed = bench.told[0]
            assert isinstance(failed, events.MemberFailed)
            assert (failed.name, failed.attempt, failed.code) == ("out", attempt, code)
            assert (bench.delivering, bench.group.failing) == ((), ("out",))
            bench.now += 2 * wait
            assert bench.tick() == ["tick_finished"]
            assert (bench.delivering, bench.group.failing) == (("out",), ("out",))
        bench.settle()
        assert bench.tick() == ["member_recovered", "tick_finished"]
        assert (bench.group.failing, bench.lines()) == ((), ["12:00"])


def test_R2_a_group_that_ends_stops_its_delivery_and_the_next_one_makes_it(workbench: Workbench) -> None:
    bench = Bench(workbench)
    bench.comes("1", "12:00:10", "12:01:30")
    with bench.group:
        bench.tick()
        threading.Timer(0.2, bench.beside.may.set).start()
    assert (bench.lines(), bench.delivering) == ([], ("out",))
    assert all(thread.name != "tidegate-sink-out" for thread in threading.enumerate())
    # Its lease is free.
    workbench.session().run(["out"])
    assert bench.lines() == ["12:00"]


def test_R2_a_run_is_lent_a_group_only_when_its_delivery_is_over(workbench: Workbench) -> None:
    """Two deliveries of the same sink at once would deliver rows twice. The group is at work meanwhile."""
    bench = Bench(workbench)
    bench.comes("1", "12:00:10", "12:01:30")
    visit, seen = Visit(["clicks"]), list[str]()

    class Hands(OneByOne):
        def hear(self, seconds: float | None) -> object | None:
            message = super().hear(seconds)
            if bench.group.is_delivering and not bench.beside.may.is_set():
                assert heard.at_work == {"clicks"}
                seen.append("lent" if visit.complete(0.0) else "waits")
                if len(seen) == 1:
                    driver._hands.tell(visit)
                if len(seen) == 8:
                    bench.settle()
            elif visit.complete(0.0) and not seen.count("came"):
                seen.append("came")
                lent = visit.begin()
                assert list(lent) == ["clicks"]
                assert (bench.group.is_delivering, bench.lines()) == (False, ["12:00"])
                heard.rests("clicks")
                driver._hands.tell(_Left(visit))
                driver.close()
            return message

    def opened(stopping: Callable[[], bool]) -> AbstractContextManager[LiveGroup]:
        return nullcontext(bench.group)

    heard = Heard()
    driver = LiveDriver(Hands(), heard, Pace(upkeep=False, threads=1))
    driver.open("clicks", opened)
    assert driver.run()
    assert seen == ["waits"] * 8 + ["came"]
    ticks = heard.of("clicks", events.TickFinished)
    assert sum(bool(one.delivering) for one in ticks) >= 2
