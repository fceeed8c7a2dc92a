"""A source as a Structured Streaming query: plans go in as tiny files, batches come out through `foreachBatch`.

The stream carries plans, not rows. A plan (which files or offsets, in which order, at what wall clock) is written
before its batch starts, so a batch that is retried after a crash reads the same rows (W4), and the log's epoch
says whether it is committed already (R2). Losing the checkpoint loses nothing: the log decides what comes next.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pyarrow.fs as pafs

from tidegate.engine.failures import failed, is_from_spark
from tidegate.engine.sources import BatchPlan, Connector
from tidegate.plan.events import BatchCommitted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tidegate.engine.ingest import Log
    from tidegate.project import Storage


class PlanInbox:
    """The folder of plan files of one source. A file appears complete, by a rename."""

    def __init__(self, storage: Storage, uri: str) -> None:
        self.uri = uri
        self._filesystem, self._path = storage.filesystem(uri)
        self._filesystem.create_dir(self._path, recursive=True)

    def read(self, epoch: int) -> BatchPlan | None:
        """The plan of an epoch, if it was written."""
        path = self._file(epoch)
        if self._filesystem.get_file_info(path).type != pafs.FileType.File:
            return None
        with self._filesystem.open_input_stream(path) as stream:
            return BatchPlan.from_json(stream.read().decode())

    def write(self, plan: BatchPlan) -> None:
        hidden = f"{self._path}/.plan-{plan.epoch:012d}"
        with self._filesystem.open_output_stream(hidden) as out:
            out.write(plan.to_json().encode())
        self._filesystem.move(hidden, self._file(plan.epoch))

    def forget(self, epoch: int) -> None:
        """Remove a plan that no restart can ask for any more."""
        path = self._file(epoch)
        if self._filesystem.get_file_info(path).type == pafs.FileType.File:
            self._filesystem.delete_file(path)

    def _file(self, epoch: int) -> str:
        return f"{self._path}/plan-{epoch:012d}"


def catch_up(
    spark: SparkSession,
    storage: Storage,
    log: Log,
    connector: Connector,
    folder: str,
    on_batch: Callable[[BatchCommitted], None],
    clock: Callable[[], datetime] = lambda: datetime.now(UTC),
) -> None:
    """Run the source's query until nothing waits. `folder`: URI for plans and checkpoint.

    Errors of a batch are raised as they are, not wrapped in the query's.
    """
    inbox, checkpoint = PlanInbox(storage, f"{folder}/plans"), f"{folder}/checkpoint"
    failure: list[BaseException] = []

    def line_up() -> bool:
        """Make sure that the next plan is in the inbox; False if nothing waits."""
        epoch = log.progress.epoch + 1
        # A plan that an earlier run left is what the query's checkpoint may already hold: it stands.
        left = inbox.read(epoch)
        if left is not None:
            connector.adopt(left)
            return True
        plan = connector.plan(epoch, clock())
        if plan is None:
            return False
        inbox.write(plan)
        return True

    def on_plans(plans: DataFrame, _: int) -> None:
        # Bounded: one plan file per micro-batch.
        for plan in sorted((BatchPlan.from_json(row[0]) for row in plans.collect()), key=lambda p: p.epoch):
            if plan.epoch <= log.progress.epoch:
                continue  # committed before the query could note it (R2)
            try:
                rows, read = connector.read(plan), connector.consumed(plan)
                event = log.add(plan.epoch, rows, plan.arrived, read, last=not connector.waits())
                inbox.forget(plan.epoch - 2)
                on_batch(event)
                line_up()
            except BaseException as error:
                failure.append(error)
                raise

    def stream() -> None:
        """Run the query until the inbox is read."""
        query = (
            spark.readStream.format("text")
            .option("maxFilesPerTrigger", 1)
            .option("wholetext", True)
            .load(inbox.uri)
            .writeStream.queryName(f"tidegate {log.relation.name}")
            .foreachBatch(on_plans)
            .option("checkpointLocation", checkpoint)
            .trigger(processingTime="0 seconds")
            .start()
        )
        try:
            query.processAllAvailable()
        finally:
            query.stop()

    def unread() -> bool:
        return not failure and inbox.read(log.progress.epoch + 1) is not None

    if not line_up():
        return
    try:
        try:
            stream()
        except Exception:
            if not unread():
                raise
        if unread():
            # The checkpoint is damaged, or of another life of this log: it takes the plan for one that it has
            # seen. The log decides what comes next, so a new checkpoint loses nothing.
            filesystem, path = storage.filesystem(checkpoint)
            filesystem.delete_dir(path)
            stream()
    except Exception:
        if not failure:
            raise
        if is_from_spark(failure[0]):
            what = f'a batch of "{log.relation.name}"'
            raise failed(what, failure[0], log.relation.location) from failure[0]
        raise failure[0] from None
