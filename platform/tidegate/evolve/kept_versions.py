"""The earlier versions of a view, as SQL and `tidegate show` read them: `view$v1` (E5). Their rows are at a tag of the
view's table, with the columns that they had. No Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tidegate.plan.versions import current_version, tag_of
from tidegate.sql.catalog.objects import CatalogColumn
from tidegate.store.metadata import CommittedTable, load_properties, load_tagged

if TYPE_CHECKING:
    from tidegate.project import Project, Storage
    from tidegate.sql.catalog.catalog import Catalog

_NAMES = {"long": "bigint", "timestamp": "timestamp_ntz", "timestamptz": "timestamp"}
#: The first column of a view's table that is not the view's own (`iceberg.layout.view_columns`).
_SYSTEM = "_window_start"


def with_versions(project: Project, catalog: Catalog) -> Catalog:
    """The same catalog, which now finds the versions of its views that are stored. Nothing is read before one of them
    is asked for."""
    catalog.versions = lambda view, number: _columns(project.storage_of(catalog), view, number)
    return catalog


def stored_version(storage: Storage, view: str, number: int) -> CommittedTable | None:
    """A view's table as of one of its versions; None if it can't be read any more."""
    found = _at(storage, view, number)
    return None if found is None else found[0]


def _columns(storage: Storage, view: str, number: int) -> tuple[CatalogColumn, ...] | None:
    found = _at(storage, view, number)
    if found is None:
        return None
    names = [field["name"] for field in found[1]]
    own = found[1][: names.index(_SYSTEM)]
    return tuple(CatalogColumn(field["name"], spark_type(field["type"])) for field in own)


def _at(storage: Storage, view: str, number: int) -> tuple[CommittedTable, list[Any]] | None:
    properties = load_properties(storage, view)
    if properties is None:
        return None
    return load_tagged(storage, view, None if number == current_version(properties) else tag_of(number))


def spark_type(kind: Any) -> str:
    """Of a type in Iceberg's JSON."""
    if isinstance(kind, str):
        return _NAMES.get(kind, kind.replace(", ", ","))
    if kind["type"] == "struct":
        fields = (f"`{f['name'].replace('`', '``')}`:{spark_type(f['type'])}" for f in kind["fields"])
        return f"struct<{','.join(fields)}>"
    if kind["type"] == "list":
        return f"array<{spark_type(kind['element'])}>"
    return f"map<{spark_type(kind['key'])},{spark_type(kind['value'])}>"
