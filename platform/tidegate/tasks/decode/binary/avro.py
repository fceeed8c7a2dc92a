"""AVRO messages: decoded by the schema that they were written with, into the declared columns by name.

Executor side: fastavro and pyarrow. A declared column that the writer did not have is NULL, a field that is not
declared is left out; so a schema may grow and shrink under a source. Types map as follows, and nothing else does: int
and long to integers, DECIMAL, REAL and DOUBLE; float and double to REAL and DOUBLE; boolean; string, enum and uuid
(VARCHAR); bytes and fixed (BYTEA); decimal; date; timestamp-… and local-timestamp-… (TIMESTAMPTZ and TIMESTAMP, UTC);
time-… (integers, as they are); array, map and record (STRUCT, by name). A union is its one type beside null.
"""

from __future__ import annotations

import io
import json
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import Context, Decimal
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from tidegate.tasks.decode.binary.avro_limits import Walk
from tidegate.tasks.decode.binary.messages import (
    UNKNOWN_SCHEMA,
    UNPARSEABLE,
    Convert,
    Incompatible,
    Undecodable,
    filling,
    is_binary,
    is_boolean,
    is_date,
    is_decimal,
    is_floating,
    is_string,
    list_of,
    map_of,
    number,
    same,
    time,
    unfit,
)
from tidegate.tasks.decode.binary.registry import Registry, Schema, registry_of, unframed
from tidegate.tasks.decode.columns import Wanted
from tidegate.tasks.decode.limits import STANDARD, Limits, limits_of
from tidegate.tasks.decode.text.strict_json import is_deeper

if TYPE_CHECKING:
    from tidegate.project import Project
    from tidegate.sql.catalog.objects import Relation

#: Python would round to 28 digits.
_EXACT = Context(prec=100)
#: Far more than 38 digits with any scale that Avro's tools write, and fewer digits than are rounded.
_MOST_BITS = 330
#: What fastavro makes of bytes of something else.
_BROKEN = (EOFError, LookupError, ValueError, TypeError, ArithmeticError, RecursionError, MemoryError)
_TIMES = {"millis": (1000, 1), "micros": (1, 1), "nanos": (1, 1000)}


@dataclass
class AvroVersion:
    """One writer's schema, ready to read by: for each column the writer's field and the conversion of its values (None:
    the writer has no such field)."""

    schema: Any
    fields: list[tuple[str, Convert] | None]
    problem: str = UNPARSEABLE
    walk: Walk | None = None

    def read(self, value: bytes, limits: Limits) -> list[Any]:
        """The columns of one message. Raises Undecodable for bytes of another schema, and for more than a row may
        be."""
        from fastavro import schemaless_reader

        if self.walk is not None:
            self.walk.check(value, limits)
        stream = io.BytesIO(value)
        try:
            record = schemaless_reader(stream, self.schema, None)
            if stream.read(1):
                raise Undecodable
            return [_converted(record, f) for f in self.fields]
        except _BROKEN as error:
            raise Undecodable from error


def _converted(record: Any, found: tuple[str, Convert] | None) -> Any:
    if found is None:
        return None
    value = record[found[0]]
    return None if value is None else found[1](value)


@dataclass
class AvroDecoder:
    """`schema`: of a file, then messages are bare; else `schemas` by id and the `registry` that has others."""

    columns: tuple[Wanted, ...]
    schema: str | None = None
    schemas: dict[int, Schema] = field(default_factory=dict)
    registry: Registry | None = None
    limits: Limits = STANDARD
    _versions: dict[int, AvroVersion | None] = field(default_factory=dict)

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_versions": {}}

    def read(self, value: bytes) -> list[Any]:
        if self.schema is not None:
            version = self._versions.get(-1)
            if version is None:
                version = self._versions[-1] = avro_version(Schema(self.schema), self.columns, self.limits)
            return version.read(value, self.limits)
        framed = unframed(value)
        if framed is None:
            raise Undecodable
        return self._version(framed[0]).read(framed[1], self.limits)

    def _version(self, number_: int) -> AvroVersion:
        if number_ not in self._versions:
            schema = self.schemas.get(number_)
            if schema is None and self.registry is not None:
                schema = self.registry.schema(number_)
            try:
                found = None if schema is None else avro_version(schema, self.columns, self.limits)
                self._versions[number_] = found
            except Incompatible as error:
                self._versions[number_] = AvroVersion(None, [], unfit(error, number_))
            except ValueError:
                self._versions[number_] = AvroVersion(None, [])
        version = self._versions[number_]
        if version is None:
            raise Undecodable(UNKNOWN_SCHEMA)
        if version.schema is None:
            # A version whose fields the declared columns can't hold.
            raise Undecodable(version.problem)
        return version


def avro_decoder(
    relation: Relation, columns: tuple[Wanted, ...], project: Project, environ: Mapping[str, str] | None
) -> AvroDecoder:
    """Raises TG555 and TG614 for a registry, TG611 for a file that can't be read or does not fit the columns, TG606."""
    from tidegate.project.schemas import avro_text, unfitting

    assert relation.format is not None
    found, limits = registry_of(relation, project, environ), limits_of(project)
    if found is not None:
        registry, schemas = found
        return AvroDecoder(columns, None, schemas, registry, limits)
    text = avro_text(project.root, relation.format)
    try:
        avro_version(Schema(text), columns, limits)
    except (Incompatible, ValueError) as error:
        raise unfitting(relation, str(error)) from error
    return AvroDecoder(columns, text, limits=limits)


def avro_version(schema: Schema, columns: tuple[Wanted, ...], limits: Limits = STANDARD) -> AvroVersion:
    """Raises Incompatible if a field can't be in its column, ValueError for what is no schema of a record."""
    from fastavro.schema import SchemaParseException, UnknownType

    try:
        named: dict[str, Any] = {}
        bare_named: dict[str, Any] = {}
        if is_deeper(schema.text, limits.depth):
            raise ValueError(f"the schema is nested more than {limits.depth} times")
        whole = parsed_schema(schema, named)
        bare = parsed_schema(schema, bare_named, bare=True)
    except RecursionError:
        raise ValueError("the schema is nested too deeply") from None
    except (SchemaParseException, UnknownType, TypeError, AttributeError, LookupError) as error:
        raise ValueError(f"not an Avro schema: {error}") from error
    if not isinstance(whole, dict) or whole.get("type") not in ("record", "error"):
        raise ValueError("the schema is not one of a record")
    if not all(isinstance(f["name"], str) for f in whole["fields"]):
        raise ValueError("not an Avro schema: a field's name is no text")
    fields = {f["name"].casefold(): f for f in whole["fields"]}
    found: list[tuple[str, Convert] | None] = []
    for column in columns:
        entry = fields.get(column.name.casefold())
        if entry is None:
            found.append(None)
            continue
        convert = filling(column, partial(_convert, entry["type"], column.type, named))
        found.append(None if convert is None else (entry["name"], convert))
    try:
        return AvroVersion(bare, found, walk=Walk.of(bare, bare_named, limits))
    except (TypeError, AttributeError, LookupError) as error:
        # Such as a size that is no number, over which the library has no opinion.
        raise ValueError(f"not an Avro schema: {error}") from error


def parsed_schema(schema: Schema, named: dict[str, Any], bare: bool = False) -> Any:
    """fastavro's form of a schema and of what it refers to (into `named`). `bare`: without logical types, so that times
    come as numbers: they may be beyond what Python's own types hold."""
    from fastavro.schema import parse_schema

    for _, reference in schema.references:
        parsed_schema(reference, named, bare)
    plain = json.loads(schema.text)
    return parse_schema(_without_logical(plain) if bare else plain, named_schemas=named, _force=True)


def _without_logical(node: Any) -> Any:
    if isinstance(node, list):
        return [_without_logical(item) for item in node]
    if isinstance(node, dict):
        return {k: _without_logical(v) for k, v in node.items() if k != "logicalType"}
    return node


def _convert(kind: Any, target: pa.DataType, named: Mapping[str, Any]) -> Convert:
    """The conversion of a type's values (as read without logical types) to what an Arrow array of `target` takes.
    Raises Incompatible."""
    if isinstance(kind, list):
        return _union([k for k in kind if k != "null"], target, named)
    if isinstance(kind, str) and kind in named:
        kind = named[kind]
    name = kind["type"] if isinstance(kind, dict) else kind
    if isinstance(name, list | dict):
        return _convert(name, target, named)
    if isinstance(kind, dict) and kind.get("logicalType"):
        logical = _logical(kind, name, target)
        if logical is not None:
            return logical
    if name in _PLAIN:
        return _PLAIN[name](target)
    if name == "array" and pa.types.is_list(target):
        return list_of(_convert(kind["items"], target.value_type, named))
    if name == "map" and pa.types.is_map(target):
        return map_of(is_string(target.key_type), _convert(kind["values"], target.item_type, named))
    if name in ("record", "error") and pa.types.is_struct(target):
        return _record(kind, target, named)
    raise Incompatible(f"{'an' if name[0] in 'aeiou' else 'a'} {name}")


_PLAIN: dict[str, Callable[[pa.DataType], Convert]] = {
    "int": number,
    "long": number,
    "float": is_floating,
    "double": is_floating,
    "boolean": is_boolean,
    "string": is_string,
    "enum": is_string,
    "bytes": is_binary,
    "fixed": is_binary,
    "null": lambda target: same,
}


def _logical(kind: Mapping[str, Any], name: str, target: pa.DataType) -> Convert | None:
    """None where the logical type does not change what the value is."""
    logical, what = logical_base(kind, name), kind["logicalType"]
    if logical == "date":
        return is_date(target)
    if logical in ("timestamp", "local-timestamp"):
        return time(*_TIMES[what.rpartition("-")[2]], what=f"a {what}")(target)
    if logical == "decimal":
        is_decimal(target)
        scale = int(kind.get("scale", 0))
        return lambda value: _EXACT.scaleb(Decimal(_unscaled(value)), -scale)
    if logical == "uuid":
        is_string(target)
        return (lambda value: str(uuid.UUID(bytes=value))) if name == "fixed" else same
    return None


#: Logical types, and the types that may have them. (On any other, the specification says, they are to be ignored.)
_BASES = {"date": ("int",), "decimal": ("bytes", "fixed"), "uuid": ("string", "fixed")}
_BASES |= {f"{kind}timestamp-{unit}": ("long",) for kind in ("", "local-") for unit in _TIMES}


def logical_base(kind: Mapping[str, Any], name: str) -> str | None:
    """The logical type of a type `name`, without the unit of a time; None if it has none that means anything."""
    logical = kind.get("logicalType")
    if not isinstance(logical, str) or name not in _BASES.get(logical, ()):
        return None
    if (logical, name) == ("uuid", "fixed") and kind.get("size") != 16:
        return None
    return logical.rpartition("-")[0] or logical


def _unscaled(value: bytes) -> int:
    """The integer of a decimal. One that no column can hold is cut: to make digits of megabytes takes minutes."""
    found = int.from_bytes(value, "big", signed=True)
    return found if found.bit_length() <= _MOST_BITS else 1 << _MOST_BITS


def _union(kinds: list[Any], target: pa.DataType, named: Mapping[str, Any]) -> Convert:
    """Several types beside null are one if all of them become the same."""
    converts = {_convert(kind, target, named) for kind in kinds}
    if converts == {same, float}:
        return float
    if len(converts) != 1:
        raise Incompatible("a union of several types")
    return converts.pop()


def _record(kind: Mapping[str, Any], target: pa.DataType, named: Mapping[str, Any]) -> Convert:
    fields = {f["name"].casefold(): f for f in kind["fields"]}
    found = []
    for wanted in target:
        entry = fields.get(wanted.name.casefold())
        if entry is not None:
            found.append((wanted.name, entry["name"], _convert(entry["type"], wanted.type, named)))
    return lambda record: {
        name: None if record[own] is None else convert(record[own]) for name, own, convert in found
    }
