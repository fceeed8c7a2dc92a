"""`tidegate live` as operators run it: the command, what it says, and what it costs."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

from tests.benchmarks.bench import ENVIRON, ROOT, EngineFailed
from tests.benchmarks.meter import Meter


class LiveProcess:
    """The command on a project, in a `with`. What it says goes to `log`."""

    def __init__(
        self,
        project: Path,
        interval: str,
        log: Path,
        names: Sequence[str] = (),
        options: Sequence[str] = (),
    ) -> None:
        self.log = log
        command = [
            sys.executable,
            "-m",
            "tidegate.cli.main",
            "live",
            *names,
            "--project",
            str(project),
            "--json",
        ]
        command += ["--interval", interval, "--no-http", *options]
        with log.open("wb") as out:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                cwd=ROOT,
                env=ENVIRON,
                start_new_session=True,
            )
        self.meter = Meter(self._process.pid)
        self._events: list[dict[str, Any]] = []
        self._read = 0

    def __enter__(self) -> LiveProcess:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for how in (signal.SIGTERM, signal.SIGKILL):
            if self._process.poll() is None:
                self._process.send_signal(how)
                try:
                    self._process.wait(90)
                except subprocess.TimeoutExpired:
                    continue
        for pid in self.meter.left():
            os.kill(pid, signal.SIGKILL)
        self.meter.stop()

    def kill_below(self) -> float:
        """End all processes that it has started with SIGKILL, but not itself; when that was."""
        for pid in self.meter.left():
            if pid != self._process.pid:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        return time.time()

    def events(self, kind: str) -> list[dict[str, Any]]:
        """All of one kind that it has told so far."""
        with self.log.open("rb") as file:
            file.seek(self._read)
            data = file.read()
        whole = data[: data.rfind(b"\n") + 1]
        self._read += len(whole)
        for line in whole.splitlines():
            if line.startswith(b"{"):
                self._events.append(json.loads(line))
        return [event for event in self._events if event.get("event") == kind]

    def wait(self, condition: Callable[[], bool], seconds: float, what: str) -> None:
        """Until it is true. Raises EngineFailed if it ends, or takes longer."""
        deadline = time.monotonic() + seconds
        while not condition():
            if self._process.poll() is not None or time.monotonic() > deadline:
                ended = "ended" if self._process.poll() is not None else f"not within {seconds:.0f} s"
                tail = self.log.read_text("utf-8", errors="replace")[-1500:]
                raise EngineFailed(f"tidegate live: {what}: {ended}: {tail}")
            time.sleep(0.1)
