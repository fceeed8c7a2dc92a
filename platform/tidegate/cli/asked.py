"""Commands that a running worker of the project carries out instead of this process (`warm`)."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidegate.cli.invocation import Invocation
from tidegate.errors import TidegateError

if TYPE_CHECKING:
    from tidegate.plan.events import Event
    from tidegate.warm.asking import Conversation


@dataclass(frozen=True)
class StatusRequest:
    """What `tidegate status` was asked for. `width`: of the terminal that shows it, in characters; None: no limit."""

    names: list[str] | None = None
    partitions: bool = False
    select: list[str] | None = None
    exclude: list[str] | None = None
    group: str | None = None
    failing: bool = False
    width: int | None = None


def carried_out(
    call: Invocation,
    request: Mapping[str, Any],
    on_event: Callable[[Event], None] | None = None,
    quietly: bool = False,
) -> int | None:
    """The exit code, if a worker has done it; None: this process has to. Somebody who wants tracebacks of this process
    gets them. `quietly`: it is not said why a worker has not done it."""
    return None if call.debug else ask(conversation(call, on_event), request, quietly)


def ask(talk: Conversation, request: Mapping[str, Any], quietly: bool = False) -> int | None:
    """As `Conversation.ask`. Raises TG707."""
    from tidegate.warm.asking import Lost

    try:
        return talk.ask(request, quietly)
    except Lost as error:
        raise TidegateError(
            "TG707",
            f"the process that carried out this command {error}",
            hint="what was committed is kept; run the same command again",
        ) from None


def conversation(call: Invocation, on_event: Callable[[Event], None] | None = None) -> Conversation:
    """With a worker of the project, about one command."""
    from tidegate.warm.asking import Conversation

    return Conversation(project_folder(call), call.env, call.console, on_event)


def is_somebody_there(call: Invocation) -> bool:
    """Whether there may be a worker of the project."""
    from tidegate.warm.places import found

    return not call.debug and bool(found(project_folder(call) / ".tidegate", call.env))


def project_folder(call: Invocation) -> Path:
    """The folder of the project, which need not be one."""
    return Path(os.path.abspath(Path(call.root).expanduser()))
