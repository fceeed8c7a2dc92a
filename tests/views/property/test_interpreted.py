"""Queries of few rows are interpreted by few tasks, and not compiled for each tick; their results are those of compiled
ones."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conftest import Workbench
from tidegate.jvm.java import java_class
from tidegate.tasks.writer import run_task
from tidegate.views import few_rows, view_table

pytestmark = pytest.mark.spark

#: No task computes it: a mean of numbers that are not whole, per text.
PAGES = """
CREATE TABLE pages (page VARCHAR, seconds DOUBLE, ts TIMESTAMP, WATERMARK FOR ts AS ts) APPEND ONLY;
CREATE MATERIALIZED VIEW per_minute AS
SELECT page, window_start, avg(seconds) AS mean, max(page) AS last, count(DISTINCT seconds) AS n
FROM TUMBLE(pages, ts, INTERVAL '1 minute') GROUP BY page, window_start EMIT ON WINDOW CLOSE;
"""
PARTITIONS = "spark.sql.shuffle.partitions"
SETTINGS = ("spark.sql.codegen.wholeStage", "spark.sql.codegen.factoryMode", PARTITIONS)


def test_C2_few_rows_compile_nothing_and_give_what_compiled_queries_give(
    workbench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = workbench.session(compiled=True)
    jvm: Any = session.spark._jvm
    metrics = java_class(jvm, "org.apache.spark.metrics.source.CodegenMetrics")
    compiled = metrics.METRIC_COMPILATION_TIME()
    session.spark.conf.set(PARTITIONS, "3")
    usual = [session.spark.conf.get(name) for name in SETTINGS]
    session.execute(PAGES)
    misses: dict[bool, list[int]] = {True: [], False: []}
    between: dict[bool, set[str]] = {True: set(), False: set()}

    def stored(*given: Any) -> list[Any]:
        between[few].add(session.spark.conf.get(PARTITIONS))
        return run_task(*given)

    monkeypatch.setattr(view_table, "run_task", stored)
    for minute in range(9):
        # Each tick closes the minute before; it reads no more than three of the files, of four rows each.
        few = minute % 2 == 0
        monkeypatch.setattr(few_rows, "FEW_ROWS", 12 if few else 3)
        rows = ((page, minute + second / 8, f"12:0{minute}:0{second}") for second in (1, 2) for page in "ab")
        values = ", ".join(f"('{page}', {seconds}, '2026-01-01 {time}')" for page, seconds, time in rows)
        session.execute(f"INSERT INTO pages VALUES {values}")
        before = compiled.getCount()
        session.execute("FLUSH;")
        misses[few].append(compiled.getCount() - before)
        assert [session.spark.conf.get(name) for name in SETTINGS] == usual
    assert between == {True: {"1"}, False: {"3"}}
    # What is compiled once, of whatever surrounds the query, is behind the first ticks.
    assert set(misses[True][2:]) == {0}, misses
    assert min(misses[False]) > 0, misses
    found = (
        session.table("per_minute").selectExpr("page", "minute(window_start)", "mean", "last", "n").collect()
    )
    expected = [(page, m, m + 1.5 / 8, page, 2) for page in "ab" for m in range(8)]
    assert sorted(map(tuple, found)) == sorted(expected)
