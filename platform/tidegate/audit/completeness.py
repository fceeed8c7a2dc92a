"""How complete would windows be under another delay: the completeness curve of a source."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidegate.engine.layout import quote
from tidegate.errors import TidegateError

if TYPE_CHECKING:
    from tidegate.engine.session import Session

#: The curve has at most this many points; out-of-orderness is rounded up to the next of them.
_POINTS = 2000
_STEPS = (1, 5, 10, 30, 60, 300, 600, 1800, 3600, 21_600, 86_400)  # seconds


@dataclass(frozen=True)
class Completeness:
    """Share of rows on time (0 to 1) for each delay, ascending; `delays` in ticks of the time column (µs, days).

    `delay`: the ticks that the source declares (None if its strategy is not a constant delay), `on_time` the share
    of rows that really were on time.
    """

    source: str
    rows: int
    delays: list[int]
    shares: list[float]
    delay: int | None
    on_time: float

    def at(self, delay: int) -> float:
        """Share of rows on time with a watermark `delay` ticks behind the newest row of the partition."""
        share = 0.0
        for point, value in zip(self.delays, self.shares, strict=True):
            if point > delay:
                break
            share = value
        return share


def completeness(session: Session, name: str) -> Completeness:
    """Measure the curve over everything in the log: a row is on time under a delay of d ticks iff its partition's
    newest event time before it is at most d ahead of it (W1). Computed by Spark; at most 2,000 points come back.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    from tidegate.watermark import Column, Delay, TimeKind

    relation = session.relation(name)
    stored = session.stored(name)
    if relation.watermark is None or stored is None:
        raise TidegateError(
            "TG512", f'"{name}" has no watermark, or no rows yet', hint=f"tidegate run {name}"
        )
    kind, column = relation.watermark.kind, F.col(quote(relation.watermark.column))
    if kind is TimeKind.DATE:
        time = F.unix_date(column)
    elif kind is TimeKind.EPOCH:
        time = column
    else:
        time = F.unix_micros(column.cast("timestamp"))
    rows = session.spark.table(stored).where(F.col("_outcome").isin("on_time", "late"))
    before = (
        Window.partitionBy("_source_partition").orderBy("_offset").rowsBetween(Window.unboundedPreceding, -1)
    )
    rows = rows.select("_outcome", "_source_partition", "_offset", time.cast("bigint").alias("t"))
    behind = F.greatest(F.coalesce(F.max("t").over(before) - F.col("t"), F.lit(0)), F.lit(0))
    rows = rows.select("_outcome", behind.alias("behind")).persist()
    try:
        widest = rows.agg(F.max("behind")).first()[0] or 0
        step = max(1, -(-widest // _POINTS))
        if kind in (TimeKind.TIMESTAMP, TimeKind.TIMESTAMPTZ):
            # Steps that people's delays are multiples of: rounding up then never crosses one.
            step = next((s * 1_000_000 for s in _STEPS if s * 1_000_000 >= step), step)
        point = F.ceil(F.col("behind") / step).cast("bigint") * step
        # Bounded: the points of the curve.
        counts = rows.groupBy(point.alias("delay")).count().orderBy("delay").collect()
        punctual = rows.where(F.col("_outcome") == "on_time").count()
    finally:
        rows.unpersist()
    total = sum(r["count"] for r in counts)
    shares, seen = [], 0
    for r in counts:
        seen += r["count"]
        shares.append(seen / total)
    strategy = relation.watermark.strategy
    delay = strategy.ticks if isinstance(strategy, Delay) else 0 if isinstance(strategy, Column) else None
    return Completeness(
        name, total, [r["delay"] for r in counts], shares, delay, punctual / total if total else 1.0
    )
