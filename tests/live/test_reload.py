"""Definitions that change while live mode runs (E7): `tidegate reload`, SIGHUP and --watch, with workers that have no
Spark."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.live.test_logs import PROJECT, SOURCE, VIEW
from tests.live.test_supervisor import WORKER
from tidegate.cli.commands.runs.live_definitions import LiveRequest, read_definitions
from tidegate.cli.main import app
from tidegate.live import process
from tidegate.live.reloading import Reloader
from tidegate.project import Project
from tidegate.store.machine import CpuUse
from tidegate.store.writers import GroupLoad, LateGroup, LiveRecord, OverdueGroup, is_here, recorded, running

SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1)
ALL = LiveRequest(None, None, None, (), ())


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "assets").mkdir()
    (tmp_path / "assets" / "all.sql").write_text(PROJECT)
    return tmp_path


class Live:
    """`tidegate live` in the main thread, as signals want it, and what another thread does meanwhile."""

    def __init__(self, root: Path) -> None:
        self.root, self.file = root, root / "assets" / "all.sql"
        self.said: list[dict[str, Any]] = []
        self._log = root / "live.jsonl"
        self._failed: list[BaseException] = []

    def runs(self, meanwhile: Callable[[], None], *options: str) -> None:
        def work() -> None:
            try:
                self.until(lambda: len(self.events("tick_finished")) >= 2)
                meanwhile()
            except BaseException as error:
                self._failed.append(error)
            finally:
                os.kill(os.getpid(), signal.SIGTERM)

        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        command = ["--project", str(self.root), "live", "--port=0", "--log-file", str(self._log), *options]
        done = CliRunner().invoke(app, command)
        thread.join(30)
        if self._failed:
            raise self._failed[0]
        assert done.exit_code == 0, done.output

    def events(self, kind: str) -> list[dict[str, Any]]:
        lines = self._log.read_text().splitlines() if self._log.exists() else []
        return [one for one in map(json.loads, lines) if one["event"] == kind]

    def until(self, what: Callable[[], object]) -> None:
        deadline = time.monotonic() + 30
        while not what():
            assert time.monotonic() < deadline, self._log.read_text()
            time.sleep(0.02)

    def reload(self, *options: str) -> Any:
        return CliRunner().invoke(app, ["--project", str(self.root), "--json", "reload", *options])


@pytest.fixture
def live(project: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Live]:
    real = process.WorkerProcess

    def started(command: list[str], notify: Callable[[process.Message], None]) -> process.WorkerProcess:
        return real([sys.executable, str(WORKER), "work"], notify)

    monkeypatch.setattr(process, "WorkerProcess", started)
    monkeypatch.setattr("tidegate.cli.invocation.Invocation.require_java", lambda self: None)
    monkeypatch.setattr("sys.stdin.isatty", lambda: False, raising=False)
    handlers = {number: signal.getsignal(number) for number in SIGNALS}
    yield Live(project)
    for number, handler in handlers.items():
        signal.signal(number, handler)


def test_E7_a_reload_concerns_only_the_groups_whose_definitions_are_others(live: Live) -> None:
    """The worker of a says what it was told; b does not begin again."""

    def meanwhile() -> None:
        live.file.write_text(PROJECT.replace("'1 minute'", "'2 minutes'", 1) + SOURCE.format(name="c"))
        done = live.reload()
        assert done.exit_code == 0, done.output
        (found,) = json.loads(done.output)["processes"]
        assert (found["began"], found["ended"], found["refused"]) == (["a", "c"], [], None)
        assert found["members"] == ["a", "a_minutes", "a_out", "b", "b_minutes", "c"]
        live.until(lambda: len(live.events("tick_finished")) == 4)
        (loaded,) = live.events("definitions_loaded")
        assert (loaded["began"], loaded["ended"], loaded["unchanged"]) == (["a", "c"], [], 1)
        assert [one["group"] for one in live.events("worker_spawned")] == ["a", "b", "c", "a"]
        # A comment costs nothing, and an object that is gone its group.
        live.file.write_text(live.file.read_text().replace(VIEW.format(name="b_minutes", of="b"), ""))
        os.kill(os.getpid(), signal.SIGHUP)
        live.until(lambda: len(live.events("definitions_loaded")) == 2)
        live.until(lambda: len(live.events("tick_finished")) == 5)
        live.file.write_text(live.file.read_text() + "\n-- Nothing.\n")
        assert live.reload().exit_code == 0
        assert live.events("definitions_loaded")[-1]["unchanged"] == 3
        live.file.write_text(SOURCE.format(name="b"))
        assert json.loads(live.reload().output)["processes"][0]["ended"] == ["a", "c"]
        live.until(lambda: len(live.events("worker_exited")) == 4)
        assert len(live.events("tick_finished")) == 5

    live.runs(meanwhile)
    (stopped,) = live.events("live_stopped")
    assert (stopped["exit_code"], stopped["failed"]) == (0, [])
    # Nothing is left of it, and who asks is told so.
    assert running(live.root / ".tidegate", "local") == []
    gone = live.reload()
    assert (gone.exit_code, json.loads(gone.output)["error"]["code"]) == (2, "TG710")


def test_E7_what_is_wrong_or_would_replace_results_leaves_everything_as_it_was(
    live: Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    def meanwhile() -> None:
        live.file.write_text(PROJECT.replace("count(*)", "count(", 1))
        wrong = live.reload()
        assert (wrong.exit_code, "TG1" in wrong.output) == (2, True)
        # The same by a signal: nobody has checked it before.
        os.kill(os.getpid(), signal.SIGHUP)
        live.until(lambda: live.events("definitions_refused"))
        (told,) = live.events("definitions_refused")
        assert (told["level"], told["error"]["location"]["line"]) == ("warning", 6)
        live.file.write_text("CREATE TABLE alone (k INT);")
        nothing = json.loads(live.reload().output)["processes"][0]
        assert nothing["refused"]["error"]["code"] == "TG709"
        assert nothing["members"] == ["a", "a_minutes", "a_out", "b", "b_minutes"]
        assert len(live.events("worker_spawned")) == 2
        live.file.write_text(PROJECT)
        good = json.loads(live.reload().output)["processes"][0]
        assert (good["refused"], good["began"]) == (None, [])

    live.runs(meanwhile)


def test_E7_with_watch_a_change_is_taken_up_when_it_stands_still(live: Live) -> None:
    def meanwhile() -> None:
        live.file.write_text(PROJECT + SOURCE.format(name="c"))
        live.until(lambda: live.events("definitions_loaded"))
        assert live.events("definitions_loaded")[0]["began"] == ["c"]

    live.runs(meanwhile, "--watch")


def test_two_who_ask_at_once_get_one_look_and_a_change_that_goes_on_none() -> None:
    looks: list[float] = []
    state = [0]
    going = threading.Event()

    def fingerprint() -> int:
        if going.is_set():
            state[0] += 1
        return state[0]

    with Reloader(lambda: looks.append(time.monotonic()), fingerprint, every=0.02) as reloader:
        going.set()
        time.sleep(0.2)
        assert looks == []
        going.clear()
        deadline = time.monotonic() + 20
        while not looks:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        time.sleep(0.1)
        assert len(looks) == 1
        reloader.ask()
        while len(looks) < 2:
            assert time.monotonic() < deadline
            time.sleep(0.01)
    time.sleep(0.05)
    assert len(looks) == 2


def test_a_record_is_of_a_process_that_lives(tmp_path: Path) -> None:
    now = time.time()
    record = LiveRecord(now, now, ("a", "b"))
    with recorded(tmp_path, "local", record) as file:
        assert running(tmp_path, "local") == [record]
        assert running(tmp_path, "production") == []
        late = LateGroup("a", 2.0, 3.0, 0.5)
        file.change(began=("a",), late=(late,))
        (found,) = running(tmp_path, "local")
        assert (found.loads, found.cpu) == ((), None)
        file.change(cpu=CpuUse(1.9, 2.0))
        (found,) = running(tmp_path, "local")
        assert found.cpu == CpuUse(1.9, 2.0)
        file.change(loads=(GroupLoad("a", 0.5, 0.25, 10.0, 20),))
        (found,) = running(tmp_path, "local")
        assert found.loads == (GroupLoad("a", 0.5, 0.25, 10.0, 20),)
        file.change(overdue=(OverdueGroup("a", 7.5, members=("a", "v")),))
        (found,) = running(tmp_path, "local")
        assert found.overdue == (OverdueGroup("a", 7.5, members=("a", "v")),)
        assert (found.began, found.late, is_here(found)) == (("a",), (late,), True)
        # One whose lock nobody holds is removed by who reads it; one that is held is of a process that lives, though
        # its number is not known here, as that of another container.
        folder = tmp_path / "live" / "local"
        (folder / "x-7.json").write_text(json.dumps(asdict(record) | {"pid": 7}))
        assert len(running(tmp_path, "local")) == 1
        assert not (folder / "x-7.json").exists()
        with recorded(tmp_path, "local", LiveRecord(now, now, (), pid=2**22 + 1)):
            there = [one for one in running(tmp_path, "local") if one.pid != record.pid]
            assert [is_here(one) for one in there] == [False]
        (tmp_path / "live" / "local" / "x.json").write_text('{"pid": ')
        assert len(running(tmp_path, "local")) == 1
    assert running(tmp_path, "local") == []


def test_definitions_are_those_of_the_files_as_they_were_read(project: Path) -> None:
    loaded = Project.load(project)
    before = read_definitions(loaded, ALL)
    (project / "assets" / "all.sql").write_text("half a sta")
    assert before.project.catalog().find("a_minutes") is not None
    assert before.document()["definitions"] == (("assets/all.sql", PROJECT),)
    (project / "assets" / "all.sql").write_text(PROJECT.replace("count(*) AS n", "count(*) AS  n"))
    again = read_definitions(before.project, ALL)
    assert (again.likeness != before.likeness, again.groups) == (True, before.groups)
    slower = read_definitions(loaded, LiveRequest(None, None, None, (), ("b=1m",)))
    assert slower.changed_since(again) == {"b"}


def test_E7_settings_of_jobs_hold_after_a_reload_and_changed_ones_are_taken_up(live: Live) -> None:
    def seconds() -> dict[str, float]:
        return {one["group"]: one["seconds"] for one in live.events("tick_finished")}

    def say(text: str) -> None:
        (live.root / "jobs" / "live.yaml").write_text(f"live: [{{name: all, enabled: true, {text}}}]")

    def meanwhile() -> None:
        assert seconds() == {"a": 50.0, "b": 40.0}
        live.file.write_text(PROJECT.replace("'1 minute'", "'2 minutes'", 1))
        assert json.loads(live.reload().output)["processes"][0]["began"] == ["a"]
        live.until(lambda: len(live.events("tick_finished")) == 3)
        assert seconds() == {"a": 50.0, "b": 40.0}
        say("intervals: {a_out: 30 s, b: 20 s}, isolate: [a_minutes]")
        assert json.loads(live.reload().output)["processes"][0]["began"] == ["a"]
        live.until(lambda: len(live.events("tick_finished")) == 4)
        assert seconds() == {"a": 30.0, "b": 40.0}
        say("isolate: [a_minute]")
        wrong = live.reload()
        assert (wrong.exit_code, json.loads(wrong.output)["error"]["code"]) == (2, "TG609")
        os.kill(os.getpid(), signal.SIGHUP)
        live.until(lambda: live.events("definitions_refused"))
        (told,) = live.events("definitions_refused")
        assert (told["error"]["code"], told["error"]["location"]["file"]) == ("TG609", "jobs/live.yaml")
        say("interval: 50 s")
        assert json.loads(live.reload().output)["processes"][0]["began"] == ["a"]
        live.until(lambda: len(live.events("tick_finished")) == 5)
        assert seconds() == {"a": 50.0, "b": 40.0}

    (live.root / "jobs").mkdir()
    say("interval: 50 s")
    live.runs(meanwhile, "--interval=b=40s")
