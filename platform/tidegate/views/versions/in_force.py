"""Which version of a view runs: the one whose results are stored, while the next one is built (E5).

A file may have the next definition already. Then a run goes on with the stored one until the swap, as does a live run
that has read the file before. Behind the swap, a live run finds that the file has what is stored, and takes it from
there. A view that has gone back to an earlier version goes on with that, as long as the file has the definition that
was left. Any other difference is nobody's decision yet, and is refused (TG506).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tidegate.errors import TidegateError
from tidegate.iceberg.layout import is_of_view, view_identity
from tidegate.plan.versions import LEFT, next_of
from tidegate.sql.catalog.objects import View
from tidegate.sql.statements.stored_definition import stored_view
from tidegate.views.view_table import ViewTable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tidegate.runtime.context import Context


def open_current(context: Context, view: View) -> ViewTable:
    """The current version of a view, opened for writing; hold the lease of the view. If that is another one than the
    project's files say, the context has it in its catalog from now on, since who reads the view reads its results.
    Raises TG506 where the results are of a definition that is not in force."""
    try:
        return ViewTable(context, view)
    except TidegateError as error:
        stored = context.opened(view.name) if error.code == "TG506" else None
        found = None if stored is None else _in_force(context, view, stored.properties())
        if found is None:
            raise
    context.put_in_force(found)
    return ViewTable(context, found)


def _in_force(context: Context, view: View, stored: Mapping[str, str]) -> View | None:
    """The definition of the stored results, if it is the one that runs; None if it is not."""
    if is_of_view(view, stored):
        return None
    if stored.get(LEFT) == view_identity(view):
        return stored_view(stored.get("tidegate.definition", ""), context.catalog)
    beside = context.opened(next_of(view.name))
    if beside is not None and context.is_building(view.name) and is_of_view(view, beside.properties()):
        return stored_view(stored.get("tidegate.definition", ""), context.catalog)
    return _written_since(context, view, stored)


def _written_since(context: Context, view: View, stored: Mapping[str, str]) -> View | None:
    """What the project's files say now, if that is what is stored: this process has read them before the swap."""
    try:
        # Of the files as they are now, whatever this session goes by.
        now = replace(context.project, texts=None).catalog().find(view.name)
    except TidegateError:
        return None  # a file that does not hold is told by whoever opens the project next
    return now if isinstance(now, View) and is_of_view(now, stored) else None
