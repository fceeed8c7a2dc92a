"""Fields of a registry's schemas that a source does not declare, with the types of the columns that would hold them.
Driver side.

What is said here is a report: a schema that can't be understood says nothing, and stops no batch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from tidegate.errors import TidegateError
from tidegate.ingest.sources.field_types import avro_fields, is_long, json_fields, protobuf_fields
from tidegate.plan.columns.merging import both
from tidegate.plan.columns.undeclared import FoundColumn, readable
from tidegate.sql.dialect.types import SparkType, parse_ddl
from tidegate.sql.options.formats import LOCATION, MESSAGE, REGISTRY
from tidegate.tasks.decode.binary.registry import Schema, registry_of
from tidegate.tasks.decode.columns import exact_names

if TYPE_CHECKING:
    from tidegate.project import Project
    from tidegate.sql.catalog.objects import Relation

#: So many versions are looked at, the newest ones; and so many fields of each, the first ones.
_VERSIONS, _FIELDS = 100, 1000
#: What a schema may be instead of one: whatever it is, it says nothing.
_NO_SCHEMA = (TidegateError, ValueError, TypeError, LookupError, AttributeError, RecursionError)

Versions = tuple[tuple[int, Schema], ...]


class _Column(NamedTuple):
    """What of a column of the source matters here."""

    name: str
    type: str
    taken_in: bool
    computed: bool


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
    columns = tuple(_Column(c.name, c.type, c.taken_in, c.generated is not None) for c in relation.columns)
    given = form.encode, form.options.get(MESSAGE), exact_names(relation)
    return dict(_found(columns, *given, versions[-_VERSIONS:]))


@lru_cache(maxsize=64)
def _found(
    declared: tuple[_Column, ...], encode: str, message: str | None, exact: bool, versions: Versions
) -> Mapping[str, FoundColumn]:
    columns = {c.name.casefold(): c for c in declared}
    found: dict[str, FoundColumn] = {}
    for one in _fields_of(encode, message, exact, versions):
        column = columns.get(one.name.casefold())
        if column is None:
            text = None if one.kind is None else str(one.kind)
            found[readable([one.name])[0]] = FoundColumn(one.where, text)
        else:
            other = exact and column.name != one.name
            found |= {readable([name])[0]: FoundColumn(one.where) for name in _lacking(column, one, other)}
    return found


def _lacking(column: _Column, found: _Field, other: bool) -> Iterator[str]:
    """What of a field its column does not hold. `other`: its name is that of another field, in another case."""
    if column.computed:
        return
    kind = parse_ddl(column.type)
    if found.kind is not None:
        yield from _without(column.name, kind, found.kind)
    if column.taken_in and (other or found.kind is None or both(kind, found.kind) != kind):
        yield column.name


def _without(name: str, has: SparkType, wants: SparkType) -> Iterator[str]:
    if has.name != wants.name:
        return
    if has.name != "struct":
        for one, other in zip(has.args, wants.args, strict=False):
            yield from _without(name, one, other)
        return
    fields = {field.casefold(): kind for field, kind in zip(has.fields, has.args, strict=True)}
    for field, kind in zip(wants.fields, wants.args, strict=True):
        there = fields.get(field.casefold())
        if there is None:
            yield f"{name}.{field}"
        else:
            yield from _without(f"{name}.{field}", there, kind)


def _fields_of(encode: str, message: str | None, exact: bool, versions: Versions) -> tuple[_Field, ...]:
    """The fields of all versions, which are given in their order. `exact`: where names are compared exactly, no column
    has the values of two that differ by case."""
    found: dict[str, _Field] = {}
    for number, schema in versions:
        for folded, (name, kind) in _of(encode, message, schema).items():
            before = found.get(folded)
            if before is not None:
                kind = None if exact and before.name != name else both(before.kind, kind)
            found[folded] = _Field(name, f"schema {number}", kind)
    return tuple(found.values())


@lru_cache(maxsize=256)
def _of(encode: str, message: str | None, schema: Schema) -> Mapping[str, tuple[str, SparkType | None]]:
    """The first fields of one version, by case-folded name."""
    found: dict[str, tuple[str, SparkType | None]] = {}
    for name, kind in islice(_read(encode, message, schema).items(), _FIELDS):
        # (Of those that differ by case only no value is in a column for certain.)
        found[name.casefold()] = name, None if name.casefold() in found else kind
    return found


def _read(encode: str, message: str | None, schema: Schema) -> dict[str, SparkType | None]:
    try:
        if is_long(schema):
            return {}
        if encode == "avro":
            return avro_fields(schema)
        return json_fields(schema) if encode == "json" else protobuf_fields(schema, message)
    except _NO_SCHEMA:
        return {}
