"""One script: a project on a real broker is edited while `tidegate live --watch` runs, and parts of that are killed;
then every row, decision and result is compared with what the rules make of the topic."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from infra.kafka.topics import Topics
from tests.chaos.pipeline import Pipeline, wait_until
from tests.chaos.topic import end_offsets, read_topic
from tests.edits.judge import columns_of, judge, stored_columns
from tests.edits.load import PARTITIONS, SOURCE, Load, write_definitions, write_project
from tests.edits.script import EditScript, Step
from tests.simulate.scripts.changes import Definition
from tidegate.errors import TidegateError
from tidegate.project import Project
from tidegate.store.metadata import load_table
from tidegate.store.status import read_status
from tidegate.store.writers import running

#: Seconds that anything may take.
_PATIENCE = 240.0
#: Seconds between two edits.
_BETWEEN = (2.0, 8.0)


class Stuck(Exception):
    """Something did not come."""


@dataclass
class Played:
    """What happened, and what was wrong."""

    script: dict[str, Any]
    sent: int = 0
    kills: dict[str, int] = field(default_factory=dict)
    applies: int = 0
    rollbacks: int = 0
    rows: int = 0
    versions: int = 0
    shown: dict[str, int] = field(default_factory=dict)
    seconds: float = 0.0
    wrong: list[str] = field(default_factory=list)


class EditedProject:
    """One run in `folder`, on a broker that is there."""

    def __init__(
        self, script: EditScript, folder: Path, bootstrap: str, say: Callable[[str], None] = print
    ) -> None:
        self._script, self._bootstrap, self._say = script, bootstrap, say
        self._root, self._topic = folder / "project", f"edits-{script.seed}-{os.getpid()}"
        self._pipeline = Pipeline(self._root, "1s", "--watch")
        self._rng = Random(script.seed)
        self._definition, self._queries = Definition(), {name: name for name in script.views}
        self.played = Played(asdict(script))

    def run(self) -> Played:
        """Everything; leaves no process and no topic, whatever happens."""
        began = time.monotonic()
        try:
            self._prepare()
            for number, step in enumerate(self._script.steps):
                self._say(f"seed {self._script.seed}: {number + 1} of {len(self._script.steps)}: {step}")
                self._step(step)
            self._finish()
            self._compare()
        except (Stuck, TimeoutError) as error:
            self.played.wrong.append(f"{error}\n{self._pipeline.tail()}")
        finally:
            self._pipeline.clean()
            with Topics(self._bootstrap) as topics:
                if self._topic in topics.names():
                    topics.delete(self._topic)
        self.played.seconds = round(time.monotonic() - began, 1)
        return self.played

    def _prepare(self) -> None:
        write_project(self._root)
        self._write()
        with Topics(self._bootstrap) as topics:
            # (The broker's own clock on every row: it tells whether a partition was idle, whoever says so.)
            topics.create(self._topic, PARTITIONS, {"message.timestamp.type": "LogAppendTime"})
        self._project = Project.load(self._root, "local")
        self._load = Load(self._bootstrap, self._topic, self._script.seed)
        self._load.start()
        self._pipeline.start()
        self._await("the first results", lambda: all(load_table(self._storage, v) for v in self._queries))

    @property
    def _storage(self) -> Any:
        return self._project.storage

    def _write(self) -> None:
        write_definitions(self._root, self._topic, self._bootstrap, self._definition, self._queries)

    # -- one edit ----------------------------------------------------------------------------------------------

    def _step(self, step: Step) -> None:
        time.sleep(self._rng.uniform(*_BETWEEN))
        of_columns = step.edit.what != "query"
        if of_columns:
            after = self._definition.after(step.edit, self.played.versions + 1)
            assert after is not None
            self._definition = after
            self.played.versions += 1
        else:
            self._queries[step.edit.name] = step.edit.to
        self._write()
        begun = time.monotonic()
        if step.applied and self._apply(step.apply_killed):
            self._apply(None)
        if step.killed:
            time.sleep(max(0.0, step.after - (time.monotonic() - begun)))
            self._kill(step.killed)
        if of_columns:
            # (Nobody edits a definition whose last edit is not in the log yet.)
            expected = columns_of(self._definition)
            self._await(f"the columns {expected}", lambda: self._has_columns(expected))
        if step.back:
            self._roll_back(step.back)

    def _has_columns(self, expected: list[tuple[str, str]]) -> bool:
        """Live mode does not take up by itself what replaces results: then somebody applies it."""
        if stored_columns(self._storage) == expected:
            return True
        if any(one.refused is not None for one in running(self._project.state_dir, self._project.env_name)):
            self._apply(None)
        return False

    def _kill(self, target: str) -> None:
        if not self._pipeline.kill(target):
            target = "all"
            self._pipeline.kill(target)
        self.played.kills[target] = self.played.kills.get(target, 0) + 1
        self._pipeline.start()

    def _apply(self, seconds: float | None) -> bool:
        """Until it has succeeded, or is killed after so many seconds; whether it was killed. A live process may have
        committed in between, and then the command says so and is called again."""
        deadline = time.monotonic() + _PATIENCE
        while True:
            self.played.applies += 1
            code, said = self._command(["apply", "--yes"], seconds)
            if code == 0:
                return False
            if code is None:
                self.played.kills["apply"] = self.played.kills.get("apply", 0) + 1
                return True
            if time.monotonic() > deadline:
                raise Stuck(f"tidegate apply does not succeed:\n{said[-3000:]}")
            time.sleep(1)

    def _roll_back(self, view: str) -> None:
        """There may be no version before, or it may be of columns that have changed since."""
        code, said = self._command(["rollback", view, "--yes"], None)
        if code == 0:
            self.played.rollbacks += 1
        elif "TG201" not in said and "TG506" not in said:
            raise Stuck(f"tidegate rollback {view} fails:\n{said[-3000:]}")

    def _command(self, words: list[str], seconds: float | None) -> tuple[int | None, str]:
        """Exit code and words of a command; no code if it was killed after so many seconds."""
        process = subprocess.Popen(
            [sys.executable, "-m", "tidegate.cli.main", "--project", str(self._root), *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        try:
            said, _ = process.communicate(timeout=seconds if seconds is not None else _PATIENCE)
            return process.returncode, said
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            said, _ = process.communicate()
            if seconds is None:
                raise Stuck(f"tidegate {' '.join(words)} does not end:\n{said[-3000:]}") from None
            return None, said

    # -- the end -----------------------------------------------------------------------------------------------

    def _finish(self) -> None:
        self._apply(None)
        self._load.end()
        self.played.sent = self._load.sent
        ends = end_offsets(self._bootstrap, self._topic)
        self._await("the last row and window", lambda: self._is_current(ends))
        code = self._pipeline.stop()
        if code:
            self.played.wrong.append(f"tidegate live ended with {code} after SIGTERM")
        for process in self._pipeline.left_behind():
            self.played.wrong.append(f"process left behind: {' '.join(process.command)[:100]}")

    def _is_current(self, ends: dict[str, int]) -> bool:
        try:
            status = read_status(self._project)
        except (TidegateError, OSError):
            return False
        source = next(one for one in status.relations if one.name == SOURCE)
        read = {one.partition: one.next_offset for one in source.partitions}
        return all(read.get(name, 0) == end for name, end in ends.items()) and all(
            view.current for view in status.views
        )

    def _compare(self) -> None:
        topic = read_topic(self._bootstrap, self._topic)
        project = Project.load(self._root, "local")
        found = judge(project, topic, self._script.definitions(), self._queries)
        self.played.rows, self.played.shown = found.rows, found.shown
        self.played.wrong += found.wrong

    def _await(self, what: str, condition: Callable[[], Any]) -> None:
        def holds() -> bool:
            if not self._pipeline.runs:
                raise Stuck(f"tidegate live ended by itself while {what} was waited for")
            try:
                return bool(condition())
            except TidegateError:
                return False  # it is being committed to

        if not wait_until(holds, _PATIENCE):
            raise Stuck(f"{what} did not come within {_PATIENCE:.0f} s")
