"""What it takes to look at many groups of live mode: `python -m tests.benchmarks.many.status [GROUPS …]`. No JVM.

Each group is a source of files with two views. Their tables are as live mode leaves them, in a catalog in SQLite: one
group in ten has had a commit in each tick for hours, so that its tables have 1,000 snapshots (`most_snapshots`), the
others are quiet, and have 20. Prints the seconds that a command takes, from its start to its end, and that one answer
or picture takes in a process that runs for long, and their CPU seconds; medians of five. Where another process works
for the project, a command asks it: the CPU seconds are those of both then.
"""

from __future__ import annotations

import io
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from prometheus_client import generate_latest
from rich.console import Console

from tests.benchmarks.bench import ENVIRON, ROOT, EngineFailed, make_project
from tests.benchmarks.many.team import CATALOG, query_of
from tests.benchmarks.meter import cpu_of
from tests.benchmarks.queries import tidegate_source, tidegate_view
from tests.store.tables import HadoopTable, progress_row, write_progress
from tidegate.cli.commands.runs.served import Files, Service
from tidegate.evolve.kept_versions import with_versions
from tidegate.iceberg.layout import new_log, new_view_table
from tidegate.live.metrics import Metrics
from tidegate.live.screen import Screen
from tidegate.project import Project
from tidegate.sql.catalog.objects import Relation, View
from tidegate.store.attention import document
from tidegate.store.status import read_status
from tidegate.store.status_values import ProjectStatus
from tidegate.store.writers import FailingMember, GroupLoad, LiveRecord, recorded
from tidegate.warm.desk import Desk
from tidegate.warm.likeness import likeness_of

VIEWS, PARTITIONS, REPEATS = 2, 3, 5
#: Snapshots of a table that gets a commit in each tick, and of one that gets none; which group in so many is busy.
BUSY, QUIET, ONE_IN = 1_000, 20, 10
_COUNTED = ("data-files", "delete-files", "records", "files-size", "position-deletes", "equality-deletes")
_SECOND = 1_000_000
_NOON = 1_767_268_800 * _SECOND


def names(group: str) -> list[str]:
    """The group's source, which is called as the group is, and its views."""
    return [group, *(f"{group}_{number}" for number in range(VIEWS))]


def make_groups(folder: Path, count: int, busy: int = BUSY, quiet: int = QUIET) -> Project:
    """A project of groups `g000`, `g001`, …, of which `g003`, the failing one, has a stalled partition."""
    groups, statements = [f"g{number:03}" for number in range(count)], []
    for group in groups:
        options = {"connector": "filesystem", "path": f"in/{group}"}
        source = tidegate_source(query_of(0), options, "JSON", False)
        statements.append(source.replace("SOURCE events", f"SOURCE {group}", 1))
        statements += [tidegate_view(query_of(n), name, group) for n, name in enumerate(names(group)[1:])]
    root = make_project(folder, *statements)
    settings = root / "resources" / "local.yaml"
    settings.write_text(json.dumps(json.loads(settings.read_text()) | {"warehouse": {"catalog": CATALOG}}))
    project = Project.load(root)
    warehouse, file, catalog = project.storage.local_warehouse, project.storage.sqlite, project.catalog()
    assert warehouse is not None
    for number, group in enumerate(groups):
        rows = [progress_row(None, published=_NOON)] + [
            progress_row(str(n), watermark=_NOON + n, next_offset=1_000, on_time=1_000, state="active")
            for n in range(PARTITIONS)
        ]
        if number == 3:
            rows[1]["_progress"]["state"] = "stalled"
        for name in names(group):
            item, folder = catalog.get(name), warehouse / project.storage.settings.namespace / name
            assert isinstance(item, Relation | View)
            made = new_view_table(item, (), name) if isinstance(item, View) else new_log(item, name)
            table = HadoopTable(folder, dict(made.properties), catalog=file)
            progress = write_progress(folder / "data" / "progress.parquet", rows) if name == group else None
            table.snapshots += _snapshots(folder, progress, busy if number % ONE_IN == 0 else quiet)
            table.commit()
    return project


def _snapshots(folder: Path, progress: Path | None, count: int) -> Iterator[dict[str, Any]]:
    """Each of them has about as many bytes as those that live mode makes."""
    for number in range(count):
        facts: dict[str, object] = {
            "tidegate.epoch": number,
            "tidegate.watermark": _NOON,
            "tidegate.frontier": _NOON,
            "tidegate.groups": 60 * number,
            "tidegate.on_time": 1_000 * number,
            "tidegate.late": 0,
            "tidegate.rejected": 0,
            "tidegate.note": "x" * 380,
        }
        facts |= {f"{what}-{of}": 1_000_000 + number for what in ("added", "total") for of in _COUNTED}
        if progress is not None:
            facts["tidegate.progress"] = f"file://{progress}"
        yield {
            "snapshot-id": number + 1,
            "parent-snapshot-id": number or None,
            "sequence-number": number + 1,
            "timestamp-ms": _NOON // 1_000 + 1_000 * number,
            "manifest-list": f"file://{folder}/metadata/snap-{number:020}.avro",
            "schema-id": 1,
            "summary": {"operation": "append", **{key: str(value) for key, value in facts.items()}},
        }


@contextmanager
def live(project: Project, count: int) -> Iterator[None]:
    """As while live mode runs: what its groups cost, and one that fails."""
    groups = [f"g{number:03}" for number in range(count)]
    fails = FailingMember("g003", "g003_1", "view", "TG507", "Spark refuses the query", 4, 1.0)
    loads = tuple(GroupLoad(group, 0.01, 0.02, 100.0, 500) for group in groups)
    record = LiveRecord(time.time(), time.time(), tuple(groups), loads=loads, failing=(fails,))
    with recorded(project.state_dir, project.env_name, record):
        yield


@contextmanager
def answering(root: Path) -> Iterator[Desk]:
    """As while this process works for the project, with a session that is not needed."""
    environ, project = dict(os.environ), Project.load(root)
    files = Files(root, project.env_name, environ, likeness_of(root, project.env_name, environ))
    catalog = with_versions(project, project.catalog())
    session: Any = SimpleNamespace(project=project, catalog=catalog)
    with Service(session, files).open_to_commands("live") as desk:
        yield desk


@contextmanager
def worker(project: Project) -> Iterator[int]:
    """Another process that works for the project; its id."""
    command = [sys.executable, "-m", "tests.benchmarks.many.status", "--answer", str(project.root)]
    pipe, environ = subprocess.PIPE, dict(ENVIRON)
    with subprocess.Popen(command, cwd=ROOT, env=environ, stdin=pipe, stdout=pipe) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process.pid


def commands(project: Project, asked: int | None = None) -> dict[str, tuple[float, float]]:
    """By command: seconds and CPU seconds of a process, and of the one that is `asked`."""
    found = {}
    for words in ((), ("--json",), ("--failing",), ("--group", "g003"), ("--partitions",)):
        command = [
            sys.executable,
            "-m",
            "tidegate.cli.main",
            "status",
            *words,
            "--project",
            str(project.root),
        ]

        def call(command: list[str] = command) -> None:
            done = subprocess.run(command, cwd=ROOT, env=dict(ENVIRON), capture_output=True, check=False)
            if done.returncode != 0 or b"g003" not in done.stdout:
                raise EngineFailed(f"{command}: {done.stdout[-500:]!r} {done.stderr[-500:]!r}")

        def spent() -> float:
            return _spent(resource.RUSAGE_CHILDREN) + (0.0 if asked is None else cpu_of(asked))

        beside = () if asked is None else ("beside a worker",)
        found[" ".join(("tidegate status", *words, *beside))] = _median(call, spent)
    return found


def answers(project: Project, count: int) -> dict[str, tuple[float, float]]:
    """By what is asked of live mode: seconds and CPU seconds of an answer."""
    catalog = project.catalog()
    members = [name for number in range(count) for name in names(f"g{number:03}")]
    well: dict[str, Any] = {"state": "running", "healthy": True, "restarts": 0, "last_tick_age_seconds": 1.0}
    well |= {"failing": [], "last_error": None}
    health = {"groups": {f"g{number:03}": well for number in range(count)}}

    def read() -> ProjectStatus:
        return read_status(project, members, catalog=catalog)

    def picture() -> None:
        screen = Screen(read, lambda: health, Console(file=io.StringIO(), width=160, height=50), 3600.0)
        screen.start()
        screen.close()

    metrics = Metrics(read, dict, lambda: health, fresh=0.0)
    asked: dict[str, Callable[[], object]] = {
        "/status": lambda: json.dumps(document(read()), default=str),
        "/metrics": lambda: generate_latest(metrics.registry),
        "a picture of the screen": picture,
    }
    return {what: _median(ask, lambda: _spent(resource.RUSAGE_SELF)) for what, ask in asked.items()}


def _spent(who: int) -> float:
    used = resource.getrusage(who)
    return used.ru_utime + used.ru_stime


def _median(call: Callable[[], object], spent: Callable[[], float]) -> tuple[float, float]:
    walls, cpus = [], []
    for _ in range(REPEATS):
        before, started = spent(), time.perf_counter()
        call()
        walls.append(time.perf_counter() - started)
        cpus.append(spent() - before)
    return statistics.median(walls), statistics.median(cpus)


def main(arguments: list[str]) -> int:
    if arguments[:1] == ["--answer"]:
        with answering(Path(arguments[1])):
            print("ready", flush=True)
            sys.stdin.read()
        return 0
    print("groups | snapshots of busy tables | what | seconds | CPU seconds")
    for count in [int(text) for text in arguments] or [10, 100]:
        with tempfile.TemporaryDirectory() as folder:
            project = make_groups(Path(folder), count)
            with live(project, count):
                found = commands(project) | answers(project, count)
                with worker(project) as asked:
                    found |= commands(project, asked)
                for what, (wall, cpu) in found.items():
                    print(f"{count} | {BUSY:,} | {what} | {wall:.2f} | {cpu:.2f}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
