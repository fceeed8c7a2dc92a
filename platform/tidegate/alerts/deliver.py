"""Sends what is in the outbox: each message at least once, or it is told that it was given up.

A target that does not answer keeps its messages for the next tick; the others get theirs.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime

from tidegate.alerts.state import Message, State
from tidegate.errors import TidegateError
from tidegate.project.jobs.alerts import Alerts, Target

#: Sends one message; why it did not work, or None. Never raises, and never says anything of the URL.
Send = Callable[[Target, Message], str | None]

#: Seconds after which a tick sends no more: Dagster ends a sensor that takes a minute.
PATIENCE = 25.0


@dataclass(frozen=True)
class Delivery:
    """What a tick has done: the state after it, messages sent, and lines for its log (with what failed)."""

    state: State
    sent: int
    lines: tuple[str, ...]
    failed: int = 0


def deliver(
    alerts: Alerts,
    state: State,
    send: Send,
    now: datetime,
    clock: Callable[[], float] = time.monotonic,
) -> Delivery:
    """Send the outbox, oldest first. `now` (with a time zone) is what messages are too old by, `clock` are monotonic
    seconds."""
    started, left, lines = clock(), [], []
    dropped, down, sent = dict(state.dropped), set[str](), 0
    for message in state.outbox:
        target = alerts.target(message.target)
        if target is None:
            lines.append(f"{message.target}: this target does not exist any more; given up: {message.title}")
            continue
        if message.target in down or clock() - started > PATIENCE:
            left.append(message)
            continue
        missing = dropped.get(message.target, 0)
        problem = send(target, _with_missing(message, missing))
        if problem is None:
            sent += 1
            dropped.pop(message.target, None)
            lines.append(f"{message.target}: {message.title}")
            continue
        down.add(message.target)
        tries = message.tries + 1
        if now.timestamp() - message.made > alerts.give_up_after:
            dropped[message.target] = missing + 1
            lines.append(f"{message.target}: {problem}; given up after {tries} tries: {message.title}")
        else:
            left.append(replace(message, tries=tries, problem=problem))
            lines.append(f"{message.target}: {problem}; try {tries} failed: {message.title}")
    return Delivery(replace(state, outbox=tuple(left), dropped=dropped), sent, tuple(lines), len(down))


def expanded(target: Target) -> tuple[str | None, str | None]:
    """(URL, None), or (None, why there is none)."""
    try:
        return target.expanded(), None
    except TidegateError as error:
        return None, f"{error.code}: {error.message}"


def _with_missing(message: Message, missing: int) -> Message:
    if not missing:
        return message
    note = f"{missing} earlier messages could not be delivered here and were given up."
    return replace(message, body=f"{message.body}\n\n{note}")
