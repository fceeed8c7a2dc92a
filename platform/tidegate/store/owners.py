"""Who owns what is in a namespace (X3), seen without a JVM."""

from __future__ import annotations

from collections.abc import Iterator

from tidegate.project.owner import OWNER, Owner
from tidegate.project.storage import Storage
from tidegate.store.metadata import load_properties, table_names


def owners_in(storage: Storage, namespace: str) -> Iterator[tuple[str, Owner]]:
    """(table, owner) of the tables of a namespace that have an owner, as they are found. Raises TG620."""
    for name in table_names(storage, namespace):
        owner = Owner.of_text((load_properties(storage, name, namespace) or {}).get(OWNER))
        if owner is not None:
            yield name, owner
