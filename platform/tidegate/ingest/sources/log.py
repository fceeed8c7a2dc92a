"""`WATERMARK(rel, col, expr)` in FROM (W14): a gate whose rows are the on-time rows of another relation's log.

The log that is read has offsets and epochs of its own, so nothing needs to be listed or remembered: a batch is a range
of the upstream's epochs, and the commit of its rows says up to which epoch they go (R1). A row keeps its
partition, offset and arrival time. It follows by commits because it judges each row once, in the order of arrival;
views read by event time (`views/inputs.py`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING

from tidegate.errors import TidegateError
from tidegate.iceberg.attempt import overtaken
from tidegate.iceberg.layout import ON_TIME, PROGRESS, quote
from tidegate.iceberg.progress import ConsumedFile, LogPosition, LogProgress
from tidegate.iceberg.retire import ROWS
from tidegate.ingest.connector import BatchPlan, BatchRows, Connector, Pending
from tidegate.ingest.definition import require_same
from tidegate.jvm.failures import too_little_memory, worker_died
from tidegate.plan.columns.changes import CHANGES, steps
from tidegate.plan.gaps import RETAINED_FROM
from tidegate.plan.resets import FOLLOWED_RESETS, Step, not_followed
from tidegate.plan.stages import SourceStage
from tidegate.runtime.queries import run_query
from tidegate.sql.dialect.query import SLICE
from tidegate.sql.options.connectors import LOG_PLACE
from tidegate.tasks.smaller import FEW_ROWS, LEAST_ROWS, Size

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tidegate.iceberg.protocol import Snapshot
    from tidegate.iceberg.tables import StoredTable, Tables
    from tidegate.ingest.ingest import Log
    from tidegate.plan.events import BatchCommitted
    from tidegate.project import Storage
    from tidegate.runtime.runner import Clock
    from tidegate.sql.catalog.objects import Relation
    from tidegate.sql.options.connectors import LogOptions


class LogConnector(Connector):
    """Plans by the upstream's epochs: each batch takes whole ones, up to `max_rows_per_batch` rows or at least one."""

    def __init__(
        self,
        tables: Tables,
        storage: Storage,
        gate: Relation,
        options: LogOptions,
        upstream: Relation,
        identifier: str | None,
        position: LogPosition | None,
        max_rows: int | None = None,
        lent: bool = False,
        followed: int | None = None,
    ) -> None:
        """`identifier`: the upstream's log, None if there is none yet. `position`: up to where the gate has read
        it. `lent`: another environment's, whose upkeep does not keep what the gate still has to read. `followed`:
        how many changes of the upstream's columns the gate's log has followed; None: as many as are found first."""
        self._tables, self._storage, self._gate, self._options = tables, storage, gate, options
        self._upstream, self._identifier = upstream, identifier
        self.size = Size(max_rows or options.max_rows_per_batch, LEAST_ROWS)
        self._read = position.epoch if position is not None else 0
        self._of = position.table if position is not None else None
        self._table = ""
        self._epochs: list[tuple[int, int]] = []
        self._planned: list[tuple[int, int]] = []
        self._before: int | None = None
        self._lent, self._followed = lent, followed
        self._at: int | None = None
        self._absent_before: int | None = None
        self._resets: Mapping[str, str] = {}

    @property
    def follows(self) -> str:
        """The name of the relation that it reads."""
        return self._upstream.name

    def resets(self, own: Mapping[str, str]) -> list[Step]:
        """The upstream's resets that the gate has not followed, whose log says `own`, on the scale of the gate's time;
        none where that is another time."""
        found = not_followed(own, self._upstream.name, self._resets)
        return [replace(step, mark=mark) for step in found if (mark := self._own(step.mark)) is not None]

    def _own(self, mark: int) -> int | None:
        """A time of the upstream on the scale of the gate's."""
        return None if self._gate.follows is None else self._gate.follows.at(mark)

    def pending(self) -> Pending:
        """The upstream's partitions, and how many of its rows are new. Raises TG505 if it was made anew meanwhile."""
        if self._identifier is None:
            return Pending(rows=0)
        table = self._tables.open(self._identifier)
        self._table = table.uuid
        if self._of not in (None, self._table):
            raise TidegateError(
                "TG505",
                (f'"{self._upstream.name}" was dropped and created again after "{self._gate.name}" read it'),
                hint=f"DROP the views with WATERMARK({self._upstream.name}, …), and create them again",
                location=self._gate.location,
            )
        snapshot = self._current(table)
        if self._gate.follows is not None:
            self._resets = snapshot.summary
        newest = snapshot.integer("tidegate.epoch") or 0
        if newest > self._read:
            self._epochs = self._new_epochs(newest)
            # (Upkeep keeps what a gate of this environment has still to read, once that has begun.)
            may_lack = (self._lent or not self._read) and table.property(ROWS) is not None
            self._at = snapshot.id if may_lack else None
            if may_lack:
                self._absent_before = self._missing(table.property(RETAINED_FROM), newest)
        states = LogProgress.load(snapshot, table.target(self._storage, reading=True)).states
        return Pending(sorted(states), rows=sum(rows for _, rows in self._epochs))

    def _current(self, table: StoredTable) -> Snapshot:
        """The upstream's newest commit. Raises TG506 if its columns have changed since the gate's log was opened: under
        a name that the gate knows there may be another column (E2)."""
        snapshot = table.current()
        require_same(self._upstream, table.properties())
        there = len(steps(table.property(CHANGES)))
        if self._followed is None:
            self._followed = there
        elif there != self._followed:
            raise overtaken(table.identifier)
        return snapshot

    def _missing(self, retained_from: str | None, newest: int) -> int | None:
        """R5: the time of the gate before which some of the new rows are gone, by the upstream's retention; None if
        they are all there. Raises TG543 where nobody can tell: the gate's time is not the upstream's."""
        # Nothing may go between this count and the reading.
        found = self._on_time(self._read, newest, self._at).count()
        if found >= sum(rows for _, rows in self._epochs):
            return None
        last = None if retained_from is None else self._own(int(retained_from) - 1)
        if last is not None:
            return last + 1
        if not self._read:
            # It begins with what there is.
            return None
        raise TidegateError(
            "TG543",
            f'"{self._gate.name}" can\'t continue: rows of "{self._upstream.name}" that it has '
            "not read are beyond their retention, and it is not known to which results they "
            "belong",
            hint="the stored results of its views are kept; run them more often than rows are "
            "retired, or keep rows longer (jobs/maintenance.yaml of the environment that owns "
            "them)",
            location=self._gate.location,
        )

    def plan(self, epoch: int, arrival: datetime) -> BatchPlan | None:
        if not self.waits():
            return None
        after, rows, most = self._read, 0, self.size.next()
        self._planned = []
        while self._next() and (rows == 0 or rows + self._epochs[0][1] <= most):
            self._planned.append(self._epochs.pop(0))
            self._read, added = self._planned[-1]
            rows += added
        self.size.planned(rows)
        unit = {"table": self._table, "after": after, "until": self._read, "rows": rows}
        return BatchPlan(epoch, arrival.isoformat(), [unit])

    def smaller(self, plan: BatchPlan) -> BatchPlan | None:
        half = (len(self._planned) + 1) // 2
        if half == len(self._planned):
            return None
        self._epochs[:0] = self._planned[half:]
        del self._planned[half:]
        self._read = self._planned[-1][0]
        rows = sum(rows for _, rows in self._planned)
        self.size.shrink(rows)
        (unit,) = plan.units
        return replace(plan, units=[unit | {"until": self._read, "rows": rows}])

    def smallest(self, plan: BatchPlan) -> str:
        return f'what one commit of "{self._upstream.name}" has added'

    def waits(self) -> bool:
        # Epochs without a row on time (say, of late rows only) are read along with the next that has one.
        return any(rows for _, rows in self._next())

    def only_before(self, epoch: int | None) -> None:
        """From here on plan only what was committed before an epoch; None: everything."""
        self._before = epoch

    def _next(self) -> list[tuple[int, int]]:
        return [e for e in self._epochs if self._before is None or e[0] < self._before]

    def adopt(self, plan: BatchPlan) -> bool:
        self._read = plan.units[0]["until"]
        self._epochs = [(epoch, rows) for epoch, rows in self._epochs if epoch > self._read]
        return True

    def read(self, plan: BatchPlan) -> BatchRows:
        from pyspark.sql import functions as F

        (unit,) = plan.units
        # With the columns that are looked at here, whatever comes until Spark reads them.
        newest = self._current(self._tables.open(str(self._identifier))).id
        rows = self._rows(unit["after"], unit["until"], newest if self._at is None else self._at)
        frame = rows.withColumn("_raw", F.lit(None).cast("string"))
        position = LogPosition(unit["table"], unit["until"])
        return BatchRows(
            lambda: frame, ("_offset",), numbering=False, position=position, absent_before=self._absent_before
        )

    def consumed(self, plan: BatchPlan) -> list[ConsumedFile]:
        (unit,) = plan.units
        return [ConsumedFile(f"log:{self._upstream.name}", unit["until"], 0, unit["rows"])]

    def recount(self) -> int | None:
        if self._identifier is None:
            return None
        return self._rows(0, self._read, self._at).count()

    def _rows(self, after: int, until: int, at: int | None) -> DataFrame:
        """The gate's columns and place of the upstream's on-time rows of the epochs in (after, until]. Iceberg skips
        the files of all others."""
        rows = self._on_time(after, until, at)
        messages = [name for name, _ in self._upstream.message_columns]
        rows = rows.select(*[quote(c.name) for c in self._upstream.columns], *LOG_PLACE, *messages)
        return run_query(self._tables.spark, self._gate.name, self._options.sql, {SLICE: rows})

    def _on_time(self, after: int, until: int, at: int | None) -> DataFrame:
        """The upstream's on-time rows of the epochs in (after, until], as of a snapshot."""
        from pyspark.sql import functions as F

        epoch = F.col("_epoch")
        rows = self._tables.rows(str(self._identifier), at)
        return rows.where((F.col("_outcome") == ON_TIME) & (epoch > after) & (epoch <= until))

    def _new_epochs(self, newest: int) -> list[tuple[int, int]]:
        """(epoch, rows on time) of what was committed after the position, in order. Bounded: one small row for
        each."""
        from pyspark.sql import functions as F

        history = self._tables.rows(str(self._identifier)).where(
            (F.col("_outcome") == PROGRESS)
            & F.col("_source_partition").isNull()
            & (F.col("_epoch") >= self._read)
            & (F.col("_epoch") <= newest)
        )
        # Bounded: a small row for each commit of the upstream since the last batch.
        totals = sorted(tuple(r) for r in history.select("_epoch", "_progress.on_time").collect())
        before = dict(totals).get(self._read, 0)
        counts = []
        for epoch, total in totals:
            if epoch > self._read:
                counts.append((epoch, total - before))
            before = total
        return counts


def follow(
    log: Log, connector: LogConnector, on_batch: Callable[[BatchCommitted], None], clock: Clock
) -> None:
    """Bring a gate's log up to what `pending` found. Its lease is held by the caller.

    No plan is kept outside the log: a batch depends on no clock and no listing, so one that broke off is planned
    anew from the position of the last commit, and reads the same rows (W4, R2).
    """
    while advance(log, connector, on_batch, clock):
        pass


def advance(
    log: Log, connector: LogConnector, on_batch: Callable[[BatchCommitted], None], clock: Clock
) -> bool:
    """At most one batch of a gate; whether there may be more. A reset of the upstream's watermark is followed where it
    came, between two of its commits (W9)."""
    step = next(iter(connector.resets(log.progress.resets)), None)
    connector.only_before(None if step is None else step.epoch)
    plan = connector.plan(log.progress.epoch + 1, clock())
    if plan is not None:
        on_batch(_added(log, connector, plan))
        return connector.waits() or step is not None
    if step is None:
        return False
    log.reset(step.mark, clock(), {FOLLOWED_RESETS: json.dumps({connector.follows: step.number})})
    return True


def _read(log: Log, connector: LogConnector, plan: BatchPlan) -> BatchRows:
    return log.stages.carry_out(SourceStage, lambda _: connector.read(plan))


def _added(log: Log, connector: LogConnector, plan: BatchPlan) -> BatchCommitted:
    """Judge a batch; where its workers die for want of memory, less of it, then one task at a time (X2)."""
    while True:
        rows = replace(_read(log, connector, plan), care=plan.care)
        try:
            return log.add(
                plan.epoch, rows, plan.arrived, connector.consumed(plan), last=not connector.waits()
            )
        except Exception as error:
            if not worker_died(error) or log.progress.epoch >= plan.epoch:
                raise
            less = connector.smaller(plan)
            if less is None and plan.care == FEW_ROWS:
                what, where = f'a batch of "{log.relation.name}"', log.relation.location
                raise too_little_memory(what, connector.smallest(plan), where) from error
            plan = less or replace(plan, care=plan.care + 1)
