"""Live runs as Dagster jobs, over a `tidegate live` that has no Spark: recorded, terminated, tried again, kept."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from tests.dagster.projects import JOINED, write_project
from tidegate.cli.commands.runs.live_definitions import LiveRequest, read_definitions
from tidegate.dagster import load_definitions
from tidegate.dagster.live import jobs as live_module
from tidegate.dagster.live.jobs import LIVE_TAG, build_live_jobs, live_arguments
from tidegate.dagster.live.process import LiveProcess
from tidegate.dagster.resource import TidegateResource
from tidegate.live.groups import GroupPace
from tidegate.project import Project
from tidegate.project.jobs.live import LiveRun

pytestmark = pytest.mark.medium

FAKE = [sys.executable, str(Path(__file__).with_name("live_fake.py"))]
#: Seconds of wall clock after which a test gives up.
PATIENCE = 90
LIVE = "live:\n  - {name: shop, select: [orders]}\n"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return write_project(tmp_path / "shop", LIVE)


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.ephemeral() as ephemeral:
        yield ephemeral


def run(
    root: Path, instance: dg.DagsterInstance, mode: str, monkeypatch: pytest.MonkeyPatch, **settings: Any
) -> dg.DagsterRun:
    """The live run over the fake; the newest run after it."""
    monkeypatch.setenv("FAKE_LIVE", mode)
    catalog = Project.load(root).catalog()
    keys = {name: dg.AssetKey(name) for name in catalog.names()}
    declared = LiveRun(name="shop", select=["orders"], **settings)
    [job] = build_live_jobs([declared], catalog, keys, "tidegate", "tidegate", FAKE)
    resources = {"tidegate": TidegateResource(project=str(root))}
    with suppress(dg.DagsterExecutionInterruptedError):
        job.execute_in_process(instance=instance, resources=resources, raise_on_error=False)
    return instance.get_runs(limit=1)[0]


def started(root: Path) -> dict[str, Any]:
    return json.loads((root / "started.json").read_text())


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    # A zombie that nobody has collected yet is gone, too.
    stat = Path(f"/proc/{pid}/stat")
    return not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] != "Z"


def materializations(instance: dg.DagsterInstance, name: str) -> list[dict[str, Any]]:
    found = instance.fetch_materializations(dg.AssetKey(name), limit=1000).records
    return [
        {k: v.value for k, v in record.asset_materialization.metadata.items()}
        for record in reversed(found)
        if record.asset_materialization
    ]


def lines(instance: dg.DagsterInstance, record: dg.DagsterRun) -> str:
    return "\n".join(entry.user_message for entry in instance.all_logs(record.run_id))


def terminate_when_recorded(instance: dg.DagsterInstance, interrupts: int) -> threading.Thread:
    """What Dagster does when somebody terminates the run: its status, then an interrupt in the worker's main thread.
    Also after a while in which nothing was recorded, so that no test hangs."""

    def wait() -> None:
        deadline = time.monotonic() + PATIENCE
        view = dg.AssetKey("orders_hourly")
        while not instance.get_latest_materialization_event(view) and time.monotonic() < deadline:
            time.sleep(0.05)
        instance.report_run_canceling(instance.get_runs(limit=1)[0])
        for _ in range(interrupts):
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.05)

    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    return thread


@pytest.mark.parametrize("interrupts", [1, 3])
def test_terminated_it_finishes_the_commit_records_it_and_is_canceled(
    root: Path, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch, interrupts: int
) -> None:
    # An interrupt that comes when the run has ended already is nobody's.
    before = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        thread = terminate_when_recorded(instance, interrupts)
        record = run(root, instance, "forever", monkeypatch)
        thread.join()
    finally:
        signal.signal(signal.SIGINT, before)
    assert record.status == dg.DagsterRunStatus.CANCELED
    assert not alive(started(root)["pid"])
    views = materializations(instance, "orders_hourly")
    # The first at once, and what was committed after SIGTERM at the end; in between, a minute had not gone by.
    [first, last] = [view["final result rows"] for view in views]
    assert (first < 100, last) == (True, 1_000)
    assert views[1]["final result rows since the last report"] == 1_000 - first
    assert len(materializations(instance, "orders")) == 1
    observations = instance.fetch_observations(dg.AssetKey("orders"), limit=10).records
    assert len(observations) == 1
    log = lines(instance, record)
    assert "the run is terminated; process" in log
    assert "stopped, exit code 0" in log
    assert "orders: stops after" in log
    assert record.tags[LIVE_TAG] == "shop"


def test_a_process_that_breaks_down_is_started_again(
    root: Path, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_module, "RETRY_SECONDS", 0)
    record = run(root, instance, "crash", monkeypatch)
    assert record.status == dg.DagsterRunStatus.SUCCESS
    events = [e.dagster_event.event_type_value for e in instance.all_logs(record.run_id) if e.dagster_event]
    assert (events.count("STEP_UP_FOR_RETRY"), events.count("STEP_RESTARTED")) == (1, 1)
    assert "live process failed, killed by signal 9" in str(
        [e.dagster_event for e in instance.all_logs(record.run_id)]
    )
    assert materializations(instance, "orders_hourly")[-1]["final result rows"] == 1_000


def test_an_error_that_comes_again_is_not_tried_again(
    root: Path, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = run(root, instance, "refused", monkeypatch)
    assert record.status == dg.DagsterRunStatus.FAILURE
    entries = instance.all_logs(record.run_id)
    types = [e.dagster_event.event_type_value for e in entries if e.dagster_event]
    assert "STEP_UP_FOR_RETRY" not in types
    failure = next(
        e.dagster_event.step_failure_data for e in entries if "STEP_FAILURE" in str(e.dagster_event)
    )
    assert failure.user_failure_data.description == ("live process failed, exit code 2: TG201 no such thing")
    assert failure.user_failure_data.metadata["code"].value == "TG201"


def test_what_is_kept_running_ends_in_order_when_its_time_is_over(
    root: Path, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = run(root, instance, "forever", monkeypatch, enabled=True, run_for="1 second")
    assert record.status == dg.DagsterRunStatus.SUCCESS
    assert "its time is over" in lines(instance, record)
    assert materializations(instance, "orders_hourly")[-1]["final result rows"] == 1_000
    assert not alive(started(root)["pid"])
    # Dagster's run retries and the keeper would start it twice.
    assert record.tags["dagster/max_retries"] == "0"


def test_nothing_is_left_of_a_process_that_ends(
    root: Path, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = run(root, instance, "orphan", monkeypatch)
    assert record.status == dg.DagsterRunStatus.SUCCESS
    assert not alive(int((root / "orphan.pid").read_text()))


def test_a_process_that_does_not_stop_is_killed(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_LIVE", "stubborn")
    told: list[str] = []
    process = LiveProcess(FAKE, root, told.append)
    deadline = time.monotonic() + PATIENCE
    while not told:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert process.stop(0.5) is None
    assert not alive(process.pid)


def test_a_process_dies_in_order_with_the_run_that_is_killed(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_LIVE", "forever")
    code = (
        "import sys, time, os, signal\n"
        "from pathlib import Path\n"
        "from tidegate.dagster.live.process import LiveProcess\n"
        "told = []\n"
        "process = LiveProcess(sys.argv[2:], Path(sys.argv[1]), told.append)\n"
        "while not told: time.sleep(0.05)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(root), *FAKE], check=False, timeout=60)
    assert done.returncode == -signal.SIGKILL
    pid, deadline = started(root)["pid"], time.monotonic() + PATIENCE
    while alive(pid):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_run_of_the_same_assets_says_which_live_run_writes_them(
    root: Path, instance: dg.DagsterInstance
) -> None:
    defs = load_definitions(root)
    live = defs.resolve_job_def("tidegate_live_shop")
    going_on = instance.create_run_for_job(live, status=dg.DagsterRunStatus.STARTED)
    job = defs.resolve_job_def("tidegate_catch_up")
    result = job.execute_in_process(
        instance=instance, asset_selection=[dg.AssetKey("orders_hourly")], raise_on_error=False
    )
    failure = result.failure_data_for_node("tidegate_orders").user_failure_data
    assert failure.metadata["code"].value == "TG508"
    assert f"live run {going_on.run_id} of job tidegate_live_shop" in failure.description


def test_jobs_of_a_project_with_live_runs(root: Path) -> None:
    (root / "jobs" / "jobs.yaml").write_text(
        "live:\n"
        "  - {name: shop, select: [orders], enabled: true}\n"
        "  - {name: theirs, select: [notes_daily], started_by: outside}\n"
    )
    defs = load_definitions(root)
    dg.Definitions.validate_loadable(defs)
    job = defs.resolve_job_def("tidegate_live_shop")
    assert job.executor_def is dg.in_process_executor
    [node] = job.all_node_defs
    # Not the pool of the family: an ordinary run is to say who writes, instead of waiting for weeks.
    assert (node.pool, job.tags["dagster/max_retries"]) == ("tidegate_live_shop", "0")
    assert "tidegate_live_theirs" not in {j.name for j in defs.jobs}
    sensors = {s.name: s.default_status for s in defs.sensors}
    assert sensors == {
        "tidegate_watermark_lag": dg.DefaultSensorStatus.RUNNING,
        "tidegate_watermark_stall": dg.DefaultSensorStatus.RUNNING,
        "tidegate_live_keeper": dg.DefaultSensorStatus.RUNNING,
        "tidegate_live_observer": dg.DefaultSensorStatus.STOPPED,
    }


def test_the_process_is_told_what_jobs_say(root: Path) -> None:
    (root / "assets" / "together.sql").write_text(JOINED)
    declared = LiveRun(
        name="shop", select=["orders"], interval="5 s", max_rows_per_batch=10, port=9464, upkeep=False
    )
    assert live_arguments(declared, ["orders", "orders_hourly"], "shop", "local") == [
        "live", "orders", "orders_hourly", "--project", "shop", "--env", "local", "--json",
        "--interval", "5s", "--max-rows-per-batch", "10", "--port", "9464", "--no-upkeep",
    ]  # fmt: skip
    special = LiveRun(name="shop", intervals={"orders": "1 minute"}, isolate=["orders_hourly"])
    assert live_arguments(special, [], "shop", "local")[-7:] == [
        "--interval", "2s", "--interval", "orders=60s", "--isolate", "orders_hourly", "--no-http",
    ]  # fmt: skip
    assert live_arguments(LiveRun(name="all"), ["orders"], "shop", "local")[:3] == [
        "live",
        "--project",
        "shop",
    ]


def test_upkeep_is_a_job_with_a_schedule_if_maintenance_says_so(root: Path) -> None:
    assert "tidegate_upkeep" in {job.name for job in load_definitions(root).jobs}
    (root / "jobs" / "maintenance.yaml").write_text('schedule: {cron: "30 3 * * *", enabled: false}')
    defs = load_definitions(root)
    dg.Definitions.validate_loadable(defs)
    [schedule] = [s for s in defs.schedules if s.name == "tidegate_upkeep"]
    assert (schedule.job_name, schedule.cron_schedule) == ("tidegate_upkeep", "30 3 * * *")
    assert schedule.default_status == dg.DefaultScheduleStatus.STOPPED


def test_the_options_of_a_run_say_the_same_as_jobs_say_without_them(root: Path) -> None:
    settings = (
        "interval: 5 s, intervals: {orders_hourly: 1 minute}, priorities: {orders: 7}, isolate: [orders]"
    )
    declared = root / "jobs" / "jobs.yaml"
    declared.write_text(f"live:\n- {{name: all, enabled: true, {settings}}}")
    project = Project.load(root)
    arguments = live_arguments(project.jobs().live[0], [], str(root), "local")

    def options(name: str) -> list[str]:
        return [value for option, value in pairwise(arguments) if option == name]

    passed = [options(name) for name in ("--isolate", "--interval", "--priority")]
    by_jobs = read_definitions(project, LiveRequest(None, None, None, (), ()))
    both = read_definitions(project, LiveRequest(None, None, None, *passed))
    declared.write_text("live: []")
    by_options = read_definitions(project, LiveRequest(None, None, None, *passed))
    found = [
        ({group.name: one.pace_of(group) for group in one.groups}, one.alone)
        for one in (by_jobs, both, by_options)
    ]
    assert found[0] == ({"orders": GroupPace(60.0, 7), "notes": GroupPace(5.0, 1)}, {"orders"})
    assert found[1:] == found[:1] * 2
