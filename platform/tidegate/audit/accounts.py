"""The rows of a view's windows, counted anew from the log of the one relation that it aggregates (A1)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tidegate.engine.layout import quote
from tidegate.engine.resolve import pin
from tidegate.engine.slices import evaluate, read, run_sql
from tidegate.engine.windows import assign_windows
from tidegate.watermark import window_is_closed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tidegate.engine.session import Session
    from tidegate.sql.catalog import View

#: Problem windows that are listed, and offsets that are listed for each.
SHOWN_WINDOWS, SHOWN_OFFSETS = 50, 20
COUNTS = ("raw", "counted", "filtered", "late", "rejected")


@dataclass(frozen=True)
class WindowProblem:
    """A closed window that does not add up. Bounds are text; `offsets` ("partition:offset") are of the groups that
    differ."""

    window_start: str
    window_end: str
    raw: int
    counted: int
    filtered: int
    late: int
    rejected: int
    remainder: int
    offsets: list[str]


def account(
    session: Session, view: View, stored: str, frontier: int | None, since: float | None = None
) -> tuple[dict[str, Any], DataFrame, list[WindowProblem]]:
    """Sums over all closed windows by the names of `ViewAudit`, one line for each window, and those with a remainder.

    Open windows are left out of the comparison: until they close they hold rows that no view owes anybody. So are those
    that end at or before `since`: rows of theirs are beyond their retention.
    """
    from pyspark.sql import functions as F

    assert view.accounts is not None
    windows = _windows(session, view, stored)
    if since is not None:
        beyond = F.lit(False)
        if since != math.inf:
            beyond = ~window_is_closed(F.col("_window_end"), F.expr(view.kind.spark_literal(int(since))))
        windows = windows.where(beyond)
    bound = F.lit(None) if frontier is None else F.expr(view.kind.spark_literal(frontier))
    windows = windows.withColumn(
        "closed", F.coalesce(window_is_closed(F.col("_window_end"), bound), F.lit(False))
    )
    remainder = F.col("raw") - F.col("counted") - F.col("filtered") - F.col("late") - F.col("rejected")
    windows = windows.withColumn("remainder", F.when(F.col("closed"), remainder).otherwise(F.lit(0)))
    windows = windows.persist()
    try:
        closed = F.col("closed")
        sums = windows.agg(
            F.count_if(closed).alias("closed_windows"),
            *[F.coalesce(F.sum(F.when(closed, F.col(c))), F.lit(0)).alias(c) for c in COUNTS],
            F.coalesce(F.sum(F.when(~closed, F.col("raw"))), F.lit(0)).alias("still_open"),
            F.coalesce(F.sum(F.abs("remainder")), F.lit(0)).alias("remainder"),
        ).first()
        assert sums is not None
        bad = windows.where(closed & ((F.col("remainder") != 0) | (F.col("uneven") > 0)))
        problems = _problems(session, view, stored, bad)
    finally:
        windows.unpersist()
    log = session.spark.table(session.identifier(view.inputs[0].name))
    time = F.col(quote(view.accounts.time_column))
    timeless = log.where((F.col("_outcome") == "rejected") & time.isNull()).count()
    return sums.asDict() | {"rejected_without_time": timeless}, windows, problems


def _groups(session: Session, view: View, stored: str) -> DataFrame:
    """Rows in each group: `_rows` as the view stored it, `expected` as the query finds it in the log now."""
    from pyspark.sql import functions as F

    keys = ["_window_start", "_window_end", *[quote(c) for c in view.group_columns]]
    rows = read(session, view, pin(session, view))
    now = evaluate(session.spark, view, rows).groupBy(*keys).agg(F.sum("_rows").alias("expected"))
    then = session.spark.table(stored).groupBy(*keys).agg(F.sum("_rows").alias("_rows"))
    same = F.lit(True)
    for key in keys:
        same = same & now[key].eqNullSafe(then[key])
    joined = now.join(then, same, "full")
    return joined.select(
        *[F.coalesce(now[k], then[k]).alias(k.strip("`")) for k in keys],
        F.coalesce("_rows", F.lit(0)).alias("_rows"),
        F.coalesce("expected", F.lit(0)).alias("expected"),
    )


def _windows(session: Session, view: View, stored: str) -> DataFrame:
    """One line per window: raw, counted, filtered, late, rejected, and `uneven`, the groups that differ."""
    from pyspark.sql import functions as F

    log = session.spark.table(session.identifier(view.inputs[0].name))
    placed = assign_windows(log.where(F.col("_outcome") != "watermark"), view.accounts, view.kind)
    raw = placed.groupBy("_window_start", "_window_end").agg(
        F.count(F.lit(1)).alias("raw"),
        *[F.count_if(F.col("_outcome") == o).alias(o) for o in ("on_time", "late", "rejected")],
    )
    groups = (
        _groups(session, view, stored)
        .groupBy("_window_start", "_window_end")
        .agg(
            F.sum("_rows").alias("counted"),
            F.sum("expected").alias("expected"),
            F.count_if(F.col("_rows") != F.col("expected")).alias("uneven"),
        )
    )
    both = raw.join(groups, ["_window_start", "_window_end"], "full").na.fill(0)
    return both.withColumn("filtered", F.col("on_time") - F.col("expected"))


def _problems(session: Session, view: View, stored: str, bad: DataFrame) -> list[WindowProblem]:
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    bad = bad.orderBy("_window_end").limit(SHOWN_WINDOWS)
    # Bounded: SHOWN_WINDOWS rows.
    found = bad.collect()
    if not found:
        return []
    keys = ["_window_start", "_window_end", *view.group_columns]
    uneven = _groups(session, view, stored).where(F.col("_rows") != F.col("expected"))
    uneven = uneven.join(
        F.broadcast(bad.select("_window_start", "_window_end")), ["_window_start", "_window_end"]
    )
    assert view.accounts is not None
    rows = run_sql(session.spark, view, view.accounts.rows_sql, read(session, view, pin(session, view)))
    same = F.lit(True)
    for key in keys:
        same = same & rows[quote(key)].eqNullSafe(uneven[quote(key)])
    place = F.concat_ws(":", "_source_partition", F.col("_offset").cast("string"))
    first = Window.partitionBy("_window_start", "_window_end").orderBy("_source_partition", "_offset")
    # Bounded: SHOWN_WINDOWS rows of SHOWN_OFFSETS places.
    listed = (
        rows.join(uneven, same, "left_semi")
        .withColumn("_place", F.row_number().over(first))
        .where(F.col("_place") <= SHOWN_OFFSETS)
        .orderBy("_source_partition", "_offset")
        .groupBy("_window_start", "_window_end")
        .agg(F.collect_list(place).alias("offsets"))
        .collect()
    )
    offsets = {(r["_window_start"], r["_window_end"]): r["offsets"] for r in listed}
    return [
        WindowProblem(
            str(r["_window_start"]),
            str(r["_window_end"]),
            *[r[c] for c in COUNTS],
            remainder=r["remainder"],
            offsets=offsets.get((r["_window_start"], r["_window_end"]), []),
        )
        for r in found
    ]
