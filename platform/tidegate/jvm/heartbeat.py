"""The heartbeat of a run: a query of Structured Streaming that carries no rows.

Each of its micro-batches carries out one step. What a step does is planned durably elsewhere (`ingest/stream.py`), so
Spark's checkpoint holds nothing that anybody needs: it is scratch on the driver's disk, new in every run, and never
grows.
"""

from __future__ import annotations

import shutil
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from tidegate.jvm.failures import failed
from tidegate.project.disk import temporary_space

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class _Beats:
    """Runs a step in each micro-batch, one at a time, until it returns False or fails: `over` then."""

    def __init__(self, step: Callable[[], bool]) -> None:
        self._step = step
        self._running = threading.Lock()
        self.over = threading.Event()
        self.failure: BaseException | None = None

    def __call__(self, _: DataFrame, __: int) -> None:
        with self._running:
            if self.over.is_set():
                return
            try:
                if not self._step():
                    self.over.set()
            except BaseException as error:
                self.failure = error
                self.over.set()
                raise


def drive(spark: SparkSession, name: str, step: Callable[[], bool]) -> None:
    """Run `step` in the micro-batches of a streaming query called `name`, one after the other, until it returns False.
    Errors of a step are raised as they are, not wrapped in the query's."""
    beats = _Beats(step)
    scratch = Path(tempfile.mkdtemp(prefix="tidegate-beat-", dir=temporary_space()))
    try:
        query = (
            spark.readStream.format("rate-micro-batch")
            .option("rowsPerBatch", 1)
            .option("numPartitions", 1)
            .load()
            .writeStream.queryName(name)
            .foreachBatch(beats)
            .option("checkpointLocation", f"file://{scratch}")
            .start()
        )
        try:
            while query.isActive and not beats.over.wait(0.2):
                pass
        finally:
            query.stop()
        if beats.failure is not None:
            raise beats.failure from None
        broken = query.exception()
        if broken is not None:
            raise failed(f"the stream {name}", broken)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
