"""A worker process: started, told which groups it has, read, ended; and how much memory it and its JVM take."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

#: What is heard of a worker process: ("line", document), ("output", text) or ("exit", code).
Message = tuple[str, Any]
_LONGEST_LINE = 2000


class WorkerProcess:
    """A process in a process group of its own: Ctrl-C at a terminal is the supervisor's, and its JVM ends with it.

    It reads from its standard input what it is told, a JSON document in each line. That stays open as long as the
    supervisor lives: a worker process whose supervisor is gone stops by itself. `notify` is called from threads.
    """

    def __init__(
        self,
        command: Sequence[str],
        notify: Callable[[Message], None],
        environ: Mapping[str, str] | None = None,
    ) -> None:
        self._notify = notify
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=None if environ is None else dict(environ),
            start_new_session=True,
        )
        self.pid = self._process.pid
        self._lines: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        readers = [
            threading.Thread(target=self._read, args=(stream, read), daemon=True)
            for stream, read in ((self._process.stdout, self._line), (self._process.stderr, self._output))
        ]
        for thread in readers:
            thread.start()
        # Not by whoever tells it something: a process that does not read must not keep the supervisor waiting.
        threading.Thread(target=self._write, daemon=True).start()
        threading.Thread(target=self._wait, args=(readers,), daemon=True).start()

    def tell(self, **document: Any) -> None:
        """Have a line written to it. One that is gone does not hear it: that it is gone is told by itself."""
        self._lines.put(json.dumps(document).encode() + b"\n")

    def close(self) -> None:
        """Tell it that nothing more comes: it lets its groups finish their commits, and ends."""
        self._lines.put(None)

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)

    def _write(self) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(OSError, ValueError), self._process.stdin as lines:
            while (line := self._lines.get()) is not None:
                lines.write(line)
                lines.flush()

    def _read(self, stream: IO[bytes], read: Callable[[str], None]) -> None:
        with stream:
            for line in stream:
                text = line.decode(errors="backslashreplace").rstrip()
                if text:
                    read(text)

    def _line(self, text: str) -> None:
        document = line_of(text)
        if document is not None:
            self._notify(("line", document))
        else:
            self._output(text)

    def _output(self, text: str) -> None:
        self._notify(("output", text[:_LONGEST_LINE]))

    def _wait(self, readers: list[threading.Thread]) -> None:
        code = self._process.wait()
        # What it said last comes before its end. (A JVM that outlives it can hold the pipes open.)
        for thread in readers:
            thread.join(2.0)
        self.kill()
        # Who writes to it waits no longer, and closes what it holds open.
        self.close()
        self._notify(("exit", code))


def line_of(text: str) -> dict[str, Any] | None:
    """What a worker process tells of a group; None for what else it prints."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(document, dict) or not isinstance(document.get("of"), str):
        return None
    rightly = isinstance(document.get("event", {}), dict) and isinstance(document.get("exit", 0), int)
    return document if rightly else None


def resident_bytes(pid: int, proc: Path = Path("/proc")) -> dict[str, int]:
    """Resident memory of a process and all below it: `worker`, `jvm`, and `python` for Spark's Python processes. Empty
    where there is no /proc."""
    sizes: dict[str, int] = {}
    for one in _family(pid, proc):
        try:
            pages = int((proc / str(one) / "statm").read_text().split()[1])
            name = (proc / str(one) / "comm").read_text().strip()
        except (OSError, ValueError, IndexError):
            continue  # ended while we looked
        role = "worker" if one == pid else "jvm" if name == "java" else "python"
        sizes[role] = sizes.get(role, 0) + pages * os.sysconf("SC_PAGE_SIZE")
    return sizes


def cpu_seconds(pid: int, proc: Path = Path("/proc")) -> float | None:
    """CPU seconds of a process and all below it so far, those that have ended and were waited for included; None where
    there is no /proc, or no such process."""
    ticks = None
    for one in _family(pid, proc):
        try:
            # The name, in brackets, may have blanks; then user and system time, of its own and of ended children.
            numbers = (proc / str(one) / "stat").read_text().rpartition(")")[2].split()[11:15]
        except OSError:
            continue  # ended while we looked
        ticks = (ticks or 0) + sum(map(int, numbers))
    return None if ticks is None else ticks / os.sysconf("SC_CLK_TCK")


def _family(pid: int, proc: Path) -> Iterator[int]:
    waiting = [pid]
    while waiting:
        one = waiting.pop()
        yield one
        with contextlib.suppress(OSError):
            for task in (proc / str(one) / "task").iterdir():
                with contextlib.suppress(OSError):
                    waiting += [int(child) for child in (task / "children").read_text().split()]
