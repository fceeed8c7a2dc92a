"""Live mode under the simulated clock: the supervisor, its schedule, and the processes of workers, whose groups are
opened, tick, fail, wait and are started again. One process works at a time, until all of its groups have ended or it
is killed."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import partial

from tests.simulate.checks.wrong import Wrong
from tests.simulate.world.driver import World
from tests.simulate.world.outside import Killed, Outside
from tidegate.live.groups import Group, find_groups
from tidegate.live.schedule import DONE, GIVEN_UP
from tidegate.live.supervisor import Supervisor
from tidegate.live.workers import Death, Hear
from tidegate.plan.events import Event, MemberFailed
from tidegate.session.live import LiveGroup, settled
from tidegate.session.live_driver import LiveDriver, Pace
from tidegate.session.session import Session

#: Seconds between two ticks, and for which a group waits for leases.
INTERVAL, PATIENCE = 2.0, 10.0
#: A group that has not settled after so many ticks never does: its longest pause is a minute, and few faults meet it.
MOST_TICKS = 400


@dataclass
class Worker:
    """A group's worker, as the supervisor knows it. `process`: that of all groups, or the group's own one."""

    pid: int
    process: str
    group: Group
    hear: Hear

    def stop(self) -> None:
        raise Wrong("a group is told to end that ends by itself")

    def kill(self) -> None:
        raise Wrong("a process is killed whose groups end by themselves")


@dataclass
class Living:
    """Groups that live until nothing waits any more. `arrive`: what comes while they live, a tick after the other.
    `begun`: makes a process on the one machine; `ended`: says that it is gone; `failed`: looks at an error that was
    met, and raises Wrong where it has no cause."""

    world: World
    begun: Callable[[], None]
    ended: Callable[[], None]
    failed: Callable[[BaseException], None]
    arrive: Sequence[Callable[[], None]] = ()
    _spawned: dict[str, Worker] = field(default_factory=dict)
    _starts: int = 0

    def play(self) -> bool:
        """Whether every group has done its work, and nobody had to give up."""
        outside, waiting = self.world.outside, list(self.arrive)
        before = len(outside.met)
        self._waiting = waiting
        with outside.looking():
            groups = find_groups(self.world.catalog_of_project())
        supervisor = Supervisor(
            groups,
            self._spawn,
            lambda group, event: None,
            until_idle=True,
            clock=outside.elapsed,
            chance=outside.rng.random,
        )
        supervisor.start()
        while supervisor.schedule.busy:
            if self._spawned:
                _, first = next(iter(self._spawned.items()))
                workers = [one for one in self._spawned.values() if one.process == first.process]
                self._spawned = {n: one for n, one in self._spawned.items() if one not in workers}
                _Process(self, supervisor, {one.group.name: one for one in workers}).live()
            else:
                due = supervisor.schedule.due
                assert due is not None
                # (The simulated clock knows microseconds, and what is due may lie between two of them.)
                outside.pass_time(max(0.0, due - outside.elapsed()) + 0.001)
            supervisor.on_time()
        # (A group that nothing answers may fail once more than faults met it, one that misses a file until that is
        # there again, and all groups of a process end when it is killed.)
        hidden = 6 if self.world.store.has_hidden() else 0
        if self._starts > (1 + len(groups)) * (len(outside.met) - before) + len(groups) + hidden:
            raise Wrong(f"a group was started {self._starts} times for {len(outside.met) - before} faults")
        # (Live mode that ends when nothing waits gives up what still fails, as what a missing file holds does, and who
        # has failed three times in a row, which needs as many faults.)
        if supervisor.schedule.exit_code == GIVEN_UP and not hidden and len(outside.met) - before < 3:
            raise Wrong(f"live mode gave up: {supervisor.health()}")
        return supervisor.schedule.exit_code == DONE

    def _spawn(self, group: Group, alone: bool, hung: Mapping[str, int], hear: Hear) -> Worker:
        if group.name in self._spawned:
            raise Wrong(f"{group.name} has two workers")
        self._starts += 1
        worker = Worker(self._starts, group.name if alone else "*", group, hear)
        self._spawned[group.name] = worker
        return worker

    def comes(self) -> bool:
        """Whether something more arrives, before a group that has settled ends."""
        if self._waiting:
            self._waiting.pop(0)()
            return True
        return False


class _OneByOne:
    """Does the work of a driver in this thread, by the simulated clock."""

    def __init__(self, outside: Outside) -> None:
        self._outside, self._messages, self._waits = outside, deque[object](), 0

    def start(self, work: Callable[[], None]) -> None:
        work()

    def tell(self, message: object) -> None:
        self._messages.append(message)

    def hear(self, seconds: float | None) -> object | None:
        if self._messages:
            return self._messages.popleft()
        if seconds is None:
            raise Wrong("a live driver waits for ever")
        self._waits += 1
        if self._waits > MOST_TICKS:
            raise Wrong(f"live mode has not settled after {MOST_TICKS} ticks")
        self._outside.pass_time(seconds + 0.001)
        return None

    def now(self) -> float:
        return self._outside.elapsed()


class _Process:
    """A worker process with some groups (`cli/commands/runs/live_worker.py`)."""

    def __init__(self, living: Living, supervisor: Supervisor, workers: dict[str, Worker]) -> None:
        self._living, self._supervisor, self._workers = living, supervisor, workers
        self._groups: dict[str, LiveGroup] = {}
        self._sessions: list[Session] = []
        self._working = ""

    def live(self) -> None:
        """Until all of its groups have ended, or it is killed."""
        outside = self._living.world.outside
        over = lambda group: settled(group) and not self._living.comes()  # noqa: E731
        self._driver = LiveDriver(_OneByOne(outside), self, Pace(INTERVAL, over, patience=PATIENCE))
        self._living.begun()
        try:
            for name, worker in self._workers.items():
                self._driver.open(name, partial(self._opened, worker.group))
            self._driver.run()
        except Killed:
            left, self._workers = tuple(self._workers), {}
            if left:
                working = frozenset({self._working} & set(left))
                self._supervisor.handle(left[0], ("death", Death(-9, left, working)))
        finally:
            for session in self._sessions:
                session.close()
            self._living.ended()

    def _opened(self, group: Group, stopping: Callable[[], bool]) -> AbstractContextManager[LiveGroup]:
        session = self._living.world.open()
        self._sessions.append(session)
        live = LiveGroup(session, group.members, group.name, None, stopping)
        live._chance = self._living.world.outside.rng
        self._groups[group.name] = live
        return nullcontext(live)

    # -- what the driver tells (`Told`) ------------------------------------------------------------------------

    def event(self, group: str, event: Event) -> None:
        """Of a member's failure: was there a cause?"""
        if isinstance(event, MemberFailed):
            members = self._groups[group].members
            error = next((m.error or m.left for m in members if m.name == event.name), None)
            if error is not None:
                self._living.failed(error)
        document = json.loads(json.dumps(event.to_dict(), default=str))
        self._supervisor.handle(group, ("event", document))

    def begins(self, group: str) -> None:
        if self._working:
            raise Wrong(f"{group} begins to work while {self._working} is at work, in one thread")
        self._working = group

    def rests(self, group: str) -> None:
        self._working = ""

    def ended(self, group: str, code: int, error: Exception | None) -> None:
        if isinstance(error, Wrong):
            raise error
        if error is not None:
            self._living.failed(error)
        self._gone(group, ("exit", code))

    def _gone(self, group: str, message: tuple[str, object]) -> None:
        self._working = ""
        del self._workers[group]
        self._supervisor.handle(group, message)
        if not self._workers:
            self._driver.close()
