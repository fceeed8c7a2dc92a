"""PROTOBUF: what a decoder makes of messages, with schemas of files and of a registry. No Spark here."""

from __future__ import annotations

import base64
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf import descriptor_pb2, message_factory

from tests.tasks.decode.messages import framed, login, rows, task
from tests.tasks.decode.schema_registry import FakeRegistry
from tidegate.errors import TidegateError
from tidegate.tasks.decode.binary.messages import UNPARSEABLE, DecodeTask
from tidegate.tasks.decode.binary.protobuf import ProtobufDecoder, file_pool, message_indexes
from tidegate.tasks.decode.columns import Wanted


def shop_file() -> descriptor_pb2.FileDescriptorProto:
    """A .proto file as protoc sees it: message Other, and message Order with a field of every kind."""
    kinds = descriptor_pb2.FieldDescriptorProto
    imports = ["google/protobuf/timestamp.proto", "google/protobuf/wrappers.proto"]
    file = descriptor_pb2.FileDescriptorProto(
        name="shop.proto", package="shop", syntax="proto3", dependency=imports
    )
    color = file.enum_type.add(name="Color")
    color.value.add(name="RED", number=0)
    color.value.add(name="BLUE", number=1)
    file.message_type.add(name="Other").field.add(name="z", number=1, type=kinds.TYPE_INT32, label=1)
    order = file.message_type.add(name="Order")
    entry = order.nested_type.add(name="RatesEntry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, type=kinds.TYPE_STRING, label=1)
    entry.field.add(name="value", number=2, type=kinds.TYPE_DOUBLE, label=1)
    inner = order.nested_type.add(name="At")
    inner.field.add(name="x", number=1, type=kinds.TYPE_INT32, label=1)
    fields = [
        ("id", kinds.TYPE_INT64, "", 1),
        ("ts", kinds.TYPE_MESSAGE, ".google.protobuf.Timestamp", 1),
        ("name", kinds.TYPE_STRING, "", 1),
        ("note", kinds.TYPE_MESSAGE, ".google.protobuf.StringValue", 1),
        ("tags", kinds.TYPE_INT32, "", 3),
        ("color", kinds.TYPE_ENUM, ".shop.Color", 1),
        ("rates", kinds.TYPE_MESSAGE, ".shop.Order.RatesEntry", 3),
        ("at", kinds.TYPE_MESSAGE, ".shop.Order.At", 1),
        ("hash", kinds.TYPE_BYTES, "", 1),
    ]
    for number, (name, kind, type_name, label) in enumerate(fields, 1):
        order.field.add(name=name, number=number, type=kind, type_name=type_name or None, label=label)
    order.oneof_decl.add(name="_maybe")
    order.field.add(
        name="maybe", number=10, type=kinds.TYPE_INT32, label=1, proto3_optional=True, oneof_index=0
    )
    return file


def shop_order(**values: Any) -> bytes:
    files = descriptor_pb2.FileDescriptorSet(file=[shop_file()]).SerializeToString()
    order = message_factory.GetMessageClass(file_pool(files).FindMessageTypeByName("shop.Order"))(**values)
    return order.SerializeToString()


PROTO_COLUMNS = (
    "id BIGINT, ts TIMESTAMPTZ, name VARCHAR, note VARCHAR, tags BIGINT[], color VARCHAR, "
    "rates MAP<VARCHAR, DOUBLE>, at STRUCT<x BIGINT>, hash BYTEA, maybe INT"
)
PROTO_WANTED = [
    ("id", pa.int64()),
    ("ts", pa.timestamp("us", "UTC")),
    ("name", pa.string()),
    ("note", pa.string()),
    ("tags", pa.list_(pa.int64())),
    ("color", pa.string()),
    ("rates", pa.map_(pa.string(), pa.float64())),
    ("at", pa.struct([("x", pa.int64())])),
    ("hash", pa.binary()),
    ("maybe", pa.int32()),
]
ORDER = {
    "id": 5,
    "ts": {"seconds": 1767261600, "nanos": 1500},
    "name": "é",
    "note": {"value": ""},
    "tags": [1, 2],
    "color": 1,
    "rates": {"k": 1.5},
    "at": {"x": 3},
    "hash": b"\xff",
}


def test_protobuf_values_of_every_type_and_W5_what_is_no_row(tmp_path: Path) -> None:
    files = descriptor_pb2.FileDescriptorSet(file=[shop_file()])
    (tmp_path / "shop.desc").write_bytes(files.SerializeToString())
    options = "schema.location = 'shop.desc', message = 'shop.Order'"
    decode = task(tmp_path, "PROTOBUF", PROTO_COLUMNS, PROTO_WANTED, options)
    good = shop_order(**ORDER)
    found = rows(decode, [good, None, good[:-1], b"\xff\xff", b"", good])
    assert [r["_why"] for r in found] == [None, "null_value", UNPARSEABLE, UNPARSEABLE, None, None]
    ts = datetime(2026, 1, 1, 10, 0, 0, 1, tzinfo=UTC)
    expected = [5, ts, "é", "", [1, 2], "BLUE", [("k", 1.5)], {"x": 3}, b"\xff", None]
    assert [found[0][f"c{i}"] for i in range(10)] == [found[-1][f"c{i}"] for i in range(10)] == expected
    # Nothing was set: defaults, and NULL where a field says whether it is there.
    assert [found[4][f"c{i}"] for i in range(10)] == [0, None, "", None, [], "RED", [], None, b"", None]
    assert found[3]["_raw"] == "base64://8="


def test_protobuf_of_a_registry_names_the_message_by_its_place(
    tmp_path: Path, registry: FakeRegistry
) -> None:
    serialized = base64.b64encode(shop_file().SerializeToString()).decode()
    registry.add("orders-value", 31, serialized, schemaType="PROTOBUF")
    more = ", message = 'shop.Order'"
    decode = task(tmp_path, "PROTOBUF", "id BIGINT", [("id", pa.int64())], login(registry, more))
    order, path = shop_order(id=5), b"\x02\x02"  # one index, 1
    found = rows(
        decode,
        [
            framed(31, path + order),
            framed(31, b"\x00" + order),
            framed(32, path + order),
            framed(31, b"\x80"),
            order,
        ],
    )
    assert [(r["c0"], r["_why"]) for r in found] == [
        (5, None),
        (None, UNPARSEABLE),  # shop.Other
        (None, "unknown_schema"),
        (None, UNPARSEABLE),
        (None, UNPARSEABLE),
    ]


def test_protobuf_of_a_registry_that_has_text_only_says_what_to_do(
    tmp_path: Path, registry: FakeRegistry
) -> None:
    registry.add("orders-value", 41, 'syntax = "proto3"; message Order { int64 id = 1; }')
    with pytest.raises(TidegateError) as caught:
        task(tmp_path, "PROTOBUF", "id BIGINT", [("id", pa.int64())], login(registry))
    assert caught.value.code == "TG556"
    assert "--descriptor_set_out" in (caught.value.hint or "")
    # What it says to do: the file has the type, the registry's frame is taken off.
    files = descriptor_pb2.FileDescriptorSet(file=[shop_file()])
    (tmp_path / "shop.desc").write_bytes(files.SerializeToString())
    more = ", schema.location = 'shop.desc', message = 'shop.Order'"
    decode = task(tmp_path, "PROTOBUF", "id BIGINT", [("id", pa.int64())], login(registry, more))
    assert rows(decode, [framed(41, b"\x02\x02" + shop_order(id=5))])[0]["c0"] == 5


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (b"\x00abc", ((0,), b"abc")),
        (b"\x02\x00abc", ((0,), b"abc")),
        (b"\x04\x02\x04x", ((1, 2), b"x")),
        (b"\x02\x80\x01x", ((64,), b"x")),
        (b"", None),
        (b"\x04\x02", None),
        (b"\x80", None),
        (b"\x01", None),
    ],
)
def test_the_message_indexes_of_a_frame(value: bytes, expected: Any) -> None:
    assert message_indexes(value) == expected


def test_W5_text_that_is_no_utf8_is_null_in_what_was_taken_in() -> None:
    """Of proto2, which only who reads the field finds."""
    file = descriptor_pb2.FileDescriptorProto(name="t.proto", syntax="proto2")
    message = file.message_type.add(name="T")
    for number, name in enumerate(("a", "b"), 1):
        message.field.add(name=name, number=number, type=9, label=1)
    files = descriptor_pb2.FileDescriptorSet(file=[file]).SerializeToString()
    value = b"\x0a\x01x\x12\x02\xff\xfe"
    columns = (Wanted("a", pa.string()), Wanted("b", pa.string(), optional=True))
    (found,) = rows(DecodeTask(ProtobufDecoder(columns, "T", files), columns), [value])
    assert (found["c0"], found["c1"], found["_why"]) == ("x", None, None)
    columns = tuple(column._replace(optional=False) for column in columns)
    (found,) = rows(DecodeTask(ProtobufDecoder(columns, "T", files), columns), [value])
    assert '"b"' in found["_why"]
