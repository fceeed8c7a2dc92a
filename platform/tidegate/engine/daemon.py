"""Spark's Python daemon (`spark.python.daemon.module`), which imports what tasks need before it forks: once for all
workers, not once in each. Local Spark only: executors on other machines may not have the package yet when theirs
starts (`_ship_package`)."""

from __future__ import annotations

import pyarrow.compute
import pyarrow.json
import pyarrow.parquet  # noqa: F401
import pyspark.sql.pandas.serializers  # noqa: F401
from pyspark.daemon import manager

import tidegate.engine.gate
import tidegate.engine.panes
import tidegate.engine.sources.arrow_json
import tidegate.engine.sources.parquet  # noqa: F401

if __name__ == "__main__":
    manager()
