"""What Spark's workers get from the daemon: no archives to look into, and imports that are no garbage."""

from __future__ import annotations

import site
from typing import TYPE_CHECKING

from tidegate.tasks.daemon import without_archives

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pandas as pd
    from pyspark.sql import SparkSession


def test_archives_are_taken_off_where_their_packages_are_installed() -> None:
    (installed, *_), archives = (
        site.getsitepackages(),
        ["/s/lib/pyspark.zip", "/s/lib/py4j-0.10-src.zip", "/j.jar"],
    )
    assert without_archives([*archives, installed, "/own.zip"]) == [installed, "/own.zip"]
    assert without_archives([*archives, "/own.zip"]) == [*archives, "/own.zip"]


def test_a_task_meets_no_archive(spark: SparkSession) -> None:
    def archives(frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        import sys
        from zipimport import zipimporter

        for frame in frames:
            readers = [
                entry for entry, finder in sys.path_importer_cache.items() if isinstance(finder, zipimporter)
            ]
            yield frame.assign(text="".join(readers))

    assert [
        row.text for row in spark.sql("SELECT 'x' AS text").mapInPandas(archives, "text string").collect()
    ] == [""]


def test_what_the_daemon_has_imported_is_not_looked_at_after_each_task(spark: SparkSession) -> None:
    """Spark's worker calls `gc.collect()` then."""

    def counted(frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        import gc

        for frame in frames:
            yield frame.assign(frozen=gc.get_freeze_count())

    (found,) = spark.sql("SELECT 0 AS frozen").mapInPandas(counted, "frozen int").collect()
    assert found.frozen > 50_000
