"""`make profile`: CPU goes to the innermost step, and a whole run has all of them."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.benchmarks.bench import ENVIRON, ROOT
from tests.benchmarks.profile import Profile
from tests.benchmarks.tick import table_of, ticks_of, topic_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.support.kafka import Broker


def burn(seconds: float) -> None:
    until = time.process_time() + seconds
    while time.process_time() < until:
        pass


def profile_of(*arguments: str, timeout: int) -> str:
    """What `make profile` prints."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.benchmarks.profile", *arguments],
        cwd=ROOT,
        env=ENVIRON,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


@pytest.mark.medium
def test_cpu_is_the_innermost_steps() -> None:
    profile = Profile()

    def items() -> object:
        for _ in range(2):
            burn(0.05)
            yield 1

    with profile.step("outer"):
        burn(0.05)
        for _ in profile.wrapped(items, "made")():
            burn(0.02)
    profile.end()
    assert profile.steps["log: made"][0] == pytest.approx(0.1, abs=0.02)
    assert profile.steps["outer"][0] == pytest.approx(0.09, abs=0.02)


@pytest.mark.long_run
@pytest.mark.slow
def test_a_run_has_all_steps() -> None:
    printed = profile_of("files", "--rows", "150000", timeout=300)
    steps = {}
    for line in printed.splitlines()[2:]:
        name, own, jvm = (cell.strip() for cell in line.strip("|").split("|"))
        steps[name] = (float(own), float(jvm))
    for name in (
        "log: read Parquet",
        "log: judge",
        "log: write Parquet",
        "view: read back",
        "view: aggregate",
    ):
        assert steps[name][0] > 0, printed
    assert steps["log: commit"][1] > 0, printed
    assert steps["in all"][0] == pytest.approx(sum(s[0] for n, s in steps.items() if n != "in all"), rel=0.05)


#: Round trips to the JVM in a warm tick of one group, without those that let go of an object.
MOST_CALLS = 60


@pytest.mark.slow
def test_a_warm_tick_asks_the_jvm_seldom(tmp_path: Path, kafka: Broker, spark: SparkSession) -> None:
    """Of one source, one view, 200 messages from three partitions. More calls than these mean that something is asked
    anew in each tick: an iterator of Java's that is read to its end is ninety."""
    with topic_of(kafka.bootstrap) as given:
        profile, calls, _ = ticks_of(tmp_path, given, rows=200, warm=6, measured=2, spark=spark)
    asked = calls.by_step.total() - calls.frees
    assert 0 < asked / 2 <= MOST_CALLS, table_of(profile, calls, 2)


@pytest.mark.long_run
@pytest.mark.slow
def test_a_tick_has_all_steps() -> None:
    """It fails by itself if a tick does not have its rows, or closes no window."""
    printed = profile_of("tick-files", "--warm", "3", "--ticks", "3", timeout=300)
    steps = {}
    for line in printed.split("\n\n")[0].splitlines()[2:]:
        name, *spent = (cell.strip() for cell in line.strip("|").split("|"))
        steps[name] = [float(value) for value in spent]
    for name in ("source: job", "view: job"):
        assert min(steps[name]) > 0, printed
    # Files are listed by the driver, without the JVM.
    for name, process in (("source: look for rows", 0), ("view: find files", 1), ("commit", 1)):
        assert steps[name][process] > 0, printed
    for column in range(4):
        total = sum(spent[column] for name, spent in steps.items() if name != "in all")
        assert steps["in all"][column] == pytest.approx(total, abs=1.5)
