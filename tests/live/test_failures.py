"""What live mode tells other processes of what fails."""

from __future__ import annotations

import io
from typing import Any

from tidegate.live.failures import Failures, Overdue
from tidegate.live.groups import Group
from tidegate.live.logs import JsonLog
from tidegate.plan.events import (
    DefinitionsLoaded,
    MemberFailed,
    MemberRecovered,
    TickFinished,
    WorkerFailed,
    WorkerStarted,
)
from tidegate.store.writers import FailingMember, OverdueGroup

TICK = TickFinished("g", 1, 0, False, 0.1, 0.0)


def test_what_fails_is_told_until_it_has_recovered_or_its_group_begins_again() -> None:
    told: list[tuple[FailingMember, ...]] = []
    hear = Failures(told.append, lambda: 5.0)
    view = FailingMember("g", "v", "view", "TG507", "refused", 1, 5.0)
    hear("g", TICK)
    assert told == []
    hear("g", MemberFailed("g", "v", "view", "TG507", "refused", 1, 1.0))
    hear("g", TICK)
    assert told == [(view,)]
    hear("h", WorkerFailed("h", None, "lost", None, True))
    hear("h", WorkerFailed("h", None, "lost", None, True))
    assert told[-1] == (view, FailingMember("h", "h", "group", None, "lost", 2, 5.0))
    hear("g", MemberRecovered("g", "v", "view", 1))
    assert [one.name for one in told[-1]] == ["h"]
    hear("h", WorkerStarted("h", ("x",), 1))
    assert told[-1] == ()
    hear("g", MemberFailed("g", "v", "view", "TG507", "refused", 1, 1.0))
    hear(None, DefinitionsLoaded((), ("g",), 1))
    assert told[-1] == ()


def test_a_group_that_hangs_is_told_once_with_the_time_of_its_last_tick_and_once_that_it_does_not() -> None:
    told: list[tuple[OverdueGroup, ...]] = []
    now, quiet = 1_000.0, {}
    overdue = Overdue(lambda: quiet, told.append, lambda: now)
    overdue.beat()
    assert told == []
    g, h = Group("g", ("g", "v")), Group("h", ("h",))
    quiet = {g: (310.0, True)}
    overdue.beat()
    now, quiet = 1_010.0, {g: (320.01, True)}
    overdue.beat()
    of_g = OverdueGroup("g", 690.0, members=("g", "v"))
    assert told == [(of_g,)]
    quiet |= {h: (305.0, False)}
    overdue.beat()
    assert told[1:] == [(of_g, OverdueGroup("h", 705.0, ticked=False, members=("h",)))]
    quiet = {}
    overdue.beat()
    assert told[2:] == [()]


def test_a_log_that_can_not_be_written_stops_nothing() -> None:
    class Gone(io.StringIO):
        def write(self, text: Any) -> int:
            raise BrokenPipeError

    log = JsonLog(Gone(), 0)
    log("g", TICK)
