"""Metrics: what Prometheus reads, from committed state and from events."""

from __future__ import annotations

from dataclasses import replace

from tests.live.made import HEALTH, NOON, STATUS, Bench, partition
from tidegate.errors import TidegateError
from tidegate.live.committed_metrics import unix_seconds
from tidegate.live.metrics import Metrics
from tidegate.plan import events


def test_W8_partitions_as_gauges() -> None:
    found = Bench().samples()
    assert found["tidegate_partition_watermark_seconds", ("clicks", "0")] == NOON
    assert found["tidegate_partition_watermark_seconds", ("clicks", "1")] == NOON + 30
    assert found["tidegate_partition_newest_event_seconds", ("clicks", "1")] == NOON + 35
    assert found["tidegate_partition_event_time_lag_seconds", ("clicks", "0")] == 100
    # Where there are no end offsets there is no lag, and not one of 0.
    assert found["tidegate_partition_lag_rows", ("clicks", "0")] == 10
    assert ("tidegate_partition_lag_rows", ("clicks", "1")) not in found
    states = {labels: v for (name, labels), v in found.items() if name == "tidegate_partition_state"}
    assert states == {("clicks", "0", "warming"): 1, ("clicks", "1", "idle"): 1}


def test_W5_rows_by_outcome_and_what_views_and_sinks_have() -> None:
    found = Bench().samples()
    rows = {
        labels[1]: found["tidegate_rows_total", labels]
        for n, labels in found
        if n == "tidegate_rows_total" and labels[0] == "clicks"
    }
    assert rows == {"on_time": 160, "late": 18, "rejected": 2}
    assert found["tidegate_source_batches_total", ("clicks",)] == 4
    assert found["tidegate_source_watermark_seconds", ("clicks",)] == NOON
    assert found["tidegate_view_frontier_seconds", ("per_minute",)] == NOON - 60
    assert found["tidegate_view_behind_seconds", ("per_minute",)] == 60
    assert found["tidegate_view_rows_total", ("per_minute",)] == 12
    assert found["tidegate_sink_rows_total", ("out",)] == 10
    assert found["tidegate_sink_waiting_rows", ("out",)] == 2
    # Nobody knows the unit of an integer time.
    assert ("tidegate_source_watermark_seconds", ("ids",)) not in found


def test_events_become_histograms_and_counters() -> None:
    bench = Bench()
    notify = bench.metrics
    notify.expect("clicks")
    notify("clicks", events.WorkerSpawned("clicks", 7, 0))
    notify("clicks", events.BatchCommitted("clicks", 1, 5, 0, 0, 5, "", 0.4, 0.06))
    notify("clicks", events.SliceCommitted("per_minute", "", 3, 0, 0.2, 0.03))
    notify("clicks", events.SinkDelivered("out", "kafka", 3, 0.1))
    notify("clicks", events.TickFinished("clicks", 1, 5, True, 0.7, 0.09, bytes=640))
    notify("clicks", events.MemberFailed("clicks", "per_minute", "view", "TG507", "no", 1, 1.0))
    notify("clicks", events.WorkerFailed("clicks", None, "boom", None, True))
    notify("clicks", "text that a worker printed")
    found = bench.samples()
    assert found["tidegate_batch_seconds_sum", ("clicks",)] == 0.4
    assert found["tidegate_batch_seconds_bucket", ("clicks", "0.25")] == 0
    assert found["tidegate_batch_seconds_bucket", ("clicks", "0.5")] == 1
    assert found["tidegate_commit_seconds_count", ("per_minute",)] == 1
    assert found["tidegate_view_tick_seconds_sum", ("per_minute",)] == 0.2
    assert found["tidegate_sink_delivery_seconds_sum", ("out",)] == 0.1
    assert found["tidegate_tick_seconds_sum", ("clicks",)] == 0.7
    assert found["tidegate_backlog", ("clicks",)] == 1
    assert found["tidegate_tick_memory_bytes", ("clicks",)] == 640
    assert found["tidegate_last_tick_timestamp_seconds", ("clicks",)] == NOON + 100
    assert found["tidegate_errors_total", ("clicks", "TG507")] == 1
    assert found["tidegate_errors_total", ("clicks", "none")] == 1
    assert found["tidegate_failing", ("clicks", "per_minute", "view")] == 1
    assert found["tidegate_worker_restarts_total", ("clicks",)] == 0
    assert found["tidegate_worker_up", ("clicks",)] == 1
    assert found["tidegate_worker_running", ("clicks",)] == 1
    notify("clicks", events.MemberRecovered("clicks", "per_minute", "view", 1))
    notify("clicks", events.WorkerSpawned("clicks", 8, 1))
    found = bench.samples()
    assert found["tidegate_failing", ("clicks", "per_minute", "view")] == 0
    # What fails as its group ends because its definition has changed does not fail for ever; what is gone has nothing.
    failed = events.MemberFailed("clicks", "per_minute", "view", "TG507", "Spark refuses", 1, 1.0)
    notify(None, events.DefinitionsLoaded(("clicks",), (), 0))
    notify("clicks", failed)
    notify("clicks", events.WorkerSpawned("clicks", 8, 0))
    assert bench.samples()["tidegate_failing", ("clicks", "per_minute", "view")] == 0
    notify(None, events.DefinitionsRefused({"code": None, "message": "Oops"}))
    assert bench.samples()["tidegate_definitions_refused", ()] == 1
    notify(None, events.DefinitionsLoaded((), ("clicks",), 0))
    notify("clicks", failed)
    notify("clicks", events.TickFinished("clicks", 2, 5, True, 0.7, 0.09))
    notify("clicks", events.WorkerExited("clicks", 0, None, "worker 8 ended"))
    left = bench.samples()
    assert left["tidegate_definitions_refused", ()] == 0
    gone = {name for name, labels in left if "clicks" in labels}
    assert not gone & {
        "tidegate_failing",
        "tidegate_backlog",
        "tidegate_last_tick_timestamp_seconds",
        "tidegate_tick_memory_bytes",
    }
    assert found["tidegate_worker_restarts_total", ("clicks",)] == 1


def test_a_worker_that_hangs_runs_and_is_not_up() -> None:
    """So says the supervisor of one whose last tick is too old; the alert about it asks for both."""
    for state, healthy in (("running", False), ("backing_off", False), ("running", True)):
        health = {"groups": {"clicks": {"state": state, "healthy": healthy}}}
        metrics = Metrics(lambda: STATUS, dict, lambda health=health: health)  # type: ignore[misc]
        found = {s.name: s.value for family in metrics.registry.collect() for s in family.samples}
        assert found["tidegate_worker_up"] == healthy
        assert found["tidegate_worker_running"] == (state == "running")


def test_the_committed_state_is_read_once_in_a_while_and_never_shown_stale() -> None:
    bench = Bench()
    bench.samples()
    bench.samples()
    assert bench.reads == 1
    bench.now = 5.0
    bench.error = TidegateError("TG620", "the catalog does not answer")
    found = bench.samples()
    assert bench.reads == 2
    assert found["tidegate_status_errors_total", ()] == 1
    assert not [name for name, _ in found if name.startswith("tidegate_partition")]
    bench.error = None
    bench.now = 10.0
    assert ("tidegate_partition_watermark_seconds", ("clicks", "0")) in bench.samples()


def test_every_metric_says_what_to_do_and_follows_the_conventions() -> None:
    for family in Bench().metrics.registry.collect():
        assert family.name.startswith("tidegate_"), family.name
        assert len(family.documentation) > 20, family.name
        assert family.documentation.endswith("."), family.name


def test_unix_seconds_of_each_kind() -> None:
    assert unix_seconds("TIMESTAMPTZ", 1_500_000) == 1.5
    assert unix_seconds("DATE", 2) == 172_800
    assert unix_seconds("EPOCH", 5) is None
    assert unix_seconds("DATE", None) is None


# -- HTTP ----------------------------------------------------------------------------------------------------------


def test_a_partition_without_a_state_or_watermark_is_left_out() -> None:
    bench = Bench()
    bare = replace(partition("0", 0, "", None), watermark=None, max_event_time=None)
    status = replace(STATUS, relations=(replace(STATUS.relations[0], partitions=(bare,)),))
    bench._read = lambda: status  # type: ignore[method-assign]
    bench.metrics = Metrics(lambda: status, dict, lambda: HEALTH)
    assert not [name for name, _ in bench.samples() if name.startswith("tidegate_partition")]
