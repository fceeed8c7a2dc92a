"""Cases one after the other, and what came of them."""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings

from tests.queries.case import Case
from tests.queries.check import UNREAD, by_frames, by_sql, by_tasks, defined, same, stored
from tests.queries.draw import cases
from tests.support.quick import engine_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Cases of a seed.
EACH = 10


#: For jobs of a handful of rows.
_QUICK = {"spark.sql.adaptive.enabled": "false", "spark.sql.shuffle.partitions": "1"}


class Wrong(AssertionError):
    """What one way gives and another does not."""


def check(spark: SparkSession, case: Case) -> str:
    """What became of a case: `plain`, `unread`, `frames`, `sql` or `refused`. Raises Wrong, or whatever went wrong."""
    hard, easy = defined(case), defined(case, hard=False)
    if isinstance(hard, str) or isinstance(easy, str):
        # Names that are there twice but for their case, or that are reserved, are refused; nothing else differs.
        if hard != easy and not (hard in ("TG205", "TG206") and not isinstance(easy, str)):
            raise Wrong(f"{hard} and {easy}: {case.sql()}")
        return "refused"
    from pyspark.errors import AnalysisException

    relation, view = hard
    rows = stored(case, relation)
    other = pa.Table.from_arrays(
        rows.columns, names=[c.name for c in easy[0].columns] + rows.column_names[-3:]
    )
    try:
        expected, types = by_sql(spark, case, view, rows)
    except AnalysisException as refusal:
        # Spark's own types decide at CREATE (TG507), whatever the names are.
        with pytest.raises(AnalysisException) as same_refusal:
            by_sql(spark, case, easy[1], other)
        if refusal.getCondition() != same_refusal.value.getCondition():
            raise
        return "refused"
    if view.pane_windows is not None:
        with tempfile.TemporaryDirectory() as folder:
            found = by_tasks(case, view, rows, types, Path(folder) / "case")
        if found == UNREAD:
            return "unread"
        if not same(found, expected):
            raise Wrong(f"{case.sql()}\n{case.rows}\n{found}\nby SQL: {expected}")
        return "plain"
    other = pa.Table.from_arrays(
        rows.columns, names=[c.name for c in easy[0].columns] + rows.column_names[-3:]
    )
    found, _ = by_sql(spark, case, easy[1], other)
    if not same(found, expected):
        raise Wrong(f"{case.sql()}\n{case.rows}\n{found}\nby SQL: {expected}")
    if view.over is None:
        return "sql"
    if not same(found := by_frames(spark, case, view, rows), expected):
        raise Wrong(f"{case.sql()}\n{case.rows}\nby frames: {found}\nat once: {expected}")
    return "frames"


def run(spark: SparkSession, first: int, count: int) -> Counter[str]:
    """So many seeds from the first one on; how many cases became what. Raises what the first that fails raises."""
    made: Counter[str] = Counter()
    session = engine_session(spark)
    for key, value in _QUICK.items():
        session.conf.set(key, value)
    _run(session, range(first, first + count), made)
    return made


def _run(spark: SparkSession, seeds: range, made: Counter[str]) -> None:
    for number in seeds:

        @seed(number)
        @settings(
            max_examples=EACH,
            database=None,
            deadline=None,
            phases=[Phase.generate],
            derandomize=False,
            suppress_health_check=[*HealthCheck],
        )
        @given(cases())
        def one(case: Case) -> None:
            made[check(spark, case)] += 1

        try:
            one()
        except BaseException as error:
            error.add_note(f"seed {number}; so far {dict(made)}")
            raise
        if len(seeds) > 10:
            print(f"seed {number}: {dict(made)}", flush=True)
