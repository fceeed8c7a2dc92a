"""One batch through the gate into the log: shape, judge and write in one operator, verify, commit (W1-W6, R1)."""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from tidegate.iceberg.layout import missing_progress, new_log, relation_identity, strategy_identity
from tidegate.iceberg.partitions import Decisions
from tidegate.iceberg.progress import ConsumedFile, FilesRead, InForce, LogProgress
from tidegate.iceberg.protocol import going_on
from tidegate.iceberg.tables import make_table, with_columns
from tidegate.ingest.connector import BatchRows
from tidegate.ingest.definition import altered, options_of, same_definition
from tidegate.ingest.relearn import relearned
from tidegate.ingest.shape import gate_input
from tidegate.jvm.within import settings
from tidegate.plan.columns.changes import CHANGES
from tidegate.plan.columns.taken_in import (
    TAKEN_IN,
    takes_in,
    with_taken_in,
)
from tidegate.plan.columns.undeclared import and_declared, and_undeclared, undeclared_text
from tidegate.plan.crashes import and_crashed, named, rejected
from tidegate.plan.events import BatchCommitted
from tidegate.plan.stages import GateStage, LogStage, batch_stages
from tidegate.runtime.stages import Stages
from tidegate.tables.table import KeyedTable
from tidegate.tasks.gate import GateTask, InTask
from tidegate.tasks.memories import MemoryFiles
from tidegate.tasks.preceding import PrecedingTask
from tidegate.tasks.smaller import BYTES, FEW_ROWS, sparing
from tidegate.tasks.writer import BUFFER_BYTES, run_task
from tidegate.watermark import Expression, GateState, TimeKind, micros_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from pyspark.sql import DataFrame

    from tidegate.iceberg.protocol import Snapshot
    from tidegate.iceberg.table_change import TableChange
    from tidegate.iceberg.tables import StoredTable, Tables
    from tidegate.project import Storage
    from tidegate.project.owner import Owner
    from tidegate.runtime.context import Context
    from tidegate.sql.catalog.objects import Relation
    from tidegate.tasks.writer import WriteTarget

#: Commits between two looks at what broken batches left; one more look is at a log that is opened.
_TIDY_EVERY = 1000


class StoredLog:
    """A relation's log as it stands: its table and the progress of its last commit. Nothing is written, so that of a
    neighbour can be opened, too (X3)."""

    def __init__(
        self,
        tables: Tables,
        storage: Storage,
        relation: Relation,
        identifier: str,
        owner: Owner | None = None,
    ) -> None:
        self._tables, self._storage = tables, storage
        self.table = tables.open(identifier, owner)
        #: With the columns that the log has taken in, if it takes in any.
        self.relation = relation
        if takes_in(relation):
            self.relation = with_taken_in(relation, self.table.property(TAKEN_IN))
        self.reload()

    def _target_now(self) -> WriteTarget:
        """Where its files are."""
        return self.table.target(self._storage, reading=True)

    def reload(self) -> None:
        """Take the state from the newest commit."""
        self._snapshot = self.current()
        self._target = self._target_now()
        self.progress = LogProgress.load(self._snapshot, self._target)

    def current(self) -> Snapshot:
        """The newest commit. Raises TG506 if the table is of another definition there."""
        found, wanted = self.table.current(), relation_identity(self.relation)
        same_definition(self.relation.name, self.table.property("tidegate.identity"), wanted)
        return found

    def consumed_files(self) -> Iterable[ConsumedFile]:
        """Every file that is in the log (for connectors that read files)."""
        if self._snapshot.id is None:
            return []
        # Of the same snapshot as the progress: files that an earlier one does not know would be read again.
        rows = self._tables.rows(self.table.identifier, self._snapshot.id)
        rows = rows.where("_outcome = 'watermark' AND _source_partition IS NULL")
        rows = rows.selectExpr("inline(_progress.files)")
        # Bounded: one small row for each file that the source has read (docs/sizing.md).
        return [ConsumedFile(*row) for row in rows.toLocalIterator()]


class Log(StoredLog):
    """A relation's log open for writing: its table, the progress of its last commit, and the way to add a batch."""

    def __init__(
        self,
        tables: Tables,
        storage: Storage,
        relation: Relation,
        identifier: str,
        stages: Stages,
        clock: Callable[[], datetime],
        facts: Mapping[str, str] | None = None,
    ) -> None:
        """`stages`: of a batch, by which all is done; `clock`: the wall clock, UTC; `facts`: see `new_log`."""
        make_table(tables, new_log(relation, identifier, storage.owner, facts), storage)
        # Looks at the owner, before anything is written.
        super().__init__(tables, storage, relation, identifier, storage.owner)
        if missing_progress(self._target.schema):
            # A log of an earlier version: what its progress did not have was nothing.
            with_columns(tables, self.table, self._target_now, missing_progress)
            self.reload()
        self.stages, self._clock = stages, clock
        self._memories = MemoryFiles.of(storage, relation.name)
        self._memories.remove_orphans(self.progress.states.values(), clock())
        self.state = None
        if relation.primary_key:
            changes = self.table.property(CHANGES)
            self.state = KeyedTable(tables, relation, identifier, clock, storage.owner, changes)
        if (state := self.state) is not None and state.applied().epoch < self.progress.epoch:
            # What a run that broke off left (R2).
            stages.carry_out(LogStage, lambda _: state.catch_up())

    def _target_now(self) -> WriteTarget:
        """How tasks write its files."""
        return log_target(self.table, self._storage, self.relation)

    @classmethod
    def of(cls, context: Context, relation: Relation, facts: Mapping[str, str] | None = None) -> Log:
        """The relation's log, opened for writing; hold its `lease` while it is used. `facts`: see `new_log`. Raises
        TG515 and TG531 as `require_own`."""
        context.require_own_once(relation.name)
        storage = context.project.storage
        stages = context.stages(batch_stages(relation, storage.namespace_of))
        table = context.identifier(relation.name)
        return cls(context.tables, storage, relation, table, stages, context.clock, facts)

    @property
    def strategy(self) -> InForce | None:
        """What the next batch is judged by (W13)."""
        watermark, identity = self.relation.watermark, strategy_identity(self.relation)
        return None if watermark is None or identity is None else InForce(identity, watermark.expression)

    def add(
        self,
        epoch: int,
        rows: BatchRows,
        arrived: datetime,
        files: list[ConsumedFile] | None = None,
        last: bool = False,
        decisions: Decisions | None = None,
        crashed: Sequence[Sequence[Any]] = (),
    ) -> BatchCommitted:
        """Judge and commit one batch as `epoch`, which must follow the last one. Returns what was committed.

        `last`: nothing waits behind it (see `LogProgress.after`). `decisions`: what its plan says of a
        broker's partitions. `crashed`: of its rows those that no decoder has seen (`BatchPlan.crashed`).
        Raises TG502 if another run has committed meanwhile; then nothing of the batch is in the log.
        """
        if epoch != self.progress.epoch + 1:
            raise AssertionError(f"epoch {epoch} does not follow {self.progress.epoch}")
        started = time.monotonic()
        before = self.progress.totals()
        if decisions is not None:
            self.progress.prepare(decisions)
        reports = self.stages.carry_out(GateStage, lambda _: self._judge(epoch, rows, arrived, decisions))
        after = self._after(epoch, reports, rows, arrived, files or [], last, decisions, crashed)
        known = self.progress.undeclared.columns if self.progress.undeclared is not None else {}
        there = after.undeclared.columns if after.undeclared is not None else {}
        new = {name: where for name, where in there.items() if name not in known}
        written = [file for report in reports for file in report["files"]]
        notes = [altered(self.progress, after)]
        if gone := rejected(crashed):
            notes.append(f"crashed their decoder, and are rejected: {named(gone)}")
        notes += [undeclared_text(new)] if new else []
        note = "; ".join(text for text in notes if text) or None
        judged_at = time.monotonic()
        committed_at = self.stages.carry_out(
            LogStage,
            lambda _: self._commit(after, arrived, written, files or [], note=note, decisions=decisions),
        )
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
            commit_seconds=round(committed_at - judged_at, 3),
            undeclared=new,
            bytes=sum(report["bytes"] for report in reports),
        )

    def _after(
        self,
        epoch: int,
        reports: Sequence[Mapping[str, Any]],
        rows: BatchRows,
        arrived: datetime,
        files: Sequence[ConsumedFile],
        last: bool,
        decisions: Decisions | None,
        crashed: Sequence[Sequence[Any]],
    ) -> LogProgress:
        """The progress that a batch makes, which its commit has beside its rows (R1)."""
        at = micros_of(arrived)
        judged = {
            name: GateState.from_dict(entry["state"])
            for r in reports
            for name, entry in r["partitions"].items()
        }
        after = self.progress.after(epoch, judged, last, decisions, at)
        after.crashes = and_crashed(after.crashes, crashed, at)
        after.undeclared = and_undeclared(after.undeclared, rows.seen(reports), at)
        after.strategy, after.position = self.strategy, rows.position
        after.options = options_of(self.relation)
        marks = [m for m in (after.absent_before, rows.absent_before) if m is not None]
        after.absent_before = max(marks, default=None)
        if files and after.files is not None:
            if not after.files.timed:
                # A sum of an earlier version is made anew, with times.
                after.files = FilesRead().and_files(
                    (f.path, f.size, f.modified) for f in self.consumed_files()
                )
            after.files = after.files.and_files((f.path, f.size, f.modified) for f in files)
        return after

    def reset(self, watermark: int, at: datetime, followed: Mapping[str, str] | None = None) -> None:
        """Take every partition's watermark and `G` back to `watermark` where they are beyond it, in a commit of its own
        (W9). `followed`: what is said of the reset that this one follows (`plan.resets`). Raises TG502 like `add`."""
        self.stages.carry_out(LogStage, lambda _: self._reset(watermark, at, followed or {}))

    def _reset(self, watermark: int, at: datetime, followed: Mapping[str, str]) -> None:
        states = self.progress.states
        memories = relearned(
            self._tables,
            self.relation,
            self.table.identifier,
            self._snapshot.id,
            states,
            self._memories,
            watermark,
        )
        after = self.progress.reset(watermark, memories, followed)
        before, now = self.format(self.progress.published), self.format(watermark)
        note = f"RESET WATERMARK TO {now}, it was {before}"
        self._commit(after, at, [], [], label="reset", note=note)

    def change_columns(
        self, change: TableChange, added: Iterable[str], note: str, at: datetime | None = None
    ) -> None:
        """Have other columns from the next batch on, in a commit of its own (E7): what was judged stands (E4), and no
        row is read. `added`: names that are read from now on; `at`: when, now by default. Raises TG502 like `add`."""
        undeclared = and_declared(self.progress.undeclared, added)
        after = replace(self.progress, epoch=self.progress.epoch + 1, undeclared=undeclared)
        self.stages.carry_out(
            LogStage, lambda _: self._commit(after, at or self._clock(), [], [], note=note, change=change)
        )

    def reads(self, relation: Relation) -> None:
        """Write from here on the columns of this relation, which the table has."""
        self.relation, self._target = relation, self._target_now()

    def _commit(
        self,
        after: LogProgress,
        at: datetime,
        written: list[dict[str, Any]],
        files: list[ConsumedFile],
        label: str | None = None,
        note: str | None = None,
        decisions: Decisions | None = None,
        change: TableChange | None = None,
    ) -> float:
        """Files of rows and the progress that goes with them, in one commit (R1), and what a table with a PRIMARY KEY
        holds after it. When the first was there (`time.monotonic`)."""
        watermark = self.relation.watermark
        strategy = watermark.strategy if watermark is not None else None
        clock = watermark.kind.clock(at) if watermark is not None else None
        stall = getattr(self.relation.connector, "stall_timeout", None)
        progress_file = after.write(self._target, at, files, label, note, strategy, clock, stall, decisions)
        base = going_on(self._snapshot, self.table.current())
        summary = after.summary(progress_file)
        own = self.table.append([*written, progress_file], self._target, summary, base, change=change)
        # Its own commit, and not what somebody else may have put on top of it: the next batch follows this one.
        self._snapshot = self.table.at(own)
        self._memories.forget(self.progress.states.values(), after.states.values())
        if after.epoch % _TIDY_EVERY == 0:
            self._memories.remove_orphans(after.states.values(), self._clock())
        self.progress = after
        committed_at = time.monotonic()
        # The state of a table with other columns gets them when the log is opened by its new definition.
        if self.state is not None and change is None:
            self.state.catch_up()
        return committed_at

    def format(self, value: int | None) -> str:
        """A watermark as people read it."""
        kind = self.relation.watermark.kind if self.relation.watermark else TimeKind.EPOCH
        return kind.format(value)

    def _judge(
        self, epoch: int, rows: BatchRows, arrived: datetime, decisions: Decisions | None
    ) -> list[dict[str, Any]]:
        """The reports of the tasks that have judged the batch. Of a try that came to nothing, nothing is committed."""
        if rows.frame is None:
            return []
        direct = rows.direct
        while direct is not None:
            task = self._task(epoch, rows, arrived, decisions, sorted_=False)
            with settings(self._tables.spark, {**direct.settings, **sparing(rows.care)}):
                reports = run_task(direct.work, InTask(direct.reader, task))
            why = [report.get("java") for report in reports if report.get("unread")]
            if not why and well_ordered(reports):
                return reports
            direct = direct.instead(why[0]) if direct.instead is not None and why and all(why) else None
        with settings(self._tables.spark, sparing(rows.care)):
            return self._judge_by_spark(rows.frame(), epoch, rows, arrived, decisions)

    def _judge_by_spark(
        self, frame: DataFrame, epoch: int, rows: BatchRows, arrived: datetime, decisions: Decisions | None
    ) -> list[dict[str, Any]]:
        if rows.aligned:
            task = self._task(epoch, rows, arrived, decisions, sorted_=False)
            reports = self._judge_frame(frame, task, arrived)
            if well_ordered(reports):
                return reports
        # The order trap: rows of one partition would meet the gate in two tasks, or out of order.
        frame = frame.repartition("_source_partition").sortWithinPartitions("_source_partition", *rows.order)
        reports = self._judge_frame(frame, self._task(epoch, rows, arrived, decisions, sorted_=True), arrived)
        if not well_ordered(reports):
            raise AssertionError("a sorted batch reached the gate out of order")
        return reports

    def _judge_frame(self, frame: DataFrame, task: GateTask, arrived: datetime) -> list[dict[str, Any]]:
        watermark = self.relation.watermark
        strategy = watermark.strategy if watermark is not None and task.has_strategy else None
        windows = strategy.preceding if isinstance(strategy, Expression) else ()
        preceding = (
            PrecedingTask(windows, task.states, self._memories, task.numbering, task.drop_repeats)
            if windows
            else None
        )
        return run_task(gate_input(frame, self.relation, arrived, preceding), task)

    def _task(
        self, epoch: int, rows: BatchRows, arrived: datetime, decisions: Decisions | None, sorted_: bool
    ) -> GateTask:
        states = self.progress.states
        if decisions is not None:
            # Of 10,000 partitions a task carries the states of those that it may meet.
            states = {name: states[name] for name in decisions.until}
        watermark = self.relation.watermark
        return GateTask(
            config=self.relation.gate,
            time_column=watermark.column if watermark is not None else None,
            published=self.progress.published,
            states=states,
            epoch=epoch,
            arrived=arrived,
            target=self._target,
            memories=self._memories,
            numbering=rows.numbering,
            drop_repeats=sorted_,
            has_strategy=watermark is not None and isinstance(watermark.strategy, Expression),
            clock=watermark.kind.clock(arrived) if watermark is not None else None,
            buffer=BYTES if rows.care >= FEW_ROWS else BUFFER_BYTES,
        )


def log_target(table: StoredTable, storage: Storage, relation: Relation) -> WriteTarget:
    """How tasks write files of a relation's log."""
    watermark = relation.watermark
    time_column = watermark.column if watermark is not None else None
    daily = watermark is not None and watermark.kind is not TimeKind.EPOCH
    bounds = ("_epoch", "_offset", time_column) if time_column else ("_epoch", "_offset")
    return table.target(storage, "_outcome", time_column if daily else None, bounds)


def well_ordered(reports: list[dict[str, Any]]) -> bool:
    """Whether every partition was judged by one task, in increasing offsets."""
    names = [name for report in reports for name in report["partitions"]]
    ordered = all(entry["ordered"] for report in reports for entry in report["partitions"].values())
    return ordered and len(names) == len(set(names))
