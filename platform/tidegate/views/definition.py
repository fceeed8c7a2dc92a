"""Whether what is stored of a view is of its definition (R4)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from tidegate.errors import TidegateError
from tidegate.iceberg.layout import is_of_view
from tidegate.plan.column_changes import other_columns
from tidegate.views.resolve import changes_of

if TYPE_CHECKING:
    from tidegate.iceberg.tables import StoredTable
    from tidegate.runtime.context import Context
    from tidegate.sql.catalog.objects import View

#: Table property: a view below whose results were replaced since these were computed (`versions/build.py`).
STALE = "tidegate.stale"


def same_view(context: Context, view: View, table: StoredTable) -> None:
    """R4: TG506 if the results in `table` are of another definition, or of other columns of what the view reads (E3),
    or of earlier results of a view below."""
    properties = table.properties()
    stale = properties.get(STALE)
    if not is_of_view(view, properties):
        what = f'the definition of "{view.name}" has changed since its results were computed'
    elif (other := other_columns(view, properties, partial(changes_of, context))) is not None:
        what = f'the results of "{view.name}" were computed before a change: {other}'
    elif stale:
        what = f'"{view.name}" was computed from earlier results of "{stale}", which was rebuilt'
    else:
        return
    raise TidegateError(
        "TG506",
        what,
        hint=f"tidegate apply {view.name} builds a new version beside the current one, and swaps it in; "
        "or DROP it, or give the new definition another name",
        location=view.location,
    )
