"""What `make soak` can run: one source with every kind of row and view, or many sources that share a process."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import Protocol

import numpy as np

from infra.kafka.topics import Topics
from tests.benchmarks.load import BASE
from tests.benchmarks.many.streams import Sender, Stream
from tests.benchmarks.many.team import PARTITIONS, SECOND, Case, make_team, team_streams
from tests.chaos.load import BIG, WEIGHTS
from tests.chaos.project import SORTED, SOURCE, VIEWS, ChaosGroup, write_project
from tests.soak.page import BEGIN, END
from tests.soak.sample import Series, of_lag, of_table, of_tables, series, together
from tidegate.project import Project
from tidegate.store.once import read_once

ROOT = Path(__file__).resolve().parents[2]
TOPIC = "soak"
#: Of many sources: two views each; seconds between two batches of rows.
_VIEWS, _TICK_S = 2, 0.1
#: What stands in place of a table's name where there are too many to name.
TOTALS = {"all tables": sum, "largest table": max}


class Shape(Protocol):
    """`stem`: of the names of its files. `marks`: between them are its figures on docs/soak.md. `known`: what is
    measured. `shown`: the table, or what stands for all, in the lines of progress."""

    stem: str
    marks: tuple[str, str]
    known: dict[str, Series]
    shown: str

    @property
    def runs(self) -> bool:
        """Whether rows are being sent."""

    def prepare(self, folder: Path, bootstrap: str) -> None:
        """Make the topics, and the project in `folder`/project."""

    def start(self) -> None:
        """Begin to send."""

    def stop(self) -> None:
        """Send no more; nothing if that has ended or never begun."""

    def sample(self, project: Project, topics: Topics) -> dict[str, float]:
        """What is measured of tables and lag."""

    def facts(self, rows: float, interval: str) -> dict[str, str]:
        """What there was; `rows`: in the logs at the end."""


class OneSource:
    """The project of `make chaos`: uneven partitions, late and damaged rows, a tumbling, a hop and a sorted view.
    `rate`: rows per second."""

    stem, marks, shown = "soak", (BEGIN, END), SOURCE
    tables = (SOURCE, *(view.name for view in VIEWS), SORTED)

    def __init__(self, rate: float, seed: int) -> None:
        self.known = series(self.tables)
        self._rate, self._seed = rate, seed
        self._folder, self._bootstrap = Path(), ""
        self._producer: subprocess.Popen[bytes] | None = None

    @property
    def runs(self) -> bool:
        return self._producer is not None and self._producer.poll() is None

    def prepare(self, folder: Path, bootstrap: str) -> None:
        self._folder, self._bootstrap = folder, bootstrap
        with Topics(bootstrap) as topics:
            topics.create(TOPIC, len(WEIGHTS), {"max.message.bytes": str(2 * BIG)})
        write_project(folder / "project", [ChaosGroup(1, bootstrap, TOPIC)], idle_seconds=60)

    def start(self) -> None:
        words = [self._bootstrap, TOPIC, str(self._rate), str(self._seed)]
        with (self._folder / "producer.log").open("wb") as log:
            self._producer = subprocess.Popen(
                [sys.executable, "-m", "tests.soak.produce", *words],
                cwd=ROOT,
                stdout=subprocess.DEVNULL,
                stderr=log,
            )

    def stop(self) -> None:
        if self._producer is None:
            return
        self._producer.terminate()
        try:
            self._producer.wait(10)
        except subprocess.TimeoutExpired:  # it waits for a broker that has ended
            self._producer.kill()
            self._producer.wait()

    def sample(self, project: Project, topics: Topics) -> dict[str, float]:
        lag = of_lag(project, SOURCE, lambda: topics.ends(TOPIC), time.time)
        return of_tables(project, self.tables) | lag

    def facts(self, rows: float, interval: str) -> dict[str, str]:
        return {
            "rate": f"{self._rate:,.0f} rows a second, {rows:,.0f} rows in the log at the end",
            "tick": f"every {interval} at the soonest, {len(WEIGHTS)} partitions, {len(self.tables) - 1} views",
        }


class ManySources:
    """The project of the suite `many` of `make bench`: a topic and two tumbling views for each source, which is a group
    of its own. `rate`: rows per second of each source; `seconds`: for how long there are rows, at most."""

    stem, shown = "soak_sources", "all tables"
    marks = ("<!-- figures of many sources: begin -->", "<!-- figures of many sources: end -->")

    def __init__(self, sources: int, rate: float, seconds: float) -> None:
        self.known = series(list(TOTALS), has_groups=True)
        self._case = Case("soak", sources, _VIEWS, int(rate), "", {}, sources)
        self.streams = team_streams(self._case, seconds, _TICK_S)
        self._sender: Sender | None = None

    @property
    def runs(self) -> bool:
        return self._sender is not None and self._sender.runs

    def prepare(self, folder: Path, bootstrap: str) -> None:
        self._sender = Sender(bootstrap, self.streams, _TICK_S)
        self._sender.prepare()
        make_team(folder, bootstrap, self._case, self.streams)

    def start(self) -> None:
        assert self._sender is not None
        self._sender.start()

    def stop(self) -> None:
        if self._sender is not None and self._sender.runs:
            self._sender.stop()

    def sample(self, project: Project, topics: Topics) -> dict[str, float]:
        """Sums over all tables and sources, and the largest table and the watermark that is furthest behind."""
        case = self._case
        names = [(case.source(n), stream) for n, stream in enumerate(self.streams)]
        with read_once():
            lags = [self._lag(project, topics, source, stream) for source, stream in names]
            tables = [of_table(project, table) for table in self.tables]
        out = together(lags, sum) | {
            name: value for name, value in together(lags, max).items() if name == "watermark behind"
        }
        for place, how in TOTALS.items():
            out |= {f"{place}: {kind}": value for kind, value in together(tables, how).items()}
        return out

    @property
    def tables(self) -> list[str]:
        """All sources and views."""
        case, numbers = self._case, range(self._case.sources)
        views = [case.view(n, k) for n in numbers for k in range(case.views)]
        return [*(case.source(n) for n in numbers), *views]

    def _lag(self, project: Project, topics: Topics, source: str, stream: Stream) -> dict[str, float]:
        """The clock is that of the rows, which begins on the first of January: up to where they are sent."""
        return of_lag(
            project,
            source,
            lambda: topics.ends(stream.topic),
            lambda: BASE / SECOND + np.count_nonzero(stream.sent_at) * _TICK_S,
        )

    def facts(self, rows: float, interval: str) -> dict[str, str]:
        case = self._case
        return {
            "rate": f"{case.rate:,} rows a second for each of {case.sources} sources, "
            f"{rows:,.0f} rows in the logs at the end",
            "tick": f"every {interval} at the soonest, {PARTITIONS} partitions and {case.views} views of each source",
        }
