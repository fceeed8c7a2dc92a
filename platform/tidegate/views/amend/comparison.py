"""Which closed windows of a view are not what their query says now: those that an amendment replaces (B1-B3)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from tidegate.iceberg.differences import KIND, differences
from tidegate.iceberg.layout import quote, ticks_of
from tidegate.iceberg.protocol import Snapshot
from tidegate.sql.catalog.objects import Relation, View
from tidegate.sql.dialect.inner_names import inner
from tidegate.sql.views.repeatable import order_dependent
from tidegate.views.inputs import Pinned
from tidegate.views.revisions.amend_report import GROUPS, LATE_ROWS
from tidegate.views.revisions.comparable import Range, among
from tidegate.views.revisions.erased_windows import marked_windows
from tidegate.views.revisions.joined_sessions import REPLACED_TICK, with_replaced_tick
from tidegate.views.revisions.revisions import NUMBER, UPTO, beside_units, latest, units, without_units
from tidegate.views.slices import read, run_sql
from tidegate.watermark import window_is_closed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tidegate.runtime.context import Context

#: Inside: the bounds of a session, source rows of one side, and what a window had absorbed before.
_FROM, _TO, _N, _BEFORE = (inner(name) for name in ("from", "to", "n", "before"))


class AmendmentComparison:
    """Compares the stored results of one view with those that its query gives now, on one snapshot of the view
    (`base` of the table `stored`) and of each of its inputs."""

    def __init__(
        self, context: Context, view: View, stored: str, base: Snapshot, pinned: Sequence[Pinned]
    ) -> None:
        self._context, self._spark, self._view, self._stored = context, context.spark, view, stored
        self._base, self._pinned = base, pinned
        #: Where the first session begins that is open, if late rows count.
        self.open_since: int | None = None

    def hit(
        self, now: DataFrame, ranges: Sequence[Range], frontier: int, late: Mapping[str, int] | None
    ) -> DataFrame:
        """One line for each hit window: the columns of `units`, `GROUPS` (result rows that differ), `LATE_ROWS`
        (source rows that come), `NUMBER` (its new revision), `UPTO` (see `layout.REVISION_TYPE`) and `_tick` (the
        commit that its rows count to: that of the live ones)."""
        from pyspark.sql import functions as F

        view, keys = self._view, [quote(name) for name in units(self._view)]
        then = self._context.tables.rows(self._stored, self._base.id)
        then = among(then.where(~F.col("_open")), view, ranges)
        held = marked_windows(self._context, view, self._context.tables.open(self._stored))
        if held is not None:
            # Their rows are gone, and what is stored of them is all there is (E9).
            now, then = (without_units(frame, held, view) for frame in (now, then))
        skipped = order_dependent(view)
        names = [
            "_window_start",
            "_window_end",
            "_rows",
            *(c.name for c in view.columns if c.name not in skipped),
        ]
        names = list(dict.fromkeys([*names, *units(view)]))
        pairs = differences(now, then, names).where(F.col(KIND) != "equal")
        missing, unexpected, different = (
            F.count_if(F.col(KIND) == kind) for kind in ("missing", "unexpected", "different")
        )
        hit = pairs.groupBy(*keys).agg((F.greatest(missing, unexpected) + different).alias(GROUPS))
        if view.open_sql is not None and late is not None:
            hit = self._without_open_sessions(hit, now, frontier, late)
        signed = now.select(*keys, F.col("_rows").alias(_N), F.lit(None).cast("bigint").alias("_tick"))
        signed = signed.unionByName(then.select(*keys, (-F.col("_rows")).alias(_N), "_tick"))
        sums = signed.groupBy(*keys).agg(F.sum(_N).alias(LATE_ROWS), F.max("_tick").alias("_tick"))
        found = beside_units(sums, hit, view, [GROUPS])
        if view.open_sql is not None:
            found = with_replaced_tick(found, view, without_units(then, now, view))
            found = found.withColumn("_tick", F.coalesce("_tick", REPLACED_TICK)).drop(REPLACED_TICK)
        # A window that the live run has never said anything about counts to the first commit: a sink that began later
        # has gone past it.
        found = found.withColumn("_tick", F.coalesce("_tick", F.lit(1).cast("bigint")))
        if not self._counts_source_rows():
            found = found.withColumn(LATE_ROWS, F.lit(None).cast("bigint"))
        before = latest(self._context.tables, view, self._stored, self._base.id)
        if before is None:
            found = found.withColumns({NUMBER: F.lit(2).cast("bigint"), _BEFORE: F.lit(None).cast("string")})
        else:
            known = beside_units(found, before, view, [NUMBER, UPTO])
            known = known.withColumns({NUMBER: F.col(NUMBER) + 1, _BEFORE: F.col(UPTO)}).drop(UPTO)
            fresh = without_units(found, before, view)
            fresh = fresh.withColumns({NUMBER: F.lit(2).cast("bigint"), _BEFORE: F.lit(None).cast("string")})
            found = known.unionByName(fresh)
        upto = F.col(_BEFORE) if late is None else F.lit(json.dumps(late, sort_keys=True))
        return found.withColumn(UPTO, upto.cast("string")).drop(_BEFORE)

    def _without_open_sessions(
        self, hit: DataFrame, now: DataFrame, frontier: int, late: Mapping[str, int]
    ) -> DataFrame:
        """Leave out closed sessions that a late row joins to one that is still open: they follow when that one has
        closed, or its live rows would be lost."""
        from pyspark.sql import functions as F

        view = self._view
        assert view.open_sql is not None
        rows = read(self._context, view, self._pinned, None, frontier, late)
        sessions = run_sql(self._spark, view, view.open_sql, rows)
        end = F.expr(view.kind.spark_literal(frontier))
        opened = sessions.where(~window_is_closed(F.col("_window_end"), end))
        opened = opened.select(
            F.col("_window_start").alias(_FROM), F.col("_window_end").alias(_TO)
        ).distinct()
        found = opened.agg(F.min(ticks_of(_FROM, view.kind))).first()
        self.open_since = None if found is None else found[0]
        inside = (F.col("_window_start") >= F.col(_FROM)) & (F.col("_window_end") <= F.col(_TO))
        waiting = hit.join(F.broadcast(opened), inside, "left_semi")
        # Those that the new sessions cover as a whole are amended: the open one is of another key.
        keys = view.session_keys
        covers = now.select(
            F.col("_window_start").alias(_FROM),
            F.col("_window_end").alias(_TO),
            *[F.col(quote(k)).alias(inner(f"key{i}")) for i, k in enumerate(keys)],
        )
        same = inside
        for i, key in enumerate(keys):
            same = same & F.col(quote(key)).eqNullSafe(F.col(inner(f"key{i}")))
        return without_units(hit, waiting.join(covers, same, "left_anti"), view)

    def _counts_source_rows(self) -> bool:
        """Whether `_rows` of the view are rows of one source."""
        inputs = [p for p in self._pinned if not p.input.lookup]
        return len(inputs) == 1 and isinstance(inputs[0].source, Relation)
