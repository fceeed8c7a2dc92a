"""Empty tables of a catalog that machines share, which stand for leases: what is asked of them, without a JVM."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from tidegate.errors import TidegateError
from tidegate.project.object_store import is_object_store
from tidegate.project.owner import OWNER, Owner
from tidegate.project.storage import CATALOG
from tidegate.store.metadata import catalog_refuses

if TYPE_CHECKING:
    from tidegate.project import Storage

#: Each change of a property is a new file of metadata, of which one older one is kept.
_SPARING = {"write.metadata.delete-after-commit.enabled": "true", "write.metadata.previous-versions-max": "1"}


class LeaseTables:
    """Those in the namespace of a project. Everything raises one of `NO_ANSWER` if the catalog, or
    the store of its tables, gives none."""

    def __init__(self, storage: Storage) -> None:
        self._storage, self._namespace = storage, storage.settings.namespace
        self._catalog: Any = None

    def names(self) -> list[str]:
        """The tables of the namespace, those of others included; it is made if it is not there."""

        def asked(catalog: Any) -> list[str]:
            catalog.create_namespace_if_not_exists(self._namespace)
            return [str(one[-1]) for one in catalog.list_tables(self._namespace)]

        found: list[str] = self._ask(asked)
        return found

    def owner(self, name: str) -> Owner | None:
        """Whose a table is (X3)."""
        return Owner.of_text(self.properties(name).get(OWNER))

    def properties(self, name: str) -> Mapping[str, str]:
        """Those of a table; none if it is not there."""
        from pyiceberg.exceptions import NoSuchTableError

        def asked(catalog: Any) -> Mapping[str, str]:
            with suppress(NoSuchTableError):
                return dict(catalog.load_table((self._namespace, name)).properties)
            return {}

        found: Mapping[str, str] = self._ask(asked)
        return found

    def make(self, name: str, properties: Mapping[str, str]) -> bool:
        """Make a table; False if it is there already. Of several that do so at the same time one gets True."""
        from pyiceberg.exceptions import TableAlreadyExistsError
        from pyiceberg.schema import Schema

        owner = self._storage.owner
        given = {**properties, **_SPARING} | ({} if owner is None else {OWNER: owner.to_text()})

        def asked(catalog: Any) -> bool:
            try:
                catalog.create_table((self._namespace, name), Schema(), properties=given)
            except TableAlreadyExistsError:
                return False
            return True

        return bool(self._ask(asked))

    def change(self, name: str, properties: Mapping[str, str]) -> None:
        """Change properties of a table, if it is there, and nobody else changes it in this moment."""
        from pyiceberg.exceptions import CommitFailedException, NoSuchTableError

        def asked(catalog: Any) -> None:
            with suppress(CommitFailedException, NoSuchTableError):
                table = catalog.load_table((self._namespace, name))
                with table.transaction() as transaction:
                    transaction.set_properties(dict(properties))

        self._ask(asked)

    def drop(self, name: str) -> None:
        """Remove a table with its files, if it is there."""
        from pyiceberg.exceptions import NoSuchTableError

        def asked(catalog: Any) -> None:
            with suppress(NoSuchTableError):
                location = catalog.load_table((self._namespace, name)).location()
                catalog.drop_table((self._namespace, name))
                # A catalog in a database leaves the files where they are; what a server leaves is its own affair.
                if self._storage.settings.catalog.type == "jdbc":
                    self._remove(location)

        self._ask(asked)

    def _remove(self, location: str) -> None:
        filesystem, path = self._storage.filesystem(location)
        if is_object_store(filesystem) or filesystem.get_file_info(path).type.name == "Directory":
            filesystem.delete_dir(path)

    def _ask(self, question: Callable[[Any], Any]) -> Any:
        try:
            if self._catalog is None:
                from pyiceberg.catalog import load_catalog

                # (A database may not have the catalog's own tables yet.)
                properties = self._storage.pyiceberg_properties() | {"init_catalog_tables": "true"}
                self._catalog = load_catalog(CATALOG, **properties)
            return question(self._catalog)
        except TidegateError:
            raise
        except Exception as error:
            # A client that has lost its connection or its login is not asked again.
            self._catalog = None
            raise catalog_refuses(self._storage, error) from None
