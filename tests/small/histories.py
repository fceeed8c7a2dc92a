"""Every history of a small world: which rows two partitions hold, and how they are cut into batches.

Times are small integers, chosen so that each relation to a watermark, to the end of a window and to the end of a gap
occurs: below, equal, above. None is a row without an event time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from math import comb

PARTITIONS = ("0", "1")
TIMES = (0, 1, 2, 3, 5)
DELAY = 1

Time = int | None


@dataclass(frozen=True)
class History:
    """`batches`: of each what it reads of either partition. `backlog`: all rows were there before the first batch, so
    that both partitions are known to it (W6); else a partition is known from the batch that reads its first row (R3).
    """

    batches: tuple[tuple[tuple[Time, ...], tuple[Time, ...]], ...]
    backlog: bool = False

    def rows(self) -> Iterator[tuple[int, str, int, Time]]:
        """(batch, partition, offset, event time); batches count from 1."""
        read = dict.fromkeys(PARTITIONS, 0)
        for number, batch in enumerate(self.batches, 1):
            for partition, times in zip(PARTITIONS, batch, strict=True):
                for time in times:
                    yield number, partition, read[partition], time
                    read[partition] += 1

    def begins(self) -> dict[str, int]:
        """The batch before whose first row each partition is known; partitions without a row never are."""
        first: dict[str, int] = {}
        for batch, partition, _, _ in self.rows():
            first.setdefault(partition, 1 if self.backlog else batch)
        return first

    @property
    def arrivals(self) -> int:
        """In how many orders the rows of both partitions can have arrived, all of which give this history."""
        if self.backlog:
            one, other = (sum(len(batch[i]) for batch in self.batches) for i in (0, 1))
            return comb(one + other, one)
        found = 1
        for one, other in self.batches:
            found *= comb(len(one) + len(other), len(one))
        return found

    @property
    def mirrored(self) -> History:
        """The same with the names of the partitions exchanged."""
        return History(tuple((other, one) for one, other in self.batches), self.backlog)

    @property
    def stands_for(self) -> int:
        """Of how many histories that differ in the names of partitions it is the one to be played: of itself and its
        mirror, of itself alone, or of none."""
        mine, other = repr(self.batches), repr(self.mirrored.batches)
        return 1 if mine == other else 2 if mine < other else 0


def cuts(one: int, other: int) -> Iterator[tuple[tuple[int, int], ...]]:
    """Every way to read so many rows of either partition in batches of a row at least."""
    if not one and not other:
        yield ()
    for first in product(range(one + 1), range(other + 1)):
        if any(first):
            for rest in cuts(one - first[0], other - first[1]):
                yield (first, *rest)


def contents(
    sizes: Sequence[tuple[int, int]], times: Sequence[Time]
) -> tuple[tuple[tuple[Time, ...], ...], ...]:
    """Times, in the order of batches and partitions, as batches of these sizes."""
    waiting = iter(times)
    return tuple(tuple(tuple(next(waiting) for _ in range(n)) for n in size) for size in sizes)


def histories(times: Sequence[int] = TIMES, most: int = 4, least: int = 1) -> Iterator[History]:
    """Every history of `least` to `most` rows."""
    symbols: tuple[Time, ...] = (*times, None)
    for count, one in ((n, i) for n in range(least, most + 1) for i in range(n + 1)):
        for sizes in cuts(one, count - one):
            for found in product(symbols, repeat=count):
                batches = contents(sizes, found)
                yield History(batches)  # type: ignore[arg-type]
                if one and count > one and len(sizes) > 1:
                    # Of one partition, or of one batch, both ways are the same.
                    yield History(batches, backlog=True)  # type: ignore[arg-type]
