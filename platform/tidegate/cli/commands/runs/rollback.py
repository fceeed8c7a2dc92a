"""`tidegate rollback`: a view goes back to an earlier version (E5)."""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import Annotated

import typer

from tidegate.cli.invocation import Invocation, agreeing, asked, guarded


@guarded
def rollback(
    call: Invocation,
    view: Annotated[str, typer.Argument(help="A view.", show_default=False)],
    to: Annotated[
        int | None,
        typer.Option(
            "--to", min=1, metavar="N", help="Number of the version. Default: the one before the current one."
        ),
    ] = None,
    yes: Annotated[
        bool, typer.Option("--yes", help="Agree that results are replaced, without being asked.")
    ] = False,
) -> int:
    """Let a view go back to an earlier version, without computing its results again.

    The version takes in the rows that have come since it was replaced, and takes the place of the current one in one
    commit. The version that is left stays readable. If the command is killed, it continues when it is called again.

    Example: tidegate rollback orders_hourly
    """
    project = call.project()
    project.catalog().get(view)
    call.console.note("starting Spark …")
    with call.session(project) as session:
        from tidegate.views.amend.rollback import rollback as go_back

        session.confirm = agreeing if yes else asked if sys.stdin.isatty() else None
        done = go_back(session, view, to, call.console.note)
    text = f"{done.view}: {done.why}, as version {done.generation}: {done.rows} rows, final up to {done.frontier}"
    call.console.document(asdict(done), text)
    return 0
