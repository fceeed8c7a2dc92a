"""What `make chaos` sends: deterministic from a seed, uneven, out of order, late, poisoned. Plain Python.

Event time advances by `STEP` with every row of the whole load, whatever partition it goes to. Partitions differ in
size; `SLEEPER` goes quiet and wakes with old rows (W7), `EMPTY` has no row for half of the load (W6), and a partition
that does not exist at first appears with old rows (R3).
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import accumulate, cycle

BEGIN = datetime(2020, 1, 1)
#: Event time between two rows of the load, and how far most rows are out of order: less than the strategy's delay.
STEP, JITTER_MS, DELAY_SECONDS = timedelta(milliseconds=10), 4_000, 5
LATE_MS = (6_000, 120_000)
LATE_SHARE, POISON_SHARE = 0.01, 0.002
SENSORS = 10

WEIGHTS = (40, 25, 15, 10, 7, 3)
SLEEPER, EMPTY, ADDED = 4, 5, len(WEIGHTS)
ADDED_WEIGHT = 8
#: When, as a share of the load: the sleeper's quiet time, the empty partition's first row, the new partition.
SLEEPS, WAKES, FILLS, APPEARS = 0.3, 0.6, 0.5, 0.4
#: Share of the load that comes with old event times where a partition wakes or appears.
OLD_SHARE = 0.001

POISON = (
    b'\xff\xfe{"id": 1, "ts": "2020-01-01 00:00:00"}',
    b'{"id": 1, "sensor": "s\xc3\x28", "amount": 1, "ts": "2020-01-01 00:00:00"}',
    b'{"id": 7, "sensor": "s1", "amount": 3, "ts": "2020-01-0',
    b'{"id": ',
    b"",
    b"not json at all",
    None,
    b"null",
    b"{}",
    b'{"id": 8, "sensor": "s1", "amount": 3, "ts": null}',
    b'{"id": 8, "sensor": "s1", "amount": 3}',
    b'{"id": 9, "sensor": "s1", "amount": "many", "ts": "2020-01-01 00:00:00"}',
    b'{"id": {"no": 1}, "sensor": "s1", "amount": 3, "ts": "2020-01-01 00:00:00"}',
    b'{"id": 9, "sensor": "s1", "amount": 3, "ts": "yesterday"}',
    b'{"id": 9, "sensor": "s1", "amount": 3, "ts": [1]}',
    b'{"id": 10, "sensor": "s1", "amount": 3, "ts": "0001-01-01 00:00:00"}',
    b'{"id": 11, "sensor": "s1", "amount": 3, "ts": "9999-12-31 23:59:59.999"}',
)
BIG = 10_000_000


@dataclass(frozen=True)
class Message:
    """One value for one partition; None is a null value."""

    partition: int
    value: bytes | None


@dataclass(frozen=True)
class Load:
    """`rows` messages of a seed."""

    rows: int
    seed: int = 1

    def messages(self) -> Iterator[Message]:
        """In the order in which they are sent. Those of partition `ADDED` come after `rows * APPEARS` others."""
        rng = random.Random(self.seed)
        old = max(1, int(self.rows * OLD_SHARE))
        woken = added = 0
        poison = cycle(POISON)
        weights: tuple[int, ...] = ()
        for i in range(self.rows):
            part = i / self.rows
            now = self._weights(part)
            if now != weights:
                weights, totals = now, list(accumulate(now))
            partition = rng.choices(range(len(weights)), cum_weights=totals)[0]
            if i == self.rows // 2:
                yield Message(0, self._row(i, BEGIN + i * STEP, rng, b"x" * BIG))
                continue
            if rng.random() < POISON_SHARE:
                yield Message(partition, next(poison))
                continue
            place = i
            if partition == SLEEPER and part >= WAKES and woken < old:
                woken, place = woken + 1, int(self.rows * SLEEPS)
            elif partition == ADDED and added < old:
                added, place = added + 1, int(self.rows * APPEARS / 2)
            behind = rng.randint(*LATE_MS) if rng.random() < LATE_SHARE else rng.randint(0, JITTER_MS)
            time = BEGIN + place * STEP - timedelta(milliseconds=behind)
            yield Message(partition, self._row(i, time, rng))

    def _weights(self, part: float) -> tuple[int, ...]:
        weights = list(WEIGHTS)
        if SLEEPS <= part < WAKES:
            weights[SLEEPER] = 0
        if part < FILLS:
            weights[EMPTY] = 0
        if part >= APPEARS:
            weights.append(ADDED_WEIGHT)
        return tuple(weights)

    @staticmethod
    def _row(i: int, time: datetime, rng: random.Random, pad: bytes = b"") -> bytes:
        stamp = time.isoformat(sep=" ", timespec="milliseconds")
        amount = "null" if rng.random() < 0.01 else rng.randint(-500, 500)
        row = f'{{"id":{i},"sensor":"s{rng.randrange(SENSORS)}","amount":{amount},"ts":"{stamp}"'
        return row.encode() + (b',"pad":"' + pad + b'"}' if pad else b"}")
