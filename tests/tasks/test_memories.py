"""Long memories beside the log: what tasks and the driver carry stays small, decisions stay (R1, S1, W4)."""

from __future__ import annotations

import os
import pickle
import random
import time
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from tests.tasks.test_gate_operator import SECOND, batch, memories, run
from tidegate.tasks.memories import SHORT, MemoryFiles, stored_in
from tidegate.watermark import GateConfig, GateState, SourceWatermark, TimeKind
from tidegate.watermark.memory import StrategyMemory

STRATEGY = SourceWatermark(
    window=500, quantile=0.95, interval=25, min_delay=0, max_delay=10**12, warm_up=((25, 60 * SECOND),)
)
CONFIG = GateConfig(TimeKind.TIMESTAMP, STRATEGY)
WARMING = SHORT // 2


def rows(count: int, first: int = 0) -> list[tuple[str, int, int]]:
    """Of two partitions by turns, out of order by up to 40 s."""
    chance = random.Random(first)
    return [("ab"[n % 2], n // 2, n + chance.randrange(40)) for n in range(first, first + count)]


def batches(
    folder: Path, cuts: list[int], states: dict[str, GateState] | None = None
) -> tuple[dict[str, GateState], list[dict], list[dict]]:
    """The rows up to the last cut in batches: (states, every batch's report, rows as written). `states`: after the
    first cut, and then only what is behind it is judged."""
    first = cuts.pop(0) if states else 0
    states = dict(states or {})
    reports, written = [], []
    for start, end in zip([first, *cuts], cuts, strict=False):
        report, found = run(folder, [batch(rows(end)[start:])], config=CONFIG, states=states)
        states |= {name: GateState.from_dict(entry["state"]) for name, entry in report["partitions"].items()}
        reports.append(report)
        written += found
    return states, reports, written


@pytest.fixture(autouse=True)
def folder(tmp_path: Path) -> Path:
    (tmp_path / "memory").mkdir()
    return tmp_path


def test_W4_decisions_are_the_same_whether_a_memory_was_put_away_or_not(tmp_path: Path) -> None:
    (tmp_path / "once" / "memory").mkdir(parents=True)
    _, _, once = batches(tmp_path / "once", [400])
    states, reports, written = batches(tmp_path, [WARMING, 200, 201, 400])

    def judged(found: list[dict]) -> list[tuple]:
        return sorted((r["_source_partition"], r["_offset"], r["_outcome"], r["_wm"]) for r in found)

    assert judged(written) == judged(once)
    assert {r["_outcome"] for r in written} == {"on_time", "late"}
    stored = [{n: "@" in p["state"]["memory"] for n, p in r["partitions"].items()} for r in reports]
    assert stored == [{"a": False, "b": False}, {"a": True, "b": True}, {"a": True}, {"a": True, "b": True}]
    assert STRATEGY.rows(states["a"].memory) == 200, "the driver knows how warm a partition is (W8)"


def test_a_task_and_its_report_do_not_grow_with_the_memory(tmp_path: Path) -> None:
    states, reports, _ = batches(tmp_path, [800])
    assert len(pickle.dumps(states)) < 600
    assert len(str(reports[0]["partitions"])) < 700


def test_R2_a_commit_removes_what_nobody_needs_and_leaves_what_the_last_one_needs(tmp_path: Path) -> None:
    files = memories(tmp_path)
    before, _, _ = batches(tmp_path, [200])
    one, _, _ = batches(tmp_path, [200, 201], before)  # a row of "a"
    both, _, _ = batches(tmp_path, [201, 203], one)

    def left() -> set[str]:
        return {p.name for p in (tmp_path / "memory").iterdir()}

    def sizes(states: dict[str, GateState]) -> dict[str, int]:
        return {
            name: len(files.reader().recall(name, state).memory.numbers) for name, state in states.items()
        }

    files.forget(before.values(), one.values())
    assert left() == stored_in([*one.values(), *both.values()]), '"b" still needs the first file'
    assert sizes(one) == {"a": 101 + 5, "b": 100 + 5}
    for _ in range(2):  # the second time somebody was faster
        files.forget(one.values(), both.values())
        assert left() == stored_in(both.values())
    assert sizes(both) == {"a": 102 + 5, "b": 101 + 5}


def test_R2_what_a_broken_batch_left_goes_after_a_day(tmp_path: Path) -> None:
    files = memories(tmp_path)
    states, _, _ = batches(tmp_path, [200])
    batches(tmp_path, [150])  # never committed
    old = time.time() - 25 * 3600

    def left(at: float) -> int:
        for path in (tmp_path / "memory").iterdir():
            os.utime(path, (at, at))
        files.remove_orphans(states.values(), datetime.now(UTC))
        return len(list((tmp_path / "memory").iterdir()))

    assert (left(time.time()), left(old)) == (2, 1)
    assert files.reader().recall("a", states["a"]).memory.head[1] == 100
    assert isinstance(pickle.loads(pickle.dumps(files)), MemoryFiles)


def test_a_task_opens_a_file_of_memories_once_however_many_of_its_partitions_it_meets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    states = {f"p{n}": GateState(memory=StrategyMemory(np.arange(n, n + SHORT + 1))) for n in range(100)}
    files = memories(tmp_path)
    expected = {name: state.memory.numbers.tolist() for name, state in states.items()}
    files.put_away(states)
    opened, real = [], pq.ParquetFile
    monkeypatch.setattr(pq, "ParquetFile", lambda *args, **named: opened.append(args) or real(*args, **named))
    reader = files.reader()
    assert {n: reader.recall(n, s).memory.numbers.tolist() for n, s in states.items()} == expected
    assert len(opened) == 1
    with pytest.raises(ValueError, match="no memory of partition other"):
        reader.recall("other", states["p0"])
