"""Which results of the environment that a branch reads (`reads:`) are taken as they are, and not computed again."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from tidegate.iceberg.layout import is_of_view
from tidegate.plan.columns.changes import CHANGES, other_columns
from tidegate.sql.catalog.objects import View
from tidegate.store.metadata import load_table

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
    for view in catalog.order():
        if isinstance(view, View) and lent.issuperset(view.reads) and _is_stored(storage, view):
            lent.add(view.name)
            found.add(view.name)
    return frozenset(found)


def _is_stored(storage: Storage, view: View) -> bool:
    """Whether results of this definition, and of columns that are still those that it names, are there."""
    table = load_table(storage, view.name, storage.lender)
    if table is None or not is_of_view(view, table.properties):
        return False
    return other_columns(view, table.properties, partial(_changes, storage)) is None


def _changes(storage: Storage, name: str) -> str | None:
    table = load_table(storage, name, storage.lender)
    return None if table is None else table.properties.get(CHANGES)
