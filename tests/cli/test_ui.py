"""`tidegate ui` ends with everything that it has started, however it is ended."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.ui import gone, served, until

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


@pytest.mark.long_run
@pytest.mark.slow
def test_nothing_of_dagster_is_left_behind(shop: Path) -> None:
    """As behind the one whose pages `tests/dagster/test_browser.py` looks at."""
    with served(shop):
        pass
