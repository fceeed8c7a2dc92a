"""One batch through the gate into the log: shape, judge and write in one operator, verify, commit (W1-W6, R1)."""

from __future__ import annotations

import time
from datetime import datetime
from typing import TYPE_CHECKING, Any

from tidegate.engine.commit import IcebergTable, Snapshot
from tidegate.engine.gate import GateTask
from tidegate.engine.layout import create_log, relation_identity
from tidegate.engine.progress import ConsumedFile, Progress
from tidegate.engine.shape import gate_input
from tidegate.engine.sources import Rows
from tidegate.engine.writer import run_task
from tidegate.errors import TidegateError
from tidegate.plan.events import BatchCommitted
from tidegate.watermark import Expression, GateState, TimeKind

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import SparkSession

    from tidegate.engine.writer import Target
    from tidegate.project import Storage
    from tidegate.sql.catalog import Relation


class Log:
    """A relation's log open for writing: its table, the progress of its last commit, and the way to add a batch."""

    def __init__(self, spark: SparkSession, storage: Storage, relation: Relation, identifier: str) -> None:
        self.relation = relation
        self._spark = spark
        spark.sql(create_log(relation, identifier))
        self.table = IcebergTable(spark, identifier)
        same_definition(relation.name, self.table.property("tidegate.identity"), relation_identity(relation))
        watermark = relation.watermark
        time_column = watermark.column if watermark is not None else None
        daily = watermark is not None and watermark.kind is not TimeKind.EPOCH
        bounds = ("_offset", time_column) if time_column else ("_offset",)
        self._target: Target = self.table.target(storage, "_outcome", time_column if daily else None, bounds)
        self.reload()

    def reload(self) -> None:
        """Take the state from the newest commit."""
        self._snapshot: Snapshot = self.table.current()
        self.progress = Progress.load(self._snapshot, self._target)

    def consumed_files(self) -> Iterable[ConsumedFile]:
        """Every file that is in the log (for connectors that read files)."""
        if self._snapshot.id is None:
            return []
        rows = self._spark.sql(
            f"SELECT inline(_progress.files) FROM {self.table.identifier} "
            "WHERE _outcome = 'watermark' AND _source_partition IS NULL"
        )
        return [ConsumedFile(*row) for row in rows.toLocalIterator()]

    def add(
        self,
        epoch: int,
        rows: Rows,
        arrived: datetime,
        files: list[ConsumedFile] | None = None,
        last: bool = False,
    ) -> BatchCommitted:
        """Judge and commit one batch as `epoch`, which must follow the last one. Returns what was committed.

        `last`: nothing waits behind it (see `Progress.after`).
        Raises TG502 if another run has committed meanwhile; then nothing of the batch is in the log.
        """
        if epoch != self.progress.epoch + 1:
            raise AssertionError(f"epoch {epoch} does not follow {self.progress.epoch}")
        started = time.monotonic()
        before = self.progress.totals()
        reports = self._judge(epoch, rows, aligned=rows.aligned)
        if not well_ordered(reports):
            # The order trap: rows of one partition met the gate in two tasks, or out of order. Nothing of it is
            # committed; sorted, the same rows are judged anew.
            reports = self._judge(epoch, rows, aligned=False)
            if not well_ordered(reports):
                raise AssertionError("a sorted batch reached the gate out of order")
        judged = {
            name: GateState.from_dict(entry["state"])
            for r in reports
            for name, entry in r["partitions"].items()
        }
        after = self.progress.after(epoch, judged, last)
        progress_file = after.write(self._target, arrived, files or [])
        written = [file for report in reports for file in report["files"]]
        self.table.append(
            [*written, progress_file], self._target, after.summary(progress_file), base=self._snapshot
        )
        self._snapshot = self.table.current()
        self.progress = after
        totals = after.totals()
        return BatchCommitted(
            source=self.relation.name,
            epoch=epoch,
            on_time=totals["on_time"] - before["on_time"],
            late=totals["late"] - before["late"],
            rejected=totals["rejected"] - before["rejected"],
            total_rows=sum(totals.values()),
            watermark=self.format(after.published),
            seconds=round(time.monotonic() - started, 3),
        )

    def format(self, value: int | None) -> str:
        """A watermark as people read it."""
        kind = self.relation.watermark.kind if self.relation.watermark else TimeKind.EPOCH
        return kind.format(value)

    def _judge(self, epoch: int, rows: Rows, aligned: bool) -> list[dict[str, Any]]:
        frame = rows.frame
        if not aligned:
            frame = frame.repartition("_source_partition").sortWithinPartitions(
                "_source_partition", *rows.order
            )
        watermark = self.relation.watermark
        task = GateTask(
            config=self.relation.gate,
            time_column=watermark.column if watermark is not None else None,
            published=self.progress.published,
            states=self.progress.states,
            epoch=epoch,
            target=self._target,
            numbering=rows.numbering,
            drop_repeats=not aligned,
            has_strategy=watermark is not None and isinstance(watermark.strategy, Expression),
        )
        return run_task(gate_input(frame, self.relation), task)


def well_ordered(reports: list[dict[str, Any]]) -> bool:
    """Whether every partition was judged by one task, in increasing offsets."""
    names = [name for report in reports for name in report["partitions"]]
    ordered = all(entry["ordered"] for report in reports for entry in report["partitions"].values())
    return ordered and len(names) == len(set(names))


def same_definition(name: str, stored: str | None, wanted: str) -> None:
    """R4: a changed definition never silently continues old results (TG506)."""
    if stored is not None and stored != wanted:
        raise TidegateError(
            "TG506",
            f'the definition of "{name}" has changed since its table was made',
            hint=f'DROP "{name}" and run again to build it anew, or give the new definition another name',
        )
