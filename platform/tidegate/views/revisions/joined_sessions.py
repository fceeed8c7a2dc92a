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


def keys_of(view: View) -> list[str]:
    """The columns that a session's rows have in common: its groups but the bounds of its window, which are others for
    each session of a key."""
    bounds = {c.column for c in view.watermarks}
    return [name for name in view.group_columns if name not in bounds]


def overlapping(view: View, rows: DataFrame, others: DataFrame, added: Sequence[str]) -> DataFrame:
    """The sessions among `rows` that have a time in common with one of `others` of the same key; with `added`, pairs
    of both, where a column of the other is called `inner("other" + column)`."""
    from pyspark.sql import functions as F

    keys = keys_of(view)
    there = others.select(
        F.col("_window_start").alias(_FROM),
        F.col("_window_end").alias(_TO),
        *[F.col(quote(name)).alias(inner(f"key{i}")) for i, name in enumerate(keys)],
        *[F.col(name).alias(inner("other" + name)) for name in added],
    )
    same = (F.col("_window_start") < F.col(_TO)) & (F.col("_window_end") > F.col(_FROM))
    for i, name in enumerate(keys):
        same = same & F.col(quote(name)).eqNullSafe(F.col(inner(f"key{i}")))
    return rows.join(there, same, "inner" if added else "left_semi")


def with_replaced_tick(found: DataFrame, view: View, now: DataFrame, then: DataFrame) -> DataFrame:
    """`found`, a line for each session, with `REPLACED_TICK`: the last commit of the sessions `then` of its key and
    time. A sink that has not delivered one of them delivers the session `now` in its place. NULL where there are
    none."""
    from pyspark.sql import functions as F

    own = [quote(name) for name in units(view)]
    pairs = overlapping(view, now.select(*own), then, ["_tick"])
    ticks = pairs.groupBy(*own).agg(F.max(inner("other_tick")).alias(REPLACED_TICK))
    return beside_units(found, ticks, view, [REPLACED_TICK], "left")
