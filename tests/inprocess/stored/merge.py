"""MERGE, for the runner without a JVM: which rows a table has afterwards."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from tests.inprocess.frames import frame_of
from tidegate.iceberg.layout import quote
from tidegate.iceberg.merge import Merge

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_PLACE = "_tidegate_place"
#: Pairs of a row of the table and a change.
_PAIRS = "_tidegate_t t JOIN _tidegate_s s ON"


def merged(spark: SparkSession, stored: DataFrame, merge: Merge) -> list[pa.Table] | None:
    """All rows of the table after the merge; None if it changes none."""
    from pyspark.sql import functions as F

    changes = frame_of(spark, merge.changes.toArrow())
    if not changes.count():
        return None
    rows = frame_of(spark, stored.withColumn(_PLACE, F.monotonically_increasing_id()).toArrow())
    rows.createOrReplaceTempView("_tidegate_t")
    changes.createOrReplaceTempView("_tidegate_s")
    names = [c for c in rows.columns if c != _PLACE]
    spark.sql(f"SELECT t.{_PLACE} FROM {_PAIRS} {merge.on}").createOrReplaceTempView("_tidegate_met")
    changed = _changed_rows(spark, names, merge) if spark.table("_tidegate_met").count() else None
    listed = ", ".join(f"t.{quote(n)}" for n in names)
    same = spark.sql(
        f"SELECT {listed} FROM _tidegate_t t LEFT ANTI JOIN _tidegate_met m ON t.{_PLACE} = m.{_PLACE}"
    ).toArrow()
    tables = [same, *([changed] if changed is not None else []), *_new_rows(spark, names, merge)]
    untouched = changed is None and sum(t.num_rows for t in tables) == same.num_rows
    return None if untouched else tables


def _changed_rows(spark: SparkSession, names: list[str], merge: Merge) -> pa.Table:
    """The rows that changes meet, as they are afterwards."""
    columns = [_changed(name, merge) for name in names]
    deleted = [condition or "TRUE" for condition, changed in merge.matched if changed is None]
    left = f" WHERE NOT COALESCE({' OR '.join(deleted)}, FALSE)" if deleted else ""
    return spark.sql(f"SELECT {', '.join(columns)} FROM {_PAIRS} {merge.on}{left}").toArrow()


def _new_rows(spark: SparkSession, names: list[str], merge: Merge) -> list[pa.Table]:
    """Changes that meet no row, where those become rows."""
    if merge.missing is None:
        return []
    also = f" WHERE {merge.missing}" if merge.missing else ""
    given = {c.strip("`") for c in merge.columns}
    values = ", ".join(f"s.{quote(n)}" if n in given else f"NULL AS {quote(n)}" for n in names)
    found = spark.sql(f"SELECT {values} FROM _tidegate_s s LEFT ANTI JOIN _tidegate_t t ON {merge.on}{also}")
    return [found.toArrow()]


def _changed(name: str, merge: Merge) -> str:
    """What a row that is met has in a column, in SQL: in the order of the clauses; where none holds it stays."""
    cases = [
        f"WHEN {condition or 'TRUE'} THEN {'s' if {name, quote(name)} & set(changed) else 't'}.{quote(name)}"
        for condition, changed in merge.matched
        if changed is not None
    ]
    return f"CASE {' '.join(cases)} ELSE t.{quote(name)} END AS {quote(name)}"
