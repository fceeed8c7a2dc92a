"""`make soak`: a pipeline at a steady rate, for half an hour or a day, and whether anything of it grows.

A real broker, a producer at a steady rate, and `tidegate live` with its upkeep on. Every few seconds: memory of every
process, threads, open files, the size and number of the tables' files, how long ticks and commits take, what waits.
After the warm-up a straight line is laid through each series; one that rises more than it may makes the run fail.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))

from infra.kafka.broker import LocalBroker, free_port  # noqa: E402
from infra.kafka.topics import Topics  # noqa: E402
from tests.chaos.load import BIG, WEIGHTS  # noqa: E402
from tests.chaos.pipeline import Pipeline  # noqa: E402
from tests.chaos.project import SORTED, SOURCE, VIEWS, write_project  # noqa: E402
from tests.soak.page import figures, plot, read_csv, table, write_csv, write_docs  # noqa: E402
from tests.soak.sample import MB, Told, of_lag, of_processes, of_tables, series  # noqa: E402
from tests.soak.trend import Trend, trend  # noqa: E402
from tidegate.project import Project  # noqa: E402

TOPIC = "soak"
TABLES = [SOURCE, *(view.name for view in VIEWS), SORTED]
PAGE, IMAGE = ROOT / "docs" / "soak.md", "images/soak.png"
#: As short as upkeep allows, so that a run of half an hour sees it at work several times.
_MAINTENANCE = """\
defaults:
  keep_snapshots: 10 minutes
  settle: 1 minute
  compact_when_files: 50
"""


@dataclass(frozen=True)
class Options:
    """Of one run; times in seconds. `minutes` are measured, after `warm_up` minutes that are not. `samples`: of an
    earlier run, to be judged once more instead of a new one."""

    minutes: float = 30.0
    warm_up: float = 25.0
    rate: float = 2000.0
    interval: str = "2s"
    every: float = 10.0
    seed: int = 1
    out: Path = Path(".tidegate/soak")
    docs: bool = False
    samples: Path | None = None


@dataclass(frozen=True)
class Report:
    """`failures`: beside series that grow."""

    facts: dict[str, str]
    trends: list[Trend]
    failures: list[str]

    @property
    def growing(self) -> list[str]:
        return [t.name for t in self.trends if t.growing]


class Soak:
    """One run in `folder`."""

    def __init__(self, options: Options, folder: Path) -> None:
        self.options, self.folder = options, folder
        self.broker, self.port = LocalBroker(folder / "kafka"), free_port()
        self.root = folder / "project"
        self.pipeline = Pipeline(self.root, options.interval)
        self.samples: list[dict[str, float]] = []
        self.failures: list[str] = []

    def run(self) -> Report:
        """Everything; leaves nothing running, whatever happens."""
        bootstrap = f"127.0.0.1:{self.port}"
        producer = None
        try:
            say("a broker, a topic, a project")
            self.broker.start(self.port, with_parent=True, notify=say)
            with Topics(bootstrap) as topics:
                topics.create(TOPIC, len(WEIGHTS), {"max.message.bytes": str(2 * BIG)})
            write_project(self.root, bootstrap, TOPIC, idle_seconds=60)
            (self.root / "jobs").mkdir()
            (self.root / "jobs" / "maintenance.yaml").write_text(_MAINTENANCE)
            self.pipeline.start()
            words = [bootstrap, TOPIC, str(self.options.rate), str(self.options.seed)]
            producer = subprocess.Popen(
                [sys.executable, "-m", "tests.soak.produce", *words],
                cwd=ROOT,
                stdout=subprocess.DEVNULL,
                stderr=(self.folder / "producer.log").open("wb"),
            )
            with Topics(bootstrap) as topics:
                self._sample(topics, producer)
            producer.send_signal(signal.SIGTERM)
            if code := self.pipeline.stop():
                self.failures.append(f"tidegate live ended with {code} after SIGTERM")
        except TimeoutError as error:
            self.failures.append(str(error))
        finally:
            if producer is not None:
                producer.kill()
                producer.wait()
            self.pipeline.clean()
            self.broker.kill()
        return self._report()

    def judge(self, samples: list[dict[str, float]]) -> Report:
        """The report of an earlier run's samples."""
        self.samples = samples
        return self._report()

    def _sample(self, topics: Topics, producer: subprocess.Popen[bytes]) -> None:
        project, told = Project.load(self.root, "local"), Told(self.pipeline.log)
        began = time.monotonic()
        length = 60 * (self.options.warm_up + self.options.minutes)
        workers: set[int] = set()
        for n in range(1, int(length / self.options.every) + 1):
            time.sleep(max(0.0, began + n * self.options.every - time.monotonic()))
            if not self.pipeline.runs or producer.poll() is not None:
                self.failures.append("tidegate live or the producer has ended")
                say(self.pipeline.tail())
                return
            sample: dict[str, float] = {"seconds": time.monotonic() - began}
            processes = self.pipeline.processes()
            sample |= of_processes(processes) | of_tables(project, TABLES) | told.times()
            sample |= of_lag(project, SOURCE, lambda: topics.ends(TOPIC), time.time)
            self.samples.append(sample)
            if (worker := self.pipeline.worker()) is not None:
                workers.add(worker.pid)
            if n % max(1, round(60 / self.options.every)) == 0:
                self._notify(sample)
        if len(workers) > 1:
            self.failures.append(
                f"the worker was restarted {len(workers) - 1} times: see {self.pipeline.log.name}"
            )

    def _notify(self, sample: dict[str, float]) -> None:
        def value(name: str) -> str:
            return f"{sample[name]:,.4g}" if name in sample else "?"

        files = sum(v for k, v in sample.items() if k.endswith("files on disk"))
        say(
            f"{sample['seconds'] / 60:5.1f} min  rows {value('rows')}  waiting {value('rows waiting')}  "
            f"jvm {value('memory jvm')} MB  worker {value('memory worker')} MB  tick {value('tick')} s  "
            f"files {files:,.0f}  snapshots {value(f'{SOURCE}: snapshots')}"
        )

    def _report(self) -> Report:
        options = self.options
        out, known = options.out, series(TABLES)
        out.mkdir(parents=True, exist_ok=True)
        measured = [s for s in self.samples if s["seconds"] >= 60 * options.warm_up]
        trends = []
        for name, one in known.items():
            if one.limit is None:
                continue
            values = [s.get(name) for s in measured]
            found = trend(name, one.unit, [s["seconds"] for s in measured], values, one.limit)
            if found is not None:
                trends.append(found)
        if options.samples is None:
            write_csv(out / "soak.csv", list(known), self.samples)
        by_name = {t.name: t for t in trends}
        if self.samples:
            plot(out / "soak.png", known, self.samples, 60 * options.warm_up, by_name)
        if self.pipeline.log.is_file():
            shutil.copy(self.pipeline.log, out / "live.log")
        if not trends:
            self.failures.append("there was nothing to measure after the warm-up")
        last = self.samples[-1] if self.samples else {}
        facts = {
            "judged": f"{(last.get('seconds', 0) / 60 - options.warm_up):.0f} minutes, after a warm-up of "
            f"{options.warm_up:g} at the same rate",
            "rate": f"{options.rate:,.0f} rows a second, {last.get('rows', 0):,.0f} rows in the log at the end",
            "tick": f"every {options.interval} at the soonest, {len(WEIGHTS)} partitions, {len(TABLES) - 1} views",
            "machine": f"{os.cpu_count()} cores, {_memory()}, Python {platform.python_version()}",
        }
        report = Report(facts, trends, self.failures)
        if options.docs and not report.failures:
            shutil.copy(out / "soak.png", PAGE.parent / IMAGE)
            write_docs(PAGE, figures(trends, facts, IMAGE))
        return report


def _memory() -> str:
    return f"{os.sysconf('SC_PHYS_PAGES') * os.sysconf('SC_PAGE_SIZE') / MB / 1024:.0f} GB"


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def parse(arguments: list[str] | None = None) -> tuple[Options, bool]:
    """The options, and whether to print JSON."""
    d = Options()
    parser = argparse.ArgumentParser(
        prog="make soak", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=d.minutes, help="measured, after the warm-up")
    parser.add_argument("--warm-up", type=float, default=d.warm_up, help="minutes that are not judged")
    parser.add_argument("--rate", type=float, default=d.rate, help="rows a second")
    parser.add_argument("--interval", default=d.interval, help="of tidegate live")
    parser.add_argument("--every", type=float, default=d.every, metavar="SECONDS", help="between two samples")
    parser.add_argument("--seed", type=int, default=d.seed, help="of the rows")
    parser.add_argument("--out", type=Path, default=d.out, help="folder for soak.csv, soak.png and live.log")
    parser.add_argument("--write-docs", action="store_true", help="put the figures and the plot into docs/")
    parser.add_argument(
        "--samples",
        type=Path,
        metavar="CSV",
        help="judge an earlier run's samples once more, with this --warm-up",
    )
    parser.add_argument("--json", action="store_true", help="print the report as one JSON object")
    given = parser.parse_args(arguments)
    options = Options(
        given.minutes,
        given.warm_up,
        given.rate,
        given.interval,
        given.every,
        given.seed,
        given.out,
        given.write_docs,
        given.samples,
    )
    return options, given.json


def main() -> int:
    options, as_json = parse()
    signal.signal(
        signal.SIGTERM, lambda *_: sys.exit("stopped")
    )  # by way of every `finally`: nothing is left running
    logging.getLogger("kafka").setLevel(logging.CRITICAL)
    folder = Path(tempfile.mkdtemp(prefix="tidegate-soak-"))
    try:
        soak = Soak(options, folder)
        report = soak.run() if options.samples is None else soak.judge(read_csv(options.samples))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if as_json:
        print(json.dumps(asdict(report) | {"growing": report.growing}))
    else:
        print("\n".join(f"{name}: {value}" for name, value in report.facts.items()))
        print(table(report.trends))
        print(f"growing: {', '.join(report.growing) or 'nothing'}   ({options.out}/soak.csv, soak.png)")
        for failure in report.failures:
            print(f"FAILED: {failure}")
    return 1 if report.growing or report.failures else 0


if __name__ == "__main__":
    sys.exit(main())
