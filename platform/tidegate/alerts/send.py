"""The one place that talks to the outside: apprise."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager

from tidegate.alerts.deliver import expanded
from tidegate.alerts.state import Message
from tidegate.project.jobs.alerts import Target

_STATUS = re.compile(r"error=(\d{3})")
#: They log addresses and what they send: tokens.
_TALKATIVE = ("apprise", "urllib3", "requests")


def send(target: Target, message: Message) -> str | None:
    """Deliver one message; why it did not work, or None. What it says never has anything of the URL in it."""
    url, problem = expanded(target)
    if url is None:
        return problem
    # A tenth of a second, and only where something is to be sent.
    from apprise import Apprise, NotifyFormat, NotifyType

    with _silenced() as said:
        try:
            service = Apprise()
            if not service.add(url):
                return f"apprise does not accept this {target.service} URL"
            kinds = {kind.value: kind for kind in NotifyType}
            # Names in it are data: a service whose messages are HTML gets what they are as text.
            if service.notify(
                body=message.body,
                title=message.title,
                notify_type=kinds[message.kind],
                body_format=NotifyFormat.TEXT,
            ):
                return None
        except Exception as error:
            # What a plugin raises may have the URL in it.
            return f"not delivered ({type(error).__name__})"
    status = next((m.group(1) for line in said if (m := _STATUS.search(line))), None)
    return (
        f"not delivered: the service answered {status}"
        if status
        else "not delivered: the service did not answer"
    )


@contextmanager
def _silenced() -> Iterator[list[str]]:
    """Nobody else hears what apprise and its HTTP client log meanwhile."""
    said: list[str] = []

    class Listener(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            said.append(record.getMessage())

    listener = Listener(logging.WARNING)
    loggers = [logging.getLogger(name) for name in _TALKATIVE]
    before = [(log.level, log.propagate) for log in loggers]
    for log in loggers:
        log.addHandler(listener)
        log.setLevel(logging.WARNING)
        log.propagate = False
    try:
        yield said
    finally:
        for log, (level, propagate) in zip(loggers, before, strict=True):
            log.removeHandler(listener)
            log.setLevel(level)
            log.propagate = propagate
