"""A live process as a child: started in a group of its own, read all the time, stopped in order, never left behind."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

#: How long a process has, after SIGTERM, to finish its commit and stop Spark. Dagster calls a run canceled that takes
#: longer than three minutes (`run_monitoring.cancel_timeout_seconds`).
STOP_SECONDS = 120.0

_logger = logging.getLogger(__name__)


class LiveProcess:
    """The child. `notify` is given every line of its standard output, on a thread of this object: what it prints is
    always read, so a slow event log never holds the stream back. Its standard error is this process's.
    """

    def __init__(self, command: Sequence[str], folder: Path, notify: Callable[[str], None]) -> None:
        guard = str(Path(__file__).with_name("child.py"))
        self._process = subprocess.Popen(
            [sys.executable, "-I", guard, str(os.getpid()), *command],
            cwd=folder,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            encoding="utf-8",
            errors="replace",
            # Ctrl-C in a terminal is for Dagster, which then stops this in order; and a JVM is found by its group.
            start_new_session=True,
        )
        self._notify = notify
        self._reader = threading.Thread(target=self._read, name="tidegate-live", daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        """Its id, and that of its group."""
        return self._process.pid

    def wait(self, seconds: float) -> int | None:
        """Its exit code if it ends within `seconds`; all that it has printed has been told then."""
        until = time.monotonic() + seconds
        # The end of its output says that it ends, without looking twenty times a second as Popen.wait does.
        while (code := self._process.poll()) is None:
            left = until - time.monotonic()
            if left <= 0:
                return None
            if self._reader.is_alive():
                self._reader.join(min(left, 1.0))
            else:
                time.sleep(min(left, 0.05))
        # What it left behind may hold the pipe open: it is ended before the rest is read.
        self.kill()
        self._reader.join()
        return code

    def stop(self, seconds: float = STOP_SECONDS) -> int | None:
        """SIGTERM, then wait for the commit to be finished; None if it had to be killed."""
        self._process.send_signal(signal.SIGTERM)
        code = self.wait(seconds)
        if code is None:
            self.kill()
            self.wait(seconds)
        return code

    def kill(self) -> None:
        """End whatever is left of its group. Does nothing where nothing is."""
        try:
            os.killpg(self._process.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            return

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            try:
                self._notify(line)
            except Exception:
                # Were this thread to end, the pipe would fill and the stream would stand still.
                _logger.exception("a line was not understood: %.500s", line)
