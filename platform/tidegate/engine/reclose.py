"""Windows and rows that close again after a reset (W9): what a view had emitted beyond the frontier that it stepped
back to gives way to what its query says now, as revisions (B2); what it had never emitted is appended like in any
tick.

Windows are replaced as a whole, of sessions those that a new one overlaps; sorted and OVER rows row by row: equal ones
stay, and a row beside them is a new one. So whoever follows the view's ticks, and not its amendments, gets each window
and each row once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from tidegate.engine.amend_ranges import ticks_of
from tidegate.engine.amend_write import OWN_TICK, Writer
from tidegate.engine.commit import AMENDED_AT, AMENDED_GROUPS, AMENDMENTS, IcebergTable, Snapshot
from tidegate.engine.differences import comparable, differences
from tidegate.engine.layout import quote
from tidegate.engine.revisions import (
    ROW,
    beside_units,
    has_revisions,
    latest,
    units,
    with_units,
    without_units,
)
from tidegate.engine.step_back import emitted_beyond, extent
from tidegate.plan.resets import BEYOND, Beyond
from tidegate.sql.repeatable import order_dependent
from tidegate.watermark import window_is_closed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tidegate.engine.session import Session
    from tidegate.sql.catalog import View


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
        self, session: Session, view: View, table: IcebergTable, base: Snapshot, frontier: int, reached: int
    ) -> None:
        self._session, self._view, self._table, self._base = session, view, table, base
        stored = session.spark.read.option("versionAsOf", base.id).table(table.identifier)
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
        hit = found.where("_hit")
        if by_row:
            fresh = without_units(now.where("_extra"), hit, view).drop("_extra")
        else:
            fresh = with_units(now, found.where("_then = 0 AND NOT _hit"), view)
        files = append(fresh)
        groups = sum(f["rows"] for f in files)
        summary = self._left_over(opened)
        sums = hit.agg(F.count(F.lit(1)), F.min("_low"), F.max("_high")).first()
        if sums is None or not sums[0]:
            return Reclosed(files, [], groups, summary)
        added = 0
        if by_row:
            now = self._as_revised(now, then, hit, number).localCheckpoint()
            added = now.where(F.col(OWN_TICK) == number).count()
        amendment = (self._base.integer(AMENDMENTS) or 0) + 1
        at = datetime.now(UTC)
        writer = Writer(self._session, view, self._table, self._base, amendment, at)
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
            return due.unionByName(self._overlapping(later, now, ()))
        return due

    def _overlapping(self, rows: DataFrame, others: DataFrame, added: Sequence[str]) -> DataFrame:
        """The sessions among `rows` that have a time in common with one of `others` of the same key; with `added`,
        pairs of both."""
        from pyspark.sql import functions as F

        bounds = {c.column for c in self._view.watermarks}
        keys = [name for name in self._view.group_columns if name not in bounds]
        there = others.select(
            F.col("_window_start").alias("_from"),
            F.col("_window_end").alias("_to"),
            *[F.col(quote(name)).alias(f"_key{i}") for i, name in enumerate(keys)],
            *[F.col(name).alias(f"_other{name}") for name in added],
        )
        same = (F.col("_window_start") < F.col("_to")) & (F.col("_window_end") > F.col("_from"))
        for i, name in enumerate(keys):
            same = same & F.col(quote(name)).eqNullSafe(F.col(f"_key{i}"))
        return rows.join(there, same, "inner" if added else "left_semi")

    def _with_extra(self, now: DataFrame, then: DataFrame) -> DataFrame:
        """`now` with `_extra`: whether there is no equal row among the emitted ones that is a partner of this one."""
        from pyspark.sql import Window
        from pyspark.sql import functions as F

        keys = [f"_same{i}" for i in range(len(self._names))]
        numbered = now.select(
            "*", *[comparable(now, name).alias(key) for name, key in zip(self._names, keys, strict=True)]
        )
        place = F.row_number().over(Window.partitionBy(*keys).orderBy(F.lit(1)))
        equal = then.select(
            *[comparable(then, n).alias(f"_then{k}") for n, k in zip(self._names, keys, strict=True)]
        )
        equal = equal.groupBy(*equal.columns).agg(F.count(F.lit(1)).alias("_equal"))
        same = F.lit(True)
        for key in keys:
            same = same & F.col(key).eqNullSafe(F.col(f"_then{key}"))
        joined = numbered.withColumn("_place", place).join(equal, same, "left")
        extra = F.col("_place") > F.coalesce("_equal", F.lit(0))
        return joined.withColumn("_extra", extra).select(*map(quote, now.columns), "_extra")

    def _compared(self, now: DataFrame, then: DataFrame, by_row: bool) -> DataFrame:
        """One line for each unit of either side: `_now` and `_then`, its rows; `_waiting`: those of `_then` that
        are not to close yet; `_groups`: what differs; `_tick`: what its rows count to; `_number`: its next
        revision; `_low`, `_high`: its ends in ticks, `_end` the last as a time; `_hit`: whether it is replaced."""
        from pyspark.sql import functions as F

        view, keys = self._view, [quote(name) for name in units(self._view)]
        end = ticks_of("_window_end", view.kind)
        later = F.when(end > F.lit(self._reached), 1).otherwise(0)
        there = then.select(
            *keys, F.col("_window_end").alias("_end"), F.lit(0).alias("_n"), "_tick", later.alias("_later")
        )
        sides = now.select(
            *keys,
            F.col("_window_end").alias("_end"),
            F.lit(1).alias("_n"),
            F.lit(None).cast("bigint").alias("_tick"),
            F.lit(0).alias("_later"),
        ).unionByName(there)
        counts = sides.groupBy(*keys).agg(
            F.sum("_n").alias("_now"),
            F.count_if(F.col("_n") == 0).alias("_then"),
            F.sum("_later").alias("_later"),
            F.max("_tick").alias("_tick"),
            F.min(ticks_of("_end", view.kind)).alias("_low"),
            F.max(ticks_of("_end", view.kind)).alias("_high"),
            F.max("_end").alias("_end"),
        )
        pairs = differences(now, then, self._names).where(F.col("_kind") != "equal")
        missing, unexpected, different = (
            F.count_if(F.col("_kind") == kind) for kind in ("missing", "unexpected", "different")
        )
        differ = pairs.groupBy(*keys).agg(
            (unexpected + different).alias("_gone"),
            (F.greatest(missing, unexpected) + different).alias("_groups"),
        )
        found = beside_units(counts, differ, view, ["_gone", "_groups"], "left").na.fill(
            0, ["_gone", "_groups"]
        )
        marks = latest(self._session.spark, view, self._table.identifier, self._base.id)
        if marks is None:
            found = found.withColumn("_number", F.lit(None).cast("bigint"))
        else:
            found = beside_units(found, marks, view, ["_number"], "left")
        found = self._with_touched(found, now)
        known = F.col("_number").isNotNull() | F.col("_touched").isNotNull()
        waiting = F.least("_later", F.greatest(F.col("_then") - F.col("_now"), F.lit(0)))
        found = found.withColumn("_waiting", waiting)
        if by_row:
            hit = (F.col("_gone") > F.col("_waiting")) | ((F.col("_then") == 0) & known)
        else:
            hit = (F.col("_groups") > 0) & ((F.col("_then") > 0) | known)
        return found.withColumns(
            {
                "_hit": hit,
                "_tick": F.coalesce("_tick", "_touched", F.lit(1).cast("bigint")),
                "_number": F.coalesce(F.col("_number") + 1, F.lit(2).cast("bigint")),
            }
        )

    def _with_touched(self, found: DataFrame, now: DataFrame) -> DataFrame:
        """With `_touched`: of a session, the commit of those that were emitted of its time; NULL where there are
        none."""
        from pyspark.sql import functions as F

        view, nothing = self._view, F.lit(None).cast("bigint")
        stale = Beyond.of(self._base.summary)
        if view.open_sql is None or stale is None:
            return found.withColumn("_touched", nothing)
        emitted = self._emitted
        if has_revisions(self._stored):
            replaced = self._stored.where(F.col("_open").isNull() & (F.col("_revision.kind") == ROW))
            start = F.expr(view.kind.spark_literal(stale.start))
            emitted = emitted.unionByName(replaced.where(F.col("_window_end") > start))
        pairs = self._overlapping(now.select(*map(quote, units(view))), emitted, ["_tick"])
        touched = pairs.groupBy(*map(quote, units(view))).agg(F.max("_other_tick").alias("_touched"))
        return beside_units(found, touched, view, ["_touched"], "left")

    def _as_revised(self, now: DataFrame, then: DataFrame, hit: DataFrame, number: int) -> DataFrame:
        """The rows of hit units as they are from now on, with `OWN_TICK` where that is not the unit's: rows that were
        never emitted, and emitted ones that wait for a later tick."""
        from pyspark.sql import Window
        from pyspark.sql import functions as F

        view, keys = self._view, [quote(name) for name in units(self._view)]
        added = ["_then", "_waiting"]
        place = F.row_number().over(Window.partitionBy(*keys).orderBy("_extra", "_window_end"))
        is_new = (F.col("_then") > 0) & (F.col("_place") > F.col("_then") - F.col("_waiting"))
        own = F.when(is_new, F.lit(number).cast("bigint"))
        came = beside_units(now, hit, view, added).withColumn("_place", place).withColumn(OWN_TICK, own)
        came = came.drop("_extra", "_place", *added)
        if view.over is None:
            return came
        last = F.row_number().over(Window.partitionBy(*keys).orderBy(F.desc("_window_end")))
        waiting = beside_units(then, hit, view, added).withColumn("_place", last)
        waiting = waiting.where(F.col("_place") <= F.col("_waiting")).withColumn(OWN_TICK, F.col("_tick"))
        return came.unionByName(
            waiting.select(*[quote(c) for c in came.columns if c in waiting.columns]), True
        )

    def _changed(self, hit: DataFrame) -> DataFrame:
        """As `amend_write.Writer` takes it."""
        from pyspark.sql import functions as F

        keys = [quote(name) for name in units(self._view)]
        end = [] if "_window_end" in units(self._view) else [F.col("_end").alias("_window_end")]
        return hit.select(
            *keys,
            *end,
            "_groups",
            F.lit(0).cast("bigint").alias("_late"),
            "_number",
            F.lit(None).cast("string").alias("_upto"),
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
