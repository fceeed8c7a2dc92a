"""Whether what is stored of a view is of its definition, and of the present results below it (R4, E5)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from tidegate.errors import TidegateError
from tidegate.iceberg.layout import is_of_view
from tidegate.plan.columns.as_seen import as_deployed
from tidegate.plan.columns.changes import CHANGES, other_columns
from tidegate.plan.versions import STALE, replaced_below
from tidegate.views.resolve import changes_of

if TYPE_CHECKING:
    from tidegate.iceberg.protocol import Snapshot
    from tidegate.iceberg.tables import StoredTable
    from tidegate.runtime.context import Context
    from tidegate.sql.catalog.objects import View
    from tidegate.views.inputs import Pinned


def same_view(context: Context, view: View, table: StoredTable) -> Snapshot:
    """R4: TG506 if the results in `table` are of another definition, or of other columns of what the view reads (E3),
    or of earlier results of a view below. What the table said last in the reading that was checked: who commits on it
    commits on these results, or not at all."""
    now = table.current()
    properties = table.properties()
    if not is_of_view(view, properties):
        what = f'the definition of "{view.name}" has changed since its results were computed'
    elif (other := other_columns(view, properties, partial(changes_of, context))) is not None:
        what = f'the results of "{view.name}" were computed before a change: {other}'
    elif (stale := stale_below(context, table, now)) is not None:
        raise _stale(view, stale)
    else:
        return now
    raise _other(view, what)


def is_of_results(context: Context, view: View, stored: Mapping[str, str]) -> bool:
    """Whether results are of the view's definition, and of the columns that it reads. `stored`: what their table
    says."""

    def changes(name: str) -> str | None:
        table = context.opened(name)
        return None if table is None else table.property(CHANGES)

    return is_of_view(view, stored) and other_columns(view, stored, changes) is None


def as_stored(context: Context, view: View, stored: Mapping[str, str]) -> View | None:
    """A view by the definition of its stored results, over what the context's catalog has, and as this definition knows
    it; None if that does not hold any more. `stored`: what its table says."""

    def log(name: str) -> Mapping[str, str] | None:
        table = context.opened(name)
        return None if table is None else table.properties()

    return as_deployed(view, stored, context.catalog, log)


def require_gates(context: Context, view: View) -> None:
    """TG506 if a definition that `as_stored` has found reads a gate of WATERMARK(…) that no definition in the catalog
    has: nobody brings that up to date."""
    for gate in view.gates:
        if context.catalog.find(gate.name) is None:
            what = f'the results of "{view.name}" were computed over {gate.definition}'
            raise _other(view, f"{what}, which no definition has that this process has read")


def stale_below(context: Context, table: StoredTable, now: Snapshot) -> str | None:
    """The view below whose present results are not those that the results in `table` were computed from. `now`: its
    newest snapshot."""

    def life(name: str) -> str | None:
        below = context.opened(name)
        return None if below is None else below.uuid

    return replaced_below(now.summary, life) or table.property(STALE) or None


def same_inputs(view: View, table: StoredTable, base: Snapshot, pinned: Sequence[Pinned]) -> None:
    """TG506 if a commit on `base`, of the view's `table`, would put results of other inputs on those that are there: of
    another version of a view below (E5), or of a column that is another one by now (E2, E3), which a process that has
    the view open does not know. As they were pinned, so that no swap and no change can come in between."""
    lives = {p.input.name: p.life for p in pinned}
    stale = replaced_below(base.summary, lives.get)
    if stale is not None:
        raise _stale(view, stale)
    logs = {p.input.name: p.opened for p in pinned if p.life is None and p.opened is not None}

    def changes(name: str) -> str | None:
        return logs[name].property(CHANGES) if name in logs else None

    if (other := other_columns(view, table.properties(), changes)) is not None:
        raise _other(view, f'the results of "{view.name}" were computed before a change: {other}')


def _stale(view: View, below: str) -> TidegateError:
    return _other(view, f'"{view.name}" was computed from earlier results of "{below}", which was rebuilt')


def _other(view: View, what: str) -> TidegateError:
    return TidegateError(
        "TG506",
        what,
        hint=f"tidegate apply {view.name} builds a new version beside the current one, and swaps it in; "
        "or DROP it, or give the new definition another name",
        location=view.location,
    )
