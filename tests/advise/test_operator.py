"""The measuring operator on Arrow batches, against plain Python: every delay at once, however rows are cut."""

from __future__ import annotations

import json
from collections import defaultdict
from random import Random

import numpy as np
import pyarrow as pa
import pytest

from tests.advise.rows import Batch, late_rows, late_together
from tests.oracles.strategies import SourceWatermark as PlainSourceWatermark
from tidegate.advise.curve import Curve
from tidegate.advise.operator import BLOCK_BITS, EpochHistory, MeasureTask
from tidegate.sql.options.gate_options import GateOptions
from tidegate.watermark import UNDEFINED, GateConfig, TimeKind

POINTS = np.arange(0, 200, dtype=np.int64)
KIND = TimeKind.TIMESTAMP


def facts(batches: list[Batch]) -> EpochHistory:
    """Of batches in which every partition takes part from the beginning: G follows from the rows alone, and only
    `newest` says anything."""
    epochs = np.arange(1, len(batches) + 1, dtype=np.int64)
    nothing = np.full(len(batches), UNDEFINED, dtype=np.int64)
    newest, found = UNDEFINED, []
    for batch in batches:
        newest = max([newest, *(t for _, t in batch.rows)])
        found.append(newest)
    return EpochHistory(epochs + 1, nothing, nothing, np.array(found, dtype=np.int64), np.zeros_like(epochs))


def arrow(batches: list[Batch], cuts: int) -> list[pa.RecordBatch]:
    """The rows as Spark would hand them over: by partition and offset, `cuts` to a batch."""
    by_partition: dict[str, list[tuple]] = defaultdict(list)
    for epoch, batch in enumerate(batches, start=1):
        for partition, time in batch.rows:
            rows = by_partition[partition]
            rows.append((partition, epoch, len(rows), time, batch.clock, False))
    ordered = [row for partition in sorted(by_partition) for row in by_partition[partition]]
    columns = [list(c) for c in zip(*ordered, strict=True)]
    whole = pa.table(dict(zip(("p", "e", "o", "t", "a", "late"), columns, strict=True)))
    return whole.to_batches(max_chunksize=cuts)


def report(task: MeasureTask, batches: list[pa.RecordBatch]) -> dict:
    (answer,) = task(iter(batches))
    return json.loads(answer.column("report")[0].as_py())


def curve(counts: dict[str, int], rows: int) -> Curve:
    return Curve.of({int(POINTS[int(i)]): n for i, n in counts.items() if int(i) < len(POINTS)}, rows)


def random_log(random: Random, batches: int = 4, spread: int = 60) -> list[Batch]:
    now, found = 0, []
    for number in range(batches):
        rows = []
        for _ in range(random.randrange(1, 60)):
            now += random.randrange(4)
            rows.append((random.choice("abc"), now - random.choice((0, 0, 0, random.randrange(spread)))))
        clock = max(t for _, t in rows) - random.randrange(20)
        found.append(Batch(rows, starts=set("abc") if number == 0 else set(), clock=clock))
    return found


@pytest.mark.medium
@pytest.mark.parametrize("options", [{}, {"skew": 5}, {"by_batch": True}, {"skew": 5, "by_batch": True}])
def test_W1_every_delay_at_once_equals_running_each_of_them(options: dict) -> None:
    random = Random(str(options))
    for _ in range(40):
        batches = random_log(random)
        total = sum(len(b.rows) for b in batches)
        task = MeasureTask(
            POINTS,
            facts(batches),
            False,
            options.get("skew"),
            options.get("by_batch", False),
            None,
            {},
        )
        found = report(task, arrow(batches, random.choice((1, 3, 7, 1000))))
        measured = curve(found["behind"], total)
        for delay in (0, 1, 2, 5, 13, 40, 100):
            assert total - measured.on_time(delay) == late_rows(batches, delay, **options)
        assert sum(p["rows"] for p in found["partitions"].values()) == total


def test_one_watermark_for_all_is_never_better_than_one_for_each() -> None:
    random = Random(7)
    for _ in range(20):
        batches = random_log(random)
        total = sum(len(b.rows) for b in batches)
        task = MeasureTask(POINTS, facts(batches), False, None, False, None, {})
        found = report(task, arrow(batches, 11))
        own, together = curve(found["behind"], total), curve(found["together"], total)
        for delay in (0, 3, 20, 80):
            assert total - together.on_time(delay) == late_together(batches, delay)
            assert together.on_time(delay) <= own.on_time(delay)


def test_one_watermark_for_all_in_the_order_of_writing_where_that_is_known() -> None:
    # b stands at 100 when a begins anew at 50: late under one watermark for both, on time under its own.
    table = pa.table(
        {
            "p": ["a", "a", "a", "b"],
            "e": [1] * 4,
            "o": [0, 1, 2, 0],
            "t": [40, 50, 120, 100],
            "a": [0] * 4,
            "late": [False] * 4,
            "k": pa.array([0, 2, None, 1], pa.int64()),
        }
    )
    written = np.maximum.accumulate(np.array([UNDEFINED, 40, 100, 50]))
    task = MeasureTask(POINTS, facts([Batch([("a", 1)])]), False, None, False, None, {}, written)
    found = report(task, table.to_batches(max_chunksize=2))
    assert found["behind"] == {"0": 4}
    assert found["together"] == {"0": 3, "50": 1}


def test_W9_a_reset_begins_anew_and_its_watermark_holds_under_every_delay() -> None:
    first, then = [("a", t) for t in (10, 1000, 20)], [("a", t) for t in (30, 50, 39, 70, 55)]
    batches = [Batch(first, starts={"a"}), Batch([], reset=40), Batch(then)]
    epochs = np.array([1, 2, 3])
    known = EpochHistory(
        epochs + 1,
        np.array([1000, UNDEFINED, UNDEFINED]),
        np.array([UNDEFINED, 40, 40]),
        np.array([1000, UNDEFINED, 70]),
        np.array([0, 1, 1]),
    )
    task = MeasureTask(POINTS, known, False, None, False, None, {})
    found = report(task, arrow(batches, 2))
    measured = curve(found["behind"], 8)
    for delay in (0, 5, 15, 100):
        assert 8 - measured.on_time(delay) == late_rows(batches, delay)
    assert found["partitions"]["a"]["never"] == 2  # 30 and 39, below 40 whatever the delay is


def test_arrival_minus_event_time_and_rows_ahead_of_the_clock() -> None:
    rows = [Batch([("a", 10), ("a", 30), ("a", 90)], starts={"a"}, clock=50)]
    found = report(MeasureTask(POINTS, facts(rows), False, None, False, None, {}), arrow(rows, 10))
    assert (found["lag"], found["ahead"]) == ({"20": 1, "40": 1}, 1)
    assert found["partitions"]["a"]["lag"][0] == 20


def test_S1_to_S4_SOURCE_WATERMARK_is_judged_as_it_would_have_been() -> None:
    random, now, times = Random(3), 0, []
    for _ in range(3000):
        now += random.randrange(200)
        times.append(now - (random.randrange(20_000) if random.random() < 0.3 else 0))
    plain, watermark, late = PlainSourceWatermark(), None, 0
    for time in times:
        value = plain.see(time)
        if watermark is not None and time < watermark:
            late += 1
        else:
            watermark = value if watermark is None else max(watermark, value)
    strategy = GateOptions().source_watermark(KIND)
    batches = [Batch([("a", t * 1000) for t in times], starts={"a"})]
    task = MeasureTask(POINTS, facts(batches), False, None, False, GateConfig(KIND, strategy), {"a": 500})
    found = report(task, arrow(batches, 1000))["partitions"]["a"]
    assert (found["learned_rows"], found["learned_late"]) == (3000, late)
    assert late > 0
    offsets, epochs, delays = zip(*found["trace"], strict=True)
    assert (offsets, set(epochs)) == ((499, 999, 1499, 1999, 2499, 2999), {1})
    assert delays[-1] == plain.delay() * 1000, "what the next row would get"
    assert delays[0] > delays[-1], "its warm-up adds a margin"


def test_S1_to_S4_in_a_sampled_block_are_what_they_are_in_the_partition_once_it_has_rows_of_its_own() -> None:
    random, block = Random(9), 1 << BLOCK_BITS
    times = [10_000 + 5 * n - random.choice((0, 0, random.randrange(4000))) for n in range(2000)]
    strategy = GateOptions(window=300, interval=50).source_watermark(KIND)
    learning = GateConfig(KIND, strategy)
    whole = {"p": ["a"] * 2000, "e": [1] * 2000, "t": times, "a": [0] * 2000, "late": [False] * 2000}
    whole["o"] = list(range(block - 1000, block + 1000))
    known = facts([Batch([("a", max(times))])])
    full = report(
        MeasureTask(POINTS, known, False, None, False, learning, {"a": 100}),
        pa.table(whole).to_batches(max_chunksize=100),
    )["partitions"]["a"]
    part = {name: values[1000:] for name, values in whole.items()}
    part |= {"prior": [max(times[:1000])] * 1000, "before": [1000] * 1000}
    sampled = report(
        MeasureTask(POINTS, known, True, None, False, learning, {"a": 100}),
        pa.table(part).to_batches(max_chunksize=100),
    )["partitions"]["a"]
    # Of its first 300 rows it knows less than the partition does, and says nothing.
    assert sampled["learned_rows"] == 700
    assert sampled["trace"] == full["trace"][-7:]


def test_a_sampled_block_is_judged_against_all_rows_before_it() -> None:
    block = 1 << BLOCK_BITS
    rows = [(0, 100), (1, 40), (block, 90), (block + 1, 120), (3 * block, 119), (3 * block + 1, 170)]
    table = pa.table(
        {
            "p": ["a"] * 6,
            "e": [1] * 6,
            "o": [o for o, _ in rows],
            "t": [t for _, t in rows],
            "a": pa.array([None] * 6, pa.int64()),
            "late": [False] * 6,
            # The newest of the rows before, those that are not here included.
            "prior": pa.array([None, None, 100, 100, 150, 150], pa.int64()),
            "before": [0, 0, 2, 2, 9, 9],
        }
    )
    known = facts([Batch([("a", 170)])])
    for cuts in (1, 2, 4, 10):
        task = MeasureTask(POINTS, known, True, None, False, None, {})
        found = report(task, table.to_batches(max_chunksize=cuts))
        assert found["behind"] == {"0": 3, "10": 1, "31": 1, "60": 1}


def test_partitions_are_told_apart_and_kept_whole() -> None:
    batches = [Batch([("a", 10), ("b", 5), ("a", 7), ("b", 9), ("c", 1)], starts=set("abc"))]
    found = report(MeasureTask(POINTS, facts(batches), False, None, False, None, {}), arrow(batches, 2))
    by_name = {n: (p["rows"], p["behind"][-1]) for n, p in found["partitions"].items()}
    assert by_name == {"a": (2, 3), "b": (2, 0), "c": (1, 0)}
    assert found["behind"] == {"0": 4, "3": 1}


def test_nothing_is_an_empty_report() -> None:
    task = MeasureTask(POINTS, facts([Batch([("a", 1)])]), False, None, False, None, {})
    assert report(task, [])["partitions"] == {}
