"""What a commit costs the driver as partitions grow: `python -m tests.benchmarks.partitions [N …]`. No JVM.

Prints, for N partitions, with the running watermark of an expression and with SOURCE_WATERMARK()'s memory of 5,000
rows: the progress file (bytes, and CPU seconds to write and to load), the pickled gate task that every Spark task
gets, one batch's reports, a Kafka plan as JSON, and the files beside the log that have the memories. CPU seconds of
one core: read them as ratios.
"""

from __future__ import annotations

import json
import pickle
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.fs as pafs
from sqlglot import exp

from tidegate.iceberg.layout import PROGRESS_TYPE
from tidegate.iceberg.partitions import Decisions, Sighting
from tidegate.iceberg.progress import LogProgress
from tidegate.iceberg.protocol import Snapshot
from tidegate.ingest.connector import BatchPlan
from tidegate.tasks.gate import GateTask, PartitionReport
from tidegate.tasks.memories import MemoryFiles
from tidegate.tasks.writer import WriteTarget
from tidegate.watermark import GateState
from tidegate.watermark.memory import StrategyMemory

WINDOW = 5_000
#: Partitions in one Spark task.
PER_TASK = 100
AT = datetime(2026, 1, 1, tzinfo=UTC)


def arrow_type(kind: exp.DataType) -> pa.DataType:
    """Arrow's type of a Spark type as layout.py writes them."""
    if kind.is_type("struct"):
        return pa.struct([(field.name, arrow_type(field.args["kind"])) for field in kind.expressions])
    if kind.is_type("array"):
        return pa.list_(arrow_type(kind.expressions[0]))
    return pa.int64() if kind.is_type("bigint") else pa.string()


def target(folder: str) -> WriteTarget:
    """A log's target on the local disk; only the columns of progress rows matter."""
    fields = [
        ("_outcome", pa.string()),
        ("_source_partition", pa.string()),
        ("_arrival", pa.timestamp("us", tz="UTC")),
        ("_epoch", pa.int64()),
        ("_progress", arrow_type(exp.DataType.build(PROGRESS_TYPE, dialect="spark"))),
    ]
    schema = pa.schema(
        [
            pa.field(n, t, metadata={b"PARQUET:field_id": str(i).encode()})
            for i, (n, t) in enumerate(fields, 1)
        ]
    )
    return WriteTarget(
        pafs.LocalFileSystem(), folder, f"file://{folder}", schema, "_outcome", None, ("_epoch",)
    )


def states(count: int, memory: bool) -> dict[str, GateState]:
    """Partitions as they are after a day: `memory` of out-of-orderness with a tail of minutes, as flights have it."""
    rng = np.random.default_rng(7)
    found = {}
    for number in range(count):
        late = (rng.exponential(30e6, WINDOW) * (rng.random(WINDOW) < 0.4)).astype(np.int64)
        kept = StrategyMemory(np.concatenate(([1, WINDOW, 1_767_225_600_000_000], late))) if memory else None
        found[str(number)] = GateState(
            watermark=1_767_225_600_000_000 + number,
            next_offset=5_000_000 + number,
            on_time=4_900_000,
            late=90_000,
            rejected=10_000,
            max_event_time=1_767_225_660_000_000 + number,
            memory=kept,
        )
    return found


def cpu(what: Callable[[], Any]) -> tuple[float, Any]:
    started = time.process_time()
    result = what()
    return time.process_time() - started, result


def measure(count: int, memory: bool) -> dict[str, str]:
    with tempfile.TemporaryDirectory() as folder:
        place = target(folder)
        sightings = {str(n): Sighting(0, 5_000_100 + n, 1_767_225_600_000_000, 1) for n in range(count)}
        progress = LogProgress(7, 1_767_225_600_000_000, states(count, memory), sightings=sightings)
        memories = MemoryFiles(pafs.LocalFileSystem(), f"{folder}/memory")
        Path(memories.path).mkdir()
        some = dict(list(progress.states.items())[:PER_TASK])
        putting, _ = cpu(lambda: memories.put_away(some))
        reader = memories.reader()
        recalling, _ = cpu(lambda: [reader.recall(name, state) for name, state in some.items()])
        for at in range(PER_TASK, count, PER_TASK):
            memories.put_away(dict(list(progress.states.items())[at : at + PER_TASK]))
        beside = sum(path.stat().st_size for path in Path(memories.path).iterdir())
        writing, file = cpu(lambda: progress.write(place, AT, []))
        summary = progress.summary(file)
        loading, _ = cpu(lambda: LogProgress.load(Snapshot(1, summary), place))
        loaded = LogProgress.load(Snapshot(1, summary), place)
        task = GateTask(None, "ts", 0, loaded.states, 8, AT, place, memories, False, False, False)
        pickling, text = cpu(lambda: pickle.dumps(task))
        changed = {n: PartitionReport(s, replace(s)).to_dict() for n, s in loaded.states.items()}
        reporting, report = cpu(lambda: json.dumps({"files": [], "partitions": changed}))
        units = [{"p": str(n), "from": 5_000_000, "until": 5_000_100} for n in range(count)]
        until = {str(n): 5_000_100 for n in range(count)}
        decisions = Decisions(until=until, ends=until)
        plan = BatchPlan(8, AT.isoformat(), units, decisions.to_json()).to_json()
        size = Path(folder, file["uri"].rpartition("/")[2]).stat().st_size
    return {
        "partitions": f"{count:,}",
        "memory": f"{WINDOW:,} rows" if memory else "-",
        "progress file": f"{size / 1e6:.2f} MB",
        "write": f"{writing:.2f} s",
        "load": f"{loading:.2f} s",
        "task": f"{len(text) / 1e6:.2f} MB, {pickling:.2f} s",
        "reports": f"{len(report) / 1e6:.2f} MB, {reporting:.2f} s",
        "plan": f"{len(plan) / 1e6:.2f} MB",
        "memories": f"{beside / 1e6:.2f} MB",
        "in a task": f"{recalling:.2f} s read, {putting:.2f} s written",
        "peak RSS": f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:,.0f} MB",
    }


def main(arguments: list[str]) -> int:
    rows = [
        measure(count, memory)
        for memory in (False, True)
        for count in [int(text) for text in arguments] or [10, 1_000, 10_000]
    ]
    print(" | ".join(rows[0]))
    for row in rows:
        print(" | ".join(row.values()))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
