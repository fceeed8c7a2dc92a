"""A real S3 server on loopback (moto's), behind a proxy that fails where a test says so."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest

from infra.demo_s3.s3 import make_bucket as bucket
from infra.demo_s3.s3 import s3_server as s3_server_here
from tests.support.faulty_http import FaultyHttp, faulty_http
from tidegate.project import Storage
from tidegate.project.environment import CatalogSettings, StorageSettings, Warehouse
from tidegate.project.object_store import ConditionalPut

KEY = "key-of-tests"
SECRET = "secret-of-tests"


@pytest.fixture(scope="session")
def s3_server() -> Iterator[str]:
    """URL of an S3 server on loopback."""
    with s3_server_here() as url:
        yield url


@pytest.fixture
def store(s3_server: str) -> str:
    """URL of an S3 server without any bucket."""
    # What an earlier test of this process has stored would still be there.
    urlopen(Request(f"{s3_server}/moto-api/reset", method="POST")).close()
    return s3_server


@pytest.fixture
def s3(store: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[FaultyHttp]:
    """The proxy in front of the server, which has a bucket `lake`."""
    monkeypatch.setenv("S3_SECRET", SECRET)
    with faulty_http(store) as proxy:
        bucket(storage_on(proxy.url), "lake")
        proxy.seen.clear()
        yield proxy


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
    settings = StorageSettings.model_validate(settings_of(url) | {"secret_access_key": SECRET})
    catalog = CatalogSettings(type="jdbc", uri="jdbc:sqlite:/nowhere/catalog.db")
    return Storage(Path("/"), Warehouse(path=path, catalog=catalog, storage=settings))


def conditional_put(url: str) -> ConditionalPut:
    """Conditional writes without a JVM, as `jvm/conditional.py` makes them in one."""
    import boto3
    from botocore.config import Config
    from botocore.exceptions import BotoCoreError, ClientError

    client = boto3.client(
        "s3",
        endpoint_url=url,
        region_name="us-east-1",
        aws_access_key_id=KEY,
        aws_secret_access_key=SECRET,
        config=Config(retries={"mode": "standard", "total_max_attempts": 3}),
    )

    def put(path: str, content: bytes, version: str | None) -> str | None:
        bucket, _, key = path.partition("/")
        condition = {"IfNoneMatch": "*"} if version is None else {"IfMatch": version}
        try:
            return client.put_object(Bucket=bucket, Key=key, Body=content, **condition)["ETag"]
        except ClientError as error:
            if error.response["ResponseMetadata"]["HTTPStatusCode"] not in (409, 412):
                raise
        except BotoCoreError as error:
            raise OSError(f"AWS Error in a PutObject operation: {error}") from None
        found = client.get_object(Bucket=bucket, Key=key)
        return found["ETag"] if found["Body"].read() == content else None

    return put
