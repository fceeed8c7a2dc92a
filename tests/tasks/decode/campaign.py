"""Campaigns of random inputs for decoders: under a limit of memory, and going on where one was stopped."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

#: What a process may take beside what it has when a campaign begins: more than a task needs for any input.
MEMORY = 2 << 30


@contextmanager
def limited_memory() -> Iterator[None]:
    """Whatever wants more memory fails, or ends the process."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + MEMORY, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


def seeds(kind: str, first: int, count: int) -> Iterator[int]:
    """The seeds of a campaign. With `TIDEGATE_DECODERS_PROGRESS`, a folder, it goes on with the seed that a run before
    was stopped at; where a process has ended, its file there says over which."""
    folder = os.environ.get("TIDEGATE_DECODERS_PROGRESS")
    if not folder:
        yield from range(first, first + count)
        return
    path = Path(folder) / f"{kind}.seed"
    path.parent.mkdir(parents=True, exist_ok=True)
    start = max(first, int(path.read_text())) if path.exists() else first
    for seed in range(start, first + count):
        path.write_text(str(seed))
        yield seed
    path.unlink(missing_ok=True)
