"""A source of binary messages, and what its decoder makes of them."""

from __future__ import annotations

import io
import pickle
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa

from tests.tasks.decode.schema_registry import FakeRegistry
from tidegate.project import Project
from tidegate.sql import load_catalog
from tidegate.tasks.decode.binary.avro import avro_decoder
from tidegate.tasks.decode.binary.messages import DecodeTask
from tidegate.tasks.decode.binary.protobuf import protobuf_decoder
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


def login(registry: FakeRegistry, more: str = "") -> str:
    password = "schema.registry.password = '${REGISTRY_PASSWORD}'"
    return f"schema.registry = '{registry.url}', schema.registry.username = 'reader', {password}{more}"
