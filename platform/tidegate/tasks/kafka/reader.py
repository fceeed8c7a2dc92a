"""Messages read inside the gate's tasks by Kafka's own protocol, for the decoder behind them. Executor side.

A task reads whole partitions, each in its order. It gives the rows that Spark's connector gives
(`SourceTopic.messages`), or none: whatever is in the way, Java's client reads the batch, and if it can't, says why, as
ever (`NeedsJava`).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from tidegate.errors import TidegateError
from tidegate.tasks.kafka.cluster import PASSING, Cluster, Fetch, Fetched, TopicAccess
from tidegate.tasks.kafka.records import decoded
from tidegate.tasks.reading import NeedsJava, Reader

#: Messages of a partition, from an offset until another one.
OffsetRange = tuple[int, int, int]

#: About so many bytes are asked for at once: more is not faster, and takes memory.
_MOST, _LEAST = 4 << 20, 64 << 10
#: Of so many partitions at once, and a message is about so long before one was seen.
_PARTITIONS, _FIRST_SIZE = 64, 1_000
#: So long a task tries without getting on, and so long it waits between two tries.
_PATIENCE_S, _PAUSE_S = 10.0, 0.1

#: Connections that wait for the next batch of a topic, and at most so many topics.
_kept: dict[TopicAccess, Cluster] = {}
_KEPT_TOPICS = 32
_lock = threading.Lock()


@dataclass(frozen=True)
class MessagesInTask:
    """A `Reader` for tasks that get numbers: the messages that those of `shares` name, as `reader` decodes them."""

    access: TopicAccess
    shares: Sequence[Sequence[OffsetRange]]
    reader: Reader

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        numbers = [number for batch in batches for number in batch.column(0).to_pylist()]
        return self.reader(
            messages(self.access, [share for number in numbers for share in self.shares[number]])
        )


def messages(access: TopicAccess, shares: Sequence[OffsetRange]) -> Iterator[pa.RecordBatch]:
    """The messages of these shares, of each partition in their order. Raises NeedsJava."""
    with _lock:
        cluster = _kept.pop(access, None)
    try:
        cluster = cluster or Cluster(access)
    except TidegateError:
        raise NeedsJava("access that can't be prepared here") from None
    kept = False
    try:
        yield from _Reading(cluster, access.committed, shares).batches()
        kept = True
    finally:
        _put_back(access, cluster, kept)


def _put_back(access: TopicAccess, cluster: Cluster, kept: bool) -> None:
    """After a failure, or where somebody else was faster, connections are not kept."""
    with _lock:
        if kept and access not in _kept:
            _kept[access] = cluster
            oldest = next(iter(_kept)) if len(_kept) > _KEPT_TOPICS else None
            cluster_ = _kept.pop(oldest) if oldest is not None else None
        else:
            cluster_ = cluster
    if cluster_ is not None:
        cluster_.close()


@dataclass
class _Reading:
    """`left`: of each partition that is not read to its end the next offset, and the end."""

    cluster: Cluster
    committed: bool
    shares: Sequence[OffsetRange]
    left: dict[int, tuple[int, int]] = field(default_factory=dict)
    size: float = _FIRST_SIZE

    def __post_init__(self) -> None:
        self.left = {partition: (since, until) for partition, since, until in self.shares if since < until}

    def batches(self) -> Iterator[pa.RecordBatch]:
        moved = time.monotonic()
        while self.left:
            before = dict(self.left)
            try:
                yield from self._step()
            except OSError as error:
                # A connection that was kept may have ended long ago.
                self.cluster.close()
                reason = f"a broker that does not answer ({type(error).__name__})"
            else:
                reason = "a broker that gives nothing"
            if self.left != before:
                moved = time.monotonic()
            elif time.monotonic() - moved > _PATIENCE_S:
                raise NeedsJava(reason)
            else:
                time.sleep(_PAUSE_S)

    def _step(self) -> Iterator[pa.RecordBatch]:
        """One question to one leader."""
        leader = self.cluster.leader(next(iter(self.left)))
        if leader is None:
            self.cluster.look_again()
            return
        for found in self.cluster.fetch(leader, self._wanted(leader), _MOST):
            yield from self._rows(found)

    def _wanted(self, leader: tuple[str, int]) -> list[Fetch]:
        """Of partitions that this broker leads as much as is left, and no more than is asked for at once."""
        wanted: list[Fetch] = []
        sum_ = 0
        for partition, (offset, until) in self.left.items():
            if not self.cluster.leads(leader, partition):
                continue
            size = int(min(max((until - offset) * self.size * 1.1, _LEAST), _MOST))
            wanted.append(Fetch(partition, offset, size))
            sum_ += size
            if sum_ >= _MOST or len(wanted) == _PARTITIONS:
                break
        return wanted

    def _rows(self, fetched: Fetched) -> Iterator[pa.RecordBatch]:
        if fetched.code in PASSING:
            self.cluster.look_again()
            return
        if fetched.code:
            raise NeedsJava(f"a partition that answers with error {fetched.code}")
        partition = fetched.partition
        if partition not in self.left:
            raise NeedsJava("a broker that answers another question")
        since, until = self.left[partition]
        aborted = fetched.aborted if self.committed else None
        found = decoded(fetched.records, partition, since, until, aborted)
        if found.next > since:
            self.size = max(found.size / (found.next - since), 1.0)
        if found.next >= until:
            del self.left[partition]
        else:
            self.left[partition] = (found.next, until)
        if found.rows is not None:
            yield found.rows
