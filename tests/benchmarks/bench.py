"""What every suite has at hand: options, folders, the peers, a broker, and engines that run as measured processes."""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds

from infra.kafka.broker import LocalBroker, free_port
from infra.kafka.topics import Topics
from tests.benchmarks.load import Events, Load, chunks, messages
from tests.benchmarks.meter import Metered, metered
from tests.benchmarks.peers import Peers
from tests.benchmarks.truth import NOTHING, Columns
from tests.benchmarks.wire import Wire, batch

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
#: Of everything that is measured: the package of this very tree, whatever is installed.
ENVIRON = os.environ | {"PYTHONPATH": f"{ROOT / 'platform'}{os.pathsep}{ROOT}"}
#: Messages in a record batch of a load that is there before it is read.
_BATCH = 2_000


@dataclass(frozen=True)
class Options:
    """`scale` multiplies the rows of every suite; `repeats`, `engines` and `points` (places of a curve) replace a
    suite's own. `work`: where everything is made and, unless `keep`, removed."""

    scale: float = 1.0
    repeats: int | None = None
    engines: tuple[str, ...] = ()
    points: tuple[float, ...] = ()
    minutes: float = 2.0
    timeout_s: float = 3600.0
    out: Path = DOCS / "benchmarks"
    work: Path = ROOT / ".tidegate" / "bench"
    keep: bool = False
    #: Of the suite `many`: only these cases; seconds before it measures, and for how long (None: as each case says).
    cases: tuple[str, ...] = ()
    warm_s: float = 120.0
    measure_s: float | None = None


class EngineFailed(Exception):
    """A process ended otherwise than well; its output."""


@dataclass
class Bench:
    """The surroundings of one suite."""

    options: Options
    say: Callable[[str], None]
    cores: int = field(default_factory=lambda: os.cpu_count() or 1)
    #: Kinds of runs whose first one is behind us.
    started: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.options.work.mkdir(parents=True, exist_ok=True)
        self.peers = Peers(self.options.work, self.say)
        self.data = self.options.work / "data"

    def rows(self, count: int, least: int = 20_000) -> int:
        """A suite's number of rows at this scale."""
        return max(least, int(count * self.options.scale))

    def repeats(self, own: int) -> int:
        return self.options.repeats or own

    def points(self, *own: float) -> tuple[float, ...]:
        return self.options.points or own

    def wanted(self, engines: Sequence[str]) -> list[str]:
        """Of these engines, those that were asked for."""
        return [name for name in engines if not self.options.engines or name in self.options.engines]

    @contextmanager
    def folder(self) -> Iterator[Path]:
        """An empty folder for one run."""
        with tempfile.TemporaryDirectory(
            prefix="run-", dir=self.options.work, ignore_cleanup_errors=True
        ) as name:
            yield Path(name)

    def run(
        self, words: Sequence[str], spec: Mapping[str, Any], folder: Path, environ: Mapping[str, str] = {}
    ) -> Metered:
        """A measured process that reads `spec`, with these variables in addition. Raises EngineFailed with the end of
        what it said."""
        path = folder / "spec.json"
        path.write_text(json.dumps(spec))
        done = metered(
            [*words, str(path)], folder / "output.log", ROOT, ENVIRON | environ, self.options.timeout_s
        )
        if done.code != 0:
            late = f"did not end within {self.options.timeout_s:.0f} s"
            how = late if done.code is None else f"ended with exit code {done.code}"
            raise EngineFailed(f"{how}\n{done.tail[-1500:]}")
        return done

    def module(
        self, name: str, spec: Mapping[str, Any], folder: Path, environ: Mapping[str, str] = {}
    ) -> Metered:
        """One of `engines`, in this environment."""
        words = [sys.executable, "-m", f"tests.benchmarks.engines.{name}"]
        return self.run(words, spec, folder, environ)

    def script(self, python: Path, name: str, spec: Mapping[str, Any], folder: Path) -> Metered:
        """One of `engines`, in an environment of its own."""
        return self.run([str(python), str(Path(__file__).parent / "engines" / f"{name}.py")], spec, folder)

    @contextmanager
    def broker(self) -> Iterator[str]:
        """A real broker on loopback, outside of every measurement; its address."""
        with self.folder() as folder:
            broker, port = LocalBroker(folder), free_port()
            try:
                broker.start(port, with_parent=True, notify=self.say)
                yield f"127.0.0.1:{port}"
            finally:
                broker.kill()

    def clean(self) -> None:
        """What was made for this suite, except for the peers."""
        if not self.options.keep:
            shutil.rmtree(self.data, ignore_errors=True)


def make_project(folder: Path, *statements: str) -> Path:
    """A project as its users have it, with default settings but for the machine's cores."""
    project = folder / "project"
    (project / "assets").mkdir(parents=True)
    (project / "resources").mkdir()
    cores = os.cpu_count() or 1
    spark = {"master": f"local[{cores}]", "conf": {"spark.sql.shuffle.partitions": cores}}
    allow = {"folders": ["/"]}  # the load lies beside the projects
    (project / "resources" / "local.yaml").write_text(json.dumps({"spark": spark, "allow": allow}))
    (project / "assets" / "bench.sql").write_text("\n".join(statements))
    return project


def fill_topic(bootstrap: str, topic: str, load: Load, log: Events, create: bool = True) -> None:
    """The topic with all of the load's messages, the partitions in turn; made here, or `create` is false."""
    if create:
        with Topics(bootstrap) as topics:
            topics.create(topic, load.partitions)
    wire = Wire(bootstrap)
    try:
        for part, rows in chunks(log, _BATCH):
            wire.send(topic, {part: batch(messages(rows, load.payload), int(rows.ts[0]) // 1000)})
    finally:
        wire.close()


def read_columns(folder: Path, names: Sequence[str]) -> Columns:
    """A result in Parquet files: times as microseconds, NULL as NOTHING."""
    files = [
        str(f)
        for f in folder.rglob("*")
        if f.is_file() and not _is_hidden(f.relative_to(folder)) and f.stat().st_size
    ]
    if not files:
        return {name: np.empty(0, np.int64) for name in names}
    table = ds.dataset(files, format="parquet").to_table(columns=list(names))
    return {name: _integers(table[name]) for name in names}


def _is_hidden(path: Path) -> bool:
    return any(part.startswith(("_", ".")) for part in path.parts)


def _integers(column: pa.ChunkedArray) -> np.ndarray:
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("us", column.type.tz), safe=False)
    return column.cast(pa.int64()).fill_null(NOTHING).to_numpy()
