"""What a view's closed rows follow from: its query over its inputs, as they were when the rows became final (B1).

An audit compares it with what is stored; a backfill puts it in its place.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from tidegate.iceberg.protocol import LIFE
from tidegate.plan.gaps import RETAINED_FROM, gaps
from tidegate.sql.catalog.objects import Relation
from tidegate.tables.lives import state_identifier
from tidegate.views.inputs import Pinned
from tidegate.views.revisions.erased_windows import marked_windows
from tidegate.views.revisions.revisions import AMENDMENT, UPTO, latest, with_units, without_units
from tidegate.views.slices import evaluate, read

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tidegate.iceberg.tables import StoredTable
    from tidegate.runtime.context import Context
    from tidegate.sql.catalog.objects import View

#: Lookups that changed more often than this, and amendments older than so many, are compared for the newest only.
SHOWN_STATES = 8
#: In the summary of a swap: the stretches of the frontier over which the lookups of a version's slices stood still.
SLICES_READ = "tidegate.slices-read"
#: Windows that end after the first tick, and at the second or before.
Range = tuple[int | None, int]
_NO_LATE: Mapping[str, int] = MappingProxyType({})


def as_stored(
    context: Context,
    view: View,
    pinned: Sequence[Pinned],
    stored: str,
    frontier: int | None,
    notes: list[str],
    ranges: Sequence[Range] | None = None,
    most: int | None = None,
) -> tuple[DataFrame, float | None, DataFrame | None]:
    """The query over what the stored rows were computed from: rows on time, and in windows that were amended the late
    ones that they have absorbed. Second: as of `batch`. Third: the windows that are left out of it, because they were
    amended longer ago than the newest `most` times, or held rows that were erased (None: none are).
    """
    now, since = batch(context, view, pinned, frontier, notes, ranges)

    def compute(late: Mapping[str, int]) -> DataFrame:
        return batch(context, view, pinned, frontier, [], ranges, late)[0]

    whole, unknown = with_absorbed(context, view, stored, now, compute, notes, ranges, most)
    held = marked_windows(context, view, context.tables.open(stored))
    if held is not None:
        notes.append("windows that held erased rows are not recomputed")
        whole, bounds = without_units(whole, held, view), held.select("_window_start", "_window_end")
        known = None if unknown is None else unknown.select("_window_start", "_window_end")
        unknown = bounds if known is None else known.unionByName(bounds)
    return whole, since, unknown


def with_absorbed(
    context: Context,
    view: View,
    stored: str,
    now: DataFrame,
    compute: Callable[[Mapping[str, int]], DataFrame],
    notes: list[str],
    ranges: Sequence[Range] | None = None,
    most: int | None = None,
) -> tuple[DataFrame, DataFrame | None]:
    """`now`, the result over the rows on time, but for windows that were amended, which hold what `compute` finds with
    the late rows of these commits. Second: the windows that are left out, see `as_stored`."""
    from pyspark.sql import functions as F

    marks = latest(context.tables, view, stored)
    if marks is None:
        return now, None
    absorbed = marks.where(F.col(UPTO).isNotNull())
    if ranges is not None:
        absorbed = among(absorbed, view, ranges)
    states = absorbed.groupBy(UPTO).agg(F.max(AMENDMENT).alias("newest")).orderBy(F.desc("newest"))
    # Bounded: a line for each amendment of these windows, of audits `most`.
    found = [row[0] for row in (states if most is None else states.limit(most + 1)).collect()]
    whole = without_units(now, absorbed, view)
    for upto in found[:most]:
        chosen = absorbed.where(F.col(UPTO) == upto)
        whole = whole.unionByName(with_units(compute(json.loads(upto)), chosen, view))
    if most is None or len(found) <= most:
        return whole, None
    notes.append(f"windows amended before the newest {most} amendments are not recomputed")
    return whole, absorbed.where(~F.col(UPTO).isin(found[:most]))


def among(rows: DataFrame, view: View, ranges: Sequence[Range]) -> DataFrame:
    """The rows that end in one of the ranges."""
    from pyspark.sql import functions as F

    end, inside = F.col("_window_end"), F.lit(False)
    for after, upto in ranges:
        within = end <= F.expr(view.kind.spark_literal(upto))
        inside |= within if after is None else within & (end > F.expr(view.kind.spark_literal(after)))
    return rows.where(inside)


def batch(
    context: Context,
    view: View,
    pinned: Sequence[Pinned],
    frontier: int | None,
    notes: list[str],
    ranges: Sequence[Range] | None = None,
    late: Mapping[str, int] = _NO_LATE,
) -> tuple[DataFrame, float | None]:
    """The query over the whole history, or what ends in `ranges`; with rows that were `late` (`Pinned.rows`). Rows
    that were joined with a lookup are recomputed with the state of it that the tick has read which released them (B1).
    Second: only rows that end after it are recomputed; None: all are."""
    from pyspark.sql import functions as F

    def computed(inputs: Sequence[Pinned]) -> DataFrame:
        if ranges is None or view.open_sql is not None:
            clock = frontier if view.emit_on_window_close else None
            rows = read(context, view, inputs, None, clock, late)
        else:
            # Of windows at the edges of the ranges only some of the rows are there, and they are not among the results.
            lows = [after for after, _ in ranges if after is not None]
            bounds = (min(lows) if len(lows) == len(ranges) else None, max(upto for _, upto in ranges))
            rows = read(context, view, inputs, *bounds, late)
            rows = [p.among(r, view, ranges) for p, r in zip(inputs, rows, strict=True)]
        result = evaluate(context.spark, view, rows, frontier)
        return result if ranges is None else among(result, view, ranges)

    if not any(p.input.lookup for p in pinned) or frontier is None:
        return computed(pinned), None
    stored = context.stored(view.name)
    assert stored is not None
    parts = []
    end = F.col("_window_end")
    lookups = [p.input.name for p in pinned if p.input.lookup]
    most = SHOWN_STATES if ranges is None else None
    stretches = _states(context.tables.open(stored), lookups, notes, most)
    stretches = _readable(context, pinned, stretches, notes)
    known = stretches[0][0] if stretches else math.inf
    if ranges is not None:
        stretches = [s for s in stretches if _meets(s, ranges)]
    for after, upto, states in stretches:
        then = [p.at(states[p.input.name]) if p.input.lookup else p for p in pinned]
        part = computed(then)
        if after is not None:
            part = part.where(end > F.expr(view.kind.spark_literal(after)))
        if upto is not None:
            part = part.where(end <= F.expr(view.kind.spark_literal(upto)))
        parts.append(part)
    if not parts:
        return computed(pinned), known
    whole = parts[0]
    for part in parts[1:]:
        whole = whole.unionByName(part)
    return whole, known


def _meets(stretch: tuple[int | None, int | None, Any], ranges: Sequence[Range]) -> bool:
    """Whether a stretch of the frontier and one of the ranges have an instant in common."""
    first, last, _ = stretch
    return any(
        (last is None or after is None or after < last) and (first is None or first < upto)
        for after, upto in ranges
    )


def _states(
    table: StoredTable, names: Sequence[str], notes: list[str], most: int | None
) -> list[tuple[int | None, int | None, dict[str, int | None]]]:
    """(after, up to, snapshot of each lookup) of the stretches of a view's frontier over which its lookups stood still;
    the last one is open at its end."""
    # Not what an earlier version has read (E5): its snapshots are kept under a tag.
    life = table.current().summary.get(LIFE)
    summaries = [s for s in table.summaries().values() if s.get(LIFE) == life and "tidegate.tick" in s]
    known = sorted(summaries, key=lambda s: int(s["tidegate.tick"]))
    # Before there was a frontier nothing was closed.
    ticks = [s for s in known if "tidegate.frontier" in s]
    found: list[tuple[int | None, int | None, dict[str, int | None]]] = []
    after: int | None = None
    if SLICES_READ in known[0]:
        # Its first commit was a swap, and the commits of its slices have gone with the table that it was built in.
        found = [(first, last, states) for first, last, states in json.loads(known[0][SLICES_READ])]
        after, ticks = int(ticks[0]["tidegate.frontier"]), ticks[1:]
    elif int(known[0]["tidegate.tick"]) > 1 and known[0] is ticks[0]:
        # Where the oldest tick that we know of began was in a snapshot that is gone.
        after = int(ticks[0]["tidegate.frontier"])
        notes.append(
            "compared from the oldest tick whose snapshot is kept: the lookups before it are not known"
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
    if most is not None and len(found) > most:
        notes.append(f"lookups changed {len(found) - 1} times: compared for their newest {most} states")
        found = found[-most:]
    return [*found[:-1], (found[-1][0], None, found[-1][2])]


def slices_read(table: StoredTable, view: View) -> dict[str, str]:
    """What the swap of a version says of the lookups that its slices have read, of its own table."""
    names = [entry.name for entry in view.inputs if entry.lookup]
    if not names or table.current().integer("tidegate.frontier") is None:
        return {}
    frontier = table.current().integer("tidegate.frontier")
    found = _states(table, names, [], None)
    return {SLICES_READ: json.dumps([*found[:-1], (found[-1][0], frontier, found[-1][2])])}


def _readable(
    context: Context,
    pinned: Sequence[Pinned],
    stretches: list[tuple[int | None, int | None, dict[str, int | None]]],
    notes: list[str],
) -> list[tuple[int | None, int | None, dict[str, int | None]]]:
    """The stretches from the first on whose lookups can all still be read as they were: upkeep expires snapshots."""
    known = {}
    for p in pinned:
        if p.input.lookup and p.table is not None:
            keyed = isinstance(p.source, Relation) and p.source.primary_key
            table = context.tables.open(state_identifier(p.table) if keyed else p.table)
            known[p.input.name] = table.snapshot_ids()
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
    context: Context, view: View, stored: str, pinned: Sequence[Pinned], notes: list[str]
) -> float | None:
    """Rows that end at or before it can't be compared: rows that they need were expired and cleaned up (T3) or are
    beyond their retention (R5), or they are themselves. None: all can."""
    bounds: list[float] = []
    skipped = gaps(context.tables.open(stored).current().summary)
    for after, upto in skipped:
        text = view.kind.format
        notes.append(
            f"not known: windows that ended after {text(after)}, up to {text(upto)}, were "
            "skipped, because their rows were removed before the view ran"
        )
    if skipped:
        bounds.append(skipped[-1][1])
    own = context.tables.open(stored).property(RETAINED_FROM)
    if own is not None:
        bounds.append(int(own) - 1)
        notes.append(f"rows that ended before {view.kind.format(int(own))} are beyond their retention")
    for p in pinned:
        edge = p.snapshot.integer(RETAINED_FROM)
        if edge is not None and not p.input.lookup:
            low = p.input.low
            if view.open_sql is not None or view.over is not None or low is None or p.kind is None:
                notes.append(f"nothing is compared: rows of {p.input.name} are beyond their retention")
                return math.inf
            bounds.append(edge - low)
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
