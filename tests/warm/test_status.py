"""`tidegate status` that a worker of the project answers: the same, and no word of a worker that does not answer."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn
from unittest.mock import Mock

import pytest
from typer.testing import CliRunner

from tests.benchmarks.many.status import answering, live, make_groups
from tidegate.cli.invocation import Invocation
from tidegate.cli.main import app
from tidegate.project import Project

QUESTIONS = [
    [],
    ["--json"],
    ["--failing"],
    ["--failing", "--json"],
    ["--group", "G003"],
    ["--group", "none", "--json"],
    ["--partitions", "g003"],
    ["--select", "g001+", "--json"],
    ["--select", "tag:none"],
    ["g00"],
    ["g00", "--json"],
    # Who defines a view knows no version of it that is stored; a session does.
    ["g003_0$v1"],
]


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    found = make_groups(tmp_path, 4, busy=3, quiet=1)
    with live(found, 4):
        yield found


def say(project: Project, *words: str) -> tuple[int, str, str]:
    """Exit code, output and errors, without how far the clock is ahead of watermarks by now."""
    done = CliRunner().invoke(app, ["status", *words, "--project", str(project.root)])
    return done.exit_code, re.sub(r'"lag": [\d.]+', '"lag": 0', done.stdout), done.stderr


def refused(self: Invocation) -> NoReturn:
    raise AssertionError("the command reads the project itself")


def test_R4_a_worker_answers_status_as_the_command_itself_does(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = [say(project, *words) for words in QUESTIONS]
    assert [code for code, _, _ in alone] == [0, 0, 0, 0, 0, 2, 0, 0, 2, 2, 2, 2]
    assert "g003_1 (view) fails" in alone[0][1]
    with answering(project.root), monkeypatch.context() as patch:
        patch.setattr(Invocation, "project", refused)
        assert [say(project, *words) for words in QUESTIONS] == alone


def test_R4_status_is_of_the_files_as_they_are_now(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    with answering(project.root):
        (project.root / "assets" / "t.sql").write_text("CREATE TABLE t (n INT) APPEND ONLY;")
        with monkeypatch.context() as patch:
            patch.setattr(Invocation, "project", refused)
            code, text, errors = say(project, "t")
        assert (code, errors) == (0, "")
        assert "never run" in text
        (project.root / "assets" / "t.sql").write_text("CREATE TABLE t (n INT APPEND ONLY;")
        broken = say(project)
    # A worker that can't answer is nothing that a status speaks of.
    assert broken == say(project)
    assert broken[0] == 2
    (project.root / "assets" / "t.sql").unlink()
    with answering(project.root):
        settings = project.root / "resources" / "local.yaml"
        settings.write_text(settings.read_text().replace("{", '{"project": "other", ', 1))
        other = say(project, "--failing")
    assert other == say(project, "--failing")
    assert other[2] == ""


def test_what_a_worker_is_asked_for_is_nothing_that_a_command_refuses(project: Project) -> None:
    with answering(project.root):
        code, _, errors = say(project, "g000", "--select", "g001")
    assert code == 2
    assert "give either names as arguments, or --select and --exclude" in errors


def test_what_a_worker_fails_to_find_out_a_command_finds_out_itself(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = say(project, "--json")
    asked = Mock(side_effect=MemoryError)
    with answering(project.root), monkeypatch.context() as patch:
        patch.setattr("tidegate.cli.commands.runs.served.tell_status", asked)
        assert say(project, "--json") == alone
    assert asked.call_count == 1


def test_a_worker_that_is_only_looked_at_is_idle(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """So a monitor does not keep its Spark alive."""
    with answering(project.root) as desk, monkeypatch.context() as patch:
        time.sleep(0.2)
        patch.setattr(Invocation, "project", refused)
        assert say(project)[0] == 0
        # (It has answered a moment before it is done.)
        desk.wait(10.0)
        assert desk.idle >= 0.2
