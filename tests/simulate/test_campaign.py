"""How many seeds are shared by processes, and what of them is taken down.

The processes import this module again, so nothing that plays a history is imported here.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Sequence
from multiprocessing import get_context
from pathlib import Path

import pytest

from tests.simulate import campaign
from tests.simulate.campaign import Progress, Tally, play_all
from tests.simulate.patience import limited


def test_a_long_run_goes_on_where_it_was_stopped(tmp_path: Path) -> None:
    file = tmp_path / "progress.json"
    progress = Progress(file, 0, 25, "this tree")
    portions = list(progress.waiting())
    assert [len(portion) for portion in portions] == [10, 10, 5]
    tally = Tally(10, cpu_seconds=1.5)
    tally.steps[40] += 10
    tally.pairs["write plan: torn"] += 3
    tally.failures[7] = "wrong"
    progress.add(portions[0], tally)
    again = Progress(file, 0, 25, "this tree")
    assert list(again.waiting()) == portions[1:]
    assert again.tally == tally
    assert list(Progress(file, 0, 25, "another tree").waiting()) == portions


def _dies_at_seed_7(seeds: Sequence[int]) -> Tally:
    if 7 in seeds:
        os._exit(1)
    return Tally(len(seeds))


@pytest.mark.medium
def test_a_seed_that_ends_its_process_has_failed_and_the_others_are_played(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(campaign, "TOGETHER", 3)
    tally = play_all(Progress(None, 0, 12, "this tree"), 2, lambda tally: None, _dies_at_seed_7)
    assert tally.seeds == 12
    assert list(tally.failures) == [7]


def _plays(seeds: Sequence[int]) -> Tally:
    return Tally(len(seeds))


@pytest.mark.medium
def test_a_run_outlives_its_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of which plays so many portions, and no more."""
    monkeypatch.setattr(campaign, "TOGETHER", 1)
    monkeypatch.setattr(campaign, "TASKS", 2)
    assert play_all(Progress(None, 0, 11, "this tree"), 2, lambda tally: None, _plays).seeds == 11


def _takes(cpu: float, seconds: float) -> None:
    """In a history that may take half a second of CPU."""
    from tidegate.tasks.decode.limits import STANDARD

    with limited(0.5):
        # (A decoder has limits of its own, in the same process.)
        with STANDARD.bounded():
            pass
        time.sleep(seconds)
        began = time.process_time()
        while time.process_time() < began + cpu:
            pass


@pytest.mark.long_run
@pytest.mark.medium
def test_a_history_is_ended_by_the_cpu_that_it_takes_however_busy_the_machine_is() -> None:
    ends = []
    for cpu, seconds in ((0.1, 0.9), (60, 0)):
        process = get_context("spawn").Process(target=_takes, args=(cpu, seconds))
        process.start()
        process.join()
        ends.append(process.exitcode)
    assert ends == [0, -signal.SIGXCPU]
