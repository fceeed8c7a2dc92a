"""The columns of a table that a sink writes, where its view has a new version (E6)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tidegate.errors import TidegateError
from tidegate.iceberg.layout import ddl, quote
from tidegate.plan.columns.changes import is_wider
from tidegate.sql.dialect.inner_names import inner

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from tidegate.runtime.context import Context
    from tidegate.sql.catalog.objects import Sink

_HERE, _THERE = inner("here"), inner("there")


def misfits(stored: Sequence[tuple[str, str]], wanted: Sequence[tuple[str, str]]) -> list[str]:
    """The columns (name, Spark DDL) that a table has as another type, which can't hold the values of the wanted one and
    can't be widened to it, in words."""
    known = dict(stored)
    return [
        f"column {name} is {known[name]} there, and {kind} in the new version"
        for name, kind in wanted
        if name in known and not fits(known[name], kind)
    ]


def fits(stored: str, wanted: str) -> bool:
    """Whether a column of one type can take the values of the other, now or once it is widened (E3)."""
    return stored == wanted or is_wider(stored, wanted) or is_wider(wanted, stored)


def add_columns(context: Context, sink: Sink, identifier: str, wanted: Sequence[tuple[str, str]]) -> None:
    """Let the table of a sink have these columns, in its metadata alone. Raises TG541 for one that it has as another
    type; nothing is changed then."""
    fields = context.spark.table(identifier).schema.fields
    stored = [(field.name, ddl(field.dataType)) for field in fields]
    if wrong := misfits(stored, wanted):
        raise TidegateError(
            "TG541",
            f'"{sink.name}" can\'t deliver into {identifier}: {"; ".join(wrong)}',
            hint="give the sink a table of its own: WITH (table = '…')",
            location=sink.location,
        )
    known = dict(stored)
    missing = [f"{quote(name)} {kind}" for name, kind in wanted if name not in known]
    if missing:
        context.spark.sql(f"ALTER TABLE {identifier} ADD COLUMNS ({', '.join(missing)})")
    for name, kind in wanted:
        if name in known and is_wider(known[name], kind):
            context.spark.sql(f"ALTER TABLE {identifier} ALTER COLUMN {quote(name)} TYPE {kind}")


def different_windows(stored: DataFrame, wanted: DataFrame, bounds: Sequence[str]) -> DataFrame:
    """The windows (`bounds`) of which one frame has a row, or so many equal ones, that the other has not. Both have the
    same columns."""
    from pyspark.sql import functions as F

    names = stored.columns
    same = F.lit(True)
    left, right = _numbered(stored, "l"), _numbered(wanted, "r")
    for i in range(len(names) + 1):
        same = same & F.col(inner(f"l{i}")).eqNullSafe(F.col(inner(f"r{i}")))
    left, right = left.withColumn(_HERE, F.lit(True)), right.withColumn(_THERE, F.lit(True))
    joined = left.join(right, same, "full").where(F.col(_HERE).isNull() | F.col(_THERE).isNull())
    here = [inner(f"l{names.index(name)}") for name in bounds]
    there = [inner(f"r{names.index(name)}") for name in bounds]
    return joined.select(
        *[
            F.when(F.col(_HERE), F.col(one)).otherwise(F.col(other)).alias(name)
            for name, one, other in zip(bounds, here, there, strict=True)
        ]
    ).distinct()


def _numbered(frame: DataFrame, side: str) -> DataFrame:
    """The columns under names of their own, as what can be compared, and which of several equal rows it is."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    columns = [_comparable(frame, name).alias(inner(f"{side}{i}")) for i, name in enumerate(frame.columns)]
    found = frame.select(*columns)
    equal = Window.partitionBy(*found.columns).orderBy(F.lit(0))
    return found.withColumn(inner(f"{side}{len(columns)}"), F.row_number().over(equal))


def _comparable(frame: DataFrame, name: str) -> Column:
    """Maps can't be compared; their texts can."""
    from pyspark.sql import functions as F

    column = F.col(quote(name))
    return column.cast("string") if "map<" in dict(frame.dtypes)[name] else column
