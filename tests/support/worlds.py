"""All orders of events of a small world: whatever may happen next does, in every state that is reached, once."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import TypeVar

World = TypeVar("World")


def itself(world: World) -> Hashable:
    """The key of worlds that can be compared."""
    assert isinstance(world, Hashable)
    return world


def every_world(
    first: World, moves: Callable[[World], Iterable[World]], key: Callable[[World], Hashable] = itself
) -> Iterator[tuple[World, list[World]]]:
    """Each world that follows from the first one, itself included, with those that `moves` make of it. Worlds of the
    same `key` are one."""
    seen, waiting = {key(first)}, [first]
    while waiting:
        world = waiting.pop()
        following = list(moves(world))
        for one in following:
            if (known := key(one)) not in seen:
                seen.add(known)
                waiting.append(one)
        yield world, following
