"""The types of the columns that hold the fields of a registry's schema, by name; None for a field that no column holds.
Driver side.

Schemas are strangers' (X2): a type is followed for so many steps only, as are all types of a schema together, and one
that contains itself has no column."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from tidegate.plan.columns.undeclared import LONGEST_TYPE, is_inner_name
from tidegate.sql.dialect.types import STRING, SparkType
from tidegate.tasks.decode.binary.avro import avro_version, logical_base, parsed_schema
from tidegate.tasks.decode.binary.protobuf import WRAPPERS, registry_file
from tidegate.tasks.decode.binary.registry import Schema

#: Steps of one field's type, and of the types of all fields; characters of a schema with all that it imports.
_STEPS, _ALL_STEPS, _LONGEST = 200, 5000, 1 << 20
Found = SparkType | None

_AVRO = {
    "int": "int",
    "long": "bigint",
    "float": "float",
    "double": "double",
    "boolean": "boolean",
    "string": "string",
    "enum": "string",
    "bytes": "binary",
    "fixed": "binary",
}
_AVRO_LOGICAL = {
    "date": "date",
    "uuid": "string",
    "timestamp": "timestamp",
    "local-timestamp": "timestamp_ntz",
}
_PROTOBUF = {
    "INT32": "int",
    "SINT32": "int",
    "SFIXED32": "int",
    "UINT32": "bigint",
    "FIXED32": "bigint",
    "INT64": "bigint",
    "SINT64": "bigint",
    "SFIXED64": "bigint",
    "FLOAT": "float",
    "DOUBLE": "double",
    "BOOL": "boolean",
    "STRING": "string",
    "ENUM": "string",
    "BYTES": "binary",
}
_JSON = {"string": "string", "integer": "bigint", "number": "double", "boolean": "boolean"}


class _NoColumn(Exception):
    """Of a type that no column holds."""


class _StepsLeft:
    """What is left of the steps: of all fields, and of one. `inside`: the names of the types in which this one
    stands."""

    def __init__(self) -> None:
        self._all, self._left = _ALL_STEPS, 0
        self.inside: list[str] = []

    def begin(self) -> None:
        """One more field."""
        self._left, self.inside = _STEPS, []

    def one(self) -> None:
        self._left, self._all = self._left - 1, self._all - 1
        if min(self._left, self._all) < 0:
            raise _NoColumn

    def enter(self, name: str) -> None:
        if name in self.inside:
            raise _NoColumn
        self.inside.append(name)


def avro_fields(schema: Schema) -> dict[str, Found]:
    """Of a record. Raises ValueError for what is none."""
    named: dict[str, Any] = {}
    avro_version(schema, ())
    fields = parsed_schema(schema, named)["fields"]
    return _tried(_Avro(named), ((f["name"], f["type"]) for f in fields))


def protobuf_fields(schema: Schema, message: str | None) -> dict[str, Found]:
    """Of the message of this name, else of the only one; {} if it is not there, for messages of several types have no
    columns in common. Raises TG556 if the registry gives text."""
    types = list(registry_file(schema).message_types_by_name.values())
    found = [one for one in types if message in (None, one.full_name)]
    return _tried(_Protobuf(), ((f.name, f) for f in found[0].fields)) if len(found) == 1 else {}


def json_fields(schema: Schema) -> dict[str, Found]:
    """Of an object, as JSON Schema describes it."""
    properties = json.loads(schema.text).get("properties") or {}
    return _tried(_Json(), properties.items())


def is_long(schema: Schema) -> bool:
    """Whether it is longer than any that people write."""
    waiting, left = [schema], _LONGEST
    while waiting and left >= 0:
        one = waiting.pop()
        left -= len(one.text)
        waiting += [imported for _, imported in one.references]
    return left < 0


def _tried(types: Any, fields: Iterable[tuple[str, Any]]) -> dict[str, Found]:
    found: dict[str, Found] = {}
    for name, kind in fields:
        types.steps.begin()
        try:
            one: SparkType = types.of(kind)
            found[name] = one if len(str(one)) <= LONGEST_TYPE else None
        except _NoColumn:
            found[name] = None
    return found


def _struct(pairs: Iterable[tuple[str, SparkType]]) -> SparkType:
    fields = tuple(pairs)
    names = [name for name, _ in fields]
    if not names or not all(map(is_inner_name, names)):
        raise _NoColumn
    if len({name.casefold() for name in names}) < len(names):
        raise _NoColumn
    return SparkType("struct", args=tuple(kind for _, kind in fields), fields=tuple(names))


class _Avro:
    def __init__(self, named: Mapping[str, Any]) -> None:
        self._named, self.steps = named, _StepsLeft()

    def of(self, kind: Any) -> SparkType:
        self.steps.one()
        if isinstance(kind, list):
            others = [one for one in kind if one != "null"]
            if len(others) != 1:
                raise _NoColumn
            return self.of(others[0])
        if isinstance(kind, str) and kind in self._named:
            kind = self._named[kind]
        name = kind["type"] if isinstance(kind, dict) else kind
        if isinstance(name, list | dict):
            return self.of(name)
        logical = logical_base(kind, name) if isinstance(kind, dict) else None
        if logical == "decimal":
            return _decimal(kind.get("precision"), kind.get("scale", 0))
        if logical in _AVRO_LOGICAL:
            return SparkType(_AVRO_LOGICAL[logical])
        if name == "array":
            return SparkType("array", args=(self.of(kind["items"]),))
        if name == "map":
            return SparkType("map", args=(STRING, self.of(kind["values"])))
        if name in ("record", "error"):
            self.steps.enter(str(kind.get("name")))
            found = _struct([(f["name"], self.of(f["type"])) for f in kind["fields"]])
            self.steps.inside.pop()
            return found
        if name not in _AVRO:
            raise _NoColumn
        return SparkType(_AVRO[name])


def _decimal(precision: Any, scale: Any) -> SparkType:
    if type(precision) is not int or type(scale) is not int or not 0 <= scale <= precision <= 38:
        raise _NoColumn
    if not precision:
        raise _NoColumn
    return SparkType("decimal", (precision, scale))


class _Protobuf:
    def __init__(self) -> None:
        self.steps = _StepsLeft()

    def of(self, field: Any) -> SparkType:
        self.steps.one()
        message = field.message_type
        if message is not None and message.GetOptions().map_entry:
            key, item = (message.fields_by_name[name] for name in ("key", "value"))
            if key.type != key.TYPE_STRING:
                raise _NoColumn
            return SparkType("map", args=(STRING, self._value(item)))
        one = self._value(field)
        return SparkType("array", args=(one,)) if field.is_repeated else one

    def _value(self, field: Any) -> SparkType:
        self.steps.one()
        for name, kind in _PROTOBUF.items():
            if field.type == getattr(field, f"TYPE_{name}"):
                return SparkType(kind)
        message = field.message_type
        if field.type in (field.TYPE_UINT64, field.TYPE_FIXED64):
            return SparkType("decimal", (20, 0))
        if message is None:
            raise _NoColumn
        if message.full_name == "google.protobuf.Timestamp":
            return SparkType("timestamp")
        if message.full_name in WRAPPERS:
            return self._value(message.fields_by_name["value"])
        self.steps.enter(message.full_name)
        found = _struct([(f.name, self.of(f)) for f in message.fields])
        self.steps.inside.pop()
        return found


class _Json:
    def __init__(self) -> None:
        self.steps = _StepsLeft()

    def of(self, schema: Any) -> SparkType:
        self.steps.one()
        if not isinstance(schema, dict):
            raise _NoColumn
        for several in ("oneOf", "anyOf"):
            if several in schema:
                others = [one for one in schema[several] if one != {"type": "null"}]
                return self.of(others[0] if len(others) == 1 else None)
        kind = schema.get("type")
        if isinstance(kind, list):
            others = [one for one in kind if one != "null"]
            kind = others[0] if len(others) == 1 else None
        if kind == "array":
            return SparkType("array", args=(self.of(schema.get("items")),))
        if kind == "object" and "properties" in schema:
            return _struct([(name, self.of(one)) for name, one in schema["properties"].items()])
        if kind not in _JSON:
            raise _NoColumn
        return SparkType(_JSON[kind])
