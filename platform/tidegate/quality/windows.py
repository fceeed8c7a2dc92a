"""One line for each closed window of a view, and one for each day: computed by Spark, brought here bounded."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tidegate.audit.accounts import windows_of
from tidegate.audit.batch import KNOWN, WRONG, compared
from tidegate.iceberg.differences import KIND
from tidegate.iceberg.layout import quote
from tidegate.quality.model import WindowSpan
from tidegate.sql.dialect.inner_names import inner
from tidegate.views.resolve import pin
from tidegate.views.revisions.comparable import comparable_since
from tidegate.views.revisions.revisions import units
from tidegate.views.revisions.step_back import effective_frontier
from tidegate.watermark import TimeKind, window_is_closed
from tidegate.watermark.timekind import DAY_MICROS

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from tidegate.session.session import Session
    from tidegate.sql.catalog.objects import View

#: Windows that come to the driver: those that something is wrong with first, then the newest.
MOST_WINDOWS = 10_000
#: Days that come to the driver, the newest first.
MOST_DAYS = 3_660

_ACCOUNTS = (
    "raw",
    "counted",
    "filtered",
    "late",
    "absorbed",
    "rejected",
    "expected",
    "uneven",
    "results",
    "times",
)
_WRONG = tuple(kind.replace(" ", "_") for kind in WRONG)
_COMPARED = ("results", *_WRONG, "times")


@dataclass(frozen=True)
class Day:
    """The windows that end on one day. `quiet`: the longest time without a window before one of its windows, from
    `quiet_from` to `quiet_until`, ticks; 0 for none."""

    day: int
    windows: int
    raw: int
    late: int
    quiet: int
    quiet_from: int
    quiet_until: int


@dataclass(frozen=True)
class Windows:
    """What is known of a view's closed windows. `accounts`: whether rows are accounted for in each (A1), else result
    rows are compared. `rows` (dicts by column) are at most `MOST_WINDOWS` of `count`; `wrong` of all of them are in it
    as far as there is room. `first`, `last`: ends, ticks."""

    accounts: bool
    count: int = 0
    wrong: int = 0
    first: int | None = None
    last: int | None = None
    rows: list[dict[str, Any]] = field(default_factory=list)
    days: list[Day] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def read_windows(session: Session, view: View, stored: str, span: WindowSpan, accountable: bool) -> Windows:
    """Of the windows that are final and end within `span`; what is beyond retention is left out, and said.

    Three Spark jobs over one line for each window; that line is computed once.
    """
    pinned = pin(session, view)
    frontier = effective_frontier(view, session.tables.open(stored).current().summary, pinned)
    notes: list[str] = []
    if frontier is None:
        return Windows(accountable, notes=["no window is final yet"])
    high = frontier + 1 if span.high is None else min(frontier + 1, span.high)
    since = comparable_since(session, view, stored, pinned, notes)
    if since == math.inf:
        return Windows(accountable, notes=notes)
    bounds = [b for b in (since, None if span.low is None else span.low - 1) if b is not None]
    base = int(max(bounds)) if bounds else None
    if accountable:
        frame = windows_of(session, view, stored, base, high - 1)
    else:
        found = compared(session, view, stored)
        notes += [note for note in (*found.open_inputs, *found.notes) if note not in notes]
        frame = _compared(session, view, stored, found.rows)
    return _read(_within(frame, view, base, high - 1), view.kind, accountable, notes)


def _within(frame: DataFrame, view: View, base: int | None, clock: int) -> DataFrame:
    from pyspark.sql import functions as F

    end = F.col("_window_end")
    frame = frame.where(window_is_closed(end, F.expr(view.kind.spark_literal(clock))))
    if base is not None:
        frame = frame.where(end > F.expr(view.kind.spark_literal(base)))
    return frame


def _compared(session: Session, view: View, stored: str, rows: DataFrame) -> DataFrame:
    """Result rows of each window: how many are stored, and how many of them are not what the query gives now."""
    from pyspark.sql import functions as F

    keys = ["_window_start", "_window_end"]
    kind = F.col(KIND)
    windows = rows.groupBy(*keys).agg(
        F.count_if(kind != "missing").alias("results"),
        *[F.count_if(kind == k).alias(name) for k, name in zip(WRONG, _WRONG, strict=True)],
        F.bool_and(KNOWN).alias("known"),
    )
    # What an input may still change is open: not counted as right, unless it is wrong already (A1).
    windows = windows.where(F.col("known") | (F.greatest(*_WRONG) > 0)).drop("known")
    if view.over is not None:
        # Its rows are released one by one (C5), each when its own frame is complete.
        return windows.withColumn("times", F.least("results", F.lit(1)))
    # A window is emitted by one commit: its rows are final together (C2). A session is its key's own.
    times = inner("times")
    emitted = session.tables.rows(stored).where(~F.col("_open")).groupBy(*map(quote, units(view)))
    ticks = (
        emitted.agg(F.count_distinct("_tick").alias(times)).groupBy(*keys).agg(F.max(times).alias("times"))
    )
    return windows.join(ticks, keys, "left").na.fill(0)


def _read(frame: DataFrame, kind: TimeKind, accountable: bool, notes: list[str]) -> Windows:
    from pyspark.sql import functions as F

    names = _ACCOUNTS if accountable else _COMPARED
    numbers = [F.col(name).cast("bigint").alias(name) for name in names]
    frame = frame.select(
        _ticks("_window_start", kind).alias("start"), _ticks("_window_end", kind).alias("end"), *numbers
    )
    if accountable:
        accounted = F.col("counted") + F.col("filtered") + F.col("late") + F.col("rejected")
        wrong = (F.col("raw") != accounted) | (F.col("uneven") > 0)
    else:
        frame = frame.withColumns({name: F.lit(0).cast("bigint") for name in ("raw", "late", "absorbed")})
        wrong = F.greatest(*_WRONG) > 0
    frame = frame.withColumn("wrong", wrong | (F.col("times") > 1)).persist()
    try:
        sums = frame.agg(
            F.count(F.lit(1)),
            F.count_if("wrong"),
            F.min("end"),
            F.max("end"),
            F.count_if(F.col("results") > 0),
        ).first()
        assert sums is not None
        newest = frame.orderBy(F.desc("wrong"), F.desc("end"), F.desc("start"))
        # Bounded: MOST_WINDOWS rows.
        rows = [row.asDict() for row in newest.limit(MOST_WINDOWS).collect()]
        days = _days(frame, kind)
    finally:
        frame.unpersist()
    if len(rows) < sums[0]:
        left = sums[0] - len(rows)
        notes.append(
            f"{left:,} of {sums[0]:,} windows are not checked by Great Expectations: the counts of all of them agree"
            if sums[1] <= MOST_WINDOWS
            else f"{sums[1]:,} windows are wrong; {MOST_WINDOWS:,} of them are looked at"
        )
    rows.sort(key=lambda row: (row["end"], row["start"]))
    return Windows(accountable, sums[0], sums[1], sums[2], sums[3], rows, days, notes)


def _days(frame: DataFrame, kind: TimeKind) -> list[Day]:
    """Sums by the day of window_end, ascending; integers without a unit have no days."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    if kind is TimeKind.EPOCH:
        return []
    day = F.col("end") if kind is TimeKind.DATE else F.floor(F.col("end") / DAY_MICROS)
    # Windows that the view emitted: one that its filter left empty is no gap of the stream, but of what was asked for.
    here = Window.partitionBy("day").orderBy("start", "end").rowsBetween(Window.unboundedPreceding, -1)
    emitted = F.when(F.col("results") > 0, F.col("end"))
    frame = frame.withColumn("day", day.cast("bigint")).withColumn("before", F.max(emitted).over(here))
    gap = F.when(F.col("results") > 0, F.greatest(F.col("start") - F.col("before"), F.lit(0)))
    quiet = F.max(F.struct(F.coalesce(gap, F.lit(0)).alias("length"), "before", "start"))
    sums = frame.groupBy("day").agg(
        F.count_if(F.col("results") > 0).alias("windows"),
        F.sum("raw").alias("raw"),
        # What an amendment has absorbed was late all the same.
        F.sum(F.col("late") + F.col("absorbed")).alias("late"),
        quiet.alias("quiet"),
        F.min(F.when(F.col("results") > 0, F.col("start"))).alias("first"),
        F.max(emitted).alias("last"),
    )
    # Bounded: MOST_DAYS rows.
    found = sums.orderBy(F.desc("day")).limit(MOST_DAYS).collect()
    days, last = [], None
    for row in reversed(found):
        length, since, until = row["quiet"]["length"], row["quiet"]["before"], row["quiet"]["start"]
        if last is not None and row["first"] is not None and row["first"] - last > length:
            length, since, until = row["first"] - last, last, row["first"]
        days.append(Day(row["day"], row["windows"], row["raw"], row["late"], length, since or 0, until or 0))
        last = max((x for x in (last, row["last"]) if x is not None), default=None)
    return days


def _ticks(name: str, kind: TimeKind) -> Column:
    """A window's bound as an integer of the kind."""
    from pyspark.sql import functions as F

    column = F.col(name)
    if kind is TimeKind.DATE:
        return F.unix_date(column).cast("bigint")
    # The session's zone is UTC, so the wall time is that of UTC.
    return column.cast("bigint") if kind is TimeKind.EPOCH else F.unix_micros(column.cast("timestamp"))
