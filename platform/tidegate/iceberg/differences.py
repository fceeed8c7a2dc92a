"""Rows of two frames, paired: equal ones, those that differ within floating point only, and those without a partner."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tidegate.iceberg.layout import quote
from tidegate.sql.dialect.inner_names import inner

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

#: What became of a row, beside its columns.
KIND = inner("kind")
_RELATIVE, _ABSOLUTE = 1e-9, 1e-12
_FLOATS = ("double", "float")


def differences(now: DataFrame, then: DataFrame, names: Sequence[str]) -> DataFrame:
    """One line for each row of either side, pairs of equal rows as one, with `KIND`: equal, missing, unexpected or
    different. Rows are paired by their exact columns, among equals in the order of their floating-point ones."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    floats = [f.name for f in then.schema.fields if f.name in names and f.dataType.typeName() in _FLOATS]
    exact = [name for name in names if name not in floats]
    sides = [
        frame.select(
            *[comparable(frame, name).alias(f"e{i}") for i, name in enumerate(exact)],
            *[F.col(quote(name)).cast("double").alias(f"f{i}") for i, name in enumerate(floats)],
            F.lit(side).alias("side"),
        )
        for frame, side in ((now, "now"), (then, "then"))
    ]
    keys = [f"e{i}" for i in range(len(exact))]
    numbers = [f"f{i}" for i in range(len(floats))]
    order = Window.partitionBy(*keys, "side").orderBy(*(map(F.col, numbers) if numbers else [F.lit(1)]))
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
        kind.alias(KIND),
        *[F.col(key).alias(name) for key, name in zip(keys, exact, strict=True)],
        *[shown[number].alias(name) for number, name in zip(numbers, floats, strict=True)],
    )


def comparable(frame: DataFrame, name: str) -> Column:
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
