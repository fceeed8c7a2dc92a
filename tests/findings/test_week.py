"""A simulated week in which all is well: nobody is told anything. The clock is made up; a look every minute."""

from __future__ import annotations

import math
import random
from datetime import UTC, datetime

import pytest

from tests.findings.made import NOON, part, source, view
from tidegate.alerts import State, plan
from tidegate.findings import EarlierLooks, diagnose
from tidegate.findings.facts import ProjectFacts
from tidegate.project.jobs.alerts import Alerts
from tidegate.project.jobs.stalls import StallLimits
from tidegate.store.writers import WriterState

ALERTS = Alerts.model_validate(
    {
        "targets": [{"name": "team", "url": "json://localhost"}],
        "routes": [{"to": ["team"], "severity": "warning", "repeat_after": "1 day"}],
    }
)
MINUTE, DAY = 60, 86_400


class Pipeline:
    """Three partitions with a day's rhythm, some late rows, nights without a row, deployments, and a spike."""

    def __init__(self) -> None:
        self.random = random.Random(6)
        self.ends = dict.fromkeys("abc", 0.0)
        self.read = dict.fromkeys("abc", 0)
        self.late = dict.fromkeys("abc", 0)
        self.newest = dict.fromkeys("abc", 0.0)
        self.came = dict.fromkeys("abc", 0.0)
        self.commits: list[tuple[float, list]] = []

    def rate(self, at: float) -> float:
        """Rows a second of each partition: none at night, most at noon, forty times that in a sale."""
        hour = at % DAY / 3_600
        busy = max(0.0, math.sin((hour - 5) / 18 * math.pi)) if 5 <= hour <= 23 else 0.0
        return 50 * busy * (40 if 3 * DAY + 43_200 <= at < 3 * DAY + 43_500 else 1)

    def minute(self, at: float, dead: str = "") -> None:
        """One more; nothing comes to the partition `dead`."""
        down = at % DAY in range(36_000, 36_000 + 3 * MINUTE)  # a deployment every morning
        for name in self.ends:
            new = 0.0 if name == dead else self.rate(at) * MINUTE * self.random.uniform(0.5, 1.5)
            self.ends[name] += int(new)
            if new >= 1:
                self.came[name] = at
        if down:
            return
        parts, moved = [], False
        for name in self.ends:
            rows = min(int(self.ends[name]) - self.read[name], 120_000)
            if rows > 0:
                moved = True
                self.read[name] += rows
                self.late[name] += int(rows * 0.02)
                self.newest[name] = max(self.newest[name], self.came[name] - self.random.uniform(0, 20))
            quiet = at - self.came[name] > 300
            parts.append(
                part(
                    name,
                    self.came[name],
                    self.newest[name],
                    on_time=self.read[name] - self.late[name],
                    late=self.late[name],
                    state="idle" if quiet else "active",
                    end=int(self.ends[name]),
                )
            )
        if moved or not self.commits:
            self.commits.append((at, parts))
            self.commits = self.commits[-12:]

    def facts(self, at: float) -> ProjectFacts:
        """What a look would see: six commits of the last quarter of an hour."""
        chosen = [c for c in self.commits[:-1] if at - c[0] <= 900][::3] + self.commits[-1:]
        writer = WriterState("held", 1, "here", NOON)
        ends = {name: int(end) for name, end in self.ends.items()}
        return ProjectFacts(
            NOON + at, (source(*chosen, end=ends, writer=writer, expected="live"),), (view(writer=writer),)
        )


@pytest.mark.medium
def test_silence_for_a_simulated_week_when_all_is_well() -> None:
    pipeline, memory, state = Pipeline(), EarlierLooks(1), State()
    looks, infos = 0, set()
    for minute in range(7 * DAY // MINUTE):
        at = minute * MINUTE
        pipeline.minute(at)
        findings, memory = diagnose(pipeline.facts(at), lambda name: StallLimits(), memory)
        now = datetime.fromtimestamp(NOON + at, UTC)
        state = plan(ALERTS, state, findings, now, "shop/local")
        infos |= {f.kind for f in findings}
        assert state.outbox == (), (at, state.outbox)
        looks += 1
    assert (looks, infos) == (10_080, {"idle"})
    # Both cursors stayed small all the time.
    assert len(str(memory.to_json())) + len(str(state.to_json())) < 4_000


@pytest.mark.medium
def test_one_message_when_a_partition_dies_and_one_when_it_is_back() -> None:
    pipeline, memory, state = Pipeline(), EarlierLooks(1), State()
    told = []
    for minute in range(2 * DAY // MINUTE):
        at = minute * MINUTE
        pipeline.minute(at, dead="b" if DAY + 43_200 <= at < DAY + 46_800 else "")
        findings, memory = diagnose(pipeline.facts(at), lambda name: StallLimits(), memory)
        state = plan(ALERTS, state, findings, datetime.fromtimestamp(NOON + at, UTC), "shop/local")
        told += [(at, m.title) for m in state.outbox]
        state = State(state.open)
    assert [title for _, title in told] == [
        "tidegate shop/local: 1 problem: s",
        "tidegate shop/local: 1 over: s",
    ]
    # A quarter of an hour after the last row; and five minutes after the last look that saw it.
    assert 900 <= told[0][0] - (DAY + 43_200) <= 960
    assert 240 <= told[1][0] - (DAY + 46_800) <= 360
