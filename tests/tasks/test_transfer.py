"""Rows on their way into a Python task arrive as they were."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest

from tests.conftest import Workbench
from tidegate.tasks.transfer import departing

pytestmark = pytest.mark.spark

COLUMNS = {
    "a.b": "array(struct(id AS x, 'y' AS `y.z`))",
    "`": "map('k', id)",
    "m": "map(id, array('v'))",
    "n": "array(id)",
    "s": "struct(array(id) AS inside)",
    "t": "concat('t', id)",
}


def through(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        rows = str([list(row.values()) for row in batch.to_pylist()])
        yield pa.RecordBatch.from_pydict({"seen": [rows], "names": [batch.schema.names]})


def test_lists_and_maps_that_are_null_empty_or_neither_arrive_as_they_were(workbench: Workbench) -> None:
    spark = workbench.session().spark
    sometimes = [
        f"CASE id % 3 WHEN 0 THEN {sql} END AS `{name.replace('`', '``')}`" for name, sql in COLUMNS.items()
    ]
    empty = "CASE WHEN id % 3 = 1 THEN slice(array(id), 1, 0) WHEN id % 3 = 2 THEN array(NULL, id) END AS e"
    frame = spark.range(0, 7, 1, 1).selectExpr("id", *sometimes, "array(id) AS never", empty)
    plain, task = departing(frame, through)
    (row,) = plain.mapInArrow(task, "seen string, names array<string>").collect()
    numbered = frame.toDF(*[f"c{i}" for i in range(len(frame.columns))])
    (as_it_is,) = numbered.mapInArrow(through, "seen string, names array<string>").collect()
    assert row["names"] == frame.columns
    assert row["seen"] == as_it_is["seen"]
    assert all(part in row["seen"] for part in ("None, ", "[]", "[None, ", "('k', 3)"))
    # Only what may be NULL has a flag.
    assert [frame.columns[place] for place in task.flagged] == ["a.b", "`", "m", "n", "e"]
