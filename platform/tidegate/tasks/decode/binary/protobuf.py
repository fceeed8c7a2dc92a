"""PROTOBUF messages: decoded by a file of descriptors or by a registry's, into the declared columns by name.

Executor side: google.protobuf and pyarrow. A declared column that the message's type does not have is NULL, fields that
are not declared are left out. Types map as follows, and nothing else does: integers to integers, DECIMAL, REAL and
DOUBLE; float and double to REAL and DOUBLE; bool, string, bytes; an enum to its name (VARCHAR) or number;
google.protobuf.Timestamp to TIMESTAMPTZ and TIMESTAMP (UTC), wrappers (StringValue, …) to what they wrap; repeated to
arrays, map to MAP, a message to STRUCT by name. A field without presence has its default value where nobody set it, any
other is NULL then.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from tidegate.errors import TidegateError
from tidegate.sql.options.formats import LOCATION, MESSAGE
from tidegate.tasks.decode.binary.messages import (
    UNKNOWN_SCHEMA,
    UNPARSEABLE,
    Convert,
    Incompatible,
    Undecodable,
    filling,
    is_binary,
    is_boolean,
    is_floating,
    is_string,
    list_of,
    map_of,
    number,
    same,
    unfit,
    zigzag,
)
from tidegate.tasks.decode.binary.registry import Registry, Schema, registry_of, unframed
from tidegate.tasks.decode.columns import Wanted
from tidegate.tasks.decode.limits import STANDARD, Limits, limits_of

if TYPE_CHECKING:
    from tidegate.project import Project
    from tidegate.sql.catalog.objects import Relation

Get = Callable[[Any], Any]
WRAPPERS = frozenset(
    f"google.protobuf.{name}Value"
    for name in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
)


@dataclass
class ProtobufVersion:
    """One type of message, ready to read by."""

    make: Callable[[], Any]
    columns: list[Get | None]

    def read(self, value: bytes, limits: Limits) -> list[Any]:
        """The columns of one message. Raises Undecodable for bytes that are none, and for more than a row may be."""
        from google.protobuf.message import DecodeError

        message = self.make()
        try:
            message.ParseFromString(value)
            if len(value) > limits.values and _values(message) > limits.values:
                raise Undecodable(limits.too_many)
            return [None if get is None else get(message) for get in self.columns]
        except (DecodeError, ValueError, ArithmeticError, RecursionError) as error:
            # The text of a proto2 message may be no UTF-8, which only who reads it finds.
            raise Undecodable from error


def _values(message: Any) -> int:
    """How many values a message has, nested ones included. None has fewer bytes than values."""
    count = 0
    for field_, value in message.ListFields():
        if not field_.is_repeated:
            count += _values(value) if field_.message_type is not None else 1
            continue
        count += len(value)
        if field_.message_type is None:
            continue
        entry = field_.message_type.GetOptions().map_entry
        if not entry:
            count += sum(map(_values, value))
        elif field_.message_type.fields_by_name["value"].message_type is not None:
            count += sum(map(_values, value.values()))
    return count


@dataclass
class ProtobufDecoder:
    """`files`: a serialized FileDescriptorSet; `message`: the full name of the type. `registry`: messages are framed;
    without `files` their types are those of `schemas` by id."""

    columns: tuple[Wanted, ...]
    message: str | None = None
    files: bytes | None = None
    schemas: dict[int, Schema] = field(default_factory=dict)
    registry: Registry | None = None
    limits: Limits = STANDARD
    _versions: dict[tuple[int, tuple[int, ...]], ProtobufVersion | str] = field(default_factory=dict)
    _pools: dict[int, Any] = field(default_factory=dict)

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_versions": {}, "_pools": {}}

    def read(self, value: bytes) -> list[Any]:
        if self.registry is None:
            return self._of_file().read(value, self.limits)
        framed = unframed(value)
        indexes = message_indexes(framed[1]) if framed is not None else None
        if framed is None or indexes is None:
            raise Undecodable
        path, rest = indexes
        version = self._of_file() if self.files is not None else self._of_registry(framed[0], path)
        return version.read(rest, self.limits)

    def _of_file(self) -> ProtobufVersion:
        version = self._versions.get((-1, ()))
        if not isinstance(version, ProtobufVersion):
            assert self.files is not None
            type_ = file_pool(self.files).FindMessageTypeByName(self.message or "")
            version = self._versions[(-1, ())] = protobuf_version(type_, self.columns)
        return version

    def _of_registry(self, number_: int, path: tuple[int, ...]) -> ProtobufVersion:
        key = (number_, path)
        if key not in self._versions:
            self._versions[key] = self._looked_up(number_, path)
        version = self._versions[key]
        if isinstance(version, str):
            # Another type of message, or one whose fields the declared columns can't hold.
            raise Undecodable(version)
        return version

    def _looked_up(self, number_: int, path: tuple[int, ...]) -> ProtobufVersion | str:
        schema = self.schemas.get(number_)
        if schema is None and self.registry is not None:
            schema = self.registry.schema(number_)
        if schema is None:
            raise Undecodable(UNKNOWN_SCHEMA)
        try:
            if number_ not in self._pools:
                self._pools[number_] = registry_file(schema)
            types = list(self._pools[number_].message_types_by_name.values())
            found = types[path[0]]
            for index in path[1:]:
                found = found.nested_types[index]
            if self.message is not None and found.full_name != self.message:
                return UNPARSEABLE
            return protobuf_version(found, self.columns)
        except Incompatible as error:
            return unfit(error, number_)
        except (IndexError, KeyError, TypeError):
            return UNPARSEABLE


def protobuf_decoder(
    relation: Relation, columns: tuple[Wanted, ...], project: Project, environ: Mapping[str, str] | None
) -> ProtobufDecoder:
    """Raises TG555 and TG614 for a registry, TG611 for a file that can't be read or does not fit the columns, TG606."""
    from tidegate.project.schemas import protobuf_files, unfitting

    assert relation.format is not None
    options = relation.format.options
    found = registry_of(relation, project, environ, form="serialized")
    registry, schemas = found if found is not None else (None, {})
    files = protobuf_files(project.root, relation.format) if LOCATION in options else None
    decoder = ProtobufDecoder(columns, options.get(MESSAGE), files, schemas, registry, limits_of(project))
    if files is not None:
        decoder.schemas = {}
        try:
            decoder._of_file()
        except (Incompatible, KeyError, TypeError) as error:
            raise unfitting(relation, str(error)) from error
    else:
        for schema in schemas.values():
            registry_file(schema)
    return decoder


def file_pool(files: bytes) -> Any:
    """A DescriptorPool of a serialized FileDescriptorSet. Raises TypeError for one that is not complete."""
    from google.protobuf import descriptor_pb2

    return _pool(list(descriptor_pb2.FileDescriptorSet.FromString(files).file))


def _pool(files: list[Any]) -> Any:
    from google.protobuf import descriptor_pool

    pool = descriptor_pool.DescriptorPool()
    waiting = {file.name: file for file in [*files, *_well_known({file.name for file in files})]}

    def add(name: str) -> None:
        file = waiting.pop(name, None)
        if file is None:
            return
        for imported in file.dependency:
            add(imported)
        pool.Add(file)

    for name in list(waiting):
        add(name)
    return pool


def _well_known(there: set[str]) -> list[Any]:
    """google/protobuf/*.proto, which every compiler brings and no registry has."""
    from google.protobuf import (
        any_pb2,
        descriptor_pb2,
        duration_pb2,
        empty_pb2,
        field_mask_pb2,
        struct_pb2,
        timestamp_pb2,
        wrappers_pb2,
    )

    found = []
    for module in (any_pb2, duration_pb2, empty_pb2, field_mask_pb2, struct_pb2, timestamp_pb2, wrappers_pb2):
        file = descriptor_pb2.FileDescriptorProto()
        module.DESCRIPTOR.CopyToProto(file)
        if file.name not in there:
            found.append(file)
    return found


def registry_file(schema: Schema) -> Any:
    """The FileDescriptor of a registry's schema. Raises TG556 for a registry that gives .proto text only."""
    files: dict[str, Any] = {}
    _collect("", schema, files)
    pool = _pool(list(files.values()))
    return pool.FindFileByName(next(iter(files.values())).name)


def _collect(name: str, schema: Schema, files: dict[str, Any]) -> None:
    from google.protobuf import descriptor_pb2
    from google.protobuf.message import DecodeError

    try:
        file = descriptor_pb2.FileDescriptorProto.FromString(base64.b64decode(schema.text, validate=True))
    except (binascii.Error, DecodeError, ValueError) as error:
        raise TidegateError(
            "TG556",
            "the schema registry gives the text of a .proto file, and not its descriptor",
            hint=(
                f"add {LOCATION} = '….desc', which protoc --include_imports "
                f"--descriptor_set_out=….desc writes, and {MESSAGE}"
            ),
        ) from error
    # The main file has whatever name it was registered under; what it imports, the names that it imports them by.
    file.name = name or file.name or "schema.proto"
    files[file.name] = file
    for imported, reference in schema.references:
        _collect(imported, reference, files)


def message_indexes(value: bytes) -> tuple[tuple[int, ...], bytes] | None:
    """Which of its file's messages this is, as clients of registries write it (a path of zigzag varints; a single 0 is
    the first), and the rest; None for bytes that are cut off."""
    path: list[int] = []
    try:
        count, place = zigzag(value, 0)
        if not 0 <= count <= len(value):
            return None
        for _ in range(count):
            index, place = zigzag(value, place)
            if index < 0:
                return None
            path.append(index)
    except IndexError:
        return None
    return tuple(path) or (0,), value[place:]


def protobuf_version(type_: Any, columns: tuple[Wanted, ...]) -> ProtobufVersion:
    """How a message type (a Descriptor) fills the columns. Raises Incompatible."""
    from google.protobuf import message_factory

    gets: list[Get | None] = []
    for column in columns:
        found = next((f for f in type_.fields if f.name.casefold() == column.name.casefold()), None)
        gets.append(None if found is None else filling(column, partial(_getter, found, column.type)))
    return ProtobufVersion(message_factory.GetMessageClass(type_), gets)


def _getter(found: Any, target: pa.DataType) -> Get:
    name = found.name
    if found.message_type is not None and found.message_type.GetOptions().map_entry:
        if not pa.types.is_map(target):
            raise Incompatible("a map")
        key, item = (found.message_type.fields_by_name[n] for n in ("key", "value"))
        convert = map_of(_convert(key, target.key_type), _convert(item, target.item_type))
        return lambda message: convert(getattr(message, name))
    if found.is_repeated:
        if not pa.types.is_list(target):
            raise Incompatible("repeated")
        convert = list_of(_convert(found, target.value_type))
        return lambda message: convert(getattr(message, name))
    one = _convert(found, target)
    if found.has_presence:
        return lambda message: one(getattr(message, name)) if message.HasField(name) else None
    return lambda message: one(getattr(message, name))


def _convert(found: Any, target: pa.DataType) -> Convert:
    """The conversion of one value of a field."""
    kind = found.cpp_type
    if kind == found.CPPTYPE_MESSAGE:
        return _message(found.message_type, target)
    if kind == found.CPPTYPE_ENUM:
        if pa.types.is_integer(target):
            return same
        is_string(target)
        names = {number_: value.name for number_, value in found.enum_type.values_by_number.items()}
        return lambda value: names.get(value, str(value))
    if kind in (found.CPPTYPE_FLOAT, found.CPPTYPE_DOUBLE):
        return is_floating(target)
    if kind == found.CPPTYPE_BOOL:
        return is_boolean(target)
    if kind == found.CPPTYPE_STRING:
        return is_binary(target) if found.type == found.TYPE_BYTES else is_string(target)
    return number(target)


def _message(type_: Any, target: pa.DataType) -> Convert:
    if type_.full_name == "google.protobuf.Timestamp" and pa.types.is_timestamp(target):
        return lambda value: value.seconds * 1_000_000 + value.nanos // 1000
    if type_.full_name in WRAPPERS:
        inner = _convert(type_.fields_by_name["value"], target)
        return lambda value: inner(value.value)
    if not pa.types.is_struct(target):
        raise Incompatible(f"a message {type_.full_name}")
    fields = {f.name.casefold(): f for f in type_.fields}
    gets = [
        (wanted.name, _getter(fields[wanted.name.casefold()], wanted.type))
        for wanted in target
        if wanted.name.casefold() in fields
    ]
    return lambda message: {name: get(message) for name, get in gets}
