"""Other columns of a stored table (`tidegate/iceberg/table_change.py`), in a transaction of pyiceberg."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.inprocess.stored.columns import schema_in
from tidegate.iceberg.table_change import TableChange

if TYPE_CHECKING:
    from pyiceberg.table import Transaction
    from pyiceberg.types import IcebergType
    from pyspark.sql import SparkSession


def changed(transaction: Transaction, change: TableChange, spark: SparkSession) -> None:
    """Let the transaction change the table."""

    def kind(spark_type: str) -> IcebergType:
        return schema_in(spark, [("c", spark_type)]).fields[0].field_type

    with transaction.update_schema() as update:
        for name in change.dropped:
            update.delete_column(name)
    with transaction.update_schema() as update:
        before = {new: old for old, new in change.renamed}
        for old, new in change.renamed:
            update.rename_column(old, new)
        for (name, *rest), wider in change.widened:
            update.update_column((before.get(name, name), *rest), kind(wider))
    with transaction.update_schema() as update:
        for path, added in change.added:
            update.add_column(path, kind(added))
    with transaction.update_schema() as update:
        if change.order:
            update.move_first(change.order[0])
        for name, behind in zip(change.order[1:], change.order, strict=False):
            update.move_after(name, behind)
    if change.properties:
        transaction.set_properties(**change.properties)
