"""The definitions of a project, without Spark: assets, lineage, schema, checks, jobs, schedules."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import dagster as dg
import pytest

from tests.dagster.projects import JOINED, SINKS, write_project
from tidegate.dagster import TidegateAsset, TidegateTranslator, load_definitions
from tidegate.errors import TidegateError
from tidegate.project import Project
from tidegate.views.amend.rebuild import Rebuilt


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return write_project(tmp_path / "shop")


def spec_of(defs: dg.Definitions, name: str) -> dg.AssetSpec:
    return next(s for s in defs.resolve_all_asset_specs() if s.key == dg.AssetKey(name))


def test_every_source_table_and_view_is_an_asset_with_lineage(root: Path) -> None:
    defs = load_definitions(root)
    dg.Definitions.validate_loadable(defs)
    specs = {s.key.to_user_string(): s for s in defs.resolve_all_asset_specs()}
    assert set(specs) == {"orders", "orders_hourly", "notes", "notes_daily"}
    deps = {name: {d.asset_key.to_user_string() for d in s.deps} for name, s in specs.items()}
    assert deps == {"orders": set(), "notes": set(), "orders_hourly": {"orders"}, "notes_daily": {"notes"}}


def test_a_source_and_its_views_are_one_step_with_one_pool(root: Path) -> None:
    families = {a.op.name: a for a in load_definitions(root).assets if isinstance(a, dg.AssetsDefinition)}
    assert set(families) == {"tidegate_orders", "tidegate_notes"}
    orders = families["tidegate_orders"]
    assert {k.to_user_string() for k in orders.keys} == {"orders", "orders_hourly"}
    assert orders.op.pool == "tidegate_orders"
    assert orders.can_subset


def test_sinks_are_assets_of_the_family_that_they_deliver(root: Path) -> None:
    (root / "assets" / "sinks.sql").write_text(SINKS)
    defs = load_definitions(root)
    dg.Definitions.validate_loadable(defs)
    families = {a.op.name: a for a in defs.assets if isinstance(a, dg.AssetsDefinition)}
    family = families["tidegate_orders"]
    deps = {s.key.to_user_string(): {d.asset_key.to_user_string() for d in s.deps} for s in family.specs}
    # The implicit view of `large` is part of it, and no asset.
    assert deps == {
        "orders": set(),
        "orders_hourly": {"orders"},
        "exported": {"orders_hourly"},
        "large": {"orders"},
        "shown": {"orders"},
    }
    files, rows = spec_of(defs, "exported"), spec_of(defs, "large")
    assert (files.description, files.group_name) == ("For the accountants.", "orders")
    assert (files.kinds, rows.kinds) == ({"spark", "sql", "json"}, {"spark", "sql", "iceberg"})
    assert spec_of(defs, "shown").kinds == {"spark", "sql", "console"}
    assert files.tags["tidegate/kind"] == "sink"
    assert (files.metadata["tidegate/connector"], files.metadata["tidegate/place"]) == ("filesystem", "out")
    assert "dagster/table_name" not in files.metadata
    assert rows.metadata["dagster/table_name"] == "tidegate.exported.large"
    columns = [(c.name, c.type) for c in rows.metadata["dagster/column_schema"].columns]
    assert columns == [("ordered_at", "TIMESTAMP"), ("amount", "DECIMAL(28, 10)")]
    checks: dict[str, set[str]] = {}
    for check in defs.resolve_asset_graph().asset_check_keys:
        checks.setdefault(check.asset_key.to_user_string(), set()).add(check.name)
    assert set(checks) == {"orders", "orders_hourly", "notes", "notes_daily", "exported", "large", "shown"}
    assert checks["exported"] == checks["large"] == {"watermark_stall"}


def test_schedules_bring_sinks_along_and_can_name_one(tmp_path: Path) -> None:
    jobs = 'schedules: [{name: a, cron: "@daily", select: [orders]}, {name: b, cron: "@daily", select: [exported]}]'
    root = write_project(tmp_path / "shop", jobs)
    (root / "assets" / "sinks.sql").write_text(SINKS)
    defs = load_definitions(root)
    chosen = []
    for schedule in defs.schedules:
        keys = defs.resolve_job_def(schedule.job_name).asset_layer.executable_asset_keys
        chosen.append({k.to_user_string() for k in keys})
    assert chosen == [{"orders", "orders_hourly", "exported", "large", "shown"}, {"exported"}]


def test_description_kinds_tags_group_and_code_version(root: Path) -> None:
    defs = load_definitions(root)
    source, view = spec_of(defs, "orders"), spec_of(defs, "orders_hourly")
    assert source.description == "Orders of two shops.\nOne folder per shop."
    assert source.kinds == {"spark", "iceberg", "sql"}
    assert (source.tags["tidegate/kind"], view.tags["tidegate/kind"]) == ("source", "view")
    assert view.tags["tidegate/emit"] == "on_window_close"
    assert spec_of(defs, "notes_daily").tags["tidegate/emit"] == "always"
    assert source.group_name == view.group_name == "orders"
    assert not source.owners
    before = source.code_version
    text = (root / "assets" / "orders.sql").read_text()
    (root / "assets" / "orders.sql").write_text(text.replace("10 minutes", "20 minutes"))
    assert spec_of(load_definitions(root), "orders").code_version != before


def test_columns_have_the_types_that_the_user_wrote(root: Path) -> None:
    schema = spec_of(load_definitions(root), "orders").metadata["dagster/column_schema"]
    assert [(c.name, c.type, c.constraints.nullable) for c in schema.columns] == [
        ("id", "BIGINT", False),
        ("amount", "DECIMAL(28, 10)", True),
        ("ordered_at", "TIMESTAMP", True),
        ("day", "DATE", True),
    ]
    time, day = schema.columns[2], schema.columns[3]
    assert "watermark: " in time.constraints.other[0]
    assert "10 minutes" in time.constraints.other[0]
    assert day.constraints.other[0].startswith("generated: ")


def test_an_asset_leads_to_its_statement(root: Path) -> None:
    metadata = spec_of(load_definitions(root), "orders_hourly").metadata
    [reference] = metadata["dagster/code_references"].code_references
    assert (reference.file_path, reference.line_number) == (str(root / "assets" / "orders.sql"), 12)
    assert "EMIT ON WINDOW CLOSE" in metadata["tidegate/definition"].value
    assert metadata["tidegate/window"] == "TUMBLE 1 hour over ordered_at"
    assert metadata["dagster/table_name"] == "tidegate.main.orders_hourly"


def test_every_asset_has_its_checks(root: Path) -> None:
    graph = load_definitions(root).resolve_asset_graph()
    checks = {(c.asset_key.to_user_string(), c.name) for c in graph.asset_check_keys}
    assert checks == {
        ("orders", "raw_adds_up"),
        ("orders", "watermark_lag"),
        ("notes", "raw_adds_up"),
        ("notes", "watermark_lag"),
        *((name, "watermark_stall") for name in ("orders", "orders_hourly", "notes", "notes_daily")),
        ("orders_hourly", "windowed_equals_raw"),
        ("notes_daily", "windowed_equals_raw"),
        *(
            (name, check)
            for name in ("orders_hourly", "notes_daily")
            for check in ("reconciliation", "late_rate")
        ),
    }
    # Each can be launched alone from the UI.
    assert all(len(graph.get_execution_set_asset_and_check_keys(c)) <= 1 for c in graph.asset_check_keys)


class Ours(TidegateTranslator):
    def get_asset_key(self, asset: TidegateAsset) -> dg.AssetKey:
        return super().get_asset_key(asset).with_prefix("streams")

    def get_group_name(self, asset: TidegateAsset) -> str:
        return "all_of_it"


def test_a_translator_changes_keys_and_keeps_lineage(root: Path) -> None:
    defs = load_definitions(root, translator=Ours())
    specs = {s.key.to_user_string(): s for s in defs.resolve_all_asset_specs()}
    assert [d.asset_key.to_user_string() for d in specs["streams/orders_hourly"].deps] == ["streams/orders"]
    assert {s.group_name for s in specs.values()} == {"all_of_it"}


def test_without_jobs_there_is_an_hourly_schedule_to_switch_on(root: Path) -> None:
    [schedule] = load_definitions(root).schedules
    assert isinstance(schedule, dg.ScheduleDefinition)
    assert (schedule.name, schedule.cron_schedule) == ("tidegate_hourly", "7 * * * *")
    assert schedule.default_status == dg.DefaultScheduleStatus.STOPPED


JOBS = """\
schedules:
  - {name: at_night, cron: "0 3 * * *", timezone: Europe/Berlin, select: [orders], enabled: false}
  - {name: often, cron: "*/5 * * * *"}
"""


def test_schedules_come_from_jobs_and_bring_the_views_along(tmp_path: Path) -> None:
    defs = load_definitions(write_project(tmp_path / "shop", JOBS))
    dg.Definitions.validate_loadable(defs)
    night, often = defs.schedules
    assert (night.cron_schedule, night.execution_timezone) == ("0 3 * * *", "Europe/Berlin")
    assert night.default_status == dg.DefaultScheduleStatus.STOPPED
    assert often.default_status == dg.DefaultScheduleStatus.RUNNING
    selected = defs.resolve_job_def(night.job_name).asset_layer.executable_asset_keys
    assert {k.to_user_string() for k in selected} == {"orders", "orders_hourly"}
    everything = defs.resolve_job_def(often.job_name)
    assert everything.name == "tidegate_catch_up"
    assert len(everything.asset_layer.executable_asset_keys) == 4
    assert everything.executor_def.name == "in_process"
    # Great Expectations has a job of its own: its import takes longer than a tick.
    judging = {
        node.name for job in (night.job_name, often.job_name) for node in defs.resolve_job_def(job).nodes
    }
    assert not [name for name in judging if "quality" in name]
    assert any("quality" in node.name for node in defs.resolve_implicit_global_asset_job_def().nodes)


@pytest.mark.medium
def test_R4_a_job_rebuilds_what_was_changed_and_records_it(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def rebuilt(session: object, notify: object, steps: object) -> list[Rebuilt]:
        asked.append(session)
        return [
            Rebuilt(
                "orders_hourly", "its definition has changed", 2, "generation_1", "2026-03-01 10:30:00", 7
            )
        ]

    monkeypatch.setattr("tidegate.views.amend.rebuild.rebuild", rebuilt)
    resource = type("Resource", (), {"session": "the session"})()
    job = load_definitions(root).resolve_job_def("tidegate_rebuild")
    result = job.execute_in_process(resources={"tidegate": resource})
    [event] = [e for e in result.all_events if e.event_type_value == "ASSET_MATERIALIZATION"]
    found = event.event_specific_data.materialization
    assert (asked, found.asset_key) == (["the session"], dg.AssetKey("orders_hourly"))
    assert found.description == "rebuilt, its definition has changed: 7 rows, final up to 2026-03-01 10:30:00"
    assert found.metadata["results before"].value == "generation_1"


def test_a_schedule_of_an_unknown_name_is_refused(tmp_path: Path) -> None:
    jobs = 'schedules:\n  - {name: x, cron: "@daily", select: [order]}\n'
    with pytest.raises(TidegateError, match="TG609"):
        load_definitions(write_project(tmp_path / "shop", jobs))


def test_two_projects_in_one_code_location(root: Path, tmp_path: Path) -> None:
    first = load_definitions(root)
    second = load_definitions(write_project(tmp_path / "other"), translator=Ours(), name="other")
    both = dg.Definitions.merge(first, second)
    dg.Definitions.validate_loadable(both)
    assert set(both.resources) == {"tidegate", "other"}
    assert len(both.resolve_asset_graph().get_all_asset_keys()) == 8


def test_an_empty_project_is_a_code_location_too(tmp_path: Path) -> None:
    (tmp_path / "assets").mkdir()
    dg.Definitions.validate_loadable(load_definitions(Project.load(tmp_path)))


@pytest.mark.medium
def test_the_module_reads_the_environment_and_loads_no_spark(root: Path) -> None:
    code = (
        "import sys\n"
        "from tidegate.dagster.definitions import defs\n"
        "print(len(list(defs.resolve_all_asset_specs())))\n"
        "print([m for m in ('pyspark', 'py4j', 'pandas', 'matplotlib', 'dagster_pyspark') if m in sys.modules])\n"
    )
    environ = {"TIDEGATE_PROJECT": str(root), "TIDEGATE_ENV": "local", "PATH": ""}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environ, capture_output=True, text=True, check=False
    )
    assert done.stdout.splitlines() == ["4", "[]"], done.stderr


def test_D3_a_view_over_several_inputs_makes_one_family_of_them(root: Path) -> None:
    (root / "assets" / "together.sql").write_text(JOINED)
    defs = load_definitions(root)
    dg.Definitions.validate_loadable(defs)
    families = {a.op.name: a for a in defs.assets if isinstance(a, dg.AssetsDefinition)}
    assert set(families) == {"tidegate_notes", "tidegate_orders"}
    family = families["tidegate_orders"]
    assert (family.op.pool, len(list(family.keys))) == ("tidegate_orders", 5)
    deps = {s.key.to_user_string(): {d.asset_key.to_user_string() for d in s.deps} for s in family.specs}
    assert deps["together"] == {"orders", "returns"}
    assert deps["together_daily"] == {"together"}
    assert spec_of(defs, "together").metadata["tidegate/final up to"].startswith("least(watermark(orders), ")


def test_T2_a_cleanup_is_a_job_with_a_schedule_of_its_own(tmp_path: Path) -> None:
    jobs = 'cleanups: [{name: nightly_cleanup, cron: "0 3 * * *", select: [prices], enabled: true}]'
    root = write_project(tmp_path / "shop", jobs)
    (root / "assets" / "prices.sql").write_text(
        "CREATE TABLE prices (item VARCHAR PRIMARY KEY, price DECIMAL);"
    )
    defs = load_definitions(root)
    dg.Definitions.validate_loadable(defs)
    found = {s.name: s for s in defs.schedules if isinstance(s, dg.ScheduleDefinition)}
    assert set(found) == {"tidegate_hourly", "nightly_cleanup"}
    schedule = found["nightly_cleanup"]
    assert (schedule.cron_schedule, schedule.default_status) == (
        "0 3 * * *",
        dg.DefaultScheduleStatus.RUNNING,
    )
    assert defs.resolve_job_def("tidegate_nightly_cleanup").executor_def is dg.in_process_executor
