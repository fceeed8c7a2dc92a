"""The end of the JVM, and of what a session has open in it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from tidegate.jvm.java import java_class
from tidegate.jvm.within import active
from tidegate.project.storage import CATALOG

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def when_gone(spark: SparkSession, call: Callable[[], None]) -> None:
    """Call, in a thread, as soon as the JVM's process has ended; never for a JVM that this process has not started."""
    process = getattr(spark.sparkContext._gateway, "proc", None)
    if process is None:
        return

    def wait() -> None:
        process.wait()
        call()

    threading.Thread(target=wait, daemon=True, name="tidegate-jvm").start()


def close_catalog(spark: SparkSession) -> None:
    """Close the catalog of a session that is not used any more. Each session has its own one: a client of a REST
    server, or two connections to a database, which would stay open as long as the JVM."""
    with active(spark):
        plugin = spark._jsparkSession.sessionState().catalogManager().catalog(CATALOG)
        catalog = plugin.icebergCatalog()
        closeable = java_class(spark._jvm, "java.lang.Class").forName("java.lang.AutoCloseable")
        if closeable.isInstance(catalog):
            catalog.close()
