"""What must not grow: the cost of a new row with the length of the log, and that of a view with the views beside it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.benchmarks.bench import Bench, EngineFailed, make_project, read_columns
from tests.benchmarks.contest import numbers
from tests.benchmarks.load import Load, prepared
from tests.benchmarks.queries import Query, tidegate_source, tidegate_view
from tests.benchmarks.results import Result
from tests.benchmarks.suites.suite import Suite
from tests.benchmarks.truth import Columns, differing, judge, same, windows

SECOND = 1_000_000
_ADDS = 3
_COLUMNS = ["window_start", "key", "cnt", "total"]


def history(bench: Bench) -> Result:
    """One log that grows; at each length, a few additions of the same size are measured in the warm session."""
    unit = bench.rows(400_000, 40_000) // 16 * 16
    lengths = [unit * round(times) for times in bench.points(1, 10, 100)]
    last = lengths[-1] + _ADDS * unit
    load = Load(last, keys=10_000, payload=20, chunk=unit // 16)
    result = Result("history", {"rows added": unit, "log at first": lengths[0], "keys": load.keys})
    stage, log = prepared(load, bench.data, bench.say)
    names = sorted(path.name for path in (stage / "parquet").iterdir())
    with bench.folder() as folder:
        incoming = folder / "incoming"
        incoming.mkdir()
        steps: list[dict[str, Any]] = []
        done = 0

        def add(rows: int, name: str) -> None:
            nonlocal done
            first, end = (n // load.chunk for n in (done, done + rows))
            links = [[str(stage / "parquet" / n), str(incoming / n)] for n in names[first:end]]
            steps.append({"name": name, "link": links})
            done += rows

        # The first rows come in quarters, so that the session is warm before anything is measured.
        for quarter in range(4):
            add(unit // 4, f"-warm-{quarter}")
        for length in lengths:
            if length > done:
                add(length - done, f"-grow-{length}")
            for number in range(_ADDS):
                add(unit, f"-{length}-{number}")
        steps[-1]["export"] = {"result": [_COLUMNS, str(folder / "out")]}
        source = tidegate_source(Query("windows"), _incoming(incoming), "PARQUET")
        spec = {"project": str(make_project(folder, source, tidegate_view(Query("windows")))), "steps": steps}
        try:
            ran = bench.module("run_tidegate", spec, folder)
        except EngineFailed as error:
            result.failures.append(f"tidegate: {error}")
            return result
        read = log.where(log.off < done // load.partitions)
        right = judge(read, 5 * SECOND)
        check = differing(
            windows(right.on_time, 60 * SECOND, 60 * SECOND, right.watermark),
            read_columns(folder / "out", _COLUMNS),
            ("window_start", "key"),
        )
        if not same(check):
            result.failures.append(f"tidegate: wrong result: {check}")
        for length in lengths:
            for number in range(_ADDS):
                mark = f"-{length}-{number}"
                run = numbers(ran, unit, f"begin{mark}", f"end{mark}")
                # The process began long before: of this addition there is only its own work.
                kept = {
                    name: value for name, value in run.items() if name.startswith("work") or "rss" in name
                }
                result.point("tidegate", unit, length).runs.append(
                    kept | {"exact": same(check), "check": check}
                )
                bench.say(f"history, log of {length:,}: {kept['work_cpu_s_per_mrow']:.2f} CPU-s/M rows")
    bench.clean()
    return result


def _incoming(folder: Path) -> dict[str, str]:
    return {
        "connector": "filesystem",
        "path": str(folder),
        "partition.columns": "part",
        "order.column": "off",
    }


def views(bench: Bench) -> Result:
    """Projects with more and more views over the same source, each begun anew."""
    load = Load(bench.rows(2_000_000), keys=1_000)
    result = Result("views", {"rows": load.rows, "keys": load.keys})
    folder, log = prepared(load, bench.data, bench.say)
    judged = judge(log, 5 * SECOND)
    for repeat in range(bench.repeats(3)):
        for count in bench.points(1, 10, 50):
            with bench.folder() as place:
                source = tidegate_source(Query("windows"), _incoming(folder / "parquet"), "PARQUET")
                made = [_view(number) for number in range(int(count))]
                export = {f"v{n}": [_COLUMNS, str(place / "out" / str(n))] for n in range(int(count))}
                project = make_project(place, source, *made)
                spec = {"project": str(project), "steps": [{"name": "", "export": export}]}
                try:
                    ran = bench.module("run_tidegate", spec, place)
                except EngineFailed as error:
                    result.failures.append(f"tidegate, {count:g} views: {error}")
                    continue
                checks = [
                    differing(
                        _right(judged.on_time, judged.watermark, n), _found(place, n), ("window_start", "key")
                    )
                    for n in range(int(count))
                ]
            wrong = {f"v{n}": check for n, check in enumerate(checks) if not same(check)}
            if wrong:
                result.failures.append(f"tidegate, {count:g} views, run {repeat + 1}: wrong results: {wrong}")
            run = numbers(ran, load.rows) | {"exact": not wrong, "check": wrong or checks[0]}
            run["work_cpu_s_per_view"] = round(run["work_cpu_s"] / count, 4)
            result.point("tidegate", load.rows, count).runs.append(run)
            bench.say(f"views, run {repeat + 1}: {count:3g} views, {run['work_cpu_s']:.1f} CPU-s of work")
    bench.clean()
    return result


def _shape(number: int) -> tuple[int, int | None]:
    """Seconds of a view's windows, and the keys that it leaves out (key % 50 = n); every other view has a filter."""
    return 10 * (1 + number // 2), number if number % 2 else None


def _view(number: int) -> str:
    size, left_out = _shape(number)
    where = "" if left_out is None else f"WHERE key % 50 <> {left_out}"
    return f"""CREATE MATERIALIZED VIEW v{number} AS
        SELECT window_start, window_end, key, count(*) AS cnt, sum(amount) AS total
        FROM TUMBLE(events, ts, INTERVAL '{size} seconds') {where}
        GROUP BY window_start, window_end, key EMIT ON WINDOW CLOSE;"""


def _right(on_time: Any, watermark: int, number: int) -> Columns:
    size, left_out = _shape(number)
    rows = on_time if left_out is None else on_time.where(on_time.key % 50 != left_out)
    return windows(rows, size * SECOND, size * SECOND, watermark)


def _found(place: Path, number: int) -> Columns:
    return read_columns(place / "out" / str(number), _COLUMNS)


SUITES = (
    Suite(
        "history",
        "Cost of a new row against the length of the log",
        "A log that grows to a hundred times its size. At each length the same number of rows is added three times to "
        "the warm session, by Parquet files that appear in the source's folder.",
        8,
        history,
        columns=("work_cpu_s_per_mrow", "work_wall_s", "peak_rss_mb"),
        x="rows in the log",
    ),
    Suite(
        "views",
        "Cost against the number of views",
        "Tumbling windows of different sizes over one source, half of the views with a filter of their own.",
        18,
        views,
        columns=("work_cpu_s", "work_cpu_s_per_view", "work_wall_s", "peak_rss_mb"),
        x="views over one source",
        y=("work_cpu_s",),
        y_label="CPU seconds of work",
    ),
)
