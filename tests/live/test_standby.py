"""The right to run live mode for a group (`live/standby.py`): by locks of this machine."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.live.test_supervisor import A, B
from tidegate.errors import TidegateError
from tidegate.live.groups import Group
from tidegate.live.machine_lease import machine_lease
from tidegate.live.standby import LiveLeases
from tidegate.plan.events import Event, LiveStandsBy


def leases(folder: Path, told: list[Event | str], *groups: Group) -> LiveLeases:
    found = LiveLeases(groups, partial(machine_lease, folder), told.append)
    found.url = "http://127.0.0.1:1"
    return found


class Waiting:
    """Leases that are waited for in a thread."""

    def __init__(self, folder: Path, *groups: Group) -> None:
        self.told: list[Event | str] = []
        self.leases = leases(folder, self.told, *groups)
        self.found: list[Any] = []
        self._thread = threading.Thread(target=lambda: self.found.append(self.leases.all()), daemon=True)
        self._thread.start()

    def until_told(self) -> LiveStandsBy:
        deadline = time.monotonic() + 20
        while not self.told:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        (event,) = self.told
        assert isinstance(event, LiveStandsBy)
        return event

    def end(self) -> Any:
        self._thread.join(20)
        assert not self._thread.is_alive()
        return self.found[0]


def test_R2_one_that_stands_by_waits_until_the_other_one_has_ended(tmp_path: Path) -> None:
    told: list[Event | str] = []
    with leases(tmp_path, told, A).free():
        second = Waiting(tmp_path, A, B)
        event = second.until_told()
        assert (event.groups, event.url) == (("a", "b"), "http://127.0.0.1:1")
        assert event.why.startswith('another process runs live mode for "a": process ')
        assert second.leases.waits
        # Who waits for one group has none of the others.
        with machine_lease(tmp_path, "b"):
            time.sleep(0.7)
    with second.end():
        assert not second.leases.waits
        for name in ("a", "b"):
            with pytest.raises(TidegateError) as caught, machine_lease(tmp_path, name):
                pass
            assert caught.value.code == "TG508"
            assert caught.value.hint is not None
            assert "--standby" in caught.value.hint
        # The groups that are free are had without waiting; the others are for the workers to ask for.
        with leases(tmp_path, told, A, B, Group("c", ("c",))).free(), pytest.raises(TidegateError):
            machine_lease(tmp_path, "c").__enter__()
    assert [str(one)[:58] for one in told] == [
        f'live mode starts without this right: another process runs live mode for "{name}"'[:58]
        for name in "ab"
    ]
    assert len(second.told) == 1


def test_one_that_stands_by_ends_when_it_is_told_to(tmp_path: Path) -> None:
    with leases(tmp_path, [], A).free():
        second = Waiting(tmp_path, A)
        second.until_told()
        second.leases.stop()
        assert second.end() is None


def test_R2_a_killed_holder_has_no_lease_any_more(tmp_path: Path) -> None:
    code = (
        "import sys, time\n"
        "from pathlib import Path\n"
        "from tidegate.live.machine_lease import machine_lease\n"
        "with machine_lease(Path(sys.argv[1]), 'a'):\n"
        "    print('has it', flush=True)\n"
        "    time.sleep(600)\n"
    )
    first = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE)
    assert first.stdout is not None
    first.stdout.readline()
    second = Waiting(tmp_path, A)
    assert f"process {first.pid} on" in second.until_told().why
    first.kill()
    killed = time.monotonic()
    first.wait()
    with second.end():
        assert time.monotonic() - killed < 5
