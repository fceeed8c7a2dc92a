"""Which partitions take part, and from where they start (W6, R3); without Spark."""

from __future__ import annotations

from tidegate.iceberg.progress import UNKNOWN_PARTITION, LogProgress
from tidegate.watermark import GateState


def test_W6_g_waits_for_every_enumerated_partition() -> None:
    progress = LogProgress()
    progress.enumerate(["a", "b", UNKNOWN_PARTITION])
    assert set(progress.states) == {"a", "b"}
    first = progress.after(1, {"a": GateState(watermark=50, on_time=1)})
    assert first.published is None
    second = first.after(2, {"b": GateState(watermark=30, on_time=1)})
    assert second.published == 30
    assert second.after(3, {"b": GateState(watermark=90, on_time=2)}).published == 50


def test_W6_a_partition_without_a_row_takes_no_part_once_nothing_waits() -> None:
    progress = LogProgress()
    progress.enumerate(["a", "empty"])
    assert progress.after(1, {"a": GateState(watermark=50, on_time=1)}, last=True).published == 50


def test_R3_a_partition_whose_first_row_comes_later_starts_at_g() -> None:
    progress = LogProgress()
    progress.enumerate(["a", "empty"])
    published = progress.after(1, {"a": GateState(watermark=50, on_time=1)}, last=True)
    published.enumerate(["a", "empty", "new"])
    assert {name: s.watermark for name, s in published.states.items()} == {"a": 50, "empty": 50, "new": 50}


def test_W6_rows_that_cannot_be_read_have_no_say() -> None:
    judged = {"a": GateState(watermark=50, on_time=1), UNKNOWN_PARTITION: GateState(rejected=1)}
    after = LogProgress().after(1, judged)
    assert after.published == 50
    assert after.totals() == {"on_time": 1, "late": 0, "rejected": 1}
