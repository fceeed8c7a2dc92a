"""`tidegate ui` as a person starts it, and how it ends: with everything that it has started."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from infra.kafka.broker import free_port


def until(what: Callable[[], bool], seconds: float = 30.0) -> None:
    deadline = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def gone(pid: int) -> bool:
    """Whether the process has ended; one that nobody has asked for its exit code has."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except OSError:
        return True


def below(pid: int) -> set[int]:
    """All processes that a process has started, and what they have."""
    found = set()
    with suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in map(int, (task / "children").read_text().split()):
                found |= {child, *below(child)}
    return found


@contextmanager
def served(root: Path) -> Iterator[str]:
    """The address of the project's UI, once it answers. After the block the command gets SIGTERM, and nothing of
    Dagster is left behind."""
    port, log = free_port(), root / "ui.log"
    command = [sys.executable, "-m", "tidegate.cli.main", "ui", "--port", str(port)]
    with log.open("wb") as out:
        process = subprocess.Popen(command, cwd=root, stdout=out, stderr=out)
    address = f"http://127.0.0.1:{port}"

    def up() -> bool:
        assert process.poll() is None, log.read_text()[-4000:]
        try:
            urllib.request.urlopen(f"{address}/server_info", timeout=5).close()
        except OSError:
            time.sleep(0.3)
            return False
        return True

    try:
        until(up, 240)
        yield address
        started = below(process.pid)
        assert len(started) >= 3  # Dagster, its web server and its daemon
        process.send_signal(signal.SIGTERM)
        assert process.wait(90) == 128 + signal.SIGTERM
        until(lambda: all(map(gone, started)))
        with pytest.raises(OSError, match="refused"):
            socket.create_connection(("127.0.0.1", port), 5)
    finally:
        process.kill()
