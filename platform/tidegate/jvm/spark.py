"""Spark sessions: what tidegate needs of one, where its jar comes from, and how executors get the package."""

from __future__ import annotations

import logging
import os
import re
import socket
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from tidegate.errors import TidegateError
from tidegate.jvm import secrecy
from tidegate.jvm.attempts import know_attempts
from tidegate.jvm.catalog import load_catalog
from tidegate.jvm.class_archive import ANY_PURPOSE, Purpose
from tidegate.jvm.failures import spark_message
from tidegate.jvm.jars import ivy_name, verify
from tidegate.jvm.java import java_class, remember_classes
from tidegate.jvm.local_files import without_processes, without_sums
from tidegate.jvm.packages import ICEBERG_PACKAGE, cached_jar, jar_settings
from tidegate.jvm.ui_token import guarded
from tidegate.project.disk import private_folder, temporary_space, trouble
from tidegate.project.storage import CATALOG, S3A_PACKAGES, SQLITE_PACKAGE, Storage
from tidegate.store import sqlite_catalog

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tidegate.project import Environment


#: What every tidegate query runs under, in a child session, so that a caller's own session keeps its settings.
SQL_SETTINGS = {
    **secrecy.SESSION,
    "spark.sql.session.timeZone": "UTC",
    # C7: an expression that fails on a row yields NULL; what could wrap silently is rewritten to try_*.
    "spark.sql.ansi.enabled": "false",
    "spark.sql.caseSensitive": "false",
    # X1: '${env:HOME}' is a text; Spark would put the environment, the JVM's properties and its own settings there.
    "spark.sql.variable.substitute": "false",
    # X1: parquet.`/x` is no table, should a query ever get so far.
    "spark.sql.runSQLOnFiles": "false",
    # What a caller's application may have set otherwise, and what would lose rows or change types in silence.
    "spark.sql.timestampType": "TIMESTAMP_LTZ",
    "spark.sql.legacy.timeParserPolicy": "CORRECTED",
    "spark.sql.files.ignoreCorruptFiles": "false",
    "spark.sql.files.ignoreMissingFiles": "false",
    "spark.sql.parser.quotedRegexColumnNames": "false",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
    # Rows may be large (a message of 10 MB): a batch is cut by whichever comes first.
    "spark.sql.execution.arrow.maxBytesPerBatch": str(64 << 20),
    "spark.sql.sources.partitionOverwriteMode": "static",
    # A batch's rows stay on the task that their source partition was hashed to.
    "spark.sql.adaptive.coalescePartitions.enabled": "false",
    "spark.sql.streaming.minBatchesToRetain": "10",
    "spark.sql.streaming.metricsEnabled": "false",
    "spark.sql.json.enablePartialResults": "true",
    # What is kept is read two or three times, and then given back: to compress it costs more.
    "spark.sql.inMemoryColumnarStorage.compressed": "false",
}

#: The JVM's second compiler begins thirty times later than by default, and its garbage collector has no threads of its
#: own: they took more time than all tasks of a run, whose rows are not the JVM's. What is hot for long is compiled.
_SPARING = (
    "-XX:Tier4InvocationThreshold=150000 -XX:Tier4MinInvocationThreshold=18000 "
    "-XX:Tier4CompileThreshold=450000 -XX:Tier4BackEdgeThreshold=1200000 -XX:+UseSerialGC "
    # A JVM whose heap is full answers each request with that error, for ever: its supervisor, or the next run, has
    # another one.
    "-XX:+ExitOnOutOfMemoryError"
)
#: In the sessions of a Spark that lasts. Iceberg's reader by columns keeps half a kilobyte of heap for each file that
#: it has read, for ever (its issue 13937); the reader by rows takes 0.1 s of CPU more for a million of them.
_LASTING = {"spark.sql.iceberg.vectorization.enabled": "false"}
_EVERYWHERE = {
    # Tasks write as much as they read, again and again: the allocator keeps for some seconds what is free.
    "spark.executorEnv.MIMALLOC_PURGE_DELAY": "10000",
    # Where in Python each column was made: half of a statement's calls to the JVM, for what our errors do not show.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    # Spark keeps a hundred queries that it has compiled. The upkeep alone of a project of many tables has more of them,
    # so each one would be compiled again and again.
    "spark.sql.codegen.cache.maxEntries": "1000",
}
_LOCAL_SETTINGS = {
    **_EVERYWHERE,
    "spark.driver.extraJavaOptions": _SPARING,
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.memory": "2g",
    "spark.python.worker.reuse": "true",
    "spark.python.daemon.module": "tidegate.tasks.daemon",
    "spark.shuffle.compress": "false",
    "spark.log.level": "ERROR",
}

#: On a cluster: what people see is tidegate's own progress, not Spark's bar and warnings between its lines. Spark's UI
#: listens on all addresses: only where somebody asks for it (`ui_token.py`).
_REMOTE_SETTINGS = {
    **_EVERYWHERE,
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
}
#: Of what Spark keeps for its UI, where that is off. By default it is of the last 1,000 jobs, stages and queries, which
#: nobody sees: 5 MB of heap for the jobs, and more for the queries.
_UNSEEN = {
    "spark.ui.retainedJobs": "50",
    "spark.ui.retainedStages": "50",
    "spark.ui.retainedTasks": "1000",
    "spark.sql.ui.retainedExecutions": "50",
    # How often it writes down what tasks of a job that runs have done, which `within.progress` asks for.
    "spark.ui.liveUpdate.period": "1s",
}
_MASTER_SECONDS = 5.0

#: How many tasks of each core run at a time in a process that works for several groups.
_TASKS_PER_CORE = 4

#: How many tasks run at a time: a setting of the session, so that whoever has only that knows it.
_CORES = "spark.tidegate.cores"


def start(
    environment: Environment,
    packages: Sequence[str],
    name: str,
    log: Path | None = None,
    purpose: Purpose = ANY_PURPOSE,
    ui_token: Path | None = None,
    several: bool = False,
) -> SparkSession:
    """Start (or reuse) this process's Spark for `environment`.

    `packages`: Maven coordinates beyond the Iceberg runtime, such as KAFKA_PACKAGES. The jars are resolved once into
    Ivy's cache; later starts find them there and do not ask the network. Where there is no network, put the jars into
    jar_folder() (see there). `log`: file that gets what the JVM itself has to say, instead of this process's standard
    error. `purpose`: Sparks of the same one share an archive of classes (`class_archive.py`). `ui_token`: where the
    token is put that Spark's UI asks for, if it is on; without one it is off (`ui_token.py`). `several`: it works for
    several groups at a time.
    Raises TG514, with the end of that log, if Spark does not start, TG518 for a jar that is not the right one, and
    TG623 where it would have no room for temporary files.
    """
    from pyspark.sql import SparkSession

    # PySpark reads the executors' interpreter from the environment only; spark-submit alone knows the setting.
    executors = environment.spark.conf.get("spark.pyspark.python", sys.executable)
    os.environ.setdefault("PYSPARK_PYTHON", executors)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    # Spark's bind address has a variable of its own that the launcher reads before any setting.
    local = in_this_process(environment.spark.master)
    if local:
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    _require_master(environment.spark.master)
    builder = SparkSession.builder
    settings = {"spark.app.name": f"tidegate {name}", "spark.master": environment.spark.master}
    settings |= _LOCAL_SETTINGS if local else _REMOTE_SETTINGS
    if local:
        settings |= _scratch(environment.spark.conf.get("spark.local.dir"))
    if several:
        settings |= _shared(environment.spark.master)
    packages = [ICEBERG_PACKAGE, *packages]
    settings |= environment.spark.conf | jar_settings(packages, environment.spark.conf, local, purpose)
    if SparkSession.getActiveSession() is None:
        settings |= guarded(settings, ui_token)
        settings = unseen(settings) | settings
    here, notes = _verified(packages, environment)
    split = secrecy.split(settings)
    for key, value in split.shown.items():
        builder = builder.config(key, value)
    if SparkSession.getActiveSession() is not None:
        # It has its settings already, and those that a session adds are seen by everybody.
        return builder.getOrCreate()
    if log is None:
        secrecy.launch(split)
        return _with_cheap_files(builder.getOrCreate(), purpose)
    try:
        with _standard_error_to(log):
            os.write(2, "".join(f"{note}\n" for note in notes).encode())
            secrecy.launch(split)
            started = builder.getOrCreate()
    except Exception as error:
        if (known := trouble(error)) is not None:
            raise known from error
        tail = " / ".join(log.read_text(errors="replace").strip().splitlines()[-3:])
        raise TidegateError(
            "TG514", f"Spark does not start: {spark_message(error)}", hint=f"{log} ends with: {tail}"
        ) from error
    _verified([package for package in packages if package not in here], environment)  # what Spark has fetched
    return _with_cheap_files(started, purpose)


def _with_cheap_files(spark: SparkSession, purpose: Purpose) -> SparkSession:
    without_sums(spark)
    if purpose.lasting:
        without_processes(spark)
    return spark


def _shared(master: str) -> dict[str, str]:
    """Settings of a Spark that works for several groups at a time: each gets its share of the cores. A task of Spark is
    not interrupted for another one, but a process is by the operating system: with more tasks at a time than cores, one
    that never ends slows the others down, and does not stop them."""
    settings = {"spark.scheduler.mode": "FAIR"}
    # `local` is one core; after a comma stands how often a task may fail.
    if (found := re.fullmatch(r"local(?:\[\s*(\d+|\*)\s*(?:,\s*(\d+)\s*)?\])?", master)) is not None:
        count = os.cpu_count() or 1 if found[1] == "*" else int(found[1] or 1)
        failures = "" if found[2] is None else f",{found[2]}"
        settings |= {
            "spark.master": f"local[{_TASKS_PER_CORE * count}{failures}]",
            "spark.default.parallelism": str(count),
        }
    return settings


def unseen(settings: Mapping[str, str]) -> dict[str, str]:
    """How little Spark keeps for its UI, if these settings say that nobody sees it."""
    return {} if settings.get("spark.ui.enabled", "true") == "true" else dict(_UNSEEN)


def _scratch(configured: str | None) -> dict[str, str]:
    """Where this process's Spark spills and shuffles, in which there is room: one of the folders of `spark.local.dir`,
    else TMPDIR, which a JVM does not ask for by itself. Raises TG623."""
    own = temporary_space()
    folders = [folder.strip() for folder in (configured or "").split(",") if folder.strip()]
    refused: list[TidegateError] = []
    for folder in folders:
        try:
            temporary_space(folder, make=True)
        except TidegateError as error:
            refused.append(error)
    if refused and len(refused) == len(folders):
        raise refused[0]
    return {} if folders or "TMPDIR" not in os.environ else {"spark.local.dir": own}


def _verified(packages: Sequence[str], environment: Environment) -> tuple[dict[str, Path], list[str]]:
    """Those of `packages` that are on this machine, and what is to be said of their jars (`jars.verify`; TG518)."""
    found = {
        package: cached_jar(package, environment.spark.conf.get("spark.jars.ivy")) for package in packages
    }
    here = {package: jar for package, jar in found.items() if jar}
    return here, verify({ivy_name(package): jar for package, jar in here.items()})


@contextmanager
def _standard_error_to(log: Path) -> Iterator[None]:
    """While the block runs, file descriptor 2 is `log`: a JVM started now keeps it for its whole life."""
    private_folder(log.parent)
    sys.stderr.flush()
    saved = os.dup(2)
    try:
        with log.open("wb") as file:
            os.dup2(file.fileno(), 2)
        yield
    finally:
        os.dup2(saved, 2)
        os.close(saved)
        secrecy.blacken_logins(log)


def child(parent: SparkSession, storage: Storage, lasting: bool = False) -> SparkSession:
    """A session of the same Spark application with tidegate's SQL settings and catalog, and its own temp views.
    `lasting`: the application is to run for months. Raises TG501, TG620 for a catalog that does not answer."""
    # PySpark logs every refused query as a line of JSON; people get the TidegateError that comes of it.
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)
    spark = parent.newSession()
    # Iceberg's cache would show what other sessions and processes commit half a minute late.
    fresh = {f"spark.sql.catalog.{CATALOG}.cache-enabled": "false"}
    for key, value in (SQL_SETTINGS | storage.spark_conf() | fresh | (_LASTING if lasting else {})).items():
        spark.conf.set(key, value)
    if not _is_shown(parent):
        # Spark describes the plan of each query, for its UI and event logs, and searches the description for secrets: a
        # fifth of the driver's time in a small tick.
        spark.conf.set("spark.sql.ui.explainMode", "simple")
        spark.conf.set("spark.sql.maxPlanStringLength", "100")
    if not has_class(spark, "org.apache.iceberg.spark.SparkCatalog"):
        raise TidegateError(
            "TG501",
            "this Spark session has no Iceberg runtime",
            hint=f"start it with spark.jars.packages={ICEBERG_PACKAGE}, or let tidegate.connect() start Spark",
        )
    if storage.sqlite is not None:
        _require_sqlite(spark)
        sqlite_catalog.prepare(storage.sqlite)
    spark.conf.set(_CORES, str(spark.sparkContext.defaultParallelism))
    load_catalog(spark, storage)
    know_attempts(spark)
    remember_classes(spark._jvm)
    _ship_package(spark)
    return spark


def _is_shown(spark: SparkSession) -> bool:
    """Whether somebody can see the plans of queries: in Spark's UI, or in event logs."""
    given = spark.sparkContext.getConf()
    return given.get("spark.ui.enabled", "true") == "true" or given.get("spark.eventLog.enabled") == "true"


def require_s3(spark: SparkSession, what: str) -> None:
    """TG607 if this Spark, which somebody else may have started, lacks the jars to read `s3://` in `what`."""
    if not has_class(spark, "org.apache.hadoop.fs.s3a.S3AFileSystem"):
        raise TidegateError(
            "TG607",
            f"{what} is on S3, but this Spark session has no jars for it",
            hint=f"start it with spark.jars.packages={','.join(S3A_PACKAGES)}, or let tidegate.connect() start Spark",
        )


def _require_sqlite(spark: SparkSession) -> None:
    """TG607 if this Spark, which somebody else may have started, lacks the driver of a catalog in SQLite."""
    if not has_class(spark, "org.sqlite.JDBC"):
        raise TidegateError(
            "TG607",
            "the catalog is a file of SQLite, but this Spark session has no driver for it",
            hint=f"start it with spark.jars.packages={SQLITE_PACKAGE}, or let tidegate.connect() start Spark",
        )


def cores(spark: SparkSession) -> int:
    """How many tasks run at a time, as `child` has found it."""
    known = vars(spark)
    if _CORES not in known:
        known[_CORES] = int(spark.conf.get(_CORES) or 1)
    found: int = known[_CORES]
    return found


def is_running(spark: SparkSession) -> bool:
    """Whether the JVM is still there, and Spark has not been stopped."""
    try:
        return not spark._jsc.sc().isStopped()
    except Exception:
        return False


def has_class(spark: SparkSession, name: str) -> bool:
    """Whether Spark was started with the jar of a Java class, and all that the class needs to be loaded."""
    from py4j.protocol import Py4JJavaError

    try:
        java_class(spark._jvm, "java.lang.Class").forName(
            name, False, java_class(spark._jvm, "java.lang.Thread").currentThread().getContextClassLoader()
        )
    except Py4JJavaError:
        # The JVM's answer. That of a JVM that is gone is another error, which says nothing about jars.
        return False
    return True


def _require_master(master: str) -> None:
    """TG514 if no standalone master answers. Spark itself would ask for a minute, and then fail with another error."""
    if not master.startswith("spark://"):
        return
    for address in master.removeprefix("spark://").split(","):
        host, _, port = address.rpartition(":")
        try:
            socket.create_connection((host, int(port)), _MASTER_SECONDS).close()
        except (OSError, ValueError):
            continue
        return
    raise TidegateError(
        "TG514",
        f"the Spark master {master} does not answer",
        hint="start it (`make cluster` starts one on this machine), or correct spark.master of the environment",
    )


def in_this_process(master: str) -> bool:
    """Whether tasks run on this machine with this installation: local[2] does, local-cluster[…] does not."""
    return master.startswith("local") and not master.startswith("local-cluster")


def _ship_package(spark: SparkSession) -> None:
    """Give executors on other machines the tidegate package itself, as a zip that Spark distributes.

    Beyond it they need what PySpark's own Arrow paths need: numpy and pyarrow (`tidegate doctor --deep` compares
    their versions with the driver's). In local mode the workers see the driver's installation.
    """
    context = spark.sparkContext
    if in_this_process(context.master or "") or getattr(context, "_tidegate_shipped", False):
        return
    package = Path(__file__).resolve().parent.parent
    archive = Path(tempfile.mkdtemp(prefix="tidegate-", dir=temporary_space())) / "tidegate.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as out:
        for file in sorted(package.rglob("*")):
            if file.is_file() and "__pycache__" not in file.parts:
                out.write(file, Path("tidegate") / file.relative_to(package))
    context.addPyFile(str(archive))
    context._tidegate_shipped = True  # type: ignore[attr-defined]  # a mark of our own on Spark's object
