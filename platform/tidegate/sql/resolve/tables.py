"""What makes a log a table: the PRIMARY KEY, and WITH TTL (W10, T rules)."""

from __future__ import annotations

from dataclasses import replace

from tidegate.errors import did_you_mean
from tidegate.sql.catalog.objects import CatalogColumn, Watermark
from tidegate.sql.dialect.codes import error, unsupported
from tidegate.sql.dialect.text import Text
from tidegate.sql.dialect.types import display
from tidegate.sql.grammar.syntax import CreateRelationSyntax

_NO_KEY = ("map", "array", "struct", "variant")


def primary_key(
    text: Text, syntax: CreateRelationSyntax, columns: tuple[CatalogColumn, ...]
) -> tuple[str, ...]:
    """The key's columns, () without one. Raises TG108, TG202, TG206, TG214; TG106 on a source."""
    if not syntax.primary_keys:
        return ()
    first = syntax.primary_keys[0]
    if syntax.kind == "source":
        instead = "use CREATE TABLE … WITH (connector = …), which keeps the last row of each key"
        raise unsupported("PRIMARY KEY on a source", text.at(first.span), instead)
    if len(syntax.primary_keys) > 1:
        instead = "write a key of several columns as PRIMARY KEY (a, b)"
        raise error("TG108", "PRIMARY KEY is given twice", text.at(syntax.primary_keys[1].span), instead)
    names: list[str] = []
    for name in first.columns:
        column = next((c for c in columns if c.name.casefold() == name.text.casefold()), None)
        if column is None:
            hint = did_you_mean(name.text, [c.name for c in columns])
            message = f'there is no column "{name.text}" in table "{syntax.name.text}"'
            raise error("TG202", message, text.at(name.span), hint)
        if column.name in names:
            raise error("TG206", f'column "{column.name}" is given twice', text.at(name.span))
        if column.type.startswith(_NO_KEY):
            message = f'"{column.name}" is {display(column.type)}: it is not allowed in a PRIMARY KEY'
            raise error("TG214", message, text.at(name.span), "use columns of simple types")
        names.append(column.name)
    return tuple(names)


def check_table(
    text: Text, syntax: CreateRelationSyntax, watermark: Watermark | None, key: tuple[str, ...]
) -> bool:
    """W10: a table with a watermark is APPEND ONLY, or has a PRIMARY KEY and WITH TTL. Whether it has WITH TTL.

    Raises TG304, TG305.
    """
    name = syntax.name.text
    ttl = syntax.watermarks[0].ttl if syntax.watermarks else None
    if key and syntax.append_only:
        where = text.at(syntax.primary_keys[0].span)
        hint = "leave out APPEND ONLY, or the PRIMARY KEY"
        raise error(
            "TG305", f'table "{name}" replaces rows by its PRIMARY KEY: it can\'t be APPEND ONLY', where, hint
        )
    if ttl is not None and not key:
        hint = "add PRIMARY KEY (…); an APPEND ONLY table keeps all rows"
        raise error("TG304", f'WITH TTL needs a PRIMARY KEY, and table "{name}" has none', text.at(ttl), hint)
    if watermark is not None and ttl is None and not syntax.append_only:
        where = text.at(syntax.watermarks[0].span)
        if key:
            hint = "write WITH TTL after the strategy"
            raise error(
                "TG305", f'table "{name}" has a PRIMARY KEY and a watermark without WITH TTL', where, hint
            )
        hint = "write APPEND ONLY after the columns, or give it a PRIMARY KEY and WITH TTL"
        raise error("TG305", f'table "{name}" has a watermark but is not APPEND ONLY', where, hint)
    return ttl is not None


def with_key(columns: tuple[CatalogColumn, ...], key: tuple[str, ...]) -> tuple[CatalogColumn, ...]:
    """A key is never NULL: such rows are rejected (`not_null`, W5)."""
    return tuple(replace(c, nullable=False) if c.name in key else c for c in columns)
