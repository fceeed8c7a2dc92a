"""`make stack`: PostgreSQL of the distribution, Dagster on it; up, a run through its queue, down."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from infra.stack import stack as stack_module
from infra.stack.__main__ import main
from infra.stack.postgres import Postgres, StackError
from infra.stack.stack import Service, Stack
from tests.conftest import ROOT
from tests.dagster.projects import write_project

QUERY = """{ instance { daemonHealth { allDaemonStatuses { daemonType healthy required } } }
  repositoriesOrError { ... on RepositoryConnection { nodes { name location { name } assetNodes { id } } } } }"""
LAUNCH = """mutation($p: ExecutionParams!) { launchRun(executionParams: $p) {
  __typename ... on LaunchRunSuccess { run { runId } } } }"""


@pytest.fixture
def place(tmp_path: Path) -> Iterator[tuple[Path, Path]]:
    """A project, and a folder that the user postgres can get at, which pytest's own is not."""
    root = write_project(tmp_path / "shop")
    (root / "jobs").mkdir()
    (root / "jobs" / "maintenance.yaml").write_text("runs: {keep: 1 day, enabled: false}")
    folder = Path(tempfile.mkdtemp(prefix="tidegate-stack-"))
    folder.chmod(0o711)
    yield root, folder
    shutil.rmtree(folder, ignore_errors=True)


def command(root: Path, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, "-m", "infra.stack", words[0], "--project", str(root), "--dir", str(folder)]
    return subprocess.run(
        [*line, "--no-kafka", "--json", *words[1:]], cwd=ROOT, capture_output=True, text=True, check=False
    )


def ask(port: int, query: str, **variables: Any) -> Any:
    body = json.dumps({"query": query, "variables": variables}).encode()
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/graphql", body, {"content-type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)["data"]


@pytest.mark.slow
def test_the_stack_comes_up_runs_a_job_through_its_queue_and_goes_down(place: tuple[Path, Path]) -> None:
    root, folder = place
    started = command(root, folder, "start")
    try:
        assert started.returncode == 0, started.stderr
        status = json.loads(started.stdout)
        assert status["running"]
        port = status["ports"]["webserver"]
        # A second start finds everything, and starts nothing.
        assert json.loads(command(root, folder, "start").stdout) == status
        answer = ask(port, QUERY)
        (repository,) = answer["repositoriesOrError"]["nodes"]
        assert (repository["location"]["name"], len(repository["assetNodes"])) == ("tidegate", 4)
        selector = {"repositoryLocationName": "tidegate", "repositoryName": repository["name"]}
        wanted = {"selector": {**selector, "jobName": "tidegate_purge"}, "runConfigData": {}}
        run = ask(port, LAUNCH, p=wanted)["launchRun"]["run"]["runId"]
        deadline = time.monotonic() + 180
        shown = "query($r: ID!) { runOrError(runId: $r) { ... on Run { status } } }"
        state = "QUEUED"
        while state not in ("SUCCESS", "FAILURE", "CANCELED") and time.monotonic() < deadline:
            time.sleep(0.5)
            state = ask(port, shown, r=run)["runOrError"]["status"]
        assert state == "SUCCESS"
        # By then the daemon has beaten: everything that has to run does.
        daemons = ask(port, QUERY)["instance"]["daemonHealth"]["allDaemonStatuses"]
        assert [d for d in daemons if d["required"] and not d["healthy"]] == []
        # Nothing is in files: runs and events are in PostgreSQL.
        assert not list((folder / "dagster").rglob("*.db"))
    finally:
        stopped = command(root, folder, "stop")
    assert stopped.returncode == 0
    assert not any(json.loads(stopped.stdout)["services"].values())
    assert command(root, folder, "status").returncode == 1


def test_ports_are_kept_and_a_process_id_of_somebody_else_is_nobody(tmp_path: Path) -> None:
    stack = Stack(tmp_path, "local", tmp_path / "stack", kafka=False)
    first = stack._ports({})
    assert len(set(first.values())) == 3
    assert stack._ports({"webserver": 3999, "code": 4999}) | {"postgres": 0} == {
        "webserver": 3999,
        "code": 4999,
        "postgres": 0,
    }
    assert stack._pid({"pids": {"code": os.getpid()}}, "code") is None
    assert stack._pid({}, "code") is None


def test_a_process_is_known_from_its_first_moment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its environment, by which it is known, is there a moment after the process: about one start of a hundred was
    taken for a process that had ended."""
    stack = Stack(tmp_path, "local", tmp_path, kafka=False)
    monkeypatch.setattr(stack, "environment", lambda ports: {"DAGSTER_HOME": str(stack.home)})
    real, asked = stack_module._environment, []

    def late(pid: int) -> bytes:
        asked.append(pid)
        return b"" if len(asked) <= 3 else real(pid)

    monkeypatch.setattr(stack_module, "_environment", late)
    pid = stack._spawn(Service("code", ["/bin/sleep", "60"], lambda: True), {})
    try:
        assert stack._pid({"pids": {"code": pid}}, "code") == pid
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def test_nothing_runs_and_there_is_nothing_to_stop(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ["--project", str(tmp_path), "--no-kafka"]
    assert main(["status", *given]) == 1
    assert "webserver stopped" in " ".join(capsys.readouterr().out.split())
    assert main(["stop", *given]) == 0
    assert "nothing ran" in capsys.readouterr().out
    # Asking leaves nothing behind.
    assert not (tmp_path / ".tidegate").exists()


def test_without_postgresql_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("infra.stack.postgres._PLACES", ("/nowhere/*/bin",))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(StackError, match="apt-get install postgresql"):
        Postgres(tmp_path / "postgres").start(5433, lambda line: None)
