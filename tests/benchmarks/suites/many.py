"""A whole team's streams on one machine: what dozens of sources with views cost in live mode (issue 21's table).

Every case is measured once, and kept in `--work` as soon as it is: a second call goes on with the others.
"""

from __future__ import annotations

import json
import re
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from math import inf
from pathlib import Path
from typing import Any

import numpy as np

from tests.benchmarks.bench import ENVIRON, ROOT, Bench, EngineFailed, fill_topic
from tests.benchmarks.live_process import LiveProcess
from tests.benchmarks.load import Load, events
from tests.benchmarks.many.streams import Commits, Sender, Stream
from tests.benchmarks.many.team import (
    DELAY_S,
    KEYS,
    PARTITIONS,
    SECOND,
    Case,
    checked_team,
    closed_rows,
    has_ticked,
    is_right,
    make_team,
    query_of,
    stored,
    team_streams,
)
from tests.benchmarks.meter import Mark, metered, pss_mb
from tests.benchmarks.results import Result
from tests.benchmarks.suites.suite import Suite
from tests.benchmarks.truth import judge
from tidegate.project import Project

_START_S, _END_S = 900.0, 180.0


CASES = (
    Case("1 x 1, 1,000 rows/s", 1, 1, 1_000, "1s", {"cores": 0.40, "pss_mb": 1331, "p99_s": 1.5}, 1),
    Case("1 x 1, 20,000 rows/s", 1, 1, 20_000, "1s", {"cores": 0.7, "p99_s": 1.5}, 1, minutes=5),
    Case("1 x 10, 1,000 rows/s", 1, 10, 1_000, "1s", {"cores": 0.9, "p99_s": 3}, 1, minutes=8),
    Case("6 x 1, 200 rows/s each", 6, 1, 200, "1s", {"cores": 1.0, "pss_mb": 1843, "p99_s": 3}, 6),
    Case("20 x 2, 100 rows/s each", 20, 2, 100, "5s", {"cores": 1.3, "pss_mb": 2560, "p99_s": 10}, 20),
    Case("100 x 2, 10 at 100 rows/s", 100, 2, 100, "5s", {"cores": 1.2, "pss_mb": 4096, "p99_s": 15}, 10),
    Case("100 quiet sources", 100, 1, 0, "5s", {"cores": 0.15}, minutes=8),
    Case("restart, 6 x 1", 6, 1, 0, "1s", {"wall_s": 20}, kind="restart"),
    Case("restart, 100 x 2", 100, 2, 0, "5s", {"wall_s": 60}, kind="restart"),
    Case("tidegate run beside it", 2, 1, 0, "1s", {"wall_s": 2}, kind="run"),
    Case("tidegate sql beside it", 2, 1, 0, "1s", {"wall_s": 1.5}, kind="sql"),
    Case("Kafka JSON, marginal", 1, 1, 0, "1s", {"cpu_s_per_mrow": 2.2}, kind="marginal"),
)


def many(bench: Bench) -> Result:
    durations = {
        "warm-up, s": bench.options.warm_s,
        "measured, s": bench.options.measure_s or "as the case says",
    }
    result = Result("many", durations | {"keys": KEYS})
    if unknown := set(bench.options.cases) - {case.name for case in CASES}:
        raise EngineFailed(f"no case {unknown}; there are {[case.name for case in CASES]}")
    wanted = [case for case in CASES if not bench.options.cases or case.name in bench.options.cases]
    measures: dict[str, Callable[[Bench, Case], dict[str, Any]]] = {
        "steady": _steady,
        "restart": _restart,
        "run": _beside,
        "sql": _beside,
        "marginal": _marginal,
    }
    for case in wanted:
        kept = bench.options.work / "many" / f"{re.sub('[^0-9A-Za-z]+', '_', case.name)}.json"
        asked = json.loads(json.dumps(asdict(case) | durations | {"scale": bench.options.scale}))
        known = json.loads(kept.read_text()) if kept.is_file() else {}
        if known.get("asked") == asked and known["run"]["exact"]:
            bench.say(f"many, {case.name}: measured already ({kept})")
            run = known["run"]
        else:
            try:
                run = measures[case.kind](bench, case)
            except EngineFailed as error:
                result.failures.append(f"{case.name}: {error}")
                continue
            kept.parent.mkdir(parents=True, exist_ok=True)
            kept.write_text(json.dumps({"asked": asked, "run": run}, indent=1))
        if not run["exact"]:
            result.failures.append(f"{case.name}: wrong result: {run['check']}")
        result.point(case.name, run.get("rows", 0)).runs.append(run)
        over = [
            f"{name} {run.get(name)} > {most}"
            for name, most in case.must.items()
            if not run.get(name, inf) <= most
        ]
        shown = {name: value for name, value in run.items() if name not in ("check", "rows")}
        bench.say(
            f"many, {case.name}: {shown}; {'more than wanted: ' + ', '.join(over) if over else 'within'}"
        )
    return result


# -- the cases ---------------------------------------------------------------------------------------------------


def _steady(bench: Bench, case: Case) -> dict[str, Any]:
    warm = bench.options.warm_s
    seconds = warm + (bench.options.measure_s or 60 * case.minutes)
    tick_s = 0.02 if case.rate * case.active >= 5_000 else 0.1
    streams = team_streams(case, seconds, tick_s)
    with bench.broker() as bootstrap, bench.folder() as folder:
        sender = Sender(bootstrap, streams, tick_s)
        sender.prepare()
        project = make_team(folder, bootstrap, case, streams)
        active = range(case.active)
        views = {case.view(n, k): (n, k) for n in active for k in range(case.views)}
        with (
            LiveProcess(project.root, case.interval, folder / "live.log") as live,
            Commits({view: _metadata_folder(project, view) for view in views}) as commits,
        ):
            everything = range(case.sources)
            live.wait(lambda: has_ticked(project, case, everything), _START_S, "every source has ticked")
            bench.say(f"many, {case.name}: sending for {seconds:.0f} s")
            sender.start()
            began = time.time()
            before, after, memory = _watched(live, seconds, warm)
            sender.finish()
            last = {view: _last_end(streams[n], k) for view, (n, k) in views.items()}
            # The last rows of a topic close no window, and may be of a batch of their own.
            rows = {n: stream.load.rows for n, stream in enumerate(streams)}
            live.wait(
                lambda: _is_final(project, last) and _has_read(project, case, rows),
                _END_S,
                "it reads the last rows and closes the last windows",
            )
            commits.look()
        waited = [delays(streams[n], k, *commits.of(view), began + warm) for view, (n, k) in views.items()]
        check = checked_team(project, case, streams)
    every = np.sort(np.concatenate([*waited, np.zeros(0)]))
    figures = {
        "cores": round((after.cpu_s - before.cpu_s) / (after.wall_s - before.wall_s), 3),
        "pss_mb": round(memory),
        "rows": sum(stream.load.rows for stream in streams),
        "producer_behind_s": round(sender.behind_s, 3),
        "windows": len(every),
        "exact": is_right(check),
        "check": check,
    }
    if len(every):
        figures |= {"p50_s": rank(every, 0.5), "p99_s": rank(every, 0.99), "max_s": rank(every, 1.0)}
    return figures


def rank(ascending: np.ndarray, share: float) -> float:
    """By nearest rank: a window that is missing has waited for ever."""
    return round(float(ascending[max(0, int(np.ceil(share * len(ascending))) - 1)]), 3)


def _watched(live: LiveProcess, seconds: float, warm: float) -> tuple[Mark, Mark, float]:
    """CPU at the end of the warm-up and of it all, and the largest memory in the last third."""
    began, largest, before = time.monotonic(), 0.0, None
    while (now := time.monotonic() - began) < seconds:
        if before is None and now >= warm:
            before = live.meter.mark("warm")
        if now > seconds * 2 / 3:
            largest = max(largest, pss_mb(live.meter.left()))
        time.sleep(min(5.0, max(0.1, seconds / 60)))
    after = live.meter.mark("sent")
    return before or after, after, largest


def _metadata_folder(project: Project, table: str) -> Path:
    warehouse = project.storage.local_warehouse
    assert warehouse is not None
    return warehouse / project.storage.namespace_of(table) / table / "metadata"


def _last_end(stream: Stream, view: int) -> int:
    """The end of the last window that the whole log closes."""
    size = query_of(view).size_s * SECOND
    return judge(events(stream.load), DELAY_S * SECOND).watermark // size * size


def _is_final(project: Project, last: dict[str, int]) -> bool:
    return all((stored(project, view).integer("tidegate.frontier") or 0) >= end for view, end in last.items())


def delays(
    stream: Stream,
    view: int,
    frontiers: np.ndarray,
    moments: np.ndarray,
    since: float,
    until: float = inf,
) -> np.ndarray:
    """Seconds from the broker's time of the rows that close a window to the commit that has it, of each window that
    closes in the moments [since, until); infinite for one that never came."""
    log, marks = events(stream.load), []
    for part, ends in stream.bounds().items():
        newest = np.maximum.accumulate(log.ts[log.part == part]) - DELAY_S * SECOND
        marks.append(np.where(ends > 0, newest[np.maximum(ends - 1, 0)], np.iinfo(np.int64).min))
    published, size = np.min(marks, axis=0), query_of(view).size_s * SECOND
    first = int(log.ts.min()) // size * size + size
    ends = np.arange(first, int(published[-1]) + 1, size)
    sent = stream.sent_at[np.searchsorted(published, ends)]
    closed = (sent >= since) & (sent < until)
    ends, sent = ends[closed], sent[closed]
    place = np.searchsorted(frontiers, ends)
    return np.append(moments, np.inf)[place] - sent


def _restart(bench: Bench, case: Case) -> dict[str, Any]:
    """Everything below the supervisor is killed; each source has new rows, and is back once they are in its log."""
    streams = team_streams(case, 1.0, 0.1)
    with bench.broker() as bootstrap, bench.folder() as folder:
        sender = Sender(bootstrap, streams, 0.1)
        sender.prepare()
        project = make_team(folder, bootstrap, case, streams)
        with LiveProcess(project.root, case.interval, folder / "live.log") as live:
            everything = range(case.sources)
            live.wait(lambda: has_ticked(project, case, everything), _START_S, "every source has ticked")
            time.sleep(bench.options.warm_s / 4)
            killed = live.kill_below()
            # The same rows again: in windows that are closed, and late, or in open ones.
            for stream in streams:
                fill_topic(bootstrap, stream.topic, stream.load, events(stream.load), create=False)
            before = {n: 2 * streams[n].load.rows for n in everything}
            live.wait(lambda: _has_read(project, case, before), _START_S, "every source ticks again")
            wall = time.time() - killed
        read = {n: _counted(project, case, n) for n in everything}
        check = {"log": sum(read[n] != before[n] for n in everything)}
    return {"wall_s": round(wall, 2), "rows": sum(before.values()), "exact": not check["log"], "check": check}


def _counted(project: Project, case: Case, number: int) -> int:
    table = stored(project, case.source(number))
    return sum(table.integer(f"tidegate.{name}") or 0 for name in ("on_time", "late", "rejected"))


def _has_read(project: Project, case: Case, rows: dict[int, int]) -> bool:
    return all(_counted(project, case, n) >= count for n, count in rows.items())


def _beside(bench: Bench, case: Case) -> dict[str, Any]:
    """A command on one source, while another one of the project is live."""
    streams, walls, cpus, check = team_streams(case, 1.0, 0.1), [], [], {"log": 0}
    repeats = bench.repeats(5)
    with bench.broker() as bootstrap, bench.folder() as folder:
        Sender(bootstrap, streams, 0.1).prepare()
        project = make_team(folder, bootstrap, case, streams)
        command = ["run", case.source(1), case.view(1, 0)]
        _command(project, command, folder)
        with LiveProcess(project.root, case.interval, folder / "live.log", [case.view(0, 0)]) as live:
            live.wait(lambda: has_ticked(project, case, [0]), _START_S, "its source has ticked")
            time.sleep(bench.options.warm_s / 4)
            counted = _counted(project, case, 1)
            if case.kind == "sql":
                command = ["sql", "--json", "-c", f"SELECT count(*) AS n FROM {case.view(1, 0)}"]
            for number in range(repeats):
                if case.kind == "run":
                    load = Load(1_000, PARTITIONS, KEYS, 1_000, payload=100, seed=50 + number)
                    fill_topic(bootstrap, streams[1].topic, load, events(load), create=False)
                    counted += 1_000
                began, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
                said = _command(project, command, folder)
                walls.append(time.monotonic() - began)
                after = resource.getrusage(resource.RUSAGE_CHILDREN)
                cpus.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
                if case.kind == "run":
                    check["log"] += _counted(project, case, 1) != counted
                else:
                    rows = len(closed_rows(project, case.view(1, 0))["cnt"])
                    check["log"] += f'{{"n": {rows}}}' not in said
    return {
        "wall_s": round(statistics.median(walls), 2),
        "max_s": round(max(walls), 2),
        "command_cpu_s": round(statistics.median(cpus), 2),
        "exact": not check["log"],
        "check": check,
    }


def _command(project: Project, words: Sequence[str], folder: Path) -> str:
    """What a command of tidegate says. Raises EngineFailed unless it succeeds."""
    command = [sys.executable, "-m", "tidegate.cli.main", *words, "--project", str(project.root)]
    done = subprocess.run(command, cwd=ROOT, env=dict(ENVIRON), capture_output=True, text=True, check=False)
    (folder / "command.log").write_text(done.stdout + done.stderr)
    if done.returncode != 0:
        raise EngineFailed(f"tidegate {words[0]} ended with {done.returncode}: {done.stderr[-1500:]}")
    return done.stdout


def _marginal(bench: Bench, case: Case) -> dict[str, Any]:
    """CPU seconds of what a run costs more for more rows."""
    found: list[tuple[int, float]] = []
    check: dict[str, int] = {}
    with bench.broker() as bootstrap:
        for rows in (bench.rows(500_000), 4 * bench.rows(500_000)):
            load = Load(rows, PARTITIONS, 1_000, 10_000, payload=100, seed=7)
            stream = Stream(f"marginal-{rows}", load, 2, quiet=True)
            fill_topic(bootstrap, stream.topic, load, events(load))
            with bench.folder() as folder:
                project = make_team(folder, bootstrap, case, [stream])
                command = [sys.executable, "-m", "tidegate.cli.main", "run", "--project", str(project.root)]
                done = metered(command, folder / "run.log", ROOT, ENVIRON, bench.options.timeout_s)
                if done.code != 0:
                    raise EngineFailed(f"tidegate run ended with {done.code}: {done.tail}")
                found.append((rows, done.marks["exit"].cpu_s))
                for name, count in checked_team(project, case, [stream]).items():
                    check[name] = check.get(name, 0) + count
    (few, cpu_few), (more, cpu_more) = found
    return {
        "cpu_s_per_mrow": round((cpu_more - cpu_few) / (more - few) * 1e6, 3),
        "rows": few + more,
        "exact": is_right(check),
        "check": check,
    }


SUITES = (
    Suite(
        "many",
        "Many sources on one machine",
        "`tidegate live` keeps sources of Kafka and their views up to date; `20 x 2` are 20 sources with two views "
        "each. CPU is that of all processes of `tidegate live` after the warm-up, memory the largest sum (PSS) in the "
        "last third. The clock of a window starts at the broker's time of the row that closes it, and stops when the "
        "metadata of the snapshot that has it is written; a window that is missing counts as infinite. Every log and "
        "view is compared with the truth. Restart: `kill -9` of everything below the supervisor, until every source "
        "has read rows that came after it. `tidegate run` and `tidegate sql` are timed while another source is live; "
        "the CPU is that of their own process.",
        180,
        many,
        columns=("cores", "pss_mb", "p50_s", "p99_s", "max_s", "wall_s", "command_cpu_s", "cpu_s_per_mrow"),
    ),
)
