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
from tests.chaos.pipeline import Pipeline  # noqa: E402
from tests.soak.page import figures, plot, read_csv, table, write_csv, write_docs  # noqa: E402
from tests.soak.sample import MB, Told, of_processes  # noqa: E402
from tests.soak.shapes import ManySources, OneSource, Shape  # noqa: E402
from tests.soak.trend import Trend, trend  # noqa: E402
from tidegate.project import Project  # noqa: E402

PAGE = ROOT / "docs" / "soak.md"
#: As short as upkeep allows, so that a run of half an hour sees it at work several times.
_MAINTENANCE = """\
defaults:
  keep_snapshots: 10 minutes
  settle: 1 minute
  compact_when_files: 50
"""
#: What a run of many sources has instead of a default, as the suite `many` of `make bench`.
_MANY = {"rate": 100.0, "interval": "5s"}
#: Rows of many sources do not end before the last sample, however long it takes.
_SPARE_S = 120.0


@dataclass(frozen=True)
class Options:
    """Of one run; times in seconds. `sources`: one is that of `make chaos`, several have two views each. `rate`: rows
    per second of each source. `minutes` are measured, after `warm_up` minutes that are not. `samples`: of an earlier
    run, to be judged once more instead of a new one."""

    sources: int = 1
    minutes: float = 30.0
    warm_up: float = 25.0
    rate: float = 2000.0
    interval: str = "2s"
    every: float = 10.0
    seed: int = 1
    out: Path = Path(".tidegate/soak")
    docs: bool = False
    samples: Path | None = None

    def shape(self) -> Shape:
        """What is run."""
        if self.sources == 1:
            return OneSource(self.rate, self.seed)
        return ManySources(self.sources, self.rate, 60 * (self.warm_up + self.minutes) + _SPARE_S)


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
        self.options, self.folder, self.shape = options, folder, options.shape()
        self.broker, self.port = LocalBroker(folder / "kafka"), free_port()
        self.root = folder / "project"
        self.pipeline = Pipeline(self.root, options.interval)
        self.samples: list[dict[str, float]] = []
        self.failures: list[str] = []

    def run(self) -> Report:
        """Everything; leaves nothing running, whatever happens."""
        bootstrap = f"127.0.0.1:{self.port}"
        try:
            say("a broker, topics, a project")
            self.broker.start(self.port, with_parent=True, notify=say)
            self.shape.prepare(self.folder, bootstrap)
            (self.root / "jobs").mkdir()
            (self.root / "jobs" / "maintenance.yaml").write_text(_MAINTENANCE)
            self.pipeline.start()
            self.shape.start()
            with Topics(bootstrap) as topics:
                self._sample(topics)
            self.shape.stop()
            if code := self.pipeline.stop():
                self.failures.append(f"tidegate live ended with {code} after SIGTERM")
        except TimeoutError as error:
            self.failures.append(str(error))
        finally:
            self.shape.stop()
            self.pipeline.clean()
            self.broker.kill()
        return self._report()

    def judge(self, samples: list[dict[str, float]]) -> Report:
        """The report of an earlier run's samples."""
        self.samples = samples
        return self._report()

    def _sample(self, topics: Topics) -> None:
        project, told = Project.load(self.root, "local"), Told(self.pipeline.log)
        began = time.monotonic()
        length = 60 * (self.options.warm_up + self.options.minutes)
        workers: set[int] = set()
        for n in range(1, int(length / self.options.every) + 1):
            time.sleep(max(0.0, began + n * self.options.every - time.monotonic()))
            if not self.pipeline.runs or not self.shape.runs:
                self.failures.append("tidegate live or the producer has ended")
                say(self.pipeline.tail())
                return
            sample: dict[str, float] = {"seconds": time.monotonic() - began}
            sample |= of_processes(self.pipeline.processes()) | told.times()
            sample |= self.shape.sample(project, topics)
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

        shown = self.shape.shown
        say(
            f"{sample['seconds'] / 60:5.1f} min  rows {value('rows')}  waiting {value('rows waiting')}  "
            f"jvm {value('memory jvm')} MB  worker {value('memory worker')} MB  tick {value('tick')} s  "
            f"{shown}: files {value(f'{shown}: files on disk')}  snapshots {value(f'{shown}: snapshots')}"
        )

    def _report(self) -> Report:
        options, shape = self.options, self.shape
        out, known = options.out, shape.known
        image = f"{shape.stem}.png"
        out.mkdir(parents=True, exist_ok=True)
        measured = [s for s in self.samples if s["seconds"] >= 60 * options.warm_up]
        trends, missing = [], []
        for name, one in known.items():
            if one.limit is None:
                continue
            values = [s.get(name) for s in measured]
            found = trend(name, one.unit, [s["seconds"] for s in measured], values, one.limit)
            if found is not None:
                trends.append(found)
            else:
                missing.append(name)
        if options.samples is None:
            write_csv(out / f"{shape.stem}.csv", list(known), self.samples)
        by_name = {t.name: t for t in trends}
        if self.samples:
            plot(out / image, known, self.samples, 60 * options.warm_up, by_name)
        if self.pipeline.log.is_file():
            shutil.copy(self.pipeline.log, out / "live.log")
        if missing:
            self.failures.append(f"too few samples after the warm-up of: {', '.join(missing)}")
        last = self.samples[-1] if self.samples else {}
        facts = {
            "judged": f"{(last.get('seconds', 0) / 60 - options.warm_up):.0f} minutes, after a warm-up of "
            f"{options.warm_up:g} at the same rate",
            **shape.facts(max((s.get("rows", 0) for s in self.samples), default=0), options.interval),
            "machine": f"{os.cpu_count()} cores, {_memory()}, Python {platform.python_version()}",
        }
        report = Report(facts, trends, self.failures)
        if options.docs and not report.failures:
            shutil.copy(out / image, PAGE.parent / "images" / image)
            write_docs(PAGE, figures(trends, facts, f"images/{image}"), *shape.marks)
        return report


def _memory() -> str:
    return f"{os.sysconf('SC_PHYS_PAGES') * os.sysconf('SC_PAGE_SIZE') / MB / 1024:.0f} GB"


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def parse(arguments: list[str] | None = None) -> tuple[Options, bool]:
    """The options, and whether to print JSON."""
    d = Options()
    # What is not given is not there, so that the defaults are those of the run.
    parser = argparse.ArgumentParser(
        prog="make soak",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        argument_default=argparse.SUPPRESS,
    )
    add = parser.add_argument
    add("--sources", type=int, metavar="N", help="1: the project of make chaos; more: with two views each")
    add("--minutes", type=float, help=f"measured, after the warm-up ({d.minutes:g})")
    add("--warm-up", type=float, help=f"minutes that are not judged ({d.warm_up:g})")
    add("--rate", type=float, help=f"rows a second of each source ({d.rate:g}; of many {_MANY['rate']:g})")
    add("--interval", help=f"of tidegate live ({d.interval}; with many sources {_MANY['interval']})")
    add("--every", type=float, metavar="SECONDS", help=f"between two samples ({d.every:g})")
    add("--seed", type=int, help="of the rows of one source")
    add("--out", type=Path, help=f"folder for samples, plot and live.log ({d.out})")
    add("--write-docs", action="store_true", dest="docs", help="put the figures and the plot into docs/")
    add(
        "--samples",
        type=Path,
        metavar="CSV",
        help="judge an earlier run's samples once more, with this --warm-up and number of --sources",
    )
    add("--json", action="store_true", help="print the report as one JSON object")
    given = vars(parser.parse_args(arguments))
    as_json = given.pop("json", False)
    if given.get("sources", 1) < 1:
        parser.error("--sources: at least one source is needed")
    return Options(**((_MANY if given.get("sources", 1) > 1 else {}) | given)), as_json


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
        files = f"{options.out}/{soak.shape.stem}.csv and .png"
        print(f"growing: {', '.join(report.growing) or 'nothing'}   ({files})")
        for failure in report.failures:
            print(f"FAILED: {failure}")
    return 1 if report.growing or report.failures else 0


if __name__ == "__main__":
    sys.exit(main())
