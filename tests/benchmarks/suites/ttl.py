"""Upserts into a table that forgets: a large table, then batches that change one row in a hundred."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from tests.benchmarks.bench import Bench, EngineFailed, make_project, read_columns
from tests.benchmarks.contest import numbers, unavailable
from tests.benchmarks.load import BASE, SECOND, Events, table
from tests.benchmarks.peers import Missing
from tests.benchmarks.results import Result
from tests.benchmarks.suites.suite import Suite
from tests.benchmarks.truth import differing, latest, same
from tidegate.jvm.packages import ICEBERG_PACKAGE, cached_jars

_PARTITIONS, _BATCHES, _PAYLOAD = 4, 5, 50
#: Rows live for so long; the first load covers as much time, each batch a fiftieth of it.
_LIFE_S, _STEP_S = 3000, 60
_COLUMNS = ["key", "ts", "amount"]


def changes(size: int) -> list[Events]:
    """The first load, then the batches; keys of a partition are those of its number modulo 4."""
    rng = np.random.default_rng(5)
    per = size // _PARTITIONS
    batches = []
    for number in range(_BATCHES + 1):
        columns: list[list[np.ndarray]] = [[] for _ in range(5)]
        for part in range(_PARTITIONS):
            if number == 0:
                rows, off = per, 0
                key = rng.permutation(per)
                ts = BASE + (np.arange(rows) * (_LIFE_S * SECOND / rows)).astype(np.int64)
            else:
                rows = max(1, per // 100)
                off = per + (number - 1) * rows
                new = per + (number - 1) * rows + np.arange(rows)
                # One in ten is a row that was not there; one in two hundred comes too late.
                key = np.where(rng.random(rows) < 0.1, new, rng.integers(0, per, rows))
                start = BASE + (_LIFE_S + (number - 1) * _STEP_S) * SECOND
                ts = start + (np.arange(rows) * (_STEP_S * SECOND / rows)).astype(np.int64)
                ts -= np.where(rng.random(rows) < 0.005, (_LIFE_S + 2 * _STEP_S) * SECOND, 0)
            ts -= (rng.random(rows) * 4 * SECOND).astype(np.int64)
            for column, values in zip(
                columns,
                (
                    np.full(rows, part, np.int32),
                    off + np.arange(rows),
                    ts - ts % 1000,
                    key * _PARTITIONS + part,
                    rng.integers(1, 1000, rows),
                ),
                strict=True,
            ):
                column.append(values)
        batches.append(Events(*(np.concatenate(column) for column in columns)))
    return batches


def ttl(bench: Bench) -> Result:
    size = bench.rows(10_000_000, 40_000)
    result = Result(
        "ttl", {"rows of the table": size, "changes in a batch": size // 100, "batches": _BATCHES}
    )
    bench.say(f"writing {size:,} rows and {_BATCHES} batches of changes")
    batches = changes(size)
    joined = [
        np.concatenate([getattr(b, name) for b in batches]) for name in ("part", "off", "ts", "key", "amount")
    ]
    order = np.lexsort((joined[1], joined[0]))
    right, late = latest(Events(*(column[order] for column in joined)), _LIFE_S * SECOND)
    for _ in range(bench.repeats(1)):
        for engine in bench.wanted(("native+copy", "tidegate")):
            with bench.folder() as folder:
                files = _write(batches, folder / "stage")
                try:
                    ran = (
                        _merge(bench, files, folder)
                        if engine != "tidegate"
                        else _tidegate(bench, files, folder)
                    )
                except (EngineFailed, Missing) as error:
                    unavailable(bench, result, engine, error)
                    continue
                check: dict[str, Any] = {}
                exact = True
                if engine == "tidegate":
                    told = sum(ran.notes[f"report-{n}"]["sources"][0]["late"] for n in range(_BATCHES + 1))
                    check = differing(right, read_columns(folder / "out", _COLUMNS), ("key",))
                    exact = same(check) and told == late
                    check |= {"late": told, "late expected": late}
                    result.failures += [] if exact else [f"tidegate: wrong result: {check}"]
                for number in range(1, _BATCHES + 1):
                    run = numbers(ran, len(batches[number]), f"begin-{number}", f"end-{number}")
                    kept = {
                        name: value for name, value in run.items() if name.startswith("work") or "rss" in name
                    }
                    point = result.point(engine, len(batches[number]), number)
                    point.runs.append(
                        kept | {"exact": exact if engine == "tidegate" else None, "check": check}
                    )
                    bench.say(f"ttl: {engine:12} batch {number}: {kept['work_cpu_s']:.1f} CPU-s")
    return result


def _write(batches: list[Events], folder: Path) -> list[list[str]]:
    """Files of each batch; at most 250,000 rows in one."""
    folder.mkdir()
    written: list[list[str]] = []
    for number, rows in enumerate(batches):
        names = []
        for part in range(_PARTITIONS):
            own = rows.where(rows.part == part)
            for at in range(0, len(own), 250_000):
                path = folder / f"{number:02d}-{at:09d}-{part}.parquet"
                pq.write_table(
                    table(own.where(slice(at, at + 250_000)), _PAYLOAD, part), path, use_dictionary=False
                )
                names.append(str(path))
        written.append(names)
    return written


def _tidegate(bench: Bench, files: list[list[str]], folder: Path) -> Any:
    incoming = folder / "incoming"
    incoming.mkdir()
    project = make_project(
        folder,
        f"""CREATE TABLE accounts (part INT, off BIGINT, ts TIMESTAMP, key BIGINT, amount BIGINT, payload VARCHAR,
            PRIMARY KEY (key), WATERMARK FOR ts AS ts - INTERVAL '{_LIFE_S} seconds' WITH TTL)
        WITH (connector = 'filesystem', path = '{incoming}', partition.columns = 'part', order.column = 'off')
        FORMAT PLAIN ENCODE PARQUET;""",
    )
    steps: list[dict[str, Any]] = [
        {"name": f"-{number}", "link": [[name, str(incoming / Path(name).name)] for name in names]}
        for number, names in enumerate(files)
    ]
    steps[-1]["export"] = {"accounts": [_COLUMNS, str(folder / "out")]}
    return bench.module("run_tidegate", {"project": str(project), "steps": steps}, folder)


def _merge(bench: Bench, files: list[list[str]], folder: Path) -> Any:
    jars = cached_jars([ICEBERG_PACKAGE])
    if jars is None:
        raise Missing("the Iceberg runtime is not on this machine")
    spec = {"out": str(folder / "out"), "batches": files, "jars": jars, "cores": bench.cores, "memory": "2g"}
    return bench.module("run_merge", spec, folder)


SUITES = (
    Suite(
        "ttl",
        "Upserts into a table WITH TTL",
        "A table with a primary key whose rows live for 50 minutes of event time, then batches that change one row in "
        "a hundred (a tenth of them new keys) while the clock links on by a minute each. The native query is a MERGE "
        "into Iceberg and an append of the changes: it judges nothing, and forgets nothing. Flink SQL keeps no table "
        "that can be read beside the stream.",
        8,
        ttl,
        columns=("work_cpu_s", "work_cpu_s_per_mrow", "work_wall_s", "peak_rss_mb"),
        x="batch",
        log_x=False,
        y_label="CPU seconds per million changes, work only",
    ),
)
