"""Delivery: by apprise to a real webhook; retries, what is given up, and that secrets stay where they are."""

from __future__ import annotations

import email
import json
import logging
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import ClassVar

import pytest

from tests.alerts.webhook import webhook
from tidegate.alerts import Message, State, deliver
from tidegate.alerts.send import send
from tidegate.project.jobs.alerts import Alerts, Target

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
ALERTS = Alerts.model_validate(
    {"targets": [{"name": n, "url": "json://localhost"} for n in ("team", "boss")], "give_up_after": "1 hour"}
)


def message(n: int = 1, target: str = "team") -> Message:
    return Message(target, f"title {n}", f"body {n}", "warning", NOON.timestamp())


class Service:
    """In the place of apprise: `down` are targets that do not answer."""

    def __init__(self) -> None:
        self.down: set[str] = set()
        self.got: list[tuple[str, str]] = []
        self.asked = 0

    def __call__(self, target: Target, sent: Message) -> str | None:
        self.asked += 1
        if target.name in self.down:
            return "no answer"
        self.got.append((target.name, sent.body))
        return None


def test_nothing_is_lost_while_a_target_is_down() -> None:
    service, state = Service(), State(outbox=(message(1), message(2), message(3, "boss")))
    service.down = {"team"}
    first = deliver(ALERTS, state, service, NOON)
    # The other target gets its own; the one that is down is asked once in a tick.
    assert (service.got, service.asked, first.sent) == ([("boss", "body 3")], 2, 1)
    assert first.lines == ("team: no answer; try 1 failed: title 1", "boss: title 3")
    kept = State.from_json(json.loads(json.dumps(first.state.to_json())))
    assert [(m.title, m.tries, m.problem) for m in kept.outbox] == [
        ("title 1", 1, "no answer"),
        ("title 2", 0, None),
    ]
    service.down = set()
    second = deliver(ALERTS, kept, service, NOON + timedelta(minutes=1))
    assert service.got[1:] == [("team", "body 1"), ("team", "body 2")]
    assert second.state == State()


def test_what_is_given_up_is_told_with_the_next_message() -> None:
    service, state = Service(), State(outbox=(message(1),))
    service.down = {"team"}
    for minutes in (0, 60):
        state = deliver(ALERTS, state, service, NOON + timedelta(minutes=minutes)).state
    assert len(state.outbox) == 1
    given_up = deliver(ALERTS, state, service, NOON + timedelta(minutes=61))
    assert given_up.lines == ("team: no answer; given up after 3 tries: title 1",)
    assert (given_up.state.outbox, dict(given_up.state.dropped)) == ((), {"team": 1})
    service.down = set()
    done = deliver(ALERTS, replace(given_up.state, outbox=(message(2),)), service, NOON)
    assert service.got == [
        ("team", "body 2\n\n1 earlier messages could not be delivered here and were given up.")
    ]
    assert done.state == State()


def test_a_tick_does_not_take_for_ever() -> None:
    service, times = Service(), iter(range(0, 1_000, 10))
    state = State(outbox=tuple(message(n) for n in range(6)))
    done = deliver(ALERTS, state, service, NOON, clock=lambda: float(next(times)))
    assert (done.sent, len(done.state.outbox)) == (2, 4)


def test_a_target_that_was_removed_is_said() -> None:
    done = deliver(ALERTS, State(outbox=(message(1, "gone"),)), Service(), NOON)
    assert (done.state, done.lines) == (
        State(),
        ("gone: this target does not exist any more; given up: title 1",),
    )


@pytest.mark.medium
def test_apprise_delivers_to_a_webhook(monkeypatch: pytest.MonkeyPatch) -> None:
    with webhook() as hook:
        monkeypatch.setenv("HOOK_TOKEN", "s3cr3t-token")
        target = Target(name="team", url=f"json://127.0.0.1:{hook.port}/hook/${{HOOK_TOKEN}}")
        assert send(target, message()) is None
        [got] = hook.got
        assert (got["title"], got["message"], got["type"]) == ("title 1", "body 1", "warning")
        assert hook.paths == ["/hook/s3cr3t-token"]


@pytest.mark.medium
@pytest.mark.parametrize("level", [logging.DEBUG, logging.WARNING])
def test_no_secret_is_ever_said(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, level: int
) -> None:
    caplog.set_level(level)
    monkeypatch.setenv("HOOK_TOKEN", "s3cr3t-token")
    said = []
    with webhook() as hook:
        hook.answer = 503
        target = Target(name="team", url=f"json://127.0.0.1:{hook.port}/hook/${{HOOK_TOKEN}}")
        said.append(send(target, message()))
    said.append(send(target, message()))
    said.append(send(replace_url(target, "${HOOK_TOKEN}"), message()))
    said.append(send(replace_url(target, "slack://${HOOK_TOKEN}"), message()))
    monkeypatch.delenv("HOOK_TOKEN")
    said.append(send(target, message()))
    assert said == [
        "not delivered: the service answered 503",
        "not delivered: the service did not answer",
        "apprise does not accept this (of the environment) URL",
        "apprise does not accept this slack URL",
        "TG606: environment variable HOOK_TOKEN is not set",
    ]
    assert "s3cr3t" not in caplog.text
    # Loggers are as they were.
    assert logging.getLogger("apprise").propagate


class Answer:
    """What an HTTP service says to whatever it gets."""

    status_code, content, text, headers = 200, b"ok", "ok", dict[str, str]()


class Mails:
    """In the place of an SMTP server's client."""

    sent: ClassVar[list[str]] = []

    def __init__(self, *_: object, **__: object) -> None:
        """Connects to nobody."""

    def sendmail(self, sender: str, to: object, text: str) -> None:
        self.sent.append(text)

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *_, **__: None


HOSTILE = "held back by <img src=http://127.0.0.1:9/x onerror=alert(1)>\nand by <b> & c"


def test_X4_names_in_a_message_are_no_html_to_a_mail_or_a_chat(monkeypatch: pytest.MonkeyPatch) -> None:
    posted: list[str] = []
    monkeypatch.setattr("smtplib.SMTP", Mails)
    monkeypatch.setattr("requests.post", lambda url, data=None, **_: posted.append(data) or Answer())
    hostile = replace(message(), title="title <b>x</b>", body=HOSTILE)
    mail = Target(name="team", url="mailto://me:${PW}@example.com?smtp=127.0.0.1")
    chat = Target(name="team", url="tgram://123456789:${PW}/12315544/")
    monkeypatch.setenv("PW", "abcdefg_hijklmnop")
    assert send(mail, hostile) is None
    parts = [p for p in email.message_from_string(Mails.sent.pop()).walk() if not p.is_multipart()]
    assert parts
    for part in parts:
        text = part.get_payload(decode=True).decode()  # type: ignore[union-attr]
        assert "held back by" in text
        assert part.get_content_type() == "text/plain" or "<img" not in text
    assert send(chat, hostile) is None
    [sent] = [json.loads(one) for one in posted if "text" in json.loads(one)]
    assert sent["parse_mode"] == "HTML"
    assert "&lt;img src=" in sent["text"]
    assert "<img" not in sent["text"]
    assert "<b>x" not in sent["text"]


def replace_url(target: Target, url: str) -> Target:
    return target.model_copy(update={"url": url})
