"""Stream equals batch: what a view has stored, compared with its query over all rows that are there now.

The query runs once over the whole history of the inputs; every row of it that is final must be stored, and nothing
else. Numbers with a floating point are compared within 1e-9 (C7), columns that depend on the order of rows not at all.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tidegate.engine.commit import IcebergTable
from tidegate.engine.comparable import SHOWN_STATES, as_stored, comparable_since
from tidegate.engine.differences import differences
from tidegate.engine.inputs import positions
from tidegate.engine.layout import quote
from tidegate.engine.resolve import pin
from tidegate.engine.revisions import without_units
from tidegate.plan.closing import commits
from tidegate.sql.repeatable import order_dependent
from tidegate.watermark import window_is_closed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tidegate.engine.session import Session
    from tidegate.sql.catalog import View

#: Rows that are listed.
SHOWN_ROWS = 20


@dataclass(frozen=True)
class RowDifference:
    """A result row that is `missing` (the batch has it, the view has not), `unexpected` (the other way round), or
    `different` (numbers further apart than 1e-9). `values`: its columns as text."""

    kind: str
    window_end: str
    values: dict[str, str | None]


@dataclass(frozen=True)
class Comparison:
    """`compared`: rows of the batch and of the view, those that are equal counted once. `not_compared`: columns left
    out because equal rows may fill them differently. `notes`: what else was left out, and why."""

    compared: int
    missing: int
    unexpected: int
    different: int
    examples: list[RowDifference]
    not_compared: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def mismatches(self) -> int:
        """Rows with other values: a changed row is both missing and unexpected, and counts once."""
        return max(self.missing, self.unexpected) + self.different


def compare(session: Session, view: View, stored: str) -> Comparison:
    """Run the view's query over all that is final in its inputs, and over all open rows where those are shown and
    nothing has come since the last tick."""
    from pyspark.sql import functions as F

    found = compared(session, view, stored)
    sums = found.rows.agg(
        F.count(F.lit(1)).alias("compared"),
        *[F.count_if(F.col("_kind") == k).alias(k) for k in ("missing", "unexpected", "different")],
    ).first()
    assert sums is not None
    counts = sums.asDict()
    examples = []
    if counts["missing"] or counts["unexpected"] or counts["different"]:
        examples = _examples(found.rows, found.names)
    return Comparison(**counts, examples=examples, not_compared=found.skipped, notes=found.notes)


@dataclass(frozen=True)
class Compared:
    """A view's rows and those of the batch, as Spark will compare them: `rows` has one line for each pair of equal rows
    and for each row without a partner, with `_kind` (equal, missing, unexpected, different) and the columns `names`."""

    rows: DataFrame
    names: list[str]
    skipped: list[str]
    notes: list[str]


def compared(session: Session, view: View, stored: str) -> Compared:
    """See `compare`; nothing runs yet."""
    from pyspark.sql import functions as F

    current = IcebergTable(session.spark, stored).current()
    pinned = pin(session, view)
    frontier = current.integer("tidegate.frontier")
    notes: list[str] = []
    fresh = commits(positions(pinned)) == commits(current.summary.get("tidegate.inputs"))
    whole = fresh and not view.emit_on_window_close
    if not fresh and not view.emit_on_window_close:
        notes.append("open rows are not compared: the inputs have new rows since the last run")
    then = session.spark.table(stored).where(F.col("_open").isNotNull())
    now, known, unknown = as_stored(session, view, pinned, stored, frontier, notes, most=SHOWN_STATES)
    if unknown is not None:
        then = without_units(then, unknown, view)
    bounds = [known, comparable_since(session, view, stored, pinned, notes)]
    since = max((bound for bound in bounds if bound is not None), default=None)
    if since is not None:
        beyond = F.lit(False)
        if since != math.inf:
            beyond = ~window_is_closed(F.col("_window_end"), F.expr(view.kind.spark_literal(int(since))))
        now, then = now.where(beyond), then.where(beyond)
    if not whole:
        final = F.lit(False)
        if frontier is not None:
            final = window_is_closed(F.col("_window_end"), F.expr(view.kind.spark_literal(frontier)))
        now, then = now.where(final), then.where(~F.col("_open"))
    skipped = order_dependent(view)
    names = [
        "_window_start",
        "_window_end",
        "_rows",
        *(c.name for c in view.columns if c.name not in skipped),
    ]
    return Compared(differences(now, then, names), names, sorted(skipped), notes)


def _examples(found: DataFrame, names: Sequence[str]) -> list[RowDifference]:
    from pyspark.sql import functions as F

    wrong = found.where(F.col("_kind") != "equal").orderBy("_window_end").limit(SHOWN_ROWS)
    text = [F.col(quote(name)).cast("string").alias(name) for name in names]
    # Bounded: SHOWN_ROWS rows.
    listed = wrong.select("_kind", *text).collect()
    hidden = ("_kind", "_window_start", "_rows")
    return [
        RowDifference(
            row["_kind"],
            row["_window_end"] or "none",
            {k: v for k, v in row.asDict().items() if k not in (*hidden, "_window_end")},
        )
        for row in listed
    ]
