"""A view with another name, which is not computed again (`RENAMED FROM`).

Its table gets the other name in the catalog, in one step: uuid, snapshots and files are what they were, so that sinks
continue behind what they have delivered. What leads up to this step may be done twice, and says nothing by itself: who
is killed in between leaves a view with its former name, and the next run, apply or live mode begins here again.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from tidegate.errors import TidegateError
from tidegate.iceberg.layout import is_of_view
from tidegate.store.places import FORMER, former_names, leave
from tidegate.views.versions.held import kept_apart

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tidegate.project import Storage
    from tidegate.runtime.context import Context
    from tidegate.sql.catalog.objects import View

#: Part of a view's lease: of whoever builds its next version.
_NEXT = "$next"


def take_over(context: Context, view: View) -> None:
    """Let the view have the results that are stored under its former name, if there are any, and none of its own; hold
    its lease. Raises TG506 for results that are not of its query, TG508 for those that another process writes, TG531
    for those of another owner (X3), TG607 where the catalog is a folder."""
    before = view.renamed_from
    if before is None or not _is_to_be_renamed(context, view.name, before):
        return
    with context.lease(before), context.lease(before, _NEXT), kept_apart(context, before):
        if not _is_to_be_renamed(context, view.name, before):
            return
        storage, identifier = context.project.storage, context.identifier(before)
        table = context.tables.open(identifier, context.project.owner)
        table.current()
        if (why := in_the_way(storage, view, table.properties())) is not None:
            raise refused(view, why)
        context.forget_next(before)
        names = former_names(table.property(FORMER))
        if names[-1:] != [before]:
            table.set_properties({FORMER: json.dumps([*names, before], ensure_ascii=False)})
        leave(storage, storage.namespace_of(before), before, table.location)
        context.tables.rename_table(identifier, view.name)


def in_the_way(storage: Storage, view: View, stored: Mapping[str, str]) -> str | None:
    """Why results that are stored under a view's former name can't get its present one, in words; None if they can.
    `stored`: what their table says."""
    if storage.has_folder_catalog:
        return "a catalog that is a folder can't rename a table"
    if view.gates:
        return "it reads WATERMARK(…), whose rows are stored under its name"
    if not is_of_view(view, stored):
        return "its query has changed, too"
    return None


def refused(view: View, why: str) -> TidegateError:
    """TG506, or TG607 for a catalog that can't do it."""
    before = view.renamed_from
    if "folder" in why:
        return TidegateError(
            "TG607",
            f'"{before}" can\'t be renamed to "{view.name}": {why}',
            hint=f"tidegate catalog migrate moves the catalog into a file of SQLite; or leave out RENAMED FROM: "
            f'"{view.name}" is then computed from the log',
            location=view.location,
        )
    return TidegateError(
        "TG506",
        f'"{before}" can\'t be renamed to "{view.name}": {why}',
        hint=f"rename it with the query that it had, run, and change the query then; or leave out RENAMED FROM: "
        f'"{view.name}" is then computed from the log',
        location=view.location,
    )


def _is_to_be_renamed(context: Context, name: str, before: str) -> bool:
    return context.stored(name) is None and context.stored(before) is not None
