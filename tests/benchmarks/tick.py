"""`make profile ARGS=tick`: what a warm tick of a live group costs, step by step.

A group as a worker of `tidegate live` has it, in this process, with Spark's own Python workers: one source, one view
of windows of a second, and for each tick a second's rows. Each tick closes the windows of a second. A step's CPU is
what this process, the JVM and its Python workers took while the step lasted: the JVM's compilers and collectors, and
what workers still do when the driver has their answer, count for whatever step runs.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import numpy as np
import pyarrow.parquet as pq
from py4j.clientserver import ClientServerConnection

from infra.kafka.broker import LocalBroker, free_port
from infra.kafka.topics import Topics
from tests.benchmarks.bench import make_project
from tests.benchmarks.load import BASE, SECOND, Events, messages, table
from tests.benchmarks.meter import cpu_of
from tests.benchmarks.profile import Profile
from tests.benchmarks.queries import Query, tidegate_source, tidegate_view
from tests.benchmarks.run import say
from tests.benchmarks.wire import Wire, batch
from tidegate.iceberg.commit import IcebergTable
from tidegate.iceberg.progress import LogProgress
from tidegate.ingest import ingest
from tidegate.ingest.sources.filesystem import FilesystemConnector
from tidegate.ingest.sources.kafka import KafkaConnector
from tidegate.ingest.stream import PlanInbox
from tidegate.plan.events import BatchCommitted, Event, SliceCommitted
from tidegate.session.collector import set_aside
from tidegate.session.live import LiveGroup
from tidegate.session.live_driver import WARM_TICKS
from tidegate.session.members.member import SourceMember, ViewMember
from tidegate.session.session import Session
from tidegate.views import pane_slices, view_table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

QUERY = Query("windows", size_s=1, slide_s=1, delay_s=1)
_KEYS, _PARTITIONS = 100, 3
#: What is not a tick's: rows are made and sent.
_OUTSIDE = "outside"
#: (what is wrapped, its method or function, the step), in the order of a tick.
_STEPS: tuple[tuple[Any, str, str], ...] = (
    (SourceMember, "step", "source: the rest"),
    (KafkaConnector, "pending", "source: look for rows"),
    (FilesystemConnector, "pending", "source: look for rows"),
    (KafkaConnector, "plan", "source: plan"),
    (FilesystemConnector, "plan", "source: plan"),
    (PlanInbox, "read", "source: plan file"),
    (PlanInbox, "write", "source: plan file"),
    (PlanInbox, "forget", "source: plan file"),
    (KafkaConnector, "read", "source: make the job"),
    (FilesystemConnector, "read", "source: make the job"),
    (ingest, "run_task", "source: job"),
    (LogProgress, "write", "source: progress file"),
    (ViewMember, "step", "view: the rest"),
    (view_table, "pin", "view: look at the inputs"),
    (pane_slices, "_files", "view: find files"),
    (pane_slices, "run_task", "view: job"),
    (view_table, "computed", "view: make the job"),
    (IcebergTable, "current", "look at the table"),
    (IcebergTable, "append", "commit"),
)


_FACTS = ("rows", "slices", "compilers", "collector")


class Rows:
    """A second's rows for each tick: times are those of the tick, so that each closes what the one before has begun."""

    def __init__(self, rows: int) -> None:
        self._rows = rows

    def of(self, tick: int) -> Events:
        """The rows of all partitions."""
        rng = np.random.default_rng(tick)
        ts = BASE + tick * SECOND + np.sort(rng.integers(0, 1000, self._rows)) * 1000
        part = np.arange(self._rows, dtype=np.int32) % _PARTITIONS
        keys, amounts = rng.integers(0, _KEYS, self._rows), rng.integers(1, 1000, self._rows)
        return Events(part, np.arange(self._rows, dtype=np.int64), ts, keys, amounts)


#: Options and encoding of a source, and what puts the rows of a tick there.
Input = tuple[dict[str, str], str, Callable[[Events, int], None]]


@contextmanager
def kafka(folder: Path) -> Iterator[Input]:
    """A topic of a broker of its own."""
    broker, port = LocalBroker(folder), free_port()
    broker.start(port, with_parent=True, notify=say)
    try:
        with topic_of(f"127.0.0.1:{port}") as found:
            yield found
    finally:
        broker.kill()


@contextmanager
def topic_of(bootstrap: str) -> Iterator[Input]:
    """A topic of this broker."""
    name = f"events-{time.time_ns()}"
    with Topics(bootstrap) as topics:
        topics.create(name, _PARTITIONS)
    wire = Wire(bootstrap)

    def send(rows: Events, tick: int) -> None:
        wire.send(
            name,
            {
                part: batch(messages(own, 100), int(own.ts[0]) // 1000)
                for part in range(_PARTITIONS)
                if len(own := rows.where(rows.part == part))
            },
        )

    yield {"connector": "kafka", "topic": name, "properties.bootstrap.server": bootstrap}, "JSON", send
    wire.close()


@contextmanager
def files(folder: Path) -> Iterator[Input]:
    """A folder of Parquet files."""
    place = folder / "in"
    place.mkdir()

    def put(rows: Events, tick: int) -> None:
        hidden = place / f".{tick:06d}"
        pq.write_table(table(rows, 100, 0), hidden)
        hidden.rename(place / f"{tick:06d}.parquet")

    yield {"connector": "filesystem", "path": str(place)}, "PARQUET", put


class Calls:
    """Py4J's round trips, by step; `frees`: those that only let go of an object of the JVM."""

    def __init__(self, profile: Profile) -> None:
        self.by_step: Counter[str] = Counter()
        self.frees = 0
        self._profile = profile

    def clear(self) -> None:
        """Count from now on."""
        self.by_step.clear()
        self.frees = 0

    def counting(self, send: Callable[..., str]) -> Callable[..., str]:
        def inner(connection: ClientServerConnection, command: str) -> str:
            self.by_step[self._profile.current] += 1
            self.frees += command.startswith("m\nd\n")
            return send(connection, command)

        return inner


class Workers:
    """CPU seconds of a JVM's Python daemon and of the workers that it has forked, as of the last `look`."""

    def __init__(self, jvm: int) -> None:
        self._jvm = jvm
        self._seen: dict[int, float] = {}

    def look(self) -> None:
        """Find them: that takes as long as a step, so it is done between ticks."""
        for daemon in _children(self._jvm):
            for process in (daemon, *_children(daemon)):
                self._seen.setdefault(process, 0.0)

    def __call__(self) -> float:
        for process in self._seen:
            # One that has ended keeps what it had when it was last seen.
            with suppress(OSError):
                self._seen[process] = cpu_of(process)
        return sum(self._seen.values())


def of_its_own(jvm: int) -> Counter[str]:
    """CPU seconds of what a JVM does by itself: its `compilers`, and its `collector`."""
    found: Counter[str] = Counter()
    for task in Path(f"/proc/{jvm}/task").iterdir():
        with suppress(OSError):
            name, _, fields = (task / "stat").read_text().partition("(")[2].rpartition(")")
            kind = (
                "compilers" if name.startswith(("C1", "C2")) else "collector" if name == "VM Thread" else ""
            )
            found[kind] += sum(map(int, fields.split()[11:13])) / os.sysconf("SC_CLK_TCK")
    return found


def _children(pid: int) -> list[int]:
    found = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        with suppress(OSError):
            found += [int(child) for child in (task / "children").read_text().split()]
    return found


def ticks(
    project: Path,
    send: Callable[[Events, int], None],
    rows: int,
    warm: int,
    measured: int,
    before_tick: Callable[[int, LiveGroup], None] = lambda tick, group: None,
    spark: SparkSession | None = None,
) -> tuple[Profile, Calls, dict[str, float]]:
    """Steps of `measured` ticks after `warm` ones; and what the table's caption tells. `before_tick`: called before
    each one, for what compares two ways of doing it. `spark`: it runs them, instead of one of their own."""
    profile = Profile()
    calls = Calls(profile)
    seen: Counter[str] = Counter()
    made = Rows(rows)

    def on_event(event: Event) -> None:
        seen["rows"] += event.rows if isinstance(event, BatchCommitted) else 0
        seen["slices"] += isinstance(event, SliceCommitted)

    with ExitStack() as stack:
        for owner, name, step in _STEPS:
            stack.enter_context(patch.object(owner, name, profile.wrapped(getattr(owner, name), step, False)))
        send_command = ClientServerConnection.send_command
        stack.enter_context(
            patch.object(ClientServerConnection, "send_command", calls.counting(send_command))
        )
        session = stack.enter_context(Session.open(project, spark=spark, lasting=True, several=True))
        jvm = session.spark._jvm.java.lang.ProcessHandle.current().pid()
        workers = Workers(jvm)
        profile.follow(jvm, workers)
        group = stack.enter_context(LiveGroup(session))
        group.prepare(on_event)
        wall, own = 0.0, of_its_own(jvm)
        for done in range(warm + measured):
            with profile.step(_OUTSIDE):
                send(made.of(done), done)
                workers.look()
                if done == warm:
                    profile.clear()
                    calls.clear()
                    seen.clear()
                    own = of_its_own(jvm)
                before_tick(done, group)
                if done == WARM_TICKS:
                    set_aside()
            began = time.monotonic()
            # As `LiveDriver` does it.
            with profile.step("the rest of the tick"), session.runner.working("live"):
                group.tick(on_event)
            wall += time.monotonic() - began if done >= warm else 0.0
        profile.end()
        own = of_its_own(jvm) - own
        session.close(stop_spark=spark is None)
    profile.steps.pop(_OUTSIDE)
    facts = {"wall": wall / measured} | {name: (seen + own)[name] / measured for name in _FACTS}
    return profile, calls, facts


def table_of(profile: Profile, calls: Calls, measured: int) -> str:
    """Markdown: the steps in their order in a tick, CPU-ms and round trips per tick."""
    lines = ["| step | driver | JVM | workers | calls |", "|---|---|---|---|---|"]
    order = ["the rest of the tick", *dict.fromkeys(step for *_, step in _STEPS)]
    steps = {name: profile.steps[name] for name in order if name in profile.steps}
    total = [sum(step[place] for step in steps.values()) for place in range(3)]
    counted = {name: calls.by_step[name] for name in steps}
    for name, spent in [*steps.items(), ("in all", total)]:
        number = counted.get(name, sum(counted.values()))
        cells = " | ".join(f"{value / measured * 1000:.1f}" for value in spent)
        lines.append(f"| {name} | {cells} | {number / measured:.1f} |")
    return "\n".join(lines)


def profile_tick(folder: Path, source: str, rows: int, warm: int, measured: int) -> str:
    """A project in `folder` with that source, and the table of its ticks."""
    with {"kafka": kafka, "files": files}[source](folder) as given:
        profile, calls, facts = ticks_of(folder, given, rows, warm, measured)
    return (
        f"{table_of(profile, calls, measured)}\n\n{measured} ticks of {rows} rows from {source} after {warm}: "
        f"{facts['wall']:.2f} s each; of the JVM's CPU {facts['compilers'] * 1000:.0f} ms are its compilers' and "
        f"{facts['collector'] * 1000:.0f} ms its collector's; of the calls {calls.frees / measured:.0f} let go of an "
        "object"
    )


def ticks_of(
    folder: Path, given: Input, rows: int, warm: int, measured: int, spark: SparkSession | None = None
) -> tuple[Profile, Calls, dict[str, float]]:
    """`ticks` of a project in `folder` with that input; SystemExit if they did not do what they should."""
    options, encode, send = given
    statement = tidegate_source(QUERY, options, encode, options["connector"] == "filesystem")
    project = make_project(folder, statement, tidegate_view(QUERY))
    profile, calls, facts = ticks(project, send, rows, warm, measured, spark=spark)
    if facts["rows"] != rows or facts["slices"] != 1:
        raise SystemExit(f"each tick has {rows} rows and closes a window, but: {facts}")
    return profile, calls, facts
