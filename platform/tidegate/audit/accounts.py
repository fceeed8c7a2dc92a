"""The rows of a view's windows, counted anew from the log of the one relation that it aggregates (A1)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tidegate.iceberg.layout import quote
from tidegate.sql.dialect.inner_names import inner
from tidegate.views.resolve import pin
from tidegate.views.revisions.comparable import SHOWN_STATES, with_absorbed
from tidegate.views.revisions.erased_windows import ERASED, marked_windows
from tidegate.views.revisions.revisions import UPTO, latest, without_units
from tidegate.views.slices import evaluate, read, run_sql
from tidegate.views.windows import assign_windows
from tidegate.watermark import window_is_closed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tidegate.session.session import Session
    from tidegate.sql.catalog.objects import View

#: Problem windows that are listed, and offsets that are listed for each.
SHOWN_WINDOWS, SHOWN_OFFSETS = 50, 20
COUNTS = ("raw", "counted", "filtered", "late", "rejected", "erased")
#: Inside, beside a view's groups: see `_groups`,
_EXPECTED, _EXPECTED_RESULTS, _RESULTS, _FIRST, _LAST = (
    inner(name) for name in ("expected", "expected_results", "results", "first_tick", "last_tick")
)
#: and beside the columns of its input.
_ABSORBED, _TAKEN, _PLACE = inner("absorbed"), inner("taken"), inner("place")


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
    windows = windows_of(session, view, stored)
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
    log = session.tables.rows(session.identifier(view.inputs[0].name))
    time = F.col(quote(view.accounts.time_column))
    timeless = log.where((F.col("_outcome") == "rejected") & time.isNull()).count()
    return sums.asDict() | {"rejected_without_time": timeless}, windows, problems


def _groups(
    session: Session, view: View, stored: str, base: int | None = None, clock: int | None = None
) -> DataFrame:
    """Rows in each group: `_rows` as the view stored it, `_EXPECTED` as the query finds it in the log now. `_RESULTS`
    and `_EXPECTED_RESULTS`: how many result rows that is; `_FIRST`, `_LAST`: the commits that stored them."""
    from pyspark.sql import functions as F

    keys = ["_window_start", "_window_end", *[quote(c) for c in view.group_columns]]
    now = (
        _expected(session, view, stored, base, clock)[0]
        .groupBy(*keys)
        .agg(F.sum("_rows").alias(_EXPECTED), F.count(F.lit(1)).alias(_EXPECTED_RESULTS))
    )
    held = session.tables.rows(stored).where(F.col("_open").isNotNull())
    if base is not None:
        held = held.where(F.col("_window_end") > F.expr(view.kind.spark_literal(base)))
    then = held.groupBy(*keys).agg(
        F.sum("_rows").alias("_rows"),
        F.count(F.lit(1)).alias(_RESULTS),
        F.min("_tick").alias(_FIRST),
        F.max("_tick").alias(_LAST),
    )
    same = F.lit(True)
    for key in keys:
        same = same & now[key].eqNullSafe(then[key])
    joined = now.join(then, same, "full")
    return joined.select(
        *[F.coalesce(now[k], then[k]).alias(k.strip("`")) for k in keys],
        F.coalesce("_rows", F.lit(0)).alias("_rows"),
        *[F.coalesce(name, F.lit(0)).alias(name) for name in (_EXPECTED, _RESULTS, _EXPECTED_RESULTS)],
        _FIRST,
        _LAST,
    )


def _expected(
    session: Session, view: View, stored: str, base: int | None, clock: int | None
) -> tuple[DataFrame, DataFrame | None]:
    """What the query finds now; in windows that were amended, with the late rows that these have absorbed. Second: the
    windows that are left out (`comparable.with_absorbed`)."""
    pinned = pin(session, view)

    def compute(late: Mapping[str, int]) -> DataFrame:
        return evaluate(session.spark, view, read(session, view, pinned, base, clock, late))

    return with_absorbed(session, view, stored, compute({}), compute, [], most=SHOWN_STATES)


def _absorbed(session: Session, view: View, stored: str, placed: DataFrame) -> DataFrame:
    """`placed` with `_ABSORBED`: whether a late row is in a window that was amended since it came."""
    from pyspark.sql import functions as F

    marks = latest(session.tables, view, stored)
    if marks is None:
        return placed.withColumn(_ABSORBED, F.lit(False))
    upto = F.from_json(UPTO, "map<string,bigint>")[view.inputs[0].name]
    marks = marks.select("_window_start", "_window_end", upto.alias(_TAKEN))
    absorbed = (F.col("_outcome") == "late") & (F.col("_epoch") <= F.col(_TAKEN))
    joined = placed.join(marks, ["_window_start", "_window_end"], "left")
    return joined.withColumn(_ABSORBED, F.coalesce(absorbed, F.lit(False)))


def windows_of(
    session: Session, view: View, stored: str, base: int | None = None, clock: int | None = None
) -> DataFrame:
    """One line per window: raw, counted, filtered, late (and not absorbed by an amendment), rejected, and `uneven`, the
    groups that differ. `erased`: of the raw rows those that were erased, and that the window still counts. `expected`:
    rows that the query counts now; `results`: result rows; `times`: how often the window was emitted, by result rows
    that are there several times and by commits that stored parts of it.

    `base`, `clock`: only windows that end after the one and not after the other (ticks) are whole, and less of the log
    is read; None: no such bound.
    """
    from pyspark.sql import functions as F

    assert view.accounts is not None
    log = session.tables.rows(session.identifier(view.inputs[0].name))
    log = pin(session, view)[0].within(log, view, base, clock)
    placed = assign_windows(log.where(F.col("_outcome") != "watermark"), view.accounts, view.kind)
    placed = _absorbed(session, view, stored, placed)
    absorbed, outcome = F.col(_ABSORBED), F.col("_outcome")
    raw = placed.groupBy("_window_start", "_window_end").agg(
        F.count(F.lit(1)).alias("raw"),
        *[F.count_if((outcome == o) & ~absorbed).alias(o) for o in ("on_time", "late", "rejected")],
        F.count_if(absorbed).alias("absorbed"),
    )
    groups = (
        _groups(session, view, stored, base, clock)
        .groupBy("_window_start", "_window_end")
        .agg(
            F.sum("_rows").alias("counted"),
            F.sum(_EXPECTED).alias("expected"),
            F.sum(_RESULTS).alias("results"),
            F.count_if(F.col("_rows") != F.col(_EXPECTED)).alias("uneven"),
            F.greatest(
                F.max(F.ceil(F.col(_RESULTS) / F.greatest(_EXPECTED_RESULTS, F.lit(1)))),
                F.when(F.min(_FIRST) < F.max(_LAST), F.lit(2)).otherwise(F.lit(1)),
            ).alias("times"),
        )
    )
    both = raw.join(groups, ["_window_start", "_window_end"], "full").na.fill(0)
    both = both.withColumn("filtered", F.col("on_time") + F.col("absorbed") - F.col("expected"))
    both = _with_erased(session, view, stored, both)
    _, unknown = _expected(session, view, stored, base, clock)
    return both if unknown is None else without_units(both, unknown, view)


def _with_erased(session: Session, view: View, stored: str, windows: DataFrame) -> DataFrame:
    """`windows` with `erased`: rows that a marked window still counts, though they were erased (E9). They are part of
    its `raw`, and of as many more than the log has now its groups may differ."""
    from pyspark.sql import functions as F

    held = marked_windows(session, view, session.tables.open(stored))
    if held is None:
        return windows.withColumn("erased", F.lit(0).cast("bigint"))
    joined = windows.join(F.broadcast(held), ["_window_start", "_window_end"], "left")
    more, most = F.col("counted") - F.col("expected"), F.coalesce(ERASED, F.lit(0))
    counts = F.greatest(F.lit(0), F.least(more, most)).cast("bigint")
    joined = joined.withColumn("erased", counts)
    even = F.col(ERASED).isNotNull() & (more == F.col("erased"))
    return joined.withColumns(
        {
            "raw": F.col("raw") + F.col("erased"),
            "uneven": F.when(even, F.lit(0)).otherwise(F.col("uneven")),
        }
    ).drop(ERASED)


def _problems(session: Session, view: View, stored: str, bad: DataFrame) -> list[WindowProblem]:
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    bad = bad.orderBy("_window_end").limit(SHOWN_WINDOWS)
    # Bounded: SHOWN_WINDOWS rows.
    found = bad.collect()
    if not found:
        return []
    keys = ["_window_start", "_window_end", *view.group_columns]
    uneven = _groups(session, view, stored).where(F.col("_rows") != F.col(_EXPECTED))
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
        .withColumn(_PLACE, F.row_number().over(first))
        .where(F.col(_PLACE) <= SHOWN_OFFSETS)
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
            raw=r["raw"],
            counted=r["counted"],
            filtered=r["filtered"],
            late=r["late"],
            rejected=r["rejected"],
            remainder=r["remainder"],
            offsets=offsets.get((r["_window_start"], r["_window_end"]), []),
        )
        for r in found
    ]
