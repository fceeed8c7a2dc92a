"""What a commit costs with each catalog and store, and how that grows with the snapshots of the log."""

from __future__ import annotations

import json
import os
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from infra.demo_s3.s3 import make_bucket, s3_server
from infra.kafka.broker import free_port
from infra.rest_catalog.server import S3_PACKAGES, CatalogError, RestCatalogs
from infra.stack.postgres import HOST, USER, Postgres, StackError
from tests.benchmarks.bench import Bench, EngineFailed, make_project
from tests.benchmarks.results import Result
from tests.benchmarks.suites.suite import Suite
from tests.support.faulty_http import Answer, Asked, FaultyHttp, serving
from tests.support.s3 import SECRET, settings_of, storage_on
from tests.support.tcp_proxy import TcpProxy

FOLDER, SQLITE, POSTGRES, REST, REST_ON_S3 = PLACES = ("folder", "sqlite", "postgres", "rest", "rest on S3")
_PASSWORD = "TIDEGATE_BENCH_CATALOG_PASSWORD"
_BUCKET = "bench"
#: Commits to one log that follow each other, so that what a JVM puts off falls into them.
_BLOCK = 10
#: Blocks of commits before those that are measured: the JVM compiles what it needs.
_WARM = 12


@dataclass
class Asking:
    """When somebody was asked, and how many bytes were put there."""

    asked: list[tuple[float, int]] = field(default_factory=list)

    def note(self, sent: int) -> None:
        self.asked.append((time.monotonic(), sent))

    def within(self, windows: list[tuple[float, float]]) -> list[int]:
        """The bytes of each question in one of these windows."""
        return [sent for at, sent in self.asked if any(begin <= at <= end for begin, end in windows)]


class Counted(FaultyHttp):
    """Passes everything on, and counts."""

    def __init__(self, upstream: str) -> None:
        super().__init__(upstream)
        self.asking = Asking()

    def react(self, asked: Asked) -> Answer | None:
        if not asked.target.endswith(
            "/metrics"
        ):  # Iceberg's client tells how long a scan took, whenever it likes
            self.asking.note(len(asked.body) if asked.method in ("PUT", "POST") else 0)
        return self._forward(asked)


class CountedTcp(TcpProxy):
    """Counts what clients of a database send after they were answered: a question each."""

    def __init__(self, server: int) -> None:
        self.asking = Asking()
        super().__init__(server)

    def asked(self, data: bytes, mark: threading.Event) -> None:
        if not mark.is_set():
            mark.set()
            self.asking.note(len(data))

    def answered(self, data: bytes, mark: threading.Event) -> bool:
        mark.clear()
        return True


@dataclass
class Place:
    """Where a project's tables are: `warehouse:` of its environment, the variables that it names, the server's
    processes, and who counts the questions to the catalog and to the store."""

    warehouse: dict[str, Any]
    environ: dict[str, str] = field(default_factory=dict)
    servers: tuple[int, ...] = ()
    catalog: Asking | None = None
    store: Asking | None = None


@contextmanager
def place_of(name: str, folder: Path) -> Iterator[Place]:
    """A catalog with nothing in it, in a server of its own where it has one."""
    with ExitStack() as stack:
        if name == FOLDER:
            yield Place({})
        elif name == SQLITE:
            yield Place({"catalog": {"type": "jdbc", "uri": f"jdbc:sqlite:{folder}/catalog.db"}})
        elif name == POSTGRES:
            yield stack.enter_context(_in_postgres())
        else:
            yield stack.enter_context(_on_rest(folder / "rest", name == REST_ON_S3))


@contextmanager
def _in_postgres() -> Iterator[Place]:
    # The server may run as another user, who can't enter our folders.
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o711)
        server, port = Postgres(Path(folder) / "postgres"), free_port()
        server.start(port, lambda line: None)
        proxy = CountedTcp(port)
        try:
            password = (server.folder / "password").read_text().strip()
            first = int((server.folder / "data" / "postmaster.pid").read_text().split()[0])
            catalog = {
                "type": "jdbc",
                "uri": f"jdbc:postgresql://{HOST}:{proxy.port}/{USER}",
                "properties": {"jdbc.user": USER, "jdbc.password": f"${{{_PASSWORD}}}"},
            }
            yield Place({"catalog": catalog}, {_PASSWORD: password}, (first,), proxy.asking)
        finally:
            proxy.close()
            server.stop()


@contextmanager
def _on_rest(folder: Path, on_s3: bool) -> Iterator[Place]:
    with ExitStack() as stack:
        catalogs = RestCatalogs(folder, S3_PACKAGES if on_s3 else ())
        catalogs.start()
        stack.callback(catalogs.stop)
        settings: dict[str, Any] = {}
        store = None
        if on_s3:
            store = Counted(stack.enter_context(s3_server()))
            stack.enter_context(serving(store))
            storage = storage_on(store.url, f"s3://{_BUCKET}/tidegate")
            make_bucket(storage, _BUCKET)
            port = catalogs.serve("bench", storage.warehouse, storage)
            settings = {"path": storage.warehouse, "storage": settings_of(store.url)}
        else:
            port = catalogs.serve("bench")
        proxy = Counted(f"http://{HOST}:{port}")
        stack.enter_context(serving(proxy))
        process = catalogs.process
        yield Place(
            {"catalog": {"type": "rest", "uri": proxy.url}, **settings},
            {"S3_SECRET": SECRET} if on_s3 else {},
            (process,),
            proxy.asking,
            None if store is None else store.asking,
        )


def commits(bench: Bench) -> Result:
    """Each place by turns; in each, logs of all lengths by turns."""
    lengths = sorted({max(2, round(number)) for number in bench.points(20, 2_000)})
    blocks = max(1, round(6 * bench.options.scale))
    result = Result("catalogs", {"commits of each log in a run": blocks * _BLOCK})
    for repeat in range(bench.repeats(3)):
        for name in bench.wanted(PLACES):
            if name not in result.unavailable:
                _add(bench, result, name, lengths, blocks, repeat)
    return result


def _add(bench: Bench, result: Result, name: str, lengths: list[int], blocks: int, repeat: int) -> None:
    """A run of one place."""
    try:
        with bench.folder() as folder, place_of(name, folder) as place:
            found = _measured(bench, folder, place, lengths, blocks)
    except (CatalogError, StackError) as error:
        result.unavailable[name] = str(error)
        return
    except EngineFailed as error:
        result.failures.append(f"{name}: {error}")
        return
    if found["wrong"]:
        result.failures.append(f"{name}, run {repeat + 1}: wrong result: {found['wrong']}")
    for length in lengths:
        run = per_commit([one for one in found["blocks"] if one["snapshots"] == length], place)
        run |= {"exact": not found["wrong"], "check": found["wrong"]}
        result.point(name, _BLOCK * blocks, length).runs.append(run)
        bench.say(f"catalogs, {name}, {length:,} snapshots: {run['commit_cpu_ms']:.1f} CPU-ms a commit")


def _measured(bench: Bench, folder: Path, place: Place, lengths: list[int], blocks: int) -> dict[str, Any]:
    incoming = folder / "incoming"
    incoming.mkdir()
    rows = [{"id": number, "ts": f"2026-01-01 00:00:{number:02d}"} for number in range(60)]
    (incoming / "0.json").write_text("".join(json.dumps(row) + "\n" for row in rows))
    project = make_project(folder, *(_source(length, incoming) for length in lengths))
    file = project / "resources" / "local.yaml"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"warehouse": place.warehouse}))
    out = folder / "out.json"
    spec = {
        "project": str(project),
        "warm": _WARM,
        "blocks": blocks,
        "block": _BLOCK,
        "list": place.store is None,  # what is put into a store is counted there
        "servers": place.servers,
        "out": str(out),
    }
    bench.module("run_commits", spec, folder, place.environ)
    found: dict[str, Any] = json.loads(out.read_text())
    return found


def _source(length: int, incoming: Path) -> str:
    return (
        f"CREATE SOURCE log{length} (id INT, ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL '5 seconds') "
        f"WITH (connector = 'filesystem', path = '{incoming}') FORMAT PLAIN ENCODE JSON;"
    )


def per_commit(blocks: list[Mapping[str, Any]], place: Place) -> dict[str, float]:
    """Of a commit: medians over blocks."""
    names = ("driver_cpu_ms", "jvm_cpu_ms", "started_cpu_ms", "server_cpu_ms")
    each: list[dict[str, float]] = []
    for block in blocks:
        found = {name: 1000 * cpu / _BLOCK for name, cpu in zip(names, block["cpu"], strict=True)}
        if not place.servers:
            del found["server_cpu_ms"]
        own = sum(found[name] for name in names[:3])
        found = {"commit_cpu_ms": own, **found}
        windows = block["windows"]
        written, questions = block["written"], []
        if place.catalog is not None:
            found["round_trips"] = len(place.catalog.within(windows)) / _BLOCK
        if place.store is not None:
            questions = place.store.within(windows)
            found["store_requests"], written = len(questions) / _BLOCK, sum(questions)
        found["written_kb"] = written / _BLOCK / 1000
        found["commit_wall_ms"] = 1000 * sum(end - begin for begin, end in windows) / _BLOCK
        each.append(found)
    return {name: round(statistics.median(one[name] for one in each), 4) for name in each[0]}


SUITES = (
    Suite(
        "catalogs",
        "Commits with each catalog",
        "A commit of a batch of 60 rows to the log of a source, with each catalog and store, once with 20 "
        "snapshots in the log and once with 2,000, by turns in one warm process. Only the commit is measured: the "
        "batch's files are there, and the table was looked at before. `chmod` are the processes that Hadoop "
        "starts to set the access rights of files on a local disk; the CPU time is that of driver, JVM and these. "
        "The server is that of the catalog. Requests to S3 are those of driver and catalog server. The folder, "
        "SQLite and PostgreSQL write the table's metadata from the driver, the REST server writes them itself, "
        "and sends them back with its answer, which is read but not parsed. Afterwards each log is read by a new "
        "handle and by pyiceberg, and "
        "all rows, epochs and snapshots are counted.",
        25,
        commits,
        columns=(
            "commit_cpu_ms",
            "driver_cpu_ms",
            "jvm_cpu_ms",
            "started_cpu_ms",
            "server_cpu_ms",
            "round_trips",
            "store_requests",
            "written_kb",
            "commit_wall_ms",
        ),
        x="snapshots",
        y=("commit_cpu_ms",),
        y_label="CPU milliseconds of a commit",
    ),
)
