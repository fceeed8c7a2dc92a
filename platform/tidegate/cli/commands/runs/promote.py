"""`tidegate promote`: results of a branch become those of the environment that it reads (X3, E5)."""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from tidegate.cli.failures import FailFastOption, conclude, steps_for, told
from tidegate.cli.invocation import Invocation, agreeing, asked, guarded
from tidegate.errors import TidegateError

if TYPE_CHECKING:
    from tidegate.project import Project
    from tidegate.views.amend.rebuild import Rebuilt


@guarded
def promote(
    call: Invocation,
    names: Annotated[
        list[str] | None,
        typer.Argument(help="Views. Default: every view that the branch has another definition of."),
    ] = None,
    yes: Annotated[
        bool, typer.Option("--yes", help="Agree that results are replaced, without being asked.")
    ] = False,
    fail_fast: FailFastOption = False,
) -> int:
    """Let the results of a branch become those of the environment that it reads, without computing them again.

    The branch is the environment of --env. Its results are taken if they are of the definitions that the files have
    now, of a snapshot of the log that still exists, and, for views over views, of the same rows below; all other views
    are listed with the reason. The earlier results can still be read under a tag.

    Example: tidegate promote --env pr-123 --yes
    """
    branch = call.project()
    production = _production(branch)
    for name in names or ():
        production.catalog().get(name)
    call.console.note("starting Spark …")
    with call.session(production) as session:
        from tidegate.views.amend.promote import promote as carry_out

        session.confirm = agreeing if yes else asked if sys.stdin.isatty() else None
        steps = steps_for(names, fail_fast)
        done = carry_out(session, branch, names or None, call.console.note, steps)
    lines = [_text(one, production.env_name) for one in done]
    if not lines and not steps.failures:
        lines = [f'nothing to promote: "{production.env_name}" has the results of all definitions']
    places = {"environment": production.env_name, "branch": branch.env_name}
    document = {**places, "views": [asdict(one) for one in done]}
    call.console.document(document | told(steps), "\n".join(lines))
    return conclude(call, steps.failures, steps.skipped, len(done))


def _production(branch: Project) -> Project:
    """The environment that a branch reads."""
    if branch.env.reads is None:
        what = f'environment "{branch.env_name}" is no branch, because it reads no other environment'
        raise TidegateError("TG536", what, hint="name the branch: tidegate promote --env pr-123")
    return type(branch).load(branch.root, branch.env.reads)


def _text(one: Rebuilt, environment: str) -> str:
    if not one.generation:
        return (
            f"{one.view}: not promoted: {one.why}; tidegate apply {one.view} --env {environment} computes it"
        )
    rest = "" if one.tag is None else f"; the earlier results can still be read as {one.tag}"
    return f"{one.view}: promoted, {one.rows:,} rows, final up to {one.frontier} ({one.seconds:.1f} s): {one.why}{rest}"
