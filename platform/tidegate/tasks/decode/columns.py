"""The columns that a source's input has, as its readers see them. Executor side, but for what is made of a relation."""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from tidegate.tasks.decode.reasons import misfit
from tidegate.watermark import Expression

if TYPE_CHECKING:
    from tidegate.sql.catalog.objects import CatalogColumn, Relation


class Wanted(NamedTuple):
    """A declared column: its Arrow type, and its type as people wrote it. `required`: a row in which it is NULL is
    rejected. `optional`: a file need not have it, nor say so: it was taken in."""

    name: str
    type: pa.DataType
    sql: str = ""
    required: bool = False
    optional: bool = False

    @property
    def misfit(self) -> str:
        """The reason of a row with a value that does not fit."""
        return misfit(self.name, self.sql or str(self.type))


def stored_columns(relation: Relation) -> list[CatalogColumn]:
    """Columns that are in the input: all but the generated ones. Driver side."""
    return [c for c in relation.columns if c.generated is None]


def exact_names(relation: Relation) -> bool:
    """Whether names of its input that differ by case are names of several columns. Driver side."""
    form = relation.format
    return form is not None and form.encode == "json" and form.options.get("case") != "insensitive"


def computed(relation: Relation) -> bool:
    """Whether Spark computes something of its rows: a generated column, or how far the watermark is behind. Driver
    side."""
    strategy = relation.watermark.strategy if relation.watermark is not None else None
    return len(stored_columns(relation)) < len(relation.columns) or isinstance(strategy, Expression)


def required_columns(relation: Relation) -> frozenset[str]:
    """Columns without which a row is rejected: those that are NOT NULL, and the watermark's. Driver side."""
    time_column = relation.watermark.column if relation.watermark is not None else None
    return frozenset(c.name for c in relation.columns if not c.nullable or c.name == time_column)


def wanted_of(columns: Iterable[CatalogColumn], required: Container[str] = ()) -> tuple[Wanted, ...]:
    """What a task must know of the declared columns. Driver side."""
    from pyspark.sql.pandas.types import to_arrow_type
    from pyspark.sql.types import DataType

    from tidegate.sql.dialect.types import display

    return tuple(
        Wanted(
            c.name, to_arrow_type(DataType.fromDDL(c.type)), display(c.type), c.name in required, c.taken_in
        )
        for c in columns
    )
