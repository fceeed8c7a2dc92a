"""Which version of a view runs: the one whose results are stored, while the next one is built (E5).

A file may have the next definition already. Then a run goes on with the stored one until the swap, from the moment in
which somebody was told to make that, as does a live run that has read the file before. Behind the swap, a live run
finds that the file has what is stored, and takes it from there. A view that has gone back to an earlier version goes on
with that, as long as the file has the definition that was left. Any other difference is nobody's decision yet, and is
refused (TG506). Where runs have changed the columns that the stored definition names, they also continue it over the
columns of then (`plan/columns/as_seen.py`), before they say so.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from tidegate.errors import Problems, TidegateError
from tidegate.iceberg.layout import has_gone_back, is_of_view
from tidegate.plan.columns.as_seen import understood
from tidegate.plan.columns.changes import other_columns
from tidegate.plan.versions import next_of
from tidegate.sql.catalog.lineage import sources_of
from tidegate.sql.catalog.objects import View
from tidegate.sql.grammar.spelling import alike
from tidegate.store.writers import is_replaced
from tidegate.views.definition import as_stored, is_of_results, require_gates, same_view
from tidegate.views.resolve import changes_of
from tidegate.views.versions.renaming import follow, take_over
from tidegate.views.view_table import ViewTable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tidegate.runtime.context import Context


def open_current(context: Context, view: View) -> ViewTable:
    """The current version of a view, opened for writing; hold the lease of the view. If that is another one than the
    project's files say, the context has it in its catalog from now on, since who reads the view reads its results; the
    same goes for what the view reads. Raises TG506 where the results are of a definition that is not in force, and as
    `take_over` and `follow`: names that have changed are those of now then."""
    take_over(context, context.declared(view))
    follow(context, context.declared(view))
    now = in_force(context, view)
    table = ViewTable(context, now)
    context.undecided.pop(now.name, None)
    if (undecided := _undecided(context, now)) is not None:
        context.undecided[now.name] = undecided
    return table


def in_force(context: Context, view: View) -> View:
    """The definition by which the results of a view are continued, as `open_current` has it: that of the project's
    files, if nothing is stored, or if no other one is in force."""
    now = over_current(context, view)
    stored = context.opened(now.name)
    found = None if stored is None else _in_force(context, now, stored.properties())
    if found is None:
        return now
    _stand_in(context, found)
    return found


def require_decided(context: Context, view: View) -> None:
    """After a view was continued: raise TG506 if its results are to be replaced, and nobody was told to do that."""
    if (undecided := context.undecided.get(view.name)) is not None:
        raise undecided


def _undecided(context: Context, view: View) -> TidegateError | None:
    """TG506 if a view continues over columns of before a change, and nobody was told yet to replace its results by
    those of the definition in the files."""
    stored = context.opened(view.name) if _is_of_before(context, view) else None
    written = context.declared(view)
    if stored is None or _is_decided(context, written, stored.properties()):
        return None
    try:
        same_view(context, written, stored)
    except TidegateError as error:
        found = TidegateError(
            error.code,
            f"{error.message}. Its current version continues with the columns of before",
            hint=f"tidegate apply {written.name} builds a new version beside it, and swaps it in",
            location=error.location,
        )
        found.continued = True
        return found
    return None


def over_current(context: Context, view: View) -> View:
    """A view, understood over the versions that are current of all that it reads: which of their rows it needs, and
    when a window of its own is closed, follows from the watermarks that these carry (D3). Raises TG506 if its query
    does not hold for one of them."""
    stand_on_current(context, view)
    now = context.catalog.get(view.name)
    assert isinstance(now, View)
    below = context.unfit.get(now.name)
    stored = context.opened(now.name) if below is not None else None
    # (If another definition is stored, that one is asked.)
    if below is not None and (stored is None or is_of_view(now, stored.properties())):
        raise TidegateError(
            "TG506",
            f'the query of "{view.name}" does not hold for the current version of "{below}"',
            hint=f"tidegate apply {below}; or change the query",
            location=view.location,
        )
    return now


def stand_on_current(context: Context, view: View) -> None:
    """Have the versions that are current of all that a view reads in the catalog. What nobody has decided on stays as
    the files have it."""
    for below, properties in _of_other_definitions(context, view):
        found = _in_force(context, below, properties)
        if found is not None:
            _stand_in(context, found)


def require_current_below(context: Context, view: View) -> None:
    """Raise TG506 if something that a view reads is of another definition than the view was understood over."""
    others = [below.name for below, _ in _of_other_definitions(context, view)]
    for below in [*others, *filter(None, [context.unfit.get(view.name)])]:
        raise TidegateError(
            "TG506",
            f'"{view.name}" reads "{below}", whose results are of another definition',
            hint=f"tidegate apply {below} {view.name}; if it was just applied, start the command again",
            location=view.location,
        )


def _of_other_definitions(context: Context, view: View) -> Iterator[tuple[View, Mapping[str, str]]]:
    """The views that a view reads, itself or through others, whose results are not of the catalog's definition, or of
    other columns of what that reads, each behind what it reads, with the properties of their tables."""
    for found in sources_of(context.catalog, view):
        below = context.catalog.get(found.name)
        stored = context.opened(below.name) if isinstance(below, View) else None
        if stored is not None and isinstance(below, View):
            properties = stored.properties()
            if not is_of_results(context, below, properties):
                yield below, properties


def _stand_in(context: Context, view: View) -> None:
    """Let it stand in for what the files say, and understand anew what reads it."""
    context.put_in_force(view)
    for reader in [one for one in context.catalog.order() if isinstance(one, View)]:
        if view.name in (one.name for one in sources_of(context.catalog, reader)):
            again = understood(reader, reader.definition, context.catalog, reader.seen)
            if again is None:
                context.unfit[reader.name] = view.name
            else:
                context.unfit.pop(reader.name, None)
                context.put_in_force(again)


def _in_force(context: Context, view: View, stored: Mapping[str, str]) -> View | None:
    """The definition of the stored results, if it is the one that runs; None if it is not, or if the view is of it."""
    if is_of_results(context, view, stored):
        return None
    found = as_stored(context, view, stored)
    if found is not None:
        require_gates(context, found)
    if found is None or _is_of_before(context, found) or _is_decided(context, view, stored):
        return found
    # This process has read the files before the swap.
    written = _written(context, view)
    return None if written is None or not is_of_view(written, stored) else as_stored(context, written, stored)


def _is_of_before(context: Context, view: View) -> bool:
    """Whether a definition reads columns of before a change, itself or through views that do."""
    below = sources_of(context.catalog, view)
    return bool(view.seen) or any(isinstance(one, View) and one.seen for one in below)


def _is_decided(context: Context, view: View, stored: Mapping[str, str]) -> bool:
    """Whether somebody has decided what becomes of stored results, which are not of the view's definition: he has gone
    back to them, or replaces them."""
    if has_gone_back(view, stored):
        return True
    beside = context.opened(next_of(view.name))
    is_built = beside is not None and context.is_building(view.name) and is_of_view(view, beside.properties())
    return is_built or is_replaced(context.project, view.name)


def of_results(context: Context, view: View) -> View:
    """The definition of which the stored results of a view are, whether it is in force or not, over what is current of
    what it reads; that of the project's files if nothing is stored, or if nobody can read it any more. TG506 if a
    column that it names is gone, so that nobody can tell any more what its results should be."""
    stand_on_current(context, view)
    now = context.catalog.get(view.name)
    assert isinstance(now, View)
    stored = context.opened(now.name)
    if stored is None or is_of_results(context, now, properties := stored.properties()):
        return now
    found = as_stored(context, now, properties)
    if found is None:
        return now
    require_gates(context, found)
    if (other := other_columns(found, properties, partial(changes_of, context))) is not None:
        raise TidegateError(
            "TG506",
            f'the results of "{view.name}" can\'t be computed again to compare them: {other}',
            hint=f"tidegate apply {view.name} builds a new version, and swaps it in",
            location=view.location,
        )
    return found


def _written(context: Context, view: View) -> View | None:
    """What the project's files say of a view as they are now, whatever this session goes by; None if they say nothing
    that holds. (What else does not hold is told by whoever opens the project next.)"""
    now = replace(context.project, texts=None).catalog(Problems()).find(view.name)
    return now if isinstance(now, View) else None


def require_newest(context: Context, view: View) -> None:
    """Results are replaced towards the newest definition only. Raises TG506 if the files have another one since this
    process read them: another process may have computed it already, and this one would take that back."""
    now = _written(context, view)
    if now is not None and not alike(now.definition, view.definition):
        raise TidegateError(
            "TG506",
            f'the definition of "{view.name}" has changed since this command read it, so its results are not replaced',
            hint="start the command again: it reads the new definition",
            location=view.location,
        )
