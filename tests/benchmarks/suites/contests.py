"""tidegate beside its peers: the same rows, the same question, each engine in turn."""

from __future__ import annotations

from tests.benchmarks.bench import Bench, fill_topic
from tests.benchmarks.contest import ENGINES, Contest, compete
from tests.benchmarks.load import Load, events, prepared
from tests.benchmarks.queries import Query
from tests.benchmarks.results import Result
from tests.benchmarks.suites.suite import Suite

_SPARK = ("native", "native+copy", "tidegate")


def files(bench: Bench) -> Result:
    load = Load(bench.rows(20_000_000), keys=10_000)
    return _over_files(bench, "files", load, Query("windows"), ENGINES, 3)


def hop(bench: Bench) -> Result:
    load = Load(bench.rows(2_000_000), keys=max(1000, bench.rows(1_000_000)), chunk=125_000)
    query = Query("windows", size_s=60, slide_s=10)
    return _over_files(bench, "hop", load, query, ENGINES, 3, memory="8g", files_per_trigger=4)


def sessions(bench: Bench) -> Result:
    load = Load(bench.rows(4_000_000), keys=10_000, per_second=1_000, chunk=125_000)
    return _over_files(bench, "sessions", load, Query("sessions"), ENGINES, 3, memory="4g")


def leadlag(bench: Bench) -> Result:
    load = Load(bench.rows(4_000_000), keys=10_000, chunk=125_000)
    engines = ("tidegate", "flink", "duckdb")
    result = _over_files(bench, "leadlag", load, Query("neighbours"), engines, 3)
    result.unavailable["native"] = "Structured Streaming has no lag and lead over event time"
    return result


def kafka(bench: Bench) -> Result:
    load = Load(bench.rows(2_000_000), partitions=3, weights=(6.0, 3.0, 1.0), keys=10_000)
    return _over_topics(bench, "kafka", [(None, load)], (*_SPARK, "flink"), 3)


def catchup(bench: Bench) -> Result:
    load = Load(bench.rows(4_000_000), keys=10_000, chunk=2_000)
    return _over_files(bench, "catchup", load, Query("windows"), _SPARK, 3, files_per_trigger=1_000)


def late(bench: Bench) -> Result:
    result = Result("late", {})
    for share in bench.points(0.0, 0.01, 0.2):
        load = Load(bench.rows(4_000_000), keys=10_000, late_share=share, disorder_s=4.0)
        one = _over_files(bench, "late", load, Query("windows"), _SPARK, 3, at=100 * share)
        _merge(result, one)
    return result


def partitions(bench: Bench) -> Result:
    loads = []
    for count in bench.points(4, 64, 512):
        loads.append((count, Load(bench.rows(2_000_000), partitions=int(count), keys=10_000)))
    return _over_topics(bench, "partitions", loads, _SPARK, 3)


def _over_files(
    bench: Bench,
    name: str,
    load: Load,
    query: Query,
    engines: tuple[str, ...],
    repeats: int,
    memory: str = "2g",
    files_per_trigger: int = 16,
    at: float | None = None,
) -> Result:
    result = Result(name, {"rows": load.rows, "keys": load.keys, "partitions": load.partitions})
    result.scale |= {"rows in a file": load.chunk, "files per trigger": files_per_trigger}
    wanted = bench.wanted(engines)
    folder, log = prepared(load, bench.data, bench.say, logs="flink" in wanted)
    contest = Contest(query, log, load.partitions, folder, None, memory, files_per_trigger)
    compete(bench, result, contest, wanted, bench.repeats(repeats), at)
    bench.clean()
    return result


def _over_topics(
    bench: Bench, name: str, loads: list[tuple[float | None, Load]], engines: tuple[str, ...], repeats: int
) -> Result:
    first = loads[0][1]
    result = Result(name, {"rows": first.rows, "keys": first.keys})
    with bench.broker() as bootstrap:
        for number, (at, load) in enumerate(loads):
            topic = f"events-{number}"
            bench.say(f"{load.rows:,} messages into a topic of {load.partitions} partitions")
            log = events(load)
            fill_topic(bootstrap, topic, load, log)
            contest = Contest(Query("windows"), log, load.partitions, topic=(bootstrap, topic))
            if at is None:
                result.scale["partitions"] = load.lengths()
            compete(bench, result, contest, bench.wanted(engines), bench.repeats(repeats), at)
    return result


def _merge(result: Result, one: Result) -> None:
    result.scale = one.scale
    result.points += one.points
    result.failures += one.failures
    result.unavailable |= one.unavailable


_NATIVE = (
    "Native Spark keeps nothing of its input; “native+copy” runs a second query that keeps the raw rows as Parquet, "
    "which is what tidegate's log is for."
)
_CLOSED = (
    "Peers' results are compared in closed windows only; Spark and Flink decide what is late by batches and by emitted "
    "watermarks, so they differ from the row by row rule."
)

SUITES = (
    Suite(
        "files",
        "Tumbling windows over files",
        f"Count and sum per key and minute, of Parquet files with a payload of 100 bytes. {_NATIVE} {_CLOSED}",
        15,
        files,
    ),
    Suite(
        "hop",
        "Hopping windows with a million keys",
        f"Count and sum per key, windows of 60 s every 10 s. Native Spark and Flink have a heap of 8 GB here, "
        f"tidegate its default of 2 GB. {_NATIVE}",
        18,
        hop,
    ),
    Suite(
        "sessions",
        "Session windows",
        "Sessions per key with a gap of 30 s. Spark joins rows exactly a gap apart, which are two sessions by rule C3.",
        12,
        sessions,
    ),
    Suite(
        "leadlag",
        "The rows before and after",
        "lag and lead of an amount per key in event time; a row is released when the next one is final. Flink's SQL "
        "has no lead over streams: it does lag alone.",
        6,
        leadlag,
    ),
    Suite(
        "kafka",
        "JSON from Kafka",
        f"Tumbling minutes over a topic of three uneven partitions (60, 30 and 10 %). {_NATIVE} {_CLOSED}",
        8,
        kafka,
    ),
    Suite(
        "catchup",
        "A long backlog of small files",
        f"Many small files that all wait when the run begins, 1,000 to a trigger. {_NATIVE}",
        7,
        catchup,
    ),
    Suite(
        "late",
        "Cost against the share of late rows",
        "That share of the rows is pushed back by 10 to 600 s. tidegate keeps late rows, and says by how much each "
        "missed; the native query loses them.",
        16,
        late,
        x="rows pushed back, %",
        log_x=False,
    ),
    Suite(
        "partitions",
        "Cost against the number of partitions",
        "JSON from Kafka, each partition with a watermark of its own.",
        20,
        partitions,
        x="partitions of the topic",
    ),
)
