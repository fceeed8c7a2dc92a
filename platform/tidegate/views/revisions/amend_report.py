"""What is asked of an amendment, and what became of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tidegate.iceberg.layout import ticks_of
from tidegate.sql.dialect.inner_names import inner
from tidegate.views.revisions.revisions import NUMBER

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tidegate.watermark import TimeKind

#: Of a hit window, beside the columns of `units`: source rows that come, result rows that differ.
LATE_ROWS, GROUPS = inner("late"), inner("groups")
#: Windows that a report lists.
SHOWN_WINDOWS = 50


@dataclass(frozen=True)
class AmendedWindow:
    """One hit window. Bounds are text; `revision`: the new one; `late`: source rows that it absorbs, None where the
    query does not tell; `groups`: result rows that come, go or change."""

    window_start: str
    window_end: str
    revision: int
    late: int | None
    groups: int


@dataclass(frozen=True)
class Stretch:
    """What became of the windows that end after `start` and at most `AmendmentScope.every` later, in ticks."""

    start: int
    windows: int
    late: int | None
    groups: int


@dataclass(frozen=True)
class ViewAmendment:
    """What became of one view. `windows` hit in all, of which the first are listed in `examples`; `late` rows absorbed
    in all; `groups` changed. `dry_run`: nothing was written. `notes`: what was left out, and why. `stretches`: the same
    numbers for each stretch of time that has any, if that was asked for."""

    view: str
    windows: int = 0
    late: int | None = 0
    groups: int = 0
    seconds: float = 0.0
    dry_run: bool = False
    examples: list[AmendedWindow] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    stretches: list[Stretch] = field(default_factory=list)


@dataclass(frozen=True)
class AmendmentScope:
    """What is asked of an amendment. `absorb`: late rows are taken in (else windows are recomputed from what they had
    taken in already); `after`, `upto`: only windows that end between them, text in the view's time; `everything`: all
    of these windows are compared, not only those that a late row or an amendment below can have hit. `every`: what was
    done is also said for each stretch of so many ticks, from 0 on."""

    absorb: bool = True
    after: str | None = None
    upto: str | None = None
    everything: bool = False
    every: int | None = None

    @property
    def whole(self) -> bool:
        """Whether no window is left out."""
        return self.after is None and self.upto is None


def examples(changed: DataFrame) -> list[AmendedWindow]:
    """The first of the hit windows, see `_Amendment._changed`."""
    # Bounded: SHOWN_WINDOWS rows.
    rows = changed.orderBy("_window_end", "_window_start").limit(SHOWN_WINDOWS).collect()
    return [
        AmendedWindow(str(r["_window_start"]), str(r["_window_end"]), r[NUMBER], r[LATE_ROWS], r[GROUPS])
        for r in rows
    ]


def stretches(changed: DataFrame, kind: TimeKind, every: int | None) -> list[Stretch]:
    """What becomes of them in each stretch of so many ticks; None: nobody asked."""
    from pyspark.sql import functions as F

    if every is None:
        return []
    # A stretch holds the windows that end after it began, and at its end or before.
    last = ticks_of("_window_end", kind) - 1
    start = last - F.pmod(last, F.lit(every).cast("bigint"))
    sums = changed.groupBy(start.alias("start")).agg(
        F.count(F.lit(1)).alias("windows"), F.sum(LATE_ROWS).alias("late"), F.sum(GROUPS).alias("groups")
    )
    # Bounded: a row for each day or hour of a backfill.
    rows = sums.orderBy("start").collect()
    return [Stretch(r["start"], r["windows"], r["late"], r["groups"]) for r in rows]
