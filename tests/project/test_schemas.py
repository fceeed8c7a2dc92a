"""Schema files of AVRO and PROTOBUF sources, as `check` reads them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from google.protobuf import descriptor_pb2

from tidegate.errors import TidegateError
from tidegate.project import Project

SQL = """CREATE SOURCE s (
    id INT,
    {column} INT,
    twice INT AS id * 2
) WITH (connector = 'kafka', topic = 't', properties.bootstrap.server = 'localhost:1')
FORMAT PLAIN ENCODE {format};
"""
AVRO = "AVRO (schema.location = 'schemas/o.avsc')"
PROTO = "PROTOBUF (schema.location = 'schemas/o.desc', message = '{}')"


def project(root: Path, column: str, format_: str) -> Project:
    (root / "assets").mkdir()
    (root / "schemas").mkdir()
    fields = [{"name": "ID", "type": "int"}, {"name": "price", "type": "int"}]
    record = {"type": "record", "name": "R", "fields": fields}
    (root / "schemas" / "o.avsc").write_text(json.dumps(record))
    file = descriptor_pb2.FileDescriptorProto(name="o.proto", package="shop")
    order = file.message_type.add(name="Order")
    for number, name in enumerate(("id", "price"), 1):
        order.nested_type.add(name="Line").field.add(name=name, number=number, type=5, label=1)
        order.field.add(name=name, number=number, type=5, label=1)
    (root / "schemas" / "o.desc").write_bytes(
        descriptor_pb2.FileDescriptorSet(file=[file]).SerializeToString()
    )
    (root / "schemas" / "o.proto").write_text('syntax = "proto3";')
    (root / "schemas" / "bad.avsc").write_text("{")
    (root / "schemas" / "list.avsc").write_text('["int"]')
    (root / "schemas" / "bad.desc").write_bytes(b"\xff\xff")
    (root / "assets" / "s.sql").write_text(SQL.format(column=column, format=format_))
    return Project.load(root)


@pytest.mark.parametrize("format_", [AVRO, PROTO.format("shop.Order"), AVRO.replace("o.avsc", "later.avsc")])
def test_columns_that_the_schema_has_whatever_their_case(tmp_path: Path, format_: str) -> None:
    assert len(project(tmp_path, "Price", format_).catalog().get("s").columns) == 3


@pytest.mark.parametrize(
    ("column", "format_", "code", "caret", "says"),
    [
        ("prize", AVRO, "TG202", "prize", 'did you mean "price"?'),
        ("prize", PROTO.format("shop.Order"), "TG202", "prize", 'did you mean "price"?'),
        ("price", PROTO.format("shop.Ordr"), "TG611", "'shop.Ordr'", 'did you mean "shop.Order"?'),
        ("price", AVRO.replace("o.avsc", "bad.avsc"), "TG611", "'schemas/bad.avsc'", "not JSON"),
        ("price", AVRO.replace("o.avsc", "list.avsc"), "TG611", "'schemas/list.avsc'", "record"),
        (
            "price",
            PROTO.format("x").replace("o.desc", "bad.desc"),
            "TG611",
            "'schemas/bad.desc'",
            "--descriptor_set_out",
        ),
    ],
)
def test_what_does_not_fit_has_a_caret(
    tmp_path: Path, column: str, format_: str, code: str, caret: str, says: str
) -> None:
    with pytest.raises(TidegateError) as caught:
        project(tmp_path, column, format_).catalog()
    error = caught.value
    assert error.location is not None
    start = error.location.column - 1
    assert (error.code, error.location.text[start : start + error.location.length]) == (code, caret)
    assert says in f"{error.message} {error.hint}"


def test_a_proto_file_without_a_compiler_says_how_to_make_descriptors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "grpc_tools", None)
    with pytest.raises(TidegateError) as caught:
        project(tmp_path, "price", PROTO.format("shop.Order").replace("o.desc", "o.proto")).catalog()
    assert "protoc --include_imports --descriptor_set_out=schemas/o.desc" in (caught.value.hint or "")
