"""Work of a live group that hangs (`plan/hanging.py`): when that is told, and how the group continues."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import nullcontext
from types import SimpleNamespace

import pytest

from tests.conftest import Workbench
from tests.session.test_live_driver import Heard, counts, opening, project
from tidegate.jvm.within import active, progress
from tidegate.plan import events
from tidegate.plan.hanging import AtWork, Patience, hung_pause
from tidegate.session.hands import Threads
from tidegate.session.hosted import Hosted
from tidegate.session.live import settled
from tidegate.session.live_driver import LiveDriver, Pace
from tidegate.session.members.member import ViewMember

VIEW = AtWork("v", "view", 0.0)


def told(patience: Patience, *looks: tuple[float, object], work: AtWork = VIEW) -> list[float | None]:
    """What is told at these times, each with what is seen of the tasks."""
    return [patience.hangs(work, at, lambda seen=seen: seen) for at, seen in looks]


def test_work_hangs_that_takes_long_and_does_not_advance_and_that_is_told_once() -> None:
    looks = [(at, "one task") for at in (10.0, 40.0, 60.0, 90.0, 110.0, 120.0)]
    assert told(Patience(100.0, {}), *looks) == [None, None, None, None, 110.0, None]


def test_work_that_advances_does_not_hang_however_long_it_takes() -> None:
    patience = Patience(100.0, {})
    assert told(patience, *[(50.0 * n, f"{n} tasks") for n in range(20)]) == [None] * 20
    assert told(patience, (990.0, "19 tasks"), (1001.0, "19 tasks")) == [None, 1001.0]


def test_other_work_of_the_group_begins_its_own_time() -> None:
    patience = Patience(100.0, {})
    assert told(patience, (60.0, None), (90.0, None)) == [None, None]
    second = AtWork("w", "view", 95.0)
    assert told(patience, (110.0, None), (194.0, None), work=second) == [None, None]
    assert told(patience, (244.0, None), work=second) == [149.0]


def test_what_has_hung_is_given_twice_the_time_each_time_up_to_an_hour() -> None:
    def given(times: int, seconds: float = 300.0) -> float:
        patience = Patience(seconds, {"v": times})
        found = told(patience, *[(float(at), None) for at in range(0, 20_000, 10)])
        return next(taken for taken in found if taken is not None)

    assert [given(times) for times in range(6)] == [300.0, 600.0, 1200.0, 2400.0, 3600.0, 3600.0]
    assert given(2, 7200.0) == 7200.0
    assert [hung_pause(times, 0.0) for times in range(1, 6)] == [0.0, 1800.0, 3600.0, 7200.0, 7200.0]


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """The views of `a` hang until it is set."""
    gate, step = threading.Event(), ViewMember.step

    def hangs(self: ViewMember, notify: object) -> tuple[bool, bool]:
        if self.name == "a_minutes":
            gate.wait(120)
        return step(self, notify)  # type: ignore[arg-type]  # as it was given

    monkeypatch.setattr(ViewMember, "step", hangs)
    yield gate
    gate.set()


@pytest.mark.runner("inprocess")
def test_a_view_that_hangs_is_told_while_another_group_does_its_work(
    workbench: Workbench, gate: threading.Event
) -> None:
    project(workbench, "a", "b")
    session = workbench.session()
    hung = threading.Event()

    def meanwhile(group: str, event: events.Event) -> None:
        # (On a busy machine other work may take long, too.)
        if isinstance(event, events.WorkHangs) and event.name == "a_minutes":
            hung.set()

    heard = Heard(meanwhile)
    pace = Pace(0.05, over=settled, hangs_after=0.5)
    heard.driver = driver = LiveDriver(Threads(session.runner.elapsed), heard, pace)
    for name in ("a", "b"):
        driver.open(name, opening(session, name))
    thread = threading.Thread(target=driver.run)
    thread.start()
    assert hung.wait(60)
    end = time.monotonic() + 60
    while heard.left != {"a"}:
        assert time.monotonic() < end
        time.sleep(0.05)
    (told_of_it,) = [event for event in heard.of("a", events.WorkHangs) if event.name == "a_minutes"]
    assert (told_of_it.kind, told_of_it.code) == ("view", "TG519")
    assert told_of_it.seconds >= 0.5
    # It was not broken off here: that is done with the whole process.
    gate.set()
    thread.join(30)
    assert counts(session, "a") == counts(session, "b") == [1, 1]


@pytest.mark.runner("spark")
def test_jobs_of_a_name_are_found_and_advance_with_each_task_that_ends(workbench: Workbench) -> None:
    spark, gone = workbench.session().spark, workbench.root / "go"

    def wait(number: int, _: object) -> Iterator[int]:
        import time

        # (What ends sooner is written down later.)
        time.sleep(1.5)
        while number and not gone.exists():
            time.sleep(0.05)
        yield 1

    def work() -> None:
        with active(spark, "a"):
            spark.sparkContext.parallelize([1, 1], 2).mapPartitionsWithIndex(wait).count()

    def ended() -> list[int]:
        return [tasks for _, tasks in progress(spark, "a")]

    thread = threading.Thread(target=work)
    thread.start()
    try:
        seen = []
        while not seen or seen[-1] != [1]:
            assert thread.is_alive()
            seen += [now] if (now := ended()) and now not in seen else []
            time.sleep(0.02)
        assert seen == [[0], [1]]
        assert not progress(spark, "b")
    finally:
        gone.touch()
        thread.join(60)
    assert ended() == []


def test_where_spark_does_not_answer_work_has_not_advanced() -> None:
    def gone(name: str) -> object:
        raise ConnectionRefusedError(name)

    group = SimpleNamespace(at_work=VIEW, context=SimpleNamespace(runner=SimpleNamespace(progress=gone)))
    hosted = Hosted("g", lambda stopping: nullcontext(), 2.0, Patience(100.0, {}), group=group)  # type: ignore[arg-type]  # as much of a group as it looks at
    assert hosted.hangs(60.0) is None
    told_of_it = hosted.hangs(120.0)
    assert told_of_it is not None
    assert (told_of_it.group, told_of_it.name, told_of_it.member, told_of_it.seconds) == (
        "g",
        "v",
        "v",
        120.0,
    )
