"""Windows and rows that close again after a reset (W9): what a view had emitted beyond the frontier that it stepped
back to gives way to what its query says now, as revisions (B2); what it had never emitted is appended like in any
tick.

Windows are replaced as a whole, of sessions those that a new one overlaps; sorted and OVER rows row by row: equal ones
stay, and a row beside them is a new one. So whoever follows the view's ticks, and not its amendments, gets each window
and each row once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from tidegate.iceberg.differences import KIND, comparable, differences
from tidegate.iceberg.layout import quote, ticks_of
from tidegate.iceberg.protocol import AMENDED_AT, AMENDED_GROUPS, AMENDMENTS, Snapshot
from tidegate.plan.resets import BEYOND, Beyond
from tidegate.sql.dialect.inner_names import inner
from tidegate.sql.views.repeatable import order_dependent
from tidegate.views.revisions.amend_report import GROUPS, LATE_ROWS
from tidegate.views.revisions.amend_write import OWN_TICK, AmendmentWriter
from tidegate.views.revisions.joined_sessions import REPLACED_TICK, overlapping, with_replaced_tick
from tidegate.views.revisions.revisions import (
    NUMBER,
    ROW,
    UPTO,
    beside_units,
    has_revisions,
    latest,
    units,
    with_units,
    without_units,
)
from tidegate.views.revisions.step_back import emitted_beyond, extent
from tidegate.watermark import window_is_closed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tidegate.iceberg.tables import StoredTable
    from tidegate.runtime.context import Context
    from tidegate.sql.catalog.objects import View

#: Inside, beside the columns of `units`: see `Reclosing._compared`,
_HIT, _EXTRA, _NOW, _THEN, _LATER, _WAITING, _GONE, _LOW, _HIGH, _END = (
    inner(name) for name in ("hit", "extra", "now", "then", "later", "waiting", "gone", "low", "high", "end")
)
#: and beside a view's columns: which of several equal rows this is.
_N, _PLACE, _EQUAL = (inner(name) for name in ("n", "place", "equal"))


class Reclosed(NamedTuple):
    """What a tick commits: new files, data files that they replace, how many rows are emitted for the first time, and
    what its summary says beside that."""

    files: list[dict[str, Any]]
    removed: list[Any]
    groups: int
    summary: dict[str, str]


class Reclosing:
    """One tick of a view that has emitted more than is final, upon the snapshot `base`; it closes what ends after
    `frontier`, and at `reached` or before."""

    def __init__(
        self, context: Context, view: View, table: StoredTable, base: Snapshot, frontier: int, reached: int
    ) -> None:
        self._context, self._view, self._table, self._base = context, view, table, base
        stored = context.tables.rows(table.identifier, base.id)
        self._stored, self._reached = stored, reached
        self._emitted = emitted_beyond(stored, view, frontier)
        skipped = order_dependent(view)
        names = ["_window_start", "_window_end", "_rows"]
        names += [c.name for c in view.columns if c.name not in skipped]
        self._names = list(dict.fromkeys([*names, *units(view)]))

    def write(
        self,
        now: DataFrame,
        number: int,
        opened: int | None,
        append: Callable[[DataFrame], list[dict[str, Any]]],
    ) -> Reclosed:
        """`now`: what closes; `append` writes rows of tick `number`; `opened`: where the first session
        begins that stays open."""
        from pyspark.sql import functions as F

        view = self._view
        # Computed once, and their plans with them: each of the steps below would plan the view's query again.
        then = self._concerned(now).localCheckpoint()
        by_row = bool(view.order)
        if by_row:
            now = self._with_extra(now, then).localCheckpoint()
        found = self._compared(now, then, by_row).localCheckpoint()
        hit = found.where(F.col(_HIT))
        if by_row:
            fresh = without_units(now.where(F.col(_EXTRA)), hit, view).drop(_EXTRA)
        else:
            fresh = with_units(now, found.where((F.col(_THEN) == 0) & ~F.col(_HIT)), view)
        files = append(fresh)
        groups = sum(f["rows"] for f in files)
        summary = self._left_over(opened)
        sums = hit.agg(F.count(F.lit(1)), F.min(_LOW), F.max(_HIGH)).first()
        if sums is None or not sums[0]:
            return Reclosed(files, [], groups, summary)
        added = 0
        if by_row:
            now = self._as_revised(now, then, hit, number).localCheckpoint()
            added = now.where(F.col(OWN_TICK) == number).count()
        amendment = (self._base.integer(AMENDMENTS) or 0) + 1
        at = self._context.clock()
        writer = AmendmentWriter(self._context, view, self._table, self._base, amendment, at)
        more, removed, delta = writer.write(now, self._changed(hit), sums[1], sums[2])
        grown = (self._base.integer(AMENDED_GROUPS) or 0) + delta - added
        summary |= {
            AMENDMENTS: str(amendment),
            AMENDED_AT: at.isoformat(timespec="seconds"),
            AMENDED_GROUPS: str(grown),
        }
        return Reclosed([*files, *more], removed, groups + added, summary)

    def _concerned(self, now: DataFrame) -> DataFrame:
        """The emitted rows that should close now, or that what closes now takes the place of."""
        from pyspark.sql import functions as F

        view, emitted = self._view, self._emitted
        reached = F.expr(view.kind.spark_literal(self._reached))
        due = emitted.where(window_is_closed(F.col("_window_end"), reached))
        if view.over is not None:
            here = now.select(*map(quote, units(view))).distinct()
            return with_units(emitted, here, view).unionByName(without_units(due, here, view))
        if view.open_sql is not None:
            later = emitted.where(~window_is_closed(F.col("_window_end"), reached))
            return due.unionByName(overlapping(view, later, now, ()))
        return due

    def _with_extra(self, now: DataFrame, then: DataFrame) -> DataFrame:
        """`now` with `_EXTRA`: whether there is no equal row among the emitted ones that is a partner of this one."""
        from pyspark.sql import Window
        from pyspark.sql import functions as F

        keys = [inner(f"same{i}") for i in range(len(self._names))]
        numbered = now.select(
            "*", *[comparable(now, name).alias(key) for name, key in zip(self._names, keys, strict=True)]
        )
        place = F.row_number().over(Window.partitionBy(*keys).orderBy(F.lit(1)))
        equal = then.select(
            *[comparable(then, n).alias(f"{_THEN}{k}") for n, k in zip(self._names, keys, strict=True)]
        )
        equal = equal.groupBy(*equal.columns).agg(F.count(F.lit(1)).alias(_EQUAL))
        same = F.lit(True)
        for key in keys:
            same = same & F.col(key).eqNullSafe(F.col(f"{_THEN}{key}"))
        joined = numbered.withColumn(_PLACE, place).join(equal, same, "left")
        extra = F.col(_PLACE) > F.coalesce(_EQUAL, F.lit(0))
        return joined.withColumn(_EXTRA, extra).select(*map(quote, now.columns), _EXTRA)

    def _compared(self, now: DataFrame, then: DataFrame, by_row: bool) -> DataFrame:
        """One line for each unit of either side: `_NOW` and `_THEN`, its rows; `_WAITING`: those of `_THEN` that
        are not to close yet; `GROUPS`: what differs; `_tick`: what its rows count to; `NUMBER`: its next
        revision; `_LOW`, `_HIGH`: its ends in ticks, `_END` the last as a time; `_HIT`: whether it is replaced."""
        from pyspark.sql import functions as F

        view, keys = self._view, [quote(name) for name in units(self._view)]
        end = ticks_of("_window_end", view.kind)
        later = F.when(end > F.lit(self._reached), 1).otherwise(0)
        there = then.select(
            *keys, F.col("_window_end").alias(_END), F.lit(0).alias(_N), "_tick", later.alias(_LATER)
        )
        sides = now.select(
            *keys,
            F.col("_window_end").alias(_END),
            F.lit(1).alias(_N),
            F.lit(None).cast("bigint").alias("_tick"),
            F.lit(0).alias(_LATER),
        ).unionByName(there)
        counts = sides.groupBy(*keys).agg(
            F.sum(_N).alias(_NOW),
            F.count_if(F.col(_N) == 0).alias(_THEN),
            F.sum(_LATER).alias(_LATER),
            F.max("_tick").alias("_tick"),
            F.min(ticks_of(_END, view.kind)).alias(_LOW),
            F.max(ticks_of(_END, view.kind)).alias(_HIGH),
            F.max(_END).alias(_END),
        )
        pairs = differences(now, then, self._names).where(F.col(KIND) != "equal")
        missing, unexpected, different = (
            F.count_if(F.col(KIND) == kind) for kind in ("missing", "unexpected", "different")
        )
        differ = pairs.groupBy(*keys).agg(
            (unexpected + different).alias(_GONE),
            (F.greatest(missing, unexpected) + different).alias(GROUPS),
        )
        found = beside_units(counts, differ, view, [_GONE, GROUPS], "left").na.fill(0, [_GONE, GROUPS])
        marks = latest(self._context.tables, view, self._table.identifier, self._base.id)
        if marks is None:
            found = found.withColumn(NUMBER, F.lit(None).cast("bigint"))
        else:
            found = beside_units(found, marks, view, [NUMBER], "left")
        found = self._with_touched(found)
        known = F.col(NUMBER).isNotNull() | F.col(REPLACED_TICK).isNotNull()
        waiting = F.least(_LATER, F.greatest(F.col(_THEN) - F.col(_NOW), F.lit(0)))
        found = found.withColumn(_WAITING, waiting)
        if by_row:
            hit = (F.col(_GONE) > F.col(_WAITING)) | ((F.col(_THEN) == 0) & known)
        else:
            hit = (F.col(GROUPS) > 0) & ((F.col(_THEN) > 0) | known)
        return found.withColumns(
            {
                _HIT: hit,
                "_tick": F.coalesce("_tick", REPLACED_TICK, F.lit(1).cast("bigint")),
                NUMBER: F.coalesce(F.col(NUMBER) + 1, F.lit(2).cast("bigint")),
            }
        )

    def _with_touched(self, found: DataFrame) -> DataFrame:
        """With `REPLACED_TICK` of sessions: the last commit of those that were emitted of its time."""
        from pyspark.sql import functions as F

        view, nothing = self._view, F.lit(None).cast("bigint")
        stale = Beyond.of(self._base.summary)
        if view.open_sql is None or stale is None:
            return found.withColumn(REPLACED_TICK, nothing)
        emitted = self._emitted
        if has_revisions(self._stored):
            replaced = self._stored.where(F.col("_open").isNull() & (F.col("_revision.kind") == ROW))
            start = F.expr(view.kind.spark_literal(stale.start))
            emitted = emitted.unionByName(replaced.where(F.col("_window_end") > start))
        return with_replaced_tick(found, view, emitted)

    def _as_revised(self, now: DataFrame, then: DataFrame, hit: DataFrame, number: int) -> DataFrame:
        """The rows of hit units as they are from now on, with `OWN_TICK` where that is not the unit's: rows that were
        never emitted, and emitted ones that wait for a later tick."""
        from pyspark.sql import Window
        from pyspark.sql import functions as F

        view, keys = self._view, [quote(name) for name in units(self._view)]
        added = [_THEN, _WAITING]
        place = F.row_number().over(Window.partitionBy(*keys).orderBy(_EXTRA, "_window_end"))
        is_new = (F.col(_THEN) > 0) & (F.col(_PLACE) > F.col(_THEN) - F.col(_WAITING))
        own = F.when(is_new, F.lit(number).cast("bigint"))
        came = beside_units(now, hit, view, added).withColumn(_PLACE, place).withColumn(OWN_TICK, own)
        came = came.drop(_EXTRA, _PLACE, *added)
        if view.over is None:
            return came
        last = F.row_number().over(Window.partitionBy(*keys).orderBy(F.desc("_window_end")))
        waiting = beside_units(then, hit, view, added).withColumn(_PLACE, last)
        waiting = waiting.where(F.col(_PLACE) <= F.col(_WAITING)).withColumn(OWN_TICK, F.col("_tick"))
        return came.unionByName(
            waiting.select(*[quote(c) for c in came.columns if c in waiting.columns]), True
        )

    def _changed(self, hit: DataFrame) -> DataFrame:
        """As `amend_write.AmendmentWriter` takes it."""
        from pyspark.sql import functions as F

        keys = [quote(name) for name in units(self._view)]
        end = [] if "_window_end" in units(self._view) else [F.col(_END).alias("_window_end")]
        return hit.select(
            *keys,
            *end,
            GROUPS,
            F.lit(0).cast("bigint").alias(LATE_ROWS),
            NUMBER,
            F.lit(None).cast("string").alias(UPTO),
            "_tick",
        )

    def _left_over(self, opened: int | None) -> dict[str, str]:
        """What the commit says of what is still emitted beyond the frontier."""
        stale = Beyond.of(self._base.summary)
        assert stale is not None
        rest = extent(emitted_beyond(self._stored, self._view, self._reached), self._view)
        if self._view.open_sql is not None:
            # What a session that is open covers was emitted, whether or not it is among the results now.
            upto = max(stale.upto, 0 if rest is None else rest[1])
            if rest is None and (opened is None or opened >= upto):
                return {}
            return {BEYOND: Beyond(stale.start, stale.start, upto).to_text()}
        return {} if rest is None else {BEYOND: Beyond(stale.start, *rest).to_text()}
