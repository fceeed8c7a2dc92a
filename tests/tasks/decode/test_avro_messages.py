"""AVRO: what a decoder makes of messages, with schemas of files and of a registry. No Spark here."""

from __future__ import annotations

import base64
import json
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.tasks.decode.messages import AVRO, avro, framed, login, rows, task
from tests.tasks.decode.schema_registry import FakeRegistry
from tidegate.errors import TidegateError
from tidegate.tasks.decode.binary.avro import AvroDecoder
from tidegate.tasks.decode.binary.messages import UNPARSEABLE, filling
from tidegate.tasks.decode.columns import Wanted

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
        (None, None, None, 'unparseable: column "id" wants int32 (schema 16)'),  # it has text
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


def test_W5_a_value_of_what_was_taken_in_that_cannot_be_had_is_null() -> None:
    fixed = {"type": "fixed", "name": "F", "size": 4, "logicalType": "uuid"}
    fields = [{"name": "id", "type": "int"}, {"name": "u", "type": fixed}]
    schema = {"type": "record", "name": "R", "fields": fields}
    message = avro(schema, {"id": 1, "u": b"abcd"})
    columns = (Wanted("id", pa.int32()), Wanted("u", pa.string(), optional=True))
    assert AvroDecoder(columns, json.dumps(schema)).read(message) == [1, None]
    # A UUID has 16 bytes; on any other size the specification has the logical type ignored.
    assert AvroDecoder((Wanted("u", pa.binary()),), json.dumps(schema)).read(message) == [b"abcd"]

    def broken(_: Any) -> Any:
        raise ArithmeticError

    column = Wanted("x", pa.string(), optional=True)
    fills = filling(column, lambda: broken)
    assert fills is not None
    assert fills(1) is None
    with pytest.raises(ArithmeticError):
        filling(column._replace(optional=False), lambda: broken)(1)  # type: ignore[misc]
