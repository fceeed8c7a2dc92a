"""The command `tidegate live`, with workers that have no Spark."""

from __future__ import annotations

import json
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from tests.live.test_logs import PROJECT
from tests.live.test_supervisor import WORKER
from tidegate.cli.commands.runs.live_definitions import seconds
from tidegate.cli.main import app
from tidegate.live import process


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "assets").mkdir()
    (tmp_path / "assets" / "all.sql").write_text(PROJECT)
    return tmp_path


@pytest.fixture
def commands(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[list[str]]]:
    """What was started; what runs in its place ends by itself."""
    started: list[list[str]] = []
    real = process.WorkerProcess

    def idle(command: list[str], notify: Callable[[process.Message], None]) -> process.WorkerProcess:
        started.append(command)
        return real([sys.executable, str(WORKER), "idle"], notify)

    monkeypatch.setattr(process, "WorkerProcess", idle)
    monkeypatch.setattr("tidegate.cli.invocation.Invocation.require_java", lambda self: None)
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    yield started
    for number, handler in handlers.items():
        signal.signal(number, handler)


def live(project: Path, *arguments: str) -> Any:
    return CliRunner().invoke(app, ["--project", str(project), "live", *arguments])


def test_the_worker_of_all_groups_is_told_what_was_asked_for(
    project: Path, commands: list[list[str]]
) -> None:
    options = [
        "--once-idle",
        "--port=0",
        "--interval=0.5s",
        "--max-rows-per-batch=7",
        "--no-upkeep",
        "--json",
    ]
    done = live(project, *options)
    assert done.exit_code == 0, done.output
    told = [json.loads(line) for line in done.stdout.splitlines()]
    assert told[0]["event"] == "live_started"
    assert told[0]["groups"] == ["a", "b"]
    assert told[0]["url"].startswith("http://127.0.0.1:")
    assert (told[-1]["event"], told[-1]["exit_code"], told[-1]["failed"]) == ("live_stopped", 0, [])
    assert sum(one["event"] == "tick_finished" for one in told) == 2
    (arguments,) = (command[command.index("live") + 1 :] for command in commands)
    assert arguments == [
        "--worker=*",
        "--env=local",
        f"--project={project}",
        "--hangs-after=300.0s",
        "--max-rows-per-batch=7",
        "--once-idle",
        "--no-upkeep",
    ]
    started = [(one["group"], one["names"]) for one in told if one["event"] == "worker_started"]
    assert sorted(started) == [("a", ["a", "a_minutes", "a_out"]), ("b", ["b", "b_minutes"])]


def test_a_group_that_is_to_be_alone_has_a_worker_of_its_own(
    project: Path, commands: list[list[str]]
) -> None:
    done = live(project, "--once-idle", "--no-http", "--isolate", "b_minutes")
    assert done.exit_code == 0, done.output
    assert sorted(command[command.index("live") + 1] for command in commands) == ["--worker=*", "--worker=b"]
    unknown = live(project, "--no-http", "--isolate", "b_minute")
    assert (unknown.exit_code, "TG201" in unknown.output) == (2, True)
    other = live(project, "a", "--no-http", "--isolate", "b")
    assert (other.exit_code, "--isolate b: b is not among what is to run" in other.output) == (2, True)


def test_a_group_has_the_interval_of_its_name_and_the_others_that_of_all(
    project: Path, commands: list[list[str]]
) -> None:
    done = live(project, "--once-idle", "--no-http", "--interval=0.5s", "--interval=b_minutes=1m", "--json")
    assert done.exit_code == 0, done.output
    told = [json.loads(line) for line in done.stdout.splitlines()]
    intervals = {one["group"]: one["seconds"] for one in told if one["event"] == "tick_finished"}
    assert intervals == {"a": 0.5, "b": 60.0}
    for given, whose in (
        (["2s", "5s"], "all groups: 2s and 5s"),
        (["a=1s", "a_minutes=1m"], 'the group "a": a=1s and a_minutes=1m'),
    ):
        twice = live(project, "--no-http", *(f"--interval={text}" for text in given))
        assert twice.exit_code == 2
        assert f"TG706: --interval is given twice for {whose}" in " ".join(twice.output.split())
    twice = live(project, "--no-http", "--priority=a=5", "--priority=a_minutes=6")
    assert (twice.exit_code, "TG706: --priority is given twice" in " ".join(twice.output.split())) == (
        2,
        True,
    )
    for wrong in ("5", "a=0", "a=101", "a=x", "nobody=5"):
        assert live(project, "--no-http", f"--priority={wrong}").exit_code == 2
    assert live(project, "--no-http", "--interval=b_minute=1s").exit_code == 2
    assert live(project, "--no-http", "--interval=a=soon").exit_code == 2


def test_what_jobs_say_holds_for_groups_unless_an_option_says_something_else(
    project: Path, commands: list[list[str]]
) -> None:
    (project / "jobs").mkdir()
    declared = project / "jobs" / "live.yaml"
    settings = "interval: 5 s, intervals: {b: 1 minute}, isolate: [b_minutes]"
    declared.write_text(f"live: [{{name: all, enabled: true, {settings}}}]")

    def intervals(*options: str) -> dict[str, float]:
        done = live(project, "--once-idle", "--no-http", "--json", *options)
        assert done.exit_code == 0, done.output
        told = [json.loads(line) for line in done.stdout.splitlines()]
        return {one["group"]: one["seconds"] for one in told if one["event"] == "tick_finished"}

    assert intervals() == {"a": 5.0, "b": 60.0}
    assert sorted(command[command.index("live") + 1] for command in commands) == ["--worker=*", "--worker=b"]
    assert intervals("--interval=2s") == {"a": 2.0, "b": 60.0}
    declared.write_text("live:\n- name: all\n  isolate: [b_minute]\n")
    wrong = live(project, "--no-http")
    assert (wrong.exit_code, "error TG609" in wrong.output, "jobs/live.yaml:3" in wrong.output) == (
        2,
        True,
        True,
    )


def test_one_view_brings_its_source_and_no_other_group(project: Path, commands: list[list[str]]) -> None:
    log = project / "logs" / "live.jsonl"
    done = live(project, "b_minutes", "--once-idle", "--no-http", "--log-file", str(log))
    assert done.exit_code == 0, done.output
    assert len(commands) == 1
    # Standard output of a service is the log.
    printed, kept = (
        [json.loads(line) for line in text.splitlines()] for text in (done.stdout, log.read_text())
    )
    assert printed[0]["url"] is None
    assert {one["group"] for one in printed} == {None, "b"}
    assert [one | {"timestamp": ""} for one in printed] == [one | {"timestamp": ""} for one in kept]


def test_what_can_not_work_is_said_before_anything_starts(project: Path, commands: list[list[str]]) -> None:
    unknown = live(project, "a_minute")
    assert (unknown.exit_code, "TG201" in unknown.output) == (2, True)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        done = live(project, f"--port={taken.getsockname()[1]}")
    assert (done.exit_code, "TG703" in done.output) == (2, True)
    assert live(project, "alone").exit_code == 0
    assert live(project, "--interval=soon").exit_code == 2
    for none in ("0", "0s", "0.0s", "a=0", "a=0s"):
        refused = live(project, f"--interval={none}")
        assert refused.exit_code == 2
        shown = none.removeprefix("a=")
        words = " ".join(refused.output.replace("│", " ").split())
        assert (
            f"--interval: '{shown}' leaves no time from one tick to the next: write for example 2s" in words
        )
    assert live(project, "--interval=0 seconds").exit_code == 2
    assert commands == []


def test_times_as_people_write_them() -> None:
    assert [seconds(text) for text in ("2s", "0.5s", "3", "5 minutes", "1h")] == [2, 0.5, 3, 300, 3600]
    for text in ("soon", "-1s", "nan", "inf", ""):
        with pytest.raises(typer.BadParameter):
            seconds(text)
