"""A command and a worker that talk over a socket: who is asked, what is shown, and what follows when one is gone."""

from __future__ import annotations

import os
import socket
import threading
import time
from pathlib import Path

import pytest

from tests.warm.talking import ASK, Project, says
from tidegate.cli.asked import ask
from tidegate.errors import Location, TidegateError
from tidegate.plan.events import RunStarted
from tidegate.warm import asking, channel, desk
from tidegate.warm.asking import Conversation
from tidegate.warm.channel import Channel
from tidegate.warm.desk import Asked, Declined
from tidegate.warm.places import connected, folder_of, found, listening


def test_what_a_worker_says_is_said_by_the_command(project: Project) -> None:
    project.worker(says)
    assert project.ask() == 3
    console = project.console
    assert (console.events, console.texts) == ([RunStarted(("a",))], ["1 row"])
    assert (console.documents, console.notes) == ([({"event": "report"}, "done")], ["late rows"])
    error, text = console.errors
    assert isinstance(error, TidegateError)
    direct = TidegateError("TG202", "no column", hint="look", location=Location("a.sql", 1, 2, 3, "SELECT"))
    assert (str(error), error.to_dict(), error.code) == (str(direct), direct.to_dict(), "TG202")
    assert text == "unexpected"


def test_without_a_worker_nothing_is_said(project: Project) -> None:
    assert project.ask() is None
    folder = folder_of(project.state, "local")
    folder.mkdir(mode=0o700, parents=True)
    (folder / "live-elsewhere-7").write_text("")
    stale = socket.socket(socket.AF_UNIX)
    stale.bind(str(folder / f"live-{socket.gethostname()}-7"))
    stale.close()
    assert project.ask() is None
    assert project.console.notes == []
    # The next one that listens removes what a killed one of this machine has left, and nothing of other machines.
    with listening(project.state, "local", "warm"):
        names = sorted(os.listdir(folder))
    assert names == ["live-elsewhere-7", f"warm-{socket.gethostname()}-{os.getpid()}"]
    assert os.listdir(folder) == ["live-elsewhere-7"]


def test_X4_the_socket_is_its_owner_s_alone(project: Project) -> None:
    project.worker(says)
    folder = folder_of(project.state, "local")
    (path,) = found(project.state, "local")
    assert (folder.stat().st_mode & 0o777, path.stat().st_mode & 0o777) == (0o700, 0o600)
    folder.chmod(0o750)
    assert found(project.state, "local") == []
    assert project.ask() is None


def test_X4_another_user_gets_no_answer(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    project.worker(says)
    monkeypatch.setattr(desk, "peer_user", lambda connected: os.geteuid() + 1)
    assert project.ask() is None
    assert project.console.notes == ["the running Spark of this project is not used: it does not answer"]


def test_a_path_may_be_longer_than_the_system_takes(tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 100) / ("e" * 100)
    deep.mkdir(parents=True)
    made = Project(deep)
    with made.open:
        made.worker(lambda asked: 4)
        assert made.ask() == 4


def test_a_worker_that_declines_is_told_once_and_another_one_is_asked(project: Project) -> None:
    def declines(asked: Asked) -> int:
        raise Declined("it has other files")

    project.worker(declines)
    assert project.ask() is None
    assert project.console.notes == ["the running Spark of this project is not used: it has other files"]
    project.worker(lambda asked: 5, "warm")
    assert project.ask() == 5
    assert len(project.console.notes) == 1


def test_what_a_worker_does_not_know_is_declined(project: Project) -> None:
    project.worker(says)
    assert project.ask(ask="drop") is None
    assert "does not know this command" in project.console.notes[0]


def test_a_worker_of_another_release_is_not_asked(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    project.worker(says)
    monkeypatch.setattr(desk, "PROTOCOL", channel.PROTOCOL + 1)
    assert project.ask() is None
    assert "another release" in project.console.notes[0]


GREETING = {"tidegate": desk.__version__, "protocol": channel.PROTOCOL, "nonce": "00" * 16}


@pytest.mark.parametrize("greets", [False, True])
def test_a_worker_that_hangs_is_left(project: Project, monkeypatch: pytest.MonkeyPatch, greets: bool) -> None:
    monkeypatch.setattr(asking, "_GREETING_SECONDS", 0.1)
    monkeypatch.setattr(asking, "_LIFE_SECONDS", 0.1)
    over = threading.Event()

    def hangs(connected: socket.socket) -> None:
        if greets:
            Channel(connected).send(GREETING)
        over.wait(30)

    project.raw(hangs)
    assert project.ask() is None
    over.set()
    (note,) = project.console.notes
    assert "it does not answer" in note


def test_R2_a_worker_that_ends_before_it_has_said_anything_is_replaced(project: Project) -> None:
    def ends(connected: socket.socket) -> None:
        talk = Channel(connected)
        talk.send(GREETING)
        talk.receive(30)

    project.raw(ends)
    assert project.ask() is None
    assert "it ended before it had answered" in project.console.notes[0]


def test_R2_a_worker_that_ends_in_the_middle_is_an_error(project: Project) -> None:
    def ends(connected: socket.socket) -> None:
        talk = Channel(connected)
        talk.send(GREETING)
        talk.receive(30)
        talk.send({"note": "half"})

    project.raw(ends)
    with pytest.raises(TidegateError, match="has ended") as error:
        ask(Conversation(project.root, "local", project.console), ASK)
    assert error.value.code == "TG707"


@pytest.mark.parametrize("line", [b"\n", b"[]\n", b"{\n", b"\xff\n", b'{"ask": "run"}\n'])
def test_X2_a_worker_survives_whatever_comes(project: Project, line: bytes) -> None:
    project.worker(says)
    (path,) = found(project.state, "local")
    with connected(path, 5.0) as made:
        made.sendall(line)
    assert project.ask() == 3


def test_signs_of_life_keep_a_slow_command(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(desk, "_BEAT", 0.02)
    monkeypatch.setattr(asking, "_LIFE_SECONDS", 1.0)

    def slow(asked: Asked) -> int:
        time.sleep(1.5)
        return 0

    project.worker(slow)
    assert project.ask() == 0


def test_one_command_more_than_a_worker_takes_does_its_work_itself(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(desk, "_MOST", 1)
    began, goes_on = threading.Event(), threading.Event()

    def waits(asked: Asked) -> int:
        began.set()
        return int(not goes_on.wait(30))

    worker = project.worker(waits)
    codes: list[int | None] = []
    first = threading.Thread(target=lambda: codes.append(project.ask()))
    first.start()
    assert began.wait(30)
    assert worker.idle == 0.0
    assert project.ask() is None
    assert "busy with other commands" in project.console.notes[0]
    goes_on.set()
    first.join(30)
    assert codes == [0]
    worker.close()
    worker.wait(30)
    assert project.ask() is None
