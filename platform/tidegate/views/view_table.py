"""Views: closed slices of their inputs, computed once by ordinary Spark SQL and appended (C2, W3).

A slice is the result rows with frontier < window_end <= W, where W is the view's clock at pinned snapshots of all
inputs. A view without EMIT ON WINDOW CLOSE also holds its open rows, replaced as a whole by every tick.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from tidegate.errors import TidegateError
from tidegate.iceberg.attempt import overtaken
from tidegate.iceberg.layout import carried_column, new_view_table, quote, view_columns
from tidegate.iceberg.protocol import (
    AMENDED_GROUPS,
    AMENDMENT,
    Commit,
    Conflict,
    Found,
    Snapshot,
    Stored,
    continued,
    drive,
)
from tidegate.iceberg.tables import make_table, with_columns
from tidegate.iceberg.versions.swap import VersionStart
from tidegate.plan.closing import PARTIAL, held_back, is_due, stops
from tidegate.plan.columns.changes import seen
from tidegate.plan.costs import with_cost
from tidegate.plan.events import SliceCommitted
from tidegate.plan.gaps import GAPS, with_gap
from tidegate.plan.lost_totals import LOST_TOTALS
from tidegate.plan.resets import BEYOND, RESETS, closes_again, followed
from tidegate.plan.stages import tick_stages
from tidegate.plan.versions import BUILDING, HELD_AT, STANDS_UNTIL, VersionInBuilding, held_at, stands
from tidegate.plan.view_stages import SliceStage, StepStage, ViewStage, Way
from tidegate.sql.dialect.inner_names import LOST, ORDINAL
from tidegate.tasks.writer import WriteTask, run_task
from tidegate.views.definition import same_inputs, same_view
from tidegate.views.inputs import Cut, Pinned, clock_of, pending, positions
from tidegate.views.over import CARRIED, carried_rows, carried_type, missing_totals
from tidegate.views.over import evaluate as evaluate_over
from tidegate.views.resolve import changes_of, no_rows, pin, resolve_columns
from tidegate.views.retention import begin, missing
from tidegate.views.revisions.reclose import Reclosing
from tidegate.views.revisions.revisions import has_revisions
from tidegate.views.revisions.step_back import back, emitted_beyond, extent, facts, refused
from tidegate.views.slices import read, run_sql
from tidegate.views.ways import Computed, computed, earliest_open
from tidegate.watermark import TimeKind

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tidegate.runtime.context import Context
    from tidegate.sql.catalog.objects import View


#: How often a tick is tried again that an amendment was in the way of.
_TRIES = 4


class Tick(NamedTuple):
    """What one tick commits: new files, data files that they replace, rows that are final for the first time, what the
    summary says beside the usual, and where the first session begins that is still open (D3)."""

    files: list[dict[str, Any]]
    removed: list[Any]
    groups: int
    summary: dict[str, str]
    open_since: int | None


class ViewTable:
    """A view's stored results, open for writing as they stand now: hold its lease. A commit on top of another state
    than that fails (TG502). `identifier`: of the table of a version that is built (`versions/build.py`); `building`:
    which makes it, if it is not there, of what it has from the `start`."""

    def __init__(
        self,
        context: Context,
        view: View,
        identifier: str | None = None,
        building: VersionInBuilding | None = None,
        start: VersionStart | None = None,
    ) -> None:
        self.view = view
        self._context, self._spark = context, context.spark
        columns = resolve_columns(context, view)
        identifier = identifier or context.identifier(view.name)
        carried = None
        if view.over is not None:
            carried = carried_type(
                self._spark, view, run_sql(self._spark, view, view.over.rows_sql, no_rows(context, view))
            )
        owner = context.project.owner
        known = seen(view, partial(changes_of, context))
        new = new_view_table(view, columns, identifier, carried, owner, known)
        if building is None:
            make_table(context.tables, new, context.project.storage)
        else:
            new = replace(new, properties={**new.properties, BUILDING: building.to_text()})
            context.tables.make_version(new, context.identifier(view.name), building.number, start)
        self.table = context.tables.open(identifier, owner)
        self._snapshot = same_view(context, view, self.table)
        self._life = self.table.uuid
        self._columns = [name for name, _ in view_columns(view, columns)]
        day = None if view.kind is TimeKind.EPOCH else "_window_end"
        bounds = ("_window_end", "_tick")
        target = partial(self.table.target, context.project.storage, "_open", day, bounds)
        if carried is None:
            self._target = target()
        else:
            name, wanted = carried_column(view), carried
            self._target = with_columns(
                context.tables,
                self.table,
                target,
                lambda schema: missing_totals(name, wanted, schema.field(name).type),
            )
        self._upto: int | None = None
        planned = tick_stages(context.catalog, view, context.project.storage.namespace_of)
        self._stages = context.stages(planned)

    def tick(self, upto: int | None = None, gives_way: bool = False) -> SliceCommitted | None:
        """Bring the view up to the newest commits of its inputs, or only as far as `upto` (ticks of its time). None if
        that closes and opens nothing new. `gives_way`: not while it stands for another version: then it `stands`."""
        self._upto, self._gives_way, self.stands = upto, gives_way, False
        # Where an amendment was in the way, the slice may read what was amended below it: so it is computed again.
        commit = Commit(self._snapshot, tries=_TRIES, looks=True)
        end = drive(commit, lambda _: Found(self.table.current()), self._attempted)
        done: SliceCommitted | None = end.result()
        return done

    def _attempted(self, base: Snapshot) -> Stored | Conflict:
        if self.table.uuid != self._life:
            # Another version has taken its place, and this one's rows are nobody's (E5).
            raise overtaken(self.table.identifier)
        try:
            return Stored(self._tick(base))
        except TidegateError as error:
            if error.code != "TG502":
                raise
            return Conflict(error, stood=self._snapshot)

    def _tick(self, base: Snapshot) -> SliceCommitted | None:
        """`base`: with what upkeep has done since, where a view stays open for weeks."""
        started, self._snapshot = time.monotonic(), base
        pinned = pin(self._context, self.view)
        same_inputs(self.view, self.table, base, pinned)
        stepped = self._step_back(base, pinned)
        base = self._snapshot
        clock = clock_of(self.view, pinned)
        if self._upto is not None and clock is not None:
            clock = min(clock, self._upto)
        clock = held_back(clock, held := held_at(self.table.property(HELD_AT)))
        frontier = stood = base.integer("tidegate.frontier")
        gap: dict[str, str] = {}
        if frontier is None:
            frontier = held_back(begin(self.view, pinned), held)
        elif (lost := missing(self.view, base.summary, pinned)) is not None and lost.upto is not None:
            # (What is gone behind the time at which another version takes its place is that one's.)
            upto = lost.upto if held is None else max(min(lost.upto, held), frontier)
            gap, frontier = with_gap(base.summary, frontier, upto), upto
        due = is_due(self.view, base.summary, positions(pinned), frontier, clock) or stops(stood, clock, held)
        until = self.table.property(STANDS_UNTIL)
        self.stands = due and self._gives_way and stands(until, self._context.clock())
        if self.stands or not due:
            return self._committed(base, started, started) if stepped else None
        # The frontier goes back by a step back alone (W9).
        reached = max((mark for mark in (frontier, clock) if mark is not None), default=None)
        earliest = base.integer("tidegate.earliest-open")
        start = min((mark for mark in (frontier, earliest) if mark is not None), default=None)
        number = (base.integer("tidegate.tick") or 0) + 1
        again = closes_again(base.summary, frontier, reached)
        cut = Cut(pinned, start, frontier, reached, number, again, base.integer("tidegate.carried"))
        done = self._stages.carry_out(SliceStage, lambda stage: self._computed(stage, base, cut), StepStage)
        try:
            return self._stages.carry_out(ViewStage, lambda _: self._commit(base, cut, done, gap, started))
        finally:
            done.close()

    def _computed(self, stage: SliceStage, base: Snapshot, cut: Cut) -> Computed:
        """The rows of a tick. Where rows close again that were emitted once, the query says which (W9)."""
        way: Way = "query" if stage.way == "panes" and cut.again else stage.way
        carried = partial(self._carried_rows, base, cut)
        return computed(self._context, self.view, way, cut, self._target, carried)

    def _commit(
        self, base: Snapshot, cut: Cut, done: Computed, gap: dict[str, str], started: float
    ) -> SliceCommitted:
        """Store what a tick has computed, and the new frontier, in one commit (R2)."""
        if done.rows is None:
            files = done.files or []
            tick = Tick(files, [], sum(f["rows"] for f in files if f["split"] is False), {}, done.open_since)
        else:
            tick = self._stored(done.rows, cut, done.open_since)
        if done.carried is not None:
            tick.files.extend(files := self._write_carried(done.carried))
            tick.summary["tidegate.carried"] = str(sum(file["rows"] for file in files))
        summary = {
            "tidegate.tick": str(cut.number),
            "tidegate.inputs": positions(cut.pinned),
            "tidegate.groups": str((base.integer("tidegate.groups") or 0) + tick.groups),
            "tidegate.open": str(sum(f["rows"] for f in tick.files if f["split"] is True)),
        }
        kept = (*AMENDMENT, RESETS, GAPS, *([] if cut.again else [BEYOND]))
        summary = continued(base, summary | {key: base.summary[key] for key in kept if key in base.summary})
        read = {p.input.name: p.snapshot.summary for p in cut.pinned}
        cost = with_cost(base.summary, read.values(), time.monotonic() - started)
        summary |= followed(read) | tick.summary | gap | cost
        if lost := (base.integer(LOST_TOTALS) or 0) + sum(f.get("counted", 0) for f in tick.files):
            summary[LOST_TOTALS] = str(lost)
        if cut.reached is not None:
            summary["tidegate.frontier"] = str(cut.reached)
        if self._upto is not None:
            summary[PARTIAL] = "true"
        if tick.open_since is not None:
            summary["tidegate.earliest-open"] = str(tick.open_since)
        # A view that emits on close is append-only by construction (C2), but for what closes again.
        replaced = [*([] if self.view.emit_on_window_close else [True]), *self._carried()]
        removed = [*tick.removed, *self._carried_files(base, tick.files)]
        computed_at = time.monotonic()
        committed = self.table.append(tick.files, self._target, summary, base, replaced, removed)
        self._snapshot = Snapshot(committed, summary, committed)
        return self._committed(self._snapshot, started, computed_at)

    def _committed(self, at: Snapshot, started: float, computed: float) -> SliceCommitted:
        now = time.monotonic()
        return SliceCommitted(
            view=self.view.name,
            frontier=self.view.kind.format(at.integer("tidegate.frontier")),
            groups=at.integer("tidegate.groups") or 0,
            open=at.integer("tidegate.open") or 0,
            lost_totals=at.integer(LOST_TOTALS) or 0,
            seconds=round(now - started, 3),
            commit_seconds=round(now - computed, 3),
        )

    def _step_back(self, base: Snapshot, pinned: Sequence[Pinned]) -> bool:
        """Follow the resets of the inputs in a commit of its own (W9); whether there was one to make. TG543 if the
        view can't go back."""
        view = self.view
        target = pending(view, base.summary, pinned)
        if target is None:
            return False
        summary, files = self._stages.carry_out(
            SliceStage, lambda _: self._stepped(base, pinned, target), StepStage
        )

        def commit(_: ViewStage) -> int:
            removed = self._carried_files(base, files)
            return self.table.append(files, self._target, summary, base, self._carried(), removed)

        committed = self._stages.carry_out(ViewStage, commit)
        self._snapshot = Snapshot(committed, summary, committed)
        return True

    def _stepped(
        self, base: Snapshot, pinned: Sequence[Pinned], target: int
    ) -> tuple[dict[str, str], list[dict[str, Any]]]:
        """What the commit of a step back says, and the files of what is carried as of the frontier it goes back to."""
        view = self.view
        found = back(self._context, view, self.table.identifier, pinned, target)
        if not found.is_possible:
            raise refused(view, found)
        frontier = min(int(found.frontier), base.integer("tidegate.frontier") or 0)
        opened = None
        if view.open_sql is not None:
            opened = earliest_open(self._context, view, read(self._context, view, pinned), frontier)
        beyond = extent(emitted_beyond(self._at(base), view, frontier), view)
        summary = facts(view, base.summary, pinned, frontier, opened, beyond)
        files: list[dict[str, Any]] = []
        if view.over is not None:
            # What its frames need of the rows before: as of the frontier that it has gone back to.
            rows = read(self._context, view, pinned, None, frontier)
            tick = evaluate_over(
                self._spark, view, run_sql(self._spark, view, view.over.rows_sql, rows), None, None, frontier
            )
            try:
                files = [] if tick.carried is None else self._write_carried(tick.carried)
            finally:
                tick.close()
        return summary, files

    def _at(self, base: Snapshot) -> DataFrame:
        """The view's table at a snapshot."""
        return self._context.tables.rows(self.table.identifier, base.id)

    def _stored(self, result: DataFrame, cut: Cut, since: int | None) -> Tick:
        """Write the rows of a tick. `since`: where the first session begins that stays open."""
        number = cut.number
        if not cut.again:
            files = self._write(result, number)
            return Tick(files, [], sum(f["rows"] for f in files if f["split"] is False), {}, since)
        assert cut.frontier is not None
        assert cut.reached is not None
        result = result.localCheckpoint()
        opened = self._write(result.where("_open"), number) if not self.view.emit_on_window_close else []
        reclosing = Reclosing(self._context, self.view, self.table, self._snapshot, cut.frontier, cut.reached)
        done = reclosing.write(
            result.where("NOT _open"), number, since, lambda rows: self._write(rows, number)
        )
        return Tick([*opened, *done.files], done.removed, done.groups, done.summary, since)

    def begin_with(
        self,
        rows: DataFrame,
        summary: Mapping[str, str],
        behind: bool = False,
        carried: DataFrame | None = None,
    ) -> None:
        """Have these final rows before the first tick, in one commit that says `summary` (`versions/past.py`), and what
        OVER has `carried` behind them. `behind`: those that are there. Else raises TG502 if something was committed
        before the table was opened: its rows would be there twice."""
        base = self._snapshot
        if base.commit is not None and not behind:
            raise overtaken(self.table.identifier)
        tick = (base.integer("tidegate.tick") or 0) + 1
        files = self._write(rows, tick)
        groups = (base.integer("tidegate.groups") or 0) + sum(f["rows"] for f in files)
        files += [] if carried is None else self._write_carried(carried)
        said = {"tidegate.open": "0", **base.facts, **summary, PARTIAL: "true"}
        said |= {"tidegate.tick": str(tick), "tidegate.groups": str(groups)}
        committed = self.table.append(files, self._target, said, base)
        self._snapshot = Snapshot(committed, said, committed)

    @property
    def said(self) -> Mapping[str, str]:
        """What its last commit says."""
        return self._snapshot.summary

    def frontier(self) -> int | None:
        """Up to where its rows are final, in ticks."""
        return self._snapshot.integer("tidegate.frontier")

    def totals(self) -> tuple[str, int, int]:
        """Frontier as text, closed result rows so far, open result rows."""
        current = self._snapshot
        return (
            self.view.kind.format(current.integer("tidegate.frontier")),
            (current.integer("tidegate.groups") or 0) + (current.integer(AMENDED_GROUPS) or 0),
            current.integer("tidegate.open") or 0,
        )

    def _carried_rows(self, base: Snapshot, cut: Cut) -> DataFrame | None:
        """What the last tick of a view with OVER has carried (C5)."""
        if base.id is None or cut.reached is None or cut.frontier is None:
            return None
        return carried_rows(self._at(base), self.view)

    def _write_carried(self, rows: DataFrame) -> list[dict[str, Any]]:
        carried = rows.selectExpr(
            "CAST(NULL AS BOOLEAN) AS _open", f"{quote(CARRIED)} AS {quote(carried_column(self.view))}"
        )
        return [file for files in run_task(carried, WriteTask(self._target)) for file in files]

    def _carried(self) -> list[None]:
        """What the next commit replaces of rows that are nobody's result (`IcebergTable.append`)."""
        return [] if self.view.over is None or self._is_revised() else [None]

    def _carried_files(self, base: Snapshot, files: list[dict[str, Any]]) -> list[Any]:
        """The same where revisions are there, too: the data files of what the last tick has carried. Revisions that a
        compaction has put into one of them are written anew: they are added to `files`."""
        if self.view.over is None or base.id is None or not self._is_revised():
            return []
        rows = self._context.tables.rows(self.table.identifier, base.id, with_file=True)
        rows = rows.where("_open IS NULL")
        name = quote(carried_column(self.view))
        # Bounded: one small file for each task of a tick.
        paths = {r[0] for r in rows.where(f"{name} IS NOT NULL").select("_file").distinct().collect()}
        beside = rows.where(f"{name} IS NULL").where(rows["_file"].isin(sorted(paths))).drop("_file")
        bounds = ("_window_end", "_tick")
        target = self.table.target(self._context.project.storage, "_open", self._target.day, bounds)
        files += [file for written in run_task(beside, WriteTask(target)) for file in written]
        return self.table.files_among(paths, base.id)

    def _is_revised(self) -> bool:
        return has_revisions(self._context.tables.rows(self.table.identifier, self._snapshot.id))

    def _write(self, result: DataFrame, number: int) -> list[dict[str, Any]]:
        from pyspark.sql import functions as F

        result = result.withColumn("_tick", F.lit(number).cast("bigint"))
        if self.view.order:
            # Sorted across files, too: ascending ids, together with _window_end, are the order of release (C4).
            order = [name for name in (*self.view.order, ORDINAL) if name in result.columns]
            result = result.orderBy("_window_end", *[quote(name) for name in order])
            result = result.withColumn("_ordinal", F.monotonically_increasing_id())
        else:
            # A day's windows in one file, not one for each shuffle task.
            by = ["_open"] + ([] if self.view.kind is TimeKind.EPOCH else [F.to_date("_window_end")])
            result = result.repartition(*by).sortWithinPartitions("_window_end")
        counted = LOST if LOST in result.columns else None
        result = result.select(*[quote(name) for name in self._columns], *([counted] if counted else []))
        return [file for files in run_task(result, WriteTask(self._target, counted)) for file in files]
