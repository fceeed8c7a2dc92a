"""What must hold of a log whose source is a topic, by the oracles and by what the broker had."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from tests.inprocess.broker import Transaction
from tests.oracles.oracle import Row
from tests.oracles.partitions import Partitions
from tests.simulate.checks.wrong import Wrong
from tests.simulate.scripts.pipelines import as_json, mark, seconds
from tests.simulate.scripts.topic_acts import (
    ABORTED,
    COMMITTED,
    GARBAGE,
    HOSTILE,
    NOTHING,
    Grow,
    Produce,
    Sent,
    Settle,
    Topic,
    TopicAct,
)
from tests.simulate.world import workers
from tests.simulate.world.broker import SOURCE_TOPIC, Look, SimulatedBroker
from tests.simulate.world.outside import STALE

Place = tuple[str, int]
#: W7, W8, W9: what nothing says otherwise.
IDLE, STALLED, SKEW = 300, 300, 86_400
_VALUES = {GARBAGE: "{not a row", NOTHING: None, HOSTILE: workers.HOSTILE.decode()}
_REASONS = {GARBAGE: "unparseable", NOTHING: "null_value", HOSTILE: "crashed_decoder"}
_GAP = re.compile(r"offsets (\d+) to (\d+) were gone before they were read")


@dataclass(frozen=True)
class Given:
    """A message that was sent to the topic."""

    row: Sent
    of: Transaction | None


@dataclass
class Recorded:
    """What the log says of a partition at an epoch."""

    clock: datetime
    progress: Mapping[str, Any]

    @property
    def gap(self) -> tuple[int, int] | None:
        """The offsets [from, until) that were gone."""
        found = _GAP.fullmatch(self.progress["note"] or "")
        return None if found is None else (int(found[1]), int(found[2]) + 1)


@dataclass
class SourceTopic:
    """The topic that a source reads, with all that was ever in it."""

    broker: SimulatedBroker
    topic: Topic
    given: dict[Place, Given] = field(default_factory=dict)
    open: list[Transaction] = field(default_factory=list)
    #: Up to where the newest commit of the log has read.
    _positions: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.broker.create(SOURCE_TOPIC, self.topic.partitions)
        self.broker.note()

    def do(self, act: TopicAct) -> None:
        """What happens between runs."""
        broker = self.broker
        if isinstance(act, Produce):
            self._produce(act)
        elif isinstance(act, Settle):
            for one in self.open:
                broker.settle(one, act.commit)
            self.open = []
        elif isinstance(act, Grow):
            broker.add_partitions(SOURCE_TOPIC, 1)
        elif act.partition in broker.ends(SOURCE_TOPIC):
            end = broker.topics[SOURCE_TOPIC].partitions[act.partition].stable()
            broker.delete_before(SOURCE_TOPIC, {act.partition: max(end - act.keep, 0)})
        broker.note()

    def _produce(self, act: Produce) -> None:
        of = Transaction() if act.within else None
        for row in act.rows:
            partition = row[1]
            if partition not in (ends := self.broker.ends(SOURCE_TOPIC)):
                continue  # of a script that was made smaller
            self.given[str(partition), ends[partition]] = Given(row, of)
            self.broker.send(SOURCE_TOPIC, [(partition, row[2], content(row), None)], of)
        if of is not None and act.within in (COMMITTED, ABORTED):
            self.broker.settle(of, act.within == COMMITTED)
        elif of is not None:
            self.open.append(of)

    def visible(self, partition: str, since: int, until: int) -> dict[int, Given]:
        """What a reader gets of offsets [since, until)."""
        return {
            place[1]: given
            for place, given in self.given.items()
            if place[0] == partition
            and since <= place[1] < until
            and (not self.topic.committed or given.of is None or given.of.committed)
        }

    def ends(self, look: Look) -> dict[str, int]:
        """Up to where readers get something."""
        found = look.stables if self.topic.committed else look.ends
        return {str(number): end for number, end in found.items()}

    def reached(self, recorded: Mapping[str | None, Recorded]) -> None:
        """What the newest commit says."""
        self._positions = {n: one.progress["next_offset"] for n, one in recorded.items() if n is not None}

    def is_gone(self, units: Iterable[Mapping[str, Any]]) -> bool:
        """Whether part of what a plan reads was removed."""
        firsts = self.broker.starts(SOURCE_TOPIC)
        return any(unit["from"] < firsts[int(unit["p"])] for unit in units)

    def has_hostile(self, units: Iterable[Mapping[str, Any]]) -> bool:
        """Whether a message that a plan reads ends its worker."""
        messages = [self.visible(unit["p"], unit["from"], unit["until"]) for unit in units]
        return any(given.row[5] == HOSTILE for found in messages for given in found.values())

    def lost(self) -> bool:
        """Whether retention has removed what was not read."""
        firsts = self.broker.starts(SOURCE_TOPIC) if self._positions else {}
        return any(first > self._positions.get(str(number), 0) for number, first in firsts.items())


def content(row: Sent) -> str | None:
    """A message's value."""
    number, _, key, value, at, what = row
    if what:
        return _VALUES[what]
    return json.dumps(as_json({"id": number, "k": key, "v": value, "ts": at}))


class SourceChecks:
    """Compares a log with what the topic had. `judged`: by place id, outcome, epoch and time of a row; `recorded`: by
    epoch and partition what the log says of it, of the whole source under None; `repeats`: how often a row was rejected
    since its offset had been read."""

    def __init__(self, source: SourceTopic, strategy: Callable[[Row], int | None]) -> None:
        self._source, self._broker = source, source.broker
        self._oracle = Partitions(strategy, IDLE, SKEW, STALLED, source.topic.advance)

    def follow(
        self,
        judged: Mapping[Place, Any],
        recorded: Mapping[int, Mapping[str | None, Recorded]],
        repeats: Mapping[Place, int],
    ) -> int | None:
        """W1 to W9, R3, batch by batch; the published watermark. Raises Wrong."""
        for place, count in repeats.items():
            if count > self._broker.doubled.get(place, 0):
                raise Wrong(f"R2: row {place} is rejected as a repeat, and was given once")
        for epoch, known in sorted(recorded.items()):
            of_it = {place: one for place, one in judged.items() if one.epoch == epoch}
            self._batch(epoch, {n: one for n, one in known.items() if n is not None}, of_it)
            published = known[None].progress["published"]
            if mark(published) != self._oracle.g:
                raise Wrong(
                    f"W6: after epoch {epoch} {mark(published)} was published, by the rules {self._oracle.g}"
                )
        return self._oracle.g

    def _batch(self, epoch: int, known: Mapping[str, Recorded], rows: Mapping[Place, Any]) -> None:
        oracle = self._oracle
        clock = next(iter(known.values())).clock
        progress = {name: one.progress for name, one in known.items()}
        gone = {name for name, one in progress.items() if one["state"] == "gone"}
        ends = {name: one["end_offset"] for name, one in progress.items() if name not in gone}
        until = {name: one["next_offset"] for name, one in progress.items()}
        starts = {name: one["first_offset"] for name, one in progress.items() if name not in oracle.wp}
        self._seen_rightly(epoch, clock, ends, starts)
        lost = {name: self._gap(epoch, name, gap, starts) for name, one in known.items() if (gap := one.gap)}
        given = []
        for name in progress:
            since = lost.get(name, oracle.position.get(name, starts.get(name, 0)))
            given += self._read(epoch, name, since, until[name], rows)
        oracle.batch(seconds(clock), ends, starts, until, lost, [row for row, _ in given])
        decided = oracle.decisions[len(oracle.decisions) - len(given) :]
        for (row, one), decision in zip(given, decided, strict=True):
            if decision.outcome != one.outcome:
                place = (row.partition, row.offset)
                raise Wrong(f"W1: row {place} at {one.at} is {one.outcome}, by the rules {decision.outcome}")
        self._states(epoch, progress)

    def _states(self, epoch: int, progress: Mapping[str, Mapping[str, Any]]) -> None:
        oracle = self._oracle
        idle = {name for name, one in progress.items() if one["state"] == "idle"}
        if (wrong := idle - oracle.idle()) or (not self._stale() and (wrong := oracle.idle() - idle)):
            raise Wrong(
                f"W7: at epoch {epoch} {sorted(idle)} are idle, by the rules {sorted(oracle.idle())}: {wrong}"
            )
        oracle.publish(idle)
        for name, one in progress.items():
            if mark(one["watermark"]) != oracle.wp[name]:
                raise Wrong(
                    f"W2: after epoch {epoch} the watermark of {name} is {mark(one['watermark'])}, by the rules "
                    f"{oracle.wp[name]}"
                )
            if one["state"] != oracle.state(name):
                raise Wrong(
                    f"W8: at epoch {epoch} {name} is {one['state']}, by the rules {oracle.state(name)}"
                )

    def _stale(self) -> bool:
        """Whether the broker may have said something that was not so any more."""
        return any(fault.step == "ask topic" and fault.kind == STALE for fault in self._broker.outside.met)

    def _seen_rightly(
        self, epoch: int, clock: datetime, ends: Mapping[str, int], starts: Mapping[str, int]
    ) -> None:
        """W6: every partition is known, with its end, before the first row is judged; a new one begins with its first
        message."""
        if self._stale():
            return
        look = self._broker.look_at(SOURCE_TOPIC, clock)
        if ends != self._source.ends(look):
            raise Wrong(
                f"W6: at epoch {epoch} the partitions end at {ends}, and do at {self._source.ends(look)}"
            )
        for name, start in starts.items():
            # What was removed before a source without a log begins is none of its rows.
            first = look.firsts[int(name)] if epoch == 1 else 0
            if start != first:
                raise Wrong(f"R3: partition {name} is read from {start}, and begins at {first}")

    def _gap(self, epoch: int, name: str, gap: tuple[int, int], starts: Mapping[str, int]) -> int:
        """What is said to be lost is, and is all that was not read before."""
        since = self._oracle.position.get(name, starts.get(name, 0))
        if not self._source.topic.record:
            raise Wrong(f"W5: a gap is recorded where it is an error: {gap} of {name}")
        if gap[0] != since:
            raise Wrong(f"W5: at epoch {epoch} {gap} of {name} is lost, and {since} came next")
        there = self._broker.topics[SOURCE_TOPIC].partitions[int(name)].first
        if gap[1] > there:
            raise Wrong(f"W5: at epoch {epoch} {gap} of {name} is lost, and {there} is there")
        return gap[1]

    def _read(
        self, epoch: int, name: str, since: int, until: int, rows: Mapping[Place, Any]
    ) -> list[tuple[Row, Any]]:
        """R1, R2: a batch holds what the topic had in its offsets, each once."""
        right = self._source.visible(name, since, until)
        held = {place[1]: one for place, one in rows.items() if place[0] == name}
        if right.keys() != held.keys():
            missing, extra = right.keys() - held.keys(), held.keys() - right.keys()
            raise Wrong(
                f"R1: epoch {epoch} reads {since} to {until} of {name}: lost {sorted(missing)}, "
                f"too many {sorted(extra)}"
            )
        found = []
        for offset, given in sorted(right.items()):
            number, _, _, value, at, what = given.row
            one = held[offset]
            reject = _REASONS.get(what, "null_event_time" if at is None else None)
            if not what and (one.id, one.at) != (number, at):
                raise Wrong(f"R2: row {(name, offset)} is {one}, and was {given.row}")
            if (one.reason or "").partition(":")[0] != (reject or ""):
                raise Wrong(f"W5: row {(name, offset)} is {one}, and has the reason {reject}")
            found.append((Row(name, offset, None if reject else at, reject, {"v": value}), one))
        return found

    def all_read(self) -> None:
        """R1: nothing waits. Raises Wrong."""
        self._broker.note()
        ends = self._source.ends(self._broker.looks[SOURCE_TOPIC][-1][1])
        if ends != self._oracle.position:
            raise Wrong(f"R1: read up to {self._oracle.position}, and the topic ends at {ends}")
