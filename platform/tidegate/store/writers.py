"""Who holds the lease of a source, view or sink on this machine: its lock file, read without touching the lock."""

from __future__ import annotations

import json
import os
import socket
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Literal

#: A process that is older than its lock by less than this many seconds less could be its holder: clocks are coarse.
_COARSE = 2.0


@dataclass(frozen=True)
class WriterState:
    """`state`: "held" by a process that lives; "ended", in order; "killed": its holder is gone and has not let go;
    "unknown": there is no lock here, or it is one of another machine. `at`: when it was taken, or (ended) released, s
    since 1970.
    """

    state: Literal["held", "ended", "killed", "unknown"] = "unknown"
    pid: int | None = None
    host: str | None = None
    at: float | None = None


def read_writer(folder: Path, name: str) -> WriterState:
    """The holder of the lease `name` in a folder of locks. Never raises, and never stands in anybody's way: the lock
    itself is not tried, since a writer that starts in that moment would be refused (TG508)."""
    path = folder / f"{name}.lock"
    try:
        text = path.read_text(encoding="utf-8")
        changed = path.stat().st_mtime
    except OSError:
        return WriterState()
    if not text:
        return WriterState("ended", at=changed)
    try:
        facts = json.loads(text)
        pid, host = int(facts["pid"]), str(facts["host"])
        since = datetime.fromisoformat(facts["since"]).timestamp()
    except (ValueError, KeyError, TypeError):
        return WriterState()  # half written: somebody takes it in this moment
    if host != socket.gethostname():
        return WriterState("unknown", pid, host, since)
    return WriterState("held" if _lives(pid, since) else "killed", pid, host, since)


def _lives(pid: int, since: float) -> bool:
    """Whether the process that took the lock then is still there; numbers of processes are used again."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    started = _started(pid)
    return started is None or started <= since + _COARSE


def _started(pid: int) -> float | None:
    """When a process started, s since 1970, or None where /proc does not tell."""
    try:
        # Behind the name, which may have spaces and brackets in it; the 22nd field is its start in ticks after boot.
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        if fields[0] == "Z":
            return float("inf")  # dead, and nobody has asked how it ended
        boot = next(
            int(line.split()[1])
            for line in Path("/proc/stat").read_text().splitlines()
            if line.startswith("btime ")
        )
        return boot + int(fields[19]) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError, StopIteration):
        return None
