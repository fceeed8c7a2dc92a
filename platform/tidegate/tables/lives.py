"""What the changes of a table with a PRIMARY KEY mean (T rules): pure functions of its log and its state.

Per key and source partition the changes form lives. A life ends where its row had expired when the next change was
judged: at or below the bar of that change, max(Wp, G) as the log recorded it (`_wm`). T2 says `G`; the bar is the same
for a single partition, it is never below `G`, T1 expires changes by it, and unlike `G` it does not depend on how the
log was cut into batches (W4). A bar that was found poisoned later counts for no more than what the watermark was reset
to (W9): lives that it alone had ended go on, and become one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tidegate.iceberg.layout import ON_TIME, quote, state_columns, ticks_of
from tidegate.iceberg.protocol import Snapshot
from tidegate.plan.resets import RESETS, Step
from tidegate.sql.dialect.inner_names import inner

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tidegate.iceberg.tables import Tables
    from tidegate.sql.catalog.objects import Relation

#: Beside a state's columns: whether the life may have begun before; whether the next life is its continuation.
CONTINUES, GOES_ON = inner("continues"), inner("goes_on")
#: Inside, beside the columns of changes or of a state.
_BEFORE, _BEGINS, _FIRST, _ENDS, _PLACE, _RANK, _REPLACED = (
    inner(name) for name in ("before", "begins", "first", "ends", "place", "rank", "replaced")
)


@dataclass(frozen=True)
class Applied:
    """A state to read: `snapshot` of the state table (None: still empty), the log's `epoch` up to which it holds every
    change, and `G` after that epoch. `cleaned`: rows with an event time at or below it may be gone. `merges`: how many
    there were since its files were last rewritten. `resets`: of the log's watermark, as far as they are applied
    (`plan.resets`)."""

    snapshot: int | None
    epoch: int
    watermark: int | None
    cleaned: int | None
    merges: int = 0
    resets: str | None = None

    def facts(self) -> dict[str, Any]:
        """What a snapshot's summary says of it."""
        return {
            "applied-epoch": self.epoch,
            "applied-watermark": self.watermark,
            "cleaned": self.cleaned,
            "merges": self.merges,
            "resets": self.resets,
        }


@dataclass(frozen=True)
class CleanedRows:
    """Rows that cleanup has taken: how many, and their first and last event time."""

    rows: int
    first: int
    last: int


def state_identifier(log: str) -> str:
    """Identifier of the state table that belongs to a log: of `a.b.t` it is `a.b.t$state`. No user's name has a $."""
    assert log.endswith("`")
    return f"{log[:-1]}$state`"


def state_names(relation: Relation) -> list[str]:
    """The columns of a state table."""
    return [name for name, _ in state_columns(relation)]


def on_time_changes(
    tables: Tables, log: str, snapshot: int | None, after: int = 0, upto: int | None = None
) -> DataFrame:
    """The changes that count, at a snapshot of the log, of the epochs later than `after`, up to `upto`."""
    from pyspark.sql import functions as F

    rows = tables.rows(log, snapshot)
    rows = rows.where((F.col("_outcome") == ON_TIME) & (F.col("_epoch") > after))
    return rows if upto is None else rows.where(F.col("_epoch") <= upto)


def lives(relation: Relation, changes: DataFrame, resets: Sequence[Step] = ()) -> DataFrame:
    """The last change of every life in `changes`: the state's columns, and `CONTINUES`: whether the life may have
    begun before (it goes on if the stored row was above `_since`, the bar of its first change in here). `resets`: of
    the watermark, among these changes or after them (W9).

    Over a whole log this is the state as if it had never been cleaned. Without a watermark a key has one life, and its
    last change is that of the larger (epoch, partition, offset).
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    keys = [F.col(quote(k)) for k in relation.primary_key]
    changes = changes.withColumn("_tombstone", F.col("_op") == "delete")
    if not relation.ttl:
        latest = Window.partitionBy(*keys).orderBy(
            F.desc("_epoch"), F.desc("_source_partition"), F.desc("_offset")
        )
        last = changes.withColumn(_RANK, F.row_number().over(latest)).where(F.col(_RANK) == 1)
        return last.select(*[quote(c) for c in state_names(relation)])
    assert relation.watermark is not None
    column = F.col(quote(relation.watermark.column))
    for step in resets:
        if step.epoch is None:
            continue  # without its commit nobody can tell which changes came before it
        mark = F.expr(relation.watermark.kind.spark_literal(step.mark))
        poisoned = (F.col("_epoch") < step.epoch) & (F.col("_wm") > mark)
        changes = changes.withColumn("_wm", F.when(poisoned, mark).otherwise(F.col("_wm")))
    order = Window.partitionBy(*keys, "_source_partition").orderBy("_offset")
    place = F.row_number().over(order)
    expired = F.coalesce(F.lag(column).over(order) <= F.col("_wm"), F.lit(False))
    marked = changes.withColumn(_PLACE, place).withColumn(_BEGINS, (F.col(_PLACE) == 1) | expired)
    so_far = order.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    # In a struct, because the bar itself may be NULL (no watermark yet).
    first = F.last(F.when(F.col(_BEGINS), F.struct("_wm", _PLACE)), ignorenulls=True).over(so_far)
    marked = marked.withColumn(_FIRST, first)
    marked = marked.withColumn(_ENDS, F.coalesce(F.lead(_BEGINS).over(order), F.lit(True))).where(
        F.col(_ENDS)
    )
    marked = marked.withColumn("_since", F.col(_FIRST)["_wm"])
    return marked.select(
        *[quote(c) for c in state_names(relation)], (F.col(_FIRST)[_PLACE] == 1).alias(CONTINUES)
    )


def joined_lives(relation: Relation, rows: DataFrame, to: int) -> DataFrame:
    """What a reset of the watermark to `to` changes in a state (W9): `GOES_ON` where a life had ended by the poison
    alone, so that the next one of its key and partition is its continuation; `_since` of that one."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    assert relation.watermark is not None
    mark = F.expr(relation.watermark.kind.spark_literal(to))
    keys = [F.col(quote(k)) for k in relation.primary_key]
    order = Window.partitionBy(*keys, "_source_partition").orderBy("_offset")
    first = F.first("_since").over(order.rowsBetween(Window.unboundedPreceding, Window.currentRow))
    found = rows.where(F.col(quote(relation.watermark.column)) > mark).select(
        *keys,
        "_source_partition",
        "_offset",
        F.lead("_offset").over(order).isNotNull().alias(GOES_ON),
        F.when(first.isNotNull(), F.least(first, mark)).alias("_since"),
        F.col("_since").alias(_BEFORE),
    )
    return found.where(F.col(GOES_ON) | ~F.col("_since").eqNullSafe(F.col(_BEFORE)))


def lost_rows(
    relation: Relation, changes: DataFrame, state: DataFrame, resets: Sequence[Step], cleaned: int
) -> CleanedRows | None:
    """The rows that cleanup, up to `cleaned`, has taken from a state, and that the last of `resets` would have brought
    back (W9); `changes`: all before it that the log still has."""
    from pyspark.sql import functions as F

    assert relation.watermark is not None
    at = ticks_of(relation.watermark.column, relation.watermark.kind)
    whole = lives(relation, changes, resets)
    whole = whole.where((at > resets[-1].mark) & (at <= cleaned) & ~F.col("_tombstone"))
    place = ["_source_partition", "_offset"]
    row = whole.join(state.select(*place), place, "left_anti").agg(F.count("*"), F.min(at), F.max(at)).first()
    return None if row is None or not row[0] else CleanedRows(*row)


def current_rows(
    tables: Tables, relation: Relation, log: str, *system: str, snapshot: int | None = None
) -> DataFrame:
    """The table as SELECT shows it: the last change of each key that has not expired (T2, T4), without deleted keys.
    `system`: columns of the state to add. `snapshot`: of the state (`Applied.snapshot`), None is the newest."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    state = state_identifier(log)
    if not tables.exists(state):
        return tables.rows(log).where("false").select(*[quote(c.name) for c in relation.columns], *system)
    stored, rows = tables.open(state), _rows_at(tables, relation, state, snapshot)
    if relation.ttl:
        assert relation.watermark is not None
        now = applied_of(stored.current() if snapshot is None else stored.at(snapshot))
        column = F.col(quote(relation.watermark.column))
        if now.watermark is not None:
            rows = rows.where(column > F.expr(relation.watermark.kind.spark_literal(now.watermark)))
        if relation.connector is not None:
            # Only a connector has several partitions; in one partition what is not expired is one row per key.
            keys = [quote(k) for k in relation.primary_key]
            order = Window.partitionBy(*keys).orderBy(
                column.desc(), F.desc("_source_partition"), F.desc("_offset")
            )
            rows = rows.withColumn(_RANK, F.row_number().over(order)).where(F.col(_RANK) == 1)
    return rows.where(~F.col("_tombstone")).select(*[quote(c.name) for c in relation.columns], *system)


def _rows_at(tables: Tables, relation: Relation, state: str, snapshot: int | None) -> DataFrame:
    """The rows of a state; columns that have come since the snapshot are NULL (E2)."""
    rows = tables.rows(state, snapshot)
    if snapshot is None:
        return rows
    there = {name.casefold() for name in rows.columns}
    added = [c for c in relation.columns if c.name.casefold() not in there]
    return (
        rows.selectExpr("*", *(f"CAST(NULL AS {c.type}) AS {quote(c.name)}" for c in added))
        if added
        else rows
    )


def changes_frame(
    tables: Tables,
    relation: Relation,
    log: str,
    snapshot: int | None = None,
    low: int | None = None,
    high: int | None = None,
) -> DataFrame:
    """What a view over the table reads: the rows with event time in [`low`, `high`) (None: no bound) as they were when
    their life ended or as they are now, expired ones that cleanup has left included; the relation's columns,
    `_source_partition`, `_offset` and `_arrival`. `snapshot`: of the state (`Applied.snapshot`), None is the newest.

    Once the watermark has passed a window, no change can touch its rows any more (T1, T2), so closed results never
    change. Of one key in several partitions, a row counts unless another partition holds a larger one (T4) in a life
    that began before the row had expired by that partition's own watermark: a rule that no cut into batches changes.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    assert relation.watermark is not None
    rows = _rows_at(tables, relation, state_identifier(log), snapshot)
    kind, column = relation.watermark.kind, F.col(quote(relation.watermark.column))
    if low is not None:
        rows = rows.where(column >= F.expr(kind.spark_literal(low)))
    if relation.connector is not None:
        keys = [quote(k) for k in relation.primary_key]
        order = Window.partitionBy(*keys).orderBy(column, "_source_partition", "_offset")
        larger = order.rowsBetween(1, Window.unboundedFollowing)
        # An undefined bar is below every time; a later life of the same partition began above this row's time.
        unbounded = F.coalesce(F.max(F.col("_since").isNull()).over(larger), F.lit(False))
        replaced = unbounded | F.coalesce(F.min("_since").over(larger) < column, F.lit(False))
        rows = rows.withColumn(_REPLACED, replaced).where(~F.col(_REPLACED))
    if high is not None:
        rows = rows.where(column < F.expr(kind.spark_literal(high)))
    rows = rows.where(~F.col("_tombstone"))
    return rows.select(*[quote(c.name) for c in relation.columns], "_source_partition", "_offset", "_arrival")


def applied_state(tables: Tables, log: str) -> Applied:
    """Where the state of a log stands, for readers."""
    return applied_of(tables.open(state_identifier(log)).current())


def applied_of(snapshot: Snapshot) -> Applied:
    return Applied(
        snapshot.id,
        snapshot.integer("tidegate.applied-epoch") or 0,
        snapshot.integer("tidegate.applied-watermark"),
        snapshot.integer("tidegate.cleaned"),
        snapshot.integer("tidegate.merges") or 0,
        snapshot.summary.get(RESETS),
    )
