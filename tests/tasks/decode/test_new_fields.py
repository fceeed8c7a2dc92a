"""Fields of a registry's schemas that nobody declares, and the types of the columns that hold them."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.inprocess.session import new_spark, without_a_jvm
from tests.tasks.decode.messages import AVRO, login, project
from tests.tasks.decode.schema_registry import FakeRegistry
from tests.tasks.decode.test_protobuf_messages import shop_file
from tidegate.ingest.sources.new_fields import new_fields
from tidegate.plan.columns.changes import CHANGES, ColumnChange, ColumnStep, with_step
from tidegate.plan.columns.taken_in import MOST, TAKEN_IN, to_take_in, to_text
from tidegate.plan.columns.undeclared import FoundColumn
from tidegate.sql import load_catalog


@pytest.fixture(autouse=True)
def _session(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """PySpark asks a session what a type is."""
    monkeypatch.setenv("REGISTRY_PASSWORD", "hunter2")
    with without_a_jvm():
        new_spark()
        yield


def relation(columns: str, encode: str, options: str) -> Any:
    with_ = "connector = 'kafka', topic = 'orders', properties.bootstrap.server = 'nowhere:1'"
    sql = f"CREATE SOURCE s ({columns}) WITH ({with_}) FORMAT PLAIN ENCODE {encode} ({options})"
    return load_catalog([("s.sql", sql)]).get("s")


def types(root: Path, registry: FakeRegistry, encode: str, columns: str = "id INT", more: str = "") -> Any:
    found = new_fields(relation(columns, encode, login(registry, more)), project(root))
    return {name: column.type for name, column in found.items()}


def test_every_type_of_avro_has_a_column(tmp_path: Path, registry: FakeRegistry) -> None:
    registry.add("orders-value", 1, json.dumps(AVRO))
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


def test_what_no_column_holds_has_no_type(tmp_path: Path, registry: FakeRegistry) -> None:
    node = {"type": "record", "name": "Node", "fields": [{"name": "next", "type": ["null", "Node"]}]}
    twice = {
        "type": "record",
        "name": "Two",
        "fields": [{"name": "a", "type": "int"}, {"name": "A", "type": "int"}],
    }
    kinds: dict[str, Any] = {
        "several": ["int", "string"],
        "node": node,
        "twice": twice,
        "nothing": "null",
        "large": {"type": "bytes", "logicalType": "decimal", "precision": 60, "scale": 2},
        "empty": {"type": "record", "name": "Empty", "fields": []},
        "length": {"type": "fixed", "name": "D", "size": 12, "logicalType": "duration"},
    }
    fields = [{"name": name, "type": kind} for name, kind in kinds.items()]
    registry.add("orders-value", 1, "not a schema")
    registry.add("orders-value", 2, json.dumps({"type": "record", "name": "R", "fields": fields}))
    assert types(tmp_path, registry, "AVRO") == dict.fromkeys(kinds) | {"length": "binary"}


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
    assert types(tmp_path, registry, "PROTOBUF") == {"z": "int"}
    assert types(tmp_path, registry, "PROTOBUF", more=", message = 'shop.Nothing'") == {}


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
