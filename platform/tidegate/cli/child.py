"""A program in the foreground: a child that ends when this process ends, whichever way, and leaves nothing behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import FrameType

#: Becomes the program; the kernel ends it in order if this process is killed.
_GUARD = Path(__file__).parents[1] / "dagster" / "live" / "child.py"
_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Foreground:
    """The program runs in a process group of its own, with all that it starts. SIGINT (Ctrl-C), SIGTERM and SIGHUP to
    this process interrupt that whole group, as a terminal would. What is still there `grace` seconds later is killed;
    a second signal kills it at once."""

    def __init__(self, grace: float = 60.0) -> None:
        self._grace = grace
        self._process: subprocess.Popen[bytes] | None = None
        self._signals: list[int] = []

    def run(self, command: Sequence[str], environ: Mapping[str, str], folder: Path) -> int:
        """Start it and wait for its end. Its exit code; 128 + the number of the signal that this process got (Ctrl-C:
        130)."""
        before = {number: signal.signal(number, self._asked) for number in _ENDING}
        try:
            guarded = [sys.executable, "-I", str(_GUARD), str(os.getpid()), *command]
            self._process = subprocess.Popen(
                guarded, env=dict(environ), cwd=folder, stdin=subprocess.DEVNULL, start_new_session=True
            )
            if self._signals:  # it came before there was anybody to tell
                self._interrupt()
            code = self._process.wait()
            if not self._signals:
                return code if code >= 0 else 1
            until = time.monotonic() + self._grace
            while self._signal(0) and time.monotonic() < until:
                time.sleep(0.05)
            return 128 + self._signals[0]
        finally:
            self._signal(signal.SIGKILL)
            for number, handler in before.items():
                signal.signal(number, handler)

    def _asked(self, number: int, frame: FrameType | None) -> None:
        self._signals.append(number)
        if len(self._signals) > 1:
            self._signal(signal.SIGKILL)
        elif self._process is not None:
            self._interrupt()

    def _interrupt(self) -> None:
        self._signal(signal.SIGINT)
        timer = threading.Timer(self._grace, self._signal, [signal.SIGKILL])
        timer.daemon = True
        timer.start()

    def _signal(self, number: int) -> bool:
        """Send a signal to the group; whether it is there."""
        with suppress(ProcessLookupError, PermissionError):
            if self._process is not None:
                os.killpg(self._process.pid, number)
                return True
        return False
