"""Which catalog the projects of tests have on Spark: `TIDEGATE_TEST_CATALOG=sqlite|postgres|rest`, else a folder.

`make catalogs` plays the conformance suite and what stands on it with each.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from infra.kafka.broker import free_port
from infra.rest_catalog.server import RestCatalogs
from infra.stack.postgres import HOST, USER, Postgres
from tests.support.rest_proxy import RestProxy
from tidegate.project.environment import CatalogSettings, Warehouse
from tidegate.project.storage import Storage

_VARIABLE = "TIDEGATE_TEST_CATALOG"
_PASSWORD = "TIDEGATE_TEST_CATALOG_PASSWORD"
#: The variable that has the credential of a REST catalog.
CREDENTIAL = "TIDEGATE_TEST_CATALOG_CREDENTIAL"
_NUMBERS = count(1)


def chosen() -> str | None:
    """The kind that was asked for; None: a folder, as projects have it that say nothing."""
    return os.environ.get(_VARIABLE)


def catalog() -> dict[str, Any] | None:
    """The `catalog:` of a new project: nobody else's tables are in it."""
    kind = chosen()
    if kind == "sqlite":
        return {"type": "jdbc", "uri": "jdbc:sqlite:.tidegate/warehouse/catalog.db"}
    if kind == "postgres":
        name = f"project{next(_NUMBERS)}"
        _execute(f"CREATE DATABASE {name}")
        login = {"jdbc.user": USER, "jdbc.password": f"${{{_PASSWORD}}}"}
        return {
            "type": "jdbc",
            "uri": f"jdbc:postgresql://{HOST}:{server_port()}/{name}",
            "properties": login,
        }
    if kind == "rest":
        return _REST[0].project()
    assert kind is None, kind
    return None


class RestServer:
    """REST catalogs as a project meets them: over HTTP, with tokens that end, and failures that a test asks for."""

    def __init__(self, folder: Path, lifetime_s: int) -> None:
        self.catalogs = RestCatalogs(folder)
        self.catalogs.start()
        self.proxy = RestProxy(lifetime_s)
        os.environ[CREDENTIAL] = self.proxy.credential

    def project(self) -> dict[str, Any]:
        """The `catalog:` of a new project; nobody else's tables are in it."""
        name = f"project{next(_NUMBERS)}"
        catalog = self.proxy.add(name, self.catalogs.serve(name))
        catalog["properties"]["credential"] = f"${{{CREDENTIAL}}}"
        return catalog

    def stop(self) -> None:
        self.proxy.close()
        self.catalogs.stop()
        del os.environ[CREDENTIAL]


#: The one of the chosen catalog, while `catalog_server` is there.
_REST: list[RestServer] = []


@contextmanager
def rest_server() -> Iterator[RestServer]:
    """That one, else one for as long as the block runs."""
    if _REST:
        yield _REST[0]
        return
    with tempfile.TemporaryDirectory() as folder:
        server = RestServer(Path(folder), lifetime_s=3600)
        try:
            yield server
        finally:
            server.stop()


#: Renewed in the middle of nearly every test.
_TOKEN_SECONDS = 4


def packages() -> list[str]:
    """What Spark needs for it, beyond what every Spark has."""
    if chosen() != "postgres":
        return []
    settings = CatalogSettings(type="jdbc", uri="jdbc:postgresql://nobody/asks")
    return Storage(Path("/"), Warehouse(catalog=settings)).packages()


@cache
def server_port() -> int:
    """Where PostgreSQL listens, while `catalog_server` is there."""
    return free_port()


@pytest.fixture(scope="session")
def catalog_server() -> Iterator[None]:
    """The server that the chosen catalog is in, if it is in one."""
    if chosen() == "rest":
        with rest_server() as server:
            server.proxy.lifetime_s = _TOKEN_SECONDS
            _REST.append(server)
            yield
            _REST.clear()
        return
    if chosen() != "postgres":
        yield
        return
    # The server may run as another user, who can't enter pytest's folders.
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o711)
        server = Postgres(Path(folder) / "postgres")
        server.start(server_port(), print)
        os.environ[_PASSWORD] = (server.folder / "password").read_text().strip()
        try:
            yield
        finally:
            server.stop()


def _execute(statement: str) -> None:
    import psycopg2

    connection = psycopg2.connect(
        host=HOST, port=server_port(), user=USER, password=os.environ[_PASSWORD], dbname=USER
    )
    connection.autocommit = True
    try:
        connection.cursor().execute(statement)
    finally:
        connection.close()
