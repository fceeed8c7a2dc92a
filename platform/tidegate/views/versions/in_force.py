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
from tidegate.sql.catalog.lineage import sources_of
from tidegate.sql.catalog.objects import View
from tidegate.sql.statements.stored_definition import stored_view
from tidegate.views.view_table import ViewTable

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from tidegate.runtime.context import Context


def open_current(context: Context, view: View) -> ViewTable:
    """The current version of a view, opened for writing; hold the lease of the view. If that is another one than the
    project's files say, the context has it in its catalog from now on, since who reads the view reads its results.
    Raises TG506 where the results are of a definition that is not in force."""
    view = _over_what_is_in_force(context, view)
    try:
        return ViewTable(context, view)
    except TidegateError as error:
        stored = context.opened(view.name) if error.code == "TG506" else None
        found = None if stored is None else _in_force(context, view, stored.properties())
        if found is None:
            raise
    _stand_in(context, found)
    return ViewTable(context, found)


def stand_on(context: Context, view: View, new: Collection[str] = ()) -> View:
    """A view whose results are computed anew, over the versions that are current of what it reads, but for those that
    are `new`. Raises TG506 if one of them is of a definition that nobody has decided on."""
    for below in sources_of(context.catalog, view):
        stored = context.opened(below.name) if isinstance(below, View) and below.name not in new else None
        if stored is None or not isinstance(below, View) or is_of_view(below, stored.properties()):
            continue
        found = _in_force(context, below, stored.properties())
        if found is None:
            raise TidegateError(
                "TG506",
                f'"{view.name}" reads "{below.name}", whose results are of an earlier definition',
                hint=f"tidegate apply {below.name} {view.name}",
                location=view.location,
            )
        _stand_in(context, found)
    return _over_what_is_in_force(context, view)


def _stand_in(context: Context, view: View) -> None:
    """Let it stand in for what the files say. What reads it is understood anew: which of its rows a tick needs, and
    when a window is closed, follows from the watermarks that it carries (D3)."""
    context.put_in_force(view)
    for reader in [one for one in context.catalog.order() if isinstance(one, View)]:
        if view.name in (one.name for one in sources_of(context.catalog, reader)):
            again = stored_view(reader.definition, context.catalog)
            if again is not None:
                context.put_in_force(replace(again, description=reader.description, location=reader.location))


def _over_what_is_in_force(context: Context, view: View) -> View:
    """The view as it is understood over the definitions that stand in for others. Raises TG506 if it can't be."""
    now = context.catalog.get(view.name)
    assert isinstance(now, View)
    for below in sources_of(context.catalog, now):
        if isinstance(below, View) and context.declared(below) is not below:
            if stored_view(now.definition, context.catalog) is None:
                raise TidegateError(
                    "TG506",
                    f'the query of "{view.name}" does not hold for the version of "{below.name}" that is current',
                    hint=f"tidegate apply {below.name}; or change the query",
                    location=view.location,
                )
            break
    return now


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
        now = _written(context, view)
    except TidegateError:
        return None  # a file that does not hold is told by whoever opens the project next
    return now if now is not None and is_of_view(now, stored) else None


def _written(context: Context, view: View) -> View | None:
    """What the project's files say of a view as they are now, whatever this session goes by."""
    now = replace(context.project, texts=None).catalog().find(view.name)
    return now if isinstance(now, View) else None


def require_newest(context: Context, view: View) -> None:
    """Results are replaced towards the newest definition only. Raises TG506 if the files have another one since this
    process read them: another process may have computed it already, and this one would take that back."""
    now = _written(context, view)
    if now is None or view_identity(now) != view_identity(view):
        raise TidegateError(
            "TG506",
            f'the definition of "{view.name}" has changed since this command read it, so its results are not replaced',
            hint="start the command again: it reads the new definition",
            location=view.location,
        )
