"""When groups of live mode start, back off, start again and end (`live/schedule.py`), in every order of events of a
small world: two groups, whose workers tick, fail and end whenever they can, time, and people who stop it all."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import pytest

from tests.support.worlds import every_world
from tidegate.live.groups import Group
from tidegate.live.happenings import (
    Begun,
    Died,
    Exited,
    Happened,
    Kill,
    Redefined,
    Renew,
    Said,
    Spawn,
    Spawned,
    Stop,
    StopWanted,
    Tell,
    TimePassed,
)
from tidegate.live.schedule import DONE, GIVEN_UP, BackOff, GroupSchedule, step
from tidegate.live.watched import Watched
from tidegate.plan.events import TickFinished, WorkerExited, WorkerFailed, WorkHangs

BACK_OFF = BackOff(first=1.0, longest=2.0, healthy=100.0)
GRACE = 30.0
CODES = (0, -9)


@dataclass(frozen=True)
class Process:
    """A worker. `told`: what the supervisor has told it; `failed`: whether its error can be cured (None: it has
    none)."""

    told: tuple[str, ...] = ()
    failed: bool | None = None
    ticked: bool = False
    alone: bool = False
    members: tuple[str, ...] = ()
    hangs: bool = False
    pid: int = 0


@dataclass(frozen=True)
class World:
    """`left`: how often workers may still end without having been told to. `asked`: when and how all are to end.
    `definitions`: those that are still to come, each groups and the names of those that are others. `renewed`: how many
    times groups have got another common process; `hang`: how often work may still hang."""

    schedule: GroupSchedule
    processes: tuple[tuple[str, Process], ...] = ()
    now: float = 0.0
    left: int = 0
    asked: tuple[bool, ...] = ()
    since: float | None = None
    definitions: tuple[Redefined, ...] = ()
    renewed: int = 0
    hang: int = 0

    def pid_of(self, spawn: Spawn) -> int:
        """A process of its own, or that which is shared now."""
        return 100 + ord(spawn.group.name) if spawn.alone else self.renewed

    def process(self, name: str) -> Process | None:
        return dict(self.processes).get(name)

    def having(self, name: str, process: Process | None) -> World:
        others = {n: p for n, p in self.processes if n != name}
        more = {} if process is None else {name: process}
        return replace(self, processes=tuple(sorted((others | more).items())))


def after(world: World, event: Happened) -> World:
    """What the supervisor does with an event."""
    was = world.schedule
    schedule, actions = step(was, event)
    hang = isinstance(event, Said) and isinstance(event.event, WorkHangs)
    own = event.groups if isinstance(event, Died) else getattr(event, "group", None)
    for one in schedule.watched:
        # What happens to one group is nothing to the others.
        before = None if own is None or one.group.name in own else was.of(one.group.name)
        # (But a process in which one hangs is left by the others, and then killed.)
        assert before is None or before.waits or one == before or (hang and one.leaves) or one.hangs
    # (What begins by other definitions is by itself as those say.)
    stay = (
        [] if isinstance(event, Redefined) else [one for one in was.watched if not (one.leaves or one.waits)]
    )
    moved = [now for one in stay if not one.alone and (now := schedule.of(one.group.name)).alone]
    for one in moved:
        if isinstance(event, Said):
            assert isinstance(event.event, WorkHangs)
            continue
        assert isinstance(event, Died)
        assert one.group.name in event.working
        assert one.deaths >= 3
        assert one.deaths == max(schedule.of(name).deaths for name in event.working)
    assert len(moved) <= 1
    world = replace(world, schedule=schedule)
    for action in actions:
        name = action.group.name
        there = world.process(name)
        if isinstance(action, Spawn):
            assert there is None, "a group has two workers"
            assert not world.asked, "a worker starts although all are to end"
            if not isinstance(event, Redefined) and not was.of(name).leaves:
                was_there = was.of(name)
                assert was_there.failed is None or was_there.failed.curable
                assert was_there.restart_at is None or was_there.restart_at <= world.now
                assert was_there.alone == action.alone
            taken = {member for _, other in world.processes for member in other.members}
            assert taken.isdisjoint(action.group.members), "two groups have the same member"
            started = Process(alone=action.alone, members=action.group.members, pid=world.pid_of(action))
            world = after(world.having(name, started), Spawned(name, started.pid))
        elif isinstance(action, Renew):
            assert there is not None, "a process gets no further group, and has none"
            world = replace(world, renewed=world.renewed + (there.pid == world.renewed))
        elif isinstance(action, Stop | Kill):
            assert there is not None, "a worker that is gone is told something"
            kind = "stop" if isinstance(action, Stop) else "kill"
            assert kind != "stop" or world.asked or isinstance(event, Redefined) or hang
            if kind == "kill":
                needless = all(p.hangs for _, p in world.processes if p.pid == there.pid)
                late = (world.since or 0.0) + GRACE <= world.now
                assert world.asked.count(True) > 1 or late or (there.hangs and needless)
            world = world.having(name, replace(there, told=(*there.told, kind)))
        elif isinstance(action.event, WorkerExited):
            assert isinstance(event, Exited | Died)
            _is_right(world, action, was.of(name), event)
    return world


def _is_nobody_forgotten(world: World) -> None:
    for one in world.schedule.watched:
        alive = world.process(one.group.name) is not None
        assert one.alive == alive
        assert alive or one.waits or one.restart_at is not None or one.state in ("failed", "stopped")


def _is_right(world: World, action: Tell, was: Watched, exited: Exited | Died) -> None:
    event = action.event
    assert isinstance(event, WorkerExited)
    if was.leaves and not world.asked:
        assert event.restart_seconds is None
        return
    one = world.schedule.of(action.group.name)
    if event.restart_seconds is None:
        assert world.asked or one.state == "failed" or (world.schedule.until_idle and event.exit_code == 0)
        return
    assert not world.asked
    blamed = not isinstance(exited, Died) or not exited.working or was.group.name in exited.working
    innocent = not blamed and not was.alone
    assert one.failures == (max(1, was.failures) if innocent else was.failures + 1)
    assert event.restart_seconds == (1.0 if innocent else min(2.0, 2.0 ** (one.failures - 1)))
    assert one.restart_at == world.now + event.restart_seconds


def moves(world: World) -> Iterator[World]:
    for name, process in world.processes:
        if not process.ticked:
            ticked = world.having(name, replace(process, ticked=True))
            yield after(ticked, Said(name, TickFinished(name, 1, 5, False, 0.5, 0.1, ()), world.now))
        if "kill" in process.told:
            if process.hangs:
                # (With all that are in it.)
                yield from _process_dies(world, name, kills=True)
                continue
            yield after(world.having(name, None), Exited(name, -9, world.now, 0.0))
            continue
        if world.hang and not process.hangs:
            stuck = replace(world.having(name, replace(process, hangs=True)), hang=world.hang - 1)
            facts = WorkHangs(name, name, "source", 300.0, "TG519", "m")
            yield after(stuck, Said(name, facts, world.now))
        if process.hangs and not world.asked:
            continue
        if "stop" in process.told:
            yield after(world.having(name, None), Exited(name, 0, world.now, 0.0))
        if world.left:
            fewer = replace(world, left=world.left - 1)
            for code in CODES:
                yield after(fewer.having(name, None), Exited(name, code, world.now, 0.0))
            yield from _process_dies(fewer, name)
            if process.failed is None:
                for curable in (True, False):
                    failed = fewer.having(name, replace(process, failed=curable))
                    yield after(
                        failed, Said(name, WorkerFailed(name, "TG621", "m", None, curable), world.now)
                    )
        elif process.failed is not None:
            yield after(world.having(name, None), Exited(name, 2, world.now, 0.0))
    if (due := world.schedule.due) is not None:
        now = max(due, world.now)
        later = after(replace(world, now=now), TimePassed(now))
        assert (later.schedule.due or now + 1) > now, "what is due is done"
        yield later
    if world.definitions:
        others = replace(world, definitions=world.definitions[1:])
        yield after(others, world.definitions[0])
    if len(world.asked) < 2:
        for asked in (True, False):
            stopped = replace(world, asked=(*world.asked, asked), since=world.now)
            yield after(stopped, StopWanted(world.now, asked))


def _process_dies(world: World, name: str, kills: bool = False) -> Iterator[World]:
    """The process of a group, and with it the groups that share it, at work for any of them or none. `kills`: it was
    killed because one of them hangs."""
    own = world.process(name)
    assert own is not None
    together = tuple(n for n, p in world.processes if p.pid == own.pid)
    for other in together:
        world = world.having(other, None)
    for working in ((name,),) if kills else ((), (name,), together):
        yield after(world, Died(together, frozenset(working), -9, world.now, 0.0))


@pytest.mark.parametrize("until_idle", [False, True])
@pytest.mark.parametrize("left", [0, pytest.param(1, marks=pytest.mark.long_run)])
def test_R2_in_every_order_groups_that_hang_get_processes_of_their_own(left: int, until_idle: bool) -> None:
    groups = tuple(Watched(Group(name, (name,))) for name in "ab")
    first = World(GroupSchedule(groups, GRACE, until_idle, BACK_OFF), left=left, hang=2 - left)
    settled = 0
    for world, following in every_world(after(first, Begun()), moves):
        assert following or not world.schedule.busy
        _is_nobody_forgotten(world)
        for name, process in world.processes:
            one = world.schedule.of(name)
            assert one.hangs == process.hangs or world.asked
            # Only groups that hang, or that leave, are left in a process with one.
            together = [world.schedule.of(n) for n, p in world.processes if p.pid == process.pid]
            assert world.asked or not process.hangs or all(o.hangs or o.leaves for o in together)
        if (
            not world.hang
            and not world.asked
            and not any(one.hangs or one.leaves for one in world.schedule.watched)
        ):
            hung = [one for one in world.schedule.watched if one.hung]
            settled += bool(hung)
            assert all(one.alone for one in hung)
    assert settled


@pytest.mark.parametrize("until_idle", [False, True])
@pytest.mark.parametrize(("names", "left"), [("ab", 1), ("a", 4)])
def test_R2_in_every_order_a_group_has_one_worker_and_none_waits_for_another(
    names: str, left: int, until_idle: bool
) -> None:
    groups = tuple(Watched(Group(name, (name,))) for name in names)
    first = after(World(GroupSchedule(groups, GRACE, until_idle, BACK_OFF), left=left), Begun())
    assert [name for name, _ in first.processes] == list(names)
    count, ends = 0, []
    for world, following in every_world(first, moves):
        count += 1
        _is_nobody_forgotten(world)
        if not world.schedule.busy:
            ends.append(world)
        # Nobody waits for ever.
        assert following or not world.schedule.busy
    assert count > 500
    assert {end.schedule.exit_code for end in ends} == {0, 1, 2}
    for end in ends:
        states = {one.state for one in end.schedule.watched}
        assert (end.schedule.exit_code == GIVEN_UP) == ("failed" in states)
        assert end.schedule.exit_code != DONE or states == {"stopped"}
        assert end.asked or until_idle or states == {"failed"}


BOTH = Group("a", ("a", "b"))
A, OTHER_A, B, C = Group("a", ("a",)), Group("a", ("a", "v")), Group("b", ("b",)), Group("c", ("c",))


@pytest.mark.parametrize(
    ("groups", "left", "definitions"),
    [
        pytest.param((A, B), 0, (Redefined((BOTH,), alone=frozenset("a")),), id="two become one, by itself"),
        pytest.param(
            (BOTH,), 0, (Redefined((A, B)), Redefined((BOTH,))), id="one becomes two, and one again"
        ),
        pytest.param((B,), 1, (Redefined((BOTH,)),), id="one gets another name"),
        pytest.param(
            (A,), 1, (Redefined((A,), frozenset("a")), Redefined((A,))), id="another one, then the same"
        ),
        pytest.param(
            (A,), 0, (Redefined((C,)), Redefined((A, C))), id="one goes and comes back, another comes"
        ),
        pytest.param(
            (A, B), 0, (Redefined((OTHER_A, B)), Redefined((B,))), id="beside others one grows, and goes"
        ),
    ],
)
def test_E7_definitions_change_only_the_groups_that_they_are_of(
    groups: tuple[Group, ...], left: int, definitions: tuple[Redefined, ...]
) -> None:
    schedule = GroupSchedule(tuple(map(Watched, groups)), GRACE, False, BACK_OFF)
    first = World(schedule, left=left, definitions=definitions)
    settled = 0
    for world, following in every_world(after(first, Begun()), moves):
        assert following or not world.schedule.busy
        _is_nobody_forgotten(world)
        alive = dict(world.processes)
        # Nobody stops a group that all definitions have.
        kept = "b" in alive and all(B in one.groups for one in definitions)
        assert world.asked or not kept or "stop" not in alive["b"].told
        leave = any(one.leaves for one in world.schedule.watched)
        waits = any(one.waits for one in world.schedule.watched)
        assert leave or not waits
        if not world.definitions and not world.asked and not leave:
            settled += 1
            last = definitions[-1]
            assert {one.group for one in world.schedule.watched} == set(last.groups)
            assert {one.group.name for one in world.schedule.watched if one.alone} == last.alone
    assert settled > 1


def test_a_worker_that_is_not_there_cannot_end() -> None:
    with pytest.raises(AssertionError, match="a has no worker that could end"):
        step(GroupSchedule((Watched(Group("a", ("a",))),)), Exited("a", 0, 0.0, 0.0))
