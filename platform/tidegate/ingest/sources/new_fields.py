"""Fields of a registry's schemas that a source does not declare, with the types of the columns that would hold them.
Driver side."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from tidegate.errors import TidegateError
from tidegate.plan.columns.undeclared import FoundColumn, readable
from tidegate.sql.catalog.objects import CatalogColumn
from tidegate.sql.dialect.types import STRING, SparkType
from tidegate.sql.options.formats import LOCATION, MESSAGE
from tidegate.tasks.decode.binary.avro import avro_version, parsed_schema
from tidegate.tasks.decode.binary.messages import Incompatible
from tidegate.tasks.decode.binary.protobuf import WRAPPERS, protobuf_version, registry_file
from tidegate.tasks.decode.binary.registry import Schema, registry_of
from tidegate.tasks.decode.columns import stored_columns, wanted_of

if TYPE_CHECKING:
    from tidegate.project import Project
    from tidegate.sql.catalog.objects import Relation

#: How deep records may be nested in a column that nobody has declared.
_DEEPEST = 10


def new_fields(relation: Relation, project: Project, asks: bool = True) -> dict[str, FoundColumn]:
    """By name, of all versions of the source's subject; a field of several versions is as the newest has it. It has no
    type if its values are of none that a column can have, or if those of an older version would not fit into it.
    `asks`: the registry, else what it said last is good enough. {} for other formats. Raises TG555, TG606, TG614."""
    form = relation.format
    if form is None or REGISTRY not in form.options or LOCATION in form.options:
        return {}
    given = "serialized" if form.encode == "protobuf" else None
    known = registry_of(relation, project, None, form=given, asks=asks)
    versions = [
        (number, fields)
        for number, schema in (known[1] if known is not None else {}).items()
        if (fields := _fields(form.encode, schema, form.options.get(MESSAGE))) is not None
    ]
    declared = {c.name.casefold() for c in stored_columns(relation)}
    found: dict[str, FoundColumn] = {}
    for number, fields in reversed(versions):
        for name, kind in fields.types.items():
            if name.casefold() not in declared:
                declared.add(name.casefold())
                fits = kind is not None and all(older.take(name, kind) for _, older in versions)
                found[name] = FoundColumn(f"schema {number}", kind if fits else None)
    return {readable([name])[0]: column for name, column in found.items()}


class _Fields:
    """Of one version of a schema: the Spark `types` by name, None where no column holds them. `fills`: raises
    Incompatible if a column can't be filled from it."""

    def __init__(self, types: Mapping[str, str | None], fills: Callable[[Any], object]) -> None:
        self.types, self._fills = types, fills
        self._known: dict[tuple[str, str], bool] = {}

    def take(self, name: str, kind: str) -> bool:
        """Whether its messages can be read into a column."""
        key = name, kind
        if key not in self._known:
            try:
                self._fills(wanted_of([CatalogColumn(name, kind)]))
                self._known[key] = True
            except (Incompatible, ValueError):
                self._known[key] = False
        return self._known[key]


@lru_cache(maxsize=1000)
def _fields(encode: str, schema: Schema, message: str | None) -> _Fields | None:
    """None for what is no schema of a record: no message is read by it."""
    if encode == "json":
        return _json(schema)
    return _avro(schema) if encode == "avro" else _protobuf(schema, message)


def _json(schema: Schema) -> _Fields | None:
    types = {name: _text(kind) for name, kind in json_types(schema.text).items()}

    def fills(columns: tuple[Wanted, ...]) -> None:
        # Whether a value fits is said of each value, and not of a schema.
        if any(types.get(column.name, kind) != kind for column, kind in []):
            raise Incompatible

    return _Fields(types, fills)


def _avro(schema: Schema) -> _Fields | None:
    named: dict[str, Any] = {}
    try:
        avro_version(schema, ())
        fields = parsed_schema(schema, named)["fields"]
    except ValueError:
        return None
    return _Fields(
        {f["name"]: _text(_avro_type(f["type"], named, 0)) for f in fields},
        lambda columns: avro_version(schema, columns),
    )


def _text(kind: SparkType | None) -> str | None:
    return None if kind is None else str(kind)


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
_LOGICAL = {
    "date": "date",
    "uuid": "string",
    **{f"timestamp-{unit}": "timestamp" for unit in ("millis", "micros", "nanos")},
    **{f"local-timestamp-{unit}": "timestamp_ntz" for unit in ("millis", "micros", "nanos")},
}


def _avro_type(kind: Any, named: Mapping[str, Any], depth: int) -> SparkType | None:
    if depth > _DEEPEST:
        return None
    if isinstance(kind, list):
        others = [one for one in kind if one != "null"]
        return _avro_type(others[0], named, depth) if len(others) == 1 else None
    if isinstance(kind, str) and kind in named:
        kind = named[kind]
    name = kind["type"] if isinstance(kind, dict) else kind
    if isinstance(name, list | dict):
        return _avro_type(name, named, depth + 1)
    logical = kind.get("logicalType") if isinstance(kind, dict) else None
    if logical == "decimal":
        return _decimal(kind.get("precision"), kind.get("scale", 0))
    if logical in _LOGICAL:
        return SparkType(_LOGICAL[logical])
    match name:
        case "array":
            return _of("array", _avro_type(kind["items"], named, depth + 1))
        case "map":
            return _of("map", STRING, _avro_type(kind["values"], named, depth + 1))
        case "record" | "error":
            return _struct((f["name"], _avro_type(f["type"], named, depth + 1)) for f in kind["fields"])
    return SparkType(_AVRO[name]) if name in _AVRO else None


def _decimal(precision: Any, scale: Any) -> SparkType | None:
    if type(precision) is not int or type(scale) is not int or not 0 <= scale <= precision <= 38:
        return None
    return SparkType("decimal", (precision, scale)) if precision else None


def _of(name: str, *parts: SparkType | None) -> SparkType | None:
    known = tuple(part for part in parts if part is not None)
    return SparkType(name, args=known) if len(known) == len(parts) else None


def _struct(fields: Iterator[tuple[str, SparkType | None]]) -> SparkType | None:
    """None if one of its fields has no type, or a name that columns can't have."""
    pairs = list(fields)
    kinds = tuple(kind for _, kind in pairs if kind is not None)
    names = tuple(name for name, _ in pairs)
    if len(kinds) < len(pairs) or not pairs or not all(name.isidentifier() for name in names):
        return None
    if len({name.casefold() for name in names}) < len(names):
        return None
    return SparkType("struct", args=kinds, fields=names)


def _protobuf(schema: Schema, message: str | None) -> _Fields | None:
    """Of the message of this name, else of the first one. None if it is not there, or if the registry gives text."""
    try:
        types = registry_file(schema).message_types_by_name.values()
    except (TidegateError, TypeError, KeyError):
        return None
    found = next((one for one in types if message in (None, one.full_name)), None)
    if found is None:
        return None
    return _Fields(
        {f.name: _text(_protobuf_type(f, 0)) for f in found.fields},
        lambda columns: protobuf_version(found, columns),
    )


def _protobuf_type(field: Any, depth: int) -> SparkType | None:
    if depth > _DEEPEST:
        return None
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        key, item = (field.message_type.fields_by_name[name] for name in ("key", "value"))
        return (
            _of("map", *(_protobuf_value(one, depth + 1) for one in (key, item))) if _is_text(key) else None
        )
    one = _protobuf_value(field, depth)
    return _of("array", one) if field.is_repeated else one


def _is_text(field: Any) -> bool:
    return bool(field.type == field.TYPE_STRING)


def _protobuf_value(field: Any, depth: int) -> SparkType | None:
    name = {
        field.TYPE_INT32: "int",
        field.TYPE_SINT32: "int",
        field.TYPE_SFIXED32: "int",
        field.TYPE_UINT32: "bigint",
        field.TYPE_FIXED32: "bigint",
        field.TYPE_INT64: "bigint",
        field.TYPE_SINT64: "bigint",
        field.TYPE_SFIXED64: "bigint",
        field.TYPE_FLOAT: "float",
        field.TYPE_DOUBLE: "double",
        field.TYPE_BOOL: "boolean",
        field.TYPE_STRING: "string",
        field.TYPE_ENUM: "string",
        field.TYPE_BYTES: "binary",
    }.get(field.type)
    if name is not None:
        return SparkType(name)
    if field.type in (field.TYPE_UINT64, field.TYPE_FIXED64):
        return SparkType("decimal", (20, 0))
    if field.message_type is None:
        return None
    if field.message_type.full_name == "google.protobuf.Timestamp":
        return SparkType("timestamp")
    if field.message_type.full_name in WRAPPERS:
        return _protobuf_value(field.message_type.fields_by_name["value"], depth)
    return _struct((f.name, _protobuf_type(f, depth + 1)) for f in field.message_type.fields)
