"""What a branch has computed becomes production's, without being computed again (X3, E5).

A branch reads production's own logs. So if its results are of the very definition that production's files have now, and
of a snapshot that the log still has, they are what production would compute. Their rows are the first slice of a new
version of production's view; it takes in what has come since, and is swapped in, as every version is. What the branch
can't vouch for is left to `tidegate apply`, with the reason.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING

from tidegate.errors import TidegateError
from tidegate.iceberg.layout import is_of_view, quote
from tidegate.iceberg.protocol import AMENDMENTS
from tidegate.plan.columns.changes import other_columns
from tidegate.plan.gaps import RETAINED_FROM, gaps
from tidegate.plan.resets import Beyond
from tidegate.plan.stages import rebuild_stages
from tidegate.plan.versions import VALID_FROM, current_version, tag_of
from tidegate.plan.view_stages import KeepStage
from tidegate.project.owner import OWNER, Owner
from tidegate.project.storage import CATALOG
from tidegate.runtime.steps import Steps
from tidegate.sql.catalog.objects import Relation, View
from tidegate.views.amend.rebuild import Rebuilt
from tidegate.views.resolve import changes_of
from tidegate.views.versions.build import NEXT, VersionBuild
from tidegate.views.versions.finish import finish
from tidegate.views.versions.past import FinishedRows, begin_with
from tidegate.views.view_table import ViewTable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tidegate.iceberg.tables import StoredTable
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
    chosen, done = [], list[Rebuilt]()
    for view in [one for one in views if wanted is None or one.name in wanted]:
        if _is_here(context, view):
            continue
        found = finished(context, view, branch)
        if isinstance(found, FinishedRows):
            chosen.append((view, found))
        elif wanted is not None:
            raise _refused(view.name, found, f"tidegate apply {view.name} computes it", view)
        else:
            done.append(Rebuilt(view.name, found, 0))
    replaced = [view.name for view, _ in chosen if context.stored(view.name) is not None]
    if replaced:
        what = (
            f"these results are replaced by those of the branch, and kept under a tag: {', '.join(replaced)}"
        )
        context.ask("TG535", what, "tidegate promote --yes")
    steps = steps or Steps(fail_fast=True)

    def one(view: View, found: FinishedRows) -> None:
        with context.lease(view.name, NEXT):
            done.append(_promoted(context, view, found, branch, notify))

    for view, found in chosen:
        steps.do(view, partial(one, view, found), needed=True)
    return done


def finished(context: Context, view: View, branch: Project) -> FinishedRows | str:
    """What the branch has computed of a view; or why that can't be taken as it is."""
    if (before := context.before_rename(view)) is not None:
        return f'it keeps the results that are stored as "{before}", which the next run renames'
    identifier = f"{CATALOG}.{branch.env.warehouse.namespace}.{quote(view.name)}"
    if not context.tables.exists(identifier):
        return "the branch has no results of it"
    table = context.tables.open(identifier)
    now, properties = table.current(), table.properties()
    if Owner.of_text(properties.get(OWNER)) != branch.owner:
        return "its results in the namespace of the branch belong to another project or environment"
    if not is_of_view(view, properties):
        return "its results in the branch are of another definition"
    if (other := other_columns(view, properties, partial(changes_of, context))) is not None:
        return f"its results in the branch were computed before a change: {other}"
    if (why := _not_repeatable(context, view) or _not_as_computed(now.summary, properties)) is not None:
        return why
    if now.integer("tidegate.frontier") is None:
        return "it has no final results in the branch yet"
    inputs = json.loads(now.summary.get("tidegate.inputs") or "{}")
    for name in view.reads:
        log = context.opened(name)
        if log is None or not _has_read(log, inputs.get(name)):
            return f'the snapshot of "{name}" that the branch has read has expired, or is of another log'
    kept = properties.get(VALID_FROM)
    return FinishedRows(identifier, now, None if kept is None else int(kept) - 1)


def _has_read(log: StoredTable, entry: Mapping[str, int | None] | None) -> bool:
    """Whether what was read is a snapshot that this very log still has: no rows of it were erased since."""
    log.current()
    return entry is not None and entry["commit"] in log.snapshot_ids()


def _not_repeatable(context: Context, view: View) -> str | None:
    """Why two environments may have computed different rows of the same definition, or rows alone don't tell how to
    continue."""
    sources = [context.catalog.get(name) for name in view.reads]
    if any(entry.lookup for entry in view.inputs):
        return "it looks rows up as they are at each run"
    if any(not isinstance(one, Relation) or one.kind == "gate" for one in sources):
        return "it reads a view or WATERMARK(…), which each environment has for itself"
    if any(isinstance(one, Relation) and one.primary_key for one in sources):
        return "it reads a table with a PRIMARY KEY"
    if view.clock is None:
        return "no result of it is ever final"
    return "what OVER carries from run to run is not promoted" if view.over is not None else None


def _not_as_computed(summary: Mapping[str, str], properties: Mapping[str, str]) -> str | None:
    """Why rows of the branch are not what the definition gives of the log alone."""
    if int(summary.get(AMENDMENTS) or 0):
        return "the branch has amended its results"
    if gaps(summary) or RETAINED_FROM in properties:
        return "some of its results are missing in the branch, because rows were removed"
    return "its watermark was reset, and its results have not closed again" if Beyond.of(summary) else None


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


def _is_here(context: Context, view: View) -> bool:
    """Whether this environment has results of this definition already."""
    table = context.opened(view.name)
    if table is None or table.current().id is None:
        return False
    properties = table.properties()
    changes = partial(changes_of, context)
    return is_of_view(view, properties) and other_columns(view, properties, changes) is None


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
