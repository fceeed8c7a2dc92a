"""Which catalog the projects of tests have on Spark: `TIDEGATE_TEST_CATALOG=sqlite|postgres`, else a folder.

`make catalogs` plays the conformance suite and what stands on it with each.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from infra.kafka.broker import free_port
from infra.stack.postgres import HOST, USER, Postgres
from tidegate.project.environment import CatalogSettings, Warehouse
from tidegate.project.storage import Storage

_VARIABLE = "TIDEGATE_TEST_CATALOG"
_PASSWORD = "TIDEGATE_TEST_CATALOG_PASSWORD"
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
    assert kind is None, kind
    return None


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
