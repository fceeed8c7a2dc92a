"""OVER windows in event time, tick by tick (C5): the rows of a tick are the carried ones and the new ones.

A row is released when all its frames are complete. The watermark at which that is so follows from the rows, not from
how they were cut into ticks. It is the row's `_window_end`, so that a row is final iff W >= `_window_end` as in any
view:

- frames that end at the row or before it: its time + 1;
- ROWS that reach n ahead: the time of the n-th following row + 1 (NULL until that row is below the watermark);
- RANGE that reaches f ahead: its time + f + 1;
- SESSION: the last row of the session + gap.

Carried are, for each (PARTITION BY, ORDER BY) and key, the rows that frames of later rows can reach: the last of that
key. A row may be carried for the sake of another key only; it lies before those, where no frame reaches. What a frame
from UNBOUNDED PRECEDING needs of all rows is in `Partial` structs, of which each carried row has its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from tidegate.iceberg.layout import carried_column, ddl, quote
from tidegate.runtime.queries import run_query
from tidegate.sql.dialect.inner_names import inner
from tidegate.sql.dialect.query import OVER
from tidegate.views.over_frames import BELOW, NEW, PREFIX, TIME, Ordering
from tidegate.views.over_sql import EXACT, MERGEABLE, RANKS, WIDE, Partial
from tidegate.watermark import TimeKind, window_is_closed

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from tidegate.sql.catalog.objects import Over, OverFunction, View

#: The one column of carried rows: a struct of the columns of `Over.rows_sql` and of what was computed for them.
CARRIED = inner("carried")
_KEPT = f"{PREFIX}kept"


class Evaluation(NamedTuple):
    """What a tick makes of its rows. `result`: the columns of `Over.query_sql`, and `_open`. `carried`: one column,
    `CARRIED`; None while there is no watermark. `close()` it when both are written."""

    result: DataFrame
    carried: DataFrame | None
    rows: DataFrame

    def close(self) -> None:
        """Give back the memory that both results share."""
        self.rows.unpersist()


def evaluate(
    spark: SparkSession,
    view: View,
    rows: DataFrame,
    carried: DataFrame | None,
    frontier: int | None,
    watermark: int | None,
) -> Evaluation:
    """One tick of a view with `over`.

    `rows` are those of `Over.rows_sql`, at least all with a time in [frontier, watermark); `carried` is what the last
    tick returned, None for the first (or for all rows at once: stream equals batch). A watermark below the frontier
    (a reset, W9) closes nothing.
    """
    tick = _tick(spark, view, rows, carried, frontier, watermark)
    tick.rows.persist()
    return tick


def carried_type(spark: SparkSession, view: View, rows: DataFrame) -> str:
    """Spark DDL of `CARRIED`; `rows`: a frame (it may be empty) of `Over.rows_sql`. Nothing runs."""
    tick = _tick(spark, view, rows, None, None, 0)
    assert tick.carried is not None
    return ddl(tick.carried.schema[CARRIED].dataType)


def carried_rows(stored: DataFrame, view: View) -> DataFrame:
    """`CARRIED`, of what is stored of a view: what its last tick has carried. It stands where `_open` is NULL."""
    name = quote(carried_column(view))
    return stored.where(f"_open IS NULL AND {name} IS NOT NULL").selectExpr(f"{name} AS {quote(CARRIED)}")


def missing_totals(column: str, carried: str, stored: pa.DataType) -> list[tuple[str, str]]:
    """The fields that carried rows of a release before exact sums don't have, as (path, Spark type) of a table's new
    columns. `carried`: as `carried_type` says, `stored`: what the table has in `column`."""
    from pyspark.sql.types import StructType

    wanted = StructType.fromDDL(carried.removeprefix("struct<").removesuffix(">"))
    assert isinstance(wanted, StructType)
    exact = [f.name for f in wanted if isinstance(f.dataType, StructType) and f.dataType.names == EXACT]
    return [(f"{quote(column)}.{n}.t", WIDE) for n in exact if stored.field(n).type.get_field_index("t") < 0]


def _tick(
    spark: SparkSession,
    view: View,
    rows: DataFrame,
    carried: DataFrame | None,
    frontier: int | None,
    watermark: int | None,
) -> Evaluation:
    from pyspark.sql import functions as F

    over = view.over
    assert over is not None
    if frontier is not None:
        watermark = frontier if watermark is None else max(frontier, watermark)
    clock = _Clock(over.time, view.kind)
    orderings = _orderings(over, rows, stored=carried is not None)
    before = None if carried is None else _restored(carried, orderings)
    frame = _input(rows, before, clock, frontier, watermark, closed_only=view.emit_on_window_close)
    for ordering in orderings:
        for layer in ordering.layers(watermark):
            frame = frame.selectExpr("*", *layer)
    frame = frame.selectExpr("*", *_ends(orderings, watermark))

    # Only what the results and the carried rows are made of: it is kept while both are written.
    names = [quote(name) for name in rows.columns]
    values = [f"{o.value(i)} AS {quote(f.name)}" for o in orderings for i, f in o.functions.items()]
    state = [f"{PREFIX}{what}" for what in ("end", "released", "before")]
    stored: list[tuple[str, str]] = []
    if watermark is not None:
        stored = [pair for o in orderings for pair in o.stored(watermark)]
        kept = [f"NOT {PREFIX}released", *(spec.keep for o in orderings for spec in o.specs(watermark))]
        needed = " OR ".join(dict.fromkeys(kept))
        with_peers = [
            f"bool_or({BELOW} AND ({needed})) {o.peers_needed}" for o in orderings if o.peers_needed
        ]
        state.append(f"{BELOW} AND ({' OR '.join([needed, *with_peers])}) AS {_KEPT}")
    texts = [f"{text} AS {quote(name)}" for name, text in stored]
    frame = frame.selectExpr(*names, TIME, *values, *state, *texts)

    shown = f"NOT {PREFIX}before" + (f" AND {PREFIX}released" if view.emit_on_window_close else "")
    bounds = [
        f"{clock.from_ticks(TIME)} AS _window_start",
        f"{clock.from_ticks(f'{PREFIX}end')} AS _window_end",
    ]
    calls = [quote(f.name) for f in over.functions]
    computed = frame.where(shown).selectExpr(*names, *calls, *bounds)
    result = run_query(spark, view.name, over.query_sql, {OVER: computed})
    closed = F.lit(False)
    if watermark is not None:
        reached = F.expr(view.kind.spark_literal(watermark))
        closed = F.coalesce(window_is_closed(F.col("_window_end"), reached), closed)
    result = result.withColumn("_open", ~closed)
    if watermark is None:
        return Evaluation(result, None, frame)
    struct = F.struct(*[F.col(c) for c in [*names, *(quote(name) for name, _ in stored)]])
    return Evaluation(result, frame.where(_KEPT).select(struct.alias(CARRIED)), frame)


def _restored(carried: DataFrame, orderings: Sequence[Ordering]) -> DataFrame:
    """The columns of carried rows, as this release has them."""
    before = carried.select(f"{CARRIED}.*")
    fields = {field.name: getattr(field.dataType, "names", []) for field in before.schema}
    changed = {name: text for o in orderings for name, text in o.restored(fields).items()}
    texts = [f"{changed[n]} AS {quote(n)}" if n in changed else quote(n) for n in before.columns]
    return before.selectExpr(*texts)


def _input(
    rows: DataFrame,
    before: DataFrame | None,
    clock: _Clock,
    frontier: int | None,
    watermark: int | None,
    closed_only: bool,
) -> DataFrame:
    """New rows and those carried from `before`, with their time in ticks and on which side of the watermark it lies."""
    from pyspark.sql import functions as F

    time = F.col(quote(clock.time))
    if frontier is not None:
        rows = rows.where(time >= F.expr(clock.kind.spark_literal(frontier)))
    if closed_only:
        below = F.lit(False) if watermark is None else time < F.expr(clock.kind.spark_literal(watermark))
        rows = rows.where(below)
    rows = rows.withColumn(NEW, F.lit(True))
    if before is not None:
        rows = rows.unionByName(before.withColumn(NEW, F.lit(False)), allowMissingColumns=True)
    rows = rows.withColumn(TIME, F.expr(clock.to_ticks()))
    return rows.withColumn(BELOW, F.lit(False) if watermark is None else F.col(TIME) < F.lit(watermark))


def _orderings(over: Over, rows: DataFrame, stored: bool) -> list[Ordering]:
    """The calls by (PARTITION BY, ORDER BY): each of these is one shuffle and one sort."""
    found: dict[tuple[Sequence[str], Sequence[str]], list[int]] = {}
    for i, function in enumerate(over.functions):
        found.setdefault((function.keys, function.order[1:]), []).append(i)
    partials = _partials(over.functions, rows)
    units = {(f.keys, f.order, f.unit, f.unit == "session" and f.preceding) for f in over.functions}
    several = len(units) > 1
    return [
        Ordering(
            number, keys, rest, over.ties, {i: over.functions[i] for i in members}, partials, stored, several
        )
        for number, ((keys, rest), members) in enumerate(found.items())
    ]


def _partials(functions: Sequence[OverFunction], rows: DataFrame) -> dict[int, Partial]:
    """For each call that has one: its aggregate as a struct, with the types that Spark gives it."""
    found = {}
    for i, f in enumerate(functions):
        if f.function not in (*MERGEABLE, *RANKS):
            continue
        total = result = "bigint"
        if f.argument is not None and f.function in ("sum", "avg"):
            types = rows.selectExpr(f"try_sum({f.argument}) AS s", f"try_avg({f.argument}) AS a").schema
            total, result = (ddl(types[n].dataType) for n in ("s", "a"))
            if total == "bigint":
                total = WIDE
            elif f.function == "avg" and not total.startswith("decimal"):
                total = "double"
        found[i] = Partial(f.function, f.argument, f.ignore_nulls, total, result)
    return found


def _ends(orderings: Sequence[Ordering], watermark: int | None) -> list[str]:
    """From which watermark on the row is final, whether it is now, and whether it was before this tick."""
    specs = [spec for o in orderings for spec in o.specs(watermark)]
    ends = [spec.end for spec in specs]
    unknown = " OR ".join(f"{end} IS NULL" for end in ends)
    latest = ends[0] if len(ends) == 1 else f"IF({unknown}, NULL, greatest({', '.join(ends)}))"
    before = " AND ".join(spec.was_complete for spec in specs)
    released = "false" if watermark is None else f"coalesce({latest} <= {watermark}L, false)"
    return [
        f"{latest} AS {PREFIX}end",
        f"{released} AS {PREFIX}released",
        f"({before}) AS {PREFIX}before",
    ]


@dataclass(frozen=True)
class _Clock:
    """The time column, and its values as integers (ticks of its kind)."""

    time: str
    kind: TimeKind

    def to_ticks(self) -> str:
        """Spark SQL of the time in ticks."""
        if self.kind is TimeKind.EPOCH:
            return f"CAST({quote(self.time)} AS BIGINT)"
        if self.kind is TimeKind.DATE:
            return f"CAST(unix_date({quote(self.time)}) AS BIGINT)"
        return f"unix_micros(CAST({quote(self.time)} AS TIMESTAMP_LTZ))"

    def from_ticks(self, ticks: str) -> str:
        """Spark SQL of the time that so many ticks stand for."""
        if self.kind is TimeKind.EPOCH:
            return ticks
        if self.kind is TimeKind.DATE:
            return f"date_from_unix_date(CAST({ticks} AS INT))"
        instant = f"timestamp_micros({ticks})"
        return instant if self.kind is TimeKind.TIMESTAMPTZ else f"CAST({instant} AS TIMESTAMP_NTZ)"
