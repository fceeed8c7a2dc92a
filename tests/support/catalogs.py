"""Which catalog the projects of tests have on Spark: `TIDEGATE_TEST_CATALOG=sqlite|postgres|rest`, else a folder. With
`-s3` behind it (`rest-s3`) all tables are on S3.

`make catalogs` plays the conformance suite and what stands on it with each.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from infra.demo_s3.s3 import make_bucket, s3_server
from infra.kafka.broker import free_port
from infra.rest_catalog.server import S3_PACKAGES, RestCatalogs
from infra.stack.postgres import HOST, USER, Postgres
from tests.support.rest_proxy import RestProxy
from tests.support.s3 import SECRET, settings_of, storage_on
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


def _on_s3() -> bool:
    return (chosen() or "").endswith("-s3")


def kind() -> str:
    """Of the chosen catalog, wherever its tables are; empty for a folder."""
    return (chosen() or "").removesuffix("-s3")


def warehouse(file: Path | None = None) -> dict[str, Any]:
    """The `warehouse:` of a new project, empty for a folder: nobody else's tables are in it. `file`: where SQLite's is,
    if not in the project."""
    found = _catalog(file)
    if found is None:
        return {}
    settings: dict[str, Any] = {"catalog": found}
    if _on_s3():
        (url,) = _S3
        if kind() == "rest":  # which has made a bucket for it
            bucket = str(found["uri"]).rpartition("/")[2]
        else:
            bucket = f"bucket{next(_NUMBERS)}"
            make_bucket(storage_on(url), bucket)
        settings |= {"path": f"s3://{bucket}/tidegate", "storage": settings_of(url)}
    return settings


def _catalog(file: Path | None) -> dict[str, Any] | None:
    if kind() == "sqlite":
        return {"type": "jdbc", "uri": f"jdbc:sqlite:{file or '.tidegate/warehouse/catalog.db'}"}
    if kind() == "postgres":
        name = f"project{next(_NUMBERS)}"
        _execute(f"CREATE DATABASE {name}")
        login = {"jdbc.user": USER, "jdbc.password": f"${{{_PASSWORD}}}"}
        return {
            "type": "jdbc",
            "uri": f"jdbc:postgresql://{HOST}:{server_port()}/{name}",
            "properties": login,
        }
    if kind() == "rest":
        return _REST[0].project()
    assert chosen() is None, chosen()
    return None


class RestServer:
    """REST catalogs as a project meets them: over HTTP, with tokens that end, and failures that a test asks for."""

    def __init__(self, folder: Path, lifetime_s: int, s3: str | None = None) -> None:
        """`s3`: the URL of an S3 server, which gets a bucket for the tables of each project."""
        self.s3 = s3
        self.catalogs = RestCatalogs(folder, S3_PACKAGES if s3 else ())
        self.catalogs.start()
        self.proxy = RestProxy(lifetime_s)
        os.environ[CREDENTIAL] = self.proxy.credential

    def project(self) -> dict[str, Any]:
        """The `catalog:` of a new project; nobody else's tables are in it."""
        name = f"project{next(_NUMBERS)}"
        if self.s3 is None:
            port = self.catalogs.serve(name)
        else:
            storage = storage_on(self.s3, f"s3://{name}/tidegate")
            make_bucket(storage, name)
            port = self.catalogs.serve(name, storage.warehouse, storage)
        catalog = self.proxy.add(name, port)
        catalog["properties"]["credential"] = f"${{{CREDENTIAL}}}"
        return catalog

    def stop(self) -> None:
        self.proxy.close()
        self.catalogs.stop()
        del os.environ[CREDENTIAL]


#: The one of the chosen catalog, and the URL of the S3 server, while `catalog_server` is there.
_REST: list[RestServer] = []
_S3: list[str] = []


@contextmanager
def rest_server(s3: str | None = None) -> Iterator[RestServer]:
    """That one, else one for as long as the block runs. `s3`: see `RestServer`."""
    if _REST:
        yield _REST[0]
        return
    with tempfile.TemporaryDirectory() as folder:
        server = RestServer(Path(folder), 3600, s3)
        try:
            yield server
        finally:
            server.stop()


#: Renewed in the middle of nearly every test.
_TOKEN_SECONDS = 4


def packages() -> list[str]:
    """What Spark needs for it, beyond what every Spark has."""
    found = storage_on("http://nobody").packages() if _on_s3() else []
    if kind() == "postgres":
        settings = CatalogSettings(type="jdbc", uri="jdbc:postgresql://nobody/asks")
        found += Storage(Path("/"), Warehouse(catalog=settings)).packages()
    return found


@cache
def server_port() -> int:
    """Where PostgreSQL listens, while `catalog_server` is there."""
    return free_port()


@pytest.fixture(scope="session")
def catalog_server() -> Iterator[None]:
    """The servers that the chosen catalog and its tables are in, if they are in one."""
    with ExitStack() as running:
        if kind() == "postgres":
            running.enter_context(_postgres())
        if _on_s3():
            os.environ["S3_SECRET"] = SECRET
            _S3.append(running.enter_context(s3_server()))
            running.callback(_S3.clear)
        if kind() == "rest":
            server = running.enter_context(rest_server(*_S3))
            server.proxy.lifetime_s = _TOKEN_SECONDS
            _REST.append(server)
            running.callback(_REST.clear)
        yield


@contextmanager
def _postgres() -> Iterator[None]:
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
