"""Fields of a registry's schemas that nobody declares, and the types of the columns that hold them."""

from __future__ import annotations

import base64
import json
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf import descriptor_pb2

from tests.tasks.decode.messages import AVRO, login, project
from tests.tasks.decode.schema_registry import FakeRegistry
from tests.tasks.decode.test_protobuf_messages import shop_file
from tidegate.ingest.sources.new_fields import new_fields
from tidegate.plan.columns.changes import CHANGES, ColumnChange, ColumnStep, with_step
from tidegate.plan.columns.merging import MOST
from tidegate.plan.columns.taken_in import TAKEN_IN, additions, to_take_in, to_text
from tidegate.plan.columns.undeclared import FoundColumn, Telling, and_undeclared
from tidegate.sql import load_catalog
from tidegate.tasks.parquet.column_types import spark_type


@pytest.fixture(autouse=True)
def _password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REGISTRY_PASSWORD", "hunter2")


def relation(columns: str, encode: str, options: str) -> Any:
    with_ = "connector = 'kafka', topic = 'orders', properties.bootstrap.server = 'nowhere:1'"
    sql = f"CREATE SOURCE s ({columns}) WITH ({with_}) FORMAT PLAIN ENCODE {encode} ({options})"
    return load_catalog([("s.sql", sql)]).get("s")


def types(root: Path, registry: FakeRegistry, encode: str, columns: str = "id INT", more: str = "") -> Any:
    found = new_fields(relation(columns, encode, login(registry, more)), project(root))
    return {name: column.type for name, column in found.items()}


def record(name: str = "R", **fields: Any) -> Any:
    return {"type": "record", "name": name, "fields": [{"name": n, "type": t} for n, t in fields.items()]}


def register(registry: FakeRegistry, *schemas: Any) -> None:
    for number, schema in enumerate(schemas, 1):
        registry.add("orders-value", number, json.dumps(schema))


def test_every_type_of_avro_has_a_column(tmp_path: Path, registry: FakeRegistry) -> None:
    register(registry, AVRO)
    assert types(tmp_path, registry, "AVRO") == {
        "ts": "timestamp",
        "local": "timestamp_ntz",
        "price": "decimal(30,2)",
        "key": "string",
        "kind": "string",
        "day": "date",
        "tags": "array<string>",
        "rates": "map<string,float>",
        "at": "struct<x:int>",
        "hash": "binary",
        "not_declared": "string",
    }


def test_X2_what_no_column_holds_has_no_type_and_a_broken_version_says_nothing(
    tmp_path: Path, registry: FakeRegistry
) -> None:
    kinds: dict[str, Any] = {
        "several": ["int", "string"],
        "node": record("Node", next=["null", "Node"]),
        "twice": {"type": "record", "name": "T", "fields": [{"name": n, "type": "int"} for n in ("a", "A")]},
        "nothing": "null",
        "large": {"type": "bytes", "logicalType": "decimal", "precision": 60, "scale": 2},
        "empty": record("Empty"),
        # Logical types that mean nothing are ignored, as the specification says.
        "length": {"type": "fixed", "name": "D", "size": 12, "logicalType": "duration"},
        "text": {"type": "string", "logicalType": "timestamp-millis"},
        "odd": {"type": "int", "logicalType": []},
    }
    registry.add("orders-value", 90, "not a schema")
    registry.add("orders-value", 91, "[" * 5000)
    register(registry, record(**kinds))
    known = {"length": "binary", "text": "string", "odd": "int"}
    assert types(tmp_path, registry, "AVRO") == dict.fromkeys(kinds) | known


def test_X2_a_schema_that_grows_by_itself_costs_no_time(tmp_path: Path, registry: FakeRegistry) -> None:
    inner: Any = "int"
    for depth in range(9):
        inner = record(f"L{depth}", a=inner, **dict.fromkeys("bcd", f"L{depth - 1}" if depth else "int"))
    itself = record("Node", **{f"f{i}": ["null", "Node"] for i in range(8)})
    register(registry, record(wide=inner, itself=itself))
    proto = descriptor_pb2.FileDescriptorProto(name="n.proto", syntax="proto3")
    node = proto.message_type.add(name="Node")
    for i in range(1, 9):
        node.field.add(name=f"f{i}", number=i, type=11, type_name=".Node", label=1)
    registry.add("nodes", 7, base64.b64encode(proto.SerializeToString()).decode(), schemaType="PROTOBUF")
    started = time.process_time()
    assert types(tmp_path, registry, "AVRO") == {"wide": None, "itself": None}
    nodes = types(tmp_path, registry, "PROTOBUF", more=", schema.registry.subject = 'nodes'")
    assert nodes == {f"f{i}": None for i in range(1, 9)}
    # Minutes, if each type were followed into all others.
    assert time.process_time() - started < 20


def test_X2_all_fields_of_a_schema_together_have_a_limit(tmp_path: Path, registry: FakeRegistry) -> None:
    inner = record("In", **{f"x{i}": "int" for i in range(99)})
    # A named type that each of the fields uses is followed again for each.
    fields = {"f0": inner} | {f"f{i}": "In" for i in range(1, 5000)}
    register(registry, record(**fields))
    found = types(tmp_path, registry, "AVRO")
    assert len(found) == 1000
    assert sum(kind is not None for kind in found.values()) == 5000 // 100

    # One type has a limit of its own.
    alone = record(large=record("L", **{f"x{i}": "int" for i in range(200)}), n="int")
    registry.add("alone", 40, json.dumps(alone))
    assert types(tmp_path, registry, "AVRO", more=", schema.registry.subject = 'alone'") == {
        "large": None,
        "n": "int",
    }

    # What versions come to has no more columns than a source takes in.
    def many(letter: str) -> Any:
        return record(letter, **{f"{letter}{i}": "int" for i in range(180)})

    for number, letter in enumerate("abc", 20):
        registry.add("wide", number, json.dumps(record(at=record("At", inner=many(letter)), n="int")))
    wide = types(tmp_path, registry, "AVRO", more=", schema.registry.subject = 'wide'")
    assert wide == {"at": None, "n": "int"}
    # Neither a long name inside nor a long schema is followed.
    registry.add("long", 30, json.dumps(record(at=record("At", **{"x" * 200: "int"}), n="int")))
    assert types(tmp_path, registry, "AVRO", more=", schema.registry.subject = 'long'") == {
        "at": None,
        "n": "int",
    }
    registry.add("longer", 31, json.dumps(record(n="int") | {"doc": "x" * (1 << 20)}))
    assert types(tmp_path, registry, "AVRO", more=", schema.registry.subject = 'longer'") == {}


def test_X2_a_registry_that_has_nothing_new_costs_a_batch_next_to_nothing(
    tmp_path: Path, registry: FakeRegistry
) -> None:
    wide = {f"f{i}": record(f"T{i}", **{f"x{j}": "int" for j in range(4)}) for i in range(400)}
    for number in range(1, 80):
        registry.add("orders-value", number, json.dumps(record(**wide, **{f"v{number}": "int"})))
    source = relation("id INT", "AVRO", login(registry))
    assert len(new_fields(source, project(tmp_path))) == 479
    started = time.process_time()
    for _ in range(20):
        new_fields(source, project(tmp_path), asks=False)
    assert time.process_time() - started < 1
    # One more version is read alone.
    read: list[Any] = []
    patched = pytest.MonkeyPatch()
    patched.setattr(
        "tidegate.ingest.sources.new_fields.avro_fields", lambda schema: read.append(schema) or {}
    )
    registry.add("orders-value", 80, json.dumps(record(more="int")))
    new_fields(source, project(tmp_path))
    patched.undo()
    assert len(read) == 1


def test_names_of_one_schema_that_differ_by_case_only_have_no_type(
    tmp_path: Path, registry: FakeRegistry
) -> None:
    register(
        registry,
        {"type": "record", "name": "R", "fields": [{"name": n, "type": "int"} for n in ("Foo", "foo", "x")]},
    )
    assert types(tmp_path, registry, "AVRO") == {"foo": None, "x": "int"}


def test_every_type_of_protobuf_has_a_column(tmp_path: Path, registry: FakeRegistry) -> None:
    serialized = base64.b64encode(shop_file().SerializeToString()).decode()
    registry.add("orders-value", 31, serialized, schemaType="PROTOBUF")
    assert types(tmp_path, registry, "PROTOBUF", more=", message = 'shop.Order'") == {
        "ts": "timestamp",
        "name": "string",
        "note": "string",
        "tags": "array<int>",
        "color": "string",
        "rates": "map<string,double>",
        "at": "struct<x:int>",
        "hash": "binary",
        "maybe": "int",
    }
    # Which of several messages a source has is said by `message`.
    assert types(tmp_path, registry, "PROTOBUF") == {}
    assert types(tmp_path, registry, "PROTOBUF", more=", message = 'shop.Other'") == {"z": "int"}


def test_json_schema_has_the_types_of_json(tmp_path: Path, registry: FakeRegistry) -> None:
    properties = {
        "n": {"type": "integer"},
        "x": {"type": ["null", "number"]},
        "ok": {"oneOf": [{"type": "null"}, {"type": "boolean"}]},
        "tags": {"type": "array", "items": {"type": "string"}},
        "at": {"type": "object", "properties": {"lat": {"type": "number"}}},
        "any": {},
        "two": {"type": ["string", "integer"]},
    }
    register(registry, {"type": "object", "properties": properties})
    assert types(tmp_path, registry, "JSON") == {
        "n": "bigint",
        "x": "double",
        "ok": "boolean",
        "tags": "array<string>",
        "at": "struct<lat:double>",
        "any": None,
        "two": None,
    }


def test_a_field_of_several_versions_has_the_type_that_holds_all_of_them(
    tmp_path: Path, registry: FakeRegistry
) -> None:
    register(
        registry,
        record(n="long", m="int", s="string", at=record("A", x="int"), more={"type": "array", "items": "A"}),
        record(n="int", m="long", s="int", at=record("A", y="long"), more={"type": "array", "items": "A"}),
    )
    assert types(tmp_path, registry, "AVRO") == {
        "n": "bigint",
        "m": "bigint",
        "s": None,
        "at": "struct<x:int,y:bigint>",
        "more": "array<struct<x:int,y:bigint>>",
    }
    lacking = record(at=record("A", x="int", y="int"), many={"type": "array", "items": "long"})
    registry.add("another", 8, json.dumps(lacking))
    # Of a column that is declared, what it lacks.
    declared = "id INT, at STRUCT<x INT>, many BIGINT[]"
    assert types(tmp_path, registry, "AVRO", declared, ", schema.registry.subject = 'another'") == {
        "at.y": None
    }


def test_E2_only_so_many_columns_are_taken_in_and_none_that_was_dropped() -> None:
    step = ColumnStep(3, "", "", (ColumnChange("drop", "Gone"),))
    properties = {CHANGES: with_step(None, step)}
    source = relation("id INT", "JSON", "case = 'sensitive'")
    names = ("gone", "ID", "_wm", "_key_1", "a b", "ä", "x" * 60, "fine", "FINE")
    found = {name: FoundColumn("schema 1", "int") for name in names} | {"unknown": FoundColumn("schema 1")}
    taken = to_take_in(source, found, properties, 7)
    assert [(one.column, one.epoch) for one in taken] == [("fine", 7)]
    assert to_take_in(source, found, properties | {TAKEN_IN: to_text(taken)}, 8) == ()
    many = {f"c{i}": FoundColumn("schema 1", "int") for i in range(MOST + 9)}
    assert len(to_take_in(source, many, {TAKEN_IN: to_text(taken)}, 7)) == MOST - 1
    # What was renamed away may be in the input for long.
    renamed = with_step(None, ColumnStep(3, "", "", (ColumnChange("rename", "Fine", "b"),)))
    assert to_take_in(source, found, {CHANGES: renamed}, 7)[0].column == "gone"
    assert "fine" not in {one.column for one in to_take_in(source, found, {CHANGES: renamed}, 7)}
    # What is inside counts.
    wide = FoundColumn("schema 1", f"struct<{','.join(f'f{i}:int' for i in range(MOST - 2))}>")
    taken = to_take_in(source, {"wide": wide, "one": many["c1"], "two": many["c2"]}, {}, 7)
    assert [one.column for one in taken] == ["wide", "one"]


def test_X2_what_a_commit_and_a_table_say_of_columns_has_a_limit() -> None:
    kind = f"struct<{','.join(f'x{i:0120}:int' for i in range(70))}>"
    found = {f"c{i}": FoundColumn("folder/" * 500 + f"{i}.parquet", kind) for i in range(90)}
    told = and_undeclared(None, found, 1)
    assert told is not None
    assert len(told.to_text()) < 40_000
    assert (len(told.columns), told.types) == (50, {"c0": kind})
    assert told.columns["c7"].endswith("/7.parquet")
    source = relation("id INT", "JSON", "case = 'sensitive'")
    taken = to_take_in(source, {name: one._replace(type="int") for name, one in found.items()}, {}, 7)
    assert len(taken) == 90
    assert len(to_text(taken)) < 50_000
    texts = {name: one._replace(type=f"struct<{'x' * 9000}:int>") for name, one in found.items()}
    assert len(to_text(to_take_in(source, texts, {}, 7))) < 220_000


@pytest.mark.long_run
def test_X2_what_is_told_of_files_is_told_once_and_has_a_limit() -> None:
    telling = Telling()
    one = telling.of(["Foo", "foo", "x", "x", "y"], lambda _: "int")
    assert one == {"Foo": None, "foo": None, "x": None, "y": "int"}
    assert telling.of(["Foo", "foo", "x", "x", "y"], lambda _: "int") is one
    long = [f"{i:03}{'x' * 70}" for i in range(600)]
    assert len(telling.of(long, lambda _: "y" * 39_000)) <= 500
    told = [telling.of([f"{n} {name}" for name in long], lambda _: "string") for n in range(2000)]
    size = sum(len(name) + len(kind or "") for each in told for name, kind in each.items())
    assert size < 2_000_000
    assert min(map(len, told)) == 5
    assert telling.of(["Foo", "foo", "x", "x", "y"], lambda _: "int") is one


def test_the_statements_name_only_what_can_be_added() -> None:
    kinds = {
        "Ref": "string",
        "two words": "int",
        "field 3 of 3": "string",
        "_reason": "int",
        "order": "bigint",
    }
    assert additions("TABLE", "my-table", kinds) == [
        'ALTER TABLE "my-table" ADD COLUMN "Ref" VARCHAR',
        'ALTER TABLE "my-table" ADD COLUMN "order" BIGINT',
    ]


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (pa.dictionary(pa.int8(), pa.large_string()), "string"),
        (pa.uint32(), "bigint"),
        (pa.uint64(), None),
        (pa.timestamp("us", "UTC"), "timestamp"),
        (pa.timestamp("ns"), None),
        (pa.duration("us"), None),
        (pa.time64("us"), None),
        (pa.list_(pa.null()), None),
        (pa.decimal128(38, 10), "decimal(38,10)"),
        (pa.decimal256(50, 2), None),
        (pa.map_(pa.string(), pa.list_(pa.date32())), "map<string,array<date>>"),
        (pa.map_(pa.int32(), pa.int32()), None),
        (pa.struct([("a", pa.struct([("b", pa.float16())]))]), "struct<a:struct<b:float>>"),
        (pa.struct([("two words", pa.int32())]), None),
        (pa.struct([("a:b", pa.int32())]), None),
        (pa.struct([("a", pa.int32()), ("A", pa.int32())]), None),
        (pa.struct([]), None),
        (pa.struct([(f"f{i}", pa.int32()) for i in range(300)]), None),
    ],
)
def test_the_types_of_parquet_that_a_column_has(kind: pa.DataType, expected: str | None) -> None:
    assert spark_type(kind) == expected
