"""One writer for each log: a lock that names its holder and dies with it.

The lock gives a clear error early; what keeps a log correct whatever happens is the fenced commit (`commit.py`).
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from tidegate.errors import TidegateError
from tidegate.project.disk import private_folder


@contextmanager
def lease(folder: Path, name: str) -> Iterator[None]:
    """Hold the lease of relation `name` while the block runs. Raises TG508 and says who holds it."""
    private_folder(folder)
    # Opened without truncating: until the lock is ours, the text is the holder's.
    with open(folder / f"{name}.lock", "a+", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise TidegateError(
                "TG508",
                f'another process is writing "{name}": {holder(folder, name)}',
                hint="wait for it, or stop it; the lock is released when that process ends",
            ) from None
        file.truncate(0)
        file.write(
            json.dumps(
                {
                    "pid": os.getpid(),
                    "host": socket.gethostname(),
                    "since": datetime.now(UTC).isoformat(timespec="seconds"),
                }
            )
        )
        file.flush()
        try:
            yield
        finally:
            file.truncate(0)


def holder(folder: Path, name: str) -> str:
    """Who holds a lease, in words."""
    try:
        facts = json.loads((folder / f"{name}.lock").read_text(encoding="utf-8"))
        return f"process {facts['pid']} on {facts['host']}, since {facts['since']}"
    except (OSError, ValueError, KeyError):
        return "holder unknown"
