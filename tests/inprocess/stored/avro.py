"""What pyiceberg works out of an Avro schema, worked out once: every manifest has one of a few schemas, and reading and
writing the few rows below it costs less than that."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from pyiceberg.avro import file as avro
from pyiceberg.manifest import ManifestWriter, data_file_with_partition, manifest_entry_schema_with_data_file
from pyiceberg.schema import Schema
from pyiceberg.types import StructType
from pyiceberg.utils.schema_conversion import AvroSchemaConversion

_AT_MOST = 1_000


@lru_cache(_AT_MOST)
def _schema_of(text: str) -> Schema:
    return AvroSchemaConversion().avro_to_iceberg(json.loads(text))


def _get_schema(header: avro.AvroFileHeader) -> Schema:
    if avro._SCHEMA_KEY not in header.meta:
        raise ValueError("No schema found in Avro file headers")
    return _schema_of(header.meta[avro._SCHEMA_KEY])


def _once(make: Callable[..., Any]) -> Callable[..., Any]:
    """As a function of schemas that last as long as the process, and of what stands for the types in them. Its results
    keep nothing of what they are used for."""
    known: dict[Any, tuple[Any, Any]] = {}

    def made(*given: Any, **named: Any) -> Any:
        key = tuple(map(_key, given)), *((name, _key(one)) for name, one in named.items())
        if key not in known:
            if len(known) >= _AT_MOST:
                known.clear()
            # What is kept alive has its id for itself.
            known[key] = (given, named), make(*given, **named)
        return known[key][1]

    return made


def _key(given: Any) -> Any:
    if isinstance(given, str):
        return given
    return tuple(given.items()) if isinstance(given, dict) else id(given)


def _with_partition(writer: ManifestWriter, format_version: int) -> Schema:
    """As pyiceberg's: of manifests whose files have partitions of the same type it is the same object."""
    types = {field.field_id: field.field_type for field in writer._schema.fields}
    fields = writer._spec.fields
    if not all(field.source_id in types for field in fields):
        return _entries(format_version, writer._spec.partition_type(writer._schema))
    key = tuple((f.field_id, f.name, str(f.transform), str(types[f.source_id])) for f in fields)
    known = _partitions.get((format_version, key))
    if known is None:
        known = _entries(format_version, writer._spec.partition_type(writer._schema))
        _partitions[format_version, key] = known
    return known


#: Schemas of manifests by their version and partition.
_partitions: dict[tuple[int, Any], Schema] = {}


def _entries(version: Any, partition: StructType) -> Schema:
    return manifest_entry_schema_with_data_file(
        format_version=version,
        data_file=data_file_with_partition(format_version=version, partition_type=partition),
    )


class _Conversion(AvroSchemaConversion):
    """As pyiceberg's; what it gives is only written."""

    iceberg_to_avro = staticmethod(_once(AvroSchemaConversion().iceberg_to_avro))


def work_out_once() -> None:
    """From now on, in this process."""
    avro.AvroFileHeader.get_schema = _get_schema  # type: ignore[method-assign]
    avro.construct_reader = _once(avro.construct_reader)
    avro.resolve_reader = _once(avro.resolve_reader)
    avro.construct_writer = _once(avro.construct_writer)
    avro.resolve_writer = _once(avro.resolve_writer)
    avro.AvroSchemaConversion = _Conversion  # type: ignore[misc]
    ManifestWriter._with_partition = _with_partition  # type: ignore[assignment,method-assign]
