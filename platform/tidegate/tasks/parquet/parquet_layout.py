"""What tasks must know of a source to read its Parquet files. Executor side, but for what makes it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidegate.tasks.decode.columns import Wanted, computed, required_columns, wanted_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tidegate.sql.catalog.objects import Relation

#: Spark types of columns whose rows need not pass through the JVM.
_PLAIN = [
    "boolean",
    "int",
    "bigint",
    "float",
    "double",
    "string",
    "binary",
    "date",
    "timestamp",
    "timestamp_ntz",
]
_INTEGERS = ("int", "bigint")
_NAMES = (*_INTEGERS, "string")


@dataclass(frozen=True)
class Layout:
    """What the gate's tasks must know of a source: `columns` as (name, Spark type, nullable), and how rows get their
    place. A row that does not parse is in the partition `unknown` if columns say it."""

    columns: tuple[tuple[str, str, bool], ...]
    wanted: tuple[Wanted, ...]
    time_column: str | None
    partition_columns: tuple[str, ...]
    order_column: str | None
    changes: bool
    unknown: str

    @property
    def placing(self) -> tuple[Wanted, ...]:
        """The columns that say where a row stands."""
        names = {*self.partition_columns, self.order_column}
        return tuple(column for column in self.wanted if column.name in names)

    @property
    def supported(self) -> bool:
        """Whether every column's type is read here, and so are those that say where a row stands."""
        types = {name: kind for name, kind, _ in self.columns}
        return (
            all(kind in _PLAIN for kind in types.values())
            and all(types[name] in _NAMES for name in self.partition_columns)
            and (self.order_column is None or types[self.order_column] in _INTEGERS)
        )


def layout_of(
    relation: Relation, partition_columns: Sequence[str] = (), order_column: str | None = None
) -> Layout | None:
    """How the gate's tasks read the relation's files; None where something of its rows is Spark's to compute. The
    options name their columns in any case. Driver side."""
    from tidegate.store.holding import UNKNOWN_PARTITION

    if relation.format is None or relation.format.encode != "parquet" or computed(relation):
        return None
    declared = {c.name.casefold(): c.name for c in relation.columns}
    layout = Layout(
        columns=tuple((c.name, c.type, c.nullable) for c in relation.columns),
        wanted=wanted_of(relation.columns, required_columns(relation)),
        time_column=relation.watermark.column if relation.watermark is not None else None,
        partition_columns=tuple(declared[name.casefold()] for name in partition_columns),
        order_column=declared[order_column.casefold()] if order_column else None,
        changes=bool(relation.primary_key),
        unknown=UNKNOWN_PARTITION,
    )
    return layout if layout.supported else None
