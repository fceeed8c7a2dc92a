"""`make chaos`: kill -9 at random, again and again, and then compare every row, decision and window with the oracle.

A real broker holds a topic of uneven partitions; a producer fills it; `tidegate live` keeps a source and three views up
to date. Meanwhile parts of the live process tree, and the broker, are killed at random moments. At the end everything
in the log and in the views is compared with what plain Python makes of the same topic. Any difference fails.
"""

from __future__ import annotations

import argparse
import json
import logging
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))

from infra.kafka.broker import LocalBroker, free_port  # noqa: E402
from infra.kafka.topics import Topics  # noqa: E402
from tests.chaos.check import check  # noqa: E402
from tests.chaos.export import load  # noqa: E402
from tests.chaos.load import BIG, WEIGHTS  # noqa: E402
from tests.chaos.pipeline import TARGETS, Pipeline, wait_until  # noqa: E402
from tests.chaos.project import SOURCE, rules, write_project  # noqa: E402
from tests.chaos.report import Options, Report, summary, vacuous  # noqa: E402
from tests.chaos.topic import end_offsets, read_topic  # noqa: E402
from tidegate.errors import TidegateError  # noqa: E402
from tidegate.project import Project  # noqa: E402
from tidegate.store.metadata import CommittedTable, load_table  # noqa: E402
from tidegate.store.status import read_status  # noqa: E402
from tidegate.store.status_values import ProjectStatus  # noqa: E402

TOPIC = "chaos"
#: What writes the tables of a project into a folder (`export.py`).
Export = Callable[[Path, Path], None]
#: How often each part of the live process tree is the target; the broker counts by itself.
_SHARES = {"all": 45, "worker": 35, "jvm": 12, "supervisor": 8}
#: A supervisor waits longer after each worker that dies young, so it is soon killed itself.
_SPARED_IN_A_ROW = 2
_PATIENCE = 600.0


class Stuck(Exception):
    """The pipeline made no progress."""


class Chaos:
    """One run in `folder`, step by step; `run` is all of them."""

    def __init__(self, options: Options, folder: Path, exported: Export | None = None) -> None:
        """`exported`: by what the tables are exported; None: by a process of its own."""
        self.options, self.folder, self.exported = options, folder, exported or self._exported
        self.random = random.Random(options.seed)
        self.report = Report({k: str(v) if isinstance(v, Path) else v for k, v in asdict(options).items()})
        self.kills: dict[str, int] = dict.fromkeys((*TARGETS, "broker"), 0)
        self.broker, self.port = LocalBroker(folder / "kafka"), free_port()
        self.bootstrap = f"127.0.0.1:{self.port}"
        self.root = folder / "project"
        self.pipeline = Pipeline(self.root, options.interval)
        self.producer: subprocess.Popen[str] | None = None
        self.project: Project | None = None
        self.began = self._told = time.monotonic()

    def run(self) -> Report:
        """Everything; leaves nothing running, whatever happens."""
        try:
            self._prepare()
            self._disturb()
            self._finish()
            self._compare()
        except (Stuck, TimeoutError) as error:
            self.report.failures.append(str(error))
            say(f"{error}\n--- the end of {self.pipeline.log.name}:\n{self.pipeline.tail()}")
        finally:
            self.report.kills, self.report.starts = self.kills, self.pipeline.starts
            if self.producer is not None:
                self.producer.kill()
            self.pipeline.clean()
            self.broker.kill()
        return self.report

    def _prepare(self) -> None:
        say(f"a broker, a topic with {len(WEIGHTS)} partitions, a project (seed {self.options.seed})")
        self.broker.start(self.port, with_parent=True, notify=say)
        # The broker's own clock on every row: it tells whether a partition was idle, whoever says so.
        config = {"message.timestamp.type": "LogAppendTime", "max.message.bytes": str(2 * BIG)}
        with Topics(self.bootstrap) as topics:
            topics.create(TOPIC, len(WEIGHTS), config)
        write_project(self.root, self.bootstrap, TOPIC, self.options.idle_seconds, small=self.options.small)
        self.project = Project.load(self.root, "local")
        self.pipeline.start()
        # A trickle until the first commit: most of the load is to meet kills, not a Spark that starts.
        rate = str(self.options.rows / 1000)
        words = [self.bootstrap, TOPIC, str(self.options.rows), str(self.options.seed), rate]
        self.producer = subprocess.Popen(
            [sys.executable, "-m", "tests.chaos.produce", *words],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=(self.folder / "producer.log").open("wb"),
            text=True,
        )
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        assert self.producer is not None
        assert self.producer.stdout is not None
        for line in self.producer.stdout:
            told = json.loads(line)
            self.report.sent, self.report.sent_again = told["sent"], told["repeated"]

    # -- kills -------------------------------------------------------------------------------------------------

    def _disturb(self) -> None:
        """Kill after kill, while the producer is slowed or hurried so that the load lasts as long."""
        actions = ["live"] * self.options.kills + ["broker"] * self.options.broker_kills
        self.random.shuffle(actions)
        self._await_epoch(0)
        self._pace(self.options.rows / max(10.0, len(actions) * self.options.seconds_per_kill))
        spared, since = 0, time.monotonic()
        for done, action in enumerate(actions):
            if action == "broker":
                self._kill_broker()
            else:
                spared = self._kill_live(spared)
            left, mean = len(actions) - done - 1, (time.monotonic() - since) / (done + 1)
            rows = self.options.rows - self.report.sent
            self._pace(rows / (left * mean) if left else 0)
        self._pace(0)

    def _kill_live(self, spared: int) -> int:
        """One kill of (a part of) the live tree; how many times in a row the supervisor was spared."""
        early = self.random.random() < 0.25
        if early:
            # While it starts: before Spark, while Spark comes up, in the first batch.
            self._await("a worker", lambda: self.pipeline.worker() is not None)
            self._sleep(self.random.uniform(0.0, 10.0))
        else:
            self._await_epoch(self._epoch())
            self._sleep(self.random.uniform(0.0, 3.0))
        if spared >= _SPARED_IN_A_ROW:
            target = "all"
        else:
            target = self.random.choices([*_SHARES], [*_SHARES.values()])[0]
        if not self.pipeline.kill(target):
            target = "all"
            self.pipeline.kill(target)
        self.kills[target] += 1
        if target not in ("all", "supervisor"):
            return spared + 1
        self._sleep(self.random.uniform(0.0, 1.0))
        self.pipeline.start()
        return 0

    def _kill_broker(self) -> None:
        self.broker.kill()
        self.kills["broker"] += 1
        self._sleep(self.random.uniform(0.0, 4.0))
        self.broker.start(self.port, with_parent=True)
        self._sleep(self.random.uniform(0.0, 2.0))

    def _pace(self, rate: float) -> None:
        assert self.producer is not None
        assert self.producer.stdin is not None
        try:
            self.producer.stdin.write(f"rate {rate:.1f}\n")
            self.producer.stdin.flush()
        except BrokenPipeError:
            return  # it has sent everything

    # -- the end -----------------------------------------------------------------------------------------------

    def _finish(self) -> None:
        assert self.producer is not None
        self._await("the producer's end", lambda: self.producer.poll() is not None, seconds=3 * _PATIENCE)
        if self.producer.returncode:
            raise Stuck(f"the producer failed: {(self.folder / 'producer.log').read_text()[-2000:]}")
        self.report.load_seconds = round(time.monotonic() - self.began, 1)
        began = time.monotonic()
        ends = end_offsets(self.bootstrap, TOPIC)
        self.report.in_topic = sum(ends.values())
        say(
            f"{self.report.sent:,} rows sent; the topic has {self.report.in_topic:,}; waiting for the last window"
        )
        self._await("the last row and window", lambda: self._caught_up(ends), seconds=2 * _PATIENCE)
        self.report.catch_up_seconds = round(time.monotonic() - began, 1)
        code = self.pipeline.stop()
        if code:
            self.report.failures.append(f"tidegate live ended with {code} after SIGTERM")
        for process in self.pipeline.left_behind():
            self.report.failures.append(f"process left behind: {' '.join(process.command)[:100]}")

    def _caught_up(self, ends: dict[str, int]) -> bool:
        """Whether everything is read and closed, and has been for longer than a partition needs to become idle."""
        status = self._status()
        if status is None:
            return False
        source = next(r for r in status.relations if r.name == SOURCE)
        read = {p.partition: p.next_offset for p in source.partitions}
        done = all(read.get(name, 0) == end for name, end in ends.items())
        done = done and all(view.current for view in status.views)
        seen = (source.epoch, [view.snapshot_id for view in status.views]) if done else None
        now = time.monotonic()
        if seen != getattr(self, "_steady", (None, now))[0]:
            self._steady = (seen, now)
        return done and now - self._steady[1] > self.options.idle_seconds + 3

    def _compare(self) -> None:
        began = time.monotonic()
        say("reading the topic back, and the log and the views")
        exported = self.folder / "export"
        self.exported(self.root, exported)
        topic = read_topic(self.bootstrap, TOPIC)
        say("judging every row anew")
        found = load(exported)
        verdict = check(
            topic, found.raw, found.history, found.windows, found.in_order, rules(self.options.idle_seconds)
        )
        self.report.verdict = verdict.document()
        self.report.failures += vacuous(verdict)
        self.report.check_seconds = round(time.monotonic() - began, 1)

    def _exported(self, root: Path, folder: Path) -> None:
        done = subprocess.run(
            [sys.executable, "-m", "tests.chaos.export", str(root), str(folder)],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise Stuck(f"the export failed: {done.stderr[-3000:]}")

    # -- looking on --------------------------------------------------------------------------------------------

    def _table(self) -> CommittedTable | None:
        assert self.project is not None
        try:
            return load_table(self.project.storage, SOURCE)
        except TidegateError:
            return None  # it is being committed to

    def _status(self) -> ProjectStatus | None:
        assert self.project is not None
        try:
            return read_status(self.project)
        except (TidegateError, OSError):
            return None

    def _epoch(self) -> int:
        table = self._table()
        return (table.integer("tidegate.epoch") if table is not None else None) or 0

    def _await_epoch(self, after: int) -> None:
        self._await(f"a commit after epoch {after}", lambda: self._epoch() > after)

    def _await(self, what: str, condition: Any, seconds: float = _PATIENCE) -> None:
        def check() -> bool:
            self._progress()
            if not self.pipeline.runs:
                raise Stuck(f"tidegate live ended by itself while the harness waited for {what}")
            return bool(condition())

        if not wait_until(check, seconds):
            raise Stuck(f"waited {seconds:.0f} s for {what}, in vain")

    def _sleep(self, seconds: float) -> None:
        time.sleep(seconds)
        self._progress()

    def _progress(self) -> None:
        if time.monotonic() - self._told < 5:
            return
        self._told = time.monotonic()
        table = self._table()
        facts = table.summary if table is not None else {}
        on_time, late, rejected = (
            int(facts.get(f"tidegate.{k}", 0)) for k in ("on_time", "late", "rejected")
        )
        kills = sum(self.kills.values()) - self.kills["broker"]
        say(
            f"{time.monotonic() - self.began:5.0f} s  killed {kills} of {self.options.kills}, "
            f"broker {self.kills['broker']} of {self.options.broker_kills}  sent {self.report.sent:,}  "
            f"log {on_time + late + rejected:,} ({late:,} late, {rejected:,} rejected)  "
            f"epoch {facts.get('tidegate.epoch', 0)}"
        )


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def parse(arguments: list[str] | None = None) -> tuple[Options, bool]:
    """The options, and whether to print JSON."""
    d = Options()
    parser = argparse.ArgumentParser(
        prog="make chaos", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=d.rows, help=f"size of the load (default {d.rows:,})")
    parser.add_argument(
        "--kills", type=int, default=d.kills, help="kill -9 of the live process tree, or parts of it"
    )
    parser.add_argument("--broker-kills", type=int, default=d.broker_kills, help="kill -9 of the broker")
    parser.add_argument("--seed", type=int, default=d.seed, help="of the load and of the kills")
    parser.add_argument(
        "--idle", type=int, default=d.idle_seconds, metavar="SECONDS", help="idle_timeout of the source"
    )
    parser.add_argument("--interval", default=d.interval, help="of tidegate live")
    parser.add_argument(
        "--keep", type=Path, metavar="FOLDER", help="run in this new folder, and leave it there"
    )
    parser.add_argument("--json", action="store_true", help="print the report as one JSON object")
    given = parser.parse_args(arguments)
    options = Options(
        given.rows, given.kills, given.broker_kills, given.seed, given.idle, given.interval, given.keep
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
