"""Where an amendment looks: the ends of the windows that late rows, or amendments below, can have changed (B3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tidegate.iceberg.layout import LATE, ticks_of
from tidegate.plan.gaps import same_scale
from tidegate.sql.catalog.objects import Relation
from tidegate.views.inputs import Pinned
from tidegate.views.revisions.revisions import amended_ends
from tidegate.watermark import TimeKind
from tidegate.watermark.timekind import DAY_MICROS

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from tidegate.iceberg.tables import Tables
    from tidegate.sql.catalog.objects import View
    from tidegate.views.revisions.comparable import Range

#: So many stretches are read apart from each other; of more, the nearest are read as one.
MOST_RANGES = 100


def candidates(
    tables: Tables, view: View, pinned: Sequence[Pinned], known: Mapping[str, Any], absorb: bool
) -> list[Range] | None:
    """Ranges of window ends outside of which nothing can have changed; None: anything can. In whole days, since that is
    how logs and views are stored.

    `known`: what earlier amendments have taken in: `absorbed`, late rows of all `commits` whose windows end up to
    `frontier`; `followed`, amendments of views below. `absorb`: late rows count.
    """
    found: list[Range] = []
    for p in pinned:
        if p.input.lookup or p.table is None or p.snapshot.id is None:
            continue
        if not isinstance(p.source, Relation):
            ends = amended_ends(tables, p, known["followed"].get(p.input.name, 0))
            times = None if ends is None else ends.select(ticks_of("_window_end", p.source.kind).alias("x"))
        elif absorb:
            times = _late(tables, view, p, known["absorbed"])
        else:
            continue
        if times is None:
            continue
        low, high = p.input.low, p.input.high
        assert p.kind is not None
        if low is None or high is None or view.open_sql is not None or not same_scale(p.kind, view.kind):
            if not times.isEmpty():
                return None
            continue
        found += _days(times, low, high, view.kind)
    return _few(_merged(found))


def _late(tables: Tables, view: View, p: Pinned, absorbed: Mapping[str, Any]) -> DataFrame | None:
    """`x`, the times in ticks of the late rows of a log that are not absorbed wherever they count."""
    from pyspark.sql import functions as F

    assert isinstance(p.source, Relation)
    if p.source.watermark is None or p.table is None:
        return None
    rows = tables.rows(p.table, p.snapshot.id).where(F.col("_outcome") == LATE)
    x = ticks_of(p.source.watermark.column, p.source.watermark.kind)
    upto = absorbed.get("commits", {}).get(p.input.name)
    if upto is None:
        return rows.select(x.alias("x"))
    settled = F.lit(False)
    if view.open_sql is not None:
        # The frontier of then, or where the first session began that was open then.
        settled = x < F.lit(absorbed["frontier"])
    elif p.input.low is not None and same_scale(p.source.watermark.kind, view.kind):
        settled = x - F.lit(p.input.low - 1) <= F.lit(absorbed["frontier"])
    return rows.where((F.col("_epoch") > F.lit(upto)) | ~settled).select(x.alias("x"))


def _days(times: DataFrame, low: int, high: int, kind: TimeKind) -> list[Range]:
    """A time x lies in windows that end in [x - high + 1, x - low + 1] (`Input`)."""
    from pyspark.sql import functions as F

    if kind is TimeKind.EPOCH:
        row = times.agg(F.min("x"), F.max("x")).first()
        return [] if row is None or row[0] is None else [(row[0] - high, row[1] - low + 1)]
    day = 1 if kind is TimeKind.DATE else DAY_MICROS

    def day_of(shift: int) -> Column:
        moved = f"(x - {shift}L)"
        return F.expr(f"({moved} - pmod({moved}, {day}L)) div {day}L")

    # Bounded: the days that late rows lie in.
    pairs = times.select(day_of(high).alias("first"), day_of(low).alias("last")).distinct().collect()
    return [(row["first"] * day, (row["last"] + 1) * day) for row in pairs]


def clip(ranges: Sequence[Range], low: int | None, high: int | None) -> list[Range]:
    """What of them lies after `low`, and at `high` or before."""
    found = []
    for after, upto in ranges:
        first = max((mark for mark in (after, low) if mark is not None), default=None)
        last = upto if high is None else min(upto, high)
        if first is None or first < last:
            found.append((first, last))
    return found


def _merged(ranges: Sequence[Range]) -> list[Range]:
    """The same, in order and apart from each other."""
    found: list[tuple[int, int]] = []
    for after, upto in sorted((after, upto) for after, upto in ranges if after is not None):
        if found and after <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], upto))
        else:
            found.append((after, upto))
    return list(found)


def _few(ranges: list[Range]) -> list[Range]:
    """At most MOST_RANGES, those nearest to each other as one."""
    if len(ranges) <= MOST_RANGES:
        return ranges
    gaps = sorted(range(1, len(ranges)), key=lambda i: (ranges[i][0] or 0) - ranges[i - 1][1])
    kept = sorted(gaps[len(ranges) - MOST_RANGES :])
    starts = [0, *kept]
    ends = [*kept, len(ranges)]
    return [(ranges[a][0], ranges[b - 1][1]) for a, b in zip(starts, ends, strict=True)]
