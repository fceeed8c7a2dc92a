"""Which partitions take part, and from where they start (W6, R3); without Spark."""

from __future__ import annotations

from tidegate.iceberg.partitions import Decisions, Sighting
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


def test_W7_an_idle_partition_leaves_the_minimum_and_wakes_at_the_later_of_Wp_and_G() -> None:
    states = {
        name: GateState(watermark=mark, on_time=1) for name, mark in (("a", 50), ("slow", 30), ("fast", 90))
    }
    progress = LogProgress(published=30, states=states, sightings={name: Sighting() for name in states})
    idle = progress.after(2, {}, decisions=Decisions(idle=("slow", "fast")))
    assert idle.published == 50
    assert {name for name, seen in idle.sightings.items() if seen.absent == "idle"} == {"slow", "fast"}
    # All are idle: G holds.
    assert progress.after(2, {}, decisions=Decisions(idle=("a", "slow", "fast"))).published == 30
    idle.prepare(Decisions(until={"slow": 2, "fast": 2}))
    assert {name: state.watermark for name, state in idle.states.items()} == {"a": 50, "slow": 50, "fast": 90}


def test_W9_a_reset_takes_all_marks_back_and_none_forward() -> None:
    states = {
        "poisoned": GateState(watermark=900, max_event_time=950, on_time=2),
        "behind": GateState(watermark=40, max_event_time=45, on_time=2),
        "new": GateState(),
    }
    reset = LogProgress(epoch=6, published=900, states=states).reset(100, {}, {})
    assert (reset.epoch, reset.published) == (7, 100)
    found = {name: (state.watermark, state.max_event_time) for name, state in reset.states.items()}
    assert found == {"poisoned": (100, 100), "behind": (40, 45), "new": (None, None)}
    assert LogProgress(published=60).reset(100, {}, {}).published == 60
