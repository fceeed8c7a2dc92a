"""Parquet files read by pyarrow inside the gate's tasks: no row of them passes through the JVM.

Only files whose columns are stored just as the source declares them are read here (`plain`); whatever asks for a
conversion is Spark's to read, with Spark's rules. Executor side, but for `layout_of`: numpy and pyarrow only.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow.fs import FileSystem

from tidegate.engine.sources.reasons import reasons
from tidegate.watermark import Expression

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tidegate.sql.catalog import Relation

#: Spark types and what a file has to hold for them; text may have long offsets.
TYPES: dict[str, tuple[pa.DataType, ...]] = {
    "boolean": (pa.bool_(),),
    "int": (pa.int32(),),
    "bigint": (pa.int64(),),
    "float": (pa.float32(),),
    "double": (pa.float64(),),
    "string": (pa.string(), pa.large_string()),
    "binary": (pa.binary(), pa.large_binary()),
    "date": (pa.date32(),),
    "timestamp": (pa.timestamp("us", tz="UTC"),),
    "timestamp_ntz": (pa.timestamp("us"),),
}
_INTEGERS = ("int", "bigint")
_NAMES = (*_INTEGERS, "string")
#: Rows at a time: enough for numpy, and little memory beside what the writer holds back.
_ROWS = 65_536


@dataclass(frozen=True)
class Layout:
    """What a reader must know of a source: `columns` as (name, Spark type, nullable), and how rows get their place."""

    columns: tuple[tuple[str, str, bool], ...]
    time_column: str | None
    partition_columns: tuple[str, ...]
    order_column: str | None
    changes: bool

    @classmethod
    def of(
        cls, relation: Relation, partition_columns: Sequence[str] = (), order_column: str | None = None
    ) -> Layout:
        """Of a relation; the options name their columns in any case."""
        declared = {c.name.casefold(): c.name for c in relation.columns}
        return cls(
            columns=tuple((c.name, c.type, c.nullable) for c in relation.columns),
            time_column=relation.watermark.column if relation.watermark is not None else None,
            partition_columns=tuple(declared[name.casefold()] for name in partition_columns),
            order_column=declared[order_column.casefold()] if order_column else None,
            changes=bool(relation.primary_key),
        )

    @property
    def placing(self) -> tuple[str, ...]:
        """The columns that say where a row stands."""
        return (*self.partition_columns, *([self.order_column] if self.order_column else []))

    @property
    def supported(self) -> bool:
        """Whether every column's type is read here, and so are those that say where a row stands."""
        types = {name: kind for name, kind, _ in self.columns}
        return (
            all(kind in TYPES for kind in types.values())
            and all(types[name] in _NAMES for name in self.partition_columns)
            and (self.order_column is None or types[self.order_column] in _INTEGERS)
        )


def layout_of(
    relation: Relation, partition_columns: Sequence[str] = (), order_column: str | None = None
) -> Layout | None:
    """How the relation's files are read here; None where something of its rows is Spark's to compute or to convert."""
    computed = any(c.generated is not None for c in relation.columns)
    strategy = relation.watermark.strategy if relation.watermark is not None else None
    if relation.format is None or relation.format.encode != "parquet" or computed:
        return None
    layout = Layout.of(relation, partition_columns, order_column)
    return None if isinstance(strategy, Expression) or not layout.supported else layout


def plain(layout: Layout, schema: pa.Schema) -> bool:
    """Whether a file's columns are what the source declares, to the letter but for case."""
    found: dict[str, list[pa.DataType]] = {}
    for field in schema:
        found.setdefault(field.name.casefold(), []).append(field.type)
    for name, kind, _ in layout.columns:
        types = found.get(name.casefold(), [])
        if len(types) != 1 or types[0] not in TYPES[kind]:
            return False
    return True


@dataclass(frozen=True)
class Unit:
    """One file for a task. `partition`: of all its rows; None if columns say it."""

    path: str
    partition: str | None = None


@dataclass(frozen=True)
class ParquetReader:
    """Turns numbers of `tasks` into the gate's input (`shape.gate_input`); a task's files come in their order.

    `arrival`: µs since the epoch, UTC.
    """

    filesystem: FileSystem
    layout: Layout
    tasks: tuple[tuple[Unit, ...], ...]
    arrival: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for task in batch.column(0).to_pylist():
                for unit in self.tasks[task]:
                    yield from self._read(unit)

    def _read(self, unit: Unit) -> Iterator[pa.RecordBatch]:
        with open_file(self.filesystem, unit.path) as file:
            names = stored_names(file.schema_arrow, [name for name, _, _ in self.layout.columns])
            for batch in file.iter_batches(_ROWS, columns=list(names.values()), use_threads=False):
                yield self._shaped({name: batch.column(stored) for name, stored in names.items()}, unit)

    def _shaped(self, columns: dict[str, pa.Array], unit: Unit) -> pa.RecordBatch:
        layout, n = self.layout, len(next(iter(columns.values())))
        out = dict(columns)
        if layout.changes:
            out["_op"] = pa.array(["upsert"] * n)
        if unit.partition is not None:
            code = pa.array(np.zeros(n, dtype=np.int8))
            out["_source_partition"] = pa.DictionaryArray.from_arrays(code, [unit.partition])
        else:
            out["_source_partition"] = partition_names(columns[c] for c in layout.partition_columns)
        order = layout.order_column
        out["_offset"] = pa.nulls(n, pa.int64()) if order is None else columns[order].cast(pa.int64())
        out["_arrival"] = pa.array(np.full(n, self.arrival)).cast(pa.timestamp("us", tz="UTC"))
        out["_raw"] = pa.nulls(n, pa.string())
        required = [name for name, _, nullable in self.layout.columns if not nullable]
        out["_reason"] = reasons(n, columns, self.layout.time_column, required)
        return pa.RecordBatch.from_pydict(out)


def open_file(filesystem: FileSystem, path: str) -> pq.ParquetFile:
    """A Parquet file; close it."""
    return pq.ParquetFile(path, filesystem=filesystem, pre_buffer=False)


def stored_names(schema: pa.Schema, wanted: Iterable[str]) -> dict[str, str]:
    """Of each wanted column the name that the file has it under, whatever its case."""
    found = {name.casefold(): name for name in schema.names}
    return {name: found[name.casefold()] for name in wanted}


def partition_names(columns: Iterable[pa.Array]) -> pa.Array:
    """The source partition of each row as text, as `shape.partition_name` gives it."""
    parts = [pc.fill_null(column.cast(pa.string()), "(null)") for column in columns]
    if len(parts) > 1:
        parts = [pc.replace_substring(pc.replace_substring(part, "%", "%25"), "/", "%2F") for part in parts]
        return pc.binary_join_element_wise(*parts, "/")
    return parts[0]
