"""Sessions of tidegate on the runner without a JVM."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from tests.inprocess.definitions import analysed_once
from tests.inprocess.stored.catalog import FolderCatalog, SqliteCatalog
from tests.inprocess.stored.tables import InProcessTables
from tests.inprocess.topics import InProcessTopics
from tidegate.project import Project
from tidegate.runtime.runner import Runner
from tidegate.session.session import Session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@contextmanager
def without_a_jvm() -> Iterator[None]:
    """While the block runs, PySpark's functions are those of Spark Connect."""
    from pyspark.errors import utils

    before, debugging = os.environ.get("SPARK_CONNECT_MODE_ENABLED"), utils._enable_debugging_cache
    os.environ["SPARK_CONNECT_MODE_ENABLED"] = "1"
    # Else every function looks for IPython, which is not there, and nine tenths of the time go there.
    utils._enable_debugging_cache = False
    try:
        with analysed_once():
            yield
    finally:
        utils._enable_debugging_cache = debugging
        if before is None:
            del os.environ["SPARK_CONNECT_MODE_ENABLED"]
        else:
            os.environ["SPARK_CONNECT_MODE_ENABLED"] = before


def new_spark() -> SparkSession:
    """A session of Spark Connect with settings and temporary views of its own."""
    from tests.inprocess.server import connect

    return connect()


def open_session(root: Path) -> Session:
    """A session on the project in `root`."""
    return session_on(Project.load(root))


def session_on(project: Project) -> Session:
    warehouse = project.storage.local_warehouse
    assert warehouse is not None
    spark = new_spark()
    file = project.storage.sqlite
    catalog = FolderCatalog(warehouse) if file is None else SqliteCatalog(warehouse, file)
    tables = InProcessTables(spark, catalog)
    return Session(project, Runner(tables, InProcessTopics(spark)))
