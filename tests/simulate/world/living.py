"""Live mode under the simulated clock: the supervisor, its schedule, and workers that tick, fail, wait and are started
again. Each worker is a process of its own; one runs at a time, to its end."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tests.simulate.checks.wrong import Wrong
from tests.simulate.world.driver import World
from tests.simulate.world.outside import Killed
from tidegate.errors import TidegateError
from tidegate.live.groups import Group, find_groups
from tidegate.live.process import Message
from tidegate.live.schedule import DONE, GIVEN_UP
from tidegate.live.supervisor import Supervisor
from tidegate.plan.events import Event, MemberFailed, WorkerFailed
from tidegate.runtime.codes import is_curable
from tidegate.session.live import LiveGroup, serve
from tidegate.session.session import Session

#: Seconds between two ticks, and for which a worker waits for leases.
INTERVAL, PATIENCE = 2.0, 10.0
#: A group that has not settled after so many ticks never does: its longest pause is a minute, and few faults meet it.
MOST_TICKS = 400


@dataclass
class Worker:
    """A worker's process, as the supervisor knows it. `run`: what it does, once its turn has come."""

    pid: int
    run: Callable[[threading.Event], int]
    stopped: threading.Event = field(default_factory=threading.Event)

    def stop(self) -> None:
        self.stopped.set()

    def kill(self) -> None:
        raise Wrong("a worker is killed that ends by itself")


@dataclass
class Living:
    """Groups that live until nothing waits any more. `arrive`: what comes while they live, a tick after the other.
    `process`: makes a process on the one machine, and gives its session with the way in which it drives steps;
    `ended`: says that it is gone; `failed`: looks at an error that was met, and raises Wrong where it has no cause."""

    world: World
    process: Callable[[Callable[..., None]], Session]
    ended: Callable[[], None]
    failed: Callable[[BaseException], None]
    arrive: Sequence[Callable[[], None]] = ()
    _spawned: dict[str, Worker] = field(default_factory=dict)
    _ticks: int = 0
    _starts: int = 0

    def play(self) -> bool:
        """Whether every group has done its work, and nobody had to give up."""
        outside, waiting = self.world.outside, list(self.arrive)
        before = len(outside.met)
        self._waiting = waiting
        with outside.looking():
            groups = find_groups(self.world.catalog_of_project())
        supervisor = Supervisor(
            groups, self._spawn, self._told, until_idle=True, clock=outside.elapsed, chance=outside.rng.random
        )
        self._supervisor = supervisor
        supervisor.start()
        while supervisor.schedule.busy:
            if self._spawned:
                name, worker = self._spawned.popitem()
                code = worker.run(worker.stopped)
                supervisor.handle(name, ("exit", code))
            else:
                due = supervisor.schedule.due
                assert due is not None
                # (The simulated clock knows microseconds, and what is due may lie between two of them.)
                outside.pass_time(max(0.0, due - outside.elapsed()) + 0.001)
            supervisor.on_time()
        # (A worker that nothing answers may fail once more than faults met it, and one that misses a file until that
        # is there again.)
        hidden = 6 if self.world.store.has_hidden() else 0
        if self._starts > 2 * (len(outside.met) - before) + len(groups) + hidden:
            raise Wrong(f"a group was started {self._starts} times for {len(outside.met) - before} faults")
        # (Live mode that ends when nothing waits gives up what still fails, as what a missing file holds does, and who
        # has failed three times in a row, which needs as many faults.)
        if supervisor.schedule.exit_code == GIVEN_UP and not hidden and len(outside.met) - before < 3:
            raise Wrong(f"live mode gave up: {supervisor.health()}")
        return supervisor.schedule.exit_code == DONE

    def _spawn(self, group: Group, notify: Callable[[Message], None]) -> Worker:
        if group.name in self._spawned:
            raise Wrong(f"{group.name} has two workers")
        self._starts += 1
        worker = Worker(self._starts, lambda stop: self._worker(group, stop))
        self._spawned[group.name] = worker
        return worker

    def _told(self, group: str | None, event: Event | str) -> None:
        """Nobody listens."""

    def _worker(self, group: Group, stop: threading.Event) -> int:
        """What a worker's process does (`cli/commands/runs/live.py`), and its exit code."""

        def notify(event: Event) -> None:
            document = json.loads(json.dumps(event.to_dict(), default=str))
            self._supervisor.handle(group.name, ("event", document))

        outside = self.world.outside
        try:
            session = self.process(self._drive)
            with LiveGroup(session, group.members, group.name, None, stop.is_set, patience=PATIENCE) as live:
                live._chance = outside.rng
                serve(live, self._heard(live, notify), stop, INTERVAL, once_idle=True)
        except Killed:
            return -9
        except Wrong:
            raise
        except Exception as error:
            self.failed(error)
            code = error.code if isinstance(error, TidegateError) else None
            notify(WorkerFailed(group.name, code, str(error), None, is_curable(error)))
            return 2 if code else 1
        finally:
            self.ended()
        return 0

    def _heard(self, live: LiveGroup, notify: Callable[[Event], None]) -> Callable[[Event], None]:
        """Of a member's failure: was there a cause?"""

        def heard(event: Event) -> None:
            if isinstance(event, MemberFailed):
                error = next((m.error or m.left for m in live.members if m.name == event.name), None)
                if error is not None:
                    self.failed(error)
            notify(event)

        return heard

    def _drive(
        self, name: str, step: Callable[[], bool], interval: float = 0.0, stop: threading.Event | None = None
    ) -> None:
        """As `jvm.heartbeat.drive`, by the simulated clock."""
        while not (stop is not None and stop.is_set()):
            self._ticks += bool(interval)
            if self._ticks > MOST_TICKS:
                raise Wrong(f"{name} has not settled after {MOST_TICKS} ticks")
            if not step() and not self._comes(interval):
                return
            self.world.outside.pass_time(interval)

    def _comes(self, interval: float) -> bool:
        """Whether something more arrives, before a group that has settled ends."""
        if not interval or not self._waiting:
            return False
        self._waiting.pop(0)()
        return True
