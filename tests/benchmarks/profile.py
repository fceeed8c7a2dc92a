"""`make profile`: where the CPU of a run goes, step by step.

A run as `tidegate run` does it, but for one thing: what Spark would give to Python workers is done in this process, one
task after the other, so that every step can be told from the others. A step's CPU is this process's own, and that of
the JVM while the step lasted (with its compilers and collectors, which nobody can tell apart from the work).
"""

from __future__ import annotations

import argparse
import functools
import os
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

from infra.kafka.broker import LocalBroker, free_port
from tests.benchmarks.bench import ROOT, fill_topic, make_project
from tests.benchmarks.contest import Contest, source_options
from tests.benchmarks.load import Load, events, prepared
from tests.benchmarks.queries import Query, tidegate_source, tidegate_view
from tests.benchmarks.run import say
from tidegate.iceberg.commit import IcebergTable
from tidegate.ingest import ingest
from tidegate.ingest.sources.filesystem import FilesystemConnector
from tidegate.ingest.sources.kafka import KafkaConnector
from tidegate.session.session import Session
from tidegate.tasks import gate, panes
from tidegate.tasks.decode.text.arrow_json import JsonReader
from tidegate.tasks.parquet.parquet import ParquetReader
from tidegate.tasks.transfer import departing
from tidegate.tasks.writer import FileWriter
from tidegate.views import pane_slices
from tidegate.views.view_table import ViewTable

_TICKS = os.sysconf("SC_CLK_TCK")
#: In the order of a row's way: (what is wrapped, its method or function, the step).
_STEPS: tuple[tuple[Any, str, str], ...] = (
    (FilesystemConnector, "plan", "plan"),
    (KafkaConnector, "plan", "plan"),
    (FilesystemConnector, "read", "footers"),
    (ParquetReader, "__call__", "read Parquet"),
    (JsonReader, "__call__", "parse JSON"),
    (gate, "place", "judge"),
    (gate, "judge", "judge"),
    (FileWriter, "_conform", "split by outcome and day"),
    (FileWriter, "_split", "split by outcome and day"),
    (FileWriter, "_write", "write Parquet"),
    (FileWriter, "close", "write Parquet"),
    (panes.PaneTask, "_read", "read back"),
    (panes.PaneTask, "_panes", "aggregate"),
    (panes, "merged", "aggregate"),
    (IcebergTable, "append", "commit"),
    (IcebergTable, "current", "commit"),
)


class Profile:
    """CPU seconds of this process and of a JVM, by step: the innermost one that runs has them."""

    def __init__(self) -> None:
        self.jvm: int | None = None
        self.steps: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
        self._stack = ["start"]
        self._last = self._now()

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """While the block runs, CPU is this step's."""
        self._settle()
        self._stack.append(name)
        try:
            yield
        finally:
            self._settle()
            self._stack.pop()

    def wrapped(self, function: Callable[..., Any], name: str) -> Callable[..., Any]:
        """`function` as this step. If it is a generator, the step lasts while it makes an item."""

        @functools.wraps(function)
        def inner(*args: Any, **kwargs: Any) -> Any:
            with self.step(self._named(name)):
                found = function(*args, **kwargs)
            return self._items(found, name) if isinstance(found, Iterator) else found

        return inner

    def _items(self, items: Iterator[Any], name: str) -> Iterator[Any]:
        while True:
            with self.step(self._named(name)):
                try:
                    item = next(items)
                except StopIteration:
                    return
            yield item

    def _named(self, name: str) -> str:
        """Files are written, and commits made, for the log and for the view."""
        return f"view: {name}" if any(step.startswith("view") for step in self._stack) else f"log: {name}"

    def _settle(self) -> None:
        now = self._now()
        own, jvm = self.steps[self._stack[-1]]
        self.steps[self._stack[-1]] = [own + now[0] - self._last[0], jvm + now[1] - self._last[1]]
        self._last = now

    def _now(self) -> tuple[float, float]:
        jvm = 0.0
        if self.jvm is not None:
            fields = Path(f"/proc/{self.jvm}/stat").read_bytes().rpartition(b")")[2].split()
            jvm = (int(fields[11]) + int(fields[12])) / _TICKS
        return time.process_time(), jvm

    def follow(self, jvm: int) -> None:
        """From now on a JVM's CPU counts, too."""
        self._settle()
        self.jvm = jvm
        self._last = self._now()

    def end(self) -> None:
        self._settle()

    def table(self, rows: int) -> str:
        """Markdown: steps in the order of their first appearance, CPU seconds per million rows."""
        lines = ["| step | Python | JVM |", "|---|---|---|"]
        for name, (own, jvm) in [*self.steps.items(), ("in all", self._all())]:
            lines.append(f"| {name} | {own / rows * 1e6:.3f} | {jvm / rows * 1e6:.3f} |")
        return "\n".join(lines)

    def _all(self) -> tuple[float, float]:
        return sum(own for own, _ in self.steps.values()), sum(jvm for _, jvm in self.steps.values())


def profiled(project: Path, profile: Profile) -> dict[str, Any]:
    """Run a project once under `profile`; the run's report."""

    def here(frame: Any, task: Any) -> list[Any]:
        import json

        plain, arriving = departing(frame, task)
        with profile.step(profile._named("rows from the JVM")):
            batches = plain.toArrow().to_batches()
        with profile.step(profile._named("the rest of the tasks")):
            return [
                json.loads(row) for batch in arriving(iter(batches)) for row in batch.column(0).to_pylist()
            ]

    with ExitStack() as stack:
        for module in (ingest, pane_slices):
            stack.enter_context(patch.object(module, "run_task", here))
        # One task makes panes and windows: those of several would meet in Spark's exchange.
        stack.enter_context(patch.object(pane_slices, "_ROWS_PER_TASK", sys.maxsize))
        for owner, name, step in _STEPS:
            stack.enter_context(patch.object(owner, name, profile.wrapped(getattr(owner, name), step)))
        stack.enter_context(patch.object(ViewTable, "tick", _as_view(ViewTable.tick, profile)))
        with Session.open(project) as session:
            profile.follow(session.spark._jvm.java.lang.ProcessHandle.current().pid())
            with profile.step("the rest of the driver"):
                report = session.run()
            profile.end()
            session.close(stop_spark=True)
    profile.steps.pop("start")
    return report.to_dict()


def _as_view(tick: Callable[..., Any], profile: Profile) -> Callable[..., Any]:
    def inner(table: ViewTable) -> Any:
        with profile.step("view: the rest of the driver"):
            return tick(table)

    return inner


def main() -> None:
    parser = argparse.ArgumentParser(prog="make profile", description=__doc__)
    parser.add_argument("source", choices=["files", "kafka"], nargs="?", default="files")
    parser.add_argument("--rows", type=int, help="default: 20,000,000 from files, 2,000,000 from Kafka")
    given = parser.parse_args()
    work = ROOT / ".tidegate" / "bench"
    work.mkdir(parents=True, exist_ok=True)
    profile, query = Profile(), Query("windows")
    with tempfile.TemporaryDirectory(prefix="profile-", dir=work) as name, ExitStack() as stack:
        if given.source == "files":
            load = Load(given.rows or 20_000_000, keys=10_000)
            folder, log = prepared(load, work / "data", say, logs=True)
            contest = Contest(query, log, load.partitions, folder)
        else:
            load = Load(given.rows or 2_000_000, partitions=3, weights=(6.0, 3.0, 1.0), keys=10_000)
            broker, port = LocalBroker(Path(name)), free_port()
            stack.callback(broker.kill)
            broker.start(port, with_parent=True, notify=say)
            topic = (f"127.0.0.1:{port}", "events")
            log = events(load)
            fill_topic(*topic, load, log)
            contest = Contest(query, log, load.partitions, topic=topic)
        files = contest.topic is None
        source = tidegate_source(query, source_options(contest), "PARQUET" if files else "JSON", files)
        report = profiled(make_project(Path(name), source, tidegate_view(query)), profile)
        judged = report["sources"][0]
        if judged["on_time"] + judged["late"] + judged["rejected"] != load.rows:
            sys.exit(f"not all of {load.rows:,} rows were read: {judged}")
    print(profile.table(load.rows))


if __name__ == "__main__":
    main()
