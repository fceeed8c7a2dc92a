"""Columns of stored tables: what Iceberg makes of their types in SQL, and of what a table is split by."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyiceberg.io.pyarrow import _ConvertToIcebergWithoutIDs, visit_pyarrow
from pyiceberg.partitioning import PartitionField
from pyiceberg.schema import Schema, assign_fresh_schema_ids
from pyiceberg.transforms import DayTransform, IdentityTransform

from tidegate.iceberg.layout import quote

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: By names and types.
_SCHEMAS: dict[tuple[tuple[str, str], ...], Schema] = {}


def schema_in(spark: SparkSession, columns: Sequence[tuple[str, str]]) -> Schema:
    """Of columns, given as names and types in SQL."""
    key = tuple((name, kind) for name, kind in columns)
    if key not in _SCHEMAS:
        text = ", ".join(f"CAST(NULL AS {kind}) AS {quote(name)}" for name, kind in columns)
        arrow = spark.sql(f"SELECT {text}").limit(0).toArrow().schema
        _SCHEMAS[key] = assign_fresh_schema_ids(visit_pyarrow(arrow, _ConvertToIcebergWithoutIDs()))
    return _SCHEMAS[key]


def partition_field(schema: Schema, number: int, part: str) -> PartitionField:
    days = re.fullmatch(r"days\((.*)\)", part)
    quoted = days.group(1) if days else part
    name = quoted[1:-1].replace("``", "`") if quoted.startswith("`") else quoted
    source = schema.find_field(name).field_id
    transform = DayTransform() if days else IdentityTransform()
    return PartitionField(source, 1000 + number, transform, f"{name}_day" if days else name)
