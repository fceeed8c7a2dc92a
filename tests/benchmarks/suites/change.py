"""What readers of a view notice while other definitions of the same project change under live mode (E7).

One source and two views; the figures are of the first view, which nobody changes. Every phase begins with a change of
the project's file, as a person makes it, and lasts as long as the first one, in which nothing changes.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tests.benchmarks.bench import ENVIRON, ROOT, Bench, EngineFailed
from tests.benchmarks.live_process import LiveProcess
from tests.benchmarks.many.streams import Commits, Sender, Stream
from tests.benchmarks.many.team import Case, checked_team, has_ticked, is_right, make_team, team_streams
from tests.benchmarks.results import Result
from tests.benchmarks.suites.many import delays, rank
from tests.benchmarks.suites.suite import Suite

_START_S, _END_S, _WARM_S, _PHASE_S = 600.0, 180.0, 120.0, 120.0
_TICK_S = 0.1
#: How much slower than before a window of another view may come.
MOST = 2.0


@dataclass(frozen=True)
class Change:
    """`edit`: what becomes of the text of the definitions; `applied`: whether results are replaced, so that it takes
    effect by `tidegate apply`."""

    name: str
    edit: Callable[[str], str]
    applied: bool = False


def _with_column(text: str) -> str:
    return text.replace("payload VARCHAR,", "payload VARCHAR, note VARCHAR,", 1)


def _with_measure(view: str) -> Callable[[str], str]:
    """The view has one more column: a new version of it is computed from the log."""

    def edit(text: str) -> str:
        before, name, after = text.partition(f"VIEW {view} AS")
        return before + name + after.replace("count(*) AS cnt", "max(amount) AS most, count(*) AS cnt", 1)

    return edit


def _with_sink(view: str) -> Callable[[str], str]:
    sink = f"CREATE SINK lines FROM {view} WITH (connector = 'filesystem', path = 'lines') FORMAT PLAIN ENCODE JSON;"
    return lambda text: f"{text}\n{sink}\n"


def changes_of(case: Case) -> tuple[Change, ...]:
    """One after the other, of a team's project with two views. The first one changes nothing."""
    return (
        Change("nothing", lambda text: text),
        Change("a new column of the source", _with_column),
        Change("a new version of the other view", _with_measure(case.view(0, 1)), applied=True),
        Change("a new sink of this view", _with_sink(case.view(0, 0))),
    )


def change(bench: Bench) -> Result:
    warm, phase = bench.options.warm_s or _WARM_S, bench.options.measure_s or _PHASE_S
    case = Case("change", 1, 2, 1_000, "1s", {}, 1)
    changes = changes_of(case)
    streams = team_streams(case, warm + len(changes) * phase, _TICK_S)
    with bench.broker() as bootstrap, bench.folder() as folder:
        sender = Sender(bootstrap, streams, _TICK_S)
        sender.prepare()
        project = make_team(folder, bootstrap, case, streams)
        watched = case.view(0, 0)
        metadata = project.storage.local_warehouse
        assert metadata is not None
        commits = Commits({watched: metadata / project.storage.namespace_of(watched) / watched / "metadata"})
        live = LiveProcess(project.root, case.interval, folder / "live.log", options=["--watch"])
        with live, commits:
            live.wait(lambda: has_ticked(project, case, [0]), _START_S, "the source has ticked")
            sender.start()
            time.sleep(warm)
            began, took = _changed(live, project.root, changes, phase)
            sender.finish()
            end = max(stream.load.rows for stream in streams)
            live.wait(lambda: _read(live) >= end, _END_S, "it reads the last rows")
            time.sleep(3 * _TICK_S + 2)
            commits.look()
        check = checked_team(project, case, streams)
        lines = sum(1 for path in (project.root / "lines").glob("*") if path.is_file())
    if not lines:
        raise EngineFailed("the new sink has delivered nothing")
    return _result(bench, streams[0], commits.of(watched), (changes, began, took), check)


def _read(live: LiveProcess) -> int:
    """Rows that the source has judged."""
    told = live.events("batch_committed")
    return sum(event["on_time"] + event["late"] + event["rejected"] for event in told)


def _changed(
    live: LiveProcess, root: Path, changes: tuple[Change, ...], phase: float
) -> tuple[list[float], list[float]]:
    """When each phase began, with its change and the end of the last one, and what the change itself took."""
    file, began, took = root / "assets" / "bench.sql", [time.time()], []
    for number, one in enumerate(changes):
        due, reloads = began[0] + (number + 1) * phase, len(live.events("definitions_loaded"))
        changed = one.edit(file.read_text())
        if number and changed == file.read_text():
            raise EngineFailed(f"{one.name}: the definitions are as they were")
        file.write_text(changed)
        if one.applied:
            # (Live mode has refused to replace results by itself, and looks again when it is asked.)
            _command(root, "apply", "--yes", "--json")
            _command(root, "reload", "--json")
        if number:
            live.wait(
                lambda reloads=reloads: len(live.events("definitions_loaded")) > reloads,
                due - time.time(),
                f"{one.name}: live mode has taken it up",
            )
        took.append(time.time() - began[-1] if number else 0.0)
        time.sleep(max(0.0, due - time.time()))
        began.append(time.time())
    return began, took


def _command(root: Path, *words: str) -> None:
    command = [sys.executable, "-m", "tidegate.cli.main", *words, "--project", str(root)]
    done = subprocess.run(command, cwd=ROOT, env=dict(ENVIRON), capture_output=True, text=True, check=False)
    if done.returncode != 0:
        said = (done.stdout + done.stderr)[-1500:]
        raise EngineFailed(f"tidegate {words[0]} ended with {done.returncode}: {said}")


def _result(
    bench: Bench,
    stream: Stream,
    found: tuple[np.ndarray, np.ndarray],
    phases: tuple[tuple[Change, ...], list[float], list[float]],
    check: dict[str, int],
) -> Result:
    changes, began, took = phases
    result = Result("change", {"rows per second": 1_000, "seconds of each phase": round(began[1] - began[0])})
    usual = None
    for number, one in enumerate(changes):
        every = np.sort(delays(stream, 0, *found, began[number], began[number + 1]))
        run: dict[str, Any] = {
            "windows": len(every),
            "p50_s": rank(every, 0.5),
            "p99_s": rank(every, 0.99),
            "max_s": rank(every, 1.0),
            "exact": is_right(check),
            "check": check,
        }
        usual = usual or run["p99_s"]
        run |= {"times_before": round(run["p99_s"] / usual, 2)}
        if number:
            run |= {"took_s": round(took[number], 2)}
        result.point(one.name, stream.load.rows).runs.append(run)
        over = "" if run["times_before"] < MOST else f"; more than wanted: {MOST} times as long as before"
        bench.say(f"change, {one.name}: {json.dumps({k: v for k, v in run.items() if k != 'check'})}{over}")
    if not is_right(check):
        result.failures.append(f"wrong result: {check}")
    return result


SUITES = (
    Suite(
        "change",
        "Changes under live mode",
        "`tidegate live --watch` keeps two views of a Kafka source up to date at 1,000 rows per second, while "
        "the project's file is changed: a column of the source, the query of the second view (`tidegate "
        "apply` computes its new version from the log beside live mode), a sink. The figures are of the first view, "
        "which does not change (a new sink begins the group of this view again): seconds from the broker's time of "
        "the row that closes a window to the commit that has it, of all windows of the "
        "phase that begins with the change. `× before`: p99 divided by that of the phase "
        "without a change. `took` is the time from the change of the file until live mode goes by it.",
        12,
        change,
        columns=("p50_s", "p99_s", "max_s", "times_before", "took_s"),
    ),
)
