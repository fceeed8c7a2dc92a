"""Sessions of tidegate on the runner without a JVM."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.inprocess.catalog import FolderCatalog
from tests.inprocess.frames import adapt
from tests.inprocess.requests import Stub
from tests.inprocess.tables import InProcessTables
from tests.inprocess.topics import InProcessTopics
from tests.inprocess.views import Views
from tidegate.project import Project
from tidegate.runtime.runner import Runner
from tidegate.session.session import Session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SETTINGS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "false",
    "spark.tidegate.cores": "2",
}


@contextmanager
def without_a_jvm() -> Iterator[None]:
    """While the block runs, PySpark's functions are those of Spark Connect."""
    from pyspark.errors import utils

    before, debugging = os.environ.get("SPARK_CONNECT_MODE_ENABLED"), utils._enable_debugging_cache
    os.environ["SPARK_CONNECT_MODE_ENABLED"] = "1"
    # Else every function looks for IPython, which is not there, and nine tenths of the time go there.
    utils._enable_debugging_cache = False
    try:
        yield
    finally:
        utils._enable_debugging_cache = debugging
        if before is None:
            del os.environ["SPARK_CONNECT_MODE_ENABLED"]
        else:
            os.environ["SPARK_CONNECT_MODE_ENABLED"] = before


@cache
def _server() -> str:
    from pysail.spark import SparkConnectServer

    server = SparkConnectServer("127.0.0.1", 0)
    server.start(background=True)
    host, port = server.listening_address
    _server.kept = server  # type: ignore[attr-defined]  # it ends with its last reference
    return f"sc://{host}:{port}"


def new_spark() -> SparkSession:
    """A session of Spark Connect with settings and temporary views of its own."""
    from pyspark.sql.connect.dataframe import DataFrame as Frame
    from pyspark.sql.connect.session import SparkSession as Connect

    adapt(Frame)
    spark = Connect(_server())
    client: Any = spark.client
    # An answer that breaks off isn't asked for again: the server is this process. What asks again needs threads, which
    # a session that is collected as garbage waits for, while it may itself be what they wait for.
    client.disable_reattachable_execute()
    client._stub = Stub(client._stub)
    for key, value in _SETTINGS.items():
        spark.conf.set(key, value)
    views = Views(spark)  # type: ignore[arg-type]  # of Spark Connect
    vars(spark).update(tidegate_views=views, sql=views.query, table=views.table)
    # What asks for the session of this thread, or of the process, finds the newest one.
    Connect._set_default_and_active_session(spark)
    return spark  # type: ignore[return-value]  # of Spark Connect


def drive(
    name: str, step: Callable[[], bool], interval: float = 0.0, stop: threading.Event | None = None
) -> None:
    """Steps one after the other, without waiting."""
    while not (stop is not None and stop.is_set()) and step():
        pass


def open_session(root: Path) -> Session:
    """A session on the project in `root`."""
    return session_on(Project.load(root))


def session_on(project: Project) -> Session:
    project.catalog()
    warehouse = project.storage.local_warehouse
    assert warehouse is not None
    spark = new_spark()
    tables = InProcessTables(spark, FolderCatalog(warehouse))
    return Session(project, Runner(tables, drive, InProcessTopics(spark)))
