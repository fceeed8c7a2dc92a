"""A walk through all worlds that follow from one, each once; and how many histories lead through them."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import TypeVar

from tests.support.worlds import every_world

World = TypeVar("World")


class WrongError(AssertionError):
    """A promise that was broken in a small world."""


@dataclass
class Counted:
    """`cases`: histories to an end, which differ in an order, a cut, or where one fault met them; `worlds`: states that
    differ; `moves`: what was played from them, each with a look at all that readers see."""

    cases: int = 0
    worlds: int = 0
    moves: int = 0
    seconds: float = 0.0

    def add(self, other: Counted) -> None:
        """Those of another walk, too."""
        self.cases += other.cases
        self.worlds += other.worlds
        self.moves += other.moves
        self.seconds = round(self.seconds + other.seconds, 1)


#: A world that follows, and whether by a fault.
Move = tuple[World, bool]
#: For each world those that follow from it.
Edges = dict[int, list[tuple[int, bool]]]


def walked(
    first: World,
    moves: Callable[[World], Iterable[Move[World]]],
    key: Callable[[World], Hashable],
    is_end: Callable[[World], bool],
) -> Counted:
    """Go through all of them, however many faults there are. A history that comes back to a world that it has been
    in is not counted again."""
    started = time.process_time()
    numbers: dict[Hashable, int] = {}
    edges: Edges = {}
    ends: set[int] = set()
    found = Counted()
    faulty: list[bool] = []

    def following(world: World) -> list[World]:
        made = list(moves(world))
        faulty[:] = [fault for _, fault in made]
        return [one for one, _ in made]

    for world, after in every_world(first, following, key):
        number = numbers.setdefault(key(world), len(numbers))
        if is_end(world):
            ends.add(number)
        known = [numbers.setdefault(key(one), len(numbers)) for one in after]
        edges[number] = [(one, fault) for one, fault in zip(known, faulty, strict=True) if one != number]
        found.moves += len(after)
    found.worlds, found.cases = len(edges), _paths(edges, numbers[key(first)], ends)
    found.seconds = round(time.process_time() - started, 1)
    return found


def _paths(edges: Edges, first: int, ends: set[int]) -> int:
    """How many ways there are from the first world to an end, with one fault at most."""
    waiting: dict[int, int] = dict.fromkeys(edges, 0)
    for following in edges.values():
        for one, _ in following:
            waiting[one] += 1
    ways = {number: [0, 0] for number in edges}
    ways[first][0] = 1
    ready = [one for one, before in waiting.items() if not before]
    done, total = 0, 0
    while ready:
        one = ready.pop()
        done += 1
        total += sum(ways[one]) if one in ends else 0
        for other, fault in edges[one]:
            if fault:
                ways[other][1] += ways[one][0]
            else:
                ways[other][0] += ways[one][0]
                ways[other][1] += ways[one][1]
            waiting[other] -= 1
            if not waiting[other]:
                ready.append(other)
    assert done == len(edges), "a world that follows from itself by way of others"
    return total
