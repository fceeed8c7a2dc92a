"""`tidegate sql`: statements from the prompt, from an argument, from a file, from a pipe."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tidegate.cli.invocation import Invocation, agreeing, asked, guarded
from tidegate.cli.statements import is_blank, read_script, show_result
from tidegate.errors import TidegateError

if TYPE_CHECKING:
    from tidegate.console.port import Console
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

    Outside of a project, it runs in a temporary project, which is deleted at the end.

    Example: tidegate sql -c 'SELECT * FROM departures_hourly LIMIT 5' --json
    """
    script = _script(command, file)
    if script is not None:
        text, name = script
        if is_blank(text):
            return 0
        with call.session(call.project_or_temporary()) as session:
            session.listener = call.console.event
            session.confirm = agreeing if yes else None
            run_script(session, call.console, text, name, stream=call.json)
        return 0
    from tidegate.cli.shell.loop import interact

    project = call.project_or_temporary()
    call.console.note("starting Spark …")
    with call.session(project) as session:
        session.listener = call.console.event
        session.confirm = agreeing if yes else asked
        interact(session, call.console)
    return 0


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


def run_script(session: Session, console: Console, text: str, name: str, *, stream: bool) -> None:
    """Run all statements and show each result; `stream` gives rows out as they come, whatever their
    number.
    """
    for result in session.execute_all(text, name):
        show_result(console, result, stream=stream)
