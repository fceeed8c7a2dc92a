"""What a log's history says of the whole source at every batch: when it was published, reset, and what was newest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tidegate.advise.operator import EpochHistory
from tidegate.store.holding import UNKNOWN_PARTITION
from tidegate.watermark import UNDEFINED, Column, Delay

if TYPE_CHECKING:
    from pyspark.sql import Column as SparkColumn
    from pyspark.sql import DataFrame

    from tidegate.sql.catalog.objects import Relation


@dataclass(frozen=True)
class History:
    """`facts`: for the rows of each batch. `at`: when each batch was committed, seconds since 1970; `mark`: G after it
    on the scale of a delay of 0, in ticks (`UNDEFINED`: none yet). `exact`: False where the log does not say enough to
    tell what G would have been; `declared`: the delay in force from the first row to the last, None where it changed
    or is no constant.
    """

    facts: EpochHistory
    at: np.ndarray
    mark: np.ndarray
    exact: bool
    declared: int | None
    resets: int


def read_history(log: DataFrame, relation: Relation, rows: DataFrame, leads: SparkColumn) -> History:
    """Read it from the progress of every commit. `rows`: those that were judged (`p`, `e`, `t`); `leads`: their `t`
    where it may raise a watermark (W9), else NULL.

    Under a constant delay every `Wp` and `G` is that delay behind what it would be without one, partitions that wake up
    and `idle_advance` included (W6, W7, R3); so a log that knew one delay tells `G` for every other. Under any other
    strategy `G` is computed anew, from the newest rows of those that took part.
    """
    from pyspark.sql import functions as F

    progress = log.where(F.col("_outcome") == "watermark")
    source = progress.where(F.col("_source_partition").isNull()).select(
        F.col("_epoch"),
        F.unix_micros("_arrival").alias("at"),
        F.col("_progress.published").alias("published"),
        F.coalesce(F.col("_progress.state"), F.lit("")).alias("state"),
        F.coalesce(F.col("_progress.note"), F.lit("")).alias("note"),
    )
    # Bounded: one small row for each batch that was ever committed, as `$watermarks` has.
    batches = source.orderBy("_epoch").collect()
    marks = rows.groupBy("e").agg(F.max(leads).alias("newest"))
    # Bounded: one number for each batch.
    newest = {r["e"]: r["newest"] for r in marks.collect() if r["newest"] is not None}
    epochs = np.array([r["_epoch"] for r in batches], dtype=np.int64)
    is_reset = np.array([r["state"] == "reset" for r in batches], dtype=bool)
    resets = np.cumsum(is_reset)
    fixed = _latest([r["published"] if r["state"] == "reset" else None for r in batches])
    published = np.array([UNDEFINED if r["published"] is None else r["published"] for r in batches])
    declared = _declared(relation)
    if any(r["note"].startswith("ALTER WATERMARK") for r in batches):
        declared = None
    exact = True
    if declared is not None:
        # Where a RESET alone holds it up, it does not follow from any row.
        follows = (published != UNDEFINED) & (published > fixed)
        mark = np.where(follows, published + declared, UNDEFINED)
    else:
        least, any_taking_part = _least(progress, rows, leads, epochs, resets)
        mark = least
        # The clock has moved G while all were idle: by how much from where, only a constant delay tells.
        moved = np.concatenate(([False], published[1:] > published[:-1]))
        exact = not bool(np.any(moved & ~any_taking_part & ~is_reset))
    exact = exact and not is_reset.any()
    own = np.array([newest.get(int(e), UNDEFINED) for e in epochs], dtype=np.int64)
    facts = EpochHistory(
        epochs + 1, _running(mark, resets), fixed, _running(own, resets), resets.astype(np.int64)
    )
    return History(
        facts,
        np.array([r["at"] for r in batches], dtype=np.float64) / 1e6,
        facts.published,
        exact,
        declared,
        int(is_reset.sum()),
    )


def _declared(relation: Relation) -> int | None:
    strategy = relation.watermark.strategy if relation.watermark is not None else None
    if isinstance(strategy, Delay):
        return strategy.ticks
    return 0 if isinstance(strategy, Column) else None


def _least(
    progress: DataFrame,
    rows: DataFrame,
    leads: SparkColumn,
    epochs: np.ndarray,
    resets: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Per batch the smallest newest event time of the partitions that take part (W6), `UNDEFINED` while one of them
    has none; and whether any takes part."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    state, quiet = F.col("_progress.state"), F.col("_progress.quiet_since")
    # A file's partition is empty until its first row is read; it takes part as long as nothing is published.
    empty = (state == "empty") & (quiet.isNotNull() | F.col("_progress.published").isNotNull())
    absent = state.isin("idle", "gone") | empty
    partitions = progress.where(F.col("_source_partition") != UNKNOWN_PARTITION).select(
        F.col("_source_partition").alias("p"), F.col("_epoch").alias("e"), absent.alias("absent")
    )
    segment = F.lit(0)
    for at in epochs[np.concatenate(([False], np.diff(resets) > 0))].tolist():
        segment = segment + F.when(F.col("e") >= at, 1).otherwise(0)
    marks = rows.groupBy("p", "e").agg(F.max(leads).alias("m"))
    until = (
        Window.partitionBy("p", "segment")
        .orderBy("e")
        .rowsBetween(Window.unboundedPreceding, Window.currentRow)
    )
    known = partitions.join(marks, ["p", "e"], "left").withColumn("segment", segment)
    known = known.withColumn("m", F.coalesce(F.max("m").over(until), F.lit(int(UNDEFINED))))
    voting = known.where(~F.coalesce(F.col("absent"), F.lit(False)))
    # Bounded: one number for each batch.
    least = {r["e"]: r["m"] for r in voting.groupBy("e").agg(F.min("m").alias("m")).collect()}
    values = np.array([least.get(int(e), UNDEFINED) for e in epochs], dtype=np.int64)
    return values, np.array([int(e) in least for e in epochs], dtype=bool)


def _running(values: np.ndarray, resets: np.ndarray) -> np.ndarray:
    """The maximum so far, beginning anew with each reset."""
    found = values.copy()
    for segment in range(int(resets.max(initial=0)) + 1):
        own = resets == segment
        found[own] = np.maximum.accumulate(found[own])
    return found


def _latest(values: list[int | None]) -> np.ndarray:
    """The last value that there was, `UNDEFINED` before the first."""
    found, last = [], UNDEFINED
    for value in values:
        last = last if value is None else value
        found.append(last)
    return np.array(found, dtype=np.int64)
