"""Old runs go with their events and logs; what assets, partitions and checks show stays."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import dagster as dg
import pytest

from tests.dagster.projects import write_project
from tidegate.dagster import load_definitions
from tidegate.dagster.jobs.purge import Purged, purge
from tidegate.project.jobs.maintenance import RunRetention

pytestmark = pytest.mark.medium

DAYS = dg.StaticPartitionsDefinition(["mon", "tue"])
RETENTION = RunRetention.model_validate({"keep": "30 days", "keep_failed": "90 days"})


@dg.asset
def orders() -> None:
    """Without partitions."""


@dg.asset_check(asset=orders)
def adds_up() -> dg.AssetCheckResult:
    return dg.AssetCheckResult(passed=True)


@dg.asset(partitions_def=DAYS)
def daily() -> None:
    """One partition a day."""


@dg.asset
def broken() -> None:
    raise dg.Failure("no")


@pytest.fixture
def instance(tmp_path: Path) -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.local_temp(str(tmp_path)) as made:
        yield made


def run(instance: dg.DagsterInstance, asset: dg.AssetsDefinition, partition: str | None = None) -> str:
    done = dg.materialize([asset], instance=instance, partition_key=partition, raise_on_error=False)
    return done.run_id


def later(days: float) -> datetime:
    return datetime.now(UTC) + timedelta(days=days)


def ids(instance: dg.DagsterInstance) -> set[str]:
    return {run.run_id for run in instance.get_runs()}


def test_old_runs_go_and_what_assets_partitions_and_checks_show_stays(instance: dg.DagsterInstance) -> None:
    first, second = run(instance, orders), run(instance, orders)
    monday, again, tuesday = (run(instance, daily, day) for day in ("mon", "mon", "tue"))
    failed = run(instance, broken)
    assert purge(instance, RETENTION, later(29)) == Purged(0, 0)
    assert purge(instance, RETENTION, later(31)) == Purged(2, 3)
    assert ids(instance) == {second, again, tuesday, failed}
    assert first not in ids(instance)
    assert monday not in ids(instance)
    assert instance.get_materialized_partitions(daily.key) == {"mon", "tue"}
    newest = instance.get_latest_materialization_event(orders.key)
    assert newest is not None
    assert newest.run_id == second
    # The same again finds nothing more; a failed run stays longer.
    assert purge(instance, RETENTION, later(31)) == Purged(0, 3)
    assert purge(instance, RETENTION, later(91)) == Purged(1, 3)
    assert failed not in ids(instance)


def test_a_run_stays_for_the_check_that_only_it_has_evaluated(instance: dg.DagsterInstance) -> None:
    checked = dg.materialize([orders, adds_up], instance=instance).run_id
    again = run(instance, orders)
    assert purge(instance, RETENTION, later(31)) == Purged(0, 2)
    assert ids(instance) == {checked, again}


def test_runs_of_another_code_location_and_those_that_have_not_ended_are_left_alone(
    instance: dg.DagsterInstance,
) -> None:
    run(instance, orders)
    run(instance, orders)
    going_on = dg.DagsterRun("live", run_id=str(uuid.uuid4()), status=dg.DagsterRunStatus.STARTED)
    instance.add_run(going_on)
    assert purge(instance, RETENTION, later(400), location="another") == Purged(0, 0)
    assert purge(instance, RETENTION, later(400)).deleted == 1
    assert len(ids(instance)) == 2


def test_the_job_and_its_schedule_come_with_maintenance_yaml_and_run(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    root = write_project(tmp_path / "shop")
    assert "tidegate_purge" not in load_definitions(root).get_repository_def().job_names
    (root / "jobs").mkdir()
    (root / "jobs" / "maintenance.yaml").write_text("runs: {keep: 1 day, timezone: Europe/Berlin}")
    repository = load_definitions(root).get_repository_def()
    schedule = repository.get_schedule_def("tidegate_purge_schedule")
    assert (schedule.cron_schedule, schedule.execution_timezone) == ("45 3 * * *", "Europe/Berlin")
    done = repository.get_job("tidegate_purge").execute_in_process(instance=instance)
    assert done.success
