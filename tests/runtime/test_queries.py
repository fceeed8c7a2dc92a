"""Queries of tidegate's own find the rows that they were given, whatever else runs in the same session."""

from __future__ import annotations

import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.conftest import Workbench
from tidegate.runtime.queries import run_query
from tidegate.sql.dialect.dialect import Read
from tidegate.sql.dialect.query import OVER, Query, everything

pytestmark = pytest.mark.runner("inprocess")


class Slow(Query):
    """Spelled so slowly that another one registers its rows meanwhile, if it can."""

    def spark_sql(self, names: Mapping[str, str]) -> str:
        time.sleep(0.05)
        return super().spark_sql(names)


def test_queries_at_the_same_time_read_their_own_rows(workbench: Workbench) -> None:
    spark, query = workbench.session().spark, Slow(everything(Read(this=OVER)).tree)

    def read(number: int) -> tuple[int, list[int]]:
        owner = f"view {number % 2}"
        found = run_query(spark, owner, query, {OVER: spark.range(number, number + 1)})
        return number, [row[0] for row in found.collect()]

    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(read, range(40))) == [(n, [n]) for n in range(40)]
