"""Windows over preceding rows as an operator, without Spark: partitions, rejected rows, cuts, and the gate after it."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from tests.tasks.test_gate_operator import SECOND, batch, memories, run
from tidegate.tasks.preceding import PrecedingTask, argument_column
from tidegate.watermark import Expression, GateConfig, GateState, PrecedingRows, TimeKind, preceding_column

WINDOW = PrecedingRows("max", "ts", 2, 0, "timestamp_ntz", "timestamp_ntz")
#: (partition, offset, seconds or None)
ROWS = [
    ("a", 0, 10),
    ("b", 0, 500),
    ("a", 1, 90),
    ("a", 2, None),
    ("a", 3, 20),
    ("b", 1, 400),
    ("a", 4, 30),
    ("a", 5, 25),
]
LARGEST = [10, 500, 90, None, 90, 500, 90, 30]


def with_argument(rows: list[tuple]) -> pa.RecordBatch:
    made = batch(rows)
    return pa.RecordBatch.from_arrays(
        [*made.columns, made.column("ts")], [*made.schema.names, argument_column(0)]
    )


def seconds(column: pa.Array) -> list[int | None]:
    return [None if v is None else v // SECOND for v in column.cast(pa.int64()).to_pylist()]


@pytest.mark.parametrize("size", [1, 3, 8])
def test_W11_W4_frames_are_of_one_partition_and_skip_rejected_rows(size: int, tmp_path: Path) -> None:
    task = PrecedingTask((WINDOW,), {}, memories(tmp_path), numbering=False, drop_repeats=False)
    out = list(task(with_argument(ROWS[i : i + size]) for i in range(0, len(ROWS), size)))
    assert [v for b in out for v in seconds(b.column(preceding_column(0)))] == LARGEST
    # The rows themselves are as they were, and where they were.
    assert [o for b in out for o in b.column("_offset").to_pylist()] == [offset for _, offset, _ in ROWS]


def test_W2_a_repeated_offset_is_rejected_here_as_in_the_gate(tmp_path: Path) -> None:
    task = PrecedingTask((WINDOW,), {}, memories(tmp_path), numbering=False, drop_repeats=True)
    (out,) = task([with_argument([("a", 0, 10), ("a", 0, 99), ("a", 1, 5)])])
    assert seconds(out.column(preceding_column(0))) == [10, None, 10]


def test_R1_the_gate_commits_what_the_next_batchs_windows_begin_with(tmp_path: Path) -> None:
    config = GateConfig(TimeKind.TIMESTAMP, Expression("…", (WINDOW,)))
    made = with_argument(ROWS[:4])
    values = pa.RecordBatch.from_arrays([*made.columns, made.column("ts")], [*made.schema.names, "_strategy"])
    report, written = run(tmp_path, [values], config=config, has_strategy=True)
    assert argument_column(0) not in written[0]
    states = {name: GateState.from_dict(entry["state"]) for name, entry in report["partitions"].items()}
    task = PrecedingTask((WINDOW,), states, memories(tmp_path), numbering=False, drop_repeats=False)
    (out,) = task([with_argument(ROWS[4:])])
    assert seconds(out.column(preceding_column(0))) == LARGEST[4:]
