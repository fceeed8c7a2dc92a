"""What happens to a topic between runs, as plain values, and how a seed makes it up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random

#: Messages that are no rows.
GARBAGE, NOTHING, HOSTILE = "garbage", "nothing", "hostile"
#: How transactions end; an open one is settled later, or never.
COMMITTED, ABORTED, OPEN = "committed", "aborted", "open"
#: Further ahead of any clock than `max_future_skew`.
_FAR = 300_000

#: Seconds between rows; and where windows should close soon.
STEPS_OF_TIME, FAR_STEPS = (0, 1, 5, 10, 20, 40), (5, 10, 20, 40, 60)

#: id, partition, key, value, time, and what else it is.
Sent = tuple[int, int, str, int | None, int | None, str]


@dataclass(frozen=True)
class Topic:
    """A source's. `partitions`: with which it begins; `committed`: whether only what is committed is read; `record`:
    whether what retention removes is recorded, and no error; `advance`: `idle_advance`; `rows`: of a batch."""

    partitions: int = 2
    committed: bool = False
    record: bool = False
    advance: bool = False
    rows: int = 1000


@dataclass(frozen=True)
class Produce:
    """Messages arrive. `within`: a transaction, and how it ends; a producer without any: ''."""

    rows: tuple[Sent, ...]
    within: str = ""


@dataclass(frozen=True)
class Settle:
    """The transactions that are open end."""

    commit: bool


@dataclass(frozen=True)
class Grow:
    """The topic has one more partition."""


@dataclass(frozen=True)
class Expire:
    """Retention removes what is older than the last `keep` offsets of a partition."""

    partition: int
    keep: int


TopicAct = Produce | Settle | Grow | Expire
TOPIC_ACTS: tuple[type[TopicAct], ...] = (Produce, Settle, Grow, Expire)


def topic_of(rng: Random) -> Topic:
    """How a topic is read."""
    return Topic(
        rng.choice([1, 2, 2, 3]),
        rng.random() < 0.5,
        rng.random() < 0.5,
        rng.random() < 0.15,
        rng.choice([3, 5, 1000, 1000]),
    )


class Messages:
    """Rows near to each other in time, and what happens to the topic between them. `delivered`: in half of the
    histories less near, so that windows close."""

    def __init__(self, rng: Random, topic: Topic, delivered: bool = False) -> None:
        self._rng, self.partitions = rng, topic.partitions
        self._steps = rng.choice([STEPS_OF_TIME, FAR_STEPS if delivered else STEPS_OF_TIME])
        self.now = self._id = 0
        self._open = False

    def acts(self) -> list[TopicAct]:
        """Before a run."""
        rng, found = self._rng, list[TopicAct]()
        if self._open and rng.random() < 0.8:
            found.append(Settle(rng.random() < 0.6))
            self._open = False
        for _ in range(rng.choice([1, 1, 2])):
            found.append(self.produce())
            if rng.random() < 0.12:
                found.append(Grow())
                self.partitions += 1
            if rng.random() < 0.12:
                found.append(Expire(rng.randrange(self.partitions), rng.choice([0, 0, 1, 2])))
        return found

    def produce(self, among: Sequence[int] = ()) -> Produce:
        """Messages in these partitions; in some, if none are given."""
        rng, rows = self._rng, list[Sent]()
        busy = among or rng.sample(range(self.partitions), rng.randint(1, self.partitions))
        for _ in range(rng.randint(1, 5)):
            self.now += rng.choice(self._steps)
            at: int | None = max(self.now - rng.choice([0, 0, 0, 5, 20, 21, 60]), 0)
            chance = rng.random()
            if chance < 0.05:
                at = None
            elif chance < 0.09:
                at = self.now + _FAR
            self._id += 1
            what = (
                GARBAGE if chance > 0.97 else NOTHING if chance > 0.95 else HOSTILE if chance > 0.94 else ""
            )
            value = None if rng.random() < 0.1 else rng.randint(-3, 9)
            rows.append((self._id, rng.choice(busy), rng.choice("xy"), value, at, what))
            if rng.random() < 0.05:
                # A producer without idempotence has sent it again.
                rows.append(rows[-1])
        within = rng.choice([COMMITTED, COMMITTED, ABORTED, OPEN]) if rng.random() < 0.25 else ""
        self._open |= within == OPEN
        return Produce(tuple(rows), within)


def fewer(act: TopicAct) -> Sequence[TopicAct]:
    """The same with something less."""
    if not isinstance(act, Produce):
        return []
    found: list[TopicAct] = []
    if len(act.rows) > 1:
        found += [replace(act, rows=act.rows[:n] + act.rows[n + 1 :]) for n in range(len(act.rows))]
    if act.within:
        found.append(replace(act, within=""))
    return found


def simpler(topic: Topic) -> Sequence[Topic]:
    """How a topic may be read more plainly."""
    plain = Topic(topic.partitions)
    found = [replace(topic, **{name: value}) for name, value in vars(plain).items()]
    return [one for one in found if one != topic]
