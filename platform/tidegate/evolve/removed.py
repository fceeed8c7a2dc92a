"""Tables whose definitions were removed from the files. A run leaves them as they are: nobody continues them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidegate.evolve.planning import PlannedChange
from tidegate.project.owner import OWNER, Owner
from tidegate.sql.grammar.spelling import alike
from tidegate.sql.statements.stored_definition import stored_relation
from tidegate.store.listing import table_names
from tidegate.store.metadata import load_table

if TYPE_CHECKING:
    from tidegate.project import Project
    from tidegate.sql.catalog.catalog import Catalog


def removed(project: Project, catalog: Catalog) -> list[PlannedChange]:
    """Those that are this project's own. Raises TG620 if tables can't be read."""
    storage = project.storage_of(catalog)
    known = {item.name.casefold() for item in (*catalog.order(), *catalog.sinks)}
    # Those that get another name.
    renamed = [view for view in catalog.views if view.renamed_from is not None]
    known |= {str(v.renamed_from).casefold() for v in renamed if load_table(storage, v.name) is None}
    found = []
    for name in table_names(storage, storage.settings.namespace):
        # What has a `$` in its name belongs to another one.
        table = None if "$" in name or name.casefold() in known else load_table(storage, name)
        if table is None or "tidegate.identity" not in table.properties:
            continue
        if Owner.of_text(table.property(OWNER)) not in (None, project.owner):
            continue
        relation = stored_relation(table.properties.get("tidegate.definition") or "")
        kind = "view" if relation is None else relation.kind
        what = "removed from the files: its table stays until DROP, and nothing continues it"
        command = (
            "write the definition again to continue it; to remove its table, DROP it while it is defined"
        )
        definition = table.properties.get("tidegate.definition") or ""
        same = [view.name for view in catalog.views if alike(view.definition, definition)]
        same = [one for one in same if load_table(storage, one) is None]
        if same:
            command = (
                f"if it has another name now, write CREATE MATERIALIZED VIEW {same[0]} RENAMED FROM {name} AS …, "
                f"before the next run: its results are kept then; else {command}"
            )
        found.append(PlannedChange(name, kind, "removed", (what,), command=command))
    return found
