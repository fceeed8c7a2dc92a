"""Sensors of live runs: what is kept running and what is left alone, and what runs elsewhere. Time is injected."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import dagster as dg
import pytest

from tests.dagster.projects import write_project
from tests.dagster.test_sensor import commit
from tidegate.dagster import load_definitions
from tidegate.dagster.sensors.live import keeper_sensor
from tidegate.project import Project

LIVE = "live: [{name: shop, select: [orders], enabled: true, keep_runs: 1 hour}]"
JOB = "tidegate_live_shop"
Tick = Callable[..., "tuple[int, str]"]


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.ephemeral() as ephemeral:
        yield ephemeral


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return write_project(tmp_path / "shop", LIVE)


@pytest.fixture
def tick(root: Path, instance: dg.DagsterInstance) -> Tick:
    """One evaluation so many seconds from now: (runs that it asks for, why there are none)."""
    job = load_definitions(root).resolve_job_def(JOB)
    live = Project.load(root).jobs().live

    def evaluate(seconds: float = 0.0) -> tuple[int, str]:
        sensor = keeper_sensor(
            live, [job], "tidegate", lambda: datetime.now(UTC) + timedelta(seconds=seconds)
        )
        result = sensor(dg.build_sensor_context(instance=instance))
        assert isinstance(result, dg.SensorResult)
        requests = result.run_requests or []
        assert {request.job_name for request in requests} <= {JOB}
        return len(requests), result.skip_reason.skip_message if result.skip_reason else ""

    return evaluate


def ended(root: Path, instance: dg.DagsterInstance, status: dg.DagsterRunStatus) -> dg.DagsterRun:
    job = load_definitions(root).resolve_job_def(JOB)
    return instance.create_run_for_job(job, status=status)


def test_it_starts_the_first_run_and_not_a_second(
    root: Path, instance: dg.DagsterInstance, tick: Tick
) -> None:
    assert tick() == (1, "")
    for status in (dg.DagsterRunStatus.STARTING, dg.DagsterRunStatus.STARTED, dg.DagsterRunStatus.CANCELING):
        run = ended(root, instance, status)
        assert tick(10_000) == (0, "shop: running")
        instance.delete_run(run.run_id)


def test_a_run_that_ended_in_order_is_followed_by_the_next(
    root: Path, instance: dg.DagsterInstance, tick: Tick
) -> None:
    ended(root, instance, dg.DagsterRunStatus.SUCCESS)
    assert tick() == (1, "")


def test_a_run_that_was_terminated_is_left_alone(
    root: Path, instance: dg.DagsterInstance, tick: Tick
) -> None:
    run = ended(root, instance, dg.DagsterRunStatus.CANCELED)
    assert tick(100_000) == (0, f"shop: run {run.run_id} was terminated; launch {JOB} to continue")


def test_after_failures_the_pause_doubles(root: Path, instance: dg.DagsterInstance, tick: Tick) -> None:
    for failures, pause in ((1, 30), (2, 60), (3, 120)):
        ended(root, instance, dg.DagsterRunStatus.FAILURE)
        count, why = tick(pause - 20)
        assert (count, why.startswith(f"shop: failed {failures} times in a row, next try in ")) == (0, True)
        assert tick(pause) == (1, "")
    # A run that went well in between begins anew.
    ended(root, instance, dg.DagsterRunStatus.SUCCESS)
    ended(root, instance, dg.DagsterRunStatus.FAILURE)
    assert tick(30) == (1, "")


def test_old_runs_that_ended_in_order_are_deleted_and_failures_kept(
    root: Path, instance: dg.DagsterInstance, tick: Tick
) -> None:
    old = ended(root, instance, dg.DagsterRunStatus.SUCCESS)
    failed = ended(root, instance, dg.DagsterRunStatus.FAILURE)
    going_on = ended(root, instance, dg.DagsterRunStatus.STARTED)
    tick(1_800)
    assert {r.run_id for r in instance.get_runs()} == {old.run_id, failed.run_id, going_on.run_id}
    tick(3_700)
    assert {r.run_id for r in instance.get_runs()} == {failed.run_id, going_on.run_id}


def test_what_is_not_enabled_is_not_started(root: Path, instance: dg.DagsterInstance) -> None:
    (root / "jobs" / "jobs.yaml").write_text(LIVE.replace("true", "false"))
    [keeper] = [s for s in load_definitions(root).sensors if s.name == "tidegate_live_keeper"]
    assert keeper.default_status == dg.DefaultSensorStatus.STOPPED
    result = keeper(dg.build_sensor_context(instance=instance))
    assert (result.run_requests, result.skip_reason.skip_message) == ([], "shop: not enabled")


@pytest.mark.medium
def test_W6_what_runs_elsewhere_is_recorded_from_its_tables(tmp_path: Path) -> None:
    root = write_project(tmp_path / "shop", "live: [{name: theirs, select: [orders], started_by: outside}]")

    def look(cursor: str | None = None) -> dg.SensorResult:
        defs = load_definitions(root)
        assert "tidegate_live_theirs" not in {job.name for job in defs.jobs}
        [observer] = [s for s in defs.sensors if s.name == "tidegate_live_observer"]
        with dg.DagsterInstance.ephemeral() as instance:
            result = observer(dg.build_sensor_context(instance=instance, cursor=cursor))
        assert isinstance(result, dg.SensorResult)
        return result

    assert look().asset_events == []
    commit(root, 1, berlin="11:30", paris="10:40")
    first = look()
    [event] = first.asset_events
    assert (type(event), event.asset_key) == (dg.AssetMaterialization, dg.AssetKey("orders"))
    facts = {k: event.metadata[k].value for k in ("watermark", "rows", "on time", "late", "rejected")}
    assert facts == {"watermark": "2026-03-01 10:30:00", "rows": 6, "on time": 6, "late": 0, "rejected": 0}
    assert [r.data["partition"] for r in event.metadata["partitions"].records] == ["paris", "berlin"]
    again = look(first.cursor)
    assert (again.asset_events, again.skip_reason.skip_message) == ([], "0 of 2 assets have new commits")
    commit(root, 2, berlin="11:35", paris="11:30")
    [event] = look(again.cursor).asset_events
    assert (type(event), event.metadata["rows since the last report"].value) == (dg.AssetObservation, 0)
