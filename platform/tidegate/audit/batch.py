"""Stream equals batch: what a view has stored, compared with its query over all rows that are there now.

The query runs once over the whole history of the inputs; every row of it that is final must be stored, and nothing
else. Numbers with a floating point are compared within 1e-9 (C7), columns that depend on the order of rows not at all.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tidegate.audit.known import known
from tidegate.iceberg.differences import KIND, differences
from tidegate.iceberg.layout import quote
from tidegate.plan.closing import PARTIAL, commits
from tidegate.plan.resets import RESETS
from tidegate.sql.dialect.inner_names import inner
from tidegate.sql.views.repeatable import order_dependent
from tidegate.views.inputs import final_now, positions
from tidegate.views.resolve import pin
from tidegate.views.revisions.comparable import SHOWN_STATES, as_stored, comparable_since
from tidegate.views.revisions.revisions import without_units
from tidegate.views.revisions.step_back import effective_frontier
from tidegate.watermark import Identity, TimeKind, window_is_closed

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from tidegate.session.session import Session
    from tidegate.sql.catalog.objects import View

#: Beside a row's columns: whether no input can change it any more.
KNOWN = inner("known")
#: Rows that are listed.
SHOWN_ROWS = 20
#: What may be wrong with a row (`RowDifference`).
WRONG = ("missing", "unexpected", "different", "too early")


@dataclass(frozen=True)
class RowDifference:
    """A result row that is `missing` (the batch has it, the view has not), `unexpected` (the other way round),
    `different` (numbers further apart than 1e-9), or `too early` (emitted though an input has not closed it).
    `window_end`: of a row that is in no window its time. `values`: its columns as text."""

    kind: str
    window_end: str
    values: dict[str, str | None]


@dataclass(frozen=True)
class BatchComparison:
    """`compared`: rows of the batch and of the view, those that are equal counted once. `too_early`: rows that an input
    has not closed, whatever the batch says; `not_known`: rows that are equal now, and which an input may still change
    (A1), and `open_inputs`: which one. `not_compared`: columns left out because equal rows may fill them differently.
    `notes`: what else was left out, and why."""

    compared: int
    missing: int
    unexpected: int
    different: int
    too_early: int
    not_known: int
    examples: list[RowDifference]
    open_inputs: list[str] = field(default_factory=list)
    not_compared: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def mismatches(self) -> int:
        """Rows with other values: a changed row is both missing and unexpected, and counts once."""
        return max(self.missing, self.unexpected) + self.different + self.too_early


def compare(session: Session, view: View, stored: str) -> BatchComparison:
    """Run the view's query over all that is final in its inputs, and over all open rows where those are shown and
    nothing has come since the last tick."""
    from pyspark.sql import functions as F

    found = compared(session, view, stored)
    wrong = {kind.replace(" ", "_"): kind for kind in WRONG}
    sums = found.rows.agg(
        F.count(F.lit(1)).alias("compared"),
        *[F.count_if(F.col(KIND) == kind).alias(name) for name, kind in wrong.items()],
        F.count_if((F.col(KIND) == "equal") & ~F.col(KNOWN)).alias("not_known"),
    ).first()
    assert sums is not None
    counts = sums.asDict()
    examples = []
    if any(counts[name] for name in wrong):
        examples = _examples(found.rows, found.names, view)
    return BatchComparison(
        **counts,
        examples=examples,
        open_inputs=found.open_inputs,
        not_compared=found.skipped,
        notes=found.notes,
    )


@dataclass(frozen=True)
class Compared:
    """A view's rows and those of the batch, as Spark will compare them: `rows` has one line for each pair of equal rows
    and for each row without a partner, with `KIND` ("equal" or one of `WRONG`), `KNOWN` (whether no input can change
    it any more) and the columns `names`."""

    rows: DataFrame
    names: list[str]
    skipped: list[str]
    notes: list[str]
    open_inputs: list[str]


def compared(session: Session, view: View, stored: str) -> Compared:
    """See `compare`; nothing runs yet."""
    from pyspark.sql import functions as F

    current = session.tables.open(stored).current()
    pinned = pin(session, view)
    frontier = effective_frontier(view, current.summary, pinned)
    notes: list[str] = []
    fresh = commits(positions(pinned)) == commits(current.summary.get("tidegate.inputs"))
    # (What a view begins with shows nothing that is open.)
    fresh &= PARTIAL not in current.summary
    whole = fresh and not view.emit_on_window_close
    if not fresh and not view.emit_on_window_close:
        notes.append("open rows are not compared: the inputs have got new rows since the last run")
    then = session.tables.rows(stored).where(F.col("_open").isNotNull())
    then = final_now(then, view, current.summary)
    now, recomputed, unknown = as_stored(session, view, pinned, stored, frontier, notes, most=SHOWN_STATES)
    if unknown is not None:
        then = without_units(then, unknown, view)
    bounds = [recomputed, comparable_since(session, view, stored, pinned, notes)]
    since = max((bound for bound in bounds if bound is not None), default=None)
    if since is not None:
        beyond = F.lit(False)
        if since != math.inf:
            beyond = ~window_is_closed(F.col("_window_end"), F.expr(view.kind.spark_literal(int(since))))
        now, then = now.where(beyond), then.where(beyond)
    final = F.lit(False)
    if frontier is not None:
        final = window_is_closed(F.col("_window_end"), F.expr(view.kind.spark_literal(frontier)))
    if not whole:
        now, then = now.where(final), then.where(~F.col("_open"))
        if frontier != current.integer("tidegate.frontier"):
            # What the next tick takes back (W9) is not compared. Without a reset nothing may stand beyond the frontier.
            then = then.where(final)
    skipped = order_dependent(view)
    names = [
        "_window_start",
        "_window_end",
        "_rows",
        *(c.name for c in view.columns if c.name not in skipped),
    ]
    rows = differences(now, then, names)
    if view.clock is None:
        return Compared(rows.withColumn(KNOWN, F.lit(True)), names, sorted(skipped), notes, [])
    states, end = known(view, pinned), F.col("_window_end")
    # What is shown as open is not taken for final by anybody.
    opened = ~F.coalesce(final, F.lit(False)) if whole else F.lit(False)
    early = (F.col(KIND) != "missing") & ~opened & states.is_early(end)
    if RESETS in current.summary:
        # Windows that a reset could not take back stay as they are, up to the frontier (W9).
        early &= ~F.coalesce(final, F.lit(False))
    rows = rows.withColumns(
        {
            KIND: F.when(early, "too early").otherwise(F.col(KIND)),
            KNOWN: opened | states.knows(end),
        }
    )
    return Compared(rows, names, sorted(skipped), notes, states.notes)


def _examples(found: DataFrame, names: Sequence[str], view: View) -> list[RowDifference]:
    from pyspark.sql import functions as F

    wrong = found.where(F.col(KIND) != "equal").orderBy("_window_end").limit(SHOWN_ROWS)
    wrong = wrong.withColumn("_window_end", _shown_end(view))
    text = [F.col(quote(name)).cast("string").alias(name) for name in names]
    # Bounded: SHOWN_ROWS rows.
    listed = wrong.select(KIND, *text).collect()
    hidden = (KIND, "_window_start", "_rows")
    return [
        RowDifference(
            row[KIND],
            row["_window_end"] or "none",
            {k: v for k, v in row.asDict().items() if k not in (*hidden, "_window_end")},
        )
        for row in listed
    ]


def _shown_end(view: View) -> Column:
    """Where a row's window ends; the time itself of a row that is in no window, but in the one tick of its time."""
    from pyspark.sql import functions as F

    start, end = F.col("_window_start"), F.col("_window_end")
    if any((c.derived, c.low, c.high) == (Identity(), 1, 1) for c in view.watermarks):
        return start
    if view.kind not in (TimeKind.TIMESTAMP, TimeKind.TIMESTAMPTZ):
        return end
    return F.when(end == start + F.expr("INTERVAL '1' MICROSECOND"), start).otherwise(end)
