"""What the query of a view sees whose inputs have had their columns changed since it was written (E2, E5): the columns
of then, in the log of now. So the view continues until its new version takes its place. Pure functions: no table here,
and no Spark.

A log keeps the columns of its earlier definitions (`BEFORE`), and a view knows which of them its query was planned with
(`changes.SEEN`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

from tidegate.plan.columns.changes import CHANGES, SEEN, other_columns, steps
from tidegate.sql.catalog.objects import CatalogColumn, InputAsSeen, Relation, View
from tidegate.sql.grammar.spelling import AS_VIEW
from tidegate.sql.statements.stored_definition import stored_view

if TYPE_CHECKING:
    from tidegate.sql.catalog.catalog import Catalog

#: Table property of a log: the columns of its earlier definitions, oldest first; the newest so many.
BEFORE, KEPT = "tidegate.columns-before", 20


@dataclass(frozen=True)
class ColumnsBefore:
    """The columns of a definition, (name, Spark type) in its order. `number`: how many times the log had been changed
    by then."""

    number: int
    columns: tuple[tuple[str, str], ...]


def columns_before(text: str | None) -> tuple[ColumnsBefore, ...]:
    """What a log's property `BEFORE` says, oldest first. Logs of earlier releases say nothing."""
    return tuple(
        ColumnsBefore(one["number"], tuple((name, kind) for name, kind in one["columns"]))
        for one in json.loads(text or "[]")
    )


def with_columns_before(properties: Mapping[str, str], relation: Relation) -> str:
    """The property `BEFORE` with one more definition: that of a log with these table properties, which is about to be
    changed."""
    columns = tuple((c.name, c.type) for c in relation.columns)
    now = ColumnsBefore(len(steps(properties.get(CHANGES))), columns)
    known = (*columns_before(properties.get(BEFORE)), now)[-KEPT:]
    return json.dumps([asdict(one) for one in known], ensure_ascii=False)


def as_deployed(
    view: View,
    stored: Mapping[str, str],
    catalog: Catalog,
    log: Callable[[str], Mapping[str, str] | None],
) -> View | None:
    """A view by the definition of its stored results, over what it reads as this definition knows it: an input whose
    columns were changed since has those of then (`View.seen`), where the query sees the difference. None if this
    release can't read the definition, or if what it reads is not there any more. Whether it can be continued,
    `other_columns` says. `stored`: what the view's table says; `log`: the table properties of an input, by its name."""

    def changes(name: str) -> str | None:
        return (log(name) or {}).get(CHANGES)

    text = stored.get("tidegate.definition") or ""
    found = understood(view, text, catalog)
    if found is not None and other_columns(found, stored, changes) is None:
        return found
    known = json.loads(stored.get(SEEN) or "{}")
    inputs = json.loads(stored.get("tidegate.inputs") or "[]")
    before = [_before(catalog.find(name), log(name) or {}, known.get(name, 0)) for name in inputs]
    seen = tuple(one for one in before if one is not None)
    return (understood(view, text, catalog, seen) if seen else None) or found


def until_then(
    found: View | None, stored: Mapping[str, str], property_of: Callable[[str], str | None]
) -> str | None:
    """What a view of which `as_deployed` has `found` this does until another version takes its place, in words; None if
    no column makes a difference to that. The rest as `other_columns` has it."""
    if found is None or not found.seen:
        return None
    other = other_columns(found, stored, property_of)
    if other is None:
        return "its current version continues with the columns of before"
    return f"its current version gets no new rows: {other}"


def understood(
    view: View, definition: str, catalog: Catalog, seen: tuple[InputAsSeen, ...] = ()
) -> View | None:
    """A view by a definition over what a catalog has, but for what it has `seen` as it was before; None if the
    definition does not hold for that."""
    if seen:
        catalog = catalog.copied()
        for one in seen:
            catalog.replace(one.relation)
        # What a gate is, its call says, but not which columns it had.
        catalog.gates_seen = {one.relation.name: one.relation for one in seen if one.relation.kind == "gate"}
    # (That of a sink's own view is a query.)
    found = next(
        filter(None, (stored_view(text, catalog) for text in (definition, AS_VIEW + definition))), None
    )
    if found is None:
        return None
    return replace(
        found,
        name=view.name,
        definition=definition,
        description=view.description,
        location=view.location,
        seen=seen,
    )


def _before(item: object, properties: Mapping[str, str], number: int) -> InputAsSeen | None:
    """What a view knows of an input whose log had been changed so many times; None if that is what it is now. If the
    columns of then are not kept any more, those of the oldest definition behind: what the view makes of the changes
    between them, `other_columns` asks."""
    if not isinstance(item, Relation) or number >= len(steps(properties.get(CHANGES))):
        return None
    kept = [one for one in columns_before(properties.get(BEFORE)) if one.number >= number]
    if not kept:
        return None
    return InputAsSeen(
        replace(item, columns=tuple(CatalogColumn(*column) for column in kept[0].columns)), kept[0].number
    )
