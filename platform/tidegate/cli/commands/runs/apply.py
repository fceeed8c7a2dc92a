"""`tidegate apply`: carry out what `tidegate plan` shows."""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from tidegate.cli.commands.runs.rebuild import rebuilt_text
from tidegate.cli.commands.runs.run import CommittedSoFar
from tidegate.cli.failures import FailFastOption, conclude, steps_for, told
from tidegate.cli.invocation import Invocation, agreeing, asked, guarded
from tidegate.cli.selection import ExcludeOption, NamesArgument, SelectOption, chosen

if TYPE_CHECKING:
    from tidegate.plan.events import Event


@guarded
def apply(
    call: Invocation,
    names: NamesArgument = None,
    yes: Annotated[
        bool, typer.Option("--yes", help="Agree that results are replaced, without being asked.")
    ] = False,
    at: Annotated[
        str | None,
        typer.Option(
            "--at",
            metavar="TIME",
            help=(
                "Swap new versions of views at exactly this event time, and wait until it is reached. Without a time "
                "zone, it is UTC."
            ),
        ),
    ] = None,
    select: SelectOption = None,
    exclude: ExcludeOption = None,
    fail_fast: FailFastOption = False,
) -> int:
    """Carry out the plan: change logs in place, build what is new, and recompute views whose query has changed.

    It asks before results are replaced; the earlier results can still be read under a tag. If something of the plan is
    refused, nothing is changed. If it is stopped at any point, the same command continues there.

    With --at, results that end at or before this time are those of the current version, and all later ones those of the
    new one. Without --at, a view that waits for such a time waits no longer.

    Example: tidegate apply orders_hourly --yes

    Example: tidegate apply orders_hourly --at '2026-12-01T00:00:00Z'
    """
    from tidegate.evolve.planning import planned

    project = call.project()
    catalog = project.catalog()
    for name in names or ():
        if name not in catalog.sinks:
            catalog.get(name)
    wanted = chosen(catalog, names, select, exclude)
    named = {} if at is None else {"at": at}
    if all(one.effect == "unchanged" for one in planned(project, catalog, wanted)):
        call.console.document(
            named | {"runs": [], "rebuilt": []}, "nothing to apply: all definitions are deployed"
        )
        return 0
    memory = CommittedSoFar("tidegate apply")
    call.on_interrupt = memory.text if at is None else lambda: _stopped(memory, at)

    def on_event(event: Event) -> None:
        memory.add(event)
        call.console.event(event)

    call.console.note("starting Spark …")
    with call.session(project) as session:
        from tidegate.session.apply import apply as carry_out

        session.confirm = agreeing if yes else asked if sys.stdin.isatty() else None
        steps = steps_for(names, fail_fast)
        done = carry_out(session, wanted, on_event, call.console.note, steps, at)
    data = {"runs": [one.to_dict() for one in done.runs], "rebuilt": [asdict(one) for one in done.rebuilt]}
    call.console.document(named | data | told(steps), "\n".join(map(rebuilt_text, done.rebuilt)))
    return conclude(call, steps.failures, steps.skipped)


def _stopped(memory: CommittedSoFar, at: str) -> str:
    """For a person who pressed Ctrl-C while it waited: what stays as it is."""
    return (
        f"{memory.text()}\ntidegate status shows which views stop at {at}; the same command continues, and tidegate "
        "apply without --at ends this"
    )
