"""What is there of versions that nobody continues: of one that was given up, or behind a swap (E5)."""

from __future__ import annotations

from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING

from tidegate.errors import TidegateError
from tidegate.iceberg.layout import is_of_view
from tidegate.plan.columns.changes import other_columns
from tidegate.plan.versions import BUILDING, VersionInBuilding, next_of
from tidegate.views.resolve import changes_of
from tidegate.views.versions.build import NEXT
from tidegate.views.versions.held import is_held, release

if TYPE_CHECKING:
    from tidegate.iceberg.tables import StoredTable
    from tidegate.runtime.context import Context
    from tidegate.sql.catalog.objects import View


def is_left(context: Context, view: View, before: float | None = None) -> bool:
    """Whether something is there that a process has left which was killed behind the swap, or of a version that was
    given up. `view`: as it is declared; `before`: only what was begun before, seconds since the epoch; None: at any
    time."""
    beside = context.opened(next_of(view.name))
    if beside is None:
        return False
    mark = VersionInBuilding.of_text(beside.property(BUILDING))
    if mark is not None and context.is_building(view.name) and _is_continued(context, view, beside, mark):
        return False
    return before is None or mark is None or datetime.fromisoformat(mark.started).timestamp() < before


def _is_continued(context: Context, view: View, beside: StoredTable, mark: VersionInBuilding) -> bool:
    """Whether it is of the declared definition and of today's columns, and does not go back."""
    properties = beside.properties()
    same = is_of_view(view, properties) and not mark.start
    return same and other_columns(view, properties, partial(changes_of, context)) is None


def clear_left(context: Context, view: View, before: float | None = None) -> None:
    """Remove what `is_left` of a view that needs none, which then waits for no version either. Somebody else who is at
    work on it is let alone."""
    left = is_left(context, view, before)
    # (Upkeep asks with `before`: to it, a view that waits is left as long as its version is not.)
    if not left and (before is not None or not is_held(context, view.name)):
        return
    try:
        with context.lease(view.name, NEXT):
            release(context, view.name)
            if left:
                context.forget_next(view.name)
    except TidegateError as error:
        if error.code != "TG508":
            raise
