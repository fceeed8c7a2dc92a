"""CPU seconds and resident memory of a process with all below it, and the moments that it names itself.

A program says `MARK name` on a line of its standard output when a part of its work begins or ends, and `NOTE {json}`
for what should be known of the run. Everything is read from /proc (Linux).
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")
_EVERY = 0.2


@dataclass
class _Seen:
    """One process, as of its last sample: CPU seconds of its own, and of the children that it has waited for."""

    parent: tuple[int, int] | None
    own: float = 0.0
    waited: float = 0.0
    alive: bool = True


@dataclass(frozen=True)
class Mark:
    """Where a run was at a moment: CPU and wall seconds since its start, and the largest memory so far in MB."""

    name: str
    cpu_s: float
    wall_s: float
    peak_rss_mb: float


class Meter:
    """Follows process `root`, which was just started, until `stop()`.

    A process that ends between two samples is counted by what its parent has waited for; one that nobody waits for by
    its last sample; one whose parent ended first is still followed.
    """

    def __init__(self, root: int) -> None:
        self._seen: dict[tuple[int, int], _Seen] = {}
        self._root, self._key = root, None
        self._began, self._peak = time.monotonic(), 0.0
        self._lock, self._over = threading.Lock(), threading.Event()
        self.sample()
        self._thread = threading.Thread(target=self._follow, daemon=True)
        self._thread.start()

    def mark(self, name: str) -> Mark:
        """The state as of now."""
        self.sample()
        with self._lock:
            return Mark(name, self._total(), time.monotonic() - self._began, self._peak)

    def left(self) -> list[int]:
        """Processes that still run."""
        self.sample()
        with self._lock:
            return [key[0] for key, seen in self._seen.items() if seen.alive]

    def stop(self) -> None:
        self._over.set()
        self._thread.join()

    def _follow(self) -> None:
        while not self._over.wait(_EVERY):
            self.sample()

    def sample(self) -> None:
        """Look at all processes once."""
        with self._lock:
            self._sample()

    def _sample(self) -> None:
        running = dict(_processes())
        started = {pid: stat[1] for pid, stat in running.items()}
        for seen in self._seen.values():
            seen.alive = False
        below: dict[int, list[int]] = {}
        for pid, (parent, *_) in running.items():
            below.setdefault(parent, []).append(pid)
        todo = [(self._root, None)] if self._root in running else []
        if self._key is None and todo:
            self._key = (self._root, started[self._root])
        # Those whose parents ended are known from earlier samples.
        todo += [
            (pid, self._seen[pid, start].parent)
            for pid, start in started.items()
            if (pid, start) in self._seen
        ]
        done: set[int] = set()
        memory: list[tuple[int, int]] = []
        while todo:
            pid, parent = todo.pop()
            if pid in done:
                continue
            done.add(pid)
            _, start, own, waited, size, resident = running[pid]
            seen = self._seen.setdefault((pid, start), _Seen(parent))
            seen.own, seen.waited, seen.alive = own, waited, True
            todo += [(child, (pid, start)) for child in below.get(pid, ())]
            # A child between vfork and exec shows its parent's memory once more.
            if not any(size == s and abs(resident - r) <= 0.02 * r for s, r in memory):
                memory.append((size, resident))
        self._peak = max(self._peak, sum(r for _, r in memory) * _PAGE / 1e6)

    def _total(self) -> float:
        children: dict[tuple[int, int] | None, list[tuple[int, int]]] = {}
        for key, seen in self._seen.items():
            children.setdefault(seen.parent, []).append(key)

        def total(key: tuple[int, int]) -> float:
            seen = self._seen[key]
            below = [(total(child), self._seen[child].alive) for child in children.get(key, ())]
            ended = sum(cpu for cpu, alive in below if not alive)
            return seen.own + max(seen.waited, ended) + sum(cpu for cpu, alive in below if alive)

        return total(self._key) if self._key is not None else 0.0


def _processes() -> list[tuple[int, tuple[int, int, float, float, int, int]]]:
    """pid: (parent, start, own CPU s, waited CPU s, virtual size, resident pages) of every process."""
    found = []
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat", "rb") as file:
                f = file.read().rpartition(b")")[2].split()
        except OSError:
            continue
        own, waited = (int(f[11]) + int(f[12])) / _TICKS, (int(f[13]) + int(f[14])) / _TICKS
        found.append((int(name), (int(f[1]), int(f[19]), own, waited, int(f[20]), int(f[21]))))
    return found


def cpu_of(process: int) -> float:
    """CPU seconds of another process so far, as the kernel counts them: by the nanosecond."""
    return time.clock_gettime(~process << 3 | 2)


def with_children(process: int) -> list[int]:
    """It, and the processes that it has started and that still run."""
    return [process, *(pid for pid, stat in _processes() if stat[0] == process)]


def ended_children(process: int) -> float:
    """CPU seconds of the processes that another one has started and waited for."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[13]) + int(fields[14])) / _TICKS


def pss_mb(pids: Sequence[int]) -> float:
    """The memory of these processes in MB; a page that several share counts once in all."""
    total = 0
    for pid in pids:
        with contextlib.suppress(OSError, StopIteration):
            lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
            total += int(next(line for line in lines if line.startswith("Pss:")).split()[1])
    return total / 1024


@dataclass
class Metered:
    """What became of a run: its exit code (None: killed after its time), moments, notes, and the end of its output."""

    code: int | None
    marks: dict[str, Mark] = field(default_factory=dict)
    notes: dict[str, Any] = field(default_factory=dict)
    tail: str = ""

    def between(self, begin: str, end: str) -> tuple[float, float]:
        """CPU and wall seconds from one mark to another."""
        one, two = self.marks[begin], self.marks[end]
        return two.cpu_s - one.cpu_s, two.wall_s - one.wall_s


def metered(
    command: Sequence[str], log: Path, cwd: Path, env: Mapping[str, str], timeout_s: float
) -> Metered:
    """Run a program to its end; its output goes to `log`. Nothing that it started is left running."""
    log.parent.mkdir(parents=True, exist_ok=True)
    result = Metered(None)
    with log.open("wb") as file:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=file,
            cwd=cwd,
            env=dict(env),
            start_new_session=True,
        )
        meter = Meter(process.pid)
        too_long = threading.Event()

        def end() -> None:
            too_long.set()
            _end(meter)

        watch = threading.Timer(timeout_s, end)
        watch.start()
        assert process.stdout is not None
        try:
            for line in process.stdout:
                _take(line, meter, result)
                file.write(line)
                file.flush()
            code = process.wait()
            result.code = None if too_long.is_set() else code
        finally:
            watch.cancel()
            _end(meter)
            process.wait()
            result.marks["exit"] = meter.mark("exit")
            meter.stop()
    result.tail = log.read_text("utf-8", errors="replace")[-3000:]
    return result


def _take(line: bytes, meter: Meter, result: Metered) -> None:
    word, _, rest = line.decode("utf-8", errors="replace").strip().partition(" ")
    if word == "MARK":
        result.marks[rest] = meter.mark(rest)
    elif word == "NOTE":
        with contextlib.suppress(ValueError):
            result.notes |= json.loads(rest)


def _end(meter: Meter) -> None:
    deadline = time.monotonic() + 10
    while (left := meter.left()) and time.monotonic() < deadline:
        for pid in left:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.1)
