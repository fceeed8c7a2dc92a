"""What Spark keeps for its UI where that is off (`jvm/spark.py`)."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tidegate.jvm.core_jobs import run_in_tasks
from tidegate.jvm.spark import unseen

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def nothing(number: int, rows: Iterator[bytes]) -> Iterator[int]:
    yield from map(len, rows)


@pytest.mark.parametrize("settings", [{}, {"spark.ui.enabled": "true"}])
def test_where_spark_shows_its_ui_it_keeps_what_it_likes(settings: dict[str, str]) -> None:
    assert unseen(settings) == {}


def test_few_jobs_are_kept_that_nobody_sees(spark: SparkSession) -> None:
    store = spark.sparkContext._jsc.sc().statusStore()
    most = int(unseen({"spark.ui.enabled": "false"})["spark.ui.retainedJobs"])
    for _ in range(2 * most):
        run_in_tasks(spark, nothing, 1)
    until = time.monotonic() + 60
    # Spark tells its listeners of jobs, and lets go of old ones, beside the jobs.
    while (kept := store.jobsList(None).size()) > most and time.monotonic() < until:
        time.sleep(0.1)
    assert kept <= most
