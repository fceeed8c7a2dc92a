"""Which results of the environment that a branch reads (`reads:`) are taken as they are, and not computed again."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tidegate.iceberg.layout import is_of_view
from tidegate.plan.columns.changes import CHANGES, other_columns
from tidegate.plan.versions import STALE, replaced_below
from tidegate.sql.catalog.objects import View
from tidegate.store.metadata import CommittedTable, load_table
from tidegate.store.once import read_once

if TYPE_CHECKING:
    from tidegate.project import Project, Storage
    from tidegate.sql.catalog.catalog import Catalog


def with_lent_views(project: Project) -> Project:
    """A project that knows which views its environment only reads. Their results are looked at when its `storage` is
    asked for, which raises TG620 if they can't be."""
    if project.lender is None or project.lending is not None:
        return project
    return replace(project, lending=lent_views)


def lent_views(storage: Storage, catalog: Catalog) -> frozenset[str]:
    """The views whose results the other environment has stored by the very definition that this one has, and of nothing
    but what that one lends (`storage`: its sources and tables). Costs a reading of the metadata of each view."""
    lent, found = set(storage.lent), set[str]()
    with read_once():
        for view in catalog.order():
            if isinstance(view, View) and lent.issuperset(view.reads) and _is_stored(storage, view):
                lent.add(view.name)
                found.add(view.name)
    return frozenset(found)


def _is_stored(storage: Storage, view: View) -> bool:
    """Whether results of this definition are there, of columns that are still those that it names, and of the present
    results of the views that it reads."""

    def stored(name: str) -> CommittedTable | None:
        return load_table(storage, name, storage.lender)

    def changes(name: str) -> str | None:
        below = stored(name)
        return None if below is None else below.properties.get(CHANGES)

    def life(name: str) -> str | None:
        below = stored(name)
        return None if below is None else below.uuid

    table = stored(view.name)
    if table is None or not is_of_view(view, table.properties) or STALE in table.properties:
        return False
    return other_columns(view, table.properties, changes) is None and not replaced_below(table.summary, life)
