"""What a branch has computed becomes production's, without being computed again (X3, E5).

A branch reads production's own logs. So if its results are of the very definition that production's files have now, and
of a snapshot that the log still has, they are what production would compute (`vouched.py`). Their rows are the first
slice of a new version of production's view; it takes in what has come since, and is swapped in, as every version is.
Views are taken behind those that they read, and looked at again then. What the branch can't vouch for is left to
`tidegate apply`, with the reason.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING

from tidegate.errors import TidegateError
from tidegate.plan.stages import rebuild_stages
from tidegate.plan.versions import current_version, tag_of
from tidegate.plan.view_stages import KeepStage
from tidegate.runtime.steps import Steps
from tidegate.sql.catalog.objects import View
from tidegate.views.amend.rebuild import Rebuilt
from tidegate.views.amend.vouched import finished, is_here
from tidegate.views.versions.build import NEXT, VersionBuild
from tidegate.views.versions.finish import finish
from tidegate.views.versions.past import FinishedRows, begin_with
from tidegate.views.view_table import ViewTable

if TYPE_CHECKING:
    from tidegate.project import Project
    from tidegate.runtime.context import Context


def promote(
    context: Context,
    branch: Project,
    names: Iterable[str] | None = None,
    notify: Callable[[str], None] = lambda text: None,
    steps: Steps | None = None,
) -> list[Rebuilt]:
    """Let this environment have the results of a branch of it, of all views that are other ones here, or of `names`.

    One whose results the branch can't vouch for is in the answer, too, without a `tag`, with the reason as `why`.
    `steps`: takes down what fails; None: the first failure is raised. Raises TG536 if `branch` is no branch of this
    environment, or can't vouch for a view that is named; TG508, TG509 and TG531 as `rebuild`; TG535 if nobody agrees.
    """
    context.declare()
    _require_branch(context, branch)
    wanted = None if names is None else {_view(context, name).name for name in names}
    views = [o for o in context.catalog.order() if isinstance(o, View) and "$" not in o.name]
    chosen, done = dict[str, View](), list[Rebuilt]()

    def refused(view: View, why: str) -> None:
        if wanted is not None:
            raise _refused(view.name, why, f"tidegate apply {view.name} computes it", view)
        done.append(Rebuilt(view.name, why, 0))

    for view in [one for one in views if wanted is None or one.name in wanted]:
        if is_here(context, view) and chosen.keys().isdisjoint(view.reads):
            continue
        found = finished(context, view, branch, chosen)
        if isinstance(found, FinishedRows):
            chosen[view.name] = view
        else:
            refused(view, found)
    replaced = [name for name in chosen if context.stored(name) is not None]
    if replaced:
        what = (
            f"these results are replaced by those of the branch, and kept under a tag: {', '.join(replaced)}"
        )
        context.ask("TG535", what, "tidegate promote --yes")
    steps = steps or Steps(fail_fast=True)

    def one(view: View) -> None:
        with context.lease(view.name, NEXT):
            # What it reads is in its place by now.
            found = finished(context, view, branch)
            if isinstance(found, FinishedRows):
                done.append(_promoted(context, view, found, branch, notify))
            else:
                refused(view, found)

    for view in chosen.values():
        steps.do(view, partial(one, view), needed=True)
    return done


def _promoted(
    context: Context, view: View, found: FinishedRows, branch: Project, notify: Callable[[str], None]
) -> Rebuilt:
    started, why = time.monotonic(), f'its results were computed in "{branch.env_name}"'
    if context.stored(view.name) is None:
        # Nobody reads it yet: the next run takes in what has come since.
        with context.lease(view.name):
            table = ViewTable(context, view)
            stages = context.stages(
                rebuild_stages(context.catalog, view, context.project.storage.namespace_of)
            )
            stages.carry_out(KeepStage, lambda _: begin_with(context, table, found))
        frontier, groups, _ = table.totals()
        return _answer(view.name, why, 1, None, (frontier, groups), started)
    context.forget_next(view.name)
    build = VersionBuild(context, view, finished=found)
    tag = tag_of(current_version(build.current.properties()))
    finish(build, lambda text: notify(f"{view.name}: {text}"))
    frontier, groups, _ = build.table.totals()
    return _answer(view.name, why, build.mark.number, tag, (frontier, groups), started)


def _answer(
    view: str, why: str, number: int, tag: str | None, totals: tuple[str, int], started: float
) -> Rebuilt:
    return Rebuilt(view, why, number, tag, *totals, round(time.monotonic() - started, 3))


def _view(context: Context, name: str) -> View:
    found = context.catalog.get(name)
    if not isinstance(found, View):
        raise TidegateError("TG509", f'"{name}" is not a view', hint="only results of views are promoted")
    return found


def _require_branch(context: Context, branch: Project) -> None:
    own = context.project
    if branch.env.reads == own.env_name and branch.owner.project == own.owner.project:
        return
    what = f'environment "{branch.env_name}" is no branch of "{own.env_name}": it does not read it'
    raise TidegateError(
        "TG536", what, hint=f"reads: {own.env_name} in resources/{branch.env_name}.yaml makes it one"
    )


def _refused(name: str, why: str, hint: str, view: View) -> TidegateError:
    return TidegateError("TG536", f'"{name}" can\'t be promoted: {why}', hint=hint, location=view.location)
