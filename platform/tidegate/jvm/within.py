"""What a thread is in while it works with Spark: settings, the session in the JVM, a share of the cores."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tidegate.jvm.calls import Calls
from tidegate.jvm.java import java_class

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_POOL, _GROUP = "spark.scheduler.pool", "spark.jobGroup.id"


@contextmanager
def settings(spark: SparkSession, given: Mapping[str, str]) -> Iterator[None]:
    """While the block runs, these settings of the session are as given."""
    before = {key: spark.conf.get(key, None) for key in given}
    try:
        for key, value in given.items():
            spark.conf.set(key, value)
        yield
    finally:
        for key, old in before.items():
            spark.conf.unset(key) if old is None else spark.conf.set(key, old)


@contextmanager
def active(spark: SparkSession, pool: str | None = None) -> Iterator[None]:
    """While the block runs, `spark` is this thread's session in the JVM: what finds its settings or catalog by that
    would have another one, or none in a thread that Spark has not started. `pool`: what this thread does shares the
    cores fairly with what other threads do for other names, and its jobs are found by it (`progress`)."""
    jvm, context = spark._jvm, spark.sparkContext._jsc
    sessions = java_class(jvm, "org.apache.spark.sql.classic.SparkSession")
    calls = Calls(jvm)
    optional = calls.call(
        java_class(jvm, "scala.jdk.javaapi.OptionConverters"),
        "toJava",
        calls.call(sessions, "getActiveSession"),
    )
    before = [calls.call(context, "getLocalProperty", key) for key in (_POOL, _GROUP)]
    session = calls.call(optional, "orElse", None)
    calls.call(sessions, "setActiveSession", spark._jsparkSession)
    if pool is not None:
        calls.call(context, "setLocalProperty", _POOL, pool)
        calls.call(context, "setLocalProperty", _GROUP, pool)
    session, share, group = calls.run(session, *before)
    try:
        yield
    finally:
        calls = Calls(jvm)
        if session is None:
            calls.call(sessions, "clearActiveSession")
        else:
            calls.call(sessions, "setActiveSession", session)
        if pool is not None:
            calls.call(context, "setLocalProperty", _POOL, share)
            calls.call(context, "setLocalProperty", _GROUP, group)
        calls.run()


def progress(spark: SparkSession, pool: str) -> list[tuple[int, int]]:
    """How far the jobs have come that run now for a name (`active`): the number of each of their stages, and how many
    of its tasks have ended."""
    tracker = spark.sparkContext.statusTracker()
    jobs = set(tracker.getJobIdsForGroup(pool)).intersection(tracker.getActiveJobsIds())
    of_jobs = [tracker.getJobInfo(job) for job in sorted(jobs)]
    of_stages = [tracker.getStageInfo(stage) for job in of_jobs if job is not None for stage in job.stageIds]
    return [(stage.stageId, stage.numCompletedTasks) for stage in of_stages if stage is not None]


@contextmanager
def tagged(spark: SparkSession, tag: str) -> Iterator[Callable[[], None]]:
    """While the block runs, jobs that this thread starts can be stopped by what is given, and no other ones are."""
    context = spark.sparkContext
    context.addJobTag(tag)
    try:
        yield lambda: context.cancelJobsWithTag(tag)
    finally:
        context.removeJobTag(tag)
