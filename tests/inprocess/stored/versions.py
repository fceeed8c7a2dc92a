"""New versions of a stored table (`tidegate/iceberg/versions`), on pyiceberg."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.update import (
    AddPartitionSpecUpdate,
    AddSchemaUpdate,
    RemovePropertiesUpdate,
    SetCurrentSchemaUpdate,
    SetDefaultSpecUpdate,
    SetPropertiesUpdate,
    SetSnapshotRefUpdate,
    TableUpdate,
)

from tidegate.iceberg.versions.numbering import numbered, partitioned

if TYPE_CHECKING:
    from pyiceberg.table import Table, Transaction

    from tidegate.iceberg.versions.swap import VersionSwap


def shape_of_version(of: Table, wanted: Schema, partitions: Sequence[str]) -> tuple[Schema, PartitionSpec]:
    """The columns and partitions of a version of a table."""
    own, new = (json.loads(schema.model_dump_json(by_alias=True)) for schema in (of.schema(), wanted))
    schema = numbered(own, of.metadata.last_column_id, new)
    specs = [json.loads(spec.model_dump_json(by_alias=True)) for spec in of.metadata.partition_specs]
    spec = partitioned(specs, schema, partitions)
    return Schema.model_validate(schema), PartitionSpec.model_validate(spec)


def swapped(transaction: Transaction, version: Table, swap: VersionSwap) -> None:
    """Let the transaction give a table the columns and properties of a version, and its rows of before a name."""
    known = transaction.table_metadata
    updates: list[TableUpdate] = []
    if known.current_snapshot_id is not None:
        updates.append(
            SetSnapshotRefUpdate(ref_name=swap.tag, type="tag", snapshot_id=known.current_snapshot_id)
        )
    number = max(schema.schema_id for schema in known.schemas) + 1
    schema = version.schema().model_copy(update={"schema_id": number})
    updates += [AddSchemaUpdate(schema_=schema), SetCurrentSchemaUpdate(schema_id=-1)]
    fields = version.spec().fields
    if fields not in [spec.fields for spec in known.partition_specs]:
        spec = PartitionSpec(*fields, spec_id=max(one.spec_id for one in known.partition_specs) + 1)
        updates += [AddPartitionSpecUpdate(spec=spec), SetDefaultSpecUpdate(spec_id=-1)]
    updates.append(SetPropertiesUpdate(updates=dict(swap.properties)))
    gone = [key for key in swap.removed if key in known.properties]
    if gone:
        updates.append(RemovePropertiesUpdate(removals=gone))
    transaction._apply(tuple(updates), ())
