"""How much of this machine's CPU is in use, by whichever process: of all its cores, or of those that a container, or a
service of systemd, may use (cgroup v2). Where there is no /proc, nothing is known of it."""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

#: What nobody uses, by its place in the first line of /proc/stat: idle, and idle while a disk is waited for. Time in
#: guests is counted by others already.
_IDLE, _COUNTED = (3, 4), 8
#: Of so many samples the mean of a span is taken.
_SAMPLES = 10

#: CPU seconds used so far, and the cores that they were used of, by what sets the limit.
Used = Mapping[str, tuple[float, float]]


@dataclass(frozen=True)
class CpuUse:
    """In the mean of some time `used` of `cores` were in use; both may be parts of a core, where there is a limit."""

    used: float
    cores: float

    @property
    def is_full(self) -> bool:
        """Whether there is nothing to spare: what is ready to run waits for a core. (Between two of them there is
        always a moment.)"""
        return self.used >= 0.9 * self.cores


def cpu_used(root: Path = Path("/")) -> Used:
    """Of the whole machine, what other machines have taken from it included, and of each limit of this process."""
    try:
        lines = [line.split() for line in (root / "proc/stat").read_text().splitlines()]
        cores = sum(line[0].startswith("cpu") for line in lines if line) - 1
        ticks = [int(number) for number in lines[0][1 : 1 + _COUNTED]]
    except (OSError, ValueError, IndexError):
        return {}
    if cores < 1:
        return {}
    used = (sum(ticks) - sum(ticks[place] for place in _IDLE)) / os.sysconf("SC_CLK_TCK")
    return {"machine": (used, float(cores)), **_limits(root)}


def _limits(root: Path) -> dict[str, tuple[float, float]]:
    """Those of this process's cgroup, and of the ones that it is in."""
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return {}
    found = {}
    for own in (line.removeprefix("0::/") for line in lines if line.startswith("0::/")):
        for name in (own, *map(str, Path(own).parents)):
            folder = root / "sys/fs/cgroup" / name
            try:
                quota, period = (folder / "cpu.max").read_text().split()
                facts = dict(line.split() for line in (folder / "cpu.stat").read_text().splitlines())
                # (A quota of "max" is none.)
                found[str(folder)] = int(facts["usage_usec"]) / 1e6, int(quota) / int(period)
            except (OSError, ValueError, KeyError, ZeroDivisionError):
                continue
    return found


class CpuMeter:
    """The use of the CPU in the mean of the last `span` seconds, if it is asked for often. Safe in any thread."""

    def __init__(
        self,
        span: float,
        clock: Callable[[], float] = time.monotonic,
        read: Callable[[], Used] = cpu_used,
    ) -> None:
        self._span, self._clock, self._read = span, clock, read
        self._samples: deque[tuple[float, Used]] = deque()
        self._lock = threading.Lock()
        self.use()

    def use(self) -> CpuUse | None:
        """Of the limit with the least to spare; None before the span is over, and where nothing is known."""
        with self._lock:
            now, samples = self._clock(), self._samples
            if not samples or now - samples[-1][0] >= self._span / _SAMPLES:
                samples.append((now, self._read()))
            while len(samples) > 1 and samples[-1][0] - samples[1][0] >= self._span:
                samples.popleft()
            (first, before), (last, after) = samples[0], samples[-1]
        if last - first < self._span:
            return None
        found = [
            CpuUse((used - before[limit][0]) / (last - first), cores)
            for limit, (used, cores) in after.items()
            if limit in before
        ]
        return max(found, key=lambda one: one.used / one.cores, default=None)

    @property
    def is_full(self) -> bool:
        """Whether it is known that there is nothing to spare."""
        use = self.use()
        return use is not None and use.is_full
