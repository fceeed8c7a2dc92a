"""What Spark's workers get from the daemon: no archives to look into, and imports that are no garbage."""

from __future__ import annotations

import site
from typing import TYPE_CHECKING

from tidegate.tasks.daemon import MAY_KEEP, without_archives

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


def test_X2_a_worker_that_keeps_much_memory_works_for_no_other_task(spark: SparkSession) -> None:
    """What it gives back is no reason."""

    def worked(kept: int, given_back: int = 0) -> tuple[int, int]:
        """The worker, and what it keeps of this task or an earlier one."""

        def task(frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
            import os

            import numpy as np
            import pyarrow.compute as pc

            for frame in frames:
                pc.add(np.zeros(given_back // 8, np.int64), 1)
                pc.left_behind = max(getattr(pc, "left_behind", b""), bytearray(kept), key=len)
                yield frame.assign(worker=os.getpid(), kept=len(pc.left_behind))

        one = spark.sql("SELECT 0L AS worker, 0L AS kept").coalesce(1)
        (found,) = one.mapInPandas(task, "worker long, kept long").collect()
        return int(found.worker), int(found.kept)

    much = MAY_KEEP + (64 << 20)
    assert len({worked(0, much)[0] for _ in range(6)}) < 6
    kept = [worked(much) for _ in range(6)]
    assert {size for _, size in kept} == {much}
    later = [worked(0) for _ in range(6)]
    assert {worker for worker, _ in kept}.isdisjoint(worker for worker, _ in later)
    assert {size for _, size in later} == {0}
    # What is little stays.
    assert len({worked(1 << 20)[0] for _ in range(6)}) < 6


def test_what_the_daemon_has_imported_is_not_looked_at_after_each_task(spark: SparkSession) -> None:
    """Spark's worker calls `gc.collect()` then."""

    def counted(frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        import gc

        for frame in frames:
            yield frame.assign(frozen=gc.get_freeze_count())

    (found,) = spark.sql("SELECT 0 AS frozen").mapInPandas(counted, "frozen int").collect()
    assert found.frozen > 50_000
