"""What is seen of a run of `make chaos` from outside: what each group has committed, and whether anything happens."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tests.chaos.pipeline import Pipeline, wait_until
from tests.chaos.project import ChaosGroup
from tidegate.errors import TidegateError
from tidegate.project import Project
from tidegate.store.metadata import load_table
from tidegate.store.status import read_status
from tidegate.store.status_values import ProjectStatus

#: Seconds that anything may take.
PATIENCE = 600.0


class Stuck(Exception):
    """The pipeline made no progress."""


class Watch:
    """Looks at the project of `groups` that `pipeline` runs. `told`: what is said of the run every five seconds, before
    what its logs hold."""

    def __init__(self, pipeline: Pipeline, groups: Sequence[ChaosGroup], told: Callable[[], str]) -> None:
        self.pipeline, self.groups, self._told = pipeline, groups, told
        self._project: Project | None = None
        self._facts: dict[str, Mapping[str, Any]] = {group.source: {} for group in groups}
        self._steady: tuple[object, float] = (None, 0.0)
        self._said = time.monotonic()

    def epoch(self, group: ChaosGroup) -> int:
        """Of the last batch of a group, as far as it could be read."""
        return int(self._read(group).get("tidegate.epoch", 0))

    def _read(self, group: ChaosGroup) -> Mapping[str, Any]:
        self._project = self._project or Project.load(self.pipeline.root, "local")
        try:
            table = load_table(self._project.storage, group.source)
        except TidegateError:
            table = None  # it is being committed to
        if table is not None:
            self._facts[group.source] = table.summary
        return self._facts[group.source]

    def commit(self, group: ChaosGroup, first: bool = False) -> None:
        """Wait for the group's next commit; `first`: for any."""
        after = 0 if first else self.epoch(group)
        self.until(f"a commit of {group.source} after epoch {after}", lambda: self.epoch(group) > after)

    def until(self, what: str, condition: Callable[[], bool], seconds: float = PATIENCE) -> None:
        """Wait until something holds. Raises Stuck if it does not in time, or if live mode ends."""
        if not self.comes(what, condition, seconds):
            raise Stuck(f"waited {seconds:.0f} s for {what}, in vain")

    def comes(self, what: str, condition: Callable[[], bool], seconds: float) -> bool:
        """Whether it holds in time; as `until`."""

        def check() -> bool:
            self._progress()
            if not self.pipeline.runs:
                raise Stuck(f"tidegate live ended by itself while the harness waited for {what}")
            return condition()

        return wait_until(check, seconds)

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)
        self._progress()

    def caught_up(self, ends: Mapping[str, Mapping[str, int]], seconds: float) -> bool:
        """Whether everything is read, closed and delivered, and has been for so many seconds. `ends`: by source and
        partition."""
        status = self._status()
        if status is None:
            return False
        read = {
            relation.name: {p.partition: p.next_offset for p in relation.partitions}
            for relation in status.relations
        }
        done = all(
            read[source].get(name, 0) == end for source, of_it in ends.items() for name, end in of_it.items()
        )
        done = done and all(one.current for one in (*status.views, *status.sinks))
        epochs = [relation.epoch for relation in status.relations]
        seen = (epochs, [view.snapshot_id for view in status.views]) if done else None
        now = time.monotonic()
        if seen != self._steady[0]:
            self._steady = (seen, now)
        return done and now - self._steady[1] > seconds

    def _status(self) -> ProjectStatus | None:
        assert self._project is not None
        try:
            return read_status(self._project)
        except (TidegateError, OSError):
            return None

    def _progress(self) -> None:
        if time.monotonic() - self._said < 5:
            return
        self._said = time.monotonic()
        logs = [self._read(group) for group in self.groups]
        on_time, late, rejected = (
            sum(int(facts.get(f"tidegate.{k}", 0)) for facts in logs) for k in ("on_time", "late", "rejected")
        )
        rows = f"{on_time + late + rejected:,} ({late:,} late, {rejected:,} rejected)"
        say(f"{self._told()}  logs {rows}  epochs {' '.join(str(f.get('tidegate.epoch', 0)) for f in logs)}")


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
