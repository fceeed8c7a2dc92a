"""Runs launched the ways Dagster launches them: metadata, checks, subsets, failures; on Spark unless marked."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import dagster as dg
import pytest

from tests.dagster.projects import EXPORTED, JOINED, SINKS, write_orders, write_project
from tests.support.by_hand import by_hand
from tidegate.dagster import load_definitions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tidegate.session.session import Session


@pytest.fixture
def root(tmp_path: Path, opened: Callable[[Path], Session]) -> Path:
    return write_project(tmp_path / "shop")


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.ephemeral() as ephemeral:
        yield ephemeral


def run(
    root: Path, instance: dg.DagsterInstance, *names: str, raise_on_error: bool = True
) -> dg.ExecuteInProcessResult:
    """Launch `names` (all without any) with their checks, in the job that schedules use."""
    job = load_definitions(root).resolve_job_def("tidegate_catch_up")
    selection = [dg.AssetKey(name) for name in names] or None
    return job.execute_in_process(instance=instance, asset_selection=selection, raise_on_error=raise_on_error)


def facts(result: dg.ExecuteInProcessResult, name: str) -> dict[str, dg.MetadataValue]:
    events = result.get_asset_materialization_events()
    [event] = [e for e in events if e.asset_key == dg.AssetKey(name)]
    return dict(event.materialization.metadata)


def checks(result: dg.ExecuteInProcessResult) -> dict[tuple[str, str], dg.AssetCheckEvaluation]:
    return {(e.asset_key.to_user_string(), e.check_name): e for e in result.get_asset_check_evaluations()}


def audit(root: Path, instance: dg.DagsterInstance, name: str, check: str) -> dg.AssetCheckEvaluation:
    """Launch one check alone; nothing is materialized."""
    job = load_definitions(root).resolve_implicit_global_asset_job_def()
    key = dg.AssetCheckKey(dg.AssetKey(name), check)
    subset = job.get_subset(asset_check_selection={key}, asset_selection=set())
    result = subset.execute_in_process(instance=instance)
    assert result.get_asset_materialization_events() == []
    [evaluation] = result.get_asset_check_evaluations()
    return evaluation


def tamper(session: Session, name: str, statement: str) -> None:
    """Change a stored table behind tidegate's back."""
    by_hand(session, statement.format(table=session.identifier(name)))


def lines(instance: dg.DagsterInstance, result: dg.ExecuteInProcessResult) -> list[str]:
    return [entry.user_message for entry in instance.all_logs(result.run_id)]


def session_on(root: Path, spark: SparkSession) -> Session:
    import tidegate

    return tidegate.connect(root, spark=spark)


@pytest.mark.runner("inprocess")
def test_a_run_reports_rows_watermarks_and_audits(root: Path, instance: dg.DagsterInstance) -> None:
    result = run(root, instance)
    source = facts(result, "orders")
    numbers = {
        k: source[k].value for k in ("rows", "on time", "late", "rejected", "rows of this run", "epoch")
    }
    assert numbers == {
        "rows": 7, "on time": 6, "late": 1, "rejected": 0, "rows of this run": 7, "epoch": numbers["epoch"]
    }  # fmt: skip
    assert source["watermark"].value == "2026-03-01 10:30:00"
    assert source["held back by"].value == "paris"
    assert source["completeness (%)"].value == pytest.approx(100 * 6 / 7, abs=0.001)
    partitions = {r.data["partition"]: r.data for r in source["partitions"].records}
    assert partitions["berlin"]["watermark"] == "2026-03-01 11:20:00"
    assert (partitions["berlin"]["late"], partitions["paris"]["holds back"]) == (1, "yes")
    assert source["completeness"].value.startswith("![completeness of orders](data:image/png;base64,iVBOR")
    assert len(source["completeness"].value) < 100_000
    assert source["advised"].value.startswith("WATERMARK FOR ordered_at AS ordered_at")
    for name in ("watermarks over time", "lag over time"):
        assert source[name].value.startswith(f"![{name} of orders](data:image/png;base64,iVBOR")

    view = facts(result, "orders_hourly")
    assert view["frontier"].value == "2026-03-01 10:30:00"
    assert (view["final result rows"].value, view["open result rows"].value) == (1, 0)
    columns = {c.name: c.type for c in view["dagster/column_schema"].value.columns}
    assert columns["revenue"].startswith("DECIMAL(")
    assert facts(result, "notes")["rows"].value == 0

    audits = checks(result)
    assert {k: v.passed for k, v in audits.items()} == {
        ("orders", "raw_adds_up"): True,
        ("orders", "watermark_lag"): True,
        ("notes", "raw_adds_up"): True,
        ("notes", "watermark_lag"): True,
        **{(name, "watermark_stall"): True for name in ("orders", "orders_hourly", "notes", "notes_daily")},
        ("orders_hourly", "windowed_equals_raw"): True,
        ("notes_daily", "windowed_equals_raw"): True,
    }
    windows = audits["orders_hourly", "windowed_equals_raw"].metadata
    assert {k: windows[k].value for k in ("closed windows", "raw", "counted", "late", "still open")} == {
        "closed windows": 1, "raw": 4, "counted": 3, "late": 1, "still open": 3
    }  # fmt: skip
    assert audits["orders", "raw_adds_up"].metadata["recounted in the source"].value == 7

    log = lines(instance, result)
    assert any("orders: epoch" in line and "7 rows read, 7 in the log" in line for line in log)
    assert any(line.startswith("orders_hourly: slice of") for line in log)


@pytest.mark.runner("inprocess")
def test_a_view_alone_takes_in_what_the_log_holds(root: Path, instance: dg.DagsterInstance) -> None:
    run(root, instance, "orders")
    result = run(root, instance, "orders_hourly")
    assert [e.asset_key.to_user_string() for e in result.get_asset_materialization_events()] == [
        "orders_hourly"
    ]
    assert facts(result, "orders_hourly")["final result rows"].value == 1
    # New files wait; the view alone does not read them.
    write_orders(root, "paris", ["13:00"], "2.json")
    write_orders(root, "berlin", ["13:00"], "2.json")
    again = facts(run(root, instance, "orders_hourly"), "orders_hourly")
    assert (again["final result rows of this run"].value, again["source watermark"].value) == (
        0,
        "2026-03-01 10:30:00",
    )
    caught_up = run(root, instance, "orders", "orders_hourly")
    assert facts(caught_up, "orders")["rows of this run"].value == 2
    assert facts(caught_up, "orders_hourly")["final result rows of this run"].value == 2


def test_C2_sinks_deliver_in_the_run_of_what_they_deliver(
    root: Path, instance: dg.DagsterInstance, spark: SparkSession
) -> None:
    (root / "assets" / "sinks.sql").write_text(SINKS)
    result = run(root, instance, "orders", "orders_hourly", "exported", "large", "shown")
    out = [json.loads(line) for file in (root / "out").glob("*.jsonl") for line in file.open()]
    assert [(row["window_start"], row["orders"]) for row in out] == [("2026-03-01T09:00:00.000000", 3)]
    files = facts(result, "exported")
    keys = (
        "connector",
        "place",
        "dagster/row_count",
        "delivered rows",
        "delivered rows of this run",
        "position",
    )
    assert [files[k].value for k in keys] == ["filesystem", "out", 1, 1, 1, 1]
    written = next((root / "out" / "_tidegate").glob("position.json")).stat().st_mtime
    assert files["last delivery"].value == int(written)
    # The implicit view is computed with its sink, up to the watermark, which is 10:30.
    assert facts(result, "large")["delivered rows"].value == 4
    # `snapshot = 'false'`: the sink was there before this run, so what came with it is delivered.
    assert facts(result, "shown")["delivered rows"].value == 6
    log = lines(instance, result)
    assert "exported: 1 row delivered (filesystem) in" in "\n".join(log)
    assert any("shown: id = 0" in line and "… and 5 more" in line for line in log)
    materialized = {e.asset_key.to_user_string() for e in result.get_asset_materialization_events()}
    assert materialized == {"orders", "orders_hourly", "exported", "large", "shown"}
    # Somebody else's Spark is used, and not stopped.
    assert spark.range(3).count() == 3


@pytest.mark.runner("inprocess")
def test_C2_a_sink_alone_delivers_what_is_stored(root: Path, instance: dg.DagsterInstance) -> None:
    (root / "assets" / "sinks.sql").write_text(EXPORTED)
    run(root, instance, "orders", "orders_hourly", "exported")
    write_orders(root, "paris", ["13:00"], "2.json")
    write_orders(root, "berlin", ["13:00"], "2.json")
    # Neither the source nor its view is touched.
    alone = run(root, instance, "exported")
    assert [e.asset_key.to_user_string() for e in alone.get_asset_materialization_events()] == ["exported"]
    nothing = facts(alone, "exported")
    assert (nothing["delivered rows of this run"].value, nothing["position"].value) == (0, 1)
    run(root, instance, "orders", "orders_hourly")
    late = facts(run(root, instance, "exported"), "exported")
    assert (late["delivered rows of this run"].value, late["delivered rows"].value) == (2, 3)


@pytest.mark.runner("inprocess")
def test_A1_a_corrupted_view_is_caught_with_its_window_and_offsets(
    root: Path, instance: dg.DagsterInstance, opened: Callable[[Path], Session]
) -> None:
    run(root, instance, "orders", "orders_hourly")
    with opened(root) as session:
        tamper(session, "orders_hourly", "UPDATE {table} SET _rows = _rows - 1")
    evaluation = audit(root, instance, "orders_hourly", "windowed_equals_raw")
    assert not evaluation.passed
    assert evaluation.severity == dg.AssetCheckSeverity.ERROR
    assert "error" not in evaluation.metadata, evaluation.description
    assert evaluation.metadata["remainder"].value == 1
    [window] = evaluation.metadata["problem windows"].records
    assert window.data["window_start"] == "2026-03-01 09:00:00"
    assert (window.data["raw"], window.data["counted"], window.data["late"]) == (4, 2, 1)
    assert window.data["offsets"].split(", ")[-1].startswith("paris")


@pytest.mark.runner("inprocess")
def test_W5_a_row_that_is_in_the_log_twice_is_caught(
    root: Path, instance: dg.DagsterInstance, opened: Callable[[Path], Session]
) -> None:
    unread = audit(root, instance, "orders", "raw_adds_up")
    assert not unread.passed
    assert "TG512" in unread.description
    run(root, instance, "orders")
    with opened(root) as session:
        tamper(session, "orders", "INSERT INTO {table} SELECT * FROM {table} WHERE _outcome = 'late'")
    evaluation = audit(root, instance, "orders", "raw_adds_up")
    assert not evaluation.passed
    bad = evaluation.metadata["partitions"].records[0].data
    assert (bad["partition"], bad["counts agree"]) == ("berlin", "no")
    assert (bad["raw"], bad["committed counters"], bad["offsets twice"]) == (6, 5, 1)


@pytest.mark.runner("inprocess")
def test_metadata_that_fails_never_fails_the_run(
    root: Path, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> bytes:
        raise RuntimeError("no fonts today")

    monkeypatch.setattr("tidegate.plots.pictures.of_advice", broken)
    result = run(root, instance, "orders")
    assert result.success
    source = facts(result, "orders")
    assert source["tidegate/no plot"].value == "no fonts today"
    assert source["rows"].value == 7


@pytest.mark.runner("inprocess")
def test_a_busy_log_is_a_failure_that_may_be_retried_and_names_the_holder(
    root: Path, instance: dg.DagsterInstance, opened: Callable[[Path], Session]
) -> None:
    with opened(root) as session, session.lease("orders"):
        result = run(root, instance, "orders", raise_on_error=False)
    assert not result.success
    failure = result.failure_data_for_node("tidegate_orders").user_failure_data
    assert "TG508" in failure.description
    assert failure.metadata["code"].value == "TG508"
    assert run(root, instance, "orders").success


def test_a_refused_query_fails_its_view_and_keeps_no_source_waiting(
    root: Path, instance: dg.DagsterInstance
) -> None:
    file = root / "assets" / "orders.sql"
    file.write_text(file.read_text().replace("sum(amount) AS revenue", "sum(amount) + array(1) AS revenue"))
    result = run(root, instance, "orders", "orders_hourly", raise_on_error=False)
    assert not result.success
    assert "orders_hourly" in result.failure_data_for_node("tidegate_orders").user_failure_data.description
    assert facts(result, "orders")["rows"].value == 7
    assert {
        e.asset_key.to_user_string() for e in result.get_asset_materialization_events() if e.asset_key
    } == {"orders"}


@pytest.mark.runner("inprocess")
def test_D2_D3_views_over_several_inputs_run_in_order_and_are_audited(
    root: Path, instance: dg.DagsterInstance, opened: Callable[[Path], Session]
) -> None:
    (root / "assets" / "together.sql").write_text(JOINED)
    with opened(root) as session:
        session.execute("INSERT INTO returns VALUES ('2026-03-01 08:00:00'), ('2026-03-01 10:00:00')")
    result = run(root, instance, "orders", "together", "together_daily")
    joined = facts(result, "together")
    assert joined["frontier"].value == "2026-03-01 10:00:00"
    assert (joined["final result rows"].value, joined["held back by"].value) == (4, "returns")
    assert (joined["orders rows late"].value, joined["returns watermark"].value) == (1, "2026-03-01 10:00:00")
    daily = facts(result, "together_daily")
    assert (daily["open result rows"].value, daily["together final up to"].value) == (
        1,
        "2026-03-01 10:00:00",
    )
    found = checks(result)
    for name in ("together", "together_daily"):
        assert found[name, "windowed_equals_raw"].passed, found[name, "windowed_equals_raw"].description
    with opened(root) as session:
        tamper(session, "together", "DELETE FROM {table} WHERE at = TIMESTAMP_NTZ '2026-03-01 08:00:00'")
    verdict = audit(root, instance, "together", "windowed_equals_raw")
    assert not verdict.passed
    assert "1 missing" in (verdict.description or "")


@pytest.mark.runner("inprocess")
def test_X3_a_branch_launches_a_view_that_it_did_not_change_and_computes_nothing(
    root: Path, instance: dg.DagsterInstance, opened: Callable[[Path], Session]
) -> None:
    run(root, instance)
    (root / "resources").mkdir(exist_ok=True)
    (root / "resources" / "dev.yaml").write_text("reads: local\nwarehouse: {namespace: dev}\n")
    job = load_definitions(root, "dev").resolve_job_def("tidegate_catch_up")
    result = job.execute_in_process(
        instance=instance, asset_selection=[dg.AssetKey("orders_hourly")], raise_on_error=True
    )
    assert facts(result, "orders_hourly")["environment"].value == "local"
    assert not opened(root).tables.exists("tidegate.dev.orders_hourly")
