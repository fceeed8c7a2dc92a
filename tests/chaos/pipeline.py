"""`tidegate live` as a process to be started, watched, killed in several ways and stopped."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

from infra.kafka.broker import free_port
from tests.chaos.processes import Process, end_all, marked, spark_pythons, tree

#: What a kill hits: the worker's Python alone, which is Spark's driver; its JVM alone; the supervisor alone; everything
#: at once; Spark's Python workers; or the daemon that forks them.
TARGETS = ("worker", "jvm", "supervisor", "all", "python", "daemon")
#: Those that the driver outlives.
OF_TASKS = ("python", "daemon")


class Pipeline:
    """One project under `tidegate live`. What it says goes to `live.log` beside the project's folder."""

    def __init__(self, root: Path, interval: str, *options: str) -> None:
        """`options`: more of `tidegate live`."""
        self.root, self.interval, self._options = root, interval, options
        self.log = root.parent / "live.log"
        self.starts = 0
        self._process: subprocess.Popen[bytes] | None = None
        #: Inherited by everything that it ever starts, so that nothing is left behind unseen.
        self._mark = ("TIDEGATE_TEST_PIPELINE", uuid.uuid4().hex)

    @property
    def runs(self) -> bool:
        """Whether the supervisor is there."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start it; nothing if it runs."""
        if self.runs:
            return
        self.starts += 1
        command = [sys.executable, "-m", "tidegate.cli.main", "live", "--project", str(self.root)]
        command += ["--interval", self.interval, "--port", str(free_port()), "--json", *self._options]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                env=os.environ | dict([self._mark]),
            )

    def processes(self) -> list[Process]:
        """The supervisor and all below it, parents first."""
        return tree(self._process.pid) if self._process is not None and self.runs else []

    def worker(self) -> Process | None:
        """The process that drives Spark, if there is one."""
        return _worker(self.processes())

    def drivers(self) -> set[int]:
        """The processes that drive a Spark: the one of all groups, and those of groups that are alone."""
        found = self.processes()
        return {p.pid for p in found[1:] if p.parent == found[0].pid}

    def kill(self, target: str) -> int:
        """SIGKILL; how many processes it hit: 0 if there was none of the kind."""
        found = self.processes()
        if target == "worker":
            worker = _worker(found)
            found = [worker] if worker is not None else []
        elif target == "jvm":
            found = [p for p in found if p.is_java]
        elif target == "supervisor":
            found = found[:1]
        elif target in OF_TASKS:
            found = spark_pythons(found)[OF_TASKS.index(target)]
        hit = end_all(found)
        if target in ("supervisor", "all") and self._process is not None:
            self._process.wait()
        return hit

    def stop(self, seconds: float = 120.0) -> int:
        """SIGTERM, as an operator does; its exit code. Raises TimeoutError if it does not end."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise TimeoutError(f"tidegate live does not end within {seconds:.0f} s of SIGTERM") from None

    def left_behind(self, seconds: float = 30.0) -> list[Process]:
        """What still runs of everything that it ever started."""
        deadline = time.monotonic() + seconds
        while (left := marked("=".join(self._mark))) and time.monotonic() < deadline:
            time.sleep(0.2)
        return left

    def clean(self) -> None:
        """End whatever is left of it."""
        while left := marked("=".join(self._mark)):
            end_all(left)
            if self._process is not None:
                self._process.wait()
            time.sleep(0.1)

    def tail(self, lines: int = 30) -> str:
        """The end of what it said."""
        if not self.log.is_file():
            return ""
        with self.log.open("rb") as file:
            file.seek(max(0, os.path.getsize(self.log) - 20_000))
            return "\n".join(file.read().decode("utf-8", errors="replace").splitlines()[-lines:])


def _worker(processes: list[Process]) -> Process | None:
    """The supervisor's child; it may not have replaced its image by Python's yet, and is one all the same."""
    return next((p for p in processes[1:] if p.parent == processes[0].pid), None)


class LiveLog:
    """What the JSON log of `tidegate live` says since it was last read. `at_end`: it begins with what comes next."""

    def __init__(self, path: Path, at_end: bool = False) -> None:
        self._path = path
        self._at = path.stat().st_size if at_end else 0

    def events(self) -> list[dict[str, Any]]:
        """What is new."""
        if not self._path.is_file():
            return []
        with self._path.open("rb") as file:
            file.seek(self._at)
            text = file.read()
        # A line that is being written is read the next time.
        end = text.rfind(b"\n") + 1
        self._at += end
        out = []
        for line in text[:end].splitlines():
            try:
                found = json.loads(line)
            except ValueError:
                continue
            if isinstance(found, dict):
                out.append(found)
        return out


def wait_until(condition: Callable[[], bool], seconds: float, every: float = 0.2) -> bool:
    """Poll `condition()`; False if it did not come true in time."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(every)
    return True
