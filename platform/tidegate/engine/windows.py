"""Windows of rows as Spark columns, for counting rows whatever became of them (audits). Views have their own SQL."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidegate.engine.layout import quote
from tidegate.watermark import TimeKind

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tidegate.sql.catalog import View


def assign_windows(rows: DataFrame, view: View) -> DataFrame:
    """Each row of a view's upstream once for every window it falls into (C1), with `_window_start`, `_window_end`.

    Rows without an event time fall into none.
    """
    from pyspark.sql import functions as F

    window, time = view.window, F.col(quote(view.time_column))
    if view.kind is TimeKind.EPOCH:
        time = time.cast("bigint") + F.lit(view.shift)
        last = time - F.pmod(time - F.lit(window.offset), F.lit(window.slide))
        starts = F.sequence(last - F.lit(window.size - window.slide), last, F.lit(window.slide))
        placed = rows.where(time.isNotNull()).withColumn("_window_start", F.explode(starts))
        return placed.withColumn("_window_end", F.col("_window_start") + F.lit(window.size))
    day = 86_400_000_000 if view.kind is TimeKind.DATE else 1
    if view.kind is TimeKind.DATE:
        time = time.cast("timestamp_ntz")
    seconds = F.lit(view.shift * day).cast("decimal(24,6)") / F.lit(1_000_000)
    time = time + F.make_dt_interval(secs=seconds.cast("decimal(18,6)"))
    lengths = [f"{n * day} microseconds" for n in (window.size, window.slide, window.offset % window.slide)]
    placed = rows.where(time.isNotNull()).withColumn("_window", F.window(time, *lengths))
    for bound in ("start", "end"):
        value = F.col(f"_window.{bound}")
        placed = placed.withColumn(
            f"_window_{bound}", value.cast("date") if view.kind is TimeKind.DATE else value
        )
    return placed.drop("_window")
