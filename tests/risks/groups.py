"""Groups of one live driver, each with files that come to it and an oracle that says what has to be stored of them."""

from __future__ import annotations

import json
import random
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

from tests.oracles.oracle import Oracle, Row, View
from tidegate.plan.events import BatchCommitted, Event, MemberFailed, WorkerFailed
from tidegate.session.hands import Threads
from tidegate.session.live import LiveGroup
from tidegate.session.live_driver import LiveDriver, Opening, Pace
from tidegate.session.session import Session

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
"""
VIEW = """CREATE MATERIALIZED VIEW {view} AS SELECT window_start, max(x) AS most, sum(n) AS total, count(*) AS c
FROM TUMBLE({name}, ts, INTERVAL '{size} seconds') {where}GROUP BY window_start EMIT ON WINDOW CLOSE;
"""
#: What every row has, and no task computes: a view that says it is computed by Spark's SQL.
BY_SQL = "WHERE abs(n) >= 0 "
_AGGREGATES: dict[str, tuple[str, str | None]] = {
    "most": ("max", "x"),
    "total": ("sum", "n"),
    "c": ("count", None),
}


@dataclass
class Fed:
    """A group: a source of files in the project `root`, and a view for each of `sizes` (seconds), the last `by_sql` of
    which Spark's SQL computes. Ten seconds of rows come with each file; half of them are behind the newest one of the
    file before. `marked`: by the number of a file, what the `x` of one more row is, which is rejected for this `reason`
    (None: it is none). `stepwise`: the oracle closes windows after each file, and not only at the end."""

    root: Path
    name: str
    kind: str = "INT"
    delay: int = 0
    sizes: Sequence[int] = (10,)
    by_sql: int = 0
    rows: int = 20
    seed: int = 0
    marked: dict[int, str] = field(default_factory=dict)
    reason: str | None = None
    stepwise: bool = True
    done: int = 0
    committed: int = 0
    offset: int = 0
    oracle: Oracle = field(init=False)

    def __post_init__(self) -> None:
        self._chance = random.Random(self.seed)
        # Windows begin at multiples of their size since 1970 (C1), and the oracle's seconds at BASE.
        since = int(BASE.replace(tzinfo=UTC).timestamp())
        views = [
            View(view, size=size, offset=-since % size, aggregates=_AGGREGATES)
            for view, size in self.views.items()
        ]
        self.oracle = Oracle(
            lambda row: None if row.event_time is None else row.event_time - self.delay, views
        )
        self.oracle.enumerate(["0"])

    @property
    def views(self) -> dict[str, int]:
        """The sizes of the views' windows, by their names."""
        return {f"{self.name}_v{number}": size for number, size in enumerate(self.sizes)}

    @property
    def sql(self) -> str:
        """Its definitions."""
        text = SOURCE.format(name=self.name, kind=self.kind, delay=self.delay)
        for number, (view, size) in enumerate(self.views.items()):
            where = BY_SQL if number >= len(self.sizes) - self.by_sql else ""
            text += VIEW.format(view=view, name=self.name, size=size, where=where)
        return text

    def files(self) -> list[Path]:
        """What has come to it so far."""
        return sorted((self.root / "in" / self.name).glob("*.json"))

    def feed(self, written: bool = True) -> None:
        """The next file, there as a whole. `written`: it is to come; else it was there before."""
        rows = [self._row(self._chance.randrange(10_000)) for _ in range(self.rows)]
        if (mark := self.marked.get(self.done)) is not None:
            rows.append(self._row(0, mark))
        if self.stepwise:
            self.oracle.flush()
        if written:
            folder = self.root / "in" / self.name
            folder.mkdir(parents=True, exist_ok=True)
            hidden = folder / ".next"
            hidden.write_text("".join(json.dumps(row, default=str) + "\n" for row in rows), "utf-8")
            hidden.rename(folder / f"{self.done:05}.json")
        self.done += 1

    def _row(self, number: int, mark: str | None = None) -> dict[str, Any]:
        """A row of the next file, which the oracle has read."""
        at = self.done * 10 + self._chance.randrange(-10, 10)
        value = TYPES[self.kind](number) if mark is None else mark
        reject = self.reason if mark is not None else None
        self.oracle.read(Row("0", self.offset, at, reject, {"x": value, "n": number % 100}))
        self.offset += 1
        return {"x": value, "n": number % 100, "ts": BASE + timedelta(seconds=at)}

    def differences(self, session: Session) -> list[str]:
        """What is stored and should not be so: decisions, and windows that were emitted."""
        self.oracle.flush()
        log = session.tables.rows(session.identifier(self.name)).where("_offset IS NOT NULL")
        decided = [row[0] for row in log.orderBy("_epoch", "_offset").select("_outcome").collect()]
        wrong = []
        if decided != [decision.outcome for decision in self.oracle.decisions]:
            wrong.append(
                f"{self.name}: {len(decided)} decisions are not those of {len(self.oracle.decisions)} rows"
            )
        for view in self.views:
            shown = session.table(view).orderBy("window_start").collect()
            found = [((row[0] - BASE).total_seconds(), *row[1:]) for row in shown]
            right = [(g["window_start"], g["most"], g["total"], g["c"]) for g in self.oracle.emitted[view]]
            if found != sorted(right):
                wrong.append(f"{view}: {len(found)} windows, not these {len(right)}")
        return wrong


class Watched:
    """Hears of groups, each of which gets a file after each of its batches, `batches` in all, and ends after the last
    one."""

    def __init__(self, groups: Sequence[Fed], batches: int) -> None:
        self.groups, self.batches = {one.name: one for one in groups}, batches
        self.failed: list[tuple[str, Any]] = []
        self.driver: LiveDriver | None = None
        self._left, self._lock = set(self.groups), threading.Lock()

    def event(self, group: str, event: Event) -> None:
        if isinstance(event, WorkerFailed | MemberFailed):
            self.failed.append((group, event))
        if isinstance(event, BatchCommitted):
            fed = self.groups[group]
            fed.committed += 1
            if fed.done < self.batches:
                self.feeds(fed)

    def feeds(self, fed: Fed) -> None:
        """What comes to a group that has committed a batch."""
        fed.feed()

    def over(self, group: LiveGroup) -> bool:
        """Whether a group without a backlog has nothing more to do."""
        return self.groups[group.name].committed >= self.batches

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


def drive(session: Session, watched: Watched, pace: Pace) -> bool:
    """Have all groups ticked by one driver, as in a process of live mode; False if Spark is gone."""
    driver = LiveDriver(Threads(session.runner.elapsed), watched, pace, session.runner.answers)
    watched.driver = driver

    def opening(one: Fed) -> Opening:
        @contextmanager
        def opened(stopping: Callable[[], bool]) -> Iterator[LiveGroup]:
            with session.beside() as own:
                yield LiveGroup(own, list(one.views), one.name, stopping=stopping)

        return opened

    for one in watched.groups.values():
        driver.open(one.name, opening(one))
    return driver.run()


def write_project(root: Path, groups: Sequence[Fed], environment: dict[str, Any]) -> None:
    """A project with these groups; `environment`: of its `local.yaml`."""
    for folder in ("assets", "resources"):
        (root / folder).mkdir(parents=True, exist_ok=True)
    (root / "resources" / "local.yaml").write_text(json.dumps(environment), "utf-8")
    for one in groups:
        (root / "assets" / f"{one.name}.sql").write_text(one.sql, "utf-8")
