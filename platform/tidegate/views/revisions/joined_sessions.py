"""Sessions that stand in the place of others: late rows have joined them, or they close once more (B2, W9)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tidegate.iceberg.layout import quote
from tidegate.sql.dialect.inner_names import inner
from tidegate.views.revisions.revisions import beside_units, units

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tidegate.sql.catalog.objects import View

#: Of a session, the last commit of those that it takes the place of.
REPLACED_TICK = inner("replaced_tick")
_FROM, _TO = inner("from"), inner("to")


def overlapping(view: View, rows: DataFrame, others: DataFrame, added: Sequence[str]) -> DataFrame:
    """The sessions among `rows` that have a time in common with one of `others` of the same key; with `added`, pairs
    of both, where a column of the other is called `inner("other" + column)`. (A key that the view does not show nobody
    can compare.)"""
    from pyspark.sql import functions as F

    there = others.select(
        F.col("_window_start").alias(_FROM),
        F.col("_window_end").alias(_TO),
        *[F.col(quote(name)).alias(inner(f"key{i}")) for i, name in enumerate(view.session_keys)],
        *[F.col(name).alias(inner("other" + name)) for name in added],
    )
    same = (F.col("_window_start") < F.col(_TO)) & (F.col("_window_end") > F.col(_FROM))
    for i, name in enumerate(view.session_keys):
        same = same & F.col(quote(name)).eqNullSafe(F.col(inner(f"key{i}")))
    return rows.join(there, same, "inner" if added else "left_semi")


def with_replaced_tick(found: DataFrame, view: View, gone: DataFrame) -> DataFrame:
    """`found`, a line for each session, with `REPLACED_TICK` for one that was not there before (whose `_tick` is NULL):
    the last commit of the sessions of its key and time that are `gone`. A sink that has not delivered one of them
    delivers the new session in its place. NULL where there are none."""
    from pyspark.sql import functions as F

    own = [quote(name) for name in units(view)]
    new = found.where(F.col("_tick").isNull()).select(*own)
    pairs = overlapping(view, new, gone, ["_tick"])
    ticks = pairs.groupBy(*own).agg(F.max(inner("other_tick")).alias(REPLACED_TICK))
    return beside_units(found, ticks, view, [REPLACED_TICK], "left")
