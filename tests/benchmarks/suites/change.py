"""What readers of a view notice while other definitions of the same project change under live mode (E7).

One source and two views; the figures are of the first view, which nobody changes. Every phase begins with a change of
the project's file, as a person makes it, and lasts as long as the first one, in which nothing changes. At last a view
of another source, with very many rows, gets a new version: a phase until that takes its place, and one from there on.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from tests.benchmarks.bench import ENVIRON, ROOT, Bench, EngineFailed
from tests.benchmarks.live_process import LiveProcess
from tests.benchmarks.load import Events, Load, prepared
from tests.benchmarks.many.streams import Commits, Sender, Stream
from tests.benchmarks.many.team import (
    Case,
    checked_team,
    closed_rows,
    has_ticked,
    is_right,
    make_team,
    query_of,
    team_streams,
)
from tests.benchmarks.queries import tidegate_source, tidegate_view
from tests.benchmarks.results import Result
from tests.benchmarks.suites.many import delays, rank
from tests.benchmarks.suites.suite import Suite
from tests.benchmarks.truth import differing, judge, windows
from tidegate.plan.versions import current_version
from tidegate.project import Project

SECOND = 1_000_000
_START_S, _END_S, _WARM_S, _PHASE_S = 600.0, 180.0, 120.0, 120.0
_TICK_S = 0.1
#: Rows of the view that is swapped, its name, and for how long this is waited for.
_WIDE_ROWS, _WIDE, _SWAP_S = 10_000_000, "wide", 300.0
#: Windows that close so many seconds before the swap may wait for it.
_BEFORE_S = 2.0
#: How much slower than before a window of another view may come.
MOST = 2.0


@dataclass(frozen=True)
class Change:
    """`edit`: what becomes of the text of the definitions; `applied`: whether results are replaced, so that it takes
    effect by `tidegate apply`; `wide`: whether it is one of the view with very many rows."""

    name: str
    edit: Callable[[str], str]
    applied: bool = False
    wide: bool = False


@dataclass(frozen=True)
class Phase:
    """From when to when, Unix seconds; `took`: what the change itself took, in seconds."""

    name: str
    since: float
    until: float
    took: float | None = None


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


def changes_of(case: Case, wide_rows: int) -> tuple[Change, ...]:
    """One after the other, of a team's project with two views. The first one changes nothing."""
    return (
        Change("nothing", lambda text: text),
        Change("a new column of the source", _with_column),
        Change("a new version of the other view", _with_measure(case.view(0, 1)), applied=True),
        Change("a new sink of this view", _with_sink(case.view(0, 0))),
        Change(f"a new version of a view of {wide_rows:,} rows", _with_measure(_WIDE), True, wide=True),
    )


def change(bench: Bench) -> Result:
    warm, phase = bench.options.warm_s or _WARM_S, bench.options.measure_s or _PHASE_S
    case, wide_rows = Case("change", 1, 2, 1_000, "1s", {}, 1), bench.rows(_WIDE_ROWS)
    cases = bench.options.cases
    changes = changes_of(case, wide_rows)
    changes = tuple(one for one in changes if not cases or one.name in ("nothing", *cases))
    longest = max(phase, _SWAP_S * min(1.0, bench.options.scale))
    lengths = [longest if one.wide else phase for one in changes]
    streams = team_streams(case, warm + sum(lengths), _TICK_S)
    with bench.broker() as bootstrap, bench.folder() as folder:
        sender = Sender(bootstrap, streams, _TICK_S)
        sender.prepare()
        project = make_team(folder, bootstrap, case, streams)
        rows = _make_wide(bench, project, wide_rows) if changes[-1].wide else None
        watched = case.view(0, 0)
        commits = Commits({watched: _metadata(project, watched)})
        live = LiveProcess(project.root, case.interval, folder / "live.log", options=["--watch"])
        with live, commits:
            live.wait(lambda: has_ticked(project, case, [0]), _START_S, "the source has ticked")
            sender.start()
            time.sleep(warm)
            phases = _changed(live, project, changes, lengths)
            sender.finish()
            end = max(stream.load.rows for stream in streams)
            live.wait(lambda: _read(live) >= end, _END_S, "it reads the last rows")
            time.sleep(3 * _TICK_S + 2)
            commits.look()
        check = checked_team(project, case, streams)
        if rows is not None:
            check |= _checked_wide(project, rows, wide_rows)
        lines = sum(1 for path in (project.root / "lines").glob("*") if path.is_file())
    if not lines and any("sink" in one.name for one in changes):
        raise EngineFailed("the new sink has delivered nothing")
    return _result(bench, streams[0], commits.of(watched), phases, check)


def _metadata(project: Project, view: str) -> Path:
    warehouse = project.storage.local_warehouse
    assert warehouse is not None
    return warehouse / project.storage.namespace_of(view) / view / "metadata"


def wide_definitions(folder: Path) -> str:
    """Another source, of the files in a folder, and a view with a row for nearly each of its rows."""
    place = {"connector": "filesystem", "path": str(folder)}
    place |= {"partition.columns": "part", "order.column": "off"}
    source = tidegate_source(query_of(0), place, "PARQUET").replace("SOURCE events", "SOURCE many_rows", 1)
    return f"{source}\n{tidegate_view(query_of(0), _WIDE, 'many_rows')}"


def _make_wide(bench: Bench, project: Project, rows: int) -> Events:
    """What `wide_definitions` says, in the project and read by a run before anything is measured. The rows of the
    source."""
    # (The last windows stay open.)
    load = Load(rows + rows // 20, keys=1_000_000_000, per_second=rows // 60, disorder_s=0.0, late_share=0.0)
    load = replace(load, payload=4)
    folder, log = prepared(load, bench.data, bench.say)
    file = project.root / "assets" / "bench.sql"
    file.write_text(f"{file.read_text()}\n{wide_definitions(folder / 'parquet')}")
    bench.say(f"computing {_WIDE} from {load.rows:,} rows")
    _command(project.root, "run", _WIDE, "--json")
    return log


def _checked_wide(project: Project, log: Events, least: int) -> dict[str, int]:
    """How many rows of the view with very many rows are not what they must be; and of the column that is new."""
    judged, size = judge(log, SECOND), query_of(0).size_s * SECOND
    right = windows(judged.on_time, size, size, judged.watermark)
    found = closed_rows(project, _WIDE, ("window_start", "key", "cnt", "total", "most"))
    most, single = found.pop("most"), found["cnt"] == 1
    wrong = differing(right, found, query_of(0).keys)
    wrong["most"] = int((most[single] != found["total"][single]).sum())
    wrong["few"] = max(0, least - wrong.pop("found"))
    return {f"{_WIDE} {name}": count for name, count in wrong.items() if name != "expected"}


def _read(live: LiveProcess) -> int:
    """Rows that the source has judged."""
    told = live.events("batch_committed")
    return sum(event["on_time"] + event["late"] + event["rejected"] for event in told)


def _changed(
    live: LiveProcess, project: Project, changes: tuple[Change, ...], lengths: list[float]
) -> list[Phase]:
    """Make the changes, each when its phase begins."""
    root, phases, end = project.root, list[Phase](), time.time()
    file = root / "assets" / "bench.sql"
    for one, length in zip(changes, lengths, strict=True):
        began, reloads = time.time(), len(live.events("definitions_loaded"))
        end += length
        changed = one.edit(file.read_text())
        is_none = one is changes[0]
        if not is_none and changed == file.read_text():
            raise EngineFailed(f"{one.name}: the definitions are as they were")
        file.write_text(changed)
        if one.applied:
            # (Live mode has refused to replace results by itself, and looks again when it is asked.)
            _command(root, "apply", "--yes", "--json")
            _command(root, "reload", "--json")
        if not is_none:
            live.wait(
                lambda reloads=reloads: len(live.events("definitions_loaded")) > reloads,
                end - time.time(),
                f"{one.name}: live mode has taken it up",
            )
        took = None if is_none else time.time() - began
        time.sleep(max(0.0, end - time.time()))
        if one.wide:
            swapped = _swapped_at(_metadata(project, _WIDE))
            phases.append(Phase(f"{one.name} is computed", began, swapped - _BEFORE_S, took))
            phases.append(Phase(f"{one.name} is swapped in", swapped - _BEFORE_S, swapped + lengths[0]))
        else:
            phases.append(Phase(one.name, began, time.time(), took))
    return phases


def _swapped_at(folder: Path) -> float:
    """When the second version of a view took the place of the first: Unix seconds."""
    found = [(path.stat().st_mtime, json.loads(path.read_text())) for path in folder.glob("*.metadata.json")]
    return min(at for at, metadata in found if current_version(metadata["properties"]) > 1)


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
    phases: list[Phase],
    check: dict[str, int],
) -> Result:
    seconds = round(phases[0].until - phases[0].since)
    result = Result("change", {"rows per second": 1_000, "seconds of each phase": seconds})
    usual = None
    for one in phases:
        every = np.sort(delays(stream, 0, *found, one.since, one.until))
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
        if one.took is not None:
            run |= {"took_s": round(one.took, 2)}
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
        "without a change. `took` is the time from the change of the file until live mode goes by it. At last the "
        "query of a view of another source changes, which has very many rows: `tidegate apply` computes them again on "
        "the same machine, in a Spark of its own, and swaps them in; the second of these phases begins with the swap.",
        12,
        change,
        columns=("p50_s", "p99_s", "max_s", "times_before", "took_s"),
    ),
)
