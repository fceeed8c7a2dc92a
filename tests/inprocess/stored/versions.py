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

from tests.inprocess.stored.files import files_of
from tidegate.iceberg.versions.numbering import numbered, partitioned
from tidegate.iceberg.versions.swap import DATA_PATH, KEEP_FILES, VERSION, VersionStart

if TYPE_CHECKING:
    from pyiceberg.table import Table, Transaction

    from tests.inprocess.stored.catalog import FolderCatalog
    from tidegate.iceberg.layout import NewTable
    from tidegate.iceberg.versions.swap import VersionSwap

#: A fenced commit is not tried again.
OWN = {"commit.retry.num-retries": "0"}


def shape_of_version(
    of: Table, wanted: Schema, partitions: Sequence[str], start: VersionStart | None
) -> tuple[Schema, PartitionSpec]:
    """The columns and partitions of a version of a table."""
    own, new = (json.loads(schema.model_dump_json(by_alias=True)) for schema in (of.schema(), wanted))
    schema = numbered(own, of.metadata.last_column_id, new)
    if start is not None:
        then = of.schemas()[of.snapshot_by_name(start.tag).schema_id]  # type: ignore[union-attr]
        schema = json.loads(then.model_dump_json(by_alias=True)) | {"schema-id": 0}
    specs = [json.loads(spec.model_dump_json(by_alias=True)) for spec in of.metadata.partition_specs]
    spec = partitioned(specs, schema, partitions)
    return Schema.model_validate(schema), PartitionSpec.model_validate(spec)


def make_version(
    catalog: FolderCatalog,
    table: NewTable,
    names: tuple[tuple[str, ...], tuple[str, ...]],
    wanted: Schema,
    number: int,
    start: VersionStart | None,
) -> None:
    """`names`: of the version's table, and of the one whose version it is. One that is half made is finished."""
    beside, current = names[0], catalog.open(names[1])
    if not catalog.exists(beside):
        shape = shape_of_version(current, wanted, table.partitions, start)
        facts = {DATA_PATH: f"{current.location()}/data", **KEEP_FILES, **OWN}
        properties = {k: v for k, v in table.properties.items() if k != "format-version"}
        catalog.make(beside, *shape, {**properties, **facts}, keep_ids=True)
    if VERSION not in catalog.open(beside).properties:
        begun(catalog.open(beside), current, number, start)


def begun(made: Table, of: Table, number: int, start: VersionStart | None) -> None:
    """The last step of making the table of a version: what it begins with."""
    with made.transaction() as change:
        change.set_properties(**{VERSION: str(number)})
        if start is not None:
            at = of.snapshot_by_name(start.tag)
            assert at is not None
            with change.update_snapshot(snapshot_properties=dict(start.summary)).fast_append() as update:
                for task in files_of(of, at.snapshot_id):
                    update.append_data_file(task.file)


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
