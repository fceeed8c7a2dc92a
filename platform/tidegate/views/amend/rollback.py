"""A view goes back to an earlier version (E5). It begins with the rows that this version had at the swap, and takes in
what has come since. When it is as far as the current one, it takes its place, as every version does."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from tidegate.errors import TidegateError
from tidegate.iceberg.layout import is_of_view
from tidegate.iceberg.versions.swap import VersionStart
from tidegate.plan.columns.changes import other_columns
from tidegate.plan.versions import LEFT, KeptVersion, current_version, kept_versions, says_lives, tag_of
from tidegate.sql.catalog.objects import View
from tidegate.views.amend.rebuild import Rebuilt
from tidegate.views.definition import as_stored
from tidegate.views.resolve import changes_of
from tidegate.views.revisions.erased_windows import marks_of_continued
from tidegate.views.versions.build import NEXT, VersionBuild
from tidegate.views.versions.finish import finish
from tidegate.views.versions.held import release
from tidegate.views.versions.in_force import stand_on_current
from tidegate.views.versions.past import past_of

if TYPE_CHECKING:
    from tidegate.iceberg.tables import StoredTable
    from tidegate.runtime.context import Context


def rollback(
    context: Context,
    name: str,
    to: int | None = None,
    notify: Callable[[str], None] = lambda text: None,
) -> Rebuilt:
    """Let a view go back to version `to`; None: to the one before the current one. As long as its file has the
    definition that is left, runs continue with the earlier one. Views that read it have to be rebuilt.

    Raises TG201 if this version can't be read any more, TG506 if its definition does not hold any more, TG508 if a new
    version is built now, TG509 for a name that is no view, TG535 if nobody agrees, TG543 if rows that it needs are
    gone, and what the current version has can't be kept in their place.
    """
    context.declare()
    view = context.catalog.get(name)
    if not isinstance(view, View):
        raise TidegateError("TG509", f'"{name}" is not a view', hint="only views have versions")
    started = time.monotonic()
    stand_on_current(context, view)
    with context.lease(view.name, NEXT):
        table = context.opened(view.name)
        chosen = None if table is None else _chosen(table, to)
        if table is None or chosen is None:
            which = "earlier version" if to is None else f"version {to}"
            hint = "tidegate rebuild computes the results of the definition in the file"
            raise TidegateError("TG201", f'there is no {which} of "{view.name}"', hint=hint)
        start = _start(context, table, chosen)
        old = _definition(context, view, chosen, start)
        what = _agreed_to(context, old, table, chosen, start)
        context.ask("TG535", what, "tidegate rollback --yes", view.location)
        # (Of the same definition, it may have seen other columns.)
        same = is_of_view(view, chosen.definition) and not old.seen
        left = {} if same else {LEFT: view.definition}
        release(context, view.name)
        build = VersionBuild(context, old, start)
        finish(build, notify, left | chosen.of_rows | marks_of_continued(chosen, table, build.mark.number))
    notify(f"{view.name}: version {build.mark.number} is version {chosen.number}, continued")
    frontier, groups, _ = build.table.totals()
    why, tag = f"it goes back to version {chosen.number}", tag_of(chosen.number)
    return Rebuilt(
        view.name, why, build.mark.number, tag, frontier, groups, round(time.monotonic() - started, 3)
    )


def _chosen(table: StoredTable, to: int | None) -> KeptVersion | None:
    kept = kept_versions(table.properties())
    return next((one for one in reversed(kept) if to in (None, one.number)), None)


def _agreed_to(
    context: Context, old: View, table: StoredTable, chosen: KeptVersion, start: VersionStart
) -> str:
    """What happens, in words. Raises TG543 as `past_of`."""
    what = f'"{old.name}" goes back to version {chosen.number}, which was replaced at {chosen.until}'
    past = past_of(context, old, table, start.summary, start)
    if past is None:
        return what
    edge = old.kind.format(past.valid_from)
    return (
        f"{what}; rows that it needs are beyond their retention, so results that end before {edge}, and that version "
        f"{chosen.number} does not have, stay those of the current version"
    )


def _start(context: Context, table: StoredTable, chosen: KeptVersion) -> VersionStart:
    tag = tag_of(chosen.number)
    return VersionStart(tag, table.at(tag).facts)


def _definition(context: Context, view: View, chosen: KeptVersion, start: VersionStart) -> View:
    """What the version computes. Raises TG506 if that is not what it would compute today."""
    old = as_stored(context, view, chosen.definition)
    other = None
    if old is not None:
        other = other_columns(old, chosen.definition, partial(changes_of, context))
        other = other or _unknown_below(context, old, start)
    if old is not None and other is None:
        return old
    why = other or "what it reads is not there any more, or has other columns"
    raise TidegateError(
        "TG506",
        f'version {chosen.number} of "{view.name}" can be read, but not continued: {why}',
        hint=f'SELECT * FROM "{view.name}$v{chosen.number}" has its results',
        location=view.location,
    )


def _unknown_below(context: Context, view: View, start: VersionStart) -> str | None:
    """Why nobody can tell whether rows of an earlier release were computed from the present results below; None if that
    is known."""
    for name in view.reads:
        below = context.opened(name) if isinstance(context.catalog.get(name), View) else None
        replaced = below is not None and current_version(below.properties()) > 1
        if replaced and not says_lives(start.summary, name):
            return f'it is of an earlier release, and does not say which results of "{name}" it has read'
    return None
