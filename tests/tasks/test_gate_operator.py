"""The gate as an operator, without Spark: order, offsets, files (W1, W4, W5 and the order trap)."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow.fs import LocalFileSystem

from tidegate.ingest.ingest import well_ordered
from tidegate.tasks.gate import GateTask
from tidegate.tasks.memories import MemoryFiles
from tidegate.tasks.writer import WriteTarget
from tidegate.watermark import Delay, GateConfig, GateState, TimeKind

SECOND = 1_000_000
NAMES = {
    "ts": pa.timestamp("us"),
    "_outcome": pa.string(),
    "_source_partition": pa.string(),
    "_offset": pa.int64(),
}
NAMES |= {"_arrival": pa.timestamp("us", tz="UTC"), "_epoch": pa.int64(), "_wm": pa.timestamp("us")}
NAMES |= {"_reason": pa.string(), "_raw": pa.string()}


def target(folder: Path) -> WriteTarget:
    fields = [
        pa.field(name, kind, metadata={b"PARQUET:field_id": str(i + 1).encode()})
        for i, (name, kind) in enumerate(NAMES.items())
    ]
    schema = pa.schema(fields)
    return WriteTarget(
        LocalFileSystem(), str(folder), f"file://{folder}", schema, "_outcome", "ts", ("_offset", "ts")
    )


def memories(folder: Path) -> MemoryFiles:
    return MemoryFiles(LocalFileSystem(), str(folder / "memory"))


def batch(rows: list[tuple[str, int | None, int | None]]) -> pa.RecordBatch:
    """Rows of (partition, offset, seconds or None)."""
    n = len(rows)
    times = pa.array([None if t is None else t * SECOND for _, _, t in rows], pa.int64())
    return pa.RecordBatch.from_pydict(
        {
            "ts": times.cast(pa.timestamp("us")),
            "_source_partition": pa.array([p for p, _, _ in rows]),
            "_offset": pa.array([o for _, o, _ in rows], pa.int64()),
            "_arrival": pa.array([datetime(2026, 1, 1, tzinfo=UTC)] * n, pa.timestamp("us", tz="UTC")),
            "_raw": pa.array([None] * n, pa.string()),
            "_reason": pa.array(["null_event_time" if t is None else None for _, _, t in rows], pa.string()),
        }
    )


def run(folder: Path, batches: list[pa.RecordBatch], **changes) -> tuple[dict, list[dict]]:
    """The task's report and all rows that it wrote, in the order of partition and offset."""
    settings = {
        "config": GateConfig(TimeKind.TIMESTAMP, Delay(10 * SECOND)),
        "time_column": "ts",
        "published": None,
        "states": {},
        "epoch": 1,
        "arrived": datetime(1970, 1, 1, tzinfo=UTC),
        "target": target(folder),
        "memories": memories(folder),
        "numbering": False,
        "drop_repeats": False,
        "has_strategy": False,
    }
    (out,) = GateTask(**(settings | changes))(iter(batches))
    report = json.loads(out.column("report")[0].as_py())
    rows = [
        row
        for file in report["files"]
        for row in pq.read_table(file["uri"].removeprefix("file://")).to_pylist()
    ]
    return report, sorted(rows, key=_place)


def _place(row: dict) -> tuple:
    return (row["_source_partition"], -1 if row["_offset"] is None else row["_offset"], row["_reason"] or "")


def test_W1_W5_every_row_ends_in_one_file_of_its_outcome_and_day(tmp_path: Path) -> None:
    day = 86_400
    rows = [("a", 0, 100), ("a", 1, 100 + day), ("a", 2, 50), ("a", 3, None), ("a", 4, 90 + day)]
    report, written = run(tmp_path, [batch(rows)])
    assert [r["_outcome"] for r in written] == ["on_time", "on_time", "late", "rejected", "on_time"]
    # W14: of every row, the watermark that it was compared with.
    first, second = datetime(1970, 1, 1, 0, 1, 30), datetime(1970, 1, 2, 0, 1, 30)
    assert [r["_wm"] for r in written] == [None, first, second, second, second]
    files = {(f["split"], f["day"]): f["rows"] for f in report["files"]}
    assert files == {("on_time", 0): 1, ("on_time", 1): 2, ("late", 0): 1, ("rejected", None): 1}
    state = report["partitions"]["a"]["state"]
    assert (state["on_time"], state["late"], state["rejected"], state["next_offset"]) == (3, 1, 1, 5)


def test_W4_cutting_a_task_into_arrow_batches_changes_nothing(tmp_path: Path) -> None:
    rows = [("ab"[i % 2], i // 2, (i * 37) % 60) for i in range(60)]
    _, whole = run(tmp_path, [batch(rows)])
    for size in (1, 7, 25):
        cuts = [batch(rows[i : i + size]) for i in range(0, len(rows), size)]
        assert run(tmp_path, cuts)[1] == whole


def test_W12_rows_say_themselves_when_they_came_or_came_with_their_batch(tmp_path: Path) -> None:
    rows = [("a", 0, 1), ("b", 0, None)]
    came = datetime(2026, 7, 1, 12, tzinfo=UTC)
    given = run(tmp_path, [batch(rows)], arrived=came)[1]
    assert [r["_arrival"] for r in given] == [datetime(2026, 1, 1, tzinfo=UTC)] * 2
    without = run(tmp_path, [batch(rows).drop_columns(["_arrival"])], arrived=came)[1]
    assert without == [r | {"_arrival": came} for r in given]


def test_numbering_continues_where_the_state_stands(tmp_path: Path) -> None:
    rows = [("a", None, 1), ("a", None, 2), ("b", None, 3)]
    states = {"a": GateState(next_offset=40)}
    _, written = run(tmp_path, [batch(rows)], numbering=True, states=states)
    assert [(r["_source_partition"], r["_offset"]) for r in written] == [("a", 40), ("a", 41), ("b", 0)]


def test_repeated_offsets_are_rejected_where_rows_were_sorted(tmp_path: Path) -> None:
    rows = [("a", 3, 1), ("a", 5, 2), ("a", 5, 2), ("a", 6, 3), ("a", None, 4)]
    states = {"a": GateState(next_offset=4)}
    _, written = run(tmp_path, [batch(rows)], drop_repeats=True, states=states)
    assert [(r["_offset"], r["_reason"]) for r in written] == [
        (None, "null_offset"),
        (3, "offset_not_increasing"),
        (5, None),
        (5, "offset_not_increasing"),
        (6, None),
    ]


def test_disorder_is_reported_and_not_hidden(tmp_path: Path) -> None:
    report, _ = run(tmp_path, [batch([("a", 0, 1), ("a", 2, 2), ("a", 1, 3)])])
    assert not well_ordered([report])
    behind, _ = run(tmp_path, [batch([("a", 3, 1)])], states={"a": GateState(next_offset=9)})
    assert not well_ordered([behind])


def test_rows_without_an_offset_are_rejected_whether_sorted_or_not(tmp_path: Path) -> None:
    for drop_repeats in (False, True):
        report, written = run(
            tmp_path, [batch([("a", 0, 1), ("a", None, 2), ("a", 1, 3)])], drop_repeats=drop_repeats
        )
        assert [(r["_offset"], r["_reason"]) for r in written] == [
            (None, "null_offset"),
            (0, None),
            (1, None),
        ]
        assert well_ordered([report])


def test_the_order_trap_one_partition_in_two_tasks_is_reported(tmp_path: Path) -> None:
    first, _ = run(tmp_path, [batch([("a", 0, 1), ("a", 1, 2)])])
    second, _ = run(tmp_path, [batch([("a", 2, 3), ("b", 0, 1)])])
    other, _ = run(tmp_path, [batch([("c", 0, 1)])])
    assert not well_ordered([first, second])
    assert well_ordered([first, other])


def test_R3_a_new_partition_starts_at_the_published_watermark(tmp_path: Path) -> None:
    _, written = run(tmp_path, [batch([("new", 0, 99), ("new", 1, 100)])], published=100 * SECOND)
    assert [r["_outcome"] for r in written] == ["late", "on_time"]


@pytest.mark.parametrize("column", ["ts", "_offset"])
def test_bounds_cover_the_rows_of_each_file(tmp_path: Path, column: str) -> None:
    report, _ = run(tmp_path, [batch([("a", 0, 5), ("a", 1, 20)]), batch([("a", 2, 11)])])
    (file,) = report["files"]
    assert file["bounds"][column] == {"ts": [5 * SECOND, 20 * SECOND], "_offset": [0, 2]}[column]
