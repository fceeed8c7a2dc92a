"""Another schema of a stored table (E1-E3), in the same commit as what else a commit has: files, and what its summary
says (E7). Columns keep Iceberg's ids: whoever reads by them finds in every file what is meant, whatever it was called
when the file was written (E2)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tidegate.iceberg.attempt import overtaken
from tidegate.iceberg.layout import quote
from tidegate.jvm.java import java_class
from tidegate.plan.columns.changes import ColumnChange, Place, inside


@dataclass(frozen=True)
class TableChange:
    """Columns that go; (old, new name) of those that are renamed; (path, Spark type) of what is widened and added, by
    new names: a column's name, or that and names inside of its type; all names in their new `order`; table `properties`
    to set, and how the table has to have some of them when the commit is made (`expected`; None: not at all), else it
    is TG502."""

    dropped: tuple[str, ...] = ()
    renamed: tuple[tuple[str, str], ...] = ()
    widened: tuple[Place, ...] = ()
    added: tuple[Place, ...] = ()
    order: tuple[str, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    expected: Mapping[str, str | None] = field(default_factory=dict)

    @classmethod
    def of(
        cls, changes: Sequence[ColumnChange], order: Sequence[str], properties: Mapping[str, str]
    ) -> TableChange:
        """Of the columns of a source or table, as its definitions differ."""

        dropped = tuple(c.column for c in changes if c.kind == "drop")
        renamed = tuple((c.column, c.to or "") for c in changes if c.kind == "rename")
        added: list[Place] = [((c.column,), c.to or "") for c in changes if c.kind == "add"]
        widened: list[Place] = []
        for change in changes:
            if change.kind == "widen":
                wider, new = inside(change.column, change.was or "", change.to or "")
                widened += wider
                added += new
        return cls(dropped, renamed, tuple(widened), tuple(added), tuple(order), properties)


def change_table(jvm: Any, table: Any, change: TableChange, transaction: Any) -> None:
    """Put a change of the table into a transaction of Iceberg's Java, before its rows. Raises TG502 if a property is
    not as expected."""
    now = table.properties()
    if any(now.get(key) != value for key, value in change.expected.items()):
        raise overtaken(str(table.name()))
    # One after the other: a name must be free before another column can have it.
    for part in _parts(jvm, change, list(_names(table)), transaction):
        part.commit()
    properties = transaction.updateProperties()
    for key, value in change.properties.items():
        properties = properties.set(key, value)
    properties.commit()


def names_at(table: Any, snapshot: int) -> dict[str, str]:
    """Of a table of Iceberg's Java: see `StoredTable.names_at`."""
    then = table.schemas().get(table.snapshot(snapshot).schemaId())
    found = ((str(column.name()), then.findField(column.fieldId())) for column in table.schema().columns())
    return {name: str(field.name()) for name, field in found if field is not None}


def _names(table: Any) -> Iterator[str]:
    for column in table.schema().columns():
        yield str(column.name())


def _parts(jvm: Any, change: TableChange, names: list[str], transaction: Any) -> Iterator[Any]:
    """Iceberg's updates of the schema, each of what the one before it has made."""
    if change.dropped:
        update = transaction.updateSchema()
        for name in change.dropped:
            update = update.deleteColumn(name)
        yield update
    if change.renamed or change.widened:
        update, before = transaction.updateSchema(), {new: old for old, new in change.renamed}
        for old, new in change.renamed:
            update = update.renameColumn(old, new)
        for (name, *rest), kind in change.widened:
            # By the name that it has before this update.
            path = ".".join([before.get(name, name), *rest])
            update = update.updateColumn(path, _iceberg_type(jvm, kind))
        yield update
    if change.added:
        update = transaction.updateSchema()
        for (*parent, name), kind in change.added:
            # (Without a parent a dot in a name would be refused.)
            update = update.addColumn(".".join(parent) or None, name, _iceberg_type(jvm, kind))
        yield update
    if list(change.order) != names and change.order:
        update = transaction.updateSchema().moveFirst(change.order[0])
        for name, behind in zip(change.order[1:], change.order, strict=False):
            update = update.moveAfter(name, behind)
        yield update


def _iceberg_type(jvm: Any, kind: str) -> Any:
    """Of a Spark type."""
    struct = java_class(jvm, "org.apache.spark.sql.types.StructType").fromDDL(f"{quote('c')} {kind}")
    schema = java_class(jvm, "org.apache.iceberg.spark.SparkSchemaUtil").convert(struct)
    return schema.columns().get(0).type()
