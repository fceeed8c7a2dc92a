"""`tidegate rebuild`: a changed query's results, computed beside the old ones and swapped at the end (R4)."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from tidegate.cli.failures import FailFastOption, conclude, steps_for, told
from tidegate.cli.invocation import Invocation, guarded

if TYPE_CHECKING:
    from tidegate.views.amend.rebuild import Rebuilt


@guarded
def rebuild(
    call: Invocation,
    names: Annotated[
        list[str] | None,
        typer.Argument(
            help=(
                "Views; views that read them are rebuilt, too. Default: every view whose definition "
                "has changed."
            )
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be rebuilt, but write nothing.")
    ] = False,
    fail_fast: FailFastOption = False,
) -> int:
    """Recompute views whose query was changed, from the oldest rows that are kept, and swap at the end.

    Until the swap, everybody reads the old results; after it, they can still be read under a tag. If the command is
    killed before the swap, nothing has changed.

    Example: tidegate rebuild departures_hourly
    """
    project = call.project()
    catalog = project.catalog()
    for name in names or ():
        catalog.get(name)
    call.console.note("starting Spark …")
    with call.session(project) as session:
        from tidegate.views.amend.rebuild import rebuild as rebuild_views

        steps = steps_for(names, fail_fast)
        done = rebuild_views(session, names or None, dry_run, call.console.note, steps)
    lines = [rebuilt_text(one, dry_run) for one in done]
    if not lines and not steps.failures:
        lines = ["nothing to rebuild: no definition has changed"]
    document = {"dry_run": dry_run, "views": [asdict(one) for one in done]}
    call.console.document(document | told(steps), "\n".join(lines))
    return conclude(call, steps.failures, steps.skipped, len(done))


def rebuilt_text(one: Rebuilt, dry_run: bool = False) -> str:
    """What became of one view, for people."""
    if one.tag is None:
        return f"{one.view}: {'would be rebuilt' if dry_run else 'nothing to do'}: {one.why}"
    swapped = "" if one.at is None else f", swapped in at {one.at}"
    return (
        f"{one.view}: rebuilt because {one.why}: {one.rows:,} rows, final up to "
        f"{one.frontier}{swapped} ({one.seconds:.1f} s); the earlier results can still be read as "
        f"{one.tag}"
    )
