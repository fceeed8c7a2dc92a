"""R2: leases that are taken together (`runtime/claim.py`), by two processes in every order, each of which may end at
any point."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import pytest

from tests.support.worlds import every_world
from tidegate.runtime.claim import (
    Action,
    Claim,
    Event,
    GiveBack,
    Granted,
    Hold,
    Refused,
    Take,
    Wait,
    WantLeases,
    claimed,
    step,
)

TAKEN = ValueError("another process has it")


@dataclass(frozen=True)
class Process:
    """`action`: what it does next; None: it is gone. `held`: the locks that the operating system has given it."""

    claim: Claim
    action: Action | None
    held: frozenset[str] = frozenset()


@dataclass(frozen=True)
class World:
    processes: tuple[Process, ...]
    now: int = 0

    def having(self, number: int, process: Process) -> World:
        processes = list(self.processes)
        processes[number] = process
        return replace(self, processes=tuple(processes))


def begun(names: str, until: float) -> Process:
    claim, action = step(Claim(tuple(names), until), WantLeases())
    return Process(claim, action)


def told(process: Process, event: Event, held: frozenset[str]) -> Process:
    claim, action = step(process.claim, event)
    if isinstance(action, Wait | GiveBack):
        held = frozenset()
    return Process(claim, action, held)


def moves(world: World) -> Iterator[World]:
    for number, process in enumerate(world.processes):
        action = process.action
        if action is None:
            continue
        # It is killed, or its work is done: the operating system takes its locks back.
        yield world.having(number, Process(process.claim, None))
        others = [p for n, p in enumerate(world.processes) if n != number]
        if isinstance(action, Take):
            if any(action.name in other.held for other in others):
                refused = Refused(world.now, False, TAKEN)
                yield world.having(number, told(process, refused, process.held))
            else:
                yield world.having(number, told(process, Granted(), process.held | {action.name}))
        elif isinstance(action, Wait):
            later = replace(world, now=world.now + 1)
            yield later.having(number, told(process, WantLeases(), frozenset()))


@pytest.mark.parametrize(("first", "second"), [("a", "a"), ("ab", "ba"), ("abc", "cab"), ("ab", "bc")])
def test_R2_in_every_order_a_lease_has_one_holder_and_nobody_waits_for_ever(first: str, second: str) -> None:
    start = World((begun(first, 3), begun(second, 3)))
    ends = set()
    for world, following in every_world(start, moves):
        held = [name for process in world.processes for name in process.held]
        assert len(held) == len(set(held))
        for process in world.processes:
            if isinstance(process.action, Hold):
                assert process.held == set(process.claim.names)
            elif isinstance(process.action, Wait | GiveBack):
                assert not process.held
            else:
                assert process.action is None or process.held == set(
                    process.claim.names[: process.claim.taken]
                )
        ends.add(tuple(type(process.action) for process in world.processes))
        running = [p for p in world.processes if isinstance(p.action, Take | Wait)]
        assert not running or len(set(following)) > len(running), "who runs can do something"
    # One holds, the other is told who; one takes over from one that is gone; never both.
    assert (Hold, GiveBack) in ends
    assert (type(None), Hold) in ends
    assert ((Hold, Hold) in ends) == set(first).isdisjoint(second)


def test_whoever_is_to_end_or_has_waited_enough_gives_up_with_the_name_of_the_holder() -> None:
    claim = Claim(("a", "b"), until=10.0, taken=1)
    for at, stopping, action in (
        (9.9, False, Wait(0.5)),
        (10.0, False, GiveBack(TAKEN)),
        (0.0, True, GiveBack(TAKEN)),
    ):
        assert step(claim, Refused(at, stopping, TAKEN)) == (replace(claim, taken=0), action)


def test_nothing_is_held_without_a_name_to_hold() -> None:
    assert step(Claim((), 0.0), WantLeases())[1] == Hold()
    with claimed(Claim((), 0.0), lambda name: pytest.fail(name), lambda: False, lambda: 0.0, pytest.fail):
        pass
