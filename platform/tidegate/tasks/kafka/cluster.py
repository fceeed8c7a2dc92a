"""The brokers of a cluster as the reader of one topic knows them: who leads a partition, and what it has.

Executor side.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tidegate.tasks.kafka.connection import FETCH, METADATA, Connection, text
from tidegate.tasks.kafka.records import Aborted, Bytes
from tidegate.tasks.reading import NeedsJava

#: Which the broker waits for what is not there; all that is read was there when it was planned.
_WAIT_MS = 10

#: Of a topic or a partition: what another look at the cluster may answer. (Unknown, no leader, another leader, a
#: replica that is not there, offline, an epoch that is not the leader's.)
PASSING = frozenset((3, 5, 6, 9, 13, 56, 74, 75))


@dataclass(frozen=True)
class TopicAccess:
    """What tasks need to read a topic: its name, the brokers to begin with, whether only committed messages count, and
    Java's properties of access, expanded: maybe secrets, which show nowhere."""

    topic: str
    servers: tuple[str, ...] = field(repr=False)
    committed: bool
    properties: tuple[tuple[str, str], ...] = field(repr=False)


@dataclass(frozen=True)
class Fetch:
    """A question to a leader: `size`, about how many bytes are wanted."""

    partition: int
    offset: int
    size: int


@dataclass(frozen=True)
class Fetched:
    """What a leader has of a partition from an offset on. `code`: of the error, 0 is none."""

    partition: int
    code: int
    aborted: tuple[Aborted, ...]
    records: Bytes


class Cluster:
    """Connections to those brokers of a cluster that were asked, kept from question to question. Close it.

    Questions raise OSError if a broker does not answer, NeedsJava for what cannot be known here."""

    def __init__(self, access: TopicAccess) -> None:
        self._access = access
        self._settings: dict[str, Any] = {}
        if access.properties:
            from tidegate.store.brokers.broker_access import client_settings

            self._settings = client_settings(dict(access.properties))
        self._open: dict[tuple[str, int], Connection] = {}
        self._leaders: dict[int, tuple[str, int]] = {}

    def close(self) -> None:
        """Let go of all brokers, and forget who leads."""
        for connection in self._open.values():
            connection.close()
        self._open, self._leaders = {}, {}

    def look_again(self) -> None:
        """Whoever leads now is asked for before the next question."""
        self._leaders = {}

    def leader(self, partition: int) -> tuple[str, int] | None:
        """Who leads a partition; None if nobody does."""
        if partition not in self._leaders:
            self._look()
        return self._leaders.get(partition)

    def leads(self, leader: tuple[str, int], partition: int) -> bool:
        """Whether this broker leads a partition, as of the last look."""
        return self._leaders.get(partition) == leader

    def fetch(self, leader: tuple[str, int], wanted: Sequence[Fetch], most: int) -> list[Fetched]:
        """What a leader has, of some partitions or of all, and of at least one of them something if there is anything;
        about `most` bytes at most."""
        topic = text(self._access.topic)
        isolation = 1 if self._access.committed else 0
        # No replica, no session, and no partition of a former question.
        body = struct.pack(">iiiibii", -1, _WAIT_MS, 1, most, isolation, 0, -1)
        body += struct.pack(">i", 1) + topic + struct.pack(">i", len(wanted))
        for one in wanted:
            body += struct.pack(">iiqqi", one.partition, -1, one.offset, -1, one.size)
        body += struct.pack(">i", 0) + text("")
        answer = self._connected(leader).ask(FETCH, body)
        _, code, _ = answer.numbers("ihi")
        if code:
            raise NeedsJava(f"a broker that answers with error {code}")

        def transaction() -> Aborted:
            return Aborted(*answer.numbers("qq"))

        def partition() -> Fetched:
            number, code, *_ = answer.numbers("ihqqq")
            aborted = tuple(answer.list_(transaction))
            answer.numbers("i")
            return Fetched(number, code, aborted, answer.bytes_())

        def of_topic() -> list[Fetched]:
            answer.text()
            return answer.list_(partition)

        return [found for topic_ in answer.list_(of_topic) for found in topic_]

    def _look(self) -> None:
        """Ask who leads the partitions: a broker that is connected, or one of those to begin with."""
        body = struct.pack(">i", 1) + text(self._access.topic) + b"\0"
        answer = self._any().ask(METADATA, body)
        answer.numbers("i")

        def broker() -> tuple[int, tuple[str, int]]:
            number, host, port = answer.number("i"), answer.text(), answer.number("i")
            answer.text()
            return number, (host, port)

        def partition() -> tuple[int, int]:
            code, number, leader = answer.numbers("hii")
            for _ in range(2):
                answer.list_(lambda: answer.number("i"))
            return number, -1 if code in PASSING else leader

        def topic() -> list[tuple[int, int]]:
            code = answer.number("h")
            if code and code not in PASSING:
                raise NeedsJava(f"a broker that answers with error {code}")
            answer.text()
            answer.numbers("b")
            return answer.list_(partition)

        brokers = dict(answer.list_(broker))
        answer.text()
        answer.numbers("i")
        led = [one for topic_ in answer.list_(topic) for one in topic_]
        self._leaders = {number: brokers[node] for number, node in led if node in brokers}

    def _any(self) -> Connection:
        if self._open:
            return next(iter(self._open.values()))
        failed: OSError | None = None
        for server in self._access.servers:
            host, _, port = server.rpartition(":")
            if not host or not port.isdecimal():
                raise NeedsJava("an address of a broker that is not host:port")
            try:
                return self._connected((host.strip("[]"), int(port)))
            except OSError as error:
                failed = error
        raise failed or NeedsJava("no address of a broker")

    def _connected(self, place: tuple[str, int]) -> Connection:
        if place not in self._open:
            self._open[place] = Connection(*place, self._settings)
        return self._open[place]
