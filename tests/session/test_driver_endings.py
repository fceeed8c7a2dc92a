"""How groups of a live driver begin and end (`session/live_driver.py`): in the order in which it is told, while others
have their leases, and with Spark gone. What a group does in its work is made up here."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from itertools import pairwise
from typing import Any

import pytest

from tests.session.test_live_driver import Heard, OneByOne
from tidegate.errors import TidegateError
from tidegate.plan import events
from tidegate.session.hands import Threads
from tidegate.session.live_driver import LiveDriver, Pace


class Later(OneByOne):
    """Begins with work when all messages are heard."""

    def __init__(self) -> None:
        super().__init__()
        self.works = deque[Callable[[], None]]()

    def start(self, work: Callable[[], None]) -> None:
        self.works.append(work)

    def hear(self, seconds: float | None) -> object | None:
        if not self.messages and self.works:
            self.works.popleft()()
        return super().hear(seconds)


class Fake:
    """Stands for a group: what it does is given by the test, and what it did is kept in `did`."""

    written, is_delivering, beside, at_work, ticks = (), False, None, None, 0

    def __init__(self, name: str, did: list[str], **does: Callable[[], Any]) -> None:
        self.name, self._did, self._does = name, did, does
        self.context = self.runner = self

    def _do(self, what: str) -> Any:
        self._did.append(f"{self.name} {what}")
        return self._does.get(what, lambda: False)()

    def working(self, name: str) -> AbstractContextManager[None]:
        return nullcontext()

    def prepare(self, notify: object) -> None:
        """Nothing is to be prepared."""

    def tick(self, notify: object, waited: float = 0.0, lends: bool = False) -> bool:
        self.ticks += 1
        return bool(self._do("ticks"))

    def __enter__(self) -> Any:
        self._do("opens")
        return self

    def __exit__(self, *_: object) -> None:
        self._do("closes")

    def opening(self, stopping: Callable[[], bool]) -> Any:
        return nullcontext(self)


def held() -> None:
    raise TidegateError("TG508", "another process is writing a", hint="stop it")


def test_a_group_that_is_told_to_end_before_it_is_opened_is_not_opened_any_more() -> None:
    did, heard = list[str](), Heard()
    heard.driver = driver = LiveDriver(Later(), heard, Pace(upkeep=False))
    for name in ("a", "b"):
        driver.open(name, Fake(name, did).opening)
    driver.stop("b")
    driver.close()
    assert driver.run()
    assert did == []
    endings = [
        (group, one.why, one.ticks) for group, one in heard.told if isinstance(one, events.WorkerStopping)
    ]
    assert sorted(endings) == [("a", "asked to", 0), ("b", "asked to", 0)]
    assert [told for _, told in heard.told if isinstance(told, int)] == [0, 0]
    # Whoever comes after the end is not opened, either.
    heard.left = {"a", "b"}
    late = LiveDriver(Later(), heard, Pace(upkeep=False))
    late.open("a", Fake("a", did).opening)
    late.close()
    late.open("b", Fake("b", did).opening)
    assert late.run()
    assert did == []


def test_a_group_that_is_opened_while_it_still_ends_is_opened_after_that() -> None:
    did, heard = list[str](), Heard()

    def again() -> bool:
        if len([one for one in did if one.endswith("ticks")]) == 1:
            driver.stop("a")
            driver.open("a", Fake("second", did).opening)
            driver.close()
        return False

    driver = LiveDriver(OneByOne(), heard, Pace(upkeep=False))
    driver.open("a", Fake("first", did, ticks=again).opening)
    assert driver.run()
    assert did == ["first opens", "first ticks", "first closes"]
    assert [told for _, told in heard.told if isinstance(told, int)] == [0, 0]

    def once_more() -> bool:
        if len(did) == 2:
            driver.stop("a")
            driver.open("a", Fake("second", did, ticks=lambda: driver.close() or False).opening)
        return False

    did.clear()
    driver = LiveDriver(OneByOne(), heard, Pace(upkeep=False))
    driver.open("a", Fake("first", did, ticks=once_more).opening)
    assert driver.run()
    assert did == [
        "first opens",
        "first ticks",
        "first closes",
        "second opens",
        "second ticks",
        "second closes",
    ]


def test_a_group_that_waits_for_leases_holds_no_thread_and_takes_them_when_they_are_free() -> None:
    did, heard, hands, tries = list[str](), Heard(), OneByOne(), []

    def asks() -> None:
        tries.append(hands.time)
        if hands.time < 7:
            held()

    heard.driver = driver = LiveDriver(
        hands,
        heard,
        Pace(interval=1.0, upkeep=False, threads=1, patience=30.0, over=lambda group: group.ticks > 3),
    )
    driver.open("a", Fake("a", did, opens=asks).opening)
    driver.open("b", Fake("b", did).opening)
    assert driver.run()
    assert did.index("b closes") < did.index("a ticks")
    assert (tries[0], tries[-1]) == (0.0, 7.0)
    assert {later - earlier for earlier, later in pairwise(tries)} == {0.5}
    assert [told for _, told in heard.told if isinstance(told, int)] == [0, 0]


def test_a_group_waits_for_leases_only_so_long_and_ends_in_order_if_it_is_told_to_meanwhile() -> None:
    did, heard, hands = list[str](), Heard(), OneByOne()
    heard.left = {"a"}
    heard.driver = driver = LiveDriver(hands, heard, Pace(upkeep=False, patience=30.0))
    driver.open("a", Fake("a", did, opens=held).opening)
    assert driver.run()
    (failed,) = heard.of("a", events.WorkerFailed)
    assert (failed.code, failed.curable, hands.time) == ("TG508", True, 30.0)
    assert heard.told[-1] == ("a", 2)

    def told_to() -> None:
        if hands.time > 3:
            driver.stop("a")
        held()

    heard, hands = Heard(), OneByOne()
    heard.left = {"a"}
    heard.driver = driver = LiveDriver(hands, heard, Pace(upkeep=False, patience=30.0))
    driver.open("a", Fake("a", did, opens=told_to).opening)
    assert driver.run()
    assert heard.told[-1] == ("a", 0)
    assert not heard.of("a", events.WorkerFailed)
    assert hands.time < 5


@pytest.mark.parametrize("place", ["opens", "ticks", "closes"])
def test_a_driver_ends_wherever_a_group_is_when_spark_goes(place: str) -> None:
    """The supervisor starts another process once this one has ended; else each group would fail for ever."""
    did, heard, there = list[str](), Heard(), [True]

    def gone() -> None:
        there.clear()
        raise OSError("the JVM is gone")

    driver = LiveDriver(
        OneByOne(), heard, Pace(upkeep=False, over=lambda group: group.ticks > 1), lambda: bool(there)
    )
    driver.open("a", Fake("a", did, **{place: gone}).opening)
    driver.open("b", Fake("b", did).opening)
    assert not driver.run()
    assert [one.message for one in heard.of("a", events.WorkerFailed)] == ["OSError: the JVM is gone"]
    assert ("a", 1) not in heard.told


def test_a_driver_ends_at_once_when_it_hears_that_spark_is_gone_whatever_its_groups_are_at() -> None:
    did, heard, released = list[str](), Heard(), threading.Event()
    driver = LiveDriver(Threads(time.monotonic), heard, Pace(interval=3600.0, upkeep=False))
    ticking = threading.Event()

    def hangs() -> bool:
        ticking.set()
        return released.wait(60)

    driver.open("a", Fake("a", did, ticks=hangs).opening)
    driver.open("b", Fake("b", did).opening)
    threading.Thread(target=lambda: (ticking.wait(30), driver.lost()), daemon=True).start()
    assert not driver.run()
    released.set()
    assert "b closes" not in did


def test_a_tick_that_hangs_holds_its_own_group_only() -> None:
    """With threads, as in a process: of three groups one hangs, and the two others tick on."""
    released, ticks = threading.Event(), {"a": 0, "b": 0, "c": 0}

    def ticking(name: str) -> bool:
        ticks[name] += 1
        if name == "a":
            released.wait(60)
        return False

    heard = Heard()
    heard.left = set(ticks)
    driver = LiveDriver(Threads(time.monotonic), heard, Pace(interval=0.01, upkeep=False, threads=2))
    for name in ticks:
        driver.open(name, Fake(name, [], ticks=partial(ticking, name)).opening)
    running = threading.Thread(target=driver.run)
    running.start()
    deadline = time.monotonic() + 30
    while min(ticks["b"], ticks["c"]) < 20:
        assert time.monotonic() < deadline, ticks
        time.sleep(0.01)
    assert ticks["a"] == 1
    driver.close()
    released.set()
    running.join(30)
    assert not running.is_alive()
    assert [told for _, told in heard.told if isinstance(told, int)] == [0, 0, 0]


@pytest.mark.parametrize("full", [False, True])
def test_where_the_cpu_is_full_a_group_with_a_lower_priority_ticks_less_often_though_a_thread_is_free(
    full: bool,
) -> None:
    hands, heard, counts = Later(), Heard(), {"a": 0, "b": 0}
    pace = Pace(interval=1.0, upkeep=False, threads=2, full=lambda: full)
    driver = LiveDriver(hands, heard, pace)

    def ticking(name: str) -> bool:
        counts[name] += 1
        hands.time += 4.0
        if sum(counts.values()) == 40:
            driver.close()
        return False

    for name, priority in (("a", 5), ("b", 1)):
        opening = Fake(name, [], ticks=partial(ticking, name)).opening
        driver.open(name, opening, priority=priority)
    assert driver.run()
    assert counts["b"] >= 5
    assert (counts["a"] > 3 * counts["b"]) == full
    assert full or abs(counts["a"] - counts["b"]) <= 1
