"""Definitions that are not those of what is stored (R4), seen without a JVM."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from tidegate.errors import TidegateWarning
from tidegate.evolve.differences import pending
from tidegate.iceberg.layout import is_of_renamed, is_of_view, relation_identity
from tidegate.plan.columns.as_seen import as_deployed, until_then
from tidegate.plan.columns.changes import CHANGES, other_columns
from tidegate.sql.catalog.lineage import renamed_inputs
from tidegate.sql.catalog.objects import Relation, Sink, View
from tidegate.sql.dialect.warnings import warning
from tidegate.store.metadata import load_table
from tidegate.store.positions import continues, is_moved, last_deployment

if TYPE_CHECKING:
    from tidegate.project import Project, Storage
    from tidegate.sql.catalog.catalog import Catalog


def changed_definitions(
    project: Project, catalog: Catalog, names: Iterable[str] | None = None
) -> dict[str, TidegateWarning]:
    """By name of a source, table, view or sink, TG907 if what is stored or was delivered is of another definition.
    `names`: None is all. Raises TG620 if tables can't be read."""
    wanted = None if names is None else {name.casefold() for name in names}
    found: dict[str, TidegateWarning] = {}
    storage = project.storage_of(catalog)
    for item in catalog.order():
        name = item.name.partition("$")[0]
        if isinstance(item, Relation) and item.kind == "gate":
            continue  # It follows what it reads, of which is said what there is to say.
        if wanted is None or name.casefold() in wanted:
            table = load_table(storage, item.name)
            if table is not None and "tidegate.identity" in table.properties:
                changed = (
                    _changed_view(name, item, table.properties, storage, catalog)
                    if isinstance(item, View)
                    else _changed_relation(name, item, table.properties, storage, catalog)
                )
                found |= {} if changed is None else {name: changed}
    for sink in catalog.sinks:
        if wanted is None or sink.name.casefold() in wanted:
            before = last_deployment(project.storage, sink.name)
            if before is None:
                continue
            if continues(before, sink, catalog, load_table(storage, sink.upstream)):
                before["from"] = sink.upstream
            if is_moved(before, sink):
                found[sink.name] = _changed_sink(sink, before)
    return found


def changes_in(storage: Storage, name: str) -> str | None:
    """How the columns of an input of a view were changed, as its log records it (`plan/columns/changes.py`)."""
    return (_said(storage, name) or {}).get(CHANGES)


def _said(storage: Storage, name: str) -> Mapping[str, str] | None:
    """The table properties of an input of a view."""
    table = load_table(storage, name)
    return None if table is None else table.properties


def _changed_view(
    name: str, view: View, properties: Mapping[str, str], storage: Storage, catalog: Catalog
) -> TidegateWarning | None:
    changes = partial(changes_in, storage)
    what = "its results are those of the earlier query"
    if is_of_view(view, properties) or is_of_renamed(view, properties, renamed_inputs(catalog, view)):
        other = other_columns(view, properties, changes)
        if other is None:
            return None
        what = f"its results were computed before {other}"
    until = until_then(as_deployed(view, properties, catalog, partial(_said, storage)), properties, changes)
    what += f"; {until}" if until is not None else ""
    return _warning(name, view, what, f"tidegate apply {name} recomputes them")


def _changed_relation(
    name: str, relation: Relation, properties: Mapping[str, str], storage: Storage, catalog: Catalog
) -> TidegateWarning | None:
    found = pending(relation, properties, catalog, partial(_said, storage))
    if found is None and properties.get("tidegate.identity") == relation_identity(relation):
        return None
    if found is not None and not found[1].refused and found[1].text:
        what = f"its log is changed in place by the next run: {found[1].text}"
        return _warning(name, relation, what, "tidegate run; no row is read or judged again")
    why = f" ({'; '.join(found[1].refused)})" if found is not None and found[1].refused else ""
    return _warning(
        name,
        relation,
        f"its log has the earlier definition, and gets no new rows{why}",
        "undo the change, or DROP it with the objects that read it, and let the next run read everything again",
    )


def _warning(name: str, item: Relation | View, what: str, hint: str) -> TidegateWarning:
    return warning("TG907", f'"{name}" has changed since it was deployed: {what}', item.location, hint)


def _changed_sink(sink: Sink, before: Mapping[str, str]) -> TidegateWarning:
    if before["from"] != sink.upstream:
        hint = f"DROP SINK {sink.name} and CREATE it again, with a new place or with snapshot = 'false'"
    else:
        hint = "the next delivery begins from the start in the new place; what was delivered before stays where it is"
    what = f'it has delivered "{before["from"]}" to {before["connector"]} {before["place"]} until now'
    return warning("TG907", f'"{sink.name}" has changed since it was deployed: {what}', sink.location, hint)
