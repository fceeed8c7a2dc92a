"""Groups of a live driver (`session/live_driver.py`) on the runner without a JVM, by threads or one after another."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import pytest

from tests.conftest import Workbench
from tidegate.errors import TidegateError
from tidegate.plan import events
from tidegate.plan.events import Event
from tidegate.session.live import LiveGroup, settled
from tidegate.session.live_driver import LiveDriver, Opening, Pace
from tidegate.session.session import Session

pytestmark = pytest.mark.runner("inprocess")

SOURCE = """CREATE SOURCE {0} (
    page VARCHAR, ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL '5 seconds'
) WITH (connector = 'filesystem', path = 'in/{0}', max_files_per_batch = 1) FORMAT PLAIN ENCODE JSON;
CREATE MATERIALIZED VIEW {0}_minutes AS SELECT window_start, count(*) AS n
FROM TUMBLE({0}, ts, INTERVAL '1 minute') GROUP BY window_start EMIT ON WINDOW CLOSE;
"""


class OneByOne:
    """Does the work at once, on a clock that only waiting moves."""

    def __init__(self) -> None:
        self.time, self.messages = 0.0, deque[object]()

    def start(self, work: Callable[[], None]) -> None:
        work()

    def tell(self, message: object) -> None:
        self.messages.append(message)

    def hear(self, seconds: float | None) -> object | None:
        if self.messages:
            return self.messages.popleft()
        assert seconds is not None, "the driver waits for ever"
        self.time += seconds
        return None

    def now(self) -> float:
        return self.time


class Heard:
    """What the driver has told; `meanwhile` is called at each event."""

    def __init__(self, meanwhile: Callable[[str, Event], None] = lambda group, event: None) -> None:
        self.told: list[tuple[str, Any]] = []
        self.driver: LiveDriver | None = None
        self.at_work = set[str]()
        self.lent_out: list[str] = []
        self.left = {"a", "b"}
        self._meanwhile, self._lock = meanwhile, threading.Lock()

    def event(self, group: str, event: Event) -> None:
        with self._lock:
            self.told.append((group, event))
        self._meanwhile(group, event)

    def begins(self, group: str) -> None:
        with self._lock:
            assert group not in self.at_work
            self.at_work.add(group)

    def rests(self, group: str) -> None:
        with self._lock:
            self.at_work.remove(group)

    def lent(self, group: str) -> None:
        self.lent_out.append(group)

    def ended(self, group: str, code: int, error: Exception | None) -> None:
        with self._lock:
            self.told.append((group, code))
            self.at_work.remove(group)
            self.left.discard(group)
            over = not self.left
        if over and self.driver is not None:
            self.driver.close()

    def of(self, group: str, kind: type) -> list[Any]:
        return [told for name, told in self.told if name == group and isinstance(told, kind)]


def opening(session: Session, name: str) -> Opening:
    """How a group of the project is opened."""

    def opened(stopping: Callable[[], bool]) -> AbstractContextManager[LiveGroup]:
        return nullcontext(LiveGroup(session, [f"{name}_minutes"], name, stopping=stopping))

    return opened


def project(workbench: Workbench, *names: str) -> None:
    workbench.assets(**{name: SOURCE.format(name) for name in names})
    for name in names:
        for number, minute in enumerate(("12:00", "12:01", "12:02")):
            row = {"page": "a", "ts": f"2026-01-01 {minute}:30"}
            workbench.json_lines(f"in/{name}/{number}.json", [row])


def counts(session: Session, name: str) -> list[int]:
    return [row["n"] for row in session.table(f"{name}_minutes").orderBy("window_start").collect()]


def test_R2_groups_with_a_backlog_take_turns_and_each_ends_when_nothing_waits(workbench: Workbench) -> None:
    project(workbench, "a", "b")
    session, heard = workbench.session(), Heard()
    heard.driver = driver = LiveDriver(OneByOne(), heard, Pace(over=settled, threads=1))
    for name in ("a", "b"):
        driver.open(name, opening(session, name))
    assert driver.run()
    # Three batches each, none of which waits for more than one of the other group.
    batches = [name for name, told in heard.told if isinstance(told, events.BatchCommitted)]
    assert batches == ["a", "b"] * 3
    for name in ("a", "b"):
        assert counts(session, name) == [1, 1]
        stopping = heard.of(name, events.WorkerStopping)
        assert [(one.why, one.ticks) for one in stopping] == [("nothing waits any more", 3)]
        assert heard.told[-1][1] == 0


def test_a_driver_is_warm_once_and_not_before_its_groups_have_ticked(workbench: Workbench) -> None:
    project(workbench, "a", "b")
    session, heard = workbench.session(), Heard()
    warm: list[dict[str, int]] = []

    def note() -> None:
        warm.append({name: len(heard.of(name, events.TickFinished)) for name in ("a", "b")})

    # Groups that never end by themselves, until both have ticked many times.
    pace = Pace(over=lambda group: group.ticks >= 20 and settled(group), upkeep=False, threads=1, warm=note)
    heard.driver = driver = LiveDriver(OneByOne(), heard, pace)
    for name in ("a", "b"):
        driver.open(name, opening(session, name))
    assert driver.run()
    assert [len(heard.of(name, events.TickFinished)) for name in ("a", "b")] == [20, 20]
    assert len(warm) == 1
    assert all(3 <= ticks < 20 for ticks in warm[0].values()), warm


def test_what_ends_one_group_does_not_touch_the_other(workbench: Workbench) -> None:
    project(workbench, "a", "b")
    session, heard = workbench.session(), Heard()

    @contextmanager
    def refused(stopping: Callable[[], bool]) -> Any:
        raise TidegateError("TG508", "another process is writing a", hint="stop it")
        yield

    heard.driver = driver = LiveDriver(OneByOne(), heard, Pace(over=settled))
    driver.open("a", refused)
    driver.open("b", opening(session, "b"))
    assert driver.run()
    failed = [told for name, told in heard.told if name == "a"]
    assert failed == [
        events.WorkerFailed("a", "TG508", "another process is writing a", "stop it", True),
        2,
    ]
    assert counts(session, "b") == [1, 1]


def test_a_driver_whose_spark_is_gone_ends_at_once_and_closes_nothing(workbench: Workbench) -> None:
    project(workbench, "a", "b")
    session = workbench.session()
    object.__setattr__(session.runner, "answers", lambda: False)

    def fails(group: str, event: Event) -> None:
        if isinstance(event, events.BatchCommitted):
            raise OSError("the JVM is gone")

    heard = Heard(fails)
    driver = LiveDriver(OneByOne(), heard, Pace(over=settled), session.runner.answers)
    for name in ("a", "b"):
        driver.open(name, opening(session, name))
    assert not driver.run()
    assert [one.message for one in heard.of("a", events.WorkerFailed)] == ["OSError: the JVM is gone"]
    # The supervisor hears that the process has died, of all of its groups.
    assert not [told for _, told in heard.told if isinstance(told, int)]


def test_a_group_that_is_told_to_end_commits_what_is_under_way_and_no_more(workbench: Workbench) -> None:
    project(workbench, "a", "b")
    session = workbench.session()

    def stop(group: str, event: Event) -> None:
        if isinstance(event, events.BatchCommitted) and group == "a":
            driver.stop("a")

    heard = Heard(stop)
    hands = OneByOne()
    heard.driver = driver = LiveDriver(hands, heard, Pace(over=settled, threads=1))
    for name in ("a", "b"):
        driver.open(name, opening(session, name))
    assert driver.run()
    assert len(heard.of("a", events.BatchCommitted)) == 1
    assert [one.why for one in heard.of("a", events.WorkerStopping)] == ["asked to"]
    assert len(heard.of("b", events.BatchCommitted)) == 3
    # Its leases are free again, and it goes on where it was.
    session.run(["a_minutes"])
    assert counts(session, "a") == [1, 1]


def test_a_group_is_told_what_has_hung_and_tries_that_again_at_its_time(workbench: Workbench) -> None:
    project(workbench, "a")
    now, heard = [0.0], list[events.Event]()
    session = workbench.session()
    with LiveGroup(session, ["a_minutes"], "a", clock=lambda: now[0], hung={"a_minutes": 2}) as group:
        group.prepare(heard.append)
        started, failed = heard
        assert isinstance(started, events.WorkerStarted)
        assert isinstance(failed, events.MemberFailed)
        assert (failed.name, failed.code, failed.attempt) == ("a_minutes", "TG519", 2)
        assert 1800.0 <= failed.retry_seconds <= 2700.0
        while group.tick(heard.append):
            pass
        # The source has all its rows meanwhile.
        ticks = [event for event in heard if isinstance(event, events.TickFinished)]
        assert sum(tick.rows for tick in ticks) == 3
        assert ticks[-1].failing == ("a_minutes",)
        now[0] = failed.retry_seconds + 1
        group.tick(heard.append)
    assert [e.name for e in heard if isinstance(e, events.MemberRecovered)] == ["a_minutes"]
    assert counts(session, "a") == [1, 1]
