"""Fields of a registry's schemas that a source does not declare, with the types of the columns that would hold them.
Driver side.

What is said here is a report: a schema that can't be understood says nothing, and stops no batch."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from tidegate.errors import TidegateError
from tidegate.ingest.sources.field_types import avro_fields, json_fields, protobuf_fields
from tidegate.plan.columns.changes import is_wider
from tidegate.plan.columns.undeclared import FoundColumn, readable
from tidegate.sql.dialect.types import SparkType, parse_ddl
from tidegate.sql.options.formats import LOCATION, MESSAGE, REGISTRY
from tidegate.tasks.decode.binary.registry import Schema, registry_of

if TYPE_CHECKING:
    from tidegate.project import Project
    from tidegate.sql.catalog.objects import CatalogColumn, Relation

#: So many versions are looked at, the newest ones.
_VERSIONS = 100
#: What a schema may be instead of one: whatever it is, it says nothing.
_NO_SCHEMA = (TidegateError, ValueError, TypeError, LookupError, AttributeError, RecursionError)

Versions = tuple[tuple[int, Schema], ...]


class _Field(NamedTuple):
    """`kind`: what holds the values of all versions that have the field; None if nothing does."""

    name: str
    where: str
    kind: SparkType | None


def new_fields(relation: Relation, project: Project, asks: bool = True) -> dict[str, FoundColumn]:
    """By name, of all versions of the source's subject. A field of several versions has the type that holds the values
    of all of them, and no type if none does. A field that a column's STRUCT lacks is named `column.field`. `asks`: the
    registry, else what it said last is good enough. {} for other formats. Raises TG555, TG606, TG614."""
    form = relation.format
    if form is None or REGISTRY not in form.options or LOCATION in form.options:
        return {}
    serialized = "serialized" if form.encode == "protobuf" else None
    known = registry_of(relation, project, None, form=serialized, asks=asks)
    versions = tuple(known[1].items()) if known is not None else ()
    found: dict[str, FoundColumn] = {}
    for one in _fields_of(form.encode, form.options.get(MESSAGE), versions[-_VERSIONS:]):
        column = relation.column(one.name)
        if column is None:
            found[readable([one.name])[0]] = FoundColumn(one.where, _text(one.kind))
        else:
            found |= {readable([name])[0]: FoundColumn(one.where) for name in _lacking(column, one)}
    return found


def _text(kind: SparkType | None) -> str | None:
    return None if kind is None else str(kind)


def _lacking(column: CatalogColumn, found: _Field) -> Iterator[str]:
    """What of a field its column does not hold."""
    if column.generated is not None:
        return
    kind = parse_ddl(column.type)
    if found.kind is not None:
        yield from _without(column.name, kind, found.kind)
    if column.taken_in and (found.kind is None or _both(kind, found.kind) != kind):
        yield column.name


def _without(name: str, has: SparkType, wants: SparkType) -> Iterator[str]:
    if has.name != wants.name:
        return
    if has.name != "struct":
        for one, other in zip(has.args, wants.args, strict=False):
            yield from _without(name, one, other)
        return
    for field, kind in zip(wants.fields, wants.args, strict=True):
        there = has.field(field)
        if there is None:
            yield f"{name}.{field}"
        else:
            yield from _without(f"{name}.{field}", there, kind)


@lru_cache(maxsize=256)
def _fields_of(encode: str, message: str | None, versions: Versions) -> tuple[_Field, ...]:
    """The fields of all versions, which are given in their order."""
    found: dict[str, _Field] = {}
    for number, schema in versions:
        for name, kind in _of(encode, message, schema).items():
            before = found.get(name.casefold())
            kind = kind if before is None else _both(before.kind, kind)
            found[name.casefold()] = _Field(name, f"schema {number}", kind)
    return tuple(found.values())


def _of(encode: str, message: str | None, schema: Schema) -> dict[str, SparkType | None]:
    try:
        if encode == "avro":
            return avro_fields(schema)
        return json_fields(schema) if encode == "json" else protobuf_fields(schema, message)
    except _NO_SCHEMA:
        return {}


def _both(one: SparkType | None, other: SparkType | None) -> SparkType | None:
    """The type that holds the values of both; None if there is none."""
    if one is None or other is None or one == other:
        return one if one == other else None
    if is_wider(str(one), str(other)):
        return other
    if is_wider(str(other), str(one)):
        return one
    if one.name != other.name or one.params or not one.args:
        return None
    if one.name == "struct":
        return _both_structs(one, other)
    args = [_both(a, b) for a, b in zip(one.args, other.args, strict=True)]
    known = tuple(arg for arg in args if arg is not None)
    return SparkType(one.name, args=known) if len(known) == len(args) else None


def _both_structs(one: SparkType, other: SparkType) -> SparkType | None:
    """With the fields of both: a message that lacks one has NULL there."""
    fields = dict(zip(one.fields, one.args, strict=True))
    for name, kind in zip(other.fields, other.args, strict=True):
        own = next((known for known in fields if known.casefold() == name.casefold()), None)
        merged = kind if own is None else _both(fields[own], kind)
        if merged is None:
            return None
        fields[own or name] = merged
    return SparkType("struct", args=tuple(fields.values()), fields=tuple(fields))
