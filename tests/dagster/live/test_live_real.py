"""A live run with the real process: files come, windows close, their events appear, and it ends when terminated."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import dagster as dg
import pytest

from tests.dagster.projects import write_orders, write_project
from tests.support.quick import quick
from tidegate.dagster import load_definitions
from tidegate.project import Project
from tidegate.store.status import read_status

pytestmark = pytest.mark.slow

LIVE = "live: [{name: shop, select: [orders], interval: 1 second, report_every: 1 second}]"
PATIENCE = 240


def processes_of(root: Path) -> list[str]:
    """Command lines of the processes that work on the project, this one excepted."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            line = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            if str(root) in line and folder.name != str(os.getpid()):
                found.append(line)
    return found


def facts(instance: dg.DagsterInstance, name: str) -> dict[str, object]:
    event = instance.get_latest_materialization_event(dg.AssetKey(name))
    if event is None or event.asset_materialization is None:
        return {}
    return {key: value.value for key, value in event.asset_materialization.metadata.items()}


def wait(done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not done():
        assert time.monotonic() < deadline
        time.sleep(0.3)


@pytest.mark.long_run
def test_windows_close_and_appear_until_the_run_is_terminated(tmp_path: Path) -> None:
    root = write_project(tmp_path / "shop", LIVE)
    quick(root)
    job = load_definitions(root).resolve_job_def("tidegate_live_shop")
    seen: list[object] = []

    with dg.DagsterInstance.ephemeral() as instance:

        def operate() -> None:
            try:
                wait(lambda: facts(instance, "orders_hourly").get("final result rows") == 1)
                seen.append("first")
                write_orders(root, "paris", ["13:00"], "2.json")
                write_orders(root, "berlin", ["13:00"], "2.json")
                wait(lambda: facts(instance, "orders_hourly").get("final result rows") == 3)
                seen.append(facts(instance, "orders_hourly")["frontier"])
                seen.append(len(processes_of(root)) >= 2)
            finally:
                instance.report_run_canceling(instance.get_runs(limit=1)[0])
                os.kill(os.getpid(), signal.SIGINT)

        operator = threading.Thread(target=operate, daemon=True)
        operator.start()
        with suppress(dg.DagsterExecutionInterruptedError):
            job.execute_in_process(instance=instance, raise_on_error=False)
        operator.join()
        [run] = instance.get_runs()
        log = "\n".join(entry.user_message for entry in instance.all_logs(run.run_id))
        assert seen == ["first", "2026-03-01 12:50:00", True], log
        assert run.status == dg.DagsterRunStatus.CANCELED
        assert "stopped, exit code 0" in log
        observed = instance.fetch_observations(dg.AssetKey("orders"), limit=10).records
        newest = observed[0].asset_observation
        assert newest is not None
        assert newest.metadata["rows of this run"].value == 9
        assert newest.metadata["watermark"].value == "2026-03-01 12:50:00"
    wait(lambda: not processes_of(root))
    [source] = read_status(Project.load(root), ["orders"]).relations
    assert (source.raw, source.late) == (9, 1)
