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


def drive(
    spark: SparkSession,
    name: str,
    step: Callable[[], bool],
    interval: float = 0.0,
    stop: threading.Event | None = None,
) -> None:
    """Run `step` in the micro-batches of a streaming query called `name`, until it returns False or `stop` is set.

    `interval`: seconds between the starts of two micro-batches; one that takes longer is followed at once. A step that
    runs when `stop` is set is finished first. Errors of a step are raised as they are, not wrapped in the query's.
    """
    over, running = threading.Event(), threading.Lock()
    failure: list[BaseException] = []

    def on_beat(_: DataFrame, __: int) -> None:
        with running:
            if over.is_set() or (stop is not None and stop.is_set()):
                over.set()
                return
            try:
                if not step():
                    over.set()
            except BaseException as error:
                failure.append(error)
                over.set()
                raise

    scratch = Path(tempfile.mkdtemp(prefix="tidegate-beat-", dir=temporary_space()))
    try:
        query = (
            spark.readStream.format("rate-micro-batch")
            .option("rowsPerBatch", 1)
            .option("numPartitions", 1)
            .load()
            .writeStream.queryName(name)
            .foreachBatch(on_beat)
            .option("checkpointLocation", f"file://{scratch}")
            .trigger(processingTime=f"{round(interval * 1000)} milliseconds")
            .start()
        )
        try:
            while not over.wait(0.2) and query.isActive:
                if stop is not None and stop.is_set():
                    with running:  # the step that is under way ends first
                        over.set()
        finally:
            query.stop()
        if failure:
            raise failure[0] from None
        broken = query.exception()
        if broken is not None:
            raise failed(f"the stream {name}", broken)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
