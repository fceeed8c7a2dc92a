"""`make chaos`: kill -9 at random, again and again, and then compare every row, decision and window with the oracle.

A real broker holds topics of uneven partitions; producers fill them; one `tidegate live` keeps several groups up to
date, each with a source and three views. A second broker has the topic of the last group, and what the sink of the
second one delivers. Meanwhile parts of the live process tree, Spark's Python workers and the first broker are killed at
random moments, and the second broker is killed or stopped until the other groups have committed without it. At the end
everything in the logs, the views and the sink is compared with what plain Python makes of the same topics. Any
difference fails.
"""

from __future__ import annotations

import argparse
import json
import logging
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))

from infra.kafka.topics import Topics  # noqa: E402
from tests.chaos.check import check  # noqa: E402
from tests.chaos.export import load  # noqa: E402
from tests.chaos.kills import ChaosBroker, Kills  # noqa: E402
from tests.chaos.load import BIG, WEIGHTS  # noqa: E402
from tests.chaos.pipeline import Pipeline  # noqa: E402
from tests.chaos.produce import Producing  # noqa: E402
from tests.chaos.project import ChaosGroup, make_groups, rules, write_project  # noqa: E402
from tests.chaos.replay import Verdict  # noqa: E402
from tests.chaos.report import Options, Report, summary, unfelt, vacuous  # noqa: E402
from tests.chaos.topic import end_offsets, read_delivered, read_topic  # noqa: E402
from tests.chaos.watch import PATIENCE, Stuck, Watch, say  # noqa: E402

#: What writes the tables of a project with so many groups into a folder (`export.py`).
Export = Callable[[Path, Path, int], None]


class Chaos:
    """One run in `folder`, step by step; `run` is all of them."""

    def __init__(self, options: Options, folder: Path, exported: Export | None = None) -> None:
        """`exported`: by what the tables are exported; None: by a process of its own."""
        self.options, self.folder, self.exported = options, folder, exported or _exported
        self.report = Report({k: str(v) if isinstance(v, Path) else v for k, v in asdict(options).items()})
        self.near, self.far = ChaosBroker(folder / "kafka"), ChaosBroker(folder / "far")
        self.groups = make_groups(options.groups, self.near.bootstrap, self.far.bootstrap)
        self.root = folder / "project"
        self.pipeline = Pipeline(self.root, options.interval)
        self.producers: list[Producing] = []
        self.watch = Watch(self.pipeline, self.groups, self._told)
        self.began = time.monotonic()

    def run(self) -> Report:
        """Everything; leaves nothing running, whatever happens."""
        try:
            self._prepare()
            Kills(self.options, self.watch, self.near, self.far, self.report, self._pace).run()
            self._finish()
            self._compare()
        except (Stuck, TimeoutError) as error:
            self.report.failures.append(str(error))
            say(f"{error}\n--- the end of {self.pipeline.log.name}:\n{self.pipeline.tail()}")
        finally:
            self.report.starts = self.pipeline.starts
            self.report.failures += unfelt(self.report.outages)
            for producer in self.producers:
                producer.kill()
            self.pipeline.clean()
            self.near.kill()
            self.far.kill()
        return self.report

    def _prepare(self) -> None:
        options = self.options
        say(
            f"brokers, {options.groups} topics with {len(WEIGHTS)} partitions, a project (seed {options.seed})"
        )
        brokers = [b for b in (self.near, self.far) if any(g.needs(b.bootstrap) for g in self.groups)]
        for broker in brokers:
            broker.start()
        # The broker's own clock on every row: it tells whether a partition was idle, whoever says so.
        config = {"message.timestamp.type": "LogAppendTime", "max.message.bytes": str(2 * BIG)}
        for group in self.groups:
            with Topics(group.bootstrap) as topics:
                topics.create(group.topic, len(WEIGHTS), config)
            if group.target is not None:
                with Topics(group.target) as topics:
                    topics.create(group.sink_topic, 3)
        write_project(self.root, self.groups, options.idle_seconds, options.small)
        self.pipeline.start()
        rows = options.rows // options.groups
        # A trickle until the first commit: most of the load is to meet kills, not a Spark that starts.
        self.producers = [
            Producing(
                group.bootstrap,
                group.topic,
                rows,
                options.seed + group.number - 1,
                rows / 1000,
                self.folder / f"producer-{group.number}.log",
            )
            for group in self.groups
        ]

    def _pace(self, seconds: float) -> None:
        for producer in self.producers:
            producer.pace(seconds)

    # -- the end -----------------------------------------------------------------------------------------------

    def _finish(self) -> None:
        self.watch.until("the producers' end", self._is_sent, seconds=3 * PATIENCE)
        self.report.load_seconds = round(time.monotonic() - self.began, 1)
        began = time.monotonic()
        ends = {group.source: end_offsets(group.bootstrap, group.topic) for group in self.groups}
        self._count()
        self.report.in_topics = sum(end for of_it in ends.values() for end in of_it.values())
        say(
            f"{self.report.sent:,} rows sent; the topics have {self.report.in_topics:,}; waiting for the last window"
        )
        # For longer than a partition needs to become idle.
        steady = self.options.idle_seconds + 3
        self.watch.until(
            "the last row, window and message",
            lambda: self.watch.caught_up(ends, steady),
            seconds=2 * PATIENCE,
        )
        self.report.catch_up_seconds = round(time.monotonic() - began, 1)
        code = self.pipeline.stop()
        if code:
            self.report.failures.append(f"tidegate live ended with {code} after SIGTERM")
        for process in self.pipeline.left_behind():
            self.report.failures.append(f"process left behind: {' '.join(process.command)[:100]}")

    def _is_sent(self) -> bool:
        codes = [producer.exit_code() for producer in self.producers]
        for producer, code in zip(self.producers, codes, strict=True):
            if code:
                raise Stuck(f"a producer failed: {producer.log.read_text()[-2000:]}")
        return None not in codes

    def _compare(self) -> None:
        began = time.monotonic()
        say("exporting the logs and the views")
        exported = self.folder / "export"
        self.exported(self.root, exported, self.options.groups)
        verdict = Verdict()
        for group in self.groups:
            say(f"judging every row of {group.source} again")
            found = self._judged(group, exported / str(group.number))
            verdict.add(group.source, found)
            self.report.failures += vacuous(group.source, found, group.target is not None)
        self.report.verdict = verdict.document()
        self.report.check_seconds = round(time.monotonic() - began, 1)

    def _judged(self, group: ChaosGroup, exported: Path) -> Verdict:
        topic, found = read_topic(group.bootstrap, group.topic), load(exported)
        delivered = None if group.target is None else read_delivered(group.target, group.sink_topic)
        of_project = rules(self.options.idle_seconds)
        return check(topic, found.raw, found.history, found.windows, found.in_order, of_project, delivered)

    # -- what is said meanwhile --------------------------------------------------------------------------------

    def _count(self) -> None:
        self.report.sent = sum(p.sent for p in self.producers)
        self.report.sent_again = sum(p.repeated for p in self.producers)

    def _told(self) -> str:
        self._count()
        options, kills = self.options, self.report.kills
        broker = kills.get("broker", 0)
        return (
            f"{time.monotonic() - self.began:5.0f} s  killed {sum(kills.values()) - broker} of {options.kills}, "
            f"broker {broker} of {options.broker_kills}, outage {len(self.report.outages)} of "
            f"{options.target_outages}  sent {self.report.sent:,}"
        )


def _exported(root: Path, folder: Path, groups: int) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.chaos.export", str(root), str(folder), str(groups)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise Stuck(f"the export failed: {done.stderr[-3000:]}")


def parse(arguments: list[str] | None = None) -> tuple[Options, bool]:
    """The options, and whether to print JSON."""
    d = Options()
    parser = argparse.ArgumentParser(
        prog="make chaos", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=d.rows, help=f"of all groups (default {d.rows:,})")
    parser.add_argument("--groups", type=int, default=d.groups, help=f"in one driver (default {d.groups})")
    parser.add_argument(
        "--kills", type=int, default=d.kills, help="kill -9 of the live process tree, or parts of it"
    )
    parser.add_argument("--broker-kills", type=int, default=d.broker_kills, help="kill -9 of the broker")
    parser.add_argument(
        "--target-outages",
        type=int,
        help=f"of the second broker, killed or stopped for some seconds (default {d.target_outages}; none if there "
        "is one group)",
    )
    parser.add_argument("--seed", type=int, default=d.seed, help="of the load and of the kills")
    parser.add_argument(
        "--idle", type=int, default=d.idle_seconds, metavar="SECONDS", help="idle_timeout of the sources"
    )
    parser.add_argument("--interval", default=d.interval, help="of tidegate live")
    parser.add_argument(
        "--keep", type=Path, metavar="FOLDER", help="run in this new folder, and leave it there"
    )
    parser.add_argument("--json", action="store_true", help="print the report as one JSON object")
    given = parser.parse_args(arguments)
    outages = given.target_outages
    if outages is None:
        outages = d.target_outages if given.groups > 1 else 0
    if given.groups < 1 or (outages and given.groups < 2):
        parser.error("an outage of single groups' broker needs --groups 2 or more")
    options = Options(
        rows=given.rows,
        groups=given.groups,
        kills=given.kills,
        broker_kills=given.broker_kills,
        target_outages=outages,
        seed=given.seed,
        idle_seconds=given.idle,
        interval=given.interval,
        keep=given.keep,
    )
    return options, given.json


def run(options: Options, exported: Export | None = None) -> Report:
    """One run in a folder that is removed afterwards, unless it is to be kept."""
    logging.getLogger("kafka").setLevel(logging.CRITICAL)
    if options.keep is not None:
        options.keep.mkdir(parents=True)
        return Chaos(options, options.keep.resolve(), exported).run()
    folder = Path(tempfile.mkdtemp(prefix="tidegate-chaos-"))
    try:
        return Chaos(options, folder, exported).run()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def main() -> int:
    options, as_json = parse()
    signal.signal(
        signal.SIGTERM, lambda *_: sys.exit("stopped")
    )  # by way of every `finally`: nothing is left running
    report = run(options)
    print(json.dumps(asdict(report) | {"total": report.differences}) if as_json else summary(report))
    return 1 if report.differences else 0


if __name__ == "__main__":
    sys.exit(main())
