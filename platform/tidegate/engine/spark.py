"""Spark sessions: what tidegate needs of one, where its jar comes from, and how executors get the package."""

from __future__ import annotations

import logging
import os
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from tidegate.engine.failures import spark_message
from tidegate.errors import TidegateError
from tidegate.project.storage import CATALOG

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tidegate.project import Environment

#: The runtime that belongs to the pinned pyspark. One self-contained jar.
ICEBERG_PACKAGE = "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0"

#: What every tidegate query runs under, in a child session, so that a caller's own session keeps its settings.
SQL_SETTINGS = {
    "spark.sql.session.timeZone": "UTC",
    # C7: an expression that fails on a row yields NULL; what could wrap silently is rewritten to try_*.
    "spark.sql.ansi.enabled": "false",
    "spark.sql.caseSensitive": "false",
    # What a caller's application may have set otherwise, and what would lose rows or change types in silence.
    "spark.sql.timestampType": "TIMESTAMP_LTZ",
    "spark.sql.legacy.timeParserPolicy": "CORRECTED",
    "spark.sql.files.ignoreCorruptFiles": "false",
    "spark.sql.files.ignoreMissingFiles": "false",
    "spark.sql.parser.quotedRegexColumnNames": "false",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
    "spark.sql.sources.partitionOverwriteMode": "static",
    # A batch's rows stay on the task that their source partition was hashed to.
    "spark.sql.adaptive.coalescePartitions.enabled": "false",
    "spark.sql.streaming.minBatchesToRetain": "10",
    "spark.sql.streaming.metricsEnabled": "false",
    "spark.sql.json.enablePartialResults": "true",
}

_LOCAL_SETTINGS = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.memory": "2g",
    "spark.python.worker.reuse": "true",
    "spark.shuffle.compress": "false",
    "spark.log.level": "ERROR",
}


def start(environment: Environment, packages: list[str], name: str, log: Path | None = None) -> SparkSession:
    """Start (or reuse) this process's Spark for `environment`.

    `packages`: Maven coordinates beyond the Iceberg runtime. The jars are resolved once into Ivy's cache; later
    starts find them there and do not ask the network. `log`: file that gets what the JVM itself has to say, instead
    of this process's standard error. Raises TG514, with the end of that log, if Spark does not start.
    """
    from pyspark.sql import SparkSession

    # PySpark reads the executors' interpreter from the environment only; spark-submit alone knows the setting.
    executors = environment.spark.conf.get("spark.pyspark.python", sys.executable)
    os.environ.setdefault("PYSPARK_PYTHON", executors)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    # Spark's bind address has a variable of its own that the launcher reads before any setting.
    local = _in_this_process(environment.spark.master)
    if local:
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder = SparkSession.builder.appName(f"tidegate {name}").master(environment.spark.master)
    settings = dict(_LOCAL_SETTINGS) if local else {}
    settings |= _jars([ICEBERG_PACKAGE, *packages]) | environment.spark.conf
    for key, value in settings.items():
        builder = builder.config(key, value)
    if log is None or SparkSession.getActiveSession() is not None:
        return builder.getOrCreate()
    try:
        with _standard_error_to(log):
            return builder.getOrCreate()
    except Exception as error:
        tail = " / ".join(log.read_text(errors="replace").strip().splitlines()[-3:])
        raise TidegateError(
            "TG514", f"Spark does not start: {spark_message(error)}", hint=f"{log} ends with: {tail}"
        ) from error


@contextmanager
def _standard_error_to(log: Path) -> Iterator[None]:
    """While the block runs, file descriptor 2 is `log`: a JVM started now keeps it for its whole life."""
    log.parent.mkdir(parents=True, exist_ok=True)
    sys.stderr.flush()
    saved = os.dup(2)
    try:
        with log.open("wb") as file:
            os.dup2(file.fileno(), 2)
        yield
    finally:
        os.dup2(saved, 2)
        os.close(saved)


def child(parent: SparkSession, catalog_settings: dict[str, str]) -> SparkSession:
    """A session of the same Spark application with tidegate's SQL settings and catalog, and its own temp views."""
    # PySpark logs every refused query as a line of JSON; people get the TidegateError that comes of it.
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)
    spark = parent.newSession()
    # Iceberg's cache would show what other sessions and processes commit half a minute late.
    fresh = {f"spark.sql.catalog.{CATALOG}.cache-enabled": "false"}
    for key, value in (SQL_SETTINGS | catalog_settings | fresh).items():
        spark.conf.set(key, value)
    try:
        spark._jvm.java.lang.Class.forName(
            "org.apache.iceberg.spark.SparkCatalog",
            False,
            spark._jvm.java.lang.Thread.currentThread().getContextClassLoader(),
        )
    except Exception as error:
        raise TidegateError(
            "TG501",
            "this Spark session has no Iceberg runtime",
            hint=f"start it with spark.jars.packages={ICEBERG_PACKAGE}, or let tidegate.connect() start Spark",
        ) from error
    _ship_package(spark)
    return spark


def cached_jars(packages: list[str]) -> list[str] | None:
    """The jars of Maven coordinates in Ivy's cache; None unless all are there."""
    cache = Path.home() / ".ivy2.5.2" / "jars"  # where Spark 4.1 keeps what it resolved
    jars = [
        cache / f"{group}_{name}-{version}.jar" for group, name, version in (p.split(":") for p in packages)
    ]
    return [str(jar) for jar in jars] if all(jar.is_file() for jar in jars) else None


def _jars(packages: list[str]) -> dict[str, str]:
    """`spark.jars` from the cache if everything is there (no resolution at start-up), else have it resolved."""
    jars = cached_jars(packages)
    return {"spark.jars": ",".join(jars)} if jars else {"spark.jars.packages": ",".join(packages)}


def _in_this_process(master: str) -> bool:
    """Whether tasks run on this machine with this installation: local[2] does, local-cluster[…] does not."""
    return master.startswith("local") and not master.startswith("local-cluster")


def _ship_package(spark: SparkSession) -> None:
    """Give executors on other machines the tidegate package itself, as a zip that Spark distributes.

    Beyond it they need what PySpark's own Arrow paths need: numpy and pyarrow (`tidegate doctor --deep` compares
    their versions with the driver's). In local mode the workers see the driver's installation.
    """
    context = spark.sparkContext
    if _in_this_process(context.master) or getattr(context, "_tidegate_shipped", False):
        return
    package = Path(__file__).resolve().parent.parent
    archive = Path(tempfile.mkdtemp(prefix="tidegate-")) / "tidegate.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as out:
        for file in sorted(package.rglob("*")):
            if file.is_file() and "__pycache__" not in file.parts:
                out.write(file, Path("tidegate") / file.relative_to(package))
    context.addPyFile(str(archive))
    context._tidegate_shipped = True
