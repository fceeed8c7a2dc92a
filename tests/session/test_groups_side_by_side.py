"""Groups of one driver on Spark, in threads side by side: under the same names each has columns of other types."""

from __future__ import annotations

import json
import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from tests.conftest import Workbench
from tests.oracles.oracle import Oracle, Row, View
from tidegate.plan.events import BatchCommitted, Event, MemberFailed, WorkerFailed
from tidegate.session.hands import Threads
from tidegate.session.live import LiveGroup
from tidegate.session.live_driver import LiveDriver, Opening, Pace
from tidegate.session.session import Session

pytestmark = [pytest.mark.spark, pytest.mark.medium]

BASE = datetime(2026, 1, 1)
#: The type of `x` in each group, and a value of it.
TYPES: dict[str, Callable[[int], Any]] = {
    "INT": int,
    "BIGINT": lambda n: n * 10**12,
    "DOUBLE": lambda n: n / 8,
    "DECIMAL(12, 2)": lambda n: Decimal(n) / 100,
    "VARCHAR": lambda n: f"x{n:06}",
    "BOOLEAN": lambda n: n % 2 == 0,
    "DATE": lambda n: date(2026, 1, 1) + timedelta(days=n % 900),
    "TIMESTAMP": lambda n: BASE + timedelta(seconds=n),
}
SOURCE = """CREATE SOURCE {name} (x {kind}, n INT, ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL '{delay} seconds')
WITH (connector = 'filesystem', path = 'in/{name}', max_files_per_batch = 1) FORMAT PLAIN ENCODE JSON;
CREATE MATERIALIZED VIEW v_{name} AS SELECT window_start, max(x) AS most, sum(n) AS total, count(*) AS c
FROM TUMBLE({name}, ts, INTERVAL '{size} seconds') GROUP BY window_start EMIT ON WINDOW CLOSE;
"""


@dataclass
class Fed:
    """A group, to which a file comes with each batch; and what the rules say of it."""

    workbench: Workbench
    name: str
    kind: str
    delay: int
    size: int
    batches: int
    rng: random.Random
    done: int = 0
    committed: int = 0
    offset: int = 0
    oracle: Oracle = field(init=False)

    def __post_init__(self) -> None:
        view = View(
            "v",
            size=self.size,
            aggregates={"most": ("max", "x"), "total": ("sum", "n"), "c": ("count", None)},
        )
        self.oracle = Oracle(
            lambda row: None if row.event_time is None else row.event_time - self.delay, [view]
        )
        self.oracle.enumerate(["0"])

    def feed(self) -> None:
        """The next file: half of its rows behind the newest one of the file before."""
        rows = []
        for _ in range(20):
            number, at = self.rng.randrange(10_000), self.done * 10 + self.rng.randrange(-10, 10)
            value = TYPES[self.kind](number)
            rows.append({"x": value, "n": number % 100, "ts": BASE + timedelta(seconds=at)})
            self.oracle.read(Row("0", self.offset, at, payload={"x": value, "n": number % 100}))
            self.offset += 1
        self.oracle.flush()
        self.workbench.json_lines(
            f"in/{self.name}/{self.done:05}.json", [json.dumps(row, default=str) for row in rows]
        )
        self.done += 1

    def compare(self, session: Session) -> None:
        """Every decision, and every window that was emitted."""
        log = session.tables.rows(session.identifier(self.name)).where("_offset IS NOT NULL")
        decided = [row[0] for row in log.orderBy("_epoch", "_offset").select("_outcome").collect()]
        assert decided == [decision.outcome for decision in self.oracle.decisions], self.name
        assert {"on_time", "late"} <= set(decided)
        shown = session.table(f"v_{self.name}").orderBy("window_start").collect()
        found = [((row[0] - BASE).total_seconds(), *row[1:]) for row in shown]
        right = [(g["window_start"], g["most"], g["total"], g["c"]) for g in self.oracle.emitted["v"]]
        assert found == sorted(right), self.name
        assert found


class Heard:
    """Feeds a group after each of its batches."""

    def __init__(self, groups: dict[str, Fed]) -> None:
        self.groups, self.failed = groups, list[tuple[str, Any]]()
        self.driver: LiveDriver | None = None
        self._left, self._lock = set(groups), threading.Lock()

    def event(self, group: str, event: Event) -> None:
        if isinstance(event, WorkerFailed | MemberFailed):
            self.failed.append((group, event))
        if isinstance(event, BatchCommitted):
            fed = self.groups[group]
            fed.committed += 1
            if fed.done < fed.batches:
                fed.feed()

    def over(self, group: LiveGroup) -> bool:
        return self.groups[group.name].committed >= self.groups[group.name].batches

    def begins(self, group: str) -> None:
        pass

    def rests(self, group: str) -> None:
        pass

    def ended(self, group: str, code: int, error: Exception | None) -> None:
        with self._lock:
            self._left.discard(group)
            over = not self._left
        if over:
            assert self.driver is not None
            self.driver.close()


@pytest.mark.parametrize("batches", [6, pytest.param(500, marks=pytest.mark.long_run)])
def test_W1_C2_groups_that_tick_at_the_same_time_are_each_as_if_they_were_alone(
    workbench: Workbench, batches: int
) -> None:
    groups = {
        f"g{n}": Fed(workbench, f"g{n}", kind, n, 10 + 5 * n, batches, random.Random(n))
        for n, kind in enumerate(TYPES)
    }
    made = {
        one.name: SOURCE.format(name=one.name, kind=one.kind, delay=one.delay, size=one.size)
        for one in groups.values()
    }
    workbench.assets(**made)
    for one in groups.values():
        one.feed()
    session, heard = workbench.session(), Heard(groups)
    pace = Pace(interval=0.01, over=heard.over, threads=len(groups), upkeep=batches > 50)
    heard.driver = driver = LiveDriver(Threads(session.runner.elapsed), heard, pace, session.runner.answers)

    def opening(name: str) -> Opening:
        @contextmanager
        def opened(stopping: Callable[[], bool]) -> Iterator[LiveGroup]:
            with session.beside() as own:
                yield LiveGroup(own, [f"v_{name}"], name, stopping=stopping)

        return opened

    for name in groups:
        driver.open(name, opening(name))
    assert driver.run()
    assert heard.failed == []
    again = workbench.session()
    for one in groups.values():
        one.compare(again)
