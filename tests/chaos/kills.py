"""What `make chaos` kills, and when: parts of live mode's processes, the broker of most groups, and the broker that
single groups need, which stays away until the other groups have committed without it."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from infra.kafka.broker import LocalBroker, free_port
from tests.chaos.pipeline import OF_TASKS, TARGETS, LiveLog
from tests.chaos.project import ChaosGroup
from tests.chaos.report import Options, Outage, Report
from tests.chaos.watch import Watch, say

#: How often each part of the live process tree is the target; brokers count by themselves.
_SHARES = {"all": 37, "worker": 28, "jvm": 10, "supervisor": 7, "python": 12, "daemon": 6}
#: A supervisor waits longer after each worker that dies young, so it is soon killed itself.
_SPARED_IN_A_ROW = 2
LIVE, BROKER = "live", "broker"
#: What becomes of a broker that single groups need: killed, it refuses connections; stopped, it takes them, and answers
#: nothing.
GONE, HANGS = "gone", "hangs"
#: How long an action takes beside the others.
_SHARE_OF_TIME = {LIVE: 1, BROKER: 1, GONE: 3, HANGS: 4}
#: Seconds that a broker stays away at most if the other groups commit nothing, and so that the run fails.
_LONGEST_AWAY = 180.0


class ChaosBroker:
    """A broker that comes back at the same address."""

    def __init__(self, folder: Path) -> None:
        self._broker, self._port = LocalBroker(folder), free_port()
        self.bootstrap = f"127.0.0.1:{self._port}"

    def start(self) -> None:
        self._broker.start(self._port, with_parent=True, notify=say)

    def kill(self) -> None:
        self._broker.kill()

    def leave(self, how: str) -> None:
        """Be away until `come_back`."""
        if how == HANGS:
            self._signal(signal.SIGSTOP)
        else:
            self.kill()

    def come_back(self, how: str) -> None:
        if how == HANGS:
            self._signal(signal.SIGCONT)
        else:
            self.start()

    def _signal(self, how: signal.Signals) -> None:
        pid = self._broker.status().pid
        assert pid is not None
        os.kill(pid, how)


class Kills:
    """All kills of a run. `near`: the broker of most groups; `far`: the one that single groups need; `pace`: is told
    how many seconds the rest of the load is to last, 0: as short as it can."""

    def __init__(
        self,
        options: Options,
        watch: Watch,
        near: ChaosBroker,
        far: ChaosBroker,
        report: Report,
        pace: Callable[[float], None],
    ) -> None:
        self._options, self._watch, self._near, self._far = options, watch, near, far
        self._report, self._pace = report, pace
        self._random = random.Random(options.seed)
        #: How often in a row the supervisor was spared.
        self._spared = 0
        report.kills = dict.fromkeys((*TARGETS, BROKER), 0)

    def run(self) -> None:
        """One after the other, while the producers are slowed or hurried so that the load lasts as long."""
        plan = self._plan()
        for group in self._watch.groups:
            self._watch.commit(group, first=True)
        began, total, mean = time.monotonic(), _shares(plan), self._options.seconds_per_kill
        while plan:
            # A share is left for the end: what waits for a commit finds rows.
            self._pace((_shares(plan) + 1) * mean)
            action = plan.pop(0)
            if action == LIVE:
                self._kill_live(self._watch.groups)
            elif action == BROKER:
                self._kill_broker()
            else:
                self._take_away(action, plan)
            mean = (time.monotonic() - began) / (total - _shares(plan))
        self._pace(0)

    def _plan(self) -> list[str]:
        plan = [LIVE] * self._options.kills + [BROKER] * self._options.broker_kills
        self._random.shuffle(plan)
        for n in range(self._options.target_outages):
            # Not among the last ones: while it lasts, the other groups need rows.
            plan.insert(self._random.randrange(len(plan) * 2 // 3 + 1), (GONE, HANGS)[n % 2])
        return plan

    def _kill_live(self, groups: Sequence[ChaosGroup]) -> None:
        """One kill of (a part of) the live tree, some time after a commit of one of the groups."""
        watch, pipeline = self._watch, self._watch.pipeline
        target, group = self._random.choices([*_SHARES], [*_SHARES.values()])[0], self._random.choice(groups)
        if self._spared >= _SPARED_IN_A_ROW and target not in OF_TASKS:
            target = "all"
        if target not in OF_TASKS and self._random.random() < 0.25:
            # While it starts: before Spark, while Spark comes up, in the first batch.
            watch.until("a worker", lambda: pipeline.worker() is not None)
            watch.sleep(self._random.uniform(0.0, 10.0))
        else:
            watch.commit(group)
            watch.sleep(self._random.uniform(0.0, 3.0))
        drivers = pipeline.drivers()
        if not pipeline.kill(target):
            target = "all"
            pipeline.kill(target)
        self._report.kills[target] += 1
        if target in OF_TASKS:
            # Tasks fail, and their batches are tried again: it is no reason for the driver to end.
            watch.commit(group)
            if not drivers <= pipeline.drivers():
                self._report.failures.append(
                    f"the driver has ended after a kill of Spark's Python ({target})"
                )
        elif target in ("all", "supervisor"):
            self._spared = 0
            watch.sleep(self._random.uniform(0.0, 1.0))
            pipeline.start()
        else:
            self._spared += 1

    def _kill_broker(self) -> None:
        self._near.kill()
        self._report.kills[BROKER] += 1
        self._watch.sleep(self._random.uniform(0.0, 4.0))
        self._near.start()
        self._watch.sleep(self._random.uniform(0.0, 2.0))

    def _take_away(self, how: str, plan: list[str]) -> None:
        """Let the broker that single groups need be away until the others have committed without it; half of the time
        with a kill of `plan` meanwhile, so that a driver may start without it, too."""
        far = self._far.bootstrap
        needy = [group for group in self._watch.groups if group.needs(far)]
        others = [group for group in self._watch.groups if group not in needy]
        names = {g.source for g in needy if g.bootstrap == far} | {g.sink for g in needy if g.target == far}
        self._watch.commit(self._random.choice(needy))
        log, began = LiveLog(self._watch.pipeline.log, at_end=True), time.monotonic()
        outage = Outage(how)
        self._report.outages.append(outage)
        self._far.leave(how)

        def is_felt() -> bool:
            told = log.events()
            outage.failures += sum(e.get("event") == "member_failed" and e.get("name") in names for e in told)
            return outage.failures > 0

        self._others_commit(outage, others, is_felt)
        if LIVE in plan and self._random.random() < 0.5:
            plan.remove(LIVE)
            self._kill_live(others)
            self._others_commit(outage, others, is_felt)
        self._far.come_back(how)
        outage.seconds = round(time.monotonic() - began, 1)

    def _others_commit(
        self, outage: Outage, groups: Sequence[ChaosGroup], is_felt: Callable[[], bool]
    ) -> None:
        """Wait until each group has begun and committed a batch and the outage is felt, or for too long; and record how
        many there were."""
        before = {group.source: self._watch.epoch(group) for group in groups}

        def found() -> dict[str, int]:
            # The first one may have been under way before.
            return {g.source: max(0, self._watch.epoch(g) - before[g.source] - 1) for g in groups}

        what = "commits of other groups while the broker of single groups is away"
        self._watch.comes(what, lambda: is_felt() and all(found().values()), _LONGEST_AWAY)
        self._watch.sleep(self._random.uniform(0.0, 4.0))
        outage.commits.append(found())


def _shares(plan: Sequence[str]) -> int:
    return sum(_SHARE_OF_TIME[action] for action in plan)
