"""From a catalog that is a folder to one in SQLite: the tables stay where they are, with all their snapshots.

A table is in a catalog by the path of its newest metadata file. That path is read from the folder and written into the
file of SQLite, one table after the other; when all of them are there, the environment's file names the new catalog.
Whatever breaks off before that leaves a project with the folder as its catalog, and the command can be repeated.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from tidegate.errors import TidegateError
from tidegate.project.edit import write_catalog
from tidegate.project.environment import CatalogSettings
from tidegate.project.owner import OWNER, Owner, require_owner
from tidegate.project.storage import Storage
from tidegate.runtime.lease import lease
from tidegate.store import sqlite_catalog
from tidegate.store.folder_catalog import SUCCESSOR, current_file, is_of_folder
from tidegate.store.listing import table_names
from tidegate.store.metadata import load_table
from tidegate.store.places import record
from tidegate.views.versions.build import NEXT

if TYPE_CHECKING:
    from tidegate.project import Project


@dataclass(frozen=True)
class Moved:
    """What a move has done. `catalog`: the new one's address; `environment`: the file that names it now, None if it did
    before; `tables`: those that were registered, `before`: those that were already."""

    catalog: str
    environment: str | None
    tables: list[str] = field(default_factory=list)
    before: list[str] = field(default_factory=list)


def move_catalog(project: Project) -> Moved:
    """Move the tables of a project's environment from the folder to a catalog in SQLite, metadata only. An environment
    that reads another one's warehouse has the catalog of that one, and is moved after it.

    Raises TG607 for another catalog than a folder, TG515 for an environment that is to be moved after another one,
    TG531 for a namespace with tables of others, TG508 while somebody writes one of them, TG620 for a table that both
    catalogs have, each with commits of its own.
    """
    storage, settings = project.storage, project.env.warehouse
    folder, is_folder = storage.local_warehouse, storage.has_folder_catalog
    if project.lender is not None and is_folder:
        raise TidegateError(
            "TG515",
            f'environment "{project.env_name}" has the catalog of "{project.env.reads}", which has to be moved first',
            hint=f"tidegate catalog migrate --env {project.env.reads}",
        )
    if folder is None or not (is_folder or storage.sqlite is not None):
        raise TidegateError(
            "TG607",
            f'the catalog of environment "{project.env_name}" is not a folder, but {settings.catalog.type}',
            hint="only tables of a catalog that is a folder are moved",
        )
    file = folder / SUCCESSOR if is_folder else storage.sqlite
    assert file is not None
    before = Storage(
        project.root, settings.model_copy(update={"catalog": CatalogSettings()}), owner=project.owner
    )
    uri = f"jdbc:sqlite:{_written(settings.path, file) if is_folder else file}"
    moved = Moved(uri, f"resources/{project.env_name}.yaml" if is_folder else None)
    move = _Move(folder / settings.namespace, file, settings.namespace)
    with _nobody_writes(project, before):
        # Where the catalog is in use, it is right.
        moved.before.extend([] if is_folder else move.gone_on())
        found = dict(_tables(before, project.owner, moved.before))
        sqlite_catalog.prepare(file)
        for name, metadata in found.items():
            (moved.tables if move.register(name, metadata) else moved.before).append(name)
        move.forget({*found, *moved.before})
        moved.before.sort()
        if moved.environment is not None:
            write_catalog(project.root / moved.environment, {"type": "jdbc", "uri": uri})
    return moved


@dataclass(frozen=True)
class _Move:
    """Of the tables of a namespace, whose catalog is `folder`, into `file`. What was registered by an earlier try that
    broke off is older than the folder."""

    folder: Path
    file: Path
    namespace: str

    def gone_on(self) -> list[str]:
        """Tables that were moved, and have commits or another name in the new catalog."""
        known = sqlite_catalog.locations(self.file, self.namespace).items()
        names = {name for name, where in known if not self._is_of_folder(name, where)}
        names |= {
            one.stem for one in (self.folder.parent / record(self.namespace, "*")).parent.glob("*.json")
        }
        return sorted(name for name in names if current_file(self.folder / name / "metadata"))

    def register(self, name: str, metadata: str) -> bool:
        """False if the catalog has the table so already. Raises TG620."""
        older = partial(self._is_of_folder, name)
        return sqlite_catalog.register(self.file, self.namespace, name, metadata, older)

    def forget(self, there: set[str]) -> None:
        """Take out what an earlier try has registered, and what was dropped in the folder since."""
        for name, where in sqlite_catalog.locations(self.file, self.namespace).items():
            if name not in there and self._is_of_folder(name, where):
                sqlite_catalog.forget(self.file, self.namespace, name, where)

    def _is_of_folder(self, name: str, where: str) -> bool:
        return is_of_folder(self.folder / name / "metadata", where)


def _written(path: str, file: Path) -> str:
    """The file as an environment's file names it: relative to the project if the warehouse is."""
    return str(file) if path.startswith(("file:", "~")) else f"{path.rstrip('/')}/{SUCCESSOR}"


def _tables(storage: Storage, owner: Owner, others: list[str]) -> Iterator[tuple[str, str]]:
    """(name, address of its newest metadata) of the tables in the folder, without `others`. Raises TG531."""
    for name in table_names(storage, storage.settings.namespace):
        table = None if name in others else load_table(storage, name, storage.settings.namespace)
        if table is not None:
            require_owner(name, owner, Owner.of_text(table.properties.get(OWNER)) or owner)
            yield name, f"file://{table.metadata_location}"


@contextmanager
def _nobody_writes(project: Project, storage: Storage) -> Iterator[None]:
    """While the block runs, this process has the right to write all that there is. Raises TG508."""
    namespace = storage.settings.namespace
    catalog = project.catalog()
    names = {one.name for one in (*catalog.relations, *catalog.views, *catalog.sinks)}
    names |= {name.partition("$")[0] for name in table_names(storage, namespace)}
    with ExitStack() as held:
        for name in sorted(names):
            held.enter_context(lease(project.state_dir / "locks" / namespace, name))
        for view in catalog.views:
            # Its next version is built under a lease of its own.
            held.enter_context(lease(project.state_dir / "locks" / namespace, view.name + NEXT))
        yield
