"""From messages to rows: every encoding, and what becomes of a message that is no row (W5)."""

from __future__ import annotations

import base64
import json
from datetime import datetime
from typing import TYPE_CHECKING, Any

import pytest
from google.protobuf import descriptor_pb2

from tests.conftest import Workbench
from tests.tasks.decode import test_protobuf_messages as formats
from tests.tasks.decode.messages import AVRO, avro
from tests.tasks.decode.test_avro_messages import AVRO_COLUMNS, AVRO_ROW
from tidegate.ingest.sources.decode import decode
from tidegate.sql import load_catalog
from tidegate.tasks.decode.binary.messages import UNPARSEABLE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tidegate.session.session import Session
    from tidegate.sql import Relation

pytestmark = pytest.mark.spark

SYSTEM = (
    "_source_partition string, _offset bigint, _arrival timestamp, _rowtime timestamp, _key binary, "
    "_headers array<struct<key:string,value:binary>>"
)
COLUMNS = "id INT, ts TIMESTAMP, name VARCHAR, tags VARCHAR[], at STRUCT<x INT, y INT>"
GOOD = (
    b'{"id": 1, "ts": "2026-01-01 10:00:00", "name": "a", "tags": ["x"], "at": {"x": 1, "y": 2}, "more": [1]}'
)
NOON = datetime(2026, 1, 1, 12)
BIG = b'{"id": 7, "name": "' + b"x" * (10 << 20) + b'"}'


def wants(column: str, kind: str) -> str:
    return f'unparseable: column "{column}" wants {kind}'


def source(format_: str, columns: str = COLUMNS) -> Relation:
    """A Kafka source of this format."""
    options = "connector = 'kafka', topic = 't', properties.bootstrap.server = 'nowhere:1'"
    sql = f"CREATE SOURCE s ({columns}) WITH ({options}) FORMAT PLAIN ENCODE {format_}"
    relation = load_catalog([("s.sql", sql)]).get("s")
    return relation  # type: ignore[return-value]


def messages(session: Session, values: list[bytes | None]) -> DataFrame:
    """A frame as the connector gives it: one partition, one task, in the order of its offsets."""
    rows = [
        (v and bytearray(v), "0", 100 + i, NOON, NOON, bytearray(b"k"), [("h", bytearray(b"1"))])
        for i, v in enumerate(values)
    ]
    return session.spark.createDataFrame(rows, f"value binary, {SYSTEM}").coalesce(1)


def decoded(session: Session, relation: Relation, values: list[bytes | None]) -> list[dict[str, Any]]:
    """What becomes of messages, in the order in which they come out; system columns compared and left out."""
    frame = decode(messages(session, values), relation, session.project)
    own = [c.name for c in relation.columns]
    system = [part.split()[0] for part in SYSTEM.split(", _")]
    assert frame.columns == [*own, "_raw", "_why", *(f"_{n.lstrip('_')}" for n in system)]
    rows = [row.asDict(recursive=True) for row in frame.collect()]
    assert [row["_offset"] for row in rows] == [100 + i for i in range(len(values))]
    assert all(row["_headers"] == [{"key": "h", "value": b"1"}] and row["_key"] == b"k" for row in rows)
    return [{name: row[name] for name in (*own, "_raw", "_why")} for row in rows]


def test_W5_every_json_poison_has_a_reason_and_the_rows_around_it_are_untouched(workbench: Workbench) -> None:
    session, relation = workbench.session(), source("JSON")
    bad_text = b'{"id": 1, "name": "\xff\xfe"}'
    poison: list[tuple[bytes | None, str | None]] = [
        (GOOD, None),
        (None, "null_value"),
        (bad_text, "invalid_utf8"),
        (b'{"id": 1, "na', "unparseable: not valid JSON"),
        (b"", "unparseable: not one JSON object"),
        (b"  \n", "unparseable: not one JSON object"),
        (b"null", "unparseable: not one JSON object"),
        (b"5", "unparseable: not one JSON object"),
        (b'"text"', "unparseable: not one JSON object"),
        (b'[{"id": 1}]', "unparseable: not one JSON object"),
        (b'{"id": 1} and more', "unparseable: more text behind the JSON object"),
        (b'{"id": 1}{"id": 2}', "unparseable: more text behind the JSON object"),
        (b'{"id": 1, "at": {"x": 1}}, {"id": 2}', "unparseable: more text behind the JSON object"),
        (b'{"id": 1, "at": {"x": 1}}}', "unparseable: more text behind the JSON object"),
        (b'{"id": "one", "name": "kept"}', wants("id", "INT")),
        (b'{"id": 1.5}', wants("id", "INT")),
        (b'{"id": 99999999999}', wants("id", "INT")),
        (b'{"ts": "yesterday"}', wants("ts", "TIMESTAMP")),
        (b'{"tags": [{"x": 1}, 2], "at": 3}', wants("at", "STRUCT<x INT, y INT>")),
        (b'{"ts": "0001-01-01 00:00:00", "id": 2}', None),
        (b'{"ts": "9999-12-31 23:59:59.999999", "id": 3}', None),
        (BIG, None),
        (b'\n {"id": 4, "name": "}{", "at": {"y": 9}}\r\n', None),
        (b"{}", None),
        (GOOD, None),
    ]
    rows = decoded(session, relation, [value for value, _ in poison])
    assert [row["_why"] for row in rows] == [why for _, why in poison]
    for (value, why), row in zip(poison, rows, strict=True):
        if why is not None and why.startswith("unparseable"):
            assert value is not None
            assert row["_raw"] == value.decode()
        elif why == "invalid_utf8":
            assert row["_raw"] == "base64:" + base64.b64encode(bad_text).decode()
        else:
            assert row["_raw"] is None
    good = {"id": 1, "ts": datetime(2026, 1, 1, 10), "name": "a", "tags": ["x"], "at": {"x": 1, "y": 2}}
    assert rows[0] == rows[-1] == good | {"_raw": None, "_why": None}
    by_id = {row["id"]: row for row in rows if row["_why"] is None}
    assert by_id[2]["ts"] == datetime(1, 1, 1)
    assert by_id[3]["ts"] == datetime(9999, 12, 31, 23, 59, 59, 999999)
    assert len(by_id[7]["name"]) == 10 << 20
    assert by_id[4]["at"] == {"x": None, "y": 9}
    assert by_id[None] == dict.fromkeys(relation_names(relation)) | {"_raw": None, "_why": None}


def relation_names(relation: Relation) -> list[str]:
    return [c.name for c in relation.columns]


def test_csv_is_one_line_per_message(workbench: Workbench) -> None:
    relation = source("CSV (delimiter = ';', null_value = '-')", "id INT, ts TIMESTAMP, name VARCHAR")
    values: list[bytes | None] = [
        b"1;2026-01-01 10:00:00;a",
        b'2;2026-01-01 10:00:00;"quoted; ""twice"""\r\n',
        b"-;-;-",
        None,
        b"\xff;;",
        b"",
        b"\n",
        b"3",
        b"4;2026-01-01 10:00:00;a;more",
        b"x;2026-01-01 10:00:00;a",
        b"5;9999-12-31 23:59:59;z\n",
    ]
    rows = decoded(workbench.session(), relation, values)
    empty = ["unparseable: an empty record"] * 2
    counts = ["unparseable: fewer fields than columns", "unparseable: more fields than columns"]
    bad = ["null_value", "invalid_utf8", *empty, *counts, wants("id", "INT")]
    assert [row["_why"] for row in rows] == [None, None, None, *bad, None]
    assert [row["name"] for row in rows[:3]] == ["a", 'quoted; "twice"', None]
    assert rows[2] == dict.fromkeys(rows[2])
    assert [row["_raw"] for row in rows[5:10]] == [v.decode() for v in values[5:10] if v is not None]
    assert (rows[10]["id"], rows[10]["name"]) == (5, "z")
    assert rows[10]["ts"] == datetime(9999, 12, 31, 23, 59, 59)


def test_X5_bytes_are_base64_in_csv_as_in_json_and_nested_values_are_rejected(workbench: Workbench) -> None:
    session, columns = workbench.session(), "id INT, y BYTEA"
    texts = ["AP8=", "AP8", "A P8=", "!!", "AP8=x", "é", "", "AP8=\\n", "AAAA", "AA==AA==", "=", "A", "_-_-"]
    lines = [f'{i},"{text}"'.encode() for i, text in enumerate(texts)]
    objects = [json.dumps({"id": i, "y": text or None}).encode() for i, text in enumerate(texts)]
    of_csv = decoded(session, source("CSV", columns), [*lines])
    of_json = decoded(session, source("JSON", columns), [*objects])
    for line, one, other in zip(lines, of_csv, of_json, strict=True):
        assert (one["y"], one["_why"]) == (other["y"], other["_why"])
        assert one["_raw"] == (None if one["_why"] is None else line.decode())
    assert [row["y"] for row in of_csv[:1] + of_csv[6:7] + of_csv[8:9]] == [b"\0\xff", None, b"\0\0\0"]
    assert [row["_why"] for row in of_csv[3:7]] == [*[wants("y", "BYTEA")] * 3, None]

    relation = source("CSV", "id INT, v VARIANT, ar INT[], st STRUCT<a INT>")
    values: list[bytes | None] = [b"1,5,,", b'2,,"[1]",', b"3,,,{}", b"4,x,,"]
    rows = decoded(session, relation, values)
    unfit = [wants("ar", "INT[]"), wants("st", "STRUCT<a INT>")]
    assert [row["_why"] for row in rows] == [None, *unfit, None]
    assert [row["_raw"] for row in rows] == [None, '2,,"[1]",', "3,,,{}", None]
    assert [row["v"] and row["v"].toPython() for row in rows] == [5, None, None, "x"]


def test_bytes_avro_and_protobuf_go_through_spark_with_their_rows(workbench: Workbench) -> None:
    """What becomes of single messages: `test_avro_messages.py`, `test_protobuf_messages.py`."""
    session = workbench.session()
    values: list[bytes | None] = [b"\xff\x00", None, b""]
    rows = decoded(session, source("BYTES", "value BYTEA"), values)
    assert [(row["value"], row["_why"]) for row in rows] == [
        (b"\xff\x00", None),
        (None, "null_value"),
        (b"", None),
    ]

    (workbench.root / "o.avsc").write_text(json.dumps(AVRO))
    relation = source("AVRO (schema.location = 'o.avsc')", AVRO_COLUMNS)
    good = avro(AVRO, AVRO_ROW)
    rows = decoded(session, relation, [good, good[:-1], None, good])
    assert [row["_why"] for row in rows] == [None, UNPARSEABLE, "null_value", None]
    assert rows[0] == rows[-1]
    assert rows[0]["price"] == AVRO_ROW["price"]
    assert rows[0]["ts"] == datetime(2026, 1, 1, 10)
    assert (rows[0]["rates"], rows[0]["at"], rows[0]["tags"]) == ({"k": 0.5}, {"X": 3}, ["a", None])

    files = descriptor_pb2.FileDescriptorSet(file=[formats.shop_file()])
    (workbench.root / "shop.desc").write_bytes(files.SerializeToString())
    options = "schema.location = 'shop.desc', message = 'shop.Order'"
    relation = source(f"PROTOBUF ({options})", formats.PROTO_COLUMNS)
    rows = decoded(session, relation, [formats.shop_order(**formats.ORDER), b"\xff"])
    assert [row["_why"] for row in rows] == [None, UNPARSEABLE]
    assert (rows[0]["id"], rows[0]["color"], rows[0]["at"]) == (5, "BLUE", {"x": 3})
