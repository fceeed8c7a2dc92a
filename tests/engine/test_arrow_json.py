"""JSON read by pyarrow inside the gate's task says what Spark's parser says, or nothing (W4, W5)."""

from __future__ import annotations

import json
import pickle
import random
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from tests.conftest import Workbench
from tidegate.engine.shape import gate_input
from tidegate.engine.sources import Unread
from tidegate.engine.sources.arrow_json import JsonReader, Turns, json_reader, supports
from tidegate.engine.sources.decode import decode
from tidegate.sql import load_catalog

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tidegate.engine.session import Session
    from tidegate.sql import Relation

COLUMNS = (
    "t TINYINT, h SMALLINT, i INT, n BIGINT, f REAL, x DOUBLE, m DECIMAL(12, 3), b BOOLEAN, s VARCHAR NOT NULL, "
    "d DATE, ts TIMESTAMP, z TIMESTAMPTZ, WATERMARK FOR ts AS ts - INTERVAL '5 seconds'"
)
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def source(columns: str = COLUMNS, format_: str = "JSON") -> Relation:
    """A Kafka source with these columns."""
    options = "connector = 'kafka', topic = 't', properties.bootstrap.server = 'nowhere:1'"
    sql = f"CREATE SOURCE s ({columns}) WITH ({options}) FORMAT PLAIN ENCODE {format_}"
    return load_catalog([("s.sql", sql)]).get("s")  # type: ignore[return-value]


def batch(values: Sequence[bytes | None]) -> pa.RecordBatch:
    """Messages as the connector hands them over."""
    n = len(values)
    headers = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    return pa.RecordBatch.from_pydict(
        {
            "value": pa.array(values, pa.binary()),
            "_partition": pa.array([12] * n, pa.int32()),
            "_offset": pa.array(range(100, 100 + n), pa.int64()),
            "_rowtime": pa.array([NOON] * n, pa.timestamp("us", "UTC")),
            "_key": pa.array([b"k"] * n, pa.binary()),
            "_headers": pa.nulls(n, headers),
            "_long": pa.array([False] * n),
        }
    )


def rows(table: pa.Table) -> list[dict[str, Any]]:
    """Rows with times as integers (Spark knows more years than Python), without their offsets."""
    columns = {}
    for field in table.schema:
        column = table.column(field.name)
        of = pa.int32() if pa.types.is_date(field.type) else pa.int64()
        columns[field.name] = column.cast(of) if pa.types.is_temporal(field.type) else column
    return pa.table(columns).drop_columns(["_offset"]).to_pylist()


def read(reader: JsonReader, values: Sequence[bytes | None]) -> pa.Table:
    """What the gate gets of these messages."""
    return pa.Table.from_batches(list(reader(iter([batch(values)]))))


def read_alone(reader: JsonReader, value: bytes | None) -> dict[str, Any] | None:
    """What the gate gets of one message; None if it is not read."""
    try:
        return rows(read(reader, [value]))[0]
    except Unread:
        return None


def by_spark(session: Session, relation: Relation, values: Sequence[bytes | None]) -> pa.Table:
    """What the gate gets of these messages by way of Spark's parser, in their order."""
    from pyspark.sql import functions as F

    frame = session.spark.createDataFrame(pa.Table.from_batches([batch(values)])).coalesce(1)
    partition = frame["_partition"].cast("string").alias("_source_partition")
    frame = frame.select("*", partition, F.lit(NOON).alias("_arrival")).drop("_partition")
    return gate_input(decode(frame, relation, session.project), relation, NOON).toArrow()


NUMBERS = """
    0 -0 1 -1 127 128 -129 32767 32768 2147483647 -2147483649 9223372036854775807 9223372036854775808
    12345678901234567890123 1.0 1.5 -0.0 0.0 0.1 1e3 1E+2 1e-2 125E-2 0e0 -0e5 3.4028235e38 3.4028236e38 1e39
    1.7976931348623157e308 1e309 -1e999 5e-324 2e-324 1e-400 9007199254740993 0.30000000000000004 16777217 16777217.0
    1.2345 999999999.999 9999999999.999 8.41e21 2.2250738585072011e-308 123456789012345678 1234567890123456789
    1.00000017881393432617187499 1e23 01 1. .5 +1 - 1e 0x1 NaN Infinity -Infinity Inf -NaN INF 1_0
"""
TEXTS = r"""
    "" "a" "é😀" "\u0041\u00e9" "\ud83d\ude00" "\ud83d" "\ude00" "\u0000" "\n\t\"\\\/" "\a" "\'" "NaN" "NaN," "Infinity"
    "1" "1.5" "true" "{}" "}{" "\u12" "[Inf]" 'a' "+1.5" ".5" "5." "1e2" "1,234.5"
"""
SPACED = ['" NaN,"', '" 7"', '"\t"', '"\n"', '"\x7f"', '"\u2028"', '"[1, Inf]"']
ZONES = """
    Z Z z +00:00 -00:00 +02:00 -08:30 +17:59 +18:00 -18:00 +19:00 +23:59 +0200 +02 +2 UTC +02:60 [UTC] +1:00 GMT+1
    Europe/Berlin
"""
FRAMES = [
    *(
        "{}\n",
        " {}",
        "\r\n{}\t",
        "[{}]",
        "{}{{}}",
        "{} {{}}",
        "{}\n{}",
        "{}x",
        "x{}",
        "{},",
        "/**/{}",
        "\ufeff{}",
    ),
    *(
        "{}\0",
        "\0{}",
        "{}}}",
        "{{{}",
        "{}1{{}}",
        "\x0b{}",
        "\u00a0{}",
        "{}\u2003",
        '"{}"',
        "{},{}",
        "{}//x",
        "{}]",
    ),
]
LITERALS = [
    "null",
    "true",
    "false",
    "nul",
    "TRUE",
    "None",
    "truefalse",
    "[]",
    "{}",
    "[1]",
    '{"a":1}',
    "",
    "undefined",
]


def random_time(r: random.Random) -> str:
    """A date or a time as somebody may write it, most of them well."""
    date = r.choice(
        ["2026-01-02", "2026-01-02", "1969-12-31", "0001-01-01", "9999-12-31", "2024-02-29", "1582-10-10"]
    )
    if r.random() < 0.15:
        date = r.choice(
            [
                "2023-02-29",
                "2026-1-2",
                "2026-13-01",
                "0000-01-01",
                "20260102",
                "12026-01-02",
                "-2026-01-02",
                "2026-01",
                "2026",
            ]
        )
    clock = r.choice(["00:00:00", "10:11:12", "23:59:59", "23:59:59"])
    if r.random() < 0.15:
        clock = r.choice(
            ["24:00:00", "23:59:60", "1:2:3", "10:11", "10", "101112", "10:11:12:13", "23:60:00", ""]
        )
    fraction = (
        r.choice(
            ["", "", ".5", ".123", ".123456", ".000001", ".1234567", ".123456789", ".0000009999", ".", ",5"]
        )
        if r.random() < 0.7
        else ""
    )
    zone = ""
    if r.random() < 0.5:
        zone = r.choice(["", " "]) + r.choice(ZONES.split())
    text = (
        date
        + r.choice(["T", " ", " ", "t", "  ", ""] if r.random() < 0.2 else "T ")
        + clock
        + fraction
        + zone
    )
    if r.random() < 0.05:
        text = r.choice([" " + text, text + " ", text[:-1], text[:10], "epoch", "now", "today", "1700000000"])
    return text


GOOD = {
    "t": "7",
    "h": "-300",
    "i": "70000",
    "n": "9007199254740993",
    "f": "1.5",
    "x": "-2.25e10",
    "m": "12.345",
    "b": "true",
    "s": '"é\\u0041"',
    "d": '"2026-01-02"',
    "ts": '"2026-01-02 03:04:05.678"',
    "z": '"2026-01-02T03:04:05+02:00"',
}
"""A value of each column that every reader knows."""


def random_value(r: random.Random, name: str) -> str:
    """A value for this column, well or badly written."""
    p = r.random()
    if p < 0.3:
        return GOOD[name]
    if p < 0.5 and name in ("d", "ts", "z"):
        return json.dumps(random_time(r))
    if p < 0.75 and name in "thinfxm":
        return r.choice(NUMBERS.split())
    if p < 0.8 and name in "fxm":
        return repr(random.Random(r.random()).uniform(-1, 1) * 10.0 ** r.randint(-300, 300))
    if p < 0.85 and name in "fxm":
        return (
            "".join(r.choices("0123456789", k=r.randint(1, 45))).lstrip("0") + "." + str(r.randint(0, 10**9))
        )
    if p < 0.85 and name == "s":
        return r.choice([*TEXTS.split(), *SPACED])
    return r.choice([*NUMBERS.split(), *TEXTS.split(), *SPACED, *LITERALS, json.dumps(random_time(r))])


def random_message(r: random.Random) -> bytes | None:
    """A message: a flat object with one or a few odd values or an odd frame, or none at all."""
    names = r.sample(list(GOOD), r.randint(0, len(GOOD)))
    odd = set(r.sample(names, min(len(names), r.choice([0, 1, 1, 1, 2]))))
    members = [(json.dumps(n), random_value(r, n) if n in odd else GOOD[n]) for n in names]
    if r.random() < 0.25:
        extra = [
            '"more"',
            '"S"',
            '"_raw"',
            '"_why"',
            '"ts.x"',
            '""',
            '"\\u0073"',
            '"s"',
            "more",
            "'s'",
            '"\\ud800"',
        ]
        deep = (
            '{"s":"x","ts":[{"n":'
            + r.choice(NUMBERS.split())
            + '},"}",'
            + r.choice([*TEXTS.split(), *SPACED])
            + "]}"
        )
        members.insert(
            r.randint(0, len(members)),
            (r.choice(extra), r.choice([*NUMBERS.split(), *TEXTS.split(), *SPACED, *LITERALS, deep, deep])),
        )
    space = r.choice(["", "", " ", "\n", "\r\n ", "\t"]) if r.random() < 0.3 else ""
    text = "{" + (space + "," + space).join(f"{n}:{space}{v}" for n, v in members) + space + "}"
    if r.random() < 0.2:
        frame = r.choice(FRAMES)
        text = frame.format(*[text] * frame.count("{}"))
    value = text.encode("utf-8", errors="surrogatepass")
    if r.random() < 0.15 and value:
        at = r.randrange(len(value))
        value = (
            value[:at]
            + r.choice(
                [b"", bytes([r.randrange(256)]), b"\\", b'"', b"\0", b"\n", b"\xed\xa0\x80", b"\xc0\x80"]
            )
            + value[at + r.randint(0, 1) :]
        )
    return None if r.random() < 0.01 else value


def at_the_limits() -> list[bytes]:
    """Messages about as long or as deep as Spark's parser takes them, and beyond."""
    around = (900, 990, 997, 998, 999, 1000, 1001, 1010)
    deep = [b'{"more":{"x":' + b"[" * n + b"]" * n + b'},"s":"a"}' for n in around]
    digits = [b'{"%s":0.%s,"s":"a"}' % (name, b"1" * n) for name in (b"x", b"more") for n in around]
    whole = [b'{"more":' + b"1" * n + b',"s":"a"}' for n in around]
    names = [b'{"' + b"n" * n + b'":1,"s":"a"}' for n in (900, 49_900, 49_999, 50_000, 50_001)]
    return [
        *deep,
        *digits,
        *whole,
        *names,
        b'{"s":"' + b"1" * 2000 + b'"}',
        b'{"s":"' + b"a" * 60_000 + b'"}',
    ]


@pytest.mark.spark
def test_W4_what_the_tasks_read_is_to_the_bit_what_spark_reads(workbench: Workbench) -> None:
    relation, r = source(), random.Random(7)
    values = [*at_the_limits(), *(random_message(r) for _ in range(3000))]
    reader = pickle.loads(pickle.dumps(json_reader(relation, NOON)))
    expected = by_spark(workbench.session(), relation, values)
    wanted = rows(expected)
    taken = []
    for index, (value, row) in enumerate(zip(values, wanted, strict=True)):
        alone = read_alone(reader, value)
        if alone is not None:
            # Equal is not enough: -0.0 is not 0.0.
            assert repr(alone) == repr(row), value
            taken.append(index)
    known = [i for i, row in enumerate(wanted) if row["_reason"] != "unparseable"]
    # It reads most of what Spark makes rows of: rounding and spellings of its own are left to Spark.
    assert len(taken) > 0.6 * len(known)
    assert {wanted[i]["_reason"] for i in taken} == {None, "null_value", "null_event_time", "not_null"}
    together = read(reader, [values[i] for i in taken])
    assert rows(together) == [wanted[i] for i in taken]
    types = [
        {f.name: f.type for f in t.schema if f.name != "_source_partition"} for t in (together, expected)
    ]
    assert list(types[0].items()) == list(types[1].items())


POISON = {
    "cut off": b'{"n": 1, "s": "a"',
    "of two halves": b'{"n": 1}{"n": 2}',
    "of two lines": b'{"n": 1}\n{"n": 2}',
    "two, where the next is cut by a NUL": b'{"n": 1}{"n": 2}\0{}',
    "an unclosed object": b'{"more": {"n": 1}',
    "an unclosed text": b'{"n": 1, "s": "}',
    "an array": b'[{"n": 1}]',
    "a number": b"1",
    "nothing": b"",
    "not UTF-8": b'{"s": "\xff"}',
    "a text where a number belongs": b'{"n": "1"}',
    "a number where a text belongs": b'{"s": 1}',
    "a fraction where an integer belongs": b'{"n": 1.0}',
    "a key that is there twice": b'{"n": 1, "n": 2}',
    "an integer too large": b'{"n": 9223372036854775808}',
    "a name for no number that only one knows": b'{"more": [-NaN]}',
    "hours, minutes and an offset": b'{"z": "2026-01-02 10-08:30"}',
    "an offset that no place has": b'{"z": "2026-01-02 10:11:12+19:00"}',
    "digits beyond the scale": b'{"m": 1.2345}',
    "more digits than the precision": b'{"m": 1234567890.123}',
    "a negative nothing": b'{"x": -0}',
}


@pytest.mark.parametrize("name", POISON)
def test_W4_one_message_that_is_not_read_refuses_its_batch_wherever_it_stands(name: str) -> None:
    reader, good = (
        json_reader(source(), NOON),
        ("{" + ",".join(f'"{n}":{v}' for n, v in GOOD.items()) + "}").encode(),
    )
    assert read(reader, [good] * 5).num_rows == 5
    for place in range(3):
        values = [good, good, good]
        values[place] = POISON[name]
        with pytest.raises(Unread):
            read(reader, values)


def test_rows_come_in_their_order_whatever_pieces_a_batch_is_read_in(monkeypatch: pytest.MonkeyPatch) -> None:
    reader = json_reader(source("n BIGINT, z TIMESTAMPTZ, s VARCHAR"), NOON)
    zones = ["", "Z", "+02:00", ".5"]
    values: list[bytes | None] = [
        json.dumps({"n": i, "z": f"2026-01-02 10:00:{i:02}{zones[i % 4]}", "s": "é" * i}).encode()
        for i in range(40)
    ]
    values[3] = values[17] = values[39] = None
    whole = read(reader, values)
    monkeypatch.setattr("tidegate.engine.sources.arrow_json._ROWS", 7)
    monkeypatch.setattr("tidegate.engine.sources.arrow_json._BYTES", 300)
    assert rows(read(reader, values)) == rows(whole)
    assert whole["n"].to_pylist() == [None if v is None else i for i, v in enumerate(values)]
    assert whole["_offset"].to_pylist() == list(range(100, 140))
    seconds = [
        v.timestamp() - datetime(2026, 1, 2, 10, tzinfo=UTC).timestamp() for v in whole["z"].to_pylist() if v
    ]
    assert seconds[:6] == [0, 1, 2 - 7200, 4, 5, 6 - 7200]
    assert whole["_reason"].drop_null().to_pylist() == ["null_value"] * 3
    assert set(whole["_source_partition"].to_pylist()) == {"12"}
    # And where nothing at all is in the messages.
    assert read(reader, [None, None])["n"].to_pylist() == [None, None]


def test_W5_reasons_have_an_order() -> None:
    reader = json_reader(source("n BIGINT NOT NULL, ts TIMESTAMP, WATERMARK FOR ts AS ts"), NOON)
    values = [
        None,
        b'{"n": 1}',
        b'{"n": 1, "ts": "2026-01-02 10:00:00"}',
        b'{"ts": "2026-01-02 10:00:00"}',
        b"{}",
    ]
    reasons = read(reader, values)["_reason"].to_pylist()
    assert reasons == ["null_value", "null_event_time", None, "not_null", "null_event_time"]


def test_changes_by_key_are_upserts() -> None:
    sql = (
        "CREATE TABLE s (n BIGINT, PRIMARY KEY (n)) WITH (connector = 'kafka', topic = 't', "
        "properties.bootstrap.server = 'nowhere:1') FORMAT PLAIN ENCODE JSON"
    )
    relation = load_catalog([("s.sql", sql)]).get("s")
    assert supports(relation)  # type: ignore[arg-type]
    assert read(json_reader(relation, NOON), [b'{"n": 1}'])["_op"].to_pylist() == ["upsert"]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("columns", "format_", "yes"),
    [
        (COLUMNS, "JSON", True),
        ("n BIGINT", "CSV", False),
        ("ts TIMESTAMP", "JSON (timestamp_format = 'yyyy')", False),
        ("n BIGINT, tags VARCHAR[]", "JSON", False),
        ("n BIGINT, b BYTEA", "JSON", False),
        ("n BIGINT, m BIGINT AS n + 1", "JSON", False),
        (
            "ts TIMESTAMP, late BOOLEAN, WATERMARK FOR ts AS CASE WHEN late THEN NULL ELSE ts END",
            "JSON",
            False,
        ),
        ("ts TIMESTAMP, WATERMARK FOR ts AS SOURCE_WATERMARK()", "JSON", True),
    ],
)
def test_what_spark_must_convert_or_compute_is_left_to_it(columns: str, format_: str, yes: bool) -> None:
    assert supports(source(columns, format_)) is yes


def test_a_poisoned_source_is_left_to_spark_for_longer_and_longer() -> None:
    turns, tried = Turns(), []
    for number in range(300):
        if turns.ours():
            tried.append(number)
            turns.refused()
    assert tried == [0, 2, 5, 10, 19, 36, 69, 134, 199, 264]
    # And for less and less, when it is clean again.
    while not turns.ours():
        pass
    for _ in range(3):
        assert turns.ours()
    turns.refused()
    pause = 0
    while not turns.ours():
        pause += 1
    assert pause == 16
