"""Stream equals batch: what a view has stored, compared with its query over all rows that are there now.

The query runs once over the whole history of the inputs; every row of it that is final must be stored, and nothing
else. Numbers with a floating point are compared within 1e-9 (C7), columns that depend on the order of rows not at all.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tidegate.engine.commit import IcebergTable
from tidegate.engine.inputs import Pinned, positions
from tidegate.engine.layout import quote
from tidegate.engine.resolve import pin
from tidegate.engine.retire import RETAINED_FROM
from tidegate.engine.slices import evaluate, read
from tidegate.engine.table import state_identifier
from tidegate.plan.closing import commits
from tidegate.sql.catalog import Relation
from tidegate.sql.repeatable import order_dependent
from tidegate.watermark import window_is_closed

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from tidegate.engine.session import Session
    from tidegate.sql.catalog import View

#: Rows that are listed; and lookups that changed more often than this are compared for their newest states only.
SHOWN_ROWS, SHOWN_STATES = 20, 8
_RELATIVE, _ABSOLUTE = 1e-9, 1e-12


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

    current = IcebergTable(session.spark, stored).current()
    pinned = pin(session, view)
    frontier = current.integer("tidegate.frontier")
    notes: list[str] = []
    fresh = commits(positions(pinned)) == commits(current.summary.get("tidegate.inputs"))
    whole = fresh and not view.emit_on_window_close
    if not fresh and not view.emit_on_window_close:
        notes.append("open rows are not compared: the inputs have new rows since the last run")
    then = session.spark.table(stored).where(F.col("_open").isNotNull())
    now, known = _batch(session, view, pinned, frontier, notes)
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
    differences = _differences(now, then, names)
    sums = differences.agg(
        F.count(F.lit(1)).alias("compared"),
        *[F.count_if(F.col("_kind") == k).alias(k) for k in ("missing", "unexpected", "different")],
    ).first()
    assert sums is not None
    counts = sums.asDict()
    examples = []
    if counts["missing"] or counts["unexpected"] or counts["different"]:
        examples = _examples(differences, names)
    return Comparison(**counts, examples=examples, not_compared=sorted(skipped), notes=notes)


def _batch(
    session: Session,
    view: View,
    pinned: Sequence[Pinned],
    frontier: int | None,
    notes: list[str],
) -> tuple[DataFrame, float | None]:
    """The query over the whole history. Rows that were joined with a lookup are recomputed with the state of it that
    the tick has read which released them (B1). Second: only rows that end after it are recomputed; None: all are."""
    from pyspark.sql import functions as F

    clock = frontier if view.emit_on_window_close else None
    if not any(p.input.lookup for p in pinned) or frontier is None:
        return evaluate(session.spark, view, read(session, view, pinned, None, clock), frontier), None
    stored = session.stored(view.name)
    assert stored is not None
    parts = []
    end = F.col("_window_end")
    lookups = [p.input.name for p in pinned if p.input.lookup]
    stretches = _states(IcebergTable(session.spark, stored), lookups, notes)
    stretches = _readable(session, pinned, stretches, notes)
    for after, upto, states in stretches:
        then = [p.at(states[p.input.name]) if p.input.lookup else p for p in pinned]
        part = evaluate(session.spark, view, read(session, view, then, None, clock), frontier)
        if after is not None:
            part = part.where(end > F.expr(view.kind.spark_literal(after)))
        if upto is not None:
            part = part.where(end <= F.expr(view.kind.spark_literal(upto)))
        parts.append(part)
    if not parts:
        return evaluate(session.spark, view, read(session, view, pinned, None, clock), frontier), math.inf
    whole = parts[0]
    for part in parts[1:]:
        whole = whole.unionByName(part)
    return whole, stretches[0][0]


def _states(
    table: IcebergTable, names: Sequence[str], notes: list[str]
) -> list[tuple[int | None, int | None, dict[str, int | None]]]:
    """(after, up to, snapshot of each lookup) of the stretches of a view's frontier over which its lookups stood still;
    the last one is open at its end."""
    summaries = table.summaries()
    known = sorted((s for s in summaries if "tidegate.tick" in s), key=lambda s: int(s["tidegate.tick"]))
    # Before there was a frontier nothing was closed.
    ticks = [s for s in known if "tidegate.frontier" in s]
    found: list[tuple[int | None, int | None, dict[str, int | None]]] = []
    after: int | None = None
    if int(known[0]["tidegate.tick"]) > 1 and known[0] is ticks[0]:
        # Where the oldest tick that we know of began was in a snapshot that is gone.
        after = int(ticks[0]["tidegate.frontier"])
        notes.append(
            "compared from the oldest tick on whose snapshot is kept: before it, lookups are not known"
        )
        ticks = ticks[1:] or ticks
    for tick in ticks:
        inputs = json.loads(tick["tidegate.inputs"])
        states = {name: inputs[name]["snapshot"] for name in names}
        upto = int(tick["tidegate.frontier"])
        if found and found[-1][2] == states:
            found[-1] = (found[-1][0], upto, states)
        else:
            found.append((after, upto, states))
        after = upto
    if len(found) > SHOWN_STATES:
        notes.append(
            f"lookups changed {len(found) - 1} times: compared for their newest {SHOWN_STATES} states"
        )
        found = found[-SHOWN_STATES:]
    return [*found[:-1], (found[-1][0], None, found[-1][2])]


def _readable(
    session: Session,
    pinned: Sequence[Pinned],
    stretches: list[tuple[int | None, int | None, dict[str, int | None]]],
    notes: list[str],
) -> list[tuple[int | None, int | None, dict[str, int | None]]]:
    """The stretches from the first on whose lookups can all still be read as they were: upkeep expires snapshots."""
    known = {}
    for p in pinned:
        if p.input.lookup and p.table is not None:
            keyed = isinstance(p.source, Relation) and p.source.primary_key
            table = IcebergTable(session.spark, state_identifier(p.table) if keyed else p.table)
            known[p.input.name] = {snapshot.snapshotId() for snapshot in table.java.snapshots()}
    gone = [
        number
        for number, (_, _, states) in enumerate(stretches)
        if any(
            state is not None and name in known and state not in known[name] for name, state in states.items()
        )
    ]
    if not gone:
        return stretches
    notes.append(
        "older rows are not compared: the snapshots of the lookups that they were joined with have expired"
    )
    return stretches[gone[-1] + 1 :]


def comparable_since(
    session: Session, view: View, stored: str, pinned: Sequence[Pinned], notes: list[str]
) -> float | None:
    """Rows that end at or before it can't be compared: rows that they need were expired and cleaned up (T3) or are
    beyond their retention (R5), or they are themselves. None: all can."""
    bounds: list[float] = []
    own = IcebergTable(session.spark, stored).property(RETAINED_FROM)
    if own is not None:
        bounds.append(int(own) - 1)
        notes.append(f"rows that ended before {view.kind.format(int(own))} are beyond their retention")
    for p in pinned:
        edge = p.snapshot.integer(RETAINED_FROM)
        if edge is not None and not p.input.lookup:
            reaches_back = view.open_sql is not None or view.over is not None or p.input.low is None
            if reaches_back or p.kind is None:
                notes.append(f"nothing is compared: rows of {p.input.name} are beyond their retention")
                return math.inf
            bounds.append(edge - p.input.low)
            notes.append(
                f"older rows are not compared: rows of {p.input.name} before {p.kind.format(edge)} are beyond "
                "their retention"
            )
        cleaned = p.snapshot.integer("tidegate.cleaned")
        if cleaned is None or p.input.lookup:
            continue
        reach = None if view.open_sql is not None else p.input.low
        if reach is None:
            notes.append(f"nothing is compared: expired rows of {p.input.name} have been cleaned up")
            return math.inf
        bounds.append(cleaned + 1 - reach)
        notes.append(f"older rows are not compared: expired rows of {p.input.name} have been cleaned up")
    return max(bounds, default=None)


def _differences(now: DataFrame, then: DataFrame, names: Sequence[str]) -> DataFrame:
    """One line for each row of either side, pairs of equal rows as one, with `_kind`: equal, missing, unexpected or
    different. Rows are paired by their exact columns, among equals in the order of their floating-point ones."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    floats = [f.name for f in then.schema.fields if f.name in names and f.dataType.typeName() in _FLOATS]
    exact = [name for name in names if name not in floats]
    sides = [
        frame.select(
            *[_comparable(frame, name).alias(f"e{i}") for i, name in enumerate(exact)],
            *[F.col(quote(name)).cast("double").alias(f"f{i}") for i, name in enumerate(floats)],
            F.lit(side).alias("side"),
        )
        for frame, side in ((now, "now"), (then, "then"))
    ]
    keys = [f"e{i}" for i in range(len(exact))]
    numbers = [f"f{i}" for i in range(len(floats))]
    order = Window.partitionBy(*keys, "side").orderBy(*(numbers or [F.lit(1)]))
    both = sides[0].unionByName(sides[1]).withColumn("place", F.row_number().over(order))
    values = F.struct(F.lit(1).alias("there"), *numbers)
    pairs = both.groupBy(*keys, "place").agg(
        *[F.max(F.when(F.col("side") == side, values)).alias(side) for side in ("now", "then")]
    )
    near = F.lit(True)
    for name in numbers:
        near = near & _near(F.col(f"now.{name}"), F.col(f"then.{name}"))
    kind = (
        F.when(F.col("then").isNull(), "missing")
        .when(F.col("now").isNull(), "unexpected")
        .when(near, "equal")
        .otherwise("different")
    )
    shown = F.coalesce("now", "then")
    return pairs.select(
        kind.alias("_kind"),
        *[F.col(key).alias(name) for key, name in zip(keys, exact, strict=True)],
        *[shown[number].alias(name) for number, name in zip(numbers, floats, strict=True)],
    )


_FLOATS = ("double", "float")


def _comparable(frame: DataFrame, name: str) -> Column:
    """A column that rows can be grouped by: a map has no order, nor has what collects into an array."""
    from pyspark.sql import functions as F

    column, kind = F.col(quote(name)), frame.schema[name].dataType.simpleString()
    if kind.startswith("map<"):
        column, kind = F.map_entries(column), "array<"
    if kind.startswith("array<") and "map<" not in kind[6:]:
        return F.sort_array(column).cast("string")
    return F.to_json(F.struct(column)) if "map<" in kind else column


def _near(one: Column, other: Column) -> Column:
    from pyspark.sql import functions as F

    size = F.greatest(F.abs(one), F.abs(other))
    close = F.abs(one - other) <= size * F.lit(_RELATIVE) + F.lit(_ABSOLUTE)
    return one.eqNullSafe(other) | F.coalesce(close & ~F.isnan(one) & ~F.isnan(other), F.lit(False))


def _examples(differences: DataFrame, names: Sequence[str]) -> list[RowDifference]:
    from pyspark.sql import functions as F

    wrong = differences.where(F.col("_kind") != "equal").orderBy("_window_end").limit(SHOWN_ROWS)
    text = [F.col(quote(name)).cast("string").alias(name) for name in names]
    # Bounded: SHOWN_ROWS rows.
    found = wrong.select("_kind", *text).collect()
    hidden = ("_kind", "_window_start", "_rows")
    return [
        RowDifference(
            row["_kind"],
            row["_window_end"] or "none",
            {k: v for k, v in row.asDict().items() if k not in (*hidden, "_window_end")},
        )
        for row in found
    ]
