"""What groups cost, and which ones are late because the machine is too small (`live/load.py`)."""

from __future__ import annotations

import subprocess
import sys

from tidegate.live.load import Load
from tidegate.live.process import cpu_seconds
from tidegate.live.workers import WorkTime
from tidegate.plan.events import TickFinished
from tidegate.store.machine import CpuUse
from tidegate.store.writers import GroupLoad, LateGroup


class Worked:
    """Groups of a worker of all, and one of its own, by a clock of the test."""

    def __init__(self, **intervals: float) -> None:
        self.now, self.spends = 0.0, {1: 100.0, 2: 7.0}
        self.loads: list[tuple[GroupLoad, ...]] = []
        self.late: list[tuple[LateGroup, ...]] = []
        self.cpu: list[CpuUse | None] = []
        self.use: CpuUse | None = None
        self.spent: list[tuple[str, float]] = []
        self.work = WorkTime(lambda: self.now)
        self.load = Load(
            intervals.__getitem__,
            lambda: {"*": 1, "own": 2},
            self.work.taken,
            self._told,
            lambda group, seconds: self.spent.append((group, seconds)),
            lambda: self.now,
            self.spends.get,
            lambda: self.use,
        )

    def _told(self, *, loads: tuple[GroupLoad, ...], late: tuple[LateGroup, ...], cpu: CpuUse | None) -> None:
        self.loads.append(loads)
        self.late.append(late)
        self.cpu.append(cpu)

    def works(self, group: str, seconds: float, rows: int = 0) -> None:
        """A tick, after which it rests."""
        self.work.begins(group)
        self.now += seconds
        self.work.rests(group)
        self.load(group, TickFinished(group, 1, rows, False, seconds, 0.0, bytes=100 * rows))

    def at(self, now: float) -> None:
        """Time passes until then."""
        self.now = now
        self.load.beat()

    def minute(self, seconds: float = 0.1, backlog: bool = False, **waited: float) -> None:
        for _ in range(6):
            self.now += 10
            for group, waits in waited.items():
                self.load(group, TickFinished(group, 1, 0, backlog, seconds, 0.0, (), waits))
        self.load(None, "words")


def test_the_mean_of_minutes_is_told_when_it_has_changed() -> None:
    worked = Worked(a=2.0, b=10.0, c=2.0)
    worked.minute(a=3.0, b=9.0)
    worked.minute(a=3.0, b=9.0)
    # (How often they ticked is another mean than in the minute before.)
    assert set(worked.late) == {(LateGroup("a", 2.0, 3.0, 0.1),)}
    worked.minute(a=3.0, b=60.0, c=1.0)
    assert worked.late[-1] == (LateGroup("b", 10.0, 24.0, 0.1), LateGroup("a", 2.0, 3.0, 0.1))
    for _ in range(6):
        worked.minute(a=0.0, b=0.0)
    assert worked.late[-1] == ()
    told = len(worked.late)
    worked.minute(a=0.0, b=0.0)
    assert len(worked.late) == told, "nothing has changed"


def test_one_long_wait_is_no_mean() -> None:
    worked = Worked(a=2.0)
    worked.load("a", TickFinished("a", 1, 0, False, 0.1, 0.0, (), 99.0))
    worked.now = 61.0
    worked.load(None, "words")
    assert worked.late == [()]


def test_ticks_that_no_thread_is_waited_for_are_late_where_the_cpu_is_fully_used() -> None:
    worked = Worked(a=1.0, b=5.0)
    # What is slow has another reason, as long as there are cores to spare, or nothing is known of them.
    for use in (None, CpuUse(1.79, 2.0)):
        worked.use = use
        worked.minute(seconds=7.2, a=0.0, b=0.0)
        assert (worked.late[-1], worked.cpu[-1]) == ((), None)
    worked.use = CpuUse(1.912345, 2.0)
    worked.minute(seconds=7.2, a=0.0, b=0.5)
    # (7.7 s are 1.5 times the interval of b; its ticks of before took 7.2 s.)
    assert worked.late[-1] == (LateGroup("a", 1.0, 0.0, 7.2),)
    assert worked.cpu[-1] == CpuUse(1.91, 2.0)
    for _ in range(5):
        worked.minute(seconds=7.2, a=0.0, b=0.5)
    assert worked.late[-1] == (LateGroup("a", 1.0, 0.0, 7.2), LateGroup("b", 5.0, 0.5, 7.2))
    worked.use = CpuUse(0.2, 2.0)
    worked.minute(seconds=7.2, a=0.0)
    assert (worked.late[-1], worked.cpu[-1]) == ((), None)


def test_a_backlog_alone_is_not_late_but_makes_others_late() -> None:
    worked = Worked(behind=1.0, quick=1.0)
    worked.use = CpuUse(2.0, 2.0)
    for _ in range(5):
        worked.minute(seconds=6.0, backlog=True, behind=2.0)
    assert worked.late[-1] == ()
    for _ in range(5):
        worked.minute(seconds=6.0, backlog=True, behind=0.0)
        worked.minute(seconds=2.5, quick=0.0)
    assert worked.late[-1] == (LateGroup("behind", 1.0, 0.0, 6.0, True), LateGroup("quick", 1.0, 0.0, 2.5))
    # The tick that works off the rest is none by its interval; those behind it are.
    worked.load("behind", TickFinished("behind", 1, 0, False, 99.0, 0.0))
    for _ in range(5):
        worked.minute(seconds=2.5, behind=0.0)
    assert worked.late[-1] == (LateGroup("behind", 1.0, 0.0, 2.5),)


def test_backlogs_of_several_groups_make_each_other_late() -> None:
    worked = Worked(a=1.0, b=1.0)
    for use, late in (
        (CpuUse(1.0, 2.0), ()),
        (CpuUse(2.0, 2.0), (LateGroup("a", 1.0, 0.0, 6.0, True), LateGroup("b", 1.0, 0.0, 6.0, True))),
    ):
        worked.use = use
        for _ in range(5):
            worked.minute(seconds=6.0, backlog=True, a=0.0, b=0.0)
        assert worked.late[-1] == late


def test_two_ticks_that_take_very_long_are_late_too() -> None:
    worked = Worked(a=10.0)
    worked.use = CpuUse(2.0, 2.0)
    for _ in range(2):
        worked.now += 140.0
        worked.load("a", TickFinished("a", 1, 0, False, 140.0, 0.0))
    worked.at(300.0)
    assert worked.late[-1] == (LateGroup("a", 10.0, 0.0, 140.0),)


def test_the_cpu_time_of_a_worker_is_divided_by_the_time_for_which_groups_were_at_work() -> None:
    worked = Worked(a=2.0, b=2.0, own=2.0)
    worked.at(10.0)  # the first look, after which CPU time counts
    for group, seconds, rows in (("a", 2.0, 500), ("b", 1.0, 0), ("own", 3.0, 10), ("a", 1.0, 700)):
        worked.works(group, seconds, rows)
    worked.spends |= {1: 114.0, 2: 8.5}
    worked.at(20.0)
    assert worked.spent == [("a", 10.5), ("b", 3.5), ("own", 1.5)]
    # A process that has ended says nothing; another one has used what it has used before it was looked at.
    worked.works("a", 1.5)
    del worked.spends[1]
    worked.at(60.0)
    assert worked.loads == [
        (
            GroupLoad("a", cores=0.175, busy=0.075, rows_per_second=20.0, most_rows=700, most_bytes=70_000),
            GroupLoad("b", cores=0.058, busy=0.017, rows_per_second=0.0, most_rows=0),
            GroupLoad("own", cores=0.025, busy=0.05, rows_per_second=0.2, most_rows=10, most_bytes=1_000),
        )
    ]
    worked.spends[1] = 3.0
    worked.works("b", 1.0)
    worked.at(70.0)
    assert len(worked.spent) == 3, "what a process had used before is no cost of a tick"


def test_a_group_whose_tick_does_not_end_is_billed_as_its_time_passes() -> None:
    """Nothing is told of it, and it uses all there is; the other one ticks for a moment in each period."""
    worked = Worked(hangs=2.0, quick=2.0)
    worked.at(5.0)
    worked.work.begins("hangs")
    worked.at(10.0)
    for _ in range(29):
        worked.spends[1] += 10.0
        worked.works("quick", 1.0)
        worked.at(worked.now + 9.0)
    shares = [dict(worked.spent[n : n + 2]) for n in range(0, 58, 2)]
    assert all(round(share["hangs"], 2) == 9.09 and round(share["quick"], 2) == 0.91 for share in shares)
    culprit, other = worked.loads[-1]
    assert (culprit.group, culprit.busy, culprit.most_rows) == ("hangs", 0.983, 0)
    assert (other.group, other.busy) == ("quick", 0.097)
    assert culprit.cores > 9 * other.cores
    # At rest, it costs nothing, and is forgotten after some minutes.
    worked.work.rests("hangs")
    spent = len(worked.spent)
    for _ in range(40):
        worked.at(worked.now + 10.0)
    assert len(worked.spent) == spent
    assert worked.loads[-1] == ()


def test_nothing_that_happens_is_needed_for_the_culprit_to_be_told() -> None:
    worked = Worked(hangs=2.0)
    worked.work.begins("hangs")
    for ten in range(1, 7):
        worked.spends[1] += 10.0
        worked.at(10.0 * ten)
    assert [(one.group, one.busy, one.cores) for one in worked.loads[-1]] == [("hangs", 1.0, 0.833)]


def test_cpu_time_is_that_of_the_whole_family() -> None:
    work = "import time\nwhile time.process_time() < 0.3: pass"
    child = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {work!r}]); print(1, flush=True); input()"
    with subprocess.Popen([sys.executable, "-c", child], stdin=-1, stdout=-1) as parent:
        assert parent.stdout is not None
        parent.stdout.readline()
        spent = cpu_seconds(parent.pid)
        assert spent is not None
        # (Linux counts whole hundredths of a second, of each process and kind.)
        assert 0.3 - 4 * 0.01 <= spent < 5.0
        parent.communicate(b"\n")
    assert cpu_seconds(parent.pid) is None
