"""A source's batches: durable plans say what each of them reads.

A plan (which files or offsets, in which order, at what wall clock, which partitions are
idle) is written to the warehouse before its batch starts, so a batch that is retried after a crash reads the same rows
and decides the same (W4), and the log's epoch says whether it is committed already (R2).
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow.fs as pafs

from tidegate.iceberg.partitions import Decisions
from tidegate.ingest.connector import BatchPlan, Connector
from tidegate.ingest.taking_in import take_in_new
from tidegate.jvm.failures import (
    failed,
    failed_later,
    failing_as,
    is_from_spark,
    too_little_memory,
    worker_died,
)
from tidegate.plan.events import BatchCommitted, Event
from tidegate.plan.stages import SourceStage
from tidegate.project.object_store import is_object_store, make_folder, put_whole, read_json, whole_name
from tidegate.tasks.smaller import FEW_ROWS, PATIENCE

if TYPE_CHECKING:
    from tidegate.ingest.ingest import Log
    from tidegate.project import Storage
    from tidegate.runtime.runner import Clock


class PlanInbox:
    """The folder of plan files of one source. A file appears complete (`put_whole`)."""

    def __init__(self, storage: Storage, uri: str) -> None:
        self._filesystem, self._path = storage.filesystem(uri)
        make_folder(self._filesystem, self._path)

    def read(self, epoch: int) -> BatchPlan | None:
        """The plan of an epoch, if it was written."""
        path = self._file(epoch)
        if self._filesystem.get_file_info(path).type != pafs.FileType.File:
            return None
        return BatchPlan(**read_json(self._filesystem, path))

    def write(self, plan: BatchPlan) -> None:
        put_whole(self._filesystem, self._file(plan.epoch), plan.to_json().encode())

    def forget(self, epoch: int) -> None:
        """Remove the plan of a committed epoch, and what writers of it that broke off have left."""
        if not is_object_store(self._filesystem):
            return self.tidy(epoch)
        path = self._file(epoch)
        if self._filesystem.get_file_info(path).type == pafs.FileType.File:
            self._filesystem.delete_file(path)

    def tidy(self, epoch: int) -> None:
        """Remove what runs that broke off have left of plans up to this epoch, which is committed."""
        for info in self._filesystem.get_file_info(pafs.FileSelector(self._path, allow_not_found=True)):
            # (Earlier versions wrote it as ".plan-" and its number.)
            name = whole_name(info.base_name) or info.base_name.removeprefix(".")
            number = name.removeprefix("plan-")
            if number.isdecimal() and int(number) <= epoch:
                # Another machine may have removed it since.
                with suppress(FileNotFoundError):
                    self._filesystem.delete_file(info.path)

    def _file(self, epoch: int) -> str:
        return f"{self._path}/plan-{epoch:012d}"


class SourceFeed:
    """One source, batch by batch: plan, note the plan, read, judge, commit. Hold the lease of its log while it is used.

    `folder`: URI for its plans. `clock` gives the wall clock of new plans. `notify`: is told of columns that are taken
    in.
    """

    def __init__(
        self,
        storage: Storage,
        log: Log,
        connector: Connector,
        folder: str,
        clock: Clock,
        notify: Callable[[Event], None] = lambda event: None,
    ) -> None:
        self.log, self.connector = log, connector
        self._clock, self._notify = clock, notify
        self._inbox = PlanInbox(storage, f"{folder}/plans")
        self._inbox.tidy(log.progress.epoch)
        self._planned: BatchPlan | None = None
        #: The epoch of which no plan was there when this feed looked. While nothing waits, it does not look again.
        self._unplanned: int | None = None
        #: Whether what is planned is what a run that broke off has left.
        self._resumed = False
        #: How sparingly batches are read, and how many have gone well so.
        self._care = self._well = 0

    def ready(self) -> bool:
        """Whether `advance` has something to carry out; its plan is durable then."""
        if self._planned is None:
            self._planned = self._next()
        return self._planned is not None

    def advance(self, on_batch: Callable[[BatchCommitted], None]) -> bool:
        """Carry out one batch at most; whether more may wait. TG513 if Spark fails; then nothing of it is kept."""
        if not self.ready():
            return False
        plan, self._planned = self._planned, None
        assert plan is not None
        blameless = False
        while True:
            try:
                event = self._carried_out(plan)
                break
            except Exception as error:
                plan, blameless = self._instead(plan, error, blameless)
        if self._resumed:
            # It may have left another try beside it.
            self._inbox.tidy(plan.epoch)
        else:
            self._inbox.forget(plan.epoch)
        on_batch(event)
        # What an adopted plan does not know may be worth a batch without any row: a new partition, for one (W6, W8).
        return self._resumed or self.connector.waits()

    def _carried_out(self, plan: BatchPlan) -> BatchCommitted:
        rows = self.log.stages.carry_out(SourceStage, lambda _: self.connector.read(plan))
        read = self.connector.consumed(plan)
        last, decisions = not self.connector.waits(), Decisions.from_json(plan.decisions)
        rows = replace(rows, care=plan.care)
        return self.log.add(plan.epoch, rows, plan.arrived, read, last, decisions, plan.crashed)

    def _instead(self, plan: BatchPlan, error: Exception, blameless: bool) -> tuple[BatchPlan, bool]:
        """The durable plan to try after a batch that has failed, and whether none of its rows is to blame (`blameless`:
        that is known): without the rows that kill their worker, else with less (X2). Raises what there is to say if
        there is none."""
        if not is_from_spark(error):
            raise error
        what, where = f'a batch of "{self.log.relation.name}"', self.log.relation.location
        if self.log.progress.epoch >= plan.epoch:
            # What is committed is not planned anew (R1).
            raise failed_later(what, error, where) from error
        if not worker_died(error):
            raise failed(what, error, where) from error
        with failing_as(what, where):
            found = [] if blameless else self.connector.crashed(plan)
        other = (
            replace(plan, crashed=[*plan.crashed, *found])
            if found
            else self.connector.smaller(plan) or self._more_careful(plan)
        )
        if other is None:
            raise too_little_memory(what, self.connector.smallest(plan), where) from error
        # On record before it is used: whoever retries the batch reads by it (W4).
        self._inbox.write(other)
        return other, not found

    def _more_careful(self, plan: BatchPlan) -> BatchPlan | None:
        """The same plan, read more sparingly; None if it was read so."""
        if plan.care == FEW_ROWS:
            return None
        self._care, self._well = plan.care + 1, 0
        return replace(plan, care=self._care)

    def _next(self) -> BatchPlan | None:
        """The plan of the next epoch, durable. None if nothing waits."""
        epoch, life = self.log.progress.epoch + 1, self.log.table.uuid
        looks = epoch != self._unplanned or self.connector.waits()
        left = self._inbox.read(epoch) if looks else None
        self._unplanned = epoch if left is None else None
        self._resumed = left is not None
        # What a run that broke off has planned stands: its decisions may have been seen. (Unless it was planned for
        # another log, one of this name that was dropped.)
        if left is not None and left.log == life and self.connector.adopt(left):
            return left
        plan = self.connector.plan(epoch, self._clock())
        if plan is None:
            return None
        self._well += 1
        if self._well > PATIENCE:
            self._care = self._well = 0
        changed = take_in_new(self.log, self.connector, plan)
        if changed is not None:
            self._notify(changed)
        plan = replace(plan, epoch=self.log.progress.epoch + 1, log=life, care=self._care)
        # (If it breaks off from here on, the next look finds it.)
        self._unplanned = None
        self._inbox.write(plan)
        return plan


def catch_up(feed: SourceFeed, on_batch: Callable[[BatchCommitted], None]) -> None:
    """Carry out batches until nothing waits."""
    while feed.advance(on_batch):
        pass
