"""What gathers the results of jobs (`jvm/gathered.py`); tests/jvm/test_core_jobs.py runs jobs with it and without."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from tidegate.jvm import gathered
from tidegate.jvm.core_jobs import run_in_tasks
from tidegate.jvm.gathered import gatherer
from tidegate.jvm.java import java_class

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def nothing(number: int, rows: Iterator[bytes]) -> Iterator[int]:
    yield from map(len, rows)


def test_it_is_made_when_it_is_worth_that(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    context = spark.sparkContext
    monkeypatch.delitem(vars(context), gathered._GATHERER, raising=False)
    monkeypatch.setitem(vars(context), gathered._JOBS, gathered._WORTH - 1)
    assert run_in_tasks(spark, nothing, 1) == []
    assert gathered._GATHERER not in vars(context)
    assert run_in_tasks(spark, nothing, 1) == []
    assert vars(context)[gathered._GATHERER] is gatherer(context) is not None


def test_spark_does_not_read_class_files_for_it(spark: SparkSession) -> None:
    """It does for what it takes for a closure."""
    made = gathered._made(spark.sparkContext)
    cleaner: Any = getattr(java_class(spark._jvm, "org.apache.spark.util.ClosureCleaner$"), "MODULE$")
    fields = java_class(spark._jvm, "scala.collection.mutable.HashMap")()
    assert cleaner.clean(made, True, fields) is False
    assert fields.isEmpty()


def test_tasks_find_its_class_where_sparks_are(spark: SparkSession) -> None:
    """In whatever session a job is, and whoever makes it a second time."""
    made, again = gathered._made(spark.sparkContext), gathered._made(spark.sparkContext)
    context = java_class(spark._jvm, "java.lang.Class").forName("org.apache.spark.SparkContext")
    assert made.getClass().getClassLoader().equals(context.getClassLoader())
    assert made.getClass().equals(again.getClass())


def test_executors_of_a_cluster_do_not_have_it() -> None:
    scala = SimpleNamespace(isLocal=lambda: False)
    context: Any = SimpleNamespace(_jsc=SimpleNamespace(sc=lambda: scala), _jvm=None)
    vars(context)[gathered._JOBS] = gathered._WORTH
    assert gatherer(context) is None
