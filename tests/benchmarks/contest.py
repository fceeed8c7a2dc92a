"""One question to several engines, turn by turn, over one load of files or one topic."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from tests.benchmarks.bench import Bench, EngineFailed, make_project, read_columns
from tests.benchmarks.load import Events
from tests.benchmarks.meter import Metered
from tests.benchmarks.peers import Missing
from tests.benchmarks.queries import Query, duckdb_query, flink_query, tidegate_source, tidegate_view
from tests.benchmarks.results import Result
from tests.benchmarks.truth import Columns, Judged, differing, judge, neighbours, same, sessions, windows
from tidegate.jvm.packages import KAFKA_PACKAGES, cached_jars

SECOND = 1_000_000
FILES_PER_TRIGGER = 16
ROWS_PER_TRIGGER = 1_000_000
#: In the order in which they take turns.
ENGINES = ("native", "native+copy", "tidegate", "flink", "duckdb", "duckdb, no late rule")


@dataclass(frozen=True)
class Contest:
    """`folder`: of the files, or None where `topic` (bootstrap, name) is read. `memory`: heap of the native and of
    Flink's JVM; tidegate keeps its own default."""

    query: Query
    log: Events
    partitions: int
    folder: Path | None = None
    topic: tuple[str, str] | None = None
    memory: str = "2g"
    files_per_trigger: int = FILES_PER_TRIGGER


def expected(query: Query, judged: Judged) -> Columns:
    """The right result."""
    if query.kind == "neighbours":
        return neighbours(judged.on_time, judged.watermark)
    if query.kind == "sessions":
        return sessions(judged.on_time, query.gap_s * SECOND, judged.watermark)
    return windows(judged.on_time, query.size_s * SECOND, query.slide_s * SECOND, judged.watermark)


def compete(
    bench: Bench, result: Result, contest: Contest, engines: list[str], repeats: int, at: float | None = None
) -> None:
    """Every engine in every repeat; numbers and checks go into `result`. Only tidegate's wrong answers are failures;
    a peer that can't be had or breaks is named, and the others go on."""
    bench.say("reckoning what is right")
    judged = judge(contest.log, contest.query.delay_s * SECOND)
    right = expected(contest.query, judged)
    judged = replace(judged, on_time=contest.log.where(slice(0)))  # a large one is not kept while engines run
    if "tidegate" in engines:
        _leave_classes(bench, contest)
    for repeat in range(repeats):
        for engine in engines:
            if engine in result.unavailable:
                continue
            with bench.folder() as folder:
                try:
                    done, run = _ENGINES[engine](bench, contest, folder)
                    run |= numbers(done, len(contest.log))
                    run |= _checked(contest.query, engine, folder, right, judged, run)
                except (Missing, EngineFailed) as error:
                    unavailable(bench, result, engine, error)
                    continue
            point = result.point(engine, len(contest.log), at)
            point.runs.append(run)
            if engine == "tidegate" and not run["exact"]:
                result.failures.append(f"tidegate, run {repeat + 1}: wrong result: {run['check']}")
            where = "" if at is None else f" at {at:g}"
            bench.say(
                f"{result.suite}{where}, run {repeat + 1}: {engine:22} {run['cpu_s_per_mrow']:8.2f} CPU-s/M rows, work "
                f"{run['work_cpu_s_per_mrow']:8.2f}, {run['wall_s']:6.1f} s, {run['peak_rss_mb']:6,.0f} MB, "
                + ("exact" if run["exact"] else f"not exact: {run['check']}")
            )


def unavailable(bench: Bench, result: Result, engine: str, error: Exception) -> None:
    """An engine can't be had or broke: the others go on. For tidegate that is a failure."""
    bench.say(f"{engine}: {error}")
    if engine == "tidegate":
        result.failures.append(f"tidegate: {error}")
    result.unavailable[engine] = str(error)


def _leave_classes(bench: Bench, contest: Contest) -> None:
    """tidegate's first run on a machine leaves the classes that all later ones start from (`class_archive.py`)."""
    kind = "files" if contest.topic is None else "kafka"
    if kind not in bench.started:
        bench.say("a first run of tidegate, which is not measured")
        bench.started.add(kind)
        with bench.folder() as folder, suppress(EngineFailed):  # those that are measured will say so
            _tidegate(bench, contest, folder)


def numbers(done: Metered, rows: int, begin: str = "begin", end: str = "end") -> dict[str, Any]:
    """What a run cost up to its mark `end`, with the start of the engine and without it."""
    cpu, wall = done.between(begin, end)
    last = done.marks[end]
    return {
        "cpu_s": round(last.cpu_s, 2),
        "work_cpu_s": round(cpu, 2),
        "cpu_s_per_mrow": round(last.cpu_s / rows * 1e6, 4),
        "work_cpu_s_per_mrow": round(cpu / rows * 1e6, 4),
        "wall_s": round(last.wall_s, 2),
        "work_wall_s": round(wall, 2),
        "peak_rss_mb": round(last.peak_rss_mb),
    }


def _checked(
    query: Query, engine: str, folder: Path, right: Columns, judged: Judged, run: dict[str, Any]
) -> dict[str, Any]:
    """exact and check. tidegate's result has to be the right one, row for row, and its late rows as many; of peers, who
    emit what is still open when a bounded input ends, closed windows are compared."""
    names = list(right)
    if engine == "flink" and query.kind == "neighbours":
        names.remove("after")
    time = [] if query.kind == "neighbours" or "window_end" in names else ["window_end"]
    if engine == "tidegate":
        time = []
    found = read_columns(folder / "out" / "result", [*names, *time])
    if engine != "tidegate":
        found = _closed(found, query, right, judged.watermark)
    differences = differing(
        {name: right[name] for name in names}, {name: found[name] for name in names}, query.keys
    )
    exact = same(differences)
    if engine == "tidegate":
        late = run.pop("late")
        differences |= {"late": late, "late expected": judged.late}
        exact = exact and late == judged.late
    return {"exact": exact, "check": differences}


def _closed(found: Columns, query: Query, right: Columns, watermark: int) -> Columns:
    if query.kind != "neighbours":
        mask = found["window_end"] <= watermark
    else:
        # LAG alone is known earlier than lead; rows that are not to be released yet have no counterpart.
        place = right["part"] << 48 | right["off"]
        mask = np.isin(found["part"] << 48 | found["off"], place)
    return {name: column[mask] for name, column in found.items()}


def _native(copy: bool) -> Callable[[Bench, Contest, Path], tuple[Metered, dict[str, Any]]]:
    def run(bench: Bench, contest: Contest, folder: Path) -> tuple[Metered, dict[str, Any]]:
        spec: dict[str, Any] = {
            "query": contest.query.to_dict(),
            "out": str(folder / "out"),
            "copy": copy,
            "cores": bench.cores,
            "memory": contest.memory,
            "files_per_trigger": contest.files_per_trigger,
            "rows_per_trigger": ROWS_PER_TRIGGER,
            "data": str(contest.folder),
        }
        if contest.topic is not None:
            jars = cached_jars(KAFKA_PACKAGES)
            if jars is None:
                raise Missing("Spark's Kafka connector is not on this machine")
            spec |= {"bootstrap": contest.topic[0], "topic": contest.topic[1], "jars": jars}
        return bench.module("run_spark", spec, folder), {}

    return run


def source_options(contest: Contest) -> dict[str, str]:
    """WITH (…) of the source that tidegate reads."""
    if contest.topic is not None:
        bootstrap, topic = contest.topic
        return {"connector": "kafka", "topic": topic, "properties.bootstrap.server": bootstrap}
    return {
        "connector": "filesystem",
        "path": f"{contest.folder}/parquet",
        "partition.columns": "part",
        "order.column": "off",
        "max_files_per_batch": str(contest.files_per_trigger),
    }


def _tidegate(bench: Bench, contest: Contest, folder: Path) -> tuple[Metered, dict[str, Any]]:
    files = contest.topic is None
    source = tidegate_source(contest.query, source_options(contest), "PARQUET" if files else "JSON", files)
    project = make_project(folder, source, tidegate_view(contest.query))
    columns = {"neighbours": ["part", "off", "before", "after"]}.get(
        contest.query.kind, ["window_start", "window_end", "key", "cnt", "total"]
    )
    export = {"result": [columns, str(folder / "out" / "result")]}
    spec = {"project": str(project), "steps": [{"name": "", "export": export}]}
    done = bench.module("run_tidegate", spec, folder)
    return done, {"late": done.notes["report"]["sources"][0]["late"]}


def _flink(bench: Bench, contest: Contest, folder: Path) -> tuple[Metered, dict[str, Any]]:
    python, jars = bench.peers.flink()
    columns, select = flink_query(contest.query)
    delay = f"WATERMARK FOR ts AS ts - INTERVAL '{contest.query.delay_s}' SECOND"
    if contest.topic is None:
        given = {"connector": "filesystem", "path": f"file://{contest.folder}/logs", "format": "parquet"}
        given |= {"parquet.utc-timezone": "true"}
        place = "part INT, `off` BIGINT, "
    else:
        given = {
            "connector": "kafka",
            "topic": contest.topic[1],
            "format": "json",
            "properties.group.id": "bench",
        }
        given |= {"properties.bootstrap.servers": contest.topic[0], "scan.startup.mode": "earliest-offset"}
        given |= {"scan.bounded.mode": "latest-offset"}
        place = ""
    sink = {"connector": "filesystem", "path": f"file://{folder}/out/result", "format": "parquet"}
    sink |= {"parquet.utc-timezone": "true"}
    row = f"{place}ts TIMESTAMP(3), `key` BIGINT, amount BIGINT, payload STRING, {delay}"
    statements = [
        f"CREATE TABLE events ({row}) WITH ({_with(given)})",
        f"CREATE TABLE final_rows ({columns}) WITH ({_with(sink)})",
        f"INSERT INTO final_rows {select}",
    ]
    spec = {
        "sql": statements,
        "jars": [str(jar) for jar in jars],
        "memory": contest.memory if contest.memory != "2g" else "4g",
        # A subtask's watermark is that of the file it reads: each log needs one of its own.
        "parallelism": contest.partitions,
    }
    return bench.script(python, "run_flink", spec, folder), {}


def _with(options: Mapping[str, str]) -> str:
    return ", ".join(f"'{name}' = '{value}'" for name, value in options.items())


def _duckdb(late_rule: bool) -> Callable[[Bench, Contest, Path], tuple[Metered, dict[str, Any]]]:
    def run(bench: Bench, contest: Contest, folder: Path) -> tuple[Metered, dict[str, Any]]:
        python = bench.peers.duckdb()
        out = {"out": str(folder / "out" / "result"), "data": str(contest.folder), "cores": bench.cores}
        return bench.script(
            python, "run_duckdb", out | {"sql": duckdb_query(contest.query, late_rule)}, folder
        ), {}

    return run


_ENGINES = {
    "native": _native(False),
    "native+copy": _native(True),
    "tidegate": _tidegate,
    "flink": _flink,
    "duckdb": _duckdb(True),
    "duckdb, no late rule": _duckdb(False),
}
