"""Whether a log is of the definition by which it is read and written, and what another one changes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from tidegate.errors import TidegateError
from tidegate.iceberg.layout import relation_identity
from tidegate.sql.options.in_place import in_place_options

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tidegate.iceberg.progress import LogProgress
    from tidegate.sql.catalog.objects import Relation


def same_definition(name: str, stored: str | None, wanted: str) -> None:
    """R4: a changed definition never silently continues old results (TG506)."""
    if stored is not None and stored != wanted:
        raise TidegateError(
            "TG506",
            f'the definition of "{name}" has changed since its table was made',
            hint=(
                f'DROP "{name}" and run again to read everything again, or give the new definition '
                "another name"
            ),
        )


def require_same(relation: Relation, properties: Mapping[str, str]) -> None:
    """TG506 unless a log with these table properties, which is read by commits, has the columns of its definition: a
    name may mean another column until then (E2)."""
    if properties.get("tidegate.identity") in (None, relation_identity(relation)):
        return
    # (A gate is run with its views.)
    name = "" if relation.kind == "gate" else f" {relation.name}"
    error = TidegateError(
        "TG506",
        f'the definition of "{relation.name}" has changed, and its log does not have these columns yet',
        hint=f"tidegate run{name} changes the log, and tidegate plan{name} shows how",
        location=relation.location,
    )
    error.curable = True
    raise error


def options_of(relation: Relation) -> str | None:
    """The options that change in place (E1), as the commit of a batch says them; None without a connector."""
    if relation.connector is None:
        return None
    return json.dumps(in_place_options(relation.connector, relation.format))


def altered(before: LogProgress, after: LogProgress) -> str | None:
    """The note of the first commit under another strategy (W13): what is judged from here on is judged by it."""
    was, now = before.strategy, after.strategy
    if was is None or now is None or was.identity == now.identity:
        return None
    if was.text == now.text:
        return f"ALTER WATERMARK: {now.text} with other options"
    return f"ALTER WATERMARK: {was.text} became {now.text}"
