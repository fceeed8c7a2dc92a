"""How much of the machine's CPU is in use, by its counters and those of limits (`store/machine.py`)."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tidegate.store.machine import CpuMeter, CpuUse, Used, cpu_used

TICKS = os.sysconf("SC_CLK_TCK")


def machine(root: Path, group: str = "/", *cores: str) -> Path:
    """A root with 100 s of users, 20 niced, 30 of the system, 1000 idle, 50 for disks, 1 and 2 of interrupts, 7 stolen,
    and 100 for guests, which are those of users."""
    numbers = " ".join(str(number * TICKS) for number in (100, 20, 30, 1000, 50, 1, 2, 7, 100, 0))
    (root / "proc/self").mkdir(parents=True)
    lines = [f"cpu  {numbers}", *(f"{core} {numbers}" for core in cores), "intr 1 2 3", "btime 7"]
    (root / "proc/stat").write_text("\n".join(lines))
    (root / "proc/self/cgroup").write_text(f"1:cpu:/old\n0::{group}\n")
    return root


def limit(folder: Path, quota: str, used: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "cpu.max").write_text(f"{quota} 100000\n")
    (folder / "cpu.stat").write_text(f"usage_usec {used}\nuser_usec 1\n")


def test_all_that_is_not_idle_is_used(tmp_path: Path) -> None:
    assert cpu_used(machine(tmp_path, "/", "cpu0", "cpu1")) == {"machine": (160.0, 2.0)}


def test_limits_of_a_container_and_of_what_it_is_in(tmp_path: Path) -> None:
    root = machine(tmp_path, "/pods/one", "cpu0", "cpu1")
    groups = root / "sys/fs/cgroup"
    limit(groups / "pods/one", "150000", 3_000_000)
    limit(groups / "pods", "max", 9_000_000)
    limit(groups, "50000", 4_500_000)
    assert cpu_used(root) == {
        "machine": (160.0, 2.0),
        str(groups / "pods/one"): (3.0, 1.5),
        str(groups): (4.5, 0.5),
    }


def test_without_proc_nothing_is_known(tmp_path: Path) -> None:
    assert cpu_used(tmp_path) == {}
    machine(tmp_path)  # without a line for a core
    assert cpu_used(tmp_path) == {}
    assert CpuMeter(0.0, read=lambda: {}).use() is None


class Read:
    """Counters, and a clock, of the test."""

    def __init__(self, **used: tuple[float, float]) -> None:
        self.now, self.used = 100.0, used
        self.asked = 0
        self.meter = CpuMeter(10.0, lambda: self.now, self.read)

    def read(self) -> Used:
        self.asked += 1
        return dict(self.used)

    def passes(self, seconds: float, **cores: float) -> CpuUse | None:
        self.now += seconds
        for name, used in cores.items():
            self.used[name] = (self.used[name][0] + used * seconds, self.used[name][1])
        return self.meter.use()


def test_the_mean_of_the_span_is_told_once_that_is_over() -> None:
    read = Read(machine=(5.0, 2.0))
    assert read.passes(9.0, machine=2.0) is None
    assert read.passes(1.0, machine=1.0) == CpuUse(pytest.approx(1.9), 2.0)
    assert read.meter.is_full
    for _ in range(9):
        read.passes(1.0, machine=1.0)
    # Of the last ten seconds, whatever was before.
    assert read.passes(1.0, machine=0.5) == CpuUse(pytest.approx(0.95), 2.0)
    assert not read.meter.is_full
    # Counters are read ten times in a span, however often it is asked.
    asked = read.asked
    for _ in range(50):
        read.passes(0.1)
    assert 4 <= read.asked - asked <= 5


def test_the_limit_with_the_least_to_spare_is_told() -> None:
    read = Read(machine=(0.0, 8.0), container=(0.0, 1.5))
    assert read.passes(10.0, machine=4.0, container=1.4) == CpuUse(pytest.approx(1.4), 1.5)
    assert read.meter.is_full
    # What is gone has no mean.
    del read.used["container"]
    assert read.passes(10.0, machine=4.0) == CpuUse(pytest.approx(4.0), 8.0)


def test_what_another_process_uses_is_seen() -> None:
    meter = CpuMeter(0.5)
    if not Path("/proc/stat").is_file():
        # Nothing is known there, and nothing is full.
        assert (cpu_used(), meter.use(), meter.is_full) == ({}, None, False)
        return
    before = cpu_used()["machine"]
    work = "import time\nwhile time.process_time() < 0.5: pass"
    subprocess.run([sys.executable, "-c", work], check=True)
    time.sleep(0.1)
    after = cpu_used()["machine"]
    assert after[0] - before[0] >= 0.45
    assert after[1] == before[1] >= 1
    use = meter.use()
    assert use is not None
    assert 0.0 < use.used <= use.cores * 1.1
