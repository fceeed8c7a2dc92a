"""Sessions of tidegate on the runner without a JVM."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.inprocess.frames import EAGER
from tests.inprocess.tables import InProcessTables
from tidegate.project import Project
from tidegate.runtime.runner import Runner
from tidegate.session.session import Session
from tidegate.sql.dialect.attempts import without_attempts

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
    before = os.environ.get("SPARK_CONNECT_MODE_ENABLED")
    os.environ["SPARK_CONNECT_MODE_ENABLED"] = "1"
    try:
        yield
    finally:
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

    for name, method in EAGER.items():
        setattr(Frame, name, method)
    spark = Connect(_server())
    for key, value in _SETTINGS.items():
        spark.conf.set(key, value)
    # Types in DDL are parsed by the default session.
    Connect._set_default_and_active_session(spark)
    client: Any = spark.client
    client._stub = _Stub(client._stub)
    return spark  # type: ignore[return-value]  # of Spark Connect


class _Stub:
    """What goes to the server, in SQL that it knows: `tidegate_attempt(x)` (C7) is `x` there."""

    def __init__(self, stub: Any) -> None:
        self._stub = stub

    def __getattr__(self, name: str) -> Any:
        asked = getattr(self._stub, name)
        if name not in ("ExecutePlan", "AnalyzePlan"):
            return asked

        def ask(request: Any, *given: Any, **more: Any) -> Any:
            _rewrite(request)
            return asked(request, *given, **more)

        return ask


def _rewrite(message: Any) -> None:
    if message.DESCRIPTOR.name == "UnresolvedFunction" and message.function_name == "try_subtract":
        message.function_name = "-"
    for field, value in message.ListFields():
        if field.type == field.TYPE_MESSAGE:
            if field.message_type.GetOptions().map_entry:
                continue
            for one in value if field.is_repeated else [value]:
                _rewrite(one)
        elif field.name in ("query", "expression") and isinstance(value, str) and "tidegate_attempt" in value:
            setattr(message, field.name, without_attempts(value))


def drive(
    name: str, step: Callable[[], bool], interval: float = 0.0, stop: threading.Event | None = None
) -> None:
    """Steps one after the other, without waiting."""
    while not (stop is not None and stop.is_set()) and step():
        pass


def open_session(root: Path) -> Session:
    """A session on the project in `root`."""
    project = Project.load(root)
    project.catalog()
    warehouse = project.storage.local_warehouse
    assert warehouse is not None
    return Session(project, Runner(InProcessTables(new_spark(), warehouse), drive))
