"""How a conversation of a command and a worker ends: by Ctrl-C, by the end of the worker, by a reader that is slow or
gone."""

from __future__ import annotations

import socket
import threading
import time
from typing import Any

import pytest

from tests.warm.talking import ASK, Project, says
from tidegate.cli.asked import ask
from tidegate.errors import TidegateError
from tidegate.plan.events import RunStarted
from tidegate.warm import channel, desk
from tidegate.warm.asking import Conversation
from tidegate.warm.channel import Channel
from tidegate.warm.desk import Asked, Cancelled, Declined, Work


def test_ctrl_c_stops_the_work_and_shows_what_was_still_committed(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(desk, "_AGAIN", 0.02)
    stopped, committing = threading.Event(), threading.Event()

    def works(asked: Asked) -> int:
        asked.work.stopping.append(stopped.set)
        asked.console.note("begins")
        committing.set()
        assert stopped.wait(30)
        # A commit that had begun: what the command says of it is to be true.
        asked.console.note("committed")
        raise AssertionError

    project.worker(works)
    talk = Conversation(project.root, "local", project.console)
    codes: list[int | None] = []
    asks = threading.Thread(target=lambda: codes.append(talk.ask(ASK)))
    asks.start()
    assert committing.wait(30)
    assert not stopped.is_set()
    talk.cancel()
    asks.join(30)
    assert codes == [channel.INTERRUPTED]
    assert project.console.notes == ["begins", "committed"]


def test_ctrl_c_in_the_command_s_own_thread_waits_for_the_end(project: Project) -> None:
    ended = threading.Event()

    def works(asked: Asked) -> int:
        try:
            asked.console.event(RunStarted(("a",)))
            while not asked.work.cancelled:
                time.sleep(0.01)
            asked.work.go_on()
            raise AssertionError
        finally:
            ended.set()

    project.worker(works)

    def press(event: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Conversation(project.root, "local", project.console, press).ask(ASK)
    assert ended.is_set()


@pytest.mark.parametrize("error", [BrokenPipeError(), OSError(28, "No space left on device")])
def test_what_the_command_itself_can_t_write_does_not_repeat_it(project: Project, error: OSError) -> None:
    asks: list[Asked] = []

    def works(asked: Asked) -> int:
        asks.append(asked)
        return says(asked)

    project.worker(works)
    project.worker(works, "warm")

    def shows(event: object) -> None:
        raise error

    with pytest.raises(type(error)):
        Conversation(project.root, "local", project.console, shows).ask(ASK)
    assert len(asks) == 1


@pytest.mark.parametrize("said", [False, True])
def test_R2_a_worker_that_ends_in_order_is_no_ctrl_c(
    project: Project, monkeypatch: pytest.MonkeyPatch, said: bool
) -> None:
    monkeypatch.setattr(desk, "_AGAIN", 0.02)
    began, stopped = threading.Event(), threading.Event()

    def works(asked: Asked) -> int:
        if said:
            asked.console.note("half")
        asked.work.stopping.append(stopped.set)
        began.set()
        assert stopped.wait(30)
        asked.work.go_on()
        raise AssertionError

    worker = project.worker(works)
    ends = threading.Thread(target=lambda: (began.wait(30), worker.close()))
    ends.start()
    talk = Conversation(project.root, "local", project.console)
    if said:
        with pytest.raises(TidegateError, match="has stopped it") as error:
            ask(talk, ASK)
        assert error.value.code == "TG707"
    else:
        assert ask(talk, ASK) is None
        assert "it has stopped the command" in project.console.notes[0]
    ends.join(30)


def test_an_end_is_told_before_the_worker_counts_as_idle(project: Project) -> None:
    worker = project.worker(lambda asked: 7)
    sent = channel.Channel.send
    told: list[float] = []

    def send(self: Channel, document: dict[str, Any], *more: Any, **how: Any) -> None:
        if "end" in document:
            told.append(worker.idle)
        sent(self, document, *more, **how)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Channel, "send", send)
        assert project.ask() == 7
    assert told == [0.0]


def test_ctrl_c_before_anybody_was_asked_is_kept(project: Project) -> None:
    asks: list[Asked] = []
    project.worker(lambda asked: len(asks.append(asked) or asks))
    talk = Conversation(project.root, "local", project.console)
    talk.cancel()
    assert talk.ask(ASK) == channel.INTERRUPTED
    assert asks == []


def test_ctrl_c_while_a_worker_declines_is_kept(project: Project) -> None:
    talk = Conversation(project.root, "local", project.console)

    def declines(asked: Asked) -> int:
        talk.cancel()
        raise Declined("it has other files")

    project.worker(declines)
    assert talk.ask(ASK) == channel.INTERRUPTED
    assert project.console.notes == []


def test_half_a_line_is_the_last_thing_that_is_sent() -> None:
    one, other = socket.socketpair()
    with one, other:
        sends, reads = Channel(one), Channel(other)
        sends.beat()
        assert reads.receive(5) == {"beat": True}
        with pytest.raises(channel.Broken, match="does not read"):
            sends.send({"written": "x" * (4 << 20)}, 0.05)
        sends_again = time.monotonic()
        with pytest.raises(channel.Broken, match="is broken"):
            sends.send({"end": 0})
        assert time.monotonic() - sends_again < 5
        one.close()
        with pytest.raises(channel.Broken, match="has ended"):
            reads.receive(5)


def test_a_slow_reader_is_waited_for_and_hinders_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(channel, "_LOOKS_EVERY", 0.01)
    one, other = socket.socketpair()
    with one, other:
        work, reads = Work(Channel(one)), Channel(other)
        slow = threading.Thread(target=lambda: [work.say({"written": "x" * (4 << 20)}) for _ in range(2)])
        slow.start()
        while not work._channel._sending.locked():
            time.sleep(0.001)
        # The signs of life do not wait for it, so that whoever watches hears that it is cancelled.
        work._channel.beat()
        assert slow.is_alive()
        assert len(reads.receive(30)["written"]) == len(reads.receive(30)["written"]) == 4 << 20
        slow.join(30)
        raised: list[bool] = []

        def breaks() -> None:
            with pytest.raises(Cancelled):
                work.say({"written": "x" * (4 << 20)})
            raised.append(True)

        slow = threading.Thread(target=breaks)
        slow.start()
        work.break_off()
        slow.join(30)
        assert raised == [True]
