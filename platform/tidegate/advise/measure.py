"""Measure a log against every delay: in Spark, each partition by one task, and a few numbers of it to the driver."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tidegate.advise.facts import History, read_history
from tidegate.advise.grid import delays
from tidegate.advise.operator import BLOCK_BITS, MeasureTask
from tidegate.errors import TidegateError
from tidegate.iceberg.layout import quote
from tidegate.sql.options.connectors import ReplayOptions
from tidegate.tasks.writer import run_task
from tidegate.watermark import UNDEFINED, GateConfig, TimeKind

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from tidegate.session.session import Session
    from tidegate.sql.catalog.objects import Relation

#: Partitions whose delays over time are kept: those with the most rows. And points of each, about.
TRACED_PARTITIONS, TRACED_POINTS = 8, 200
_BUCKETS = 1_000_000
#: Moments into which the time is cut in which rows were written, to tell which came first in all.
_MOMENTS = 200_000


@dataclass(frozen=True)
class Measurement:
    """Counts over the rows that were measured. `points`: the delays, ascending ticks; histograms are by the index of
    the smallest point that a row needs to be on time: int64[len(points) + 2], the last two beyond every point, and late
    under any delay. `lag`: arrival - event time where it is not negative, `ahead`: rows where it is. `together`: under
    one watermark for all partitions. `partitions`: an entry for each, by name. `fraction`: 1.0 is the whole log.
    """

    points: np.ndarray
    behind: np.ndarray
    lag: np.ndarray
    ahead: int
    together: np.ndarray
    partitions: dict[str, dict[str, Any]]
    history: History
    fraction: float

    @property
    def rows(self) -> int:
        return int(self.behind.sum())

    def needing(self, counts: np.ndarray) -> dict[int, int]:
        """Rows by the delay that they need (ticks); those that no delay saves are left out."""
        return {int(self.points[i]): int(counts[i]) for i in np.flatnonzero(counts[: len(self.points)])}


def measure(session: Session, relation: Relation, fraction: float = 1.0) -> Measurement:
    """Measure `relation`'s log, or a sample of it: blocks of neighbouring rows, chosen by a hash of their place, so
    the same ones every time. The rows of a block are judged against all rows before them, sampled or not.

    Raises TG512 where there is no log, no watermark, or no row; TG711 where rows expire (T1), where the sample is
    empty, or for a fraction that is none.
    """
    from pyspark.sql import functions as F

    require_advisable(relation)
    mark, stored = relation.watermark, session.stored(relation.name)
    assert mark is not None
    require_fraction(fraction)
    if stored is None:
        raise no_rows(relation)
    log = session.tables.rows(stored)
    rows = _rows(log, relation)
    leads = F.col("t")
    if mark.max_future_skew is not None:
        leads = F.when(F.col("t") - F.col("a") <= mark.max_future_skew, F.col("t"))
    history = read_history(log, relation, rows, leads)
    rows, written = _in_order_of_writing(rows, leads)
    if fraction < 1:
        rows = _sample(rows, leads, history, mark.by_batch, fraction)
    points = delays(mark.kind)
    if history.declared is not None and history.declared >= 0:
        points = np.union1d(points, np.array([history.declared], dtype=np.int64))
    task = MeasureTask(
        points,
        history.facts,
        fraction < 1,
        mark.max_future_skew,
        mark.by_batch,
        _learning(relation),
        _traced(session, relation),
        written,
    )
    # A line for each task comes back, with a short entry for each of its partitions.
    reports = run_task(rows.repartition("p").sortWithinPartitions("p", "o"), task)
    found = _merged(reports, points, history, fraction)
    if not found.rows:
        if fraction < 1:
            raise TidegateError(
                "TG711",
                f'a sample of {fraction:g} contains no row of "{relation.name}"',
                hint=(
                    f"a sample consists of blocks of {1 << BLOCK_BITS:,} offsets: take a larger sample, "
                    "or the whole log"
                ),
            )
        raise no_rows(relation)
    return found


def require_advisable(relation: Relation) -> None:
    """Raises TG512 without a watermark, TG711 where rows expire (T1): what is refused without looking at a row."""
    if relation.watermark is None:
        raise TidegateError(
            "TG512",
            f'"{relation.name}" has no watermark: nothing is ever late',
            hint="add WATERMARK FOR … to its definition",
            location=relation.location,
        )
    if relation.ttl:
        raise TidegateError(
            "TG711",
            (
                f'the rows of "{relation.name}" expire (WITH TTL): the delay of its watermark says '
                "how long rows are kept"
            ),
            hint=(
                "use a source, or an append-only table: there, the delay of the watermark decides "
                "which rows are late"
            ),
            location=relation.location,
        )


def require_fraction(fraction: float) -> None:
    """Raises TG711 for a sample that is none."""
    if not 0 < fraction <= 1:
        raise TidegateError(
            "TG711", f"the sample {fraction:g} is not possible", hint="give a fraction above 0, and at most 1"
        )


def no_rows(relation: Relation) -> TidegateError:
    """TG512: there is nothing to measure yet."""
    return TidegateError(
        "TG512",
        f'"{relation.name}" has no judged rows yet',
        hint=f"tidegate run {relation.name}",
        location=relation.location,
    )


def _rows(log: DataFrame, relation: Relation) -> DataFrame:
    """The rows that were judged: partition, epoch, offset, event time and arrival in ticks, whether late."""
    from pyspark.sql import functions as F

    assert relation.watermark is not None
    kind, column = relation.watermark.kind, F.col(quote(relation.watermark.column))
    arrival: Column = F.unix_micros("_arrival")
    if kind is TimeKind.DATE:
        time: Column = F.unix_date(column)
        arrival = F.floor(arrival / 86_400_000_000)
    elif kind is TimeKind.EPOCH:
        time, arrival = column, F.lit(None)
    else:
        time = F.unix_micros(column.cast("timestamp"))
    return log.where(F.col("_outcome").isin("on_time", "late")).select(
        F.col("_source_partition").alias("p"),
        F.col("_epoch").alias("e"),
        F.col("_offset").alias("o"),
        time.cast("bigint").alias("t"),
        arrival.cast("bigint").alias("a"),
        (F.col("_outcome") == "late").alias("late"),
        _written(relation).alias("w"),
    )


def _written(relation: Relation) -> Column:
    """When a row was written, where the log knows: Kafka's timestamp of its message, or what a replay is ordered by;
    µs, else NULL."""
    from pyspark.sql import functions as F

    unknown = F.lit(None).cast("bigint")
    if "_rowtime" in {name for name, _ in relation.message_columns}:
        return F.unix_micros("_rowtime")
    if isinstance(relation.connector, ReplayOptions) and relation.connector.order_columns:
        column = relation.column(relation.connector.order_columns[0])
        if column is not None and column.type in ("timestamp", "timestamp_ntz"):
            return F.unix_micros(F.col(quote(column.name)).cast("timestamp"))
    return unknown


def _in_order_of_writing(rows: DataFrame, leads: Column) -> tuple[DataFrame, np.ndarray | None]:
    """The rows with `k`, the number of the moment in which they were written, and for each moment the newest event time
    of all that were written before it; (as it is, None) where nobody knows, or for one partition."""
    from pyspark.sql import functions as F

    span = rows.agg(
        F.min("w").alias("first"), F.max("w").alias("last"), F.min("p").alias("p"), F.max("p").alias("q")
    )
    found = span.first()
    if found is None or found["first"] is None or found["p"] == found["q"]:
        return rows, None
    width = max(1, -(-(found["last"] - found["first"] + 1) // _MOMENTS))
    rows = rows.withColumn("k", F.expr(f"(w - {found['first']}) div {width}")).drop("w")
    newest = rows.where("k IS NOT NULL").groupBy("k").agg(F.max(leads).alias("t")).where("t IS NOT NULL")
    values = np.full(_MOMENTS + 1, UNDEFINED, dtype=np.int64)
    # Bounded: _MOMENTS numbers.
    for r in newest.collect():
        values[r["k"] + 1] = r["t"]
    return rows, np.maximum.accumulate(values)


def _sample(rows: DataFrame, leads: Column, history: History, by_batch: bool, fraction: float) -> DataFrame:
    """Some blocks of the rows, each with the newest event time before it (`prior`) and the rows before it."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    rows = rows.withColumn("b", F.shiftright("o", BLOCK_BITS))
    segment = F.lit(0)
    edges = history.facts.epochs[np.concatenate(([False], np.diff(history.facts.resets) > 0))]
    for at in edges.tolist():
        segment = segment + F.when(F.col("e") >= at, 1).otherwise(0)
    blocks = rows.groupBy("p", "e", "b").agg(F.max(leads).alias("m"), F.count(F.lit(1)).alias("n"))
    earlier = Window.partitionBy("p", "segment").orderBy("e", "b").rowsBetween(Window.unboundedPreceding, -1)
    if by_batch:
        earlier = Window.partitionBy("p", "segment").orderBy("e").rangeBetween(Window.unboundedPreceding, -1)
    counted = Window.partitionBy("p").orderBy("e", "b").rowsBetween(Window.unboundedPreceding, -1)
    place = F.pmod(F.xxhash64("p", "e", "b"), F.lit(_BUCKETS))
    chosen = (
        blocks.withColumn("segment", segment)
        .select(
            "p",
            "e",
            "b",
            F.max("m").over(earlier).alias("prior"),
            F.coalesce(F.sum("n").over(counted), F.lit(0)).alias("before"),
            place.alias("place"),
        )
        .where(F.col("place") < round(fraction * _BUCKETS))
        .drop("place")
    )
    return rows.join(chosen, ["p", "e", "b"]).drop("b")


def _learning(relation: Relation) -> GateConfig | None:
    """The gate with SOURCE_WATERMARK() and the numbers that the source gives it; None for a column without a unit."""
    mark = relation.watermark
    assert mark is not None
    try:
        strategy = relation.gate_options.source_watermark(mark.kind)
    except ValueError:
        return None
    return GateConfig(mark.kind, strategy, False, mark.max_future_skew, mark.by_batch)


def _traced(session: Session, relation: Relation) -> dict[str, int]:
    """The partitions to watch, with the rows from one point to the next."""
    from tidegate.store.status import read_status

    status = read_status(session.project, [relation.name], ask_brokers=False).relations[0]
    judged = sorted(((p.on_time + p.late, p.partition) for p in status.partitions), reverse=True)
    return {name: max(250, count // TRACED_POINTS) for count, name in judged[:TRACED_PARTITIONS] if count}


def _merged(
    reports: list[dict[str, Any]], points: np.ndarray, history: History, fraction: float
) -> Measurement:
    sums: dict[str, Counter[str]] = {name: Counter() for name in ("behind", "lag", "together")}
    partitions: dict[str, dict[str, Any]] = {}
    ahead = 0
    for report in reports:
        for name, counts in sums.items():
            counts.update(report[name])
        ahead += report["ahead"]
        partitions |= report["partitions"]
    arrays = {}
    for name, counts in sums.items():
        arrays[name] = np.zeros(len(points) + 2, dtype=np.int64)
        for index, count in counts.items():
            arrays[name][int(index)] = count
    return Measurement(
        points,
        arrays["behind"],
        arrays["lag"],
        ahead,
        arrays["together"],
        dict(sorted(partitions.items())),
        history,
        fraction,
    )


def waits(history: History, delay: int, ticks_per_second: int = 1_000_000) -> tuple[float, float] | None:
    """(median, 95th percentile) of how long after its end a window would have been found closed, by the clock of the
    batches, seconds; None where nothing has closed. Over ends that are spread evenly over the event time of the log."""
    known = history.mark != UNDEFINED
    marks, at = history.mark[known], history.at[known]
    if len(marks) < 2 or marks[-1] - delay <= marks[0]:
        return None
    # The first batch brings what was there before anybody looked: how late that was says nothing of the delay.
    ends = np.linspace(marks[0] + 1, marks[-1] - delay, 400).astype(np.int64)
    closed = at[np.searchsorted(marks, ends + delay, side="left")]
    found = closed - ends / ticks_per_second
    return float(np.median(found)), float(np.quantile(found, 0.95))
