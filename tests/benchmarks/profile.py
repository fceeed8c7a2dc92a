"""`make profile`: where the CPU of a run goes, step by step.

A run as `tidegate run` does it, but for one thing: what Spark would give to Python workers is done in this process, one
task after the other, so that every step can be told from the others. A step's CPU is this process's own, and that of
the JVM while the step lasted (with its compilers and collectors, which nobody can tell apart from the work).
"""

from __future__ import annotations

import argparse
import functools
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
from tests.benchmarks.meter import cpu_of
from tests.benchmarks.queries import Query, tidegate_source, tidegate_view
from tests.benchmarks.run import say
from tidegate.iceberg.commit import IcebergTable
from tidegate.ingest import ingest
from tidegate.ingest.sources.filesystem import FilesystemConnector
from tidegate.ingest.sources.kafka import KafkaConnector
from tidegate.session.session import Session
from tidegate.tasks import gate, panes
from tidegate.tasks.decode.text.arrow_json import JsonReader
from tidegate.tasks.kafka import reader as kafka_reader
from tidegate.tasks.numbers import Numbers
from tidegate.tasks.parquet.parquet import ParquetReader
from tidegate.tasks.transfer import departing
from tidegate.tasks.writer import FileWriter
from tidegate.views import pane_slices
from tidegate.views.view_table import ViewTable

#: In the order of a row's way: (what is wrapped, its method or function, the step).
_STEPS: tuple[tuple[Any, str, str], ...] = (
    (FilesystemConnector, "plan", "plan"),
    (KafkaConnector, "plan", "plan"),
    (FilesystemConnector, "read", "footers"),
    (ParquetReader, "__call__", "read Parquet"),
    (kafka_reader, "messages", "read Kafka"),
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
    """CPU seconds of this process, of a JVM and of its Python workers, by step: the innermost one that runs has
    them."""

    def __init__(self) -> None:
        self.jvm: int | None = None
        self.steps: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0, 0.0])
        self._workers: Callable[[], float] = lambda: 0.0
        self._stack = ["start"]
        self._last = self._now()

    @property
    def current(self) -> str:
        """The innermost step."""
        return self._stack[-1]

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

    def wrapped(self, function: Callable[..., Any], name: str, of_table: bool = True) -> Callable[..., Any]:
        """`function` as this step. If it is a generator, the step lasts while it makes an item. `of_table`: its name
        says whether it is the log's or the view's."""

        @functools.wraps(function)
        def inner(*args: Any, **kwargs: Any) -> Any:
            with self.step(self._named(name) if of_table else name):
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
        spent = self.steps[self._stack[-1]]
        for place, (before, after) in enumerate(zip(self._last, now, strict=True)):
            spent[place] += after - before
        self._last = now

    def _now(self) -> tuple[float, float, float]:
        return time.process_time(), cpu_of(self.jvm) if self.jvm is not None else 0.0, self._workers()

    def follow(self, jvm: int, workers: Callable[[], float] = lambda: 0.0) -> None:
        """From now on a JVM's CPU counts, too, and that of its `workers`."""
        self._settle()
        self.jvm, self._workers = jvm, workers
        self._last = self._now()

    def clear(self) -> None:
        """Count from now on."""
        self._settle()
        self.steps.clear()

    def end(self) -> None:
        self._settle()

    def table(self, rows: int) -> str:
        """Markdown: steps in the order of their first appearance, CPU seconds per million rows."""
        lines = ["| step | Python | JVM |", "|---|---|---|"]
        for name, (own, jvm, _) in [*self.steps.items(), ("in all", self._all())]:
            lines.append(f"| {name} | {own / rows * 1e6:.3f} | {jvm / rows * 1e6:.3f} |")
        return "\n".join(lines)

    def _all(self) -> list[float]:
        return [sum(spent[place] for spent in self.steps.values()) for place in range(3)]


def profiled(project: Path, profile: Profile) -> dict[str, Any]:
    """Run a project once under `profile`; the run's report."""

    def here(work: Any, task: Any) -> list[Any]:
        import json

        plain, arriving = departing(work.frame if isinstance(work, Numbers) else work, task)
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
    parser.add_argument(
        "source", choices=["files", "kafka", "tick", "tick-files"], nargs="?", default="files"
    )
    rows = "default: 20,000,000 from files, 2,000,000 from Kafka, 200 for each tick"
    parser.add_argument("--rows", type=int, help=rows)
    parser.add_argument("--warm", type=int, default=40, help="ticks before those that are measured (40)")
    parser.add_argument("--ticks", type=int, default=60, help="ticks that are measured (60)")
    given = parser.parse_args()
    work = ROOT / ".tidegate" / "bench"
    work.mkdir(parents=True, exist_ok=True)
    profile, query = Profile(), Query("windows")
    with tempfile.TemporaryDirectory(prefix="profile-", dir=work) as name, ExitStack() as stack:
        if given.source.startswith("tick"):
            from tests.benchmarks.tick import profile_tick

            source = "files" if given.source == "tick-files" else "kafka"
            print(profile_tick(Path(name), source, given.rows or 200, given.warm, given.ticks))
            return
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
