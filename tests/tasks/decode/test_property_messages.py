"""Random good, damaged and hostile messages of Avro and Protobuf: each is what the reference library reads, exactly, or
is rejected with a reason and its bytes (X5, W5). Cases and seeds as in test_property_decoders.py.
"""

from __future__ import annotations

import base64
import io
import json
import random
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from google.protobuf import descriptor_pb2, message_factory

from tests.tasks.decode.campaign import limited_memory, seeds
from tests.tasks.decode.messages import task
from tests.tasks.decode.test_property_decoders import BATCH, CASES, SEED
from tidegate.tasks.decode.binary.messages import UNPARSEABLE, DecodeTask
from tidegate.tasks.decode.binary.protobuf import file_pool

#: Columns that the fields fill, some narrower than what is written.
COLUMNS = {
    "i": ("INT", pa.int32()),
    "n": ("BIGINT", pa.int64()),
    "t": ("TINYINT", pa.int8()),
    "f": ("REAL", pa.float32()),
    "x": ("DOUBLE", pa.float64()),
    "b": ("BOOLEAN", pa.bool_()),
    "s": ("VARCHAR", pa.string()),
    "y": ("BYTEA", pa.binary()),
    "z": ("TIMESTAMPTZ", pa.timestamp("us", "UTC")),
    "m": ("DECIMAL(6, 2)", pa.decimal128(6, 2)),
    "l": ("VARCHAR[]", pa.list_(pa.string())),
    "absent": ("VARCHAR", pa.string()),
}
DECLARED = ", ".join(f"{name} {kind}" for name, (kind, _) in COLUMNS.items())
WANTED = [(name, kind) for name, (_, kind) in COLUMNS.items()]
LIMITS = {"i": 2**31, "n": 2**63, "t": 2**7}

AVRO = {
    "type": "record",
    "name": "R",
    "fields": [
        {"name": "i", "type": ["null", "long"]},
        {"name": "n", "type": "long"},
        {"name": "t", "type": ["int", "null"]},
        {"name": "f", "type": "float"},
        {"name": "x", "type": ["null", "double"]},
        {"name": "b", "type": "boolean"},
        {"name": "other", "type": {"type": "map", "values": ["null", "string", "long"]}},
        {"name": "s", "type": ["null", "string"]},
        {"name": "y", "type": "bytes"},
        {"name": "z", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "m", "type": {"type": "bytes", "logicalType": "decimal", "precision": 20, "scale": 2}},
        {"name": "l", "type": {"type": "array", "items": ["null", "string"]}},
    ],
}
BARE = json.loads(json.dumps(AVRO), object_hook=lambda d: {k: v for k, v in d.items() if k != "logicalType"})


def text(r: random.Random) -> str:
    return r.choice(["", "a", "é😀", "x" * 300, "\0", '"', "\ufeff"])


def integer(r: random.Random, bits: int) -> int:
    return r.choice(
        [0, 1, -1, 127, 128, -129, r.randint(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1), 2 ** (bits - 1) - 1]
    )


def avro_row(r: random.Random) -> dict[str, Any]:
    number = r.choice([0, 1, -999999, 999999, 1000000, r.randint(-(10**8), 10**8)])
    return {
        "i": r.choice([None, integer(r, 33), integer(r, 32)]),
        "n": integer(r, 64),
        "t": r.choice([None, integer(r, 9)]),
        "f": r.choice([0.0, -0.0, 1.5, float("inf"), 3.0e38]),
        "x": r.choice([None, 0.1, -0.0, float("-inf"), 5e-324]),
        "b": r.random() < 0.5,
        "other": {text(r): r.choice([None, "v", 5]) for _ in range(r.randint(0, 2))},
        "s": r.choice([None, text(r)]),
        "y": r.randbytes(r.randint(0, 5)),
        "z": integer(r, r.choice([40, 50, 64])),
        "m": number.to_bytes(8, "big", signed=True),
        "l": [r.choice([None, text(r)]) for _ in range(r.randint(0, 3))],
    }


def spoiled(r: random.Random, data: bytes) -> bytes:
    """The same message, or a damaged one."""
    p = r.random()
    if p < 0.5 or not data:
        return data
    if p < 0.6:
        return data[: r.randrange(len(data))]
    if p < 0.65:
        return data + r.randbytes(r.randint(1, 3))
    if p < 0.7:
        return r.randbytes(r.randint(0, 40))
    at = r.randrange(len(data))
    huge = r.choice(
        [
            b"\xff" * 9 + b"\x01",
            b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01",
            b"\x80" * 12,
            b"\xff\xff\xff\xff\x0f",
        ]
    )
    return data[:at] + r.choice([bytes([r.randrange(256)]), huge, b""]) + data[at + 1 :]


def avro_oracle(data: bytes) -> dict[str, Any] | None:
    stream = io.BytesIO(data)
    try:
        found = fastavro.schemaless_reader(stream, fastavro.parse_schema(BARE), None)
    except Exception:
        return None
    if stream.read(1):
        return None
    return found | {
        "z": found["z"] * 1000,
        "m": Decimal(int.from_bytes(found["m"], "big", signed=True)).scaleb(-2),
    }


def proto_file() -> descriptor_pb2.FileDescriptorProto:
    file = descriptor_pb2.FileDescriptorProto(name="r.proto", syntax="proto2")
    message = file.message_type.add(name="R")
    kinds = {"i": 3, "n": 18, "t": 5, "f": 2, "x": 1, "b": 8, "s": 9, "y": 12}
    for number, (name, kind) in enumerate(kinds.items(), 1):
        message.field.add(name=name, number=number, type=kind, label=1)
    message.field.add(name="l", number=20, type=9, label=3)
    message.field.add(name="r", number=21, type=11, label=1, type_name=".R")
    return file


def proto_class(files: bytes) -> Any:
    return message_factory.GetMessageClass(file_pool(files).FindMessageTypeByName("R"))


def proto_message(r: random.Random, make: Any) -> bytes:
    message, given = make(), avro_row(r)
    for name in ("i", "n", "t", "f", "x", "b", "s", "y"):
        if given[name] is not None and r.random() < 0.8:
            setattr(message, name, given[name])
    message.l.extend([v for v in given["l"] if v is not None])
    if r.random() < 0.1:
        # What is no UTF-8 is no text, but proto2 does not look.
        return message.SerializeToString() + b"\x3a\x02\xff\xfe"
    if r.random() < 0.03:
        return b"\xaa\x01\x80\x01" * 120 + message.SerializeToString()
    return message.SerializeToString()


def proto_oracle(make: Any) -> Callable[[bytes], dict[str, Any] | None]:
    def read(data: bytes) -> dict[str, Any] | None:
        message = make()
        try:
            message.ParseFromString(data)
            found = {
                n: getattr(message, n) if message.HasField(n) else None for n in "intfxbsy" if n in COLUMNS
            }
            return found | {"l": list(message.l), "z": None, "m": None}
        except Exception:
            return None

    return read


def fits(name: str, value: Any) -> bool:
    if value is None:
        return True
    if name in LIMITS:
        return -LIMITS[name] <= value < LIMITS[name]
    if name in ("s", "l"):
        # A proto2 text that is no UTF-8 comes as bytes.
        return not any(isinstance(text, bytes) for text in (value if name == "l" else [value]))
    return name not in ("z", "m") or abs(value) < {"z": 2**63, "m": 10000}[name]


def found_rows(decode: DecodeTask, messages: list[bytes]) -> list[dict[str, Any]]:
    """As `rows`, with times as numbers."""
    (out,) = decode(iter([pa.array(messages, pa.binary())]))
    columns = {field.name: out.field(field.name) for field in out.type}
    plain = {n: c.cast(pa.int64()) if pa.types.is_timestamp(c.type) else c for n, c in columns.items()}
    return pa.table(plain).to_pylist()


@pytest.mark.medium
@pytest.mark.parametrize("encode", ["AVRO", "PROTOBUF"])
@limited_memory()
def test_X5_property_a_message_is_what_its_library_reads_or_rejected(tmp_path: Path, encode: str) -> None:
    if encode == "AVRO":
        (tmp_path / "r.avsc").write_text(json.dumps(AVRO))
        options, oracle = "schema.location = 'r.avsc'", avro_oracle
        parsed = fastavro.parse_schema(BARE)

        def message(r: random.Random) -> bytes:
            out = io.BytesIO()
            fastavro.schemaless_writer(out, parsed, avro_row(r))
            return out.getvalue()

        declared, wanted = DECLARED, WANTED
    else:
        files = descriptor_pb2.FileDescriptorSet(file=[proto_file()]).SerializeToString()
        (tmp_path / "r.desc").write_bytes(files)
        options, make = "schema.location = 'r.desc', message = 'R'", proto_class(files)
        oracle = proto_oracle(make)

        def message(r: random.Random) -> bytes:
            return proto_message(r, make)

        kept = {n: k for n, k in COLUMNS.items() if n not in ("z", "m", "absent")}
        declared = ", ".join(f"{n} {k}" for n, (k, _) in kept.items())
        wanted = [(n, k) for n, (_, k) in kept.items()]
    decode = task(tmp_path, encode, declared, wanted, f"{options}")
    accepted, tried = 0, 0
    for seed in seeds(encode.lower(), SEED, CASES // BATCH):
        r = random.Random(f"{encode} {seed}")
        values = [spoiled(r, message(r)) for _ in range(BATCH)]
        for data, row in zip(values, found_rows(decode, values), strict=True):
            where, found = f"TIDEGATE_SEED={seed}: {data!r:.200}", oracle(data)
            tried += 1
            wrong = [n for n, _ in wanted if not fits(n, (found or {}).get(n))]
            if found is None or wrong:
                kinds = dict(wanted)
                problem = (
                    f'unparseable: column "{wrong[0]}" wants {kinds[wrong[0]]}' if wrong else UNPARSEABLE
                )
                assert row["_why"] == problem, where
                assert base64.b64decode(row["_raw"].removeprefix("base64:")) == data, where
                continue
            assert (row["_why"], row["_raw"]) == (None, None), where
            accepted += 1
            for place, (name, kind) in enumerate(wanted):
                kind = pa.int64() if pa.types.is_timestamp(kind) else kind
                expected = pa.scalar(found.get(name), kind).as_py()
                assert repr(row[f"c{place}"]) == repr(expected), (where, name)
    assert accepted >= 0.2 * tried
