"""`tidegate sql`: statements from the prompt, from an argument, from a file, from a pipe."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tidegate.cli.asked import carried_out, conversation, is_somebody_there
from tidegate.cli.invocation import Invocation, agreeing, asked, guarded
from tidegate.cli.statements import is_blank, only_asks, read_script, show_result
from tidegate.errors import TidegateError

if TYPE_CHECKING:
    from tidegate.console.port import Console
    from tidegate.runtime.result import Result
    from tidegate.session.session import Session


@guarded
def sql(
    call: Invocation,
    command: Annotated[
        str | None, typer.Option("-c", "--command", help="Run these statements.", show_default=False)
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option("-f", "--file", help="Run this file; - means standard input.", show_default=False),
    ] = None,
    yes: Annotated[
        bool,
        typer.Option(
            "--yes",
            help=(
                "Agree to every question that a statement would ask, for example DROP of an object with rows."
            ),
        ),
    ] = False,
) -> int:
    """Run SQL: interactively, or with -c, -f, or from a pipe. With --json, every row is one object.

    Outside of a project, it runs in a temporary project, which is deleted at the end. While live mode or tidegate warm
    runs for the project, its process answers statements that only read, and no Spark is started.

    Example: tidegate sql -c 'SELECT * FROM departures_hourly LIMIT 5' --json
    """
    script = _script(command, file)
    if script is not None:
        text, name = script
        if is_blank(text):
            return 0
        if only_asks(text):
            code = carried_out(call, {"ask": "sql", "text": text, "name": name})
            if code is not None:
                return code
        with call.session(call.project_or_temporary()) as session:
            session.listener = call.console.event
            session.confirm = agreeing if yes else None
            run_script(session, call.console, text, name, stream=call.json)
        return 0
    _prompt(call, agreeing if yes else asked)
    return 0


def _prompt(call: Invocation, confirm: Callable[[str], bool]) -> None:
    """The prompt; Spark is started first, unless a worker of the project is there that can answer."""
    from tidegate.cli.shell.elsewhere import OtherProcess, SessionAtNeed
    from tidegate.cli.shell.loop import interact

    project = call.project_or_temporary()

    def opened() -> Session:
        call.console.note("starting Spark …")
        session = call.session(project)
        session.listener, session.confirm = call.console.event, confirm
        return session

    session = SessionAtNeed(project, opened)
    try:
        if is_somebody_there(call):
            interact(session, call.console, OtherProcess(session, partial(conversation, call)))
        else:
            session.open()
            interact(session, call.console)
    finally:
        session.close()


def _script(command: str | None, file: Path | None) -> tuple[str, str] | None:
    """(text, name for errors) of what is to be run, or None for the prompt."""
    if command is not None and file is not None:
        raise TidegateError("TG702", "-c and -f cannot be used together", hint="use only one of them")
    if command is not None:
        return command, "<command>"
    if file is not None and str(file) != "-":
        return read_script(file), str(file)
    if file is not None or not sys.stdin.isatty():
        return sys.stdin.read(), "<stdin>"
    return None


def run_script(
    session: Session,
    console: Console,
    text: str,
    name: str,
    *,
    stream: bool,
    fetched: Callable[[Result], Result] = lambda result: result,
) -> None:
    """Run all statements and show each result; `stream` gives rows out as they come, whatever their number. `fetched`:
    gives each result as it is shown.
    """
    for result in session.execute_all(text, name):
        show_result(console, fetched(result), stream=stream)
