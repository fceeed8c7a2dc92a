"""The harness itself: its rows and its oracle agree with the tests' own, its meter and its producer tell the truth,
and the page is made of the committed results."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from kafka.record import MemoryRecords

from tests.benchmarks import page, truth
from tests.benchmarks.bench import DOCS, read_columns
from tests.benchmarks.load import SECOND, Events, Load, chunks, events, prepared
from tests.benchmarks.machine import facts
from tests.benchmarks.meter import metered
from tests.benchmarks.results import Point, Result
from tests.benchmarks.suites import SUITES
from tests.benchmarks.suites.catalogs import Asking, Place, per_commit
from tests.benchmarks.suites.live import QUERY, closing_ticks, latencies
from tests.benchmarks.suites.ttl import changes
from tests.benchmarks.wire import batch, crc32c, varint
from tests.oracles.oracle import Oracle, Row, View
from tests.oracles.over import Call, over
from tests.oracles.sessions import closed, sessions
from tests.oracles.tables import Change, Table

LOAD = Load(1_500, partitions=3, keys=7, per_second=4, late_share=0.05, weights=(5.0, 2.0, 1.0), chunk=200)
DELAY = 5 * SECOND


@pytest.fixture(scope="module")
def log() -> Events:
    return events(LOAD)


@pytest.fixture(scope="module")
def judged(log: Events) -> truth.Judged:
    return truth.judge(log, DELAY)


def rows_of(log: Events) -> list[Row]:
    """In the order in which chunks arrive."""
    return [
        Row(str(part), int(off), int(ts), payload={"key": int(key), "amount": int(amount)})
        for _, some in chunks(log, LOAD.chunk)
        for part, off, ts, key, amount in zip(
            some.part, some.off, some.ts, some.key, some.amount, strict=True
        )
    ]


def as_set(columns: truth.Columns, *names: str) -> set[tuple[int, ...]]:
    return set(zip(*(columns[name].tolist() for name in names), strict=True))


def test_W1_W6_C2_the_numpy_oracle_agrees_with_the_row_by_row_one(log: Events, judged: truth.Judged) -> None:
    sizes = {"minutes": (60 * SECOND, 60 * SECOND), "hops": (60 * SECOND, 20 * SECOND)}
    sums = {"cnt": ("count", None), "total": ("sum", "amount")}
    views = [View(name, size, slide, keys=("key",), aggregates=sums) for name, (size, slide) in sizes.items()]
    oracle = Oracle(lambda row: row.event_time - DELAY, views)
    oracle.enumerate(["0", "1", "2"])
    for number, row in enumerate(rows_of(log)):
        oracle.read(row)
        if number % 500 == 499:
            oracle.flush()
    oracle.flush()

    late = sum(decision.outcome == "late" for decision in oracle.decisions)
    assert (judged.late, judged.watermark) == (late, oracle.g)
    assert 20 < late < 200
    for name, (size, slide) in sizes.items():
        found = truth.windows(judged.on_time, size, slide, judged.watermark)
        right = {tuple(g[c] for c in ("window_start", "key", "cnt", "total")) for g in oracle.emitted[name]}
        assert as_set(found, "window_start", "key", "cnt", "total") == right
        assert len(right) == len(found["key"]) > 30


def test_C3_C5_sessions_and_neighbours_agree_with_the_row_by_row_ones(judged: truth.Judged) -> None:
    rows = rows_of(judged.on_time)
    right = {
        (s.start, s.end, s.keys[0], len(s.rows), sum(r.payload["amount"] for r in s.rows))
        for s in closed(sessions(rows, 4 * SECOND, ("key",)), judged.watermark)
    }
    found = truth.sessions(judged.on_time, 4 * SECOND, judged.watermark)
    assert as_set(found, "window_start", "window_end", "key", "cnt", "total") == right
    assert len(right) > 30

    calls = [Call("lag", "amount"), Call("lead", "amount")]
    released = over(rows, judged.watermark, calls, keys=("key",))
    right = {
        (
            int(r.row.partition),
            r.row.offset,
            truth.NOTHING if r.values[0] is None else r.values[0],
            r.values[1],
        )
        for r in released
    }
    near = truth.neighbours(judged.on_time, judged.watermark)
    assert as_set(near, "part", "off", "before", "after") == right
    assert len(right) > 1000


def test_T1_T2_the_table_agrees_with_the_row_by_row_one() -> None:
    table = Table(3000 * SECOND)
    batches = changes(800)
    for rows in batches:
        table.enumerate(str(part) for part in np.unique(rows.part))
        for part, off, ts, key, amount in zip(
            rows.part, rows.off, rows.ts, rows.key, rows.amount, strict=True
        ):
            table.read(Change(str(part), int(off), int(key), int(ts), value=int(amount)))
        table.publish()
    names = ("part", "off", "ts", "key", "amount")
    whole = Events(*(np.concatenate([getattr(rows, name) for rows in batches]) for name in names))
    found, late = truth.latest(whole.where(np.lexsort((whole.off, whole.part))), 3000 * SECOND)
    assert late == len(table.late)
    right = {(key, change.time, change.value) for key, change in table.rows().items()}
    assert as_set(found, "key", "ts", "amount") == right
    assert 700 < len(right) < 800


def test_a_wrong_result_is_seen() -> None:
    right = {"key": np.array([1, 2, 3]), "cnt": np.array([5, 5, 5])}
    assert truth.same(
        truth.differing(right, {"key": np.array([3, 1, 2]), "cnt": np.array([5, 5, 5])}, ("key",))
    )
    found = {"key": np.array([1, 2, 2, 4]), "cnt": np.array([5, 6, 6, 5])}
    expected = {"expected": 3, "found": 4, "missing": 1, "extra": 1, "differing": 1, "twice": 1}
    assert truth.differing(right, found, ("key",)) == expected
    assert not truth.same(expected)


def test_files_hold_the_log_in_the_order_of_arrival(log: Events, tmp_path: Path) -> None:
    folder, again = prepared(LOAD, tmp_path, lambda text: None, logs=True)
    assert (again.ts == log.ts).all()
    for place in ("parquet", "logs"):
        columns = read_columns(folder / place, ["part", "off", "ts", "key", "amount"])
        assert as_set(columns, "part", "off", "ts", "key", "amount") == as_set(
            vars(log), "part", "off", "ts", "key", "amount"
        )
    assert [path.name for path in sorted((folder / "logs").iterdir())] == [
        "0.parquet",
        "1.parquet",
        "2.parquet",
    ]


def test_record_batches_are_kafkas() -> None:
    assert crc32c(b"123456789") == 0xE3069283
    assert [varint(n) for n in (0, -1, 1, 64, 300)] == [b"\0", b"\1", b"\2", b"\x80\1", b"\xd8\4"]
    values = [b"x" * n for n in (0, 1, 63, 64, 5_000)]
    records = MemoryRecords(batch(values, 1_767_225_600_000))
    read = records.next_batch()
    assert read is not None
    assert read.validate_crc()
    assert [(record.offset, record.value, record.timestamp) for record in read] == [
        (at, value, 1_767_225_600_000) for at, value in enumerate(values)
    ]


@pytest.mark.medium
def test_the_meter_counts_children_that_ended(tmp_path: Path) -> None:
    burn = "import time\nend = time.process_time() + 0.3\nwhile time.process_time() < end: pass"
    code = (
        "import subprocess, sys\nprint('MARK begin', flush=True)\n"
        f"for _ in range(3): subprocess.run([sys.executable, '-c', {burn!r}])\n"
        "print('NOTE {\"n\": 3}')\nprint('MARK end', flush=True)"
    )
    done = metered([sys.executable, "-c", code], tmp_path / "log", tmp_path, os.environ, 60)
    cpu, _ = done.between("begin", "end")
    assert (done.code, done.notes) == (0, {"n": 3})
    assert cpu > 0.8
    assert done.marks["end"].peak_rss_mb > 5


def test_latency_is_from_the_tick_that_closes_to_the_commit_that_shows() -> None:
    """Two partitions, windows of a second, a delay of a second: a window is final when both have passed its end."""
    ts = np.array([0, 1_000_000, 2_100_000, 3_000_000, 0, 1_500_000, 1_900_000, 3_200_000])
    part = np.array([0] * 4 + [1] * 4, np.int32)
    log = Events(part, np.tile(np.arange(4), 2), ts, part, part)
    sent = [{0: n, 1: n} for n in (1, 2, 3, 4)]
    assert closing_ticks(log, sent, QUERY) == {1_000_000: 3, 2_000_000: 3}
    found = latencies(
        {1_000_000: 2, 2_000_000: 3}, np.array([10.0, 11, 12, 13]), [(12.5, 1_100_000), (15.0, 2_000_000)], 0
    )
    assert found.tolist() == [0.5, 2.0]


def test_a_commits_questions_are_those_between_its_begin_and_its_end() -> None:
    catalog, store = (
        Asking([(1.0, 9), (2.5, 9), (3.2, 9)]),
        Asking([(1.5, 1_000), (2.9, 7_000), (3.1, 3_000)]),
    )
    blocks = [
        {"cpu": cpu, "windows": [(1.0, 2.0), (3.0, 4.0)], "written": 50_000}
        for cpu in ([0.1, 0.2, 0.3, 0.4], [0.3, 0.2, 0.1, 0.6])
    ]
    found = per_commit(blocks, Place({}, servers=(1,), catalog=catalog, store=store))
    cpu = [found[f"{name}_cpu_ms"] for name in ("commit", "driver", "jvm", "started", "server")]
    assert cpu == [60.0, 20.0, 20.0, 20.0, 50.0]
    assert (found["round_trips"], found["store_requests"], found["written_kb"]) == (0.2, 0.2, 0.4)
    alone = per_commit(blocks, Place({}))
    assert (alone["written_kb"], "server_cpu_ms" in alone, "round_trips" in alone) == (5.0, False, False)


def test_the_page_says_what_was_measured_and_what_was_wrong(tmp_path: Path) -> None:
    result = Result(
        "files", {"rows": 1000}, unavailable={"flink": "no network"}, failures=["tidegate: wrong result"]
    )
    check = {"expected": 9, "missing": 1, "extra": 0, "differing": 2, "twice": 0}
    for engine, cpu, exact in (("native", 4.0, False), ("tidegate", 1.0, False), ("duckdb", 0.1, True)):
        run = {"work_cpu_s_per_mrow": cpu, "exact": exact, "check": check}
        result.points.append(Point(engine, 1000, runs=[run, run | {"work_cpu_s_per_mrow": 3 * cpu}, run]))
    result.facts = facts(DOCS.parent) | {"minutes": 1, "command": "make bench"}
    text = page.render({"files": json.loads(result.write(tmp_path).read_text())})
    assert "| native | 4.00 | 1.00 | differs: 3 of 9 |" in text
    assert "| **tidegate** | 1.00 | 0.25 | **WRONG** |" in text
    assert "| duckdb | 0.10 | 0.03 | exact |" in text
    assert "Without flink: no network" in text
    assert "**FAILED**: tidegate: wrong result" in text


@pytest.mark.medium
def test_the_page_is_made_of_the_committed_results(tmp_path: Path) -> None:
    """Text and plots; no result that was wrong is committed."""
    documents = page.read()
    assert (DOCS / "benchmarks.md").read_text() == page.render(documents), "python -m tests.benchmarks.page"
    text = (DOCS / "performance.md").read_text()
    assert text == page.with_commits(text, documents["catalogs"]), "python -m tests.benchmarks.page"
    for name, document in documents.items():
        assert document["failures"] == []
        if SUITES[name].x is not None:
            assert (DOCS / "images" / f"bench_{name}.png").is_file()
            page.curve(SUITES[name], document, tmp_path / f"{name}.png")
            assert (tmp_path / f"{name}.png").stat().st_size > 5_000


@pytest.mark.medium
def test_make_bench_lists_its_suites() -> None:
    command = [sys.executable, "tests/benchmarks/run.py", "nonsense"]
    done = subprocess.run(command, cwd=DOCS.parent, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "there are files, hop, sessions" in done.stderr
