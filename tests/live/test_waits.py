"""Groups that wait longer than their intervals (`live/waits.py`)."""

from __future__ import annotations

from tidegate.live.waits import Waits
from tidegate.plan.events import TickFinished
from tidegate.store.writers import LongWait


def test_the_mean_of_minutes_is_told_when_it_has_changed() -> None:
    now, told = [0.0], list[tuple[LongWait, ...]]()
    waits = Waits({"a": 2.0, "b": 10.0, "c": 2.0}.__getitem__, told.append, lambda: now[0])

    def minute(**waited: float) -> None:
        for _ in range(6):
            now[0] += 10
            for group, seconds in waited.items():
                waits(group, TickFinished(group, 1, 0, False, 0.1, 0.0, (), seconds))
        waits(None, "words")

    minute(a=3.0, b=9.0)
    minute(a=3.0, b=9.0)
    assert told == [(LongWait("a", 3.0, 2.0),)]
    minute(a=3.0, b=60.0, c=1.0)
    assert told[-1] == (LongWait("b", 24.0, 10.0), LongWait("a", 3.0, 2.0))
    for _ in range(6):
        minute(a=0.0, b=0.0)
    assert told[-1] == ()


def test_one_long_wait_is_no_mean() -> None:
    now, told = [0.0], list[tuple[LongWait, ...]]()
    waits = Waits(lambda group: 2.0, told.append, lambda: now[0])
    waits("a", TickFinished("a", 1, 0, False, 0.1, 0.0, (), 99.0))
    now[0] = 61.0
    waits(None, "words")
    assert told == []
