"""Which groups of a live driver tick next (`session/rota.py`), in every order of events of a small world: three groups,
two threads, ticks that end early, late or never, with a backlog or without."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from tests.support.worlds import every_world
from tidegate.session.rota import (
    LONG_TICK,
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

THREADS, INTERVAL = 2, 5.0
ENDS = 30.0


@dataclass(frozen=True)
class World:
    """`waits`: since when each group that is due has waited; `seen`: how often others began meanwhile. `left`: how many
    ticks may still end. `stuck`: the groups whose ticks never end."""

    rota: Rota
    now: float = 0.0
    waits: tuple[tuple[str, int], ...] = ()
    left: int = 5
    stuck: frozenset[str] = frozenset()


def busy(rota: Rota) -> list[str]:
    return [one.name for one in rota.places if one.since is not None]


def after(world: World, event: Happened) -> World:
    was = world.rota
    rota, begun = step(was, event)
    known = {one.name: one for one in rota.places}
    before = {one.name: one for one in was.places}
    for name in begun:
        assert name not in busy(was) or isinstance(event, Ticked | Postponed), (
            "a group has two ticks at a time"
        )
        assert known[name].since == event.at
        due = before[name].due if name in before else event.at
        assert due <= event.at or isinstance(event, Called | Ticked | Postponed)
    young = [n for n in busy(rota) if event.at - (known[n].since or 0.0) < LONG_TICK]
    assert len(young) <= THREADS
    due = [one.name for one in rota.places if one.since is None and one.due <= event.at]
    assert not due or len(young) == THREADS, "a thread is free and a group waits"
    counts = dict(world.waits)
    waits = {name: counts.get(name, 0) + len(begun) for name in due}
    # Whoever waits is passed by nobody twice: of the others each begins once at most before it.
    assert all(count <= len(rota.places) for count in waits.values())
    return replace(world, rota=rota, now=event.at, waits=tuple(sorted(waits.items())))


def moves(world: World) -> Iterator[World]:
    for name in busy(world.rota):
        if name in world.stuck:
            continue
        if world.left:
            fewer = replace(world, left=world.left - 1)
            for backlog in (True, False):
                yield after(fewer, Ticked(name, backlog, world.now))
                yield after(fewer, Ticked(name, backlog, world.now + ENDS))
            yield after(fewer, Postponed(name, world.now + ENDS / 2, world.now))
            yield after(fewer, Departed(name, world.now))
            yield after(fewer, Called(name, world.now))
            if len(world.stuck) < THREADS:
                yield replace(fewer, stuck=world.stuck | {name})
    if (due := world.rota.due()) is not None and world.left:
        later = max(due, world.now)
        passed = after(replace(world, left=world.left - 1), Waited(later))
        assert passed.rota.due() != due or passed.rota != world.rota, "what is due begins"
        yield passed


def test_in_every_order_the_longest_waiting_group_goes_first_and_no_hanging_tick_holds_the_others() -> None:
    first = World(Rota(THREADS))
    for name in "abc":
        first = after(first, Joined(name, INTERVAL, 0.0))
    assert busy(first.rota) == ["a", "b"]
    count = hanging = 0
    for world, _ in every_world(first, moves):
        count += 1
        others = [one.name for one in world.rota.places if one.name not in world.stuck]
        if len(world.stuck) == THREADS and others and world.now >= LONG_TICK:
            hanging += any(name in busy(world.rota) for name in others)
    assert count > 1000
    assert hanging > 10


def test_a_group_with_a_backlog_delays_a_quiet_one_by_one_tick_at_most() -> None:
    rota, now = Rota(1), 0.0
    delays: dict[str, list[float]] = {"busy": [], "quiet": []}
    for name in delays:
        rota, _ = step(rota, Joined(name, INTERVAL, now))
    for _ in range(40):
        now += 2.0
        (ticking,) = busy(rota)
        rota, (begun,) = step(rota, Ticked(ticking, ticking == "busy", now))
        delays[begun].append(now - next(one.due for one in rota.places if one.name == begun))
    assert max(delays["quiet"]) <= 2.0
    # What the quiet one leaves is for the other.
    assert len(delays["busy"]) > len(delays["quiet"]) > 10


def test_where_there_are_too_few_threads_a_lower_priority_waits_longer_and_nobody_for_ever() -> None:
    rota, now, waited = Rota(1), 0.0, dict[str, list[float]]()
    for name, priority in (("low", 1), ("other", 1), ("high", 10)):
        waited[name] = []
        rota, _ = step(rota, Joined(name, INTERVAL, now, priority))
    for _ in range(200):
        # Each tick takes longer than an interval: somebody always waits.
        now += 1.5 * INTERVAL
        (ticking,) = busy(rota)
        rota, (begun,) = step(rota, Ticked(ticking, False, now))
        waited[begun].append(rota.of(begun).waited)
    means = {name: sum(found) / len(found) for name, found in waited.items()}
    assert means["high"] < means["low"] / 2
    assert min(len(found) for found in waited.values()) > 20
    # Between equals nothing is different.
    assert abs(len(waited["low"]) - len(waited["other"])) <= 1


def test_ticks_begin_at_their_interval_and_late_ones_at_once() -> None:
    rota, _ = step(Rota(1), Joined("a", INTERVAL, 100.0))
    rota, begun = step(rota, Ticked("a", False, 101.0))
    assert (begun, rota.due()) == ((), 105.0)
    rota, begun = step(rota, Waited(105.0))
    assert (begun, rota.due()) == (("a",), None)
    rota, begun = step(rota, Ticked("a", False, 112.0))
    assert begun == ("a",)
    # One that is told to end while it ticks goes on at once, whatever its interval.
    rota, begun = step(rota, Called("a", 112.5))
    assert begun == ()
    rota, begun = step(rota, Ticked("a", False, 113.0))
    assert begun == ("a",)
    # One that could not begin looks again when it says, or when it is told to end.
    rota, begun = step(rota, Postponed("a", 113.5, 113.0))
    assert (begun, rota.due()) == ((), 113.5)
    rota, begun = step(rota, Waited(113.5))
    assert begun == ("a",)
    rota, begun = step(rota, Postponed("a", 114.0, 113.5))
    rota, begun = step(rota, Called("a", 113.6))
    assert begun == ("a",)
    rota, _ = step(rota, Departed("a", 113.7))
    assert rota == Rota(1)
