"""The files of stored tables, for the runner without a JVM: what is in them, and how Iceberg describes them."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyiceberg.exceptions import ValidationException
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.transforms import DayTransform
from pyiceberg.typedef import Record

from tidegate.iceberg.data_files import ordinary

if TYPE_CHECKING:
    from pyiceberg.table import Table as PyTable


def schema_of(table: PyTable, number: int | None = None) -> pa.Schema:
    """Of a stored table, with Iceberg's ids. `number`: of an earlier schema."""
    return ordinary(arrow_schema(table, number))


def arrow_schema(table: PyTable, number: int | None = None) -> pa.Schema:
    """As Iceberg has it. A schema of a table is never another one."""
    return _arrow_schema(_Hashed(table), table.metadata.current_schema_id if number is None else number)


@lru_cache(1024)
def _arrow_schema(key: _Hashed, number: int) -> pa.Schema:
    return schema_to_pyarrow(key.table.schemas()[number])


def path_of(uri: str) -> str:
    return uri.removeprefix("file://").removeprefix("file:")


def files_of(table: PyTable, snapshot: int) -> Sequence[Any]:
    """What a snapshot is made of, which never changes. Raises ValidationException for one that the table, as it was
    loaded, does not have."""
    if table.snapshot_by_id(snapshot) is None:
        raise ValidationException(f"Cannot find snapshot with ID {snapshot}")
    return planned(_Hashed(table), snapshot)


class _Hashed:
    """A table as the key of what is known of its snapshots: by its identity, whatever its newest version is."""

    def __init__(self, table: PyTable) -> None:
        self.table = table
        self._key = table.metadata.table_uuid

    def __hash__(self) -> int:
        return hash(self._key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Hashed) and self._key == other._key


@lru_cache(512)
def planned(key: _Hashed, snapshot: int) -> Sequence[Any]:
    return list(key.table.scan(snapshot_id=snapshot).plan_files())


@lru_cache(512)
def stored(path: str) -> pa.Table:
    """A data file on this machine. It is never written again, and its name is no other one's."""
    return pq.read_table(path, partitioning=None, use_threads=False)


def forget_files() -> None:
    """Read everything anew: files have gone."""
    planned.cache_clear()
    stored.cache_clear()
    _arrow_schema.cache_clear()


def summary_of(snapshot: Any) -> dict[str, str]:
    """What a snapshot says of itself; nothing without one."""
    if snapshot is None or snapshot.summary is None:
        return {}
    return {"operation": snapshot.summary.operation.value, **snapshot.summary.additional_properties}


def data_file(
    uri: str, partition: list[Any], rows: int, size: int, low: dict[int, bytes], high: dict[int, bytes]
) -> DataFile:
    file = DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=uri,
        file_format=FileFormat.PARQUET,
        partition=Record(*partition),
        record_count=rows,
        file_size_in_bytes=size,
        column_sizes=None,
        value_counts=None,
        null_value_counts=None,
        nan_value_counts=None,
        lower_bounds=low,
        upper_bounds=high,
        key_metadata=None,
        split_offsets=None,
        equality_ids=None,
        sort_order_id=None,
    )
    file.spec_id = 0
    return file


def bound_of(bounds: Mapping[int, bytes] | None, field: int) -> int | None:
    return struct.unpack("<q", bounds[field])[0] if bounds and field in bounds else None


def conformed(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """In the columns of the table, by Iceberg's ids, and by name if the rows have none; those that came later are
    NULL."""
    columns = []
    numbered = {known: at for at, field in enumerate(table.schema) if (known := _id_of(field)) is not None}
    named = {} if numbered else {name: at for at, name in enumerate(table.column_names)}
    for field in schema:
        at = numbered.get(_id_of(field)) if numbered else named.get(field.name)
        if at is not None:
            columns.append(_like(table.column(at), field.type))
        else:
            columns.append(pa.chunked_array([pa.nulls(table.num_rows, field.type)]))
    return pa.table(columns, schema=pa.schema([field.remove_metadata() for field in schema]))


def _id_of(field: pa.Field) -> bytes | None:
    return (field.metadata or {}).get(b"PARQUET:field_id")


def _like(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    if column.type == kind:
        return column
    if pa.types.is_struct(kind):
        array = column.combine_chunks()
        there = {f.name for f in array.type}
        fields = [
            _like(pa.chunked_array([array.field(f.name)]), f.type).combine_chunks()
            if f.name in there
            else pa.nulls(len(array), f.type)
            for f in kind
        ]
        names = [f.name for f in kind]
        return pa.chunked_array([pa.StructArray.from_arrays(fields, names, mask=array.is_null())])
    return column.cast(kind)


def split(rows: pa.Table, table: PyTable) -> Iterator[tuple[pa.Table, list[Any]]]:
    """Rows by the partition that they belong to."""
    keys = []
    for field in table.spec().fields:
        column = rows.column(table.schema().find_column_name(field.source_id) or "")
        by_day = isinstance(field.transform, DayTransform)
        keys.append(column.cast(pa.date32()).cast(pa.int32()) if by_day else column)
    if not keys:
        if rows.num_rows:
            yield rows, []
        return
    found = pa.table(keys, names=[str(i) for i in range(len(keys))])
    for partition in found.group_by(found.column_names).aggregate([]).to_pylist():
        where = pa.chunked_array([pa.array([True] * rows.num_rows, pa.bool_())])
        for key, value in zip(keys, partition.values(), strict=True):
            where = pc.and_(where, pc.is_null(key) if value is None else pc.equal(key, value))
        yield rows.filter(pc.fill_null(where, False)), list(partition.values())
