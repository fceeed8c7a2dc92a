"""Priorities where the CPU is fully used, and no group waits for a thread (`session/rota.py`): rules one by one, all
orders of a small world, and a machine whose cores are shared by the ticks that are under way."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import pytest

from tests.support.worlds import every_world
from tidegate.session.rota import (
    LONG_TICK,
    LONGEST_HOLD,
    Called,
    Departed,
    Happened,
    Joined,
    Postponed,
    Rota,
    Ticked,
    Waited,
    step,
)

INTERVAL = 1.0


def two(high: int = 10, took: float = 5.0, backlog: bool = False, full: bool = True) -> Rota:
    """Two groups, with a thread for each and one to spare. The tick of the first one has ended late after so many
    seconds, and its next one is under way; that of the other has not ended yet."""
    rota = Rota(3)
    for name, priority in (("high", high), ("low", 1)):
        rota, begun = step(rota, Joined(name, INTERVAL, 0.0, priority))
        assert begun == (name,)
    rota, begun = step(rota, Ticked("high", backlog, took, full))
    assert begun == ("high",)
    return rota


def test_a_lower_priority_waits_until_that_counts_as_much_as_others_are_late() -> None:
    rota, begun = step(two(), Ticked("low", False, 6.0, full=True))
    # Half of the 4 seconds by which it was late: it was on time before.
    assert (begun, rota.due()) == ((), 6.0 + 2.0 * 10)
    still, begun = step(rota, Waited(25.9))
    assert (begun, still.due()) == ((), 26.0)
    after, begun = step(still, Waited(26.0))
    assert (begun, after.of("low").waited) == (("low",), 20.0)
    # It waits less as soon as the other one is less late.
    on_time, begun = step(rota, Ticked("high", False, 5.5, full=True))
    assert (begun, on_time.due()) == ((), 6.0)
    on_time, begun = step(on_time, Waited(6.0))
    assert (begun, on_time.due()) == (("high",), 6.0 + 1.0 * 10)
    # For as long as the other one is late, and by another priority.
    assert step(two(high=3), Ticked("low", False, 6.0, full=True))[0].due() == 6.0 + 2.0 * 3
    assert step(two(high=100), Ticked("low", False, 6.0, full=True))[0].due() == 6.0 + LONGEST_HOLD


@pytest.mark.parametrize(
    ("rota", "event"),
    [
        (two(high=1), Ticked("low", False, 6.0, full=True)),
        # What is slow has another reason: that of the one, or of the other.
        (two(full=False), Ticked("low", False, 6.0, full=True)),
        (two(), Ticked("low", False, 6.0, full=False)),
        # A group that works off a backlog does not delay one without a backlog.
        (two(backlog=True), Ticked("low", False, 6.0, full=True)),
        # One that hangs is not helped by others.
        (two(), Ticked("low", False, 5.0 + LONG_TICK, full=True)),
    ],
)
def test_who_is_not_held(rota: Rota, event: Ticked) -> None:
    assert step(rota, event)[1] == ("low",)


def test_a_backlog_is_held_by_one_of_a_higher_priority() -> None:
    rota, begun = step(two(backlog=True), Ticked("low", True, 6.0, full=True))
    assert (begun, rota.due()) == ((), 6.0 + 2.5 * 10)


def test_who_is_told_to_end_or_is_lent_to_a_run_is_not_held() -> None:
    rota, begun = step(two(), Called("low", 5.5))
    assert begun == ()
    assert step(rota, Ticked("low", False, 6.0, full=True))[1] == ("low",)
    rota, _ = step(two(), Ticked("low", False, 6.0, full=True))
    assert step(rota, Called("low", 7.0))[1] == ("low",)


def test_a_group_that_rests_for_long_holds_none() -> None:
    rota = Rota(2)
    rota, _ = step(rota, Joined("hourly", 3600.0, 0.0, 10))
    rota, _ = step(rota, Joined("low", INTERVAL, 0.0))
    rota, begun = step(rota, Ticked("hourly", False, 3700.0, full=True))
    assert begun == ("hourly",)
    rota, _ = step(rota, Ticked("hourly", False, 3800.0, full=True))
    assert rota.of("hourly").late == 25.0
    # It is due at 7300 again.
    rota, begun = step(rota, Ticked("low", False, 3801.0, full=True))
    assert begun == ("low",)
    rota, begun = step(rota, Ticked("low", False, 7241.0, full=True))
    assert (begun, rota.due()) == ((), 7300.0)
    rota, begun = step(rota, Waited(7300.0))
    assert (begun, rota.due()) == (("hourly",), 7241.0 + LONGEST_HOLD)


@dataclass(frozen=True)
class World:
    rota: Rota
    now: float = 0.0
    left: int = 4


def after(world: World, event: Happened) -> World:
    rota, _ = step(world.rota, event)
    busy = [one for one in rota.places if one.since is not None and event.at - one.since < LONG_TICK]
    for one in rota.places:
        if one.since is None and one.due <= event.at:
            held = rota.held(one, event.at)
            assert held <= LONGEST_HOLD
            assert len(busy) == rota.threads or event.at < one.due + held, (
                "a thread is free and a group waits"
            )
            assert not (one.called and len(busy) < rota.threads)
    best = max(one.priority for one in world.rota.places)
    assert not any(rota.held(one, event.at) for one in rota.places if one.priority == best)
    due = rota.due()
    assert due is None or due > event.at, "what is due begins, or has a time at which it is looked at"
    assert (
        due is None or len(busy) == rota.threads or due <= max(one.due + LONGEST_HOLD for one in rota.places)
    )
    return replace(world, rota=rota, now=event.at)


def moves(world: World) -> Iterator[World]:
    if not world.left:
        return
    fewer = replace(world, left=world.left - 1)
    for one in world.rota.places:
        if one.since is None:
            continue
        for seconds in (0.5, 20.0):
            for backlog in (True, False):
                yield after(fewer, Ticked(one.name, backlog, world.now + seconds, full=True))
        yield after(fewer, Ticked(one.name, False, world.now + 20.0))
        yield after(fewer, Postponed(one.name, world.now + 5.0, world.now))
        yield after(fewer, Called(one.name, world.now))
        yield after(fewer, Departed(one.name, world.now))
    if (due := world.rota.due()) is not None:
        yield after(fewer, Waited(max(due, world.now)))


def test_in_every_order_no_group_is_held_longer_than_a_minute_or_by_a_lower_priority() -> None:
    first = World(Rota(3))
    for name, priority in (("low", 1), ("mid", 2), ("high", 10)):
        rota, _ = step(first.rota, Joined(name, INTERVAL, 0.0, priority))
        first = replace(first, rota=rota)
    count = held = 0
    for world, _ in every_world(first, moves):
        count += 1
        held += any(world.rota.held(one, world.now) for one in world.rota.places)
    assert count > 1000
    assert held > 100


class Machine:
    """Cores that ticks share: one uses `most` of them at most. A group has an interval, CPU seconds of a tick, and a
    priority; those in `behind` always have a backlog."""

    def __init__(
        self, cores: float, groups: dict[str, tuple[float, float, int]], behind: tuple[str, ...] = ()
    ) -> None:
        self.cores, self.groups, self.behind = cores, groups, behind
        self.now = self.used = 0.0
        self.rota = Rota(int(cores) + 2)
        self.left: dict[str, float] = {}
        #: By group, of each tick: seconds from when it was due to its end.
        self.ends: dict[str, list[float]] = {name: [] for name in groups}
        self._seen = [(0.0, 0.0)]

    def run(self, seconds: float, most: float = 1.5) -> dict[str, float]:
        """By group: how many seconds after it was due a tick ended, in the mean."""
        for name, (interval, _, priority) in self.groups.items():
            self._happens(Joined(name, interval, 0.0, priority))
        while self.now < seconds:
            rate = min(most, self.cores / max(1, len(self.left)))
            ends = [left / rate for left in self.left.values()]
            due = self.rota.due()
            passed = min([1.0, *ends, *([] if due is None else [max(0.0, due - self.now)])])
            self.now += passed
            self.used += rate * passed * len(self.left)
            self.left = {name: left - rate * passed for name, left in self.left.items()}
            for name in [name for name, left in self.left.items() if left < 1e-9]:
                del self.left[name]
                place = self.rota.of(name)
                assert place.since is not None
                self.ends[name].append(self.now - place.since + place.waited)
                self._happens(Ticked(name, name in self.behind, self.now, self._is_full()))
            self._happens(Waited(self.now))
        return {name: sum(found) / len(found) for name, found in self.ends.items()}

    def _is_full(self) -> bool:
        self._seen.append((self.now, self.used))
        since, used = next(one for one in reversed(self._seen) if one[0] <= max(0.0, self.now - 10.0))
        return self.now >= 10.0 and self.used - used >= 0.9 * self.cores * (self.now - since)

    def _happens(self, event: Happened) -> None:
        self.rota, begun = step(self.rota, event)
        for name in begun:
            self.left[name] = self.groups[name][1]


def groups(high: int, seconds: float, others: float) -> dict[str, tuple[float, float, int]]:
    return {"high": (INTERVAL, seconds, high), **dict.fromkeys("abc", (INTERVAL, others, 1))}


def test_with_a_thread_for_each_group_a_higher_priority_is_less_late_on_a_full_machine() -> None:
    equal = Machine(2, groups(1, 1.6, 4.0)).run(600.0)
    assert all(seconds > 3 * INTERVAL for seconds in equal.values())
    machine = Machine(2, groups(10, 1.6, 4.0))
    found = machine.run(600.0)
    # (Alone, its tick would take 1.07 s.)
    assert found["high"] < 2.0 < equal["high"] - 1.0
    late = {name: seconds - INTERVAL for name, seconds in found.items()}
    assert all(5 * late["high"] < late[name] < 20 * late["high"] for name in "abc")
    # The others get what it leaves, and each of them the same.
    assert machine.used > 0.9 * 2 * 600
    counts = [len(machine.ends[name]) for name in "abc"]
    assert min(counts) > 40
    assert max(counts) - min(counts) <= 1


def test_a_machine_that_is_large_enough_holds_none() -> None:
    assert Machine(2, groups(10, 0.3, 0.4)).run(300.0) == Machine(2, groups(1, 0.3, 0.4)).run(300.0)


def test_a_backlog_of_a_higher_priority_delays_a_quiet_group_by_no_more_than_an_equal_one() -> None:
    quiet = groups(10, 4.0, 0.1)
    behind = Machine(1, quiet, behind=("high",)).run(300.0)
    equal = Machine(1, groups(1, 4.0, 0.1), behind=("high",)).run(300.0)
    assert behind == equal
    # Of two with a backlog that of a higher priority is worked off first.
    machine = Machine(2, groups(10, 4.0, 4.0), behind=("high", "a", "b", "c"))
    machine.run(600.0)
    assert len(machine.ends["high"]) > 3 * len(machine.ends["a"]) > 60
