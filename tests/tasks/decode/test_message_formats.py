"""AVRO and PROTOBUF: what a decoder makes of messages, with schemas of files and of a registry. No Spark here."""

from __future__ import annotations

import base64
import io
import json
import pickle
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from google.protobuf import descriptor_pb2, message_factory

from tests.tasks.decode.schema_registry import FakeRegistry, schema_registry
from tidegate.errors import TidegateError
from tidegate.project import Project
from tidegate.sql import load_catalog
from tidegate.tasks.decode.binary.avro import avro_decoder
from tidegate.tasks.decode.binary.messages import UNPARSEABLE, DecodeTask
from tidegate.tasks.decode.binary.protobuf import file_pool, message_indexes, protobuf_decoder
from tidegate.tasks.decode.columns import Wanted

AVRO = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [
        {"name": "ID", "type": "long"},
        {"name": "ts", "type": ["null", {"type": "long", "logicalType": "timestamp-millis"}]},
        {"name": "local", "type": {"type": "long", "logicalType": "local-timestamp-micros"}},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 30, "scale": 2}},
        {"name": "key", "type": {"type": "string", "logicalType": "uuid"}},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["NEW", "OLD"]}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "tags", "type": {"type": "array", "items": ["null", "string"]}},
        {"name": "rates", "type": {"type": "map", "values": "float"}},
        {
            "name": "at",
            "type": {"type": "record", "name": "At", "fields": [{"name": "x", "type": ["int", "null"]}]},
        },
        {"name": "hash", "type": {"type": "fixed", "name": "Hash", "size": 2}},
        {"name": "not_declared", "type": "string"},
    ],
}
AVRO_COLUMNS = (
    "id INT, ts TIMESTAMPTZ, local TIMESTAMP, price DECIMAL(30, 2), key VARCHAR, kind VARCHAR, day DATE, "
    "tags VARCHAR[], rates MAP<VARCHAR, DOUBLE>, at STRUCT<X BIGINT>, hash BYTEA, not_written VARCHAR"
)
AVRO_ROW: dict[str, Any] = {
    "ID": 5,
    "ts": datetime(2026, 1, 1, 10, tzinfo=UTC),
    "local": datetime(2026, 1, 1, 11),
    "price": Decimal("1234567890123456789012345678.91"),
    "key": "0f" * 4 + "-0f0f-0f0f-0f0f-" + "0f" * 6,
    "kind": "OLD",
    "day": date(2026, 1, 2),
    "tags": ["a", None],
    "rates": {"k": 0.5},
    "at": {"x": 3},
    "hash": b"\x00\xff",
    "not_declared": "z",
}
VERSION_2 = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "added", "type": "int", "default": 1}, {"name": "id", "type": "int"}],
}


def project(root: Path) -> Project:
    (root / "assets").mkdir(exist_ok=True)
    return Project.load(root)


def task(
    root: Path, encode: str, columns: str, wanted: list[tuple[str, pa.DataType]], options: str
) -> DecodeTask:
    """The decoder of a source, as Spark's tasks get it: through pickle."""
    with_ = "connector = 'kafka', topic = 'orders', properties.bootstrap.server = 'nowhere:1'"
    sql = f"CREATE SOURCE s ({columns}) WITH ({with_}) FORMAT PLAIN ENCODE {encode} ({options})"
    relation: Any = load_catalog([("s.sql", sql)]).get("s")
    make = avro_decoder if encode == "AVRO" else protobuf_decoder
    found = tuple(Wanted(name, type_) for name, type_ in wanted)
    environ = {"REGISTRY_PASSWORD": "hunter2"}
    decoder = make(relation, found, project(root), environ)
    assert "hunter2" not in repr(decoder)
    return pickle.loads(pickle.dumps(DecodeTask(decoder, found)))


def rows(decode: DecodeTask, messages: list[bytes | None]) -> list[dict[str, Any]]:
    (out,) = decode(iter([pa.array(messages, pa.binary())]))
    return out.to_pylist()


def avro(schema: dict[str, Any], row: dict[str, Any]) -> bytes:
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(schema), row)
    return stream.getvalue()


def framed(number: int, payload: bytes) -> bytes:
    return b"\x00" + number.to_bytes(4, "big") + payload


AVRO_WANTED = [
    ("id", pa.int32()),
    ("ts", pa.timestamp("us", "UTC")),
    ("local", pa.timestamp("us")),
    ("price", pa.decimal128(30, 2)),
    ("key", pa.string()),
    ("kind", pa.string()),
    ("day", pa.date32()),
    ("tags", pa.list_(pa.string())),
    ("rates", pa.map_(pa.string(), pa.float64())),
    ("at", pa.struct([("X", pa.int64())])),
    ("hash", pa.binary()),
    ("not_written", pa.string()),
]


def test_avro_values_of_every_type_and_W5_what_is_no_row(tmp_path: Path) -> None:
    (tmp_path / "o.avsc").write_text(json.dumps(AVRO))
    decode = task(tmp_path, "AVRO", AVRO_COLUMNS, AVRO_WANTED, "schema.location = 'o.avsc'")
    good = avro(AVRO, AVRO_ROW)
    large = avro(AVRO, AVRO_ROW | {"ID": 2**40})
    found = rows(decode, [good, None, good[:-1], good + b"x", large, b"", good])
    large_id = 'unparseable: column "id" wants int32'
    reasons = [None, "null_value", UNPARSEABLE, UNPARSEABLE, large_id, UNPARSEABLE, None]
    assert [row["_why"] for row in found] == reasons
    assert found[2]["_raw"] == "base64:" + base64.b64encode(good[:-1]).decode()
    assert found[4]["_raw"] == "base64:" + base64.b64encode(large).decode()
    assert found[1]["_raw"] is None
    expected = [5, *(AVRO_ROW[n] for n in ("ts", "local", "price", "key", "kind", "day", "tags"))]
    expected += [[("k", 0.5)], {"X": 3}, b"\x00\xff", None]
    for row in (found[0], found[-1]):
        assert [row[f"c{i}"] for i in range(12)] == expected
        assert row["_raw"] is None


@pytest.mark.parametrize("micros", [-62135596800000000, 253402300799999999, 2**62])
def test_avro_timestamps_of_any_year(tmp_path: Path, micros: int) -> None:
    """Year 1, year 9999, and one that Python's own types can't hold."""
    field = {"name": "ts", "type": {"type": "long", "logicalType": "timestamp-micros"}}
    schema = {"type": "record", "name": "R", "fields": [field]}
    (tmp_path / "r.avsc").write_text(json.dumps(schema))
    wanted = [("ts", pa.timestamp("us", "UTC"))]
    decode = task(tmp_path, "AVRO", "ts TIMESTAMPTZ", wanted, "schema.location = 'r.avsc'")
    bare = {"type": "record", "name": "R", "fields": [{"name": "ts", "type": "long"}]}
    (out,) = decode(iter([pa.array([avro(bare, {"ts": micros})])]))
    assert out.field("c0").cast(pa.int64()).to_pylist() == [micros]
    assert out.field("_why").to_pylist() == [None]


@pytest.fixture
def registry() -> Iterator[FakeRegistry]:
    with schema_registry() as running:
        yield running


def login(registry: FakeRegistry, more: str = "") -> str:
    password = "schema.registry.password = '${REGISTRY_PASSWORD}'"
    return f"schema.registry = '{registry.url}', schema.registry.username = 'reader', {password}{more}"


def test_avro_of_a_registry_reads_each_message_by_its_writers_schema(
    tmp_path: Path, registry: FakeRegistry
) -> None:
    registry.add("orders-value", 11, json.dumps(AVRO))
    registry.add("orders-value", 12, json.dumps(VERSION_2))
    registry.add("another", 13, json.dumps(VERSION_2))
    part = {"type": "record", "name": "Part", "fields": [{"name": "n", "type": "int"}]}
    whole = {
        "type": "record",
        "name": "W",
        "fields": [{"name": "id", "type": "long"}, {"name": "p", "type": "Part"}],
    }
    registry.add("parts", 14, json.dumps(part))
    references = [{"name": "Part", "subject": "parts", "version": 1}]
    registry.add("orders-value", 15, json.dumps(whole), references=references)
    text = {"type": "record", "name": "T", "fields": [{"name": "id", "type": "string"}]}
    registry.add("orders-value", 16, json.dumps(text))

    wanted = [("id", pa.int32()), ("added", pa.int32()), ("p", pa.struct([("n", pa.int32())]))]
    columns = "id INT, added INT, p STRUCT<n INT>"
    decode = task(tmp_path, "AVRO", columns, wanted, login(registry))
    found = rows(
        decode,
        [
            framed(11, avro(AVRO, AVRO_ROW)),
            framed(12, avro(VERSION_2, {"added": 2, "id": 6})),
            framed(13, avro(VERSION_2, {"added": 3, "id": 7})),
            framed(15, b"\x10\x12"),  # id 8, p.n 9
            framed(99, b""),
            framed(16, avro(text, {"id": "x"})),
            avro(VERSION_2, {"added": 2, "id": 6}),
            b"\x00\x00",
        ],
    )
    assert [(r["c0"], r["c1"], r["c2"], r["_why"]) for r in found] == [
        (5, None, None, None),
        (6, 2, None, None),
        (7, 3, None, None),  # of another subject: looked up by its id
        (8, None, {"n": 9}, None),
        (None, None, None, "unknown_schema"),
        (None, None, None, 'unparseable: column "id" wants int32'),  # the schema has text
        (None, None, None, UNPARSEABLE),
        (None, None, None, UNPARSEABLE),
    ]


def test_a_new_version_is_known_to_the_next_batch_for_two_requests(
    tmp_path: Path, registry: FakeRegistry
) -> None:
    registry.add("mine", 21, json.dumps(VERSION_2))
    more, wanted = ", schema.registry.subject = 'mine'", [("id", pa.int32())]
    task(tmp_path, "AVRO", "id INT", wanted, login(registry, more))
    registry.add("mine", 22, json.dumps(VERSION_2))
    registry.asked.clear()
    decode = task(tmp_path, "AVRO", "id INT", wanted, login(registry, more))
    assert registry.asked == ["/subjects/mine/versions", "/subjects/mine/versions/2"]
    assert rows(decode, [framed(22, avro(VERSION_2, {"added": 2, "id": 6}))])[0]["c0"] == 6
    assert len(registry.asked) == 2


def test_a_registry_that_refuses_or_breaks_is_an_error_and_shows_no_secret(
    tmp_path: Path, registry: FakeRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidegate.tasks.decode.binary.registry._PAUSE", 0)
    with pytest.raises(TidegateError) as caught:
        task(tmp_path, "AVRO", "id INT", [("id", pa.int32())], f"schema.registry = '{registry.url}'")
    assert caught.value.code == "TG555"
    assert "401" in caught.value.message
    registry.broken = True
    registry.asked.clear()
    with pytest.raises(TidegateError) as caught:
        task(tmp_path, "AVRO", "id INT", [("id", pa.int32())], login(registry))
    assert caught.value.code == "TG555"
    assert len(registry.asked) == 3
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("schema", "columns", "wanted", "message"),
    [
        (AVRO, "id VARCHAR", [("id", pa.string())], '"id": the schema\'s field is an integer'),
        (AVRO, "tags INT", [("tags", pa.int32())], "is an array"),
        (AVRO, "ts INT", [("ts", pa.int32())], "is a timestamp-millis"),
        (AVRO, "at STRUCT<x VARCHAR>", [("at", pa.struct([("x", pa.string())]))], "is an integer"),
        ({"type": "string"}, "id INT", [("id", pa.int32())], "not one of a record"),
        ({"type": "record", "fields": []}, "id INT", [("id", pa.int32())], "not an Avro schema"),
    ],
)
def test_a_file_that_does_not_fit_the_columns_is_an_error_before_the_first_row(
    tmp_path: Path, schema: Any, columns: str, wanted: list[tuple[str, pa.DataType]], message: str
) -> None:
    (tmp_path / "o.avsc").write_text(json.dumps(schema))
    with pytest.raises(TidegateError) as caught:
        task(tmp_path, "AVRO", columns, wanted, "schema.location = 'o.avsc'")
    assert caught.value.code == "TG611"
    assert message in caught.value.message


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
