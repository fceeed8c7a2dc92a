"""A broker of Kafka's on the simulated outside: every request is a step, and may meet a fault."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import dataclass
from typing import Any

from tests.inprocess.broker import Broker, Message, Partition, UnreachableError
from tests.simulate.world.outside import (
    BROKEN_OFF,
    DOUBLED,
    EXPIRED,
    LATER,
    REPEATED_TASK,
    STALE,
    InjectedError,
    Outside,
)
from tidegate.tasks.first_attempt import REPEATED

#: Where it is found: the same in every history.
ADDRESS = "127.0.0.1:70001"
SOURCE_TOPIC, SINK_TOPIC = "events", "announced"
_ROLES = {SOURCE_TOPIC: "topic", SINK_TOPIC: "sink"}
_Headers = tuple[tuple[str, bytes | None], ...]


@dataclass(frozen=True)
class Look:
    """What a leader says of each partition: first offset, next free one, and up to where all is decided."""

    firsts: dict[int, int]
    ends: dict[int, int]
    stables: dict[int, int]


@dataclass(frozen=True)
class _Held:
    """A message that a process had handed to the network when it ended."""

    act: int
    topic: str
    key: bytes | None
    value: bytes | None
    headers: _Headers
    partition: int | None


class SimulatedBroker(Broker):
    """Asked by drivers, each request a step; what happens to topics between runs is none."""

    def __init__(self, outside: Outside) -> None:
        super().__init__()
        self.bootstrap, self.outside = ADDRESS, outside
        #: Of each topic how it stood, whenever that was another way: the newest last, with its time.
        self.looks: dict[str, list[tuple[Any, Look]]] = {}
        #: How often a message was given once more, by partition and offset.
        self.doubled: dict[tuple[str, int], int] = {}
        #: What retention has removed.
        self.removed: dict[tuple[str, int], dict[int, Message]] = {}
        #: Headers of messages that arrived when nobody expected them any more.
        self.late: list[_Headers] = []
        self._held: list[_Held] = []
        #: Told of every message that a driver has sent.
        self.watcher: Callable[[int, Message], None] = lambda number, message: None

    # -- what happens to it ------------------------------------------------------------------------------------

    def note(self) -> None:
        """Take down how every topic stands, and let time be what it is."""
        self.millis = int(self.outside.now.timestamp() * 1000)
        for name, stored in self.topics.items():
            parts = dict(enumerate(stored.partitions))
            look = Look(
                {number: one.first for number, one in parts.items()},
                {number: one.end for number, one in parts.items()},
                {number: one.stable() for number, one in parts.items()},
            )
            known = self.looks.setdefault(name, [])
            if not known or known[-1][1] != look:
                known.append((self.outside.now, look))

    def look_at(self, topic: str, when: Any) -> Look:
        """How a topic stood at that time."""
        return next(look for since, look in reversed(self.looks[topic]) if since <= when)

    def delete_before(self, topic: str, offsets: Mapping[int, int]) -> None:
        """Of what is decided."""
        for number, offset in offsets.items():
            one = self.topics[topic].partitions[number]
            before = copy(one.messages)
            super().delete_before(topic, {number: min(offset, one.stable())})
            gone = {at: message for at, message in before.items() if at not in one.messages}
            self.removed.setdefault((topic, number), {}).update(gone)
        self.note()

    def restore(self, topic: str) -> None:
        """Put back what retention has removed."""
        for number, one in enumerate(self.topics[topic].partitions):
            one.messages = dict(sorted((self.removed.pop((topic, number), {}) | one.messages).items()))
            one.first = 0
        self.note()

    def arrive(self) -> None:
        """Messages of processes that have ended arrive, when a whole act has passed."""
        due = [held for held in self._held if held.act + 1 < self.outside.act]
        self._held = [held for held in self._held if held not in due]
        for held in due:
            self.late.append(held.headers)
            self._store(held.topic, held.key, held.value, held.headers, held.partition)
        self.note()

    # -- what drivers ask --------------------------------------------------------------------------------------

    def id_of(self, topic: str) -> str:
        found: str = self._ask(topic, super().id_of)
        return found

    def latest(self, topic: str, committed: bool) -> dict[int, int]:
        def stale(look: Look) -> dict[int, int]:
            return look.stables if committed else look.ends

        found: dict[int, int] = self._ask(topic, lambda name: Broker.latest(self, name, committed), stale)
        return found

    def earliest(self, topic: str) -> dict[int, int]:
        found: dict[int, int] = self._ask(topic, super().earliest, lambda look: look.firsts)
        return found

    def fetch(
        self, topic: str, ranges: Mapping[int, tuple[int, int]], committed: bool, complete: bool
    ) -> list[tuple[int, Message]]:
        def effect(fault: str | None) -> list[tuple[int, Message]]:
            if fault == EXPIRED:
                self.outside.pass_time(1)
                self.delete_before(
                    topic, {p: (since + until + 1) // 2 for p, (since, until) in ranges.items()}
                )
            self.faults.broken_fetches = int(fault == BROKEN_OFF)
            self.faults.doubled_fetches = int(fault == DOUBLED)
            found = Broker.fetch(self, topic, ranges, committed, complete)
            if fault == DOUBLED:
                self._count_doubled(found)
            return found

        asked: list[tuple[int, Message]] = self._step("fetch", topic, effect)
        return asked

    def append(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        headers: _Headers,
        partition: int | None = None,
    ) -> None:
        message = (topic, key, value, headers, partition)

        def effect(fault: str | None) -> None:
            if fault == LATER:
                self._held.append(_Held(self.outside.act, *message))
            elif fault == REPEATED_TASK:
                raise UnreachableError(REPEATED)
            else:
                self._store(*message)

        self._step("send", topic, effect)

    def _store(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        headers: _Headers,
        partition: int | None,
    ) -> None:
        before = self.ends(topic)
        super().append(topic, key, value, headers, partition)
        number = next(number for number, end in self.ends(topic).items() if end != before[number])
        self.watcher(number, self.topics[topic].partitions[number].messages[before[number]])

    def _count_doubled(self, found: list[tuple[int, Message]]) -> None:
        seen = set()
        for number, message in found:
            place = (str(number), message.offset)
            if place in seen:
                self.doubled[place] = self.doubled.get(place, 0) + 1
            seen.add(place)

    def _ask(self, topic: str, ask: Callable[[str], Any], stale: Callable[[Look], Any] | None = None) -> Any:
        def effect(fault: str | None) -> Any:
            if fault == STALE and stale is not None:
                # A leader, or what a client knows of the partitions, that is behind.
                self.note()
                return stale(self.looks[topic][-2:][0][1])
            return ask(topic)

        return self._step("ask", topic, effect)

    def _step(self, operation: str, topic: str, effect: Callable[[str | None], Any]) -> Any:
        try:
            return self.outside.step(f"{operation} {_ROLES[topic]}", effect)
        except InjectedError as error:
            # The leader is another one now, or nobody answers.
            raise UnreachableError(str(error)) from error


def partition_of(broker: Broker, topic: str, number: int) -> Partition:
    """One partition, without a step."""
    return broker.topics[topic].partitions[number]
