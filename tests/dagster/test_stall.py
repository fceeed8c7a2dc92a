"""The sensor and check `watermark_stall` over stored metadata: verdicts, cursor, alerts; failed runs. No JVM."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import dagster as dg
import pytest
from typer.testing import CliRunner

from tests.dagster.projects import write_project
from tests.dagster.test_sensor import commit
from tidegate.alerts import Message
from tidegate.cli.main import app
from tidegate.dagster import load_definitions
from tidegate.dagster.sensors.failures import failure_sensor
from tidegate.dagster.sensors.stall import stall_sensor
from tidegate.project import Project
from tidegate.project.jobs.alerts import Target
from tidegate.store.writers import LiveRecord, OverdueGroup, recorded

pytestmark = pytest.mark.medium

JOBS = """
thresholds: [{source: orders, behind_newest: 30 minutes}]
alerts:
  targets: [{name: team, url: "${TIDEGATE_ALERT_URL}"}]
  routes: [{to: [team], settle: 1 minute}]
"""
NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
KEYS = {n: dg.AssetKey(n) for n in ("orders", "orders_hourly", "notes", "notes_daily")}


class Team:
    """In the place of apprise."""

    def __init__(self) -> None:
        self.got: list[Message] = []
        self.problem: str | None = None

    def __call__(self, target: Target, message: Message) -> str | None:
        if self.problem is None:
            self.got.append(message)
        return self.problem


def ticks(
    sensor: dg.SensorDefinition, instance: dg.DagsterInstance, cursor: str | None = None
) -> dg.SensorResult:
    result = sensor(dg.build_sensor_context(instance=instance, cursor=cursor))
    assert isinstance(result, dg.SensorResult)
    return result


def stall(root: Path, team: Team, cursor: str | None = None, after: float = 0) -> dg.SensorResult:
    now = NOW + timedelta(seconds=after)
    sensor = stall_sensor(Project.load(root), KEYS, "tidegate", team, lambda: now)
    with dg.DagsterInstance.ephemeral() as instance:
        return ticks(sensor, instance, cursor)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return write_project(tmp_path / "shop", JOBS)


def test_causes_are_a_table_of_the_check_and_go_to_the_team_once(root: Path) -> None:
    commit(root, 1, berlin="11:30", paris="10:40")
    team = Team()
    first = stall(root, team)
    events = {e.asset_key.to_user_string(): e for e in first.asset_events}
    assert (events["orders"].check_name, events["orders"].passed) == ("watermark_stall", False)
    causes = [r.data for r in events["orders"].metadata["causes"].records]
    assert causes[0]["cause"] == "lagging"
    assert causes[0]["waits"] == "orders_hourly: window_end 2026-03-01 11:00:00"
    assert causes[0]["what to do"] == "check the partition that holds it back: paris"
    [behind] = [r.data for r in events["orders_hourly"].metadata["causes"].records]
    assert behind["cause"] == "view_behind"
    assert behind["waits"] == "orders_hourly: window_end up to 2026-03-01 10:30:00"
    assert "WARNING lagging: orders: watermark" in first.skip_reason.skip_message
    assert (
        "alert: team: tidegate shop/local: 2 problems: orders, orders_hourly"
        in first.skip_reason.skip_message
    )
    again = stall(root, team, first.cursor, 60)
    assert (again.asset_events, len(team.got)) == ([], 1)
    commit(root, 2, berlin="11:35", paris="11:30")
    better = stall(root, team, again.cursor, 120)
    assert [(e.asset_key.to_user_string(), e.passed) for e in better.asset_events] == [("orders", True)]
    over = stall(root, team, better.cursor, 180)
    assert "OVER lagging: orders, from" in team.got[-1].body
    assert json.loads(over.cursor)["alerts"]["outbox"] == []


def test_a_group_of_live_mode_that_hangs_fails_the_check_of_its_source_and_goes_to_the_team(
    root: Path,
) -> None:
    commit(root, 1, berlin="11:35", paris="11:30")
    team, hangs = Team(), (OverdueGroup("orders", NOW.timestamp() - 600, members=("orders",)),)
    with recorded(root / ".tidegate", "local", LiveRecord(1.0, 1.0, ("orders",), overdue=hangs)) as file:
        first = stall(root, team)
        file.change(overdue=())
        again = stall(root, team, first.cursor, 120)
    events = {e.asset_key.to_user_string(): e for e in first.asset_events}
    assert (events["orders"].passed, events["orders"].severity) == (False, dg.AssetCheckSeverity.ERROR)
    assert "live_overdue" in [r.data["cause"] for r in events["orders"].metadata["causes"].records]
    assert 'the group "orders" is overdue: its last tick ended at 2026-03-01 11:50:00 UTC' in team.got[0].body
    assert [(e.asset_key.to_user_string(), e.passed) for e in again.asset_events] == [("orders", True)]
    assert "live_overdue" in team.got[1].body


def test_a_materialization_asks_for_a_new_evaluation_once(root: Path) -> None:
    """Dagster shows no evaluation that is older than it: a warning that still holds would be gone."""
    commit(root, 1, berlin="11:30", paris="10:40")
    sensor = stall_sensor(Project.load(root), KEYS, "tidegate", Team(), lambda: NOW)
    with dg.DagsterInstance.ephemeral() as instance:
        first = ticks(sensor, instance)
        instance.report_runless_asset_event(dg.AssetMaterialization("orders"))
        second = ticks(sensor, instance, first.cursor)
        assert [(e.asset_key.to_user_string(), e.passed) for e in second.asset_events] == [("orders", False)]
        assert ticks(sensor, instance, second.cursor).asset_events == []


def test_a_target_that_is_down_gets_its_message_at_the_next_tick(root: Path) -> None:
    commit(root, 1, berlin="11:30", paris="10:40")
    team = Team()
    team.problem = "no answer"
    first = stall(root, team)
    assert (
        "alert: team: no answer; try 1 failed: tidegate shop/local: 2 problems"
        in first.skip_reason.skip_message
    )
    shown = CliRunner().invoke(app, ["--project", str(root), "alerts", "status"]).stdout
    assert "tidegate_watermark_stall, last tick 2026-03-01T12:00:00+00:00" in shown
    assert "  told: warning lagging: orders: watermark" in shown
    assert (
        "  waiting for team: tidegate shop/local: 2 problems: orders, orders_hourly (1 try, no answer)"
        in shown
    )
    team.problem = None
    second = stall(root, team, first.cursor, 60)
    assert [m.title for m in team.got] == ["tidegate shop/local: 2 problems: orders, orders_hourly"]
    assert json.loads(second.cursor)["alerts"]["outbox"] == []
    # The variable of the URL was never needed, and is nowhere.
    assert "json://" not in first.cursor + second.cursor


def test_who_can_not_look_says_so(root: Path) -> None:
    commit(root, 1, berlin="11:30", paris="10:40")
    team = Team()
    first = stall(root, team)
    metadata = root / ".tidegate" / "warehouse" / "main" / "orders" / "metadata" / "v1.metadata.json"
    whole = metadata.read_text()
    metadata.write_text(whole[:50])
    second = stall(root, team, first.cursor, 600)
    assert second.skip_reason.skip_message.startswith("ERROR unreachable: TG620: ")
    assert [m.title for m in team.got[1:]] == ["tidegate shop/local: 1 problem: shop"]
    metadata.write_text(whole)
    stall(root, team, second.cursor, 700)
    assert [m.title for m in team.got[2:]] == ["tidegate shop/local: 1 over: shop"]


def test_a_dry_run_sends_nothing_and_says_what_it_would(root: Path) -> None:
    commit(root, 1, berlin="11:30", paris="10:40")
    (root / "jobs" / "jobs.yaml").write_text(JOBS + "  dry_run: true\n")
    team = Team()
    told = stall(root, team).skip_reason.skip_message
    assert "alert: dry run, to team: tidegate shop/local: 2 problems: orders" in told
    assert team.got == []


def test_the_check_can_be_launched_by_hand_and_without_alerts_nobody_is_told(tmp_path: Path) -> None:
    root = write_project(tmp_path / "shop", "thresholds: [{source: orders, behind_newest: 30 minutes}]")
    commit(root, 1, berlin="11:30", paris="10:40")
    defs = load_definitions(root)
    assert "tidegate_run_failures" not in {s.name for s in defs.sensors}
    checks = [c for c in defs.asset_checks if c.op.name == "tidegate_watermark_stall_check"]
    result = dg.materialize(checks, selection=dg.AssetSelection.all_asset_checks())
    found = {e.asset_key.to_user_string(): e.passed for e in result.get_asset_check_evaluations()}
    # Who asks is told at once.
    assert found == {"orders": False, "orders_hourly": False, "notes": True, "notes_daily": True}
    team = Team()
    stall(root, team)
    assert team.got == []


@dg.op
def breaks(context) -> None:
    if (Path(context.run.tags["folder"]) / "broken").exists():
        raise ValueError("the disk is full\nand more")


@dg.job
def nightly() -> None:
    breaks()


def test_failed_runs_go_through_the_same_routes(root: Path, tmp_path: Path) -> None:
    team, now = Team(), [datetime.now(UTC)]
    sensor = failure_sensor(Project.load(root), KEYS, "tidegate", team, lambda: now[0])
    switch = tmp_path / "broken"

    def run(instance: dg.DagsterInstance) -> None:
        nightly.execute_in_process(instance=instance, raise_on_error=False, tags={"folder": str(tmp_path)})

    def tick(minutes: float = 1) -> list[str]:
        nonlocal cursor
        now[0] += timedelta(minutes=minutes)
        before = len(team.got)
        cursor = ticks(sensor, instance, cursor).cursor
        return [m.title.removeprefix("tidegate shop/local: ") for m in team.got[before:]]

    with dg.DagsterInstance.ephemeral() as instance:
        switch.touch()
        run(instance)
        cursor: str | None = None
        assert tick() == []  # what failed before somebody looked is history
        run(instance)
        assert tick() == ["1 problem: job nightly"]
        assert "ERROR run_failed: job nightly has failed: ValueError: the disk is full" in team.got[-1].body
        run(instance)
        assert tick() == []  # once for each job
        assert json.loads(cursor or "")["failing"]["job nightly"]["count"] == 2
        switch.unlink()
        run(instance)
        assert tick(0.5) == []
        assert tick(0.5) == ["1 over: job nightly"]
        assert tick(2) == []
