"""The earlier versions of a view go: by DROP, or when their retention has passed (E5). Their files go with the next
expiry of snapshots."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING

from tidegate.errors import TidegateError
from tidegate.plan.versions import (
    BUILDING,
    KEPT,
    KeptVersion,
    VersionInBuilding,
    kept_text,
    kept_versions,
    next_of,
    tag_of,
    version_of,
)
from tidegate.store.positions import read_position

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tidegate.runtime.context import Context

#: How often it is tried anew where another commit was faster.
_TRIES = 5


def beyond(
    context: Context, view: str, properties: Mapping[str, str], keep: float | None, now: float
) -> list[int]:
    """The earlier versions of a view's table whose retention has passed, and that no sink and no version in building
    has yet to go on from (E5).
    `keep`: seconds, None: for ever; `now`: seconds since the epoch."""
    if keep is None:
        return []
    old = [
        one.number
        for one in kept_versions(properties)
        if datetime.fromisoformat(one.until).timestamp() + keep < now
    ]
    needed = _read_by_sinks(context, view) if old else set()
    beside = context.opened(next_of(view)) if old else None
    building = None if beside is None else VersionInBuilding.of_text(beside.property(BUILDING))
    # The files of the version that it begins with are its own.
    begun = "" if building is None else building.start
    return [number for number in old if number not in needed and tag_of(number) != begun]


def _read_by_sinks(context: Context, view: str) -> set[int]:
    found = (read_position(context.project.storage, sink) for sink in context.catalog.sinks.of(view))
    return {version_of(position.table) for position, _ in filter(None, found)}


def forget_versions(context: Context, view: str, which: Callable[[KeptVersion], bool]) -> list[int]:
    """Let go of the earlier versions of a view for which `which` is true, in one commit; their numbers."""
    for left in reversed(range(_TRIES)):
        stored = context.stored(view)
        if stored is None:
            return []
        table = context.tables.open(stored, context.project.owner)
        table.current()
        kept = kept_versions(table.properties())
        gone = [one.number for one in kept if which(one)]
        if not gone:
            return []
        rest = kept_text(one for one in kept if one.number not in gone)
        try:
            table.forget_tags([tag_of(number) for number in gone], {KEPT: rest})
            return gone
        except TidegateError as error:
            if error.code != "TG502" or not left:
                raise
    return []
