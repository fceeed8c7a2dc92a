"""The tables and namespaces of the catalog, those of others than this project included."""

from __future__ import annotations

from collections.abc import Iterator

from tidegate.project.owner import OWNER, Owner
from tidegate.project.storage import Storage
from tidegate.store import sqlite_catalog
from tidegate.store.metadata import ask_catalog, load_properties


def table_names(storage: Storage, namespace: str) -> list[str]:
    """The tables of a namespace, those of others than tidegate included; of a folder, also what is no table."""
    if storage.has_folder_catalog:
        assert storage.local_warehouse is not None
        folder = storage.local_warehouse / namespace
        return sorted(p.name for p in folder.iterdir()) if folder.is_dir() else []
    if (file := storage.sqlite) is not None:
        return sqlite_catalog.names(file, namespace)
    found = ask_catalog(storage, lambda catalog: catalog.list_tables(namespace))
    return [] if found is None else sorted(one[-1] for one in found)


def spelled(storage: Storage, name: str) -> str:
    """A name with the small and capital letters that it has in the catalog; as it is, if no table has it there."""
    names = [
        one for one in table_names(storage, storage.namespace_of(name)) if one.casefold() == name.casefold()
    ]
    return name if name in names else next(iter(names), name)


def namespaces(storage: Storage) -> list[str]:
    """The namespaces of the catalog, those of others than this project included. Raises TG620."""
    if storage.has_folder_catalog:
        folder = storage.local_warehouse
        assert folder is not None
        # (Folders of tidegate's own begin with a line: plans, recordings.)
        found = folder.iterdir() if folder.is_dir() else ()
        return sorted(p.name for p in found if p.is_dir() and not p.name.startswith("_"))
    if (file := storage.sqlite) is not None:
        return sqlite_catalog.namespaces(file)
    return sorted(
        ".".join(one) for one in ask_catalog(storage, lambda catalog: catalog.list_namespaces()) or ()
    )


def every_namespace(storage: Storage) -> list[str]:
    """As `namespaces`, and those of which only sinks have something in the warehouse, as a branch's may that deliver
    what it reads. Raises TG620."""
    from pyarrow.fs import FileSelector, FileType

    filesystem, folder = storage.filesystem(f"{storage.warehouse}/_streams")
    found = filesystem.get_file_info(FileSelector(folder, allow_not_found=True))
    return sorted({*namespaces(storage), *(one.base_name for one in found if one.type is FileType.Directory)})


def owners_in(storage: Storage, namespace: str) -> Iterator[tuple[str, Owner]]:
    """(table, owner) of the tables of a namespace that have an owner (X3), as they are found. Raises TG620."""
    for name in table_names(storage, namespace):
        owner = Owner.of_text((load_properties(storage, name, namespace) or {}).get(OWNER))
        if owner is not None:
            yield name, owner
