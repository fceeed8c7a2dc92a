"""`make bench`: what gate + log + windows cost, beside Spark's own streaming aggregation, in one interleaved run.

The number is CPU seconds per million rows of the whole process tree (driver, JVM, Python workers), work only:
without the start of Spark. On shared machines read the ratio, not the absolute. Every result is checked against an
independent count: a fast wrong answer fails.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
ENGINES = ("native", "native+copy", "tidegate")
DELAY, MINUTE = 5_000_000, 60_000_000


def generate(folder: Path, rows: int, keys: int, partitions: int = 4, chunk: int = 100_000) -> None:
    """Parquet chunks of `partitions` logs, nearly in order, with stragglers: part, off, ts, key, amount, payload."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(1)
    (folder / "events").mkdir(parents=True)
    per = rows // partitions
    for start in range(0, per, chunk):
        n = min(chunk, per - start)
        for part in range(partitions):
            offsets = np.arange(start, start + n)
            late = np.where(
                rng.random(n) < 0.01, rng.integers(0, 30_000_000, n), rng.integers(0, 4_000_000, n)
            )
            ts = 1_767_225_600_000_000 + offsets * 1_000 + part * 137 - late
            table = pa.table(
                {
                    "part": pa.array(np.full(n, part, dtype=np.int32)),
                    "off": pa.array(offsets),
                    "ts": pa.array(ts).cast(pa.timestamp("us")),
                    "key": pa.array(rng.integers(0, keys, n)),
                    "amount": pa.array(rng.integers(0, 1000, n)),
                    "payload": pa.array([os.urandom(50).hex()] * n),
                }
            )
            pq.write_table(table, folder / "events" / f"{start:012d}-{part}.parquet")


def truth(folder: Path) -> dict[str, int]:
    """Row by row rules with numpy: late rows, and rows and sum in closed windows."""
    import pyarrow.parquet as pq

    late, kept, marks = 0, [], []
    for part in range(4):
        files = sorted((folder / "events").glob(f"*-{part}.parquet"))
        tables = [pq.read_table(f, columns=["ts", "amount"]) for f in files]
        ts = np.concatenate([np.asarray(t["ts"].cast("int64")) for t in tables])
        amount = np.concatenate([np.asarray(t["amount"]) for t in tables])
        newest = np.maximum.accumulate(ts)
        before = np.concatenate(([np.iinfo(np.int64).min + DELAY], newest[:-1])) - DELAY
        on_time = ts >= before
        late += int((~on_time).sum())
        kept.append((ts[on_time], amount[on_time]))
        marks.append(int(newest[-1]) - DELAY)
    frontier = min(marks)
    closed = [(ts // MINUTE + 1) * MINUTE <= frontier for ts, _ in kept]
    return {
        "late": late,
        "rows": int(sum(c.sum() for c in closed)),
        "sum": int(sum(a[c].sum() for (_, a), c in zip(kept, closed, strict=True))),
    }


def cpu_of_tree() -> float:
    """User and system seconds of this process and all below it, those that ended included."""
    parents: dict[int, list[int]] = {}
    used: dict[int, float] = {}
    ticks = os.sysconf("SC_CLK_TCK")
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            parents.setdefault(int(fields[1]), []).append(int(entry.name))
            used[int(entry.name)] = sum(int(x) for x in fields[11:15]) / ticks
    total, todo = 0.0, [os.getpid()]
    while todo:
        pid = todo.pop()
        total += used.get(pid, 0.0)
        todo += parents.get(pid, [])
    return total


def run_tidegate(folder: Path) -> dict[str, int]:
    import tidegate

    project = folder / "project"
    (project / "assets").mkdir(parents=True)
    (project / "assets" / "bench.sql").write_text(
        f"""CREATE SOURCE events (part INT, off BIGINT, ts TIMESTAMP, key BIGINT, amount BIGINT, payload VARCHAR,
            WATERMARK FOR ts AS ts - INTERVAL '5 seconds')
        WITH (connector = 'filesystem', path = '{folder / "events"}', partition.columns = 'part', order.column = 'off',
              max_files_per_batch = '16') FORMAT PLAIN ENCODE PARQUET;
        CREATE MATERIALIZED VIEW per_minute AS
        SELECT window_start, key, count(*) AS cnt, sum(amount) AS total FROM TUMBLE(events, ts, INTERVAL '1 minute')
        GROUP BY window_start, window_end, key EMIT ON WINDOW CLOSE;"""
    )
    session = tidegate.connect(project=project)
    start = cpu_of_tree()
    report = session.run()
    spent = cpu_of_tree() - start
    rows, total = (
        session.table("per_minute")
        .agg({"cnt": "sum", "total": "sum"})
        .select("sum(cnt)", "sum(total)")
        .first()
    )
    result = {"late": report.sources[0].late, "rows": rows, "sum": total}
    return {"cpu": spent, **result}


def run_native(folder: Path, copy: bool) -> dict[str, int]:
    from pyspark.sql import functions as F

    from tidegate.engine.spark import start
    from tidegate.project import Environment

    spark = start(Environment(), [], "native")
    schema = "part int, off long, ts timestamp, key long, amount long, payload string"
    read = spark.readStream.schema(schema).option("maxFilesPerTrigger", 16)
    out = folder / "out"
    begin = cpu_of_tree()
    rows = read.parquet(str(folder / "events"))
    window = F.window("ts", "1 minute")
    counts = rows.withWatermark("ts", "5 seconds").groupBy(window, "key")
    counts = counts.agg(F.count(F.lit(1)).alias("cnt"), F.sum("amount").alias("total"))
    writers = [("agg", counts)] + ([("raw", rows)] if copy else [])
    for name, frame in writers:
        writer = frame.writeStream.format("parquet").outputMode("append").trigger(availableNow=True)
        writer.option("checkpointLocation", str(out / f"{name}-checkpoint")).start(
            str(out / name)
        ).awaitTermination()
    return {"cpu": cpu_of_tree() - begin}


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=4_000_000)
    parser.add_argument("--keys", type=int, default=10_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of a table")
    parser.add_argument("--engine", choices=ENGINES, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.engine:
        run = run_tidegate(options.folder) if options.engine == "tidegate" else None
        print("RESULT", json.dumps(run or run_native(options.folder, options.engine == "native+copy")))
        return 0

    with tempfile.TemporaryDirectory(prefix="tidegate-bench-") as name:
        folder = Path(name)
        print(f"generating {options.rows:,} rows, {options.keys:,} keys …", file=sys.stderr, flush=True)
        generate(folder, options.rows, options.keys)
        expected = truth(folder)
        spent: dict[str, list[float]] = {engine: [] for engine in ENGINES}
        for repeat in range(options.repeats):
            for engine in ENGINES:
                command = [sys.executable, __file__, "--engine", engine, "--folder", str(folder)]
                environment = os.environ | {"PYTHONPATH": str(ROOT)}
                done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
                lines = [line for line in done.stdout.splitlines() if line.startswith("RESULT ")]
                if done.returncode or not lines:
                    print(done.stderr[-3000:], file=sys.stderr)
                    return 1
                result = json.loads(lines[0].removeprefix("RESULT "))
                if engine == "tidegate" and {k: result[k] for k in expected} != expected:
                    print(f"WRONG RESULT: {result}, expected {expected}", file=sys.stderr)
                    return 1
                spent[engine].append(result["cpu"] / options.rows * 1e6)
                print(f"run {repeat + 1}: {engine:12} {spent[engine][-1]:.2f}", file=sys.stderr, flush=True)
                shutil.rmtree(folder / "project", ignore_errors=True)
                shutil.rmtree(folder / "out", ignore_errors=True)
    medians = {engine: statistics.median(values) for engine, values in spent.items()}
    if options.json:
        print(
            json.dumps({"rows": options.rows, "keys": options.keys, "cpu_s_per_mrow": medians, "runs": spent})
        )
    else:
        print(
            f"\nTumbling 1 minute, {options.keys:,} keys, {options.rows:,} rows of Parquet, {expected['late']:,} late"
        )
        print(f"{'engine':14}{'CPU-s / M rows':>16}{'/ native':>10}{'/ native+copy':>15}")
        for engine, value in medians.items():
            ratios = (value / medians["native"], value / medians["native+copy"])
            print(f"{engine:14}{value:16.2f}{ratios[0]:10.2f}{ratios[1]:15.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
