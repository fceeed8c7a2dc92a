"""A version of a view that stops at a time, since another one takes its place there (E5): the view's table says so
(`plan.versions.HELD_AT`), and every tick of the current version asks it, whoever makes it. Or one that stands for some
seconds, since another one takes its place now (`STANDS_UNTIL`): ticks of live mode ask that. The swap removes both."""

from __future__ import annotations

from datetime import UTC, timedelta
from typing import TYPE_CHECKING

from tidegate.plan.versions import HELD_AT, STANDS_AT_MOST, STANDS_UNTIL, held_at

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from tidegate.iceberg.tables import StoredTable
    from tidegate.runtime.context import Context

#: So long a version stands at least.
_STANDS_AT_LEAST = timedelta(seconds=30)


def hold(context: Context, name: str, at: int) -> None:
    """Let the current version of a view stop at `at` (ticks of its time). A tick that is under way may still go
    beyond: whoever swaps looks at the frontier again. Raises TG508 if the catalog is a folder and somebody writes the
    view."""
    _set(context, name, at)


def release(context: Context, name: str) -> None:
    """Let the current version be computed as far as its inputs allow, if it is held. Raises TG508 as `hold`."""
    if is_held(context, name):
        _set(context, name, None)


def is_held(context: Context, name: str) -> bool:
    """Whether the current version of a view stops at a time."""
    stored = context.opened(name)
    return stored is not None and held_at(stored.property(HELD_AT)) is not None


def let_stand(context: Context, name: str, seconds: float = 0.0) -> None:
    """Have no tick of live mode go beyond the current version of a view for some seconds (at least half a minute), so
    that another version can reach it. A tick that is under way may still go beyond. Raises TG508 as `hold`, and TG502
    if others commit to the view all the time."""
    with kept_apart(context, name):
        stands = min(max(timedelta(seconds=seconds), _STANDS_AT_LEAST), STANDS_AT_MOST)
        until = (context.clock().astimezone(UTC) + stands).isoformat(timespec="seconds")
        _opened(context, name).set_properties({STANDS_UNTIL: until})


def _set(context: Context, name: str, at: int | None) -> None:
    with kept_apart(context, name):
        table = _opened(context, name)
        if held_at(table.property(HELD_AT)) != at:
            table.set_properties({HELD_AT: "" if at is None else str(at)})


def _opened(context: Context, name: str) -> StoredTable:
    table = context.tables.open(context.identifier(name), context.project.owner)
    table.current()
    return table


def kept_apart(context: Context, name: str) -> AbstractContextManager[None]:
    """From whoever else commits, where only a lease keeps two processes apart: in a catalog that is a folder."""
    return context.lease(name, "" if context.project.storage.has_folder_catalog else "$swap")
