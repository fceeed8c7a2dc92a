"""What amendments have changed of the windows that a sink has delivered (B2).

A view's table has every revision of every window that was ever amended, and for each of them one row that says which
amendment made it (`views/revisions/revisions.py`). So what a sink has delivered, and what it has to deliver in its
place, can both be read later: as of any amendment, whatever the next one has changed since.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidegate.iceberg.layout import quote, ticks_of
from tidegate.sql.dialect.inner_names import inner
from tidegate.views.revisions.revisions import ROW, WINDOW, beside_units, has_revisions, units

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tidegate.sql.catalog.objects import View
    from tidegate.store.positions import Position

#: Beside a view's columns: which revision of its window a row is of, and which amendment has written it (0: none).
NUMBER, AMENDMENT = inner("number"), inner("amendment")
_THEN, _NEWEST = inner("then"), inner("newest")


@dataclass(frozen=True)
class Amended:
    """Windows that were amended since a sink delivered them. `windows`: one line for each, with the columns of `units`,
    `NUMBER` and `AMENDMENT` of its newest revision; `count` of them, which lie from `low` to `high` (ticks of
    `bound_of`)."""

    windows: DataFrame
    count: int
    low: int
    high: int


def amended(stored: DataFrame, view: View, delivered: Position, upto: int) -> Amended | None:
    """What the amendments up to number `upto` have changed that a sink at `delivered` has not followed yet; None if
    there is nothing. Windows that the sink has yet to come to are not among them: it delivers them as they are then."""
    from pyspark.sql import functions as F

    if delivered.tick == 0 or upto <= delivered.amendments or not has_revisions(stored):
        return None
    windows = revised(stored, view, delivered.amendments, upto)
    windows = windows.where(F.col("_tick") <= delivered.tick).drop("_tick", _THEN)
    bound = bound_of(view)
    if delivered.since is not None and bound == "_window_end":
        windows = windows.where(F.col("_window_end") > F.expr(view.kind.spark_literal(delivered.since)))
    end = ticks_of(bound, view.kind)
    sums = windows.agg(F.count(F.lit(1)).alias("n"), F.min(end).alias("low"), F.max(end).alias("high"))
    found = sums.first()
    if found is None or not found["n"]:
        return None
    return Amended(windows, found["n"], found["low"], found["high"])


def bound_of(view: View) -> str:
    """The column that says where in time a unit is: rows of OVER windows can be released anew at another one."""
    return "_window_start" if view.over is not None else "_window_end"


def revised(stored: DataFrame, view: View, after: int, upto: int | None = None) -> DataFrame:
    """One line for each window that was amended later than by amendment `after` (and by `upto` at the latest): the
    columns of `units`; of its newest revision `NUMBER`, `AMENDMENT` and `_tick`, the commit that its rows count to;
    and `_THEN`: its newest as of `after`."""
    from pyspark.sql import functions as F

    made, number = F.col("_revision.amendment"), F.col("_revision.number")
    marks = stored.where(F.col("_open").isNull() & (F.col("_revision.kind") == WINDOW))
    if upto is not None:
        marks = marks.where(made <= upto)
    found = marks.groupBy(*map(quote, units(view))).agg(
        F.max(F.struct(made.alias("made"), number.alias("number"), "_tick")).alias(_NEWEST),
        F.coalesce(F.max(F.when(made <= after, number)), F.lit(1)).alias(_THEN),
    )
    return found.where(F.col(_NEWEST)["made"] > after).select(
        *map(quote, units(view)),
        F.col(_NEWEST)["number"].alias(NUMBER),
        F.col(_NEWEST)["made"].alias(AMENDMENT),
        F.col(_NEWEST)["_tick"].alias("_tick"),
        _THEN,
    )


def as_of(stored: DataFrame, view: View, amendment: int, newest: int) -> DataFrame:
    """The closed rows of a view's table as they were after so many of its `newest` amendments, with `NUMBER` and
    `AMENDMENT`."""
    from pyspark.sql import functions as F

    if not has_revisions(stored):
        facts = {NUMBER: F.lit(1).cast("bigint"), AMENDMENT: F.lit(0).cast("bigint")}
        return stored.where(~F.col("_open")).withColumns(facts)
    facts = {
        NUMBER: F.coalesce("_revision.number", F.lit(1)),
        AMENDMENT: F.coalesce("_revision.amendment", F.lit(0)),
    }
    rows = stored.withColumns(facts)
    current = rows.where(~F.col("_open") & (F.col(AMENDMENT) <= amendment))
    if newest <= amendment:
        return current
    replaced = rows.where(F.col("_open").isNull() & (F.col("_revision.kind") == ROW))
    then = beside_units(replaced, revised(stored, view, amendment), view, [_THEN])
    return current.unionByName(then.where(F.col(NUMBER) == F.col(_THEN)).drop(_THEN))
