"""Queries of tidegate's own over the rows that they are given: the one place that names what such a query reads."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING

from tidegate.sql.dialect.query import Query

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: Names are the same in every tick, for a session keeps what is registered. Nobody else may take one of them between
#: its registration and the query that reads it.
_NAMING = threading.Lock()


def run_query(spark: SparkSession, owner: str, query: Query, rows: Mapping[str, DataFrame]) -> DataFrame:
    """The query over `rows`, by role. `owner`: whose query it is; what belongs to others is called otherwise."""
    digest = hashlib.sha256(owner.encode()).hexdigest()[:12]
    names = {role: f"_tidegate_{digest}_{role}" for role in rows}
    with _NAMING:
        for role, frame in rows.items():
            frame.createOrReplaceTempView(names[role])
        return spark.sql(query.spark_sql(names))
