"""X2: no row takes a task's stack or its memory. Each hostile one is rejected, with its reason and its bytes, and the
rows around it are read. Without Spark; where the old decoders ended the process, these tests would end it, too."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.fs as pafs
import pytest
from google.protobuf import descriptor_pb2

from tests.tasks.decode.messages import avro, project, rows, task
from tidegate.errors import TidegateError
from tidegate.ingest.sources.file_rows import BLOCK, PLACE, ROW
from tidegate.tasks.decode.binary.avro import AvroDecoder, avro_version
from tidegate.tasks.decode.binary.messages import DecodeTask
from tidegate.tasks.decode.binary.protobuf import ProtobufDecoder
from tidegate.tasks.decode.binary.registry import Schema
from tidegate.tasks.decode.columns import Wanted
from tidegate.tasks.decode.limits import STANDARD, Limits, limits_of
from tidegate.tasks.decode.text import strict_json
from tidegate.tasks.decode.text.bulk import decode
from tidegate.tasks.decode.text.decoders import CsvDecoder, JsonDecoder
from tidegate.tasks.decode.text.files import CsvFiles, FileSpan, JsonFiles, dealt, spans_of
from tidegate.tasks.decode.text.records import CHUNK
from tidegate.tasks.decode.values import DeclaredColumn

SMALL = Limits(depth=20, values=1_000, row_bytes=4_096)


def record(name: str, **fields: Any) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": [{"name": n, "type": t} for n, t in fields.items()]}


def long(value: int) -> bytes:
    """As Avro writes it."""
    value, out = (value << 1) ^ (value >> 63), bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def read_avro(schema: dict[str, Any], messages: list[bytes], limits: Limits = STANDARD) -> list[Any]:
    """(id, why) of each message; `_raw` is checked."""
    columns = (Wanted("id", pa.int64(), "BIGINT"),)
    found = rows(DecodeTask(AvroDecoder(columns, json.dumps(schema), limits=limits), columns), list(messages))
    for row, message in zip(found, messages, strict=True):
        wanted = f"base64:{base64.b64encode(message).decode()}" if row["_why"] else None
        assert row["_raw"] == wanted
    return [(row["c0"], row["_why"]) for row in found]


def chain(length: int) -> dict[str, Any]:
    """Records of records: no type contains itself, and no definition stands deep in another."""
    fields: dict[str, Any] = {"id": "long", "r0": record("R0")}
    for i in range(1, length):
        fields[f"r{i}"] = record(f"R{i}", f=f"R{i - 1}")
    return record("T", **fields)


def doubled(times: int) -> dict[str, Any]:
    """Few bytes of schema, none of message, and 2 ** times values."""
    fields: dict[str, Any] = {"id": "long", "r0": record("R0", f="null")}
    for i in range(1, times):
        fields[f"r{i}"] = record(f"R{i}", f=f"R{i - 1}", g=f"R{i - 1}")
    return record("T", **fields)


TREE = record("N", id="long", child=["null", "N"])
ITSELF = record("N", id="long", child="N")
NULLS = record("T", id="long", l={"type": "array", "items": "null"})
EMPTY = record("T", id="long", l={"type": "array", "items": record("E", x="null", y=record("F"))})
FIXED = record("T", id="long", l={"type": "array", "items": {"type": "fixed", "name": "F0", "size": 0}})


@pytest.mark.parametrize(
    ("schema", "message", "why"),
    [
        (TREE, b"\x02\x02" * 1_500 + b"\x02\x00", "unparseable: nested more than 20 times"),
        (ITSELF, b"\x02" * 3_000, "unparseable: nested more than 20 times"),
        (NULLS, b"\x02" + long(2**40) + b"\x00", "unparseable: more than 1,000 values in a row"),
        (NULLS, b"\x02" + long(-(2**40)) + b"\x00\x00", "unparseable: more than 1,000 values in a row"),
        (EMPTY, b"\x02" + long(2**20) + b"\x00", "unparseable: more than 1,000 values in a row"),
        (FIXED, b"\x02" + long(2**62) + b"\x00", "unparseable: more than 1,000 values in a row"),
        (doubled(60), b"\x02", "unparseable: more than 1,000 values in a row"),
        (chain(300), b"\x02", "unparseable: nested more than 20 times"),
    ],
    ids=[
        "tree",
        "itself",
        "nulls",
        "nulls in a block with its size",
        "empty records",
        "fixed",
        "doubled",
        "chain",
    ],
)
def test_X2_an_avro_message_that_would_take_all_memory_is_rejected(
    schema: dict[str, Any], message: bytes, why: str
) -> None:
    assert read_avro(schema, [message], SMALL) == [(None, why)]


def test_X2_avro_values_without_bytes_and_trees_are_read_within_the_limits() -> None:
    small = b"\x02" + long(3) + b"\x00"
    assert read_avro(NULLS, [small, small[:-1], small + b"\x00"]) == [
        (1, None),
        (None, "unparseable: not a message of its schema"),
        (None, "unparseable: not a message of its schema"),
    ]
    tree = avro(TREE, {"id": 7, "child": {"id": 8, "child": None}})
    deep = b"\x02\x02" * 19 + b"\x02\x00"
    assert read_avro(TREE, [tree, deep, b"\x02\x02" + deep, tree[:-1]], SMALL) == [
        (7, None),
        (1, None),
        (None, "unparseable: nested more than 20 times"),
        (None, "unparseable: not a message of its schema"),
    ]


def test_X2_the_walk_over_an_avro_message_agrees_with_the_library_about_every_type() -> None:
    every = record(
        "T",
        id="long",
        n="null",
        b="boolean",
        i="int",
        f="float",
        d="double",
        y="bytes",
        s="string",
        e={"type": "enum", "name": "E", "symbols": ["A", "B"]},
        x={"type": "fixed", "name": "X", "size": 3},
        m={"type": "map", "values": ["null", "X", {"type": "array", "items": "E"}]},
        child=["null", "T"],
    )
    row: dict[str, Any] = {
        "id": 5,
        "n": None,
        "b": True,
        "i": -3,
        "f": 1.5,
        "d": 2.5,
        "y": b"\x00" * 70,
        "s": "é",
    }
    row |= {"e": "B", "x": b"abc", "m": {"k": b"xyz", "l": ["A", "B"], "n": None}, "child": None}
    message = avro(every, row | {"child": row})
    assert read_avro(every, [message]) == [(5, None)]
    cut = [message[:n] for n in range(len(message))]
    assert {why for _, why in read_avro(every, cut)} == {"unparseable: not a message of its schema"}


@pytest.mark.parametrize("levels", [250, 5_000])
def test_X2_an_avro_schema_that_is_nested_too_deeply_is_refused_before_the_first_row(
    tmp_path: Path, levels: int
) -> None:
    text = '{"type":"array","items":' * levels * 3 + '"int"' + "}" * levels * 3
    (tmp_path / "deep.avsc").write_text(
        f'{{"type":"record","name":"T","fields":[{{"name":"l","type":{text}}}]}}'
    )
    with pytest.raises(TidegateError) as refused:
        task(tmp_path, "AVRO", "l VARCHAR", [("l", pa.string())], "schema.location = 'deep.avsc'")
    assert refused.value.code == "TG611"
    assert "nested" in refused.value.message


@pytest.mark.parametrize("size", ['"9"', "null", "[1]", "{}"])
def test_X2_a_size_that_is_no_number_makes_no_schema(size: str) -> None:
    """A registry may serve one: its messages are rejected, and a file with it is an error."""
    fixed = f'{{"type": "fixed", "name": "F", "size": {size}}}'
    text = f"""{{"type": "record", "name": "T", "fields": [
        {{"name": "id", "type": "long"}}, {{"name": "f", "type": {fixed}}}]}}"""
    columns = (Wanted("id", pa.int64(), "BIGINT"),)
    with pytest.raises(ValueError, match="not an Avro schema"):
        avro_version(Schema(text), columns)
    decoder = AvroDecoder(columns, schemas={7: Schema(text)})
    (row,) = rows(DecodeTask(decoder, columns), [b"\0\0\0\0\7\2"])
    assert row["_why"].startswith("unparseable")


def test_X2_a_field_whose_name_is_no_text_makes_no_schema() -> None:
    text = '{"type": "record", "name": "T", "fields": [{"name": ["id"], "type": "long"}]}'
    columns = (Wanted("id", pa.int64(), "BIGINT"),)
    decoder = AvroDecoder(columns, schemas={7: Schema(text)})
    (row,) = rows(DecodeTask(decoder, columns), [b"\0\0\0\0\7\2"])
    assert row["_why"].startswith("unparseable")


def test_X2_a_decimal_of_megabytes_is_a_misfit_at_once() -> None:
    price = {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 2}
    columns = (Wanted("p", pa.decimal128(38, 2), "DECIMAL(38, 2)"),)
    decoder = AvroDecoder(columns, json.dumps(record("T", p=price)))
    values = [b"\x7f" + b"\xff" * 4_000_000, (12345).to_bytes(3, "big")]
    found = rows(DecodeTask(decoder, columns), [avro(record("T", p="bytes"), {"p": v}) for v in values])
    assert [row["c0"] for row in found] == [None, Decimal("123.45")]
    assert found[0]["_why"] == 'unparseable: column "p" wants DECIMAL(38, 2)'


def nested() -> bytes:
    """message T {int64 id = 1; repeated int32 l = 2; repeated T t = 3; map<string, T> m = 4}"""
    file = descriptor_pb2.FileDescriptorProto(name="t.proto", package="p", syntax="proto3")
    message = file.message_type.add(name="T")
    entry = message.nested_type.add(name="MEntry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, type=9, label=1)
    entry.field.add(name="value", number=2, type=11, label=1, type_name=".p.T")
    message.field.add(name="id", number=1, type=3, label=1)
    message.field.add(name="l", number=2, type=5, label=3)
    message.field.add(name="t", number=3, type=11, label=3, type_name=".p.T")
    message.field.add(name="m", number=4, type=11, label=3, type_name=".p.T.MEntry")
    return descriptor_pb2.FileDescriptorSet(file=[file]).SerializeToString()


def test_X2_protobuf_messages_beyond_a_limit_are_rejected() -> None:
    columns = (Wanted("id", pa.int64(), "BIGINT"), Wanted("l", pa.list_(pa.int32()), "INT[]"))
    decode_ = DecodeTask(ProtobufDecoder(columns, "p.T", nested(), limits=SMALL), columns)
    deep = b""
    for _ in range(300):
        size = len(deep)
        deep = b"\x1a" + bytes([size & 0x7F | 0x80, size >> 7]) + deep
    values = {
        b"\x08\x05" + b"\x12\xe8\x07" + b"\x01" * 1_000: "unparseable: more than 1,000 values in a row",
        b"\x08\x05" + b"\x1a\x00" * 1_001: "unparseable: more than 1,000 values in a row",
        b"\x08\x05" + b"\x22\x00" * 5_000: "unparseable: a row of more than 4 KB",
        deep: "unparseable: not a message of its schema",
        b"\x08\x05" + b"\x12\xe7\x07" + b"\x01" * 999: None,
    }
    assert [row["_why"] for row in rows(decode_, list(values))] == list(values.values())


TARGETS = (DeclaredColumn("id", "bigint", "BIGINT"), DeclaredColumn("l", "array<bigint>", "BIGINT[]"))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{"id": 1, "x": %s}' % ("[" * 20 + "]" * 20), "unparseable: nested more than 20 times"),
        ('{"id": 1, "x": %s}' % ("[" * 19 + "]" * 19), None),
        (
            '{{"id": 1, "l": [{}]}}'.format(", ".join(["1"] * 1_000)),
            "unparseable: more than 1,000 values in a row",
        ),
        ('{{"id": 1, "l": [{}]}}'.format(", ".join(["1"] * 900)), None),
        ('{"id": 1, "x": "%s"}' % ('\\",' * 1_200), None),
        ('{"id": 1, "x": "%s"}' % ("é" * 2_048), "unparseable: a row of more than 4 KB"),
        ('{"id": 1, "x": "%s"}' % ("x" * 3_000), None),
    ],
)
def test_X2_json_beyond_a_limit_is_rejected_whichever_way_it_is_read(text: str, why: str | None) -> None:
    plain = '{"id": 2}'
    for order in ([text, plain], [plain, text, text], [text]):
        decoder = JsonDecoder(TARGETS, limits=SMALL)
        found = decode(decoder, pa.array([t.encode() for t in order], pa.binary()))
        assert found.why.to_pylist() == [None if t == plain else why for t in order]
        assert found.raw.to_pylist() == [t if t != plain and why else None for t in order]


FS = pafs.LocalFileSystem()


def test_X2_a_json_text_is_read_once_and_of_brackets_only_as_many_as_are_allowed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One of 14 MB took 20 seconds of the processor, and a few of them all that a worker has."""
    seen = {"texts": 0, "tokens": 0}
    members, brackets = strict_json.members, strict_json._BRACKETS

    class Counting:
        @staticmethod
        def finditer(text: str) -> Iterator[Any]:
            for token in brackets.finditer(text):
                seen["tokens"] += 1
                yield token

    def counted(text: str, limits: Limits) -> Any:
        seen["texts"] += 1
        return members(text, limits)

    monkeypatch.setattr(strict_json, "_BRACKETS", Counting)
    monkeypatch.setattr(strict_json, "members", counted)
    decoder = JsonDecoder((DeclaredColumn("id", "bigint", "BIGINT"),))
    for text in (
        b'{"id":1,"x":' + b"[" * 1_000_000 + b"]" * 1_000_000 + b"}",
        b'{"x":"' + b"a" * 2_000_000 + b'"}',
    ):
        seen.update(texts=0, tokens=0)
        decode(decoder, pa.array([text], pa.binary()))
        assert seen["texts"] <= 1
        assert seen["tokens"] <= STANDARD.depth + 10


def read_json(path: Path, limits: Limits, cores: int = 1) -> Iterator[tuple[Any, str | None, str | None]]:
    decoder = JsonDecoder((DeclaredColumn("id", "bigint", "BIGINT"),), limits=limits)
    spans = spans_of(FS, [(str(path), path.as_uri())])
    reader = JsonFiles(FS, decoder, dealt(spans, cores), place=tuple(PLACE))
    found = []
    for task_ in range(len(reader.tasks)):
        for batch in reader(iter([pa.RecordBatch.from_arrays([pa.array([task_])], ["id"])])):
            found += batch.to_pylist()
    found.sort(key=lambda row: (row[BLOCK], row[ROW]))
    yield from ((row["c0"], row["_why"], row["_raw"]) for row in found)


def test_X2_a_json_line_that_never_ends_is_rejected_in_pieces(tmp_path: Path) -> None:
    endless = b'{"id": 2, "x": "' + b"x" * (3 * CHUNK)
    (tmp_path / "a.json").write_bytes(b'{"id": 1}\n\n' + endless + b'\n{"id": 3}\r\n{"id": 4}')
    found = list(read_json(tmp_path / "a.json", Limits(row_bytes=1 << 20)))
    assert [row for row in found if row[1] is None] == [(n, None, None) for n in (1, 3, 4)]
    pieces = [row for row in found if row[1] is not None]
    assert {why for _, why, _ in pieces} == {"unparseable: a row of more than 1 MB"}
    assert "".join(raw or "" for *_, raw in pieces).rstrip("\n") == endless.decode()
    assert max(len(raw or "") for *_, raw in pieces) <= (1 << 20) + CHUNK + 1


@pytest.mark.medium
def test_X5_a_json_file_is_cut_at_line_breaks_of_every_kind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = [b'{"id": %d}%s' % (n, [b"\n", b"\r\n", b"\r", b"\n\n", b"\r\n \r\n"][n % 5]) for n in range(100)]
    path = tmp_path / "a.json"
    path.write_bytes(b"\xef\xbb\xbf" + b"".join(lines))
    for part in (2, 7, 64, 10_000):
        monkeypatch.setattr("tidegate.tasks.decode.text.files._PART", part)
        assert [row[0] for row in read_json(path, SMALL, cores=3)] == list(range(100)), part


def test_X2_a_csv_header_of_very_many_names_rejects_its_file(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b"id" + b"," * 2_000 + b"\n1\n")
    decoder = CsvDecoder((DeclaredColumn("id", "bigint", "BIGINT"),), (0,), limits=SMALL)
    (batch,) = CsvFiles(FS, decoder, ((FileSpan(str(path), path.as_uri()),),), place=tuple(PLACE))(
        iter([pa.RecordBatch.from_arrays([pa.array([0])], ["id"])])
    )
    assert batch.to_pylist()[0]["_why"] == "unparseable: the header of the file is not CSV"


def test_operators_set_the_limits_in_the_environment(tmp_path: Path) -> None:
    (tmp_path / "resources").mkdir()
    (tmp_path / "assets").mkdir()
    file = tmp_path / "resources" / "local.yaml"
    file.write_text("decoding: {depth: 50, values: 2000, row_bytes: 1 MB}\n")
    assert limits_of(project(tmp_path)) == Limits(50, 2_000, 1 << 20)
    file.write_text("decoding: {depth: 501}\n")
    with pytest.raises(TidegateError, match="depth"):
        project(tmp_path)
    file.unlink()
    assert limits_of(project(tmp_path)) == Limits()
