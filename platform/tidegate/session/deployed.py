"""Definitions that are not those of what is stored (R4), seen without a JVM."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from tidegate.errors import TidegateWarning
from tidegate.iceberg.layout import is_of_view, relation_identity
from tidegate.sql.catalog.objects import Relation, Sink, View
from tidegate.sql.dialect.warnings import warning
from tidegate.store.metadata import load_table
from tidegate.store.positions import deployment, last_deployment

if TYPE_CHECKING:
    from tidegate.project import Project
    from tidegate.sql.catalog.catalog import Catalog


def changed_definitions(
    project: Project, catalog: Catalog, names: Iterable[str] | None = None
) -> dict[str, TidegateWarning]:
    """By name of a source, table, view or sink, TG907 if what is stored or was delivered is of another definition.
    `names`: None is all. Raises TG620 if tables can't be read."""
    wanted = None if names is None else {name.casefold() for name in names}
    found = {}
    storage = project.storage_of(catalog)
    for item in catalog.order():
        name = item.name.partition("$")[0]
        if wanted is None or name.casefold() in wanted:
            table = load_table(storage, item.name)
            if (
                table is not None
                and "tidegate.identity" in table.properties
                and not _same(item, table.properties)
            ):
                found[name] = _changed(name, item)
    for sink in catalog.sinks:
        if wanted is None or sink.name.casefold() in wanted:
            before = last_deployment(project.storage, sink.name)
            if before is not None and before != deployment(sink):
                found[sink.name] = _changed_sink(sink, before)
    return found


def _same(item: Relation | View, properties: Mapping[str, str]) -> bool:
    if isinstance(item, View):
        return is_of_view(item, properties)
    return properties.get("tidegate.identity") == relation_identity(item)


def _changed(name: str, item: Relation | View) -> TidegateWarning:
    if isinstance(item, View):
        what, hint = (
            "its results are those of the earlier query",
            f"tidegate rebuild {name} recomputes them",
        )
    else:
        what = "its log has the earlier definition, and gets no new rows"
        hint = (
            "undo the change, or DROP it with the objects that read it, and let the next run "
            "read everything again"
        )
    return warning("TG907", f'"{name}" has changed since it was deployed: {what}', item.location, hint)


def _changed_sink(sink: Sink, before: Mapping[str, str]) -> TidegateWarning:
    if before["from"] != sink.upstream:
        hint = f"DROP SINK {sink.name} and CREATE it again, with a new place or with snapshot = 'false'"
    else:
        hint = "the next delivery begins from the start in the new place; what was delivered before stays where it is"
    what = f'it has delivered "{before["from"]}" to {before["connector"]} {before["place"]} until now'
    return warning("TG907", f'"{sink.name}" has changed since it was deployed: {what}', sink.location, hint)
