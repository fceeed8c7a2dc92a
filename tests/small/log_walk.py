"""All worlds of a topic and its log: rows arrive in any order, a process reads what waits at any time and ends before
any of its effects, and what it had asked for may be stored later. Judged by the oracle of `tests.oracles.oracle` (W1 to
W6, R1 to R3), and for tables WITH TTL by that of `tests.oracles.tables` (T1)."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Any

from tests.oracles.oracle import Oracle, Row
from tests.oracles.tables import Change, Table
from tests.small.agree import STRATEGIES
from tests.small.gate import Judged, Ran, Setting, Topic, Written, run
from tests.small.histories import DELAY, PARTITIONS, TIMES, Time
from tests.small.outside import Durable
from tests.small.walk import Counted, Move, WrongError, walked
from tidegate.ingest.connector import BatchPlan

#: Of each batch, by epoch, up to where either partition had rows as its plan was made: what it takes part by (W6).
Seen = tuple[tuple[int, int], ...]
Decided = tuple[tuple[str, int, Time, str, int | None], ...]


@dataclass(frozen=True)
class World:
    """A topic, and what processes have left behind."""

    topic: Topic = ((), ())
    durable: Durable = field(default_factory=Durable)
    seen: Seen = ()

    def batches(self) -> tuple[Decided, ...]:
        """What the log holds of each epoch."""
        found = []
        for commit in self.durable.commits:
            rows = [row for _, file in commit.files if isinstance(file, Judged) for row in file.rows]
            found.append(tuple(rows))
        return tuple(found)

    @cached_property
    def key(self) -> Hashable:
        """What decides about all that follows: not how the log was cut."""
        return _key(self)

    def waits(self) -> bool:
        """Whether something is left to do."""
        read = sum(len(batch) for batch in self.batches())
        return bool(read < sum(map(len, self.topic)) or self.durable.plans or self.durable.late)


def _key(world: World) -> Hashable:
    commits = world.durable.commits
    progress = _progress(world.durable)
    epoch = progress.epoch if progress else 0
    states = () if progress is None else tuple(sorted((n, repr(s)) for n, s in progress.states.items()))
    absent = () if progress is None else tuple(sorted((n, s.absent) for n, s in progress.sightings.items()))
    rows = tuple(sorted((row for batch in world.batches() for row in batch), key=repr))
    plans = tuple(
        (number - epoch, units, decisions)
        for number, units, decisions in (_plan(content) for _, content in world.durable.plans)
    )
    late = world.durable.late
    on_its_way = None if late is None else (late.parent == world.durable.newest, _contents(late.files))
    published = progress.published if progress else None
    return world.topic, rows, states, absent, published, plans, on_its_way, bool(commits)


@lru_cache(1 << 14)
def _plan(content: bytes) -> tuple[int, str, str]:
    plan = BatchPlan.from_json(content.decode())
    return plan.epoch, repr(plan.units), repr(plan.decisions)


def _contents(files: Any) -> Hashable:
    return tuple(file for _, file in files if isinstance(file, Judged))


def _progress(durable: Durable) -> Any:
    """What the newest commit says."""
    if not durable.commits:
        return None
    return next(file.progress for _, file in durable.commits[-1].files if isinstance(file, Written))


@dataclass(frozen=True)
class LogWalk:
    """`most`: rows of a world. `late`: what is on its way when its process has ended may be stored later."""

    setting: Setting = field(default_factory=Setting)
    times: tuple[int, ...] = TIMES
    most: int = 3
    late: bool = True

    def walk(self) -> Counted:
        """Go through all worlds. Raises WrongError."""
        return walked(World(), self._moves, lambda world: world.key, lambda world: not world.waits())

    def _moves(self, world: World) -> Iterator[Move[World]]:
        if sum(map(len, world.topic)) < self.most:
            for number in range(len(PARTITIONS)):
                for time in (*self.times, None):
                    rows = (*world.topic[number], time)
                    topic = (*world.topic[:number], rows, *world.topic[number + 1 :])
                    yield replace(world, topic=topic), False
        if not world.waits():
            return
        if world.durable.late is not None:
            yield self._checked(world, world.durable.landed()), False
        whole = self._run(world)
        yield from self._left(world, whole, done=True)
        yield from self._left(world, self._run(world, most=1), done=True)
        if not self.late:
            return
        for lost in ("stored", "not stored"):
            yield from self._left(world, self._run(world, lost=lost), done=False, fault=True)
        if world.durable.late is not None:
            for effect in range(len(whole.crashes)):
                yield from self._left(world, self._run(world, land_at=effect), done=False)

    def _run(self, world: World, **how: Any) -> Ran:
        return run(world.durable, world.topic, self.setting, **how)

    def _left(self, world: World, ran: Ran, done: bool, fault: bool = False) -> Iterator[Move[World]]:
        """What a run leaves, wherever it ends. `done`: nothing was in its way; `fault`: it has met one already."""
        if done and ran.error is not None and world.durable.late is None:
            raise WrongError(f"a run failed that nothing has met: {ran.error}; {world}")
        end = self._checked(world, ran.end)
        if done and ran.error is None and world.durable.late is None and end.waits():
            raise WrongError(f"R2: a run has left something to do: {end}")
        yield end, fault
        if fault:
            return
        found, left = end, ran.end
        for crash, request in zip(ran.crashes, ran.requests, strict=True):
            if crash.left is not left:
                found, left = self._checked(world, crash.left), crash.left
            yield found, True
            if request is not None and self.late and crash.left.late is None:
                yield self._checked(world, replace(crash.left, late=request)), True

    def _checked(self, world: World, left: Durable) -> World:
        """The world with what was left, after a look at everything that a reader sees."""
        found = replace(world, durable=left, seen=_seen(world, left))
        batches, before = found.batches(), world.batches()
        if batches[: len(before)] != before:
            raise WrongError(f"R2: what was decided is not so any more: {before}, {batches}")
        progress = _progress(left)
        states = {} if progress is None else progress.states
        truth = _truth(found.topic, tuple(map(_places, batches)), found.seen, self.setting)
        said = (
            tuple(sorted(row for batch in batches for row in batch if row[3] != "rejected")),
            tuple(sorted((n, s.watermark) for n, s in states.items() if n in truth[3])),
            progress.published if progress else None,
        )
        if said != truth[:3]:
            raise WrongError(f"W1, W2, W6: {said}, by the rules {truth[:3]}; {found}")
        return found


def _places(batch: Decided) -> tuple[tuple[str, int], ...]:
    return tuple((row[0], row[1]) for row in batch)


def _seen(world: World, left: Durable) -> Seen:
    """With the batch that is planned now: what stands in a durable plan is what its batch takes part by (W4)."""
    epochs = [_plan(content)[0] for _, content in left.plans]
    planned = max([len(left.commits), *epochs])
    now = tuple(map(len, world.topic))
    return (*world.seen, *[now] * (planned - len(world.seen)))  # type: ignore[return-value]


@lru_cache(1 << 16)
def _truth(topic: Topic, batches: Any, seen: Seen, setting: Setting) -> Any:
    """By the oracle: the decisions, the watermarks, G, and who takes part."""
    strategy = STRATEGIES[setting.strategy]
    oracle = Oracle(lambda row: strategy(row.event_time))
    table = Table(DELAY)
    found: list[Any] = []
    for batch, ends in zip(batches, seen, strict=False):
        present = [name for name, end in zip(PARTITIONS, ends, strict=True) if end]
        oracle.enumerate(present)
        table.enumerate(present)
        for partition, offset in sorted(batch):
            if partition not in present:
                raise WrongError(f"W4, W6: a batch reads {partition}, which its plan did not know: {batches}")
            time = topic[int(partition)][offset]
            if setting.expires:
                if time is not None:
                    found.append(_change(table, Change(partition, offset, 0, time)))
                continue
            made = oracle.read(Row(partition, offset, time, None if time is not None else "null_event_time"))
            if made.outcome != "rejected":
                found.append((partition, offset, time, made.outcome, made.found))
        oracle.flush()
        table.publish()
    expected = [name for name in PARTITIONS for batch in batches for place in batch if place[0] == name]
    read = [place for batch in batches for place in sorted(batch)]
    for name in PARTITIONS:
        # R1: each row once, in the order of offsets.
        if [o for p, o in read if p == name] != list(range(expected.count(name))):
            raise WrongError(f"R1: {read}")
    judge: Any = table if setting.expires else oracle
    return tuple(sorted(found)), tuple(sorted(judge.wp.items())), judge.g, frozenset(judge.wp)


def _change(table: Table, change: Change) -> tuple[Any, ...]:
    bars = [mark for mark in (table.wp[change.partition], table.g) if mark is not None]
    before = len(table.late)
    table.read(change)
    outcome = "late" if len(table.late) > before else "on_time"
    return change.partition, change.offset, change.time, outcome, max(bars, default=None)
