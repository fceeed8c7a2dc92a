"""A real S3 server on loopback (moto's), behind a proxy that fails where a test says so."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest

from tests.support.faulty_http import FaultyHttp, faulty_http
from tidegate.project import Storage
from tidegate.project.environment import CatalogSettings, StorageSettings, Warehouse

KEY = "key-of-tests"


@pytest.fixture(scope="session")
def s3_server() -> Iterator[str]:
    """URL of an S3 server on loopback."""
    from moto.server import ThreadedMotoServer

    # A line for each request would hide what a failing test says.
    logging.getLogger("werkzeug").setLevel(logging.WARNING)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        yield f"http://{host}:{port}"
    finally:
        server.stop()


@pytest.fixture
def store(s3_server: str) -> str:
    """URL of an S3 server without any bucket."""
    # What an earlier test of this process has stored would still be there.
    urlopen(Request(f"{s3_server}/moto-api/reset", method="POST")).close()
    return s3_server


@pytest.fixture
def s3(store: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[FaultyHttp]:
    """The proxy in front of the server, which has a bucket `lake`."""
    monkeypatch.setenv("S3_SECRET", "secret-of-tests")
    with faulty_http(store) as proxy:
        bucket(storage_on(proxy.url), "lake")
        proxy.seen.clear()
        yield proxy


def bucket(storage: Storage, name: str) -> None:
    """Make a bucket; the file systems of projects may not."""
    filesystem, _ = storage.filesystem()
    settings = filesystem.__reduce__()[1][0]
    type(filesystem)(**(settings | {"allow_bucket_creation": True})).create_dir(name)


def settings_of(url: str) -> dict[str, Any]:
    """`warehouse.storage` of a project."""
    return {
        "endpoint": url,
        "region": "us-east-1",
        "access_key_id": KEY,
        "secret_access_key": "${S3_SECRET}",
        "path_style": True,
    }


def storage_on(url: str, path: str = "s3://lake/tidegate") -> Storage:
    """A warehouse there, without any project."""
    settings = StorageSettings.model_validate(settings_of(url) | {"secret_access_key": "secret-of-tests"})
    catalog = CatalogSettings(type="jdbc", uri="jdbc:sqlite:/nowhere/catalog.db")
    return Storage(Path("/"), Warehouse(path=path, catalog=catalog, storage=settings))
