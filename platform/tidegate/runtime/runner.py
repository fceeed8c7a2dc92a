"""The port to what runs the engine's work. Users' work runs on Spark; tests have a second adapter, without a JVM."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from tidegate.iceberg.tables import SparkTables
from tidegate.jvm.conditional import S3Conditions
from tidegate.jvm.endings import close_catalog
from tidegate.jvm.spark import is_running
from tidegate.jvm.within import active, progress
from tidegate.runtime.cluster_looks import SharedLooks
from tidegate.runtime.kafka_topics import SparkTopics
from tidegate.runtime.lease import lease

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tidegate.iceberg.tables import Tables
    from tidegate.project import Storage
    from tidegate.project.object_store import ConditionalPut
    from tidegate.runtime.topics import Topics


Clock = Callable[[], datetime]
Conditions = Callable[["Storage"], "ConditionalPut | None"]


def no_conditions(storage: Storage) -> ConditionalPut | None:
    """Of a store of which nobody asks for conditional writes."""
    return None


def now() -> datetime:
    """The wall clock, UTC."""
    return datetime.now(UTC)


@dataclass(frozen=True)
class Runner:
    """What engine code needs of the outside: the stored `tables`, whose session makes DataFrames and runs tasks on
    them, the `topics` of Kafka, the wall `clock`, and the `lease` of a name (`lease.py`). `elapsed`: seconds of a clock
    that nobody sets; `wait`: let so many seconds pass; `answers`: whether what runs tasks is still there; `conditions`:
    the conditional writes of a storage on S3; `serve`: let its files be removed by a client that leaves no folders;
    `working`: what a thread has to be in while it works for a name, beside threads that work for other names;
    `progress`: of what runs tasks for a name, something else whenever that has come further; `close`: give back what
    the session has open, and nobody else has."""

    tables: Tables
    topics: Topics
    clock: Clock = now
    lease: Callable[[Path, str], AbstractContextManager[None]] = lease
    elapsed: Callable[[], float] = time.monotonic
    wait: Callable[[float], None] = time.sleep
    answers: Callable[[], bool] = lambda: True
    conditions: Conditions = no_conditions
    serve: Callable[[Storage], None] = lambda storage: None
    working: Callable[[str], AbstractContextManager[None]] = lambda name: nullcontext()
    progress: Callable[[str], object] = lambda name: None
    close: Callable[[], None] = lambda: None


def spark_runner(spark: SparkSession, beside: Runner | None = None) -> Runner:
    """Spark with Iceberg's Java. `beside`: what else runs work in this process; both ask clusters of Kafka together."""
    s3 = S3Conditions(spark)
    known = None if beside is None else beside.topics
    return Runner(
        SparkTables(spark),
        SparkTopics(spark, known.clusters if isinstance(known, SparkTopics) else SharedLooks()),
        answers=partial(is_running, spark),
        conditions=s3,
        serve=s3.serve,
        working=partial(active, spark),
        progress=partial(progress, spark),
        close=partial(close_catalog, spark),
    )
