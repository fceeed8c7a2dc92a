"""Live mode: how long after the row that closes a window everybody sees the window, and what waiting costs."""

from __future__ import annotations

import statistics
import sys
import threading
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from infra.kafka.topics import Topics
from tests.benchmarks.bench import ENVIRON, ROOT, Bench, EngineFailed, fill_topic, make_project, read_columns
from tests.benchmarks.live_process import LiveProcess
from tests.benchmarks.load import Events, Load, events, messages, prepared
from tests.benchmarks.meter import metered
from tests.benchmarks.queries import Query, tidegate_source, tidegate_view
from tests.benchmarks.results import Result
from tests.benchmarks.suites.suite import Suite
from tests.benchmarks.truth import differing, judge, same, windows
from tests.benchmarks.wire import Wire, batch

SECOND = 1_000_000
_INTERVAL = "1s"
#: Seconds between two sends, and before the first window that counts.
_TICK_S, _WARM_S = 0.02, 30.0
QUERY = Query("windows", size_s=1, slide_s=1, delay_s=1)
_COLUMNS = ["window_start", "key", "cnt", "total"]


def latency(bench: Bench) -> Result:
    seconds = _WARM_S + 60 * bench.options.minutes * min(1.0, bench.options.scale)
    result = Result(
        "latency", {"seconds": round(seconds), "warm-up, s": _WARM_S, "interval": _INTERVAL, "keys": 100}
    )
    with bench.broker() as bootstrap:
        for number, rate in enumerate(bench.points(1_000, 5_000, 20_000)):
            load = Load(
                int(rate * seconds),
                3,
                100,
                int(rate),
                disorder_s=0.5,
                late_s=(5.0, 20.0),
                payload=100,
                seed=number,
            )
            topic = f"live-{number}"
            with Topics(bootstrap) as topics:
                topics.create(topic, load.partitions)
            with bench.folder() as folder:
                try:
                    run = _at_rate(bench, folder, bootstrap, topic, load, seconds)
                except EngineFailed as error:
                    result.failures.append(f"tidegate at {rate:,.0f} rows/s: {error}")
                    continue
            result.point("tidegate", load.rows, rate).runs.append(run)
            if not run["exact"]:
                result.failures.append(f"tidegate at {rate:,.0f} rows/s: wrong result: {run['check']}")
            bench.say(
                f"latency at {rate:,.0f} rows/s: p50 {run['p50_s']:.2f} s, p99 {run['p99_s']:.2f} s of "
                f"{run['windows']} windows, {run['cpu_s_per_mrow']:.1f} CPU-s/M rows, {run['cores_used']:.2f} cores"
            )
    return result


def _at_rate(
    bench: Bench, folder: Path, bootstrap: str, topic: str, load: Load, seconds: float
) -> dict[str, Any]:
    bench.say(f"encoding {load.rows:,} messages")
    log = events(load)
    sends, rows_sent = encoded(log, load, seconds)
    source = {"connector": "kafka", "topic": topic, "properties.bootstrap.server": bootstrap}
    project = make_project(folder, tidegate_source(QUERY, source, "JSON", False), tidegate_view(QUERY))
    sent_at = np.zeros(len(sends))
    with LiveProcess(project, _INTERVAL, folder / "live.log") as live:
        live.wait(lambda: bool(live.events("worker_started")), 300, "its worker starts")
        bench.say(f"sending for {seconds:.0f} s")
        errors: list[BaseException] = []
        thread = threading.Thread(target=_send, args=(bootstrap, topic, sends, sent_at, errors), daemon=True)
        thread.start()
        thread.join(_WARM_S)
        before = live.meter.mark("warm")
        thread.join()
        after = live.meter.mark("sent")
        if errors:
            raise EngineFailed(f"the producer: {errors[0]}")
        closed_by = closing_ticks(log, rows_sent, QUERY)
        last = max(closed_by)
        live.wait(lambda: _frontier(live) >= last, 300, "it closes the last window")
        slices = [(_moment(event["timestamp"]), _micros(event["frontier"])) for event in _slices(live)]
    delays = latencies(closed_by, sent_at, slices, sent_at[0] + _WARM_S)
    check = checked(bench, folder, project, log, QUERY)
    measured = load.rows * (1 - _WARM_S / seconds)
    cpu = after.cpu_s - before.cpu_s
    lag = float(np.max(sent_at - (sent_at[0] + _TICK_S * np.arange(len(sends)))))
    return {
        "p50_s": round(float(np.percentile(delays, 50)), 3),
        "p99_s": round(float(np.percentile(delays, 99)), 3),
        "max_s": round(float(np.max(delays)), 3),
        "windows": len(delays),
        "cpu_s_per_mrow": round(cpu / measured * 1e6, 3),
        "cores_used": round(cpu / (after.wall_s - before.wall_s), 3),
        "peak_rss_mb": round(after.peak_rss_mb),
        "producer_behind_s": round(lag, 3),
        "exact": same(check),
        "check": check,
    }


def encoded(log: Events, load: Load, seconds: float) -> tuple[list[dict[int, bytes]], list[dict[int, int]]]:
    """For each tick of the producer, a record batch for each partition; and how many rows of it are sent by then."""
    ticks = int(seconds / _TICK_S)
    sends: list[dict[int, bytes]] = [{} for _ in range(ticks)]
    until: list[dict[int, int]] = [{} for _ in range(ticks)]
    for part, rows in enumerate(load.lengths()):
        own = log.where(log.part == part)
        values = messages(own, load.payload, part)
        bounds = np.round(np.linspace(0, rows, ticks + 1)).astype(int)
        for tick, (start, end) in enumerate(zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True)):
            until[tick][part] = end
            if end > start:
                sends[tick][part] = batch(values[start:end], int(own.ts[start]) // 1000)
    return sends, until


def _send(
    bootstrap: str,
    topic: str,
    sends: list[dict[int, bytes]],
    sent_at: np.ndarray,
    errors: list[BaseException],
) -> None:
    try:
        wire = Wire(bootstrap)
        began = time.time()
        for tick, batches in enumerate(sends):
            time.sleep(max(0.0, began + tick * _TICK_S - time.time()))
            sent_at[tick] = time.time()
            if batches:
                wire.send(topic, batches)
        wire.close()
    except (OSError, ConnectionError) as error:
        errors.append(error)


def closing_ticks(log: Events, sent: list[dict[int, int]], query: Query) -> dict[int, int]:
    """Window end (microseconds) to the tick whose rows make it final: the first at which every partition's watermark
    has reached it (W6, C2)."""
    marks = []
    for part in sent[0]:
        newest = np.maximum.accumulate(log.ts[log.part == part]) - query.delay_s * SECOND
        at = np.array([tick[part] for tick in sent])
        marks.append(np.where(at > 0, newest[np.maximum(at - 1, 0)], np.iinfo(np.int64).min))
    published = np.min(marks, axis=0)
    size = query.size_s * SECOND
    first = int(log.ts.min()) // size * size + size
    ends = np.arange(first, int(published[-1]) + 1, size)
    return dict(zip(ends.tolist(), np.searchsorted(published, ends).tolist(), strict=True))


def latencies(
    closed_by: dict[int, int], sent_at: np.ndarray, slices: list[tuple[float, int]], since: float
) -> np.ndarray:
    """Seconds from the sending of the rows that close a window to the commit that shows it, of each window that closes
    after the moment `since`. `slices`: (moment, frontier) in order."""
    moments, frontiers = np.array([m for m, _ in slices]), np.array([f for _, f in slices])
    ends = np.array([end for end, tick in closed_by.items() if sent_at[tick] >= since])
    sent = np.array([sent_at[closed_by[end]] for end in ends.tolist()])
    return moments[np.searchsorted(frontiers, ends)] - sent


def _slices(live: LiveProcess) -> list[dict[str, Any]]:
    """Those that know a watermark."""
    return [event for event in live.events("slice_committed") if event["frontier"][0].isdigit()]


def _frontier(live: LiveProcess) -> int:
    found = _slices(live)
    return _micros(found[-1]["frontier"]) if found else 0


def _micros(text: str) -> int:
    moment = datetime.fromisoformat(text)
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return round(moment.timestamp() * 1e6)


def _moment(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def idle(bench: Bench) -> Result:
    """`tidegate run` with nothing to do, and ticks of `tidegate live` that find nothing."""
    result = Result("idle", {"rows": bench.rows(200_000), "interval": _INTERVAL, "seconds": 30})
    load = Load(bench.rows(200_000), keys=1_000, payload=20)
    folder, log = prepared(load, bench.data, bench.say)
    options = {
        "connector": "filesystem",
        "path": f"{folder}/parquet",
        "partition.columns": "part",
        "order.column": "off",
    }
    query = Query("windows")
    with bench.folder() as place:
        project = make_project(place, tidegate_source(query, options, "PARQUET"), tidegate_view(query))
        try:
            _run(bench, place, project)
            for _ in range(bench.repeats(5)):
                result.point("tidegate run", 0).runs.append(_run(bench, place, project))
            result.point("tick of tidegate live, files", 0).runs.append(_ticks(project, place))
            _judged(bench, result, place, project, log, query)
        except EngineFailed as error:
            result.failures.append(str(error))
    with bench.broker() as bootstrap, bench.folder() as place:
        load = Load(bench.rows(200_000), partitions=3, keys=1_000, payload=20)
        log = events(load)
        fill_topic(bootstrap, "idle", load, log)
        options = {"connector": "kafka", "topic": "idle", "properties.bootstrap.server": bootstrap}
        project = make_project(place, tidegate_source(query, options, "JSON", False), tidegate_view(query))
        try:
            result.point("tick of tidegate live, kafka", 0).runs.append(_ticks(project, place))
            _judged(bench, result, place, project, log, query)
        except EngineFailed as error:
            result.failures.append(str(error))
    bench.clean()
    for point in result.points:
        bench.say(f"idle: {point.engine}: {point.median}")
    return result


def _judged(bench: Bench, result: Result, place: Path, project: Path, log: Events, query: Query) -> None:
    """The verdict on what was there to be idle about goes to the runs that have none yet."""
    check = checked(bench, place, project, log, query)
    if not same(check):
        result.failures.append(f"tidegate: wrong result: {check}")
    for run in (run for point in result.points for run in point.runs):
        run.setdefault("exact", same(check))
        run.setdefault("check", check)


def checked(bench: Bench, folder: Path, project: Path, log: Events, query: Query) -> dict[str, int]:
    """How a project's result differs from what it has to be when all of `log` is read."""
    export = {"result": [_COLUMNS, str(folder / "out")]}
    bench.module("run_tidegate", {"project": str(project), "steps": [{"name": "", "export": export}]}, folder)
    judged = judge(log, query.delay_s * SECOND)
    right = windows(judged.on_time, query.size_s * SECOND, query.slide_s * SECOND, judged.watermark)
    return differing(right, read_columns(folder / "out", _COLUMNS), query.keys)


def _run(bench: Bench, place: Path, project: Path) -> dict[str, Any]:
    command = [sys.executable, "-m", "tidegate.cli.main", "run", "--project", str(project)]
    done = metered(command, place / "run.log", ROOT, ENVIRON, bench.options.timeout_s)
    if done.code != 0:
        raise EngineFailed(f"tidegate run ended with {done.code}: {done.tail}")
    end = done.marks["exit"]
    return {
        "cpu_s": round(end.cpu_s, 2),
        "wall_s": round(end.wall_s, 2),
        "peak_rss_mb": round(end.peak_rss_mb),
    }


def _ticks(project: Path, place: Path, seconds: float = 30.0) -> dict[str, Any]:
    with LiveProcess(project, _INTERVAL, place / "live.log") as live:

        def quiet() -> int:
            return sum(not event["rows"] for event in live.events("tick_finished"))

        live.wait(lambda: quiet() >= 5, 300, "it has nothing to do")
        first, before = quiet(), live.meter.mark("first")
        until = time.monotonic() + seconds
        live.wait(lambda: time.monotonic() > until, seconds + 10, "it ticks")
        ticks, after = quiet() - first, live.meter.mark("last")
        walls = [event["seconds"] for event in live.events("tick_finished")[-ticks:]]
    return {
        "cpu_s": round((after.cpu_s - before.cpu_s) / ticks, 3),
        "wall_s": round(statistics.median(walls), 3),
        "peak_rss_mb": round(after.peak_rss_mb),
        "ticks": ticks,
    }


SUITES = (
    Suite(
        "latency",
        "Live mode: from the row that closes a window to the window",
        f"`tidegate live --interval {_INTERVAL}` reads JSON from three partitions and keeps windows of one second by "
        "key. The clock starts when the last of the rows is sent that make a window final, and stops at the commit "
        "from which on every reader sees it. The producer's messages are encoded beforehand; it and the broker share "
        "the machine.",
        12,
        latency,
        columns=("p50_s", "p99_s", "max_s", "cores_used", "cpu_s_per_mrow", "peak_rss_mb"),
        x="rows per second",
        y=("p50_s", "p99_s"),
        y_label="seconds",
    ),
    Suite(
        "idle",
        "Nothing to do",
        "CPU and wall seconds of `tidegate run` where everything is up to date, and of a tick of `tidegate live` that "
        "finds nothing; the CPU is all that is used from one tick to the next, the supervisor's included.",
        5,
        idle,
        columns=("cpu_s", "wall_s", "peak_rss_mb"),
    ),
)
