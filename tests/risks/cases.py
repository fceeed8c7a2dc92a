"""What is played of each row of the table of risks, in a process of its own: a JVM that has worked for another row is
another one. `python -m tests.risks.cases ROW PART FOLDER SIZE MINUTES` prints what was found, as JSON."""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tests.benchmarks.suites.catalogs import FOLDER, PLACES, POSTGRES, REST, SQLITE, place_of
from tests.risks.groups import TYPES, Fed, Watched, drive, write_project
from tests.risks.heap import MAINTENANCE, team, ticked, trends
from tests.soak.page import number, read_csv, write_csv
from tidegate.project import Project
from tidegate.session.live_driver import Pace
from tidegate.session.session import Session
from tidegate.store.metadata import load_table

ROOT = Path(__file__).resolve().parents[2]
#: As new projects have it.
_SQLITE = {"warehouse": {"catalog": {"type": "jdbc", "uri": "jdbc:sqlite:.tidegate/warehouse/catalog.db"}}}
#: Seconds from a tick to the next where late ones are counted.
_INTERVAL = 2.0


@dataclass(frozen=True)
class Size:
    """Of each row. `warm_up`: ticks of each process that are not judged."""

    names_ticks: int
    loops_batches: int
    groups: int
    views: int
    heap_ticks: int
    warm_up: int
    every: int
    calls_ticks: int
    workers_batches: int
    threads: int
    commits: int
    topics: int
    places: tuple[str, ...]


SIZES = {
    "small": Size(6, 4, 2, 2, 12, 3, 1, 4, 9, 3, 10, 2, (FOLDER, SQLITE)),
    "full": Size(500, 60, 20, 10, 1000, 250, 10, 60, 60, 8, 500, 200, (FOLDER, SQLITE, POSTGRES, REST)),
}
assert set(SIZES["full"].places) < set(PLACES)


@dataclass(frozen=True)
class Result:
    """`said`: what was seen, as the page has it; `failures`: what is not as it should be; `left`: how much is still to
    be played, of what is measured in `unit`."""

    said: str
    failures: list[str] = field(default_factory=list)
    left: int = 0
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Given:
    """`folder`: of this row's own, which stays; `until`: whether the time is over."""

    folder: Path
    size: Size
    part: str
    until: Callable[[], bool]


class _ForSoLong(Watched):
    """Feeds until the time is over."""

    def __init__(self, groups: Sequence[Fed], batches: int, until: Callable[[], bool]) -> None:
        super().__init__(groups, batches)
        self._until = until

    def feeds(self, fed: Fed) -> None:
        if not self._until():
            super().feeds(fed)

    def over(self, group: Any) -> bool:
        fed = self.groups[group.name]
        return fed.committed >= fed.done


def _opened(root: Path, groups: Sequence[Fed]) -> Session:
    """The project with these groups, which go on where an earlier process has left them."""
    if not (root / "assets").is_dir():
        write_project(root, groups, _SQLITE)
        (root / "jobs").mkdir()
        (root / "jobs" / "maintenance.yaml").write_text(MAINTENANCE)
    project = Project.load(root, "local")
    for one in groups:
        for _ in one.files():
            one.feed(written=False)
        table = load_table(project.storage, one.name)
        one.committed = 0 if table is None else table.integer("tidegate.epoch") or 0
    return Session.open(project, lasting=True, several=True)


def names(given: Given) -> Result:
    """Row 1."""
    groups = [
        Fed(given.folder, f"g{n}", kind, n, [10 + 5 * n], seed=n, stepwise=False)
        for n, kind in enumerate(TYPES)
    ]
    ticks = given.size.names_ticks
    with closing(_opened(given.folder, groups)) as session:
        for one in groups:
            if one.done == one.committed and one.done < ticks:
                one.feed()
        watched = _ForSoLong(groups, ticks, given.until)
        drive(session, watched, Pace(0.01, watched.over, threads=len(groups)))
        wrong = [text for one in groups for text in one.differences(session)]
    wrong += [str(one) for one in watched.failed]
    least = min(one.committed for one in groups)
    rows = sum(one.offset for one in groups)
    said = f"{len(groups)} groups in {len(groups)} threads, {least:,} ticks each: {rows:,} decisions, and all windows,"
    return Result(f"{said} are those of the oracle", wrong, ticks - least)


def loops(given: Given) -> Result:
    """Row 2."""
    from tests.risks.shared import ran

    shutil.rmtree(given.folder, ignore_errors=True)
    batches = given.size.loops_batches
    found, groups = ran("loops", given.folder, batches, _INTERVAL, {})
    others = {one.name for one in groups if not one.marked}
    late = {name: count for name, count in found["late"].items() if name in others}
    with closing(Session.open(Project.load(given.folder, "local"))) as session:
        wrong = [text for one in groups if one.name in others for text in one.differences(session)]
        session.run()
        wrong += [text for one in groups for text in one.differences(session)]
    wrong += found["failed"] + [f"{name}: {count} late ticks" for name, count in late.items() if count > 1]
    said = (
        f"two endless loops on {os.cpu_count()} cores, {len(others)} other groups with {batches} batches, one every "
        f"{_INTERVAL:g} s: {sum(late.values())} of their ticks began {_INTERVAL:g} s late, the latest one "
        f"{found['latest']:.1f} s; the process was ended at once: nothing of the two groups was stored, and after a "
        "run with other decoders each of their rows once"
    )
    return Result(said, wrong)


def heap(given: Given) -> Result:
    """Row 3. A process after the first one has a JVM of its own, whose warm-up is not judged."""
    size, file = given.size, given.folder / "heap.csv"
    root = given.folder / "project"
    groups = team(root, size.groups, size.views)
    before = read_csv(file) if file.is_file() else []
    run = 1 + int(max((sample["run"] for sample in before), default=0))
    with closing(_opened(root, groups)) as session:
        watched = ticked(session, groups, size.heap_ticks, size.every, given.until, _say)
        wrong = [text for one in groups for text in one.differences(session)]
    wrong += [str(one) for one in watched.failed]
    samples = before + [{**sample, "run": run, "seconds": 0.0} for sample in watched.samples]
    given.folder.mkdir(parents=True, exist_ok=True)
    write_csv(
        file,
        ["run", *dict.fromkeys(name for s in samples for name in s if name not in ("run", "seconds"))],
        samples,
    )
    judged = trends(watched.samples, size.warm_up)
    wrong += [
        f"{one.name} grows: by {number(one.rise)} to {number(one.highest)}" for one in judged if one.growing
    ]
    done = min(one.committed for one in groups)
    texts = [
        f"{one.name} {number(one.level)}{one.unit and ' ' + one.unit} ({one.rise:+.1f})" for one in judged
    ]
    said = (
        f"{len(groups) * size.views} views in {len(groups)} groups, {done:,} ticks, {watched.ticks:,} of them in the "
        f"last JVM; there, after {size.warm_up} ticks, median and change: {', '.join(texts) or 'too few ticks'}"
    )
    return Result(said, wrong, size.heap_ticks - done, {"trends": [asdict(one) for one in judged]})


def calls(given: Given) -> Result:
    """Row 4."""
    from tests.benchmarks.tick import kafka, ticks_of

    shutil.rmtree(given.folder, ignore_errors=True)
    given.folder.mkdir(parents=True)
    ticks = given.size.calls_ticks
    with kafka(given.folder) as topic:
        _, counted, _ = ticks_of(given.folder, topic, rows=200, warm=8, measured=ticks)
    asked = (counted.by_step.total() - counted.frees) / ticks
    steps = ", ".join(f"{name} {count / ticks:.0f}" for name, count in counted.by_step.most_common())
    said = f"{asked:.0f} round trips a tick, and {counted.frees / ticks:.0f} that let go of objects, over {ticks} ticks"
    return Result(said, facts={"steps": steps})


def workers(given: Given) -> Result:
    """Row 5."""
    from tests.risks.shared import LIMIT, ran

    shutil.rmtree(given.folder, ignore_errors=True)
    batches = given.size.workers_batches
    found, groups = ran("memory", given.folder, batches, 0.01, {})
    with closing(Session.open(Project.load(given.folder, "local"))) as session:
        wrong = [text for one in groups for text in one.differences(session)]
    wrong += found["failed"] + ([] if found["alive"] else ["the JVM is gone"])
    again = ", ".join(f"{name} {count}" for name, count in sorted(found["tried again"].items()))
    said = (
        f"4 groups with {batches} batches each, a limit of {LIMIT:,} MiB for a worker: up to {found['kept at most']} "
        f"times 256 MiB were left in a worker; batches that were tried again: {again}; the only row that was rejected "
        "is the one for which its decoder wants too much"
    )
    return Result(said, wrong)


def commits(given: Given) -> Result:
    """Row 6, in one catalog."""
    from tests.risks.commits import SideBySide

    shutil.rmtree(given.folder, ignore_errors=True)
    given.folder.mkdir(parents=True)
    root = given.folder / "project"
    with place_of(given.part, given.folder) as place:
        os.environ.update(place.environ)
        write_project(root, [], {"warehouse": place.warehouse} if place.warehouse else {})
        (root / "assets" / "t.sql").write_text("CREATE TABLE t (ts TIMESTAMP) APPEND ONLY;")
        with closing(Session.open(Project.load(root, "local"), lasting=True, several=True)) as session:
            session.execute("INSERT INTO t VALUES ('2026-01-01')")
            seen = SideBySide(session.beside, given.size.threads, given.size.commits).run()
    upkeep = ", ".join(f"{name} {count:,}" for name, count in seen.upkeep.items())
    said = (
        f"{given.part}: {given.size.threads} threads × {given.size.commits:,} commits in {seen.seconds:.0f} s, each of "
        f"them stored once, {seen.lost:,} after another try; upkeep: {upkeep}; {seen.reads:,} reads, all of them right"
    )
    return Result(said)


def topics(given: Given) -> Result:
    """Row 7. Goes on with the seeds that were not played."""
    from tests.risks.topics import compared

    file = given.folder / "seeds.json"
    played = list(json.loads(file.read_text())) if file.is_file() else []
    given.folder.mkdir(parents=True, exist_ok=True)

    def done(seed: int) -> None:
        played.append(seed)
        file.write_text(json.dumps(played))

    left = [seed for seed in range(1000, 1000 + given.size.topics) if seed not in played]
    removed = compared(given.folder / "project", left, given.until, done)
    said = (
        f"{len(played):,} random topics with transactions, whole and cut at random, at both levels of isolation: the "
        "rows are those of Spark's connector"
    )
    said += f"; and a topic from which compaction had taken {removed} messages" if removed else ""
    return Result(said, left=given.size.topics - len(played))


PLAYED: dict[str, Callable[[Given], Result]] = {
    "names": names,
    "loops": loops,
    "heap": heap,
    "calls": calls,
    "workers": workers,
    "commits": commits,
    "topics": topics,
}


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main(row: str, part: str, folder: Path, size: str, minutes: float) -> None:
    end = time.monotonic() + 60 * minutes
    found = PLAYED[row](Given(folder, SIZES[size], part, lambda: time.monotonic() > end))
    print(json.dumps(asdict(found)), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]), sys.argv[4], float(sys.argv[5]))
    # (Kafka's clients and tasks that are still ending keep nobody.)
    os._exit(0)
