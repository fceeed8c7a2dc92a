"""ALTER of what live mode writes: that has the lease, so it makes the change, and the statement asks it to (E7)."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING

from tidegate.errors import TidegateError, text_of
from tidegate.iceberg.layout import relation_identity
from tidegate.store.metadata import load_table
from tidegate.store.writers import LiveRecord, ask_to_reload, is_here, running

if TYPE_CHECKING:
    from tidegate.errors import Location
    from tidegate.runtime.context import Context
    from tidegate.sql.catalog.objects import Relation

#: Processes of live mode that write a relation.
Live = tuple[LiveRecord, ...]

#: Of the lease of whoever changes a definition beside live mode.
_DEFINITION = "$definition"
#: How long live mode is waited for: until it has read the definitions, and until it has ended the commit that it is at,
#: and changed the log.
_READ_SECONDS, _CHANGE_SECONDS, _LOOKS_EVERY = 60.0, 120.0, 0.2


@contextmanager
def changing(context: Context, name: str) -> Iterator[Live]:
    """While the block runs nobody else changes the definition of a relation. Gives nothing where this process has its
    lease and may write the log, or who writes it in live mode. Raises TG508 for another process that has the lease."""
    with ExitStack() as held:
        live: Live = ()
        try:
            held.enter_context(context.lease(name))
        except TidegateError as error:
            live = tuple(one for one in _running(context) if _has(one, name) and is_here(one))
            if error.code != "TG508" or not live:
                raise
            held.enter_context(context.lease(name, _DEFINITION))
        yield live


def taken_up(context: Context, before: Relation, live: Live, location: Location | None) -> None:
    """Have live mode take up the definition that was saved. Raises TG709 if it refuses that, and puts the definition
    `before` in its place again. TG710 if it does not answer: it may take the definition up later, so that stays."""
    project = context.project
    try:
        found = ask_to_reload(project.state_dir, project.env_name, live, _READ_SECONDS)
    except TidegateError as error:
        raise TidegateError(
            "TG710",
            f"{error.message}; the new definition is stored, and live mode or the next run makes the change",
            hint="tidegate reload, or tidegate run if live mode does not run any more",
            location=location,
        ) from None
    refusals = [text_of(one.refused.error) for one in found if one.refused is not None]
    if not refusals:
        return
    project.save_definition(before.name, before.definition)
    # What it has refused is not there any more; status and alerts would still name it.
    with suppress(TidegateError):
        ask_to_reload(project.state_dir, project.env_name, live, _READ_SECONDS)
    raise TidegateError(
        "TG709",
        f'live mode, which writes "{before.name}", does not take up the change, so nothing is changed:\n{refusals[0]}',
        hint="stop live mode, and make the change then; tidegate rebuild recomputes results of before the change",
        location=location,
    )


def is_changed(context: Context, relation: Relation) -> bool:
    """Whether live mode has changed the log; it is waited for."""
    wanted, end = relation_identity(relation), time.monotonic() + _CHANGE_SECONDS
    while True:
        table = load_table(context.project.storage, relation.name)
        if table is not None and table.properties.get("tidegate.identity") == wanted:
            return True
        if time.monotonic() >= end:
            return False
        time.sleep(_LOOKS_EVERY)


def _running(context: Context) -> list[LiveRecord]:
    return running(context.project.state_dir, context.project.env_name)


def _has(record: LiveRecord, name: str) -> bool:
    return name.casefold() in (member.casefold() for member in record.members)
