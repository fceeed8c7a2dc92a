"""Groups that harm the workers and the cores that they share with others (rows 2 and 5 of the table of risks), in a
process with a Spark of its own, as `tidegate live` starts it: `python -m tests.risks.shared CASE ROOT BATCHES INTERVAL`
(seconds from one tick of a group to the next).

`memory`: the decoder of one group leaves ever more in the globals of the shared workers, and that of another one wants
more than a worker may have. `loops`: the decoders of two groups never come back; once the others have had all their
batches, the process ends at once, wherever those two are. Its last line says what was seen, as JSON.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

from tests.risks.decoders import HANG, HOARD, MUCH, harmful, used
from tests.risks.groups import Fed, Watched, drive, write_project
from tidegate.ingest.stream import SourceFeed
from tidegate.plan.events import Event, TickFinished
from tidegate.project import Project
from tidegate.session.live_driver import Pace
from tidegate.session.session import Session
from tidegate.tasks.decode.reasons import CRASHED

ROOT = Path(__file__).resolve().parents[2]
#: MiB that a worker may have: far more than a task takes (`tests/tasks/test_memory.py` finds the least that is enough).
LIMIT = 2000


def groups_of(case: str, root: Path, batches: int) -> list[Fed]:
    """Those that harm others, and those others."""
    if case == "memory":
        hoarding = dict.fromkeys(range(batches), HOARD)
        harming = [
            Fed(root, "hoards", "VARCHAR", marked=hoarding, seed=1),
            Fed(root, "greedy", "VARCHAR", marked={1: MUCH}, reason=CRASHED, seed=2),
        ]
    else:
        harming = [Fed(root, f"hangs{n}", "VARCHAR", marked={0: HANG}, seed=n) for n in range(2)]
    others = [
        Fed(root, f"g{n}", kind, n, [10 + 5 * n], seed=10 + n) for n, kind in enumerate(("INT", "DATE"))
    ]
    return [*harming, *others]


def environment(case: str, conf: dict[str, str]) -> dict[str, Any]:
    """Of the project. `conf`: settings of Spark."""
    if case == "memory":
        conf = conf | {"spark.executor.pyspark.memory": f"{LIMIT}m"}
    # (No decoder may take as long as these two groups'.)
    return {"spark": {"conf": conf}, "decoding": {"seconds": 3600, "elapsed_seconds": 3600}}


def ran(
    case: str, root: Path, batches: int, interval: float, conf: dict[str, str]
) -> tuple[dict[str, Any], list[Fed]]:
    """What such a process has said, and the groups as they are after it, which are fed with nothing more."""
    groups = groups_of(case, root, batches)
    write_project(root, groups, environment(case, conf))
    done = subprocess.run(
        [sys.executable, "-m", "tests.risks.shared", case, str(root), str(batches), str(interval)],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": f"{ROOT / 'platform'}:{ROOT}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    for one in groups:
        for _ in one.files():
            one.feed(written=False)
    return json.loads(done.stdout.splitlines()[-1]), groups


class Harmed(Watched):
    """Counts by group the ticks that began a whole `interval` late, and keeps how late the latest was. When all but
    the groups that hang (`hung`) have had their batches and closed what these allow, it ends the process."""

    def __init__(
        self, groups: Sequence[Fed], batches: int, interval: float, hung: frozenset[str], session: Session
    ) -> None:
        super().__init__(groups, batches)
        self._late: Counter[str] = Counter()
        self._latest = 0.0
        self._interval, self._hung, self._session = interval, hung, session

    def event(self, group: str, event: Event) -> None:
        super().event(group, event)
        if not isinstance(event, TickFinished):
            return
        self._late[group] += event.waited > self._interval
        self._latest = max(self._latest, event.waited)
        if self._hung and self.groups[group].committed >= self.batches:
            with self._lock:
                self._left.discard(group)
                if self._left == self._hung:
                    self._end()

    def said(self) -> dict[str, Any]:
        """What was seen."""
        return {
            "late": self._late,
            "latest": self._latest,
            "failed": [str(one) for one in self.failed],
            "committed": {one.name: one.committed for one in self.groups.values()},
        }

    def _end(self) -> None:
        """Nothing is waited for, as where the machine ends."""
        java = self._session.spark._jvm.java.lang.ProcessHandle.current().pid()  # type: ignore[union-attr]
        # Before the JVM ends: what groups say of its end is no failure of theirs.
        print(json.dumps(self.said()), flush=True)
        os.kill(java, signal.SIGKILL)
        os._exit(0)


def main(case: str, root: Path, batches: int, interval: float) -> None:
    groups = groups_of(case, root, batches)
    hung = frozenset(one.name for one in groups if HANG in one.marked.values())
    tried_again: Counter[str] = Counter()
    instead = SourceFeed._instead

    def counted(feed: SourceFeed, *given: Any) -> Any:
        tried_again[feed.log.relation.name] += 1
        return instead(feed, *given)

    for one in groups:
        one.feed()
    with harmful(root / "used"), patch.object(SourceFeed, "_instead", counted):
        session = Session.open(Project.load(root, "local"), lasting=True, several=True)
        watched = Harmed(groups, batches, interval, hung, session)
        # One after the other, the groups have the same worker; beside those that hang, others have theirs.
        pace = Pace(interval, watched.over, upkeep=False, threads=6 if hung else 1)
        alive = drive(session, watched, pace) and session.runner.answers()
    uses = used(root / "used")
    workers = [{process for process, _, word in uses if word == of} for of in (HOARD, "plain")]
    said = watched.said() | {
        "alive": alive,
        "tried again": tried_again,
        "workers of both": len(workers[0] & workers[1]),
        "kept at most": max(kept for _, kept, _ in uses),
    }
    print(json.dumps(said), flush=True)
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4]))
