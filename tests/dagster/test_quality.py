"""The suites of Great Expectations as asset checks: in a run and by hand, with the failing windows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import dagster as dg
import pytest

from tests.dagster.projects import write_orders, write_project
from tests.dagster.test_amendments import closed, partitioned
from tests.dagster.test_runs import session_on, tamper
from tidegate.amend.run import amend
from tidegate.dagster import load_definitions
from tidegate.dagster.quality import check_partitions, partition_names
from tidegate.errors import TidegateError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tidegate.session.session import Session

OWN = """\
asset: orders_hourly
reconciliation: {least_rows: 1, late_rate: 20 %}
expectations:
  - expect_column_values_to_be_between: {column: orders, max_value: 2, severity: warning, description: few orders}
"""


def write_quality(root: Path, text: str = OWN) -> None:
    (root / "quality").mkdir(exist_ok=True)
    (root / "quality" / "orders_hourly.yaml").write_text(text)


def test_A1_checks_of_a_run_name_the_failing_windows(tmp_path: Path, spark: SparkSession) -> None:
    root = write_project(tmp_path / "shop")
    write_quality(root)
    keys = {dg.AssetKey("orders"), dg.AssetKey("orders_hourly")}
    with dg.DagsterInstance.ephemeral() as instance:
        # As the UI launches it; schedules leave these checks to a job of their own.
        job = load_definitions(root).resolve_implicit_global_asset_job_def()
        found = evaluations(job.get_subset(asset_selection=keys), instance)
        assert {name: found[name].passed for name in ("reconciliation", "late_rate", "expectations")} == {
            "reconciliation": True,
            "late_rate": False,
            "expectations": False,
        }
        plot = found["reconciliation"].metadata["raw and windowed"].value
        assert plot.startswith("![raw and windowed rows of orders_hourly](data:image/png;base64,iVBOR")
        # 1 of 4 rows of the one closed hour was late; a warning is yellow, not red.
        assert found["late_rate"].severity is dg.AssetCheckSeverity.WARN
        late = found["late_rate"].metadata["failing: at most 20 % of a day's rows are late"]
        assert [r.data for r in late.records] == [
            {"day": "2026-03-01", "raw": "4", "late": "1", "late_rate": "0.25"}
        ]
        own = found["expectations"]
        assert own.description.startswith(
            "few orders: 1 of 1 fails; first \\_window_start 2026-03-01T09:00:00"
        )
        assert [r.data["holds"] for r in own.metadata["expectations"].records] == ["no"]
        page = Path(own.metadata["Data Docs"].path)
        assert page == root / ".tidegate" / "quality" / "docs" / "orders_hourly" / "index.html"
        assert page.is_file()

        with session_on(root, spark) as session:
            tamper(session, "orders_hourly", "UPDATE {table} SET _rows = _rows + 1")
        check = dg.AssetCheckKey(dg.AssetKey("orders_hourly"), "reconciliation")
        job = load_definitions(root).resolve_job_def("tidegate_quality")
        alone = job.get_subset(asset_check_selection={check}, asset_selection=set())
        verdict = evaluations(alone, instance)["reconciliation"]
        assert (verdict.passed, verdict.severity) == (False, dg.AssetCheckSeverity.ERROR)
        assert "window_end 2026-03-01 10:00:00" in verdict.description
        [failing] = [v for k, v in verdict.metadata.items() if k.startswith("failing: A1: raw")]
        window = failing.records[0].data
        assert (window["window_end"], window["raw"], window["counted"]) == ("2026-03-01 10:00:00", "4", "4")


def evaluations(job: dg.JobDefinition, instance: dg.DagsterInstance) -> dict[str, dg.AssetCheckEvaluation]:
    result = job.execute_in_process(instance=instance)
    return {
        e.check_name: e
        for e in result.get_asset_check_evaluations()
        if e.asset_key == dg.AssetKey("orders_hourly")
    }


def test_what_has_never_run_could_not_be_checked(tmp_path: Path, spark: SparkSession) -> None:
    root = write_project(tmp_path / "shop")
    job = load_definitions(root).resolve_implicit_global_asset_job_def()
    check = dg.AssetCheckKey(dg.AssetKey("orders_hourly"), "reconciliation")
    with dg.DagsterInstance.ephemeral() as instance:
        subset = job.get_subset(asset_check_selection={check}, asset_selection=set())
        verdict = evaluations(subset, instance)["reconciliation"]
    assert not verdict.passed
    assert "TG512" in verdict.description


def test_the_partitions_that_a_run_is_for(tmp_path: Path) -> None:
    [one] = closed(partitioned(tmp_path / "shop", "hour"))
    known = [f"2026-03-01-{hour}:00" for hour in ("11", "09", "10", "14")]
    assert partition_names({}, one, known) == []
    assert partition_names({"dagster/partition": "2026-03-01-10:00"}, one, known) == ["2026-03-01-10:00"]
    assert partition_names(stretch("09", "11"), one, known) == [
        f"2026-03-01-{h}:00" for h in ("09", "10", "11")
    ]


def stretch(first: str, last: str) -> dict[str, str]:
    """A backfill's tags."""
    names = (f"2026-03-01-{hour}:00" for hour in (first, last))
    return dict(
        zip(("dagster/asset_partition_range_start", "dagster/asset_partition_range_end"), names, strict=True)
    )


@pytest.mark.runner("inprocess")
def test_A1_each_partition_of_a_backfill_has_its_verdict(
    tmp_path: Path, opened: Callable[[Path], Session]
) -> None:
    root = partitioned(tmp_path / "shop", "hour")
    write_orders(root, "berlin", ["13:00"], "2.json")
    write_orders(root, "paris", ["13:00"], "2.json")
    session = opened(root)
    session.run(["orders_hourly"])
    # Berlin's late row is taken in: the window that was amended adds up with it (B2).
    [amended] = list(amend(session, ["orders_hourly"], from_late=True))
    assert amended.windows == 1
    [one] = closed(root)
    names = [f"2026-03-01-{hour}:00" for hour in ("09", "10", "11")]
    tamper(session, "orders_hourly", "UPDATE {table} SET _rows = _rows + 1 WHERE hour(window_end) = 11")
    found = {e.partition: e for e in check_partitions(session, one, names)}
    assert {name: e.passed for name, e in found.items()} == {names[0]: True, names[1]: False, names[2]: True}
    bad = found[names[1]]
    assert (bad.asset_key, bad.check_name) == (one.key, "reconciliation")
    assert bad.description == "1 window does not equal the log, ending at 2026-03-01 11:00:00"
    assert any(name.startswith("failing: A1: raw") for name in bad.metadata)
    assert bad.metadata["looked at"].value.startswith(
        "3 windows up to 2026-03-01 12:00:00, those that ended after 2026-03-01 09:00:00"
    )


def test_a_file_that_does_not_fit_is_told_when_definitions_are_loaded(tmp_path: Path) -> None:
    root = write_project(tmp_path / "shop")
    write_quality(root, OWN.replace("column: orders", "column: ordres"))
    with pytest.raises(TidegateError, match='has no column "ordres"') as caught:
        load_definitions(root)
    assert caught.value.code == "TG617"


def test_an_asset_with_a_file_has_a_check_for_it(tmp_path: Path) -> None:
    root = write_project(tmp_path / "shop")
    write_quality(root)
    graph = load_definitions(root).resolve_asset_graph()
    own = {c.asset_key.to_user_string() for c in graph.asset_check_keys if c.name == "expectations"}
    assert own == {"orders_hourly"}


def test_a_schedule_for_all_of_them(tmp_path: Path) -> None:
    root = write_project(
        tmp_path / "shop", "quality: {cron: '0 6 * * *', timezone: Europe/Berlin, enabled: false}\n"
    )
    definitions = load_definitions(root)
    [schedule] = [s for s in definitions.schedules or [] if s.name == "tidegate_quality_schedule"]
    assert (schedule.cron_schedule, schedule.execution_timezone) == ("0 6 * * *", "Europe/Berlin")
    checked = definitions.resolve_job_def("tidegate_quality").asset_layer
    assert checked.selected_asset_keys == set()
    (root / "jobs" / "more.yaml").write_text("quality: {cron: '@daily'}\n")
    with pytest.raises(TidegateError, match="quality is also defined in jobs/jobs"):
        load_definitions(root)
