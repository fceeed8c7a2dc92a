"""A pseudo-terminal with a process in it: type, and wait for what appears. Unix only, like the shell's users here."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time
from pathlib import Path
from types import TracebackType

_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[()][0-9A-Z]|[=>78cDEHM])")


class Terminal:
    """`width` columns wide. Everything that was ever written to it is `text`, without escape sequences."""

    def __init__(self, command: list[str], folder: Path, width: int = 100, **variables: str) -> None:
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, width, 0, 0))
        # The place of the cursor is not asked for: nobody would answer.
        named = {"TERM": "xterm", "PROMPT_TOOLKIT_NO_CPR": "1", "COLUMNS": str(width), "LINES": "40"}
        self.process = subprocess.Popen(
            command,
            cwd=folder,
            env={**os.environ, **named, **variables},
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )
        os.close(slave)
        self.text = ""
        self._seen = 0

    def __enter__(self) -> Terminal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        os.close(self._master)

    def type(self, keys: str) -> Terminal:
        """Press keys: "\\r" is Enter, "\\t" Tab, "\\x03" Ctrl-C, "\\x04" Ctrl-D, "\\x1b[A" the arrow up."""
        os.write(self._master, keys.encode())
        return self

    def expect(self, pattern: str, seconds: float = 15) -> str:
        """Wait until the pattern appears behind what was found before; the text it matched."""
        deadline = time.monotonic() + seconds
        while (match := re.search(pattern, self.text[self._seen :])) is None:
            if not self._read(deadline - time.monotonic()):
                raise AssertionError(f"no {pattern!r} in what came:\n{self.text[self._seen :]}")
        self._seen += match.end()
        return match.group()

    def ends(self, seconds: float = 15) -> int:
        """Wait until the process ends; its exit code."""
        deadline = time.monotonic() + seconds
        while self._read(deadline - time.monotonic()):
            pass
        return self.process.wait(max(0.1, deadline - time.monotonic()))

    def _read(self, seconds: float) -> bool:
        ready, _, _ = select.select([self._master], [], [], max(0.0, seconds))
        try:
            data = os.read(self._master, 65536) if ready else b""
        except OSError:  # Linux says so when the other side is closed
            return False
        self.text = self.text + _ESCAPES.sub("", data.decode(errors="replace"))
        return bool(data)
