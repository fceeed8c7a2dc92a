"""The watermark-lag sensor and check: facts from Iceberg metadata, no JVM (W6, W8)."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import nullcontext
from datetime import UTC, datetime
from pathlib import Path

import dagster as dg
import pytest

from tests.dagster.projects import write_project
from tests.store.tables import HadoopTable, progress_row, write_progress
from tidegate.dagster import load_definitions
from tidegate.findings.lag import read_lags
from tidegate.project import Project
from tidegate.watermark import TimeKind

pytestmark = pytest.mark.medium

STRICT = "thresholds:\n  - {source: orders, behind_newest: 30 minutes}\n"
PATIENT = "thresholds:\n  - {source: orders, behind_newest: 2 hours}\n"


def micros(time: str) -> int:
    return TimeKind.TIMESTAMP.parse(f"2026-03-01 {time}:00")


def commit(root: Path, epoch: int, berlin: str, paris: str) -> None:
    """What a run would have left: both partitions' newest events; watermarks are ten minutes behind them."""
    folder = root / ".tidegate" / "warehouse" / "main" / "orders"
    delay = 600_000_000
    newest = {"berlin": micros(berlin), "paris": micros(paris)}
    published = min(newest.values()) - delay
    rows = [
        progress_row(
            shop, watermark=time - delay, max_event_time=time, next_offset=3, on_time=3, state="active"
        )
        for shop, time in newest.items()
    ]
    rows.append(progress_row(None, published=published, on_time=6, max_event_time=max(newest.values())))
    file = write_progress(folder / "data" / f"progress-{epoch}.parquet", rows)
    table = HadoopTable(folder, version=epoch - 1, snapshots=[])
    table.snapshots.extend(
        {"snapshot-id": n * 100, "timestamp-ms": 0, "summary": {}} for n in range(1, epoch)
    )
    table.commit(
        {
            "tidegate.epoch": epoch,
            "tidegate.watermark": published,
            "tidegate.progress": str(file),
            "tidegate.on_time": 6,
            "tidegate.late": 0,
            "tidegate.rejected": 0,
        }
    )


def tick(
    root: Path, cursor: str | None = None, instance: dg.DagsterInstance | None = None
) -> dg.SensorResult:
    [sensor] = [s for s in load_definitions(root).sensors if s.name == "tidegate_watermark_lag"]
    with nullcontext(instance) if instance else dg.DagsterInstance.ephemeral() as used:
        context = dg.build_sensor_context(instance=used, cursor=cursor)
        result = sensor(context)
    assert isinstance(result, dg.SensorResult)
    return result


def test_W6_names_the_partition_that_holds_the_watermark_back(tmp_path: Path) -> None:
    root = write_project(tmp_path / "shop", STRICT)
    commit(root, 1, berlin="11:30", paris="10:40")
    result = tick(root)
    [event] = result.asset_events
    assert isinstance(event, dg.AssetCheckEvaluation)
    assert (event.asset_key, event.check_name, event.passed) == (
        dg.AssetKey("orders"),
        "watermark_lag",
        False,
    )
    assert event.severity == dg.AssetCheckSeverity.WARN
    assert event.metadata["held back by"].value == "paris"
    assert event.metadata["seconds behind newest event"].value == 3600.0
    [first, second] = event.metadata["partitions"].records
    assert (first.data["partition"], first.data["holds back"]) == ("paris", "yes")
    assert (second.data["partition"], second.data["watermark"]) == ("berlin", "2026-03-01 11:20:00")
    message = result.skip_reason.skip_message
    assert message.startswith("LAGGING orders: watermark 2026-03-01 10:30:00, 1 hour behind the newest event")
    assert "held back by paris" in message
    assert "more than 30 minutes behind the newest event" in message
    assert "notes: has not run yet" in message


def test_within_the_threshold_it_passes_and_still_says_the_facts(tmp_path: Path) -> None:
    root = write_project(tmp_path / "shop", PATIENT)
    commit(root, 1, berlin="11:30", paris="10:40")
    [event] = tick(root).asset_events
    assert event.passed
    assert "held back by paris" in event.description


def test_it_records_new_commits_and_new_verdicts_only(tmp_path: Path) -> None:
    root = write_project(tmp_path / "shop", STRICT)
    commit(root, 1, berlin="11:30", paris="10:40")
    first = tick(root)
    assert len(first.asset_events) == 1
    again = tick(root, first.cursor)
    assert again.asset_events == []
    (root / "jobs" / "jobs.yaml").write_text(PATIENT)
    changed = tick(root, again.cursor)
    assert [e.passed for e in changed.asset_events] == [True]
    commit(root, 2, berlin="11:35", paris="11:30")
    assert len(tick(root, changed.cursor).asset_events) == 1


def test_a_materialization_asks_for_a_new_evaluation_once(tmp_path: Path) -> None:
    """Dagster shows no evaluation that is older than it: that of a tick in the middle of a run would be gone."""
    root = write_project(tmp_path / "shop", STRICT)
    commit(root, 1, berlin="11:30", paris="10:40")
    with dg.DagsterInstance.ephemeral() as instance:
        during = tick(root, None, instance)
        instance.report_runless_asset_event(dg.AssetMaterialization("orders"))
        after = tick(root, during.cursor, instance)
        assert [e.asset_key for e in after.asset_events] == [dg.AssetKey("orders")]
        assert tick(root, after.cursor, instance).asset_events == []


def test_the_same_check_can_be_launched_by_hand(tmp_path: Path) -> None:
    root = write_project(tmp_path / "shop", STRICT)
    commit(root, 1, berlin="11:30", paris="10:40")
    checks = [c for c in load_definitions(root).asset_checks if c.op.name == "tidegate_watermark_lag_check"]
    result = dg.materialize(checks, selection=dg.AssetSelection.all_asset_checks())
    evaluations = [e for e in result.get_asset_check_evaluations() if e.check_name == "watermark_lag"]
    found = {e.asset_key.to_user_string(): e for e in evaluations}
    assert (found["orders"].passed, found["notes"].passed) == (False, True)
    assert found["notes"].description == "notes: has not run yet"


@pytest.mark.parametrize(("source", "passed"), [("*", True), ("recorded", False)])
def test_recorded_data_is_not_held_against_the_clock_unless_named(
    tmp_path: Path, source: str, passed: bool
) -> None:
    root = write_project(tmp_path / "shop", f'thresholds:\n  - {{source: "{source}", behind_clock: 1 day}}\n')
    text = (root / "assets" / "orders.sql").read_text()
    text = text.replace("orders", "recorded").replace("'filesystem'", "'replay'")
    (root / "assets" / "orders.sql").write_text(text.replace("data/recorded", "data/orders"))
    commit(root, 1, berlin="11:30", paris="10:40")
    (root / ".tidegate/warehouse/main/orders").rename(root / ".tidegate/warehouse/main/recorded")
    metadata = root / ".tidegate/warehouse/main/recorded/metadata/v1.metadata.json"
    metadata.write_text(metadata.read_text().replace("main/orders", "main/recorded"))
    project = Project.load(root)
    now = datetime(2026, 4, 1, tzinfo=UTC)
    [lag] = read_lags(project, project.jobs().thresholds, ["recorded"], now)
    assert lag.passed is passed
    assert ("behind the clock" in lag.text) is not passed


def test_the_sensor_needs_no_jvm(tmp_path: Path) -> None:
    root = write_project(tmp_path / "shop", STRICT)
    commit(root, 1, berlin="11:30", paris="10:40")
    code = (
        "import sys, json, dagster as dg\n"
        "from tidegate.dagster import load_definitions\n"
        f"[sensor] = [s for s in load_definitions({str(root)!r}).sensors if s.name == 'tidegate_watermark_lag']\n"
        "with dg.DagsterInstance.ephemeral() as instance:\n"
        "    result = sensor(dg.build_sensor_context(instance=instance))\n"
        "loaded = [m for m in ('pyspark', 'py4j', 'pandas') if m in sys.modules]\n"
        "print(json.dumps([len(result.asset_events), loaded]))\n"
    )
    # Without PATH there is no java to be found.
    done = subprocess.run(
        [sys.executable, "-c", code], env={"PATH": ""}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == [1, []]
