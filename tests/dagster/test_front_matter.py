"""Front matter in Dagster, and the analyst's way: a file dropped into assets/ is an asset after a reload."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import dagster as dg
import pytest

from tests.dagster.projects import SINKS, write_project
from tidegate.cli.commands.project.init import write_template
from tidegate.dagster import load_definitions
from tidegate.errors import TidegateError

BIG = """\
-- ---
-- owners: [team:shops, ada@example.org]
-- tags: {finance: , domain: shops}
-- description: Large orders of each hour.
-- columns: {n: How many.}
-- group: reports
-- freshness: {within: 2 hours, warn: 1 hour}
-- schedule: {cron: "*/15 * * * *", timezone: Europe/Berlin}
-- ---
CREATE MATERIALIZED VIEW big_hourly AS
SELECT window_end, count(*) AS n FROM TUMBLE(orders, ordered_at, INTERVAL '1 hour') WHERE amount > 1
GROUP BY window_end EMIT ON WINDOW CLOSE;
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return write_project(tmp_path / "shop")


def specs(defs: dg.Definitions) -> dict[str, dg.AssetSpec]:
    return {s.key.to_user_string(): s for s in defs.resolve_all_asset_specs()}


def test_a_dropped_file_is_an_asset_after_a_reload_with_all_that_its_front_matter_says(root: Path) -> None:
    assert "big_hourly" not in specs(load_definitions(root))
    (root / "assets" / "big.sql").write_text(BIG)
    defs = load_definitions(root)
    dg.Definitions.validate_loadable(defs)
    spec = specs(defs)["big_hourly"]
    assert list(spec.owners) == ["team:shops", "ada@example.org"]
    assert (spec.group_name, spec.description) == ("reports", "Large orders of each hour.")
    assert spec.tags["finance"] == ""
    assert (spec.tags["domain"], spec.tags["tidegate/kind"]) == ("shops", "view")
    columns = {c.name: c.description for c in spec.metadata["dagster/column_schema"].columns}
    assert columns == {"window_end": None, "n": "How many."}
    assert spec.freshness_policy == dg.FreshnessPolicy.time_window(
        fail_window=timedelta(hours=2), warn_window=timedelta(hours=1)
    )
    assert specs(defs)["orders_hourly"].freshness_policy is None


def test_its_schedule_brings_it_up_to_date_with_what_it_reads_and_nothing_else(root: Path) -> None:
    (root / "assets" / "big.sql").write_text(BIG)
    repository = load_definitions(root).get_repository_def()
    schedule = repository.get_schedule_def("big_hourly_schedule")
    assert (schedule.cron_schedule, schedule.execution_timezone) == ("*/15 * * * *", "Europe/Berlin")
    assert schedule.default_status is dg.DefaultScheduleStatus.RUNNING
    job = repository.get_job(schedule.job_name)
    chosen = {key.to_user_string() for key in job.asset_layer.selected_asset_keys}
    assert chosen == {"orders", "big_hourly"}


def test_jobs_can_select_as_the_command_line_does(root: Path) -> None:
    (root / "assets" / "big.sql").write_text(BIG)
    (root / "jobs").mkdir()
    text = 'schedules: [{name: a, cron: "@daily", select: [tag:finance]}, {name: b, cron: "@daily", select: [orders]}]'
    (root / "jobs" / "a.yaml").write_text(text)
    repository = load_definitions(root).get_repository_def()
    chosen = {}
    for name in ("a", "b"):
        job = repository.get_job(repository.get_schedule_def(name).job_name)
        chosen[name] = {key.to_user_string() for key in job.asset_layer.selected_asset_keys}
    # A name brings along what reads it, as it always has; anything else is what it says.
    assert chosen == {"a": {"big_hourly"}, "b": {"orders", "orders_hourly", "big_hourly"}}


def test_a_mistake_in_front_matter_stops_the_code_location_with_its_place(root: Path) -> None:
    (root / "assets" / "big.sql").write_text(BIG.replace("freshness", "freshnes"))
    with pytest.raises(TidegateError) as caught:
        load_definitions(root)
    assert (caught.value.code, caught.value.hint) == ("TG604", 'did you mean "freshness"?')
    assert "assets/big.sql:7:4" in str(caught.value)


def test_what_init_writes_loads_in_dagster_with_schedules_checks_and_owners(tmp_path: Path) -> None:
    write_template(tmp_path / "new")
    defs = load_definitions(tmp_path / "new")
    dg.Definitions.validate_loadable(defs)
    found = specs(defs)
    assert list(found["orders_hourly"].owners) == ["team:shops"]
    assert found["orders_hourly"].tags["finance"] == ""
    repository = defs.get_repository_def()
    assert {s.name for s in repository.schedule_defs} >= {"every_quarter_hour", "tidegate_upkeep"}
    checked = {key.asset_key.to_user_string() for key in defs.resolve_asset_graph().asset_check_keys}
    assert checked >= set(found)


def test_in_an_environment_that_reads_another_one_only_views_can_be_launched(root: Path) -> None:
    (root / "resources").mkdir()
    (root / "resources" / "dev.yaml").write_text("reads: local\nwarehouse: {namespace: dev}\n")
    (root / "assets" / "sinks.sql").write_text(SINKS)
    (root / "jobs").mkdir()
    (root / "jobs" / "a.yaml").write_text("live: [{name: all, enabled: true}]")
    defs = load_definitions(root, "dev")
    dg.Definitions.validate_loadable(defs)
    launched = {
        key.to_user_string() for a in defs.assets if isinstance(a, dg.AssetsDefinition) for key in a.keys
    }
    assert launched == {"orders_hourly", "notes_daily"}
    assert {"orders", "notes", "exported"} <= set(specs(defs))
    assert specs(defs)["orders"].metadata["dagster/table_name"] == "tidegate.main.orders"
    assert specs(defs)["orders_hourly"].metadata["dagster/table_name"] == "tidegate.dev.orders_hourly"
    assert not defs.schedules
    assert not defs.sensors
    # Their quality can be checked before they are merged; that of the logs is checked where they are written.
    suites = {(c.asset_key.to_user_string(), c.name) for c in defs.resolve_asset_graph().asset_check_keys}
    assert {("orders_hourly", "reconciliation"), ("notes_daily", "reconciliation")} <= suites
    assert {name for name, _ in suites} == launched
    assert {job.name for job in defs.get_repository_def().get_all_jobs()} >= {"tidegate_quality"}
    ticks = defs.resolve_job_def("tidegate_catch_up").asset_layer.executable_asset_keys
    assert {key.to_user_string() for key in ticks} == launched
