"""`tidegate ui` ends with everything that it has started, however it is ended."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest

#: In the place of `dagster dev`: a service below it that does not listen, and one in order.
STANDS_IN = """
import os, signal, subprocess, sys, time
deaf = "import signal, time; signal.signal(signal.SIGINT, signal.SIG_IGN); print('up', flush=True); time.sleep(300)"
service = subprocess.Popen([sys.executable, "-c", deaf], stdout=subprocess.PIPE)
service.stdout.readline()
def ended(*_):
    open("ended", "w").close()
    if sys.argv[1] != "polite":
        time.sleep(300)
    sys.exit(0)
signal.signal(signal.SIGINT, ended)
signal.signal(signal.SIGTERM, ended)
with open("pids.part", "w") as file:
    file.write(f"{os.getpid()} {service.pid}")
os.rename("pids.part", "pids")
if sys.argv[1] == "crashes":
    sys.exit(3)
time.sleep(300)
"""
PARENT = """
import os, sys
from pathlib import Path
from tidegate.cli.child import Foreground
command = [sys.executable, "-c", sys.argv[3], sys.argv[1]]
sys.exit(Foreground(grace=float(sys.argv[2])).run(command, os.environ, Path.cwd()))
"""


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


def start(folder: Path, how: str, grace: float) -> tuple[subprocess.Popen[bytes], list[int]]:
    (folder / how).mkdir()
    command = [sys.executable, "-c", PARENT, how, str(grace), STANDS_IN]
    process = subprocess.Popen(command, cwd=folder / how)
    until((folder / how / "pids").exists)
    return process, [int(pid) for pid in (folder / how / "pids").read_text().split()]


@pytest.mark.medium
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_to_the_command_alone_ends_all_of_its_group(tmp_path: Path, number: signal.Signals) -> None:
    process, pids = start(tmp_path, "polite", grace=0.3)
    process.send_signal(number)
    assert process.wait(20) == 128 + number
    assert (tmp_path / "polite" / "ended").exists()
    until(lambda: all(map(gone, pids)))


@pytest.mark.medium
def test_a_second_signal_does_not_wait(tmp_path: Path) -> None:
    process, pids = start(tmp_path, "stubborn", grace=200)
    process.send_signal(signal.SIGINT)
    until((tmp_path / "stubborn" / "ended").exists)
    process.send_signal(signal.SIGINT)
    assert process.wait(20) == 130
    until(lambda: all(map(gone, pids)))


def test_what_is_left_of_a_program_that_crashed_is_ended(tmp_path: Path) -> None:
    process, pids = start(tmp_path, "crashes", grace=200)
    assert process.wait(20) == 3
    until(lambda: all(map(gone, pids)))


def test_the_program_is_ended_in_order_when_the_command_is_killed(tmp_path: Path) -> None:
    process, pids = start(tmp_path, "polite", grace=200)
    process.kill()
    process.wait()
    until(lambda: gone(pids[0]))
    assert (tmp_path / "polite" / "ended").exists()
    os.kill(pids[1], signal.SIGKILL)  # the stand-in's own is left to it, as Dagster's services are to Dagster


def below(pid: int) -> set[int]:
    """All processes that a process has started, and what they have."""
    found = set()
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in map(int, (task / "children").read_text().split()):
            found |= {child, *below(child)}
    return found


@pytest.mark.slow
def test_nothing_of_dagster_is_left_behind(shop: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "tidegate.cli.main", "ui", "--port", str(port)]
    with (shop / "ui.log").open("wb") as log:
        process = subprocess.Popen(command, cwd=shop, stdout=log, stderr=log)

    def up() -> bool:
        assert process.poll() is None, (shop / "ui.log").read_text()
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/server_info", timeout=5).close()
        except OSError:
            return False
        return True

    try:
        until(up, 240)
        started = below(process.pid)
        assert len(started) >= 3  # Dagster, its web server and its daemon
        process.send_signal(signal.SIGTERM)
        assert process.wait(90) == 143
        until(lambda: all(map(gone, started)))
        with pytest.raises(OSError, match="refused"):
            socket.create_connection(("127.0.0.1", port), 5)
    finally:
        process.kill()
