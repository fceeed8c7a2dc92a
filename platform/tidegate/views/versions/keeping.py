"""The earlier versions of a view go: by DROP, or when their retention has passed (E5). Their files go with the next
expiry of snapshots."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING

from tidegate.errors import TidegateError
from tidegate.plan.versions import KEPT, KeptVersion, kept_text, kept_versions, tag_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tidegate.runtime.context import Context

#: How often it is tried anew where another commit was faster.
_TRIES = 5


def beyond(properties: Mapping[str, str], keep: float | None, now: float) -> list[int]:
    """The earlier versions of a view's table whose retention has passed. `keep`: seconds, None: for ever; `now`:
    seconds since the epoch."""
    if keep is None:
        return []
    return [
        one.number
        for one in kept_versions(properties)
        if datetime.fromisoformat(one.until).timestamp() + keep < now
    ]


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
