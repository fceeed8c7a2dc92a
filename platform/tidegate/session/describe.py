"""DESCRIBE and DESCRIBE EXTENDED: columns, and with EXTENDED the watermark and what every log has beside them (W12)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidegate.runtime.result import Result
from tidegate.sql.catalog.objects import CatalogColumn, Relation, SystemTable, View
from tidegate.sql.catalog.system_tables import system_table
from tidegate.sql.dialect.system_names import HEADERS, KEY, OFFSET, PARTITION, ROWTIME
from tidegate.sql.dialect.types import display
from tidegate.sql.resolve.hidden import hidden_columns

if TYPE_CHECKING:
    from tidegate.sql.catalog.catalog import Catalog

Line = tuple[str, str, bool, str | None, str | None]
_NAMES = ("column", "type", "nullable", "notes", "comment")
#: What Flink and Confluent call the column whose watermark closes windows.
_ROWTIME_MARK = "*ROWTIME*"
_COMMENTS = {
    ROWTIME: "",
    PARTITION: "the partition of the source that the row came from",
    OFFSET: "the position of the row in its partition",
    KEY: "the key of the message",
    HEADERS: "the headers of the message",
}


def describe(catalog: Catalog, name: str, extended: bool) -> Result:
    """Columns with their types as written, and what is special about them.

    Of a sink: those that it delivers.

    `extended`: also comments, the strategy with its mark, the hidden columns, and those that only `name$raw` has.
    """
    sink = catalog.sinks.find(name)
    found = catalog.get(name if sink is None else sink.upstream)
    lines = [_line(found, column, extended) for column in found.columns]
    if sink is not None:
        # It delivers the values alone: neither a watermark nor keys go with them.
        lines = [(column, kind, nullable, None, comment) for column, kind, nullable, _, comment in lines]
    elif extended and isinstance(found, Relation):
        lines += [*_hidden(found, current=True), *_system_columns(found)]
    elif extended and isinstance(found, SystemTable) and isinstance(found.relation, Relation):
        lines += [] if found.suffix == "watermarks" else _hidden(found.relation, current=False)
    names = _NAMES if extended else _NAMES[:-1]
    kinds = [(n, "boolean" if n == "nullable" else "string") for n in names]
    return Result(kinds, fixed=[line[: len(names)] for line in lines])


def _line(found: Relation | View | SystemTable, column: CatalogColumn, extended: bool) -> Line:
    notes = []
    if isinstance(found, Relation):
        if found.watermark is not None and found.watermark.column == column.name:
            mark = [_ROWTIME_MARK] if extended else []
            notes += [*mark, f"watermark {found.watermark.expression}"]
            if extended and found.ttl:
                notes.append("with TTL: its rows expire")
        if column.name in found.primary_key:
            notes.append("primary key")
        if column.generated is not None:
            notes.append(f"generated as {column.generated}" if extended else "generated")
    elif isinstance(found, View):
        if column.name in found.group_columns:
            notes.append("group key")
        carried = [c.derived for c in found.watermarks if c.column == column.name]
        if extended and carried:
            notes.append(f"{_ROWTIME_MARK}, watermark {carried[0].describe(found.kind, [found.name])}")
    type_, comment = display(column.type), column.comment
    return (column.name, type_, column.nullable, ", ".join(notes) or None, comment)


def _hidden(relation: Relation, current: bool) -> list[Line]:
    """W12: what a query may name and `*` does not hold. `current`: of what a table with a PRIMARY KEY holds now."""
    lines: list[Line] = []
    for column in hidden_columns(relation, current):
        notes, comment = "system column: not part of SELECT *, select it by name", _COMMENTS[column.name]
        if column.name == ROWTIME:
            comment = f"when the row arrived in {relation.name}"
            if column.stored != "_arrival":
                comment = "the timestamp of the message"
            if relation.watermark is None and not relation.primary_key:
                notes = (
                    f"{_ROWTIME_MARK}, watermark SOURCE_WATERMARK(), advisory: for windows over it; {notes}"
                )
        nullable = column.name in (KEY, HEADERS)
        lines.append((column.name, display(column.type), nullable, notes, comment))
    return lines


def _system_columns(relation: Relation) -> list[Line]:
    """Where a row stood and what became of it."""
    raw = system_table(relation, "raw")
    own = {c.name for c in relation.columns}
    return [
        (c.name, display(c.type), True, f'system column of "{raw.name}"', None)
        for c in raw.columns
        if c.name not in own
    ]
