"""Workers import nothing from archives: for each task they would read the directories of these anew."""

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
