"""`tidegate status`: how far everything is, read without a JVM."""

from __future__ import annotations

import shutil
import sys
from dataclasses import asdict
from typing import Annotated

import typer

from tidegate.cli.asked import StatusRequest, carried_out
from tidegate.cli.invocation import Invocation, guarded
from tidegate.cli.selection import ExcludeOption, NamesArgument, SelectOption


@guarded
def status(
    call: Invocation,
    names: NamesArgument = None,
    partitions: Annotated[
        bool, typer.Option("--partitions", help="Show one line per partition as well.")
    ] = False,
    select: SelectOption = None,
    exclude: ExcludeOption = None,
    group: Annotated[
        str | None,
        typer.Option(
            "--group", metavar="NAME", help="Show this group of live mode only.", show_default=False
        ),
    ] = None,
    failing: Annotated[
        bool, typer.Option("--failing", help="Show only what needs attention.", show_default=False)
    ] = False,
) -> int:
    """Show rows by outcome, watermarks and frontiers of the last commits, and what sinks have delivered. It takes about
    a second, and starts no JVM. What needs attention comes first: brokers that do not answer, partitions that stand
    still, changed definitions, missing rows. While live mode or tidegate warm runs for the project, its process
    answers, which has read the definitions already.

    Example: tidegate status flights --partitions
    """
    asked = StatusRequest(names, partitions, select, exclude, group, failing, _width())
    # (Both are refused below.)
    if not (names and (select or exclude)):
        code = carried_out(call, {"ask": "status", **asdict(asked)}, quietly=True)
        if code is not None:
            return code
    # What the answer needs takes half a second to be imported.
    from tidegate.cli.commands.questions.status_answer import tell_status

    project = call.project()
    tell_status(call.console, project, project.catalog(), asked)
    return 0


def _width() -> int | None:
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None
