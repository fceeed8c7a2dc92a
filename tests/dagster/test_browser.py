"""What an operator does on the first day: open the UI, click Materialize all, look at the result."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.conftest import ROOT
from tests.dagster.browser import Browser
from tests.dagster.projects import write_project

pytestmark = pytest.mark.slow


@pytest.fixture
def ui(tmp_path: Path) -> Iterator[str]:
    """`dagster dev` on a small project, with the instance settings that operators are given; its address."""
    root = write_project(tmp_path / "shop", "schedules:\n  - {name: often, cron: '@daily', enabled: false}\n")
    home = tmp_path / "dagster_home"
    home.mkdir()
    settings = yaml.safe_load((ROOT / "infra" / "dagster" / "dagster.yaml").read_text())
    # Files instead of PostgreSQL, which tests/infra/test_stack.py starts.
    del settings["storage"]
    (home / "dagster.yaml").write_text(yaml.safe_dump(settings))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environ = {
        **os.environ,
        "DAGSTER_HOME": str(home),
        "TIDEGATE_PROJECT": str(root),
        "TIDEGATE_ENV": "local",
    }
    module = "tidegate.dagster.definitions"
    command = [sys.executable, "-m", "dagster", "dev", "-m", module, "-h", "127.0.0.1", "-p", str(port)]
    log = (tmp_path / "dagster.log").open("w")
    process = subprocess.Popen(command, env=environ, cwd=root, stdout=log, stderr=log, start_new_session=True)
    address = f"http://127.0.0.1:{port}"
    try:
        _wait_until_up(address, process, tmp_path / "dagster.log")
        yield address
    finally:
        # Its own session: web server, daemon, code server and runs all go with it.
        os.killpg(process.pid, signal.SIGINT)
        try:
            process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _wait_until_up(address: str, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + 120
    while True:
        try:
            urllib.request.urlopen(f"{address}/server_info", timeout=5).close()
            return
        except (urllib.error.URLError, OSError):
            assert process.poll() is None, log.read_text()[-4000:]
            assert time.monotonic() < deadline, log.read_text()[-4000:]
            time.sleep(0.5)


def _wait_for_a_run(address: str, seconds: float = 60) -> None:
    """Until the click has arrived: leaving the page before would take it back."""
    query = json.dumps({"query": "{ runsOrError { ... on Runs { results { id } } } }"}).encode()
    request = urllib.request.Request(f"{address}/graphql", query, {"Content-Type": "application/json"})
    deadline = time.monotonic() + seconds
    while True:
        with urllib.request.urlopen(request, timeout=20) as answer:
            if json.load(answer)["data"]["runsOrError"]["results"]:
                return
        assert time.monotonic() < deadline, "no run was launched"
        time.sleep(0.5)


def test_materialize_all_from_the_ui(ui: str, tmp_path: Path) -> None:
    with Browser(tmp_path / "profile") as page:
        page.goto(f"{ui}/asset-groups/")
        # Groups, folded: a source and the views over it.
        page.wait_for("orders")
        page.wait_for("notes")
        page.click("Materialize all")
        _wait_for_a_run(ui)
        page.goto(f"{ui}/assets/orders_hourly?view=checks")
        # A JVM, two sources, two views and their audits.
        page.wait_for("1 closed window up to 2026-03-01 10:30:00 adds up", 300)
        page.screenshot(tmp_path / "checks.png")

        page.goto(f"{ui}/assets/orders?view=events")
        page.wait_for("2026-03-01 10:30:00")
        page.wait_for("paris")
        page.click("[Show Markdown]")
        page.wait(
            "[...document.images].some(i => i.src.startsWith('data:image/png') && i.naturalWidth > 300)"
        )
        page.screenshot(tmp_path / "materialization.png")

        page.goto(f"{ui}/assets/orders?view=checks")
        page.wait_for("7 rows in 2 partitions add up", 120)
        page.wait_for("watermark_lag")
