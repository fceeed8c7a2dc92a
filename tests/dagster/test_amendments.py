"""Amendments in Dagster: closed hours as partitions that backfills take; jobs/amendments.yaml (B1, B2)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import dagster as dg
import pytest

from tests.dagster.projects import write_orders, write_project
from tidegate.dagster import load_definitions
from tidegate.dagster.partitions import FROM_LATE, Closed, closed_of
from tidegate.dagster.resource import TidegateResource
from tidegate.dagster.translator import TidegateAsset, TidegateTranslator
from tidegate.project import Project
from tidegate.sql.catalog.lineage import computed
from tidegate.views.revisions.amend_report import Stretch, ViewAmendment
from tidegate.watermark import TimeKind

if TYPE_CHECKING:
    from tidegate.session.session import Session

NIGHTLY = 'amendments:\n  - name: nightly\n    cron: "0 3 * * *"\n    select: [orders_hourly]\n'
HOURS = dg.AssetKey(["orders_hourly", "closed_hours"])


def partitioned(root: Path, unit: str, view: str = "-- Final when") -> Path:
    """The shop, with front matter above one of its views."""
    write_project(root)
    for file in (root / "assets").iterdir():
        text = file.read_text(encoding="utf-8")
        file.write_text(
            text.replace(view, f"-- ---\n-- partitions: {unit}\n-- ---\n{view}"), encoding="utf-8"
        )
    (root / "jobs").mkdir(exist_ok=True)
    (root / "jobs" / "amendments.yaml").write_text(NIGHTLY, encoding="utf-8")
    return root


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.ephemeral() as ephemeral:
        yield ephemeral


def closed(root: Path) -> list[Closed]:
    project = Project.load(root, "local")
    catalog = project.catalog()
    assets = [TidegateAsset(item, catalog, project) for item in computed(catalog)]
    return closed_of(assets, TidegateTranslator(), "tidegate")


def test_a_partition_holds_the_windows_that_end_in_it(tmp_path: Path) -> None:
    [one] = closed(partitioned(tmp_path / "shop", "hour"))
    at = one.view.kind.parse
    assert one.name_of(at("2026-03-01 09:00:00")) == "2026-03-01-09:00"
    assert one.start_of("2026-03-01-09:00") == at("2026-03-01 09:00:00")
    # A window that ends at 10:00 is in the hour before; at 11:30 the hour from 11:00 is not over.
    found = one.between(at("2026-03-01 10:00:00") - 1, at("2026-03-01 11:30:00"))
    assert [one.name_of(start) for start in found] == ["2026-03-01-09:00", "2026-03-01-10:00"]
    assert one.between(at("2026-03-01 11:00:00"), at("2026-03-01 11:30:00")) == []
    hour = 3_600_000_000
    nine = at("2026-03-01 09:00:00")
    names = ["2026-03-01-10:00", "2026-03-01-09:00", "2026-03-01-14:00"]
    assert one.stretches(names) == [(nine, nine + 2 * hour), (nine + 5 * hour, nine + 6 * hour)]


@pytest.mark.parametrize("unit", ["none", "day"])
def test_without_front_matter_there_are_no_partitions(tmp_path: Path, unit: str) -> None:
    root = partitioned(tmp_path / "shop", unit)
    defs = load_definitions(root).get_repository_def()
    keys = {key.to_user_string() for key in defs.asset_graph.get_all_asset_keys()}
    assert ("orders_hourly/closed_days" in keys) == (unit == "day")
    assert ("tidegate_closed" in {s.name for s in defs.sensor_defs}) == (unit == "day")
    assert "nightly" in {s.name for s in defs.schedule_defs}


def test_each_partition_of_a_backfill_says_what_became_of_its_own_windows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, instance: dg.DagsterInstance
) -> None:
    definitions = load_definitions(partitioned(tmp_path / "shop", "hour"))
    hour = 3_600_000_000
    names = ["2026-03-01-09:00", "2026-03-01-10:00", "2026-03-01-11:00"]
    instance.add_dynamic_partitions("tidegate_orders_hourly_hours", names)
    nine = TimeKind.TIMESTAMP.parse("2026-03-01 09:00:00")

    def amended(session: object, views: list[str], every: int, **asked: object) -> list[ViewAmendment]:
        assert (views, every) == (["orders_hourly"], hour)
        own = ViewAmendment(
            "orders_hourly", 3, 5, 4, stretches=[Stretch(nine, 1, 2, 1), Stretch(nine + 2 * hour, 2, 3, 3)]
        )
        return [own, ViewAmendment("below", 9, stretches=[Stretch(nine, 9, 9, 9)])]

    monkeypatch.setattr("tidegate.amend.run.amend", amended)
    monkeypatch.setattr(TidegateResource, "session", None)
    job = definitions.resolve_implicit_global_asset_job_def().get_subset(asset_selection={HOURS})
    ends = {"dagster/asset_partition_range_start": names[0], "dagster/asset_partition_range_end": names[-1]}
    done = job.execute_in_process(instance=instance, tags=ends)
    facts = {e.partition: e.materialization.metadata for e in done.get_asset_materialization_events()}
    found = {
        name: [
            facts[name][key].value
            for key in ("windows with a new revision", "late rows included", "changed rows")
        ]
        for name in names
    }
    assert found == {names[0]: [1, 2, 1], names[1]: [0, 0, 0], names[2]: [2, 3, 3]}
    assert {f["amended"].value for f in facts.values()} == {"orders_hourly, below"}


@pytest.mark.runner("inprocess")
def test_B1_B2_a_backfill_of_partitions_and_the_scheduled_job(
    tmp_path: Path, opened: Callable[[Path], Session], instance: dg.DagsterInstance
) -> None:
    root = partitioned(tmp_path / "shop", "hour")
    session = opened(root)
    session.run(["orders_hourly"])
    definitions = load_definitions(root)
    repository = definitions.get_repository_def()
    sensor = repository.get_sensor_def("tidegate_closed")

    def look(cursor: str | None) -> dg.SensorResult:
        context = dg.build_sensor_context(instance, cursor=cursor, repository_def=repository)
        return sensor.evaluate_tick(context)

    tick = look(None)
    assert [e.partition for e in tick.asset_events] == ["2026-03-01-09:00"]
    assert tick.asset_events[0].asset_key == HOURS
    [request] = tick.dynamic_partitions_requests
    instance.add_dynamic_partitions(request.partitions_def_name, request.partition_keys)
    assert look(tick.cursor).asset_events == []

    def backfill(**tags: str) -> dict[str, dg.MetadataValue]:
        [key] = request.partition_keys
        ends = {"dagster/asset_partition_range_start": key, "dagster/asset_partition_range_end": key}
        job = definitions.resolve_implicit_global_asset_job_def().get_subset(asset_selection={HOURS})
        done = job.execute_in_process(instance=instance, tags=ends | tags)
        [event] = done.get_asset_materialization_events()
        assert event.partition == key
        return dict(event.materialization.metadata)

    # B1: what is stored is what the log says.
    assert backfill()["windows with a new revision"].value == 0
    taken = backfill(**{FROM_LATE: "true"})
    assert (taken["windows with a new revision"].value, taken["late rows included"].value) == (1, 1)
    revisions = session.table("orders_hourly$revisions").orderBy("revision").collect()
    assert [(r["revision"], r["orders"]) for r in revisions] == [(1, 3), (2, 4)]

    # One more late row; the job takes it in.
    write_orders(root, "berlin", ["09:10"], file="2.json")
    session.run(["orders_hourly"])
    done = repository.get_job("tidegate_nightly").execute_in_process(instance=instance)
    [event] = done.get_asset_materialization_events()
    assert event.asset_key == dg.AssetKey("orders_hourly")
    assert event.materialization.metadata["late rows included"].value == 1
    assert session.table("orders_hourly").collect()[0]["orders"] == 5
