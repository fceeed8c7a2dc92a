"""What a thread is in while it works with Spark: settings, the session in the JVM, a share of the cores."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tidegate.jvm.java import java_class

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_POOL = "spark.scheduler.pool"


@contextmanager
def settings(spark: SparkSession, given: Mapping[str, str]) -> Iterator[None]:
    """While the block runs, these settings of the session are as given."""
    before = {key: spark.conf.get(key, None) for key in given}
    for key, value in given.items():
        spark.conf.set(key, value)
    try:
        yield
    finally:
        for key, old in before.items():
            spark.conf.unset(key) if old is None else spark.conf.set(key, old)


@contextmanager
def active(spark: SparkSession) -> Iterator[None]:
    """While the block runs, `spark` is this thread's session in the JVM: what finds its settings or catalog by that
    would have another one, or none in a thread that Spark has not started."""
    sessions = java_class(spark._jvm, "org.apache.spark.sql.classic.SparkSession")
    before = sessions.getActiveSession()
    sessions.setActiveSession(spark._jsparkSession)
    try:
        yield
    finally:
        if before.isDefined():
            sessions.setActiveSession(before.get())
        else:
            sessions.clearActiveSession()


@contextmanager
def working_for(spark: SparkSession, name: str) -> Iterator[None]:
    """While the block runs, what this thread does is done in `spark`, and shares the cores fairly with what other
    threads do for other names."""
    context = spark.sparkContext
    before = context.getLocalProperty(_POOL)
    context.setLocalProperty(_POOL, name)
    try:
        with active(spark):
            yield
    finally:
        context.setLocalProperty(_POOL, before)  # type: ignore[arg-type]  # None removes it


@contextmanager
def tagged(spark: SparkSession, tag: str) -> Iterator[Callable[[], None]]:
    """While the block runs, jobs that this thread starts can be stopped by what is given, and no other ones are."""
    context = spark.sparkContext
    context.addJobTag(tag)
    try:
        yield lambda: context.cancelJobsWithTag(tag)
    finally:
        context.removeJobTag(tag)
