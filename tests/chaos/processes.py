"""A process and all below it, read from /proc: who is who, how much memory, how many threads and files."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

_PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True)
class Process:
    """One process. `started` (ticks since boot) tells it from a later one of the same number."""

    pid: int
    parent: int
    started: int
    command: tuple[str, ...]

    @property
    def is_java(self) -> bool:
        return bool(self.command) and Path(self.command[0]).name == "java"

    @property
    def is_spark_python(self) -> bool:
        """A Python worker of Spark, or the daemon that forks them."""
        return any(word.startswith("pyspark.") for word in self.command)

    def runs(self) -> bool:
        """Whether it is still there, and not only waiting to be collected."""
        found = _stat(self.pid)
        return found is not None and found[2] == self.started and found[0] != "Z"

    def kill(self, how: signal.Signals = signal.SIGKILL) -> bool:
        """False if it was gone already."""
        if not self.runs():
            return False
        try:
            os.kill(self.pid, how)
        except ProcessLookupError:
            return False
        return True

    def resident_bytes(self) -> int:
        """Resident memory; 0 once it is gone."""
        try:
            return int(_read(self.pid, "statm").split()[1]) * _PAGE
        except (OSError, IndexError):
            return 0

    def thread_names(self) -> list[str]:
        """Of every thread."""
        names = []
        with contextlib.suppress(OSError):
            for task in Path(f"/proc/{self.pid}/task").iterdir():
                with contextlib.suppress(OSError):
                    names.append((task / "comm").read_text().strip())
        return names

    def open_files(self) -> int:
        """Open file descriptors; 0 once it is gone."""
        try:
            return len(os.listdir(f"/proc/{self.pid}/fd"))
        except OSError:
            return 0


def tree(root: int) -> list[Process]:
    """The process and all below it that run, parents first."""
    children: dict[int, list[Process]] = {}
    out = []
    for process in _all():
        children.setdefault(process.parent, []).append(process)
        if process.pid == root:
            out.append(process)
    for process in out:
        out += children.get(process.pid, [])
    return out


def spark_pythons(processes: Iterable[Process]) -> tuple[list[Process], list[Process]]:
    """Spark's Python workers among them, and the daemons that fork those."""
    found = [p for p in processes if p.is_spark_python]
    workers = [p for p in found if any(p.parent == other.pid for other in found)]
    return workers, [p for p in found if p not in workers]


def marked(mark: str) -> list[Process]:
    """All processes that inherited `mark`, a NAME=VALUE of the environment, whoever their parent is now."""
    out = []
    for process in _all():
        with contextlib.suppress(OSError):
            if mark in _read(process.pid, "environ").split("\0"):
                out.append(process)
    return out


def _all() -> Iterator[Process]:
    for entry in os.listdir("/proc"):
        found = _stat(int(entry)) if entry.isdigit() else None
        if found is None or found[0] == "Z":
            continue
        with contextlib.suppress(OSError):
            command = tuple(_read(int(entry), "cmdline").rstrip("\0").split("\0"))
            yield Process(int(entry), found[1], found[2], command)


def end_all(processes: Iterable[Process]) -> int:
    """SIGKILL, parents first, so that none starts another; how many there were."""
    return sum([process.kill() for process in processes])


def _stat(pid: int) -> tuple[str, int, int] | None:
    """(state, parent, start time)."""
    try:
        fields = _read(pid, "stat").rpartition(")")[2].split()
    except OSError:
        return None
    return fields[0], int(fields[1]), int(fields[19])


def _read(pid: int, name: str) -> str:
    return Path(f"/proc/{pid}/{name}").read_text("utf-8", errors="replace")
