"""Whoever would write passes here: a table is written, altered, dropped and tidied by its owner alone (X3).

`Context.lease`, `Context.forget` and `Log.of` ask before anything happens; tables that are open for writing ask
again at every commit (`IcebergTable`), since `tidegate adopt` may have moved them meanwhile.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from tidegate.errors import TidegateError
from tidegate.iceberg.layout import quote
from tidegate.plan.versions import next_of
from tidegate.project.owner import ADOPTED, OWNER, Owner, adoption, require_owner
from tidegate.project.storage import CATALOG
from tidegate.store.listing import owners_in
from tidegate.store.metadata import load_properties
from tidegate.tables.lives import state_identifier

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tidegate.iceberg.tables import StoredTable, Tables
    from tidegate.project import Project


class Owners:
    """Who owns what in the warehouse of a project."""

    def __init__(self, tables: Tables, project: Project) -> None:
        self._tables, self._project = tables, project
        #: Namespaces that this project may make tables in.
        self._at_home: set[str] = set()

    def identifier(self, name: str) -> str:
        """Spark identifier of the table that stores `name`."""
        return f"{CATALOG}.{self._project.storage.namespace_of(name)}.{quote(name)}"

    def tables_of(self, name: str) -> list[StoredTable]:
        """What is stored of a source, table or view: its state and unfinished results, and last the table itself, which
        is the one that is asked for its owner."""
        own = self.identifier(name)
        every = (state_identifier(own), self.identifier(next_of(name)), own)
        return [self._tables.open(one) for one in every if self._tables.exists(one)]

    def require(self, name: str) -> None:
        """Raise TG531 if somebody else owns what is stored of `name`, or, where nothing is, its namespace. A table that
        is nobody's yet, of a release that knew no owners, becomes this project's, on record."""
        owner, properties = self._project.owner, self._properties(name)
        if properties is None:
            self.require_namespace(self._project.storage.namespace_of(name))
            return
        require_owner(name, owner, Owner.of_text(properties.get(OWNER)))
        if OWNER not in properties:
            for one in self.tables_of(name):
                take(one, owner)

    def _properties(self, name: str) -> Mapping[str, str] | None:
        """Of the table as it is now; None without one."""
        storage = self._project.storage
        if storage.on_this_machine:
            # A file, where the JVM would be asked several times.
            return load_properties(storage, name)
        identifier = self.identifier(name)
        if not self._tables.exists(identifier):
            return None
        table = self._tables.open(identifier)
        table.refresh()
        return table.properties()

    def require_namespace(self, namespace: str) -> None:
        """Raise TG531 if others own tables of a namespace, and this project none."""
        if namespace in self._at_home:
            return
        owner, other = self._project.owner, None
        for name, found in owners_in(self._project.storage, namespace):
            if found == owner:
                other = None
                break
            other = other or (name, found)
        if other is not None:
            name, found = other
            raise TidegateError(
                "TG531",
                f'namespace "{namespace}" belongs to {found}, which created "{name}"; this is {owner}',
                hint=(
                    "give this environment a namespace of its own (warehouse.namespace), or adopt the "
                    "tables in this one"
                ),
            )
        self._at_home.add(namespace)


def take(table: StoredTable, owner: Owner) -> None:
    """Raise TG531 for a table of somebody else's; make one that is nobody's this project's."""
    if table.property(OWNER) is None:
        move(table, owner, None)
    require_owner(table.identifier, owner, Owner.of_text(table.property(OWNER)))


def move(table: StoredTable, owner: Owner, was: Owner | None) -> None:
    """Make a table the owner's, on record; `was`: whose it is."""
    now = datetime.now(UTC).isoformat(timespec="seconds")
    table.set_properties({OWNER: owner.to_text(), ADOPTED: adoption(table.property(ADOPTED), was, now)})
