"""A broker of Kafka's in memory. It does what a real one does to those who read and send; `test_topic_conformance.py`
holds both to the same answers. Clock, ids and faults are what its owner makes them: nothing here is by chance.

Whatever a client asks of it passes `act`, which calls `reach` before and after. Who raises there makes the request fail
before it has done anything, or after that, when only its answer is lost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import Any, TypeVar

Answer = TypeVar("Answer")

#: The type of a message's timestamp, as Kafka numbers them.
NO_TIME, CREATED, APPENDED = -1, 0, 1

#: No real broker has such a port: nobody is asked by mistake.
_ports = count(70_001)


class UnreachableError(Exception):
    """Nobody answers."""


class UnknownTopicError(Exception):
    """There is no such topic."""


class LostError(Exception):
    """Part of what was asked for is not kept any more."""


@dataclass(frozen=True)
class Message:
    """What is stored at an offset."""

    offset: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    millis: int
    time_type: int = CREATED


@dataclass
class Transaction:
    """Of one producer, over any partitions. `committed`: None while it is open."""

    committed: bool | None = None
    begun: dict[tuple[str, int], int] = field(default_factory=dict)


@dataclass
class Partition:
    """The messages of a partition, by offset; gaps between them are markers. `transactions`: of those offsets that are
    of one."""

    messages: dict[int, Message] = field(default_factory=dict)
    transactions: dict[int, Transaction] = field(default_factory=dict)
    first: int = 0
    end: int = 0

    def stable(self) -> int:
        """Up to where nothing is undecided: the oldest open transaction begins there, or the partition ends."""
        return min((at for at, one in self.transactions.items() if one.committed is None), default=self.end)

    def visible(self, since: int, until: int, committed: bool) -> Iterator[Message]:
        """`committed`: only what is committed."""
        for offset in range(max(since, self.first), min(until, self.stable() if committed else self.end)):
            message, of = self.messages.get(offset), self.transactions.get(offset)
            if message is not None and (not committed or of is None or of.committed):
                yield message


@dataclass
class StoredTopic:
    """A topic. Another one of the same name has another id. `time_type`: what the timestamp of its messages is;
    `cleanup`: what becomes of its old messages."""

    id: str
    partitions: list[Partition]
    time_type: int = CREATED
    cleanup: str = "delete"


@dataclass
class Faults:
    """What the next requests meet; each is used up by the request that meets it."""

    #: So many questions for offsets, ids or messages are not answered: a new leader is being elected.
    refused: int = 0
    #: Questions for the ends of partitions are answered as of so many offsets before, by a leader that is behind.
    behind: list[int] = field(default_factory=list)
    #: Fetches break off.
    broken_fetches: int = 0
    #: Fetches that give the first message of each partition twice.
    doubled_fetches: int = 0
    #: Deliveries that break off after so many messages (None: after all of them), and with what words.
    broken_sends: list[tuple[int | None, str]] = field(default_factory=list)


class Broker:
    """Topics, and who may reach them. What tests do to it has the names of `tests.support.kafka.Broker`, and is no
    request."""

    def __init__(self, reach: Callable[[str], object] = lambda name: None) -> None:
        self._reach = reach
        self.bootstrap = f"127.0.0.1:{next(_ports)}"
        self.topics: dict[str, StoredTopic] = {}
        self.faults = Faults()
        #: Its clock, in ms since 1970.
        self.millis = 1_767_225_600_000
        self._up = True
        self._ids, self._names, self._turn = count(1), count(1), count()

    # -- what its owner does -----------------------------------------------------------------------------------

    def topic(self, name: str | None = None, partitions: int = 3, **config: str) -> str:
        """Create a topic whose name no other one has, beginning with `name`."""
        unique = f"{name or 'topic'}-{next(self._names)}"
        kind = APPENDED if config.pop("message_timestamp_type", None) == "LogAppendTime" else CREATED
        cleanup = config.pop("cleanup_policy", "delete")
        assert not config, f"the model knows nothing of {sorted(config)}"
        self.create(unique, partitions, kind)
        self.topics[unique].cleanup = cleanup
        return unique

    def create(self, name: str, partitions: int, time_type: int = CREATED) -> None:
        """A topic of exactly this name."""
        assert name not in self.topics, f"{name} is there already"
        found = [Partition() for _ in range(partitions)]
        self.topics[name] = StoredTopic(f"{next(self._ids):022}", found, time_type)

    def send(self, topic: str, rows: Iterable[tuple[Any, ...]], within: Transaction | None = None) -> int:
        """Append (partition, key, value, timestamp_ms[, headers]) in this order. A row that is there twice is stored
        twice, as a producer without idempotence stores what it sends again."""
        sent = 0
        for partition, key, value, millis, *rest in rows:
            headers = tuple((name, _bytes(text)) for name, text in (rest[0] or [])) if rest else ()
            self._append(topic, partition, _bytes(key), _bytes(value), headers, millis, within)
            sent += 1
        return sent

    @contextmanager
    def transaction(self, topic: str, rows: Iterable[tuple[Any, ...]], commit: bool) -> Iterator[None]:
        """While the block runs these rows are sent, and the transaction is open; then it ends so."""
        one = Transaction()
        self.send(topic, rows, one)
        try:
            yield
        finally:
            self.settle(one, commit)

    def settle(self, one: Transaction, commit: bool) -> None:
        """End a transaction."""
        one.committed = commit
        # The marker of its end is a message that nobody gets.
        for name, partition in one.begun:
            self.topics[name].partitions[partition].end += 1

    def add_partitions(self, topic: str, n: int) -> None:
        """Let the topic grow by `n` partitions."""
        self.topics[topic].partitions += [Partition() for _ in range(n)]

    def delete_before(self, topic: str, offsets: Mapping[int, int]) -> None:
        """What retention does: {partition: the first offset that stays}."""
        for number, offset in offsets.items():
            partition = self.topics[topic].partitions[number]
            partition.first = max(partition.first, min(offset, partition.end))
            for gone in [at for at in partition.messages if at < partition.first]:
                del partition.messages[gone]

    def compact(self, topic: str) -> None:
        """What the cleaner does in the end: of each key the last message stays, unless its value is null."""
        assert "compact" in self.topics[topic].cleanup
        for one in self.topics[topic].partitions:
            last = {message.key: message for message in one.messages.values()}
            kept = [m for m in last.values() if m.key is not None and m.value is not None]
            one.messages = {message.offset: message for message in sorted(kept, key=lambda m: m.offset)}

    def delete_topic(self, topic: str) -> None:
        """The topic and all its messages."""
        del self.topics[topic]

    def recreate(self, topic: str, partitions: int) -> None:
        """Delete the topic and make another one of its name."""
        kind = self.topics.pop(topic).time_type
        self.create(topic, partitions, kind)

    def ends(self, topic: str) -> dict[int, int]:
        """{partition: the offset that the next message gets}."""
        return {number: one.end for number, one in enumerate(self.topics[topic].partitions)}

    def starts(self, topic: str) -> dict[int, int]:
        """{partition: the first offset that is still there}."""
        return {number: one.first for number, one in enumerate(self.topics[topic].partitions)}

    def stored(self, topic: str) -> list[tuple[int, Message]]:
        """(partition, message): all that is there and committed, by partition and offset."""
        partitions = self.topics[topic].partitions
        return [(number, m) for number, one in enumerate(partitions) for m in one.visible(0, one.end, True)]

    def read(self, topic: str) -> dict[int, list[tuple[bytes | None, bytes | None]]]:
        """All that is there and committed: {partition: [(key, value)]} in the order of offsets."""
        found: dict[int, list[tuple[bytes | None, bytes | None]]] = {
            number: [] for number in self.ends(topic)
        }
        for number, message in self.stored(topic):
            found[number].append((message.key, message.value))
        return found

    def stop(self) -> None:
        """From now on nobody is answered."""
        self._up = False

    kill = stop

    def start(self) -> None:
        """With what it held when it ended."""
        self._up = True

    # -- what clients ask --------------------------------------------------------------------------------------

    def act(self, name: str, effect: Callable[[], Answer]) -> Answer:
        """Do what a client asks for."""
        self._reach(f"before {name}")
        found = effect()
        self._reach(f"after {name}")
        return found

    def id_of(self, topic: str) -> str:
        return self.act("topic_id", lambda: self._found(topic).id)

    def setting(self, topic: str, name: str) -> str:
        """What a setting of the topic is."""
        assert name == "cleanup.policy"
        return self.act("setting", lambda: self._found(topic).cleanup)

    def latest(self, topic: str, committed: bool) -> dict[int, int]:
        """Of every partition the next free offset, or up to where it is decided what is `committed`."""

        def ask() -> dict[int, int]:
            partitions = self._found(topic).partitions
            behind = self.faults.behind.pop(0) if self.faults.behind else 0
            return {
                number: max(one.first, (one.stable() if committed else one.end) - behind)
                for number, one in enumerate(partitions)
            }

        return self.act("latest", ask)

    def earliest(self, topic: str) -> dict[int, int]:
        def ask() -> dict[int, int]:
            return {number: one.first for number, one in enumerate(self._found(topic).partitions)}

        return self.act("earliest", ask)

    def at(self, topic: str, millis: int, committed: bool) -> dict[int, int]:
        """Of every partition the first offset whose message is not older; where there is none, as `latest`."""

        def ask() -> dict[int, int]:
            found = {}
            for number, one in enumerate(self._found(topic).partitions):
                last = one.stable() if committed else one.end
                later = (m.offset for m in one.visible(0, last, False) if m.millis >= millis)
                found[number] = next(later, last)
            return found

        return self.act("at", ask)

    def fetch(
        self, topic: str, ranges: Mapping[int, tuple[int, int]], committed: bool, complete: bool
    ) -> list[tuple[int, Message]]:
        """(partition, message) of offsets [from, until). `complete`: raise LostError if some are not kept any more."""

        def ask() -> list[tuple[int, Message]]:
            stored, found = self._found(topic), []
            for number, (since, until) in ranges.items():
                if number >= len(stored.partitions):
                    raise LostError(f"{topic} has no partition {number}")
                one = stored.partitions[number]
                if complete and (since < one.first or until > one.end):
                    raise LostError(f"{topic}-{number}: {since} to {until} of {one.first} to {one.end}")
                found.append([(number, message) for message in one.visible(since, until, committed)])
            if self._used("broken_fetches"):
                raise UnreachableError("the connection was closed while messages were fetched")
            if self._used("doubled_fetches"):
                found = [[*messages[:1], *messages] for messages in found]
            return [message for messages in found for message in messages]

        return self.act("fetch", ask)

    def append(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        headers: tuple[tuple[str, bytes | None], ...],
        partition: int | None = None,
    ) -> None:
        """What an idempotent producer sends: to this partition, to that of its key, or to the next one in turn."""

        def send() -> None:
            partitions = len(self._found(topic).partitions)
            number = partition
            if number is None:
                number = next(self._turn) if key is None else _hash(key)
            self._append(topic, number % partitions, key, value, headers, None, None)

        self.act("append", send)

    # ----------------------------------------------------------------------------------------------------------

    def _found(self, topic: str) -> StoredTopic:
        if not self._up:
            raise UnreachableError("Connection refused")
        if self._used("refused"):
            raise UnreachableError("There is no leader for this topic-partition")
        if topic not in self.topics:
            raise UnknownTopicError(topic)
        return self.topics[topic]

    def _used(self, fault: str) -> bool:
        left: int = getattr(self.faults, fault)
        setattr(self.faults, fault, max(0, left - 1))
        return left > 0

    def _append(
        self,
        topic: str,
        number: int,
        key: bytes | None,
        value: bytes | None,
        headers: tuple[tuple[str, bytes | None], ...],
        millis: int | None,
        within: Transaction | None,
    ) -> None:
        stored = self.topics[topic]
        partition = stored.partitions[number]
        if stored.time_type == APPENDED or millis is None:
            millis = self.millis
        offset, partition.end = partition.end, partition.end + 1
        partition.messages[offset] = Message(offset, key, value, headers, millis, stored.time_type)
        if within is not None:
            partition.transactions[offset] = within
            within.begun.setdefault((topic, number), offset)


def _bytes(value: bytes | str | None) -> bytes | None:
    return value.encode() if isinstance(value, str) else value


def _hash(key: bytes) -> int:
    """As Java's producer hashes keys."""
    from kafka.partitioner.default import murmur2

    found: int = murmur2(key) & 0x7FFFFFFF
    return found
