"""Random queries over hard names and extreme values: the tasks of the fast path (windows and sessions) give
what Spark SQL gives, frames tick by tick what they give at once, and Spark SQL (sorted rows, too) what it gives under
easy names. `TIDEGATE_SEED`, `TIDEGATE_SEEDS`: the first seed and how many; ten cases each."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from tests.queries.fuzz import EACH, run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

THOROUGH = os.environ.get("TIDEGATE_HYPOTHESIS") == "thorough"


@pytest.mark.long_run
@pytest.mark.spark
def test_C7_all_ways_of_slices_agree_whatever_names_and_values_are(spark: SparkSession) -> None:
    first = int(os.environ.get("TIDEGATE_SEED", "0"))
    count = int(os.environ.get("TIDEGATE_SEEDS", "100" if THOROUGH else "4"))
    made = run(spark, first, count)
    assert made.total() >= EACH * count * 0.9
    assert made["refused"] < made.total() / 4
    assert made["plain"] > made.total() / 8
    assert made["frames"]
