"""JSON decoded inside the gate's task says what every other way of reading it says (W4, W5, X5)."""

from __future__ import annotations

import json
import pickle
import random
import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from tests.conftest import Workbench
from tests.tasks.decode import hostile, text_oracle
from tidegate.ingest.shape import gate_input
from tidegate.ingest.sources.decode import decode
from tidegate.plan.columns.taken_in import TakenIn, to_text, with_taken_in
from tidegate.sql import load_catalog
from tidegate.tasks.decode.text.arrow_json import DecodingBackOff, JsonReader, json_reader, supports
from tidegate.tasks.decode.text.json_members import Members
from tidegate.tasks.reading import LOOKED, NeedsSpark

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tidegate.session.session import Session
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
    except NeedsSpark:
        return None


def by_spark(
    session: Session, relation: Relation, values: Sequence[bytes | None], looks: bool = False
) -> pa.Table:
    """What the gate gets of these messages by way of Spark's parser, in their order."""
    frame = session.spark.createDataFrame(pa.Table.from_batches([batch(values)])).coalesce(1)
    partition = frame["_partition"].cast("string").alias("_source_partition")
    frame = frame.select("*", partition).drop("_partition")
    return gate_input(decode(frame, relation, session.project, looks=looks), relation, NOON).toArrow()


GOOD = {name: text for name, (_, text) in hostile.COLUMNS.items()}


@pytest.mark.spark
def test_X5_the_tasks_and_spark_decode_alike_and_rows_have_the_values_of_sparks_parser(
    workbench: Workbench,
) -> None:
    relation, r, session = source(), random.Random(7), workbench.session()
    values = [hostile.json_message(r) for _ in range(500)]
    reader = pickle.loads(pickle.dumps(json_reader(relation)))
    expected = by_spark(session, relation, values)
    wanted = rows(expected)
    taken = []
    for index, (value, row) in enumerate(zip(values, wanted, strict=True)):
        alone = read_alone(reader, value)
        if alone is not None:
            # Equal is not enough: -0.0 is not 0.0.
            assert repr(alone) == repr(row), value
            taken.append(index)
    # Only times in spellings of their own, and numbers that are none in quotes, are Spark's.
    assert len(taken) > 0.85 * len(values)
    together = read(reader, [values[i] for i in taken])
    assert rows(together) == [wanted[i] for i in taken]
    types = [
        {f.name: f.type for f in t.schema if f.name != "_source_partition"} for t in (together, expected)
    ]
    assert list(types[0].items()) == list(types[1].items())
    # Spark would write out all the zeros of 1e999999999, and makes text of what is none.
    values = [v if v and not re.search(rb"[eE][+-]?\d{4,}", v) and is_text(v) else None for v in values]
    known = rows(by_from_json(session, relation, values))
    names = [c.name for c in relation.columns]
    for value, row, other in zip(values, wanted, known, strict=True):
        if row["_reason"] in (None, "null_event_time", 'not_null: column "s" is NULL') and value is not None:
            if "Infinity" in (other["s"] or ""):
                other["s"] = row["s"]  # Spark makes that of 1e309 where text is wanted
            assert repr([row[name] for name in names]) == repr([other[name] for name in names]), value
        elif value is not None and other["_broken"] is None and not_refused(value):
            # Spark makes rows of what is no strict JSON, of numbers beyond all bounds, and of a time of day.
            assert any(
                word in row["_reason"] for word in ("wants REAL", "wants DOUBLE", "wants TIMESTAMP")
            ), value


@pytest.mark.spark
def test_W5_what_was_taken_in_rejects_no_row_and_what_no_column_is_for_is_seen_whoever_decodes(
    workbench: Workbench,
) -> None:
    columns = [("x", "double"), ("n", "bigint"), ("at", "struct<y:bigint>"), ("tags", "array<bigint>")]
    session = workbench.session()
    values = [
        b'{"id": 1, "x": "NaN", "n": 1, "at": {"y": 1}, "tags": [1, null], "new": 1}',
        b'{"id": 2, "x": "no", "n": "no", "at": {"y": "no"}, "tags": [1, "no"], "new": 2}',
        b'{"id": 3, "x": {}, "n": 1.5, "at": 7, "tags": "no"}',
        b'{"id": "no", "x": "no"}',
    ]

    def taken(names: Sequence[tuple[str, str]]) -> Relation:
        text = to_text(tuple(TakenIn(name, kind, "", 1) for name, kind in names))
        return with_taken_in(source("id BIGINT"), text)

    relation = taken(columns)
    found = by_spark(session, relation, values, looks=True)
    assert found.select(["id", "n", "at", "tags", "_reason"]).to_pylist() == [
        {"id": 1, "n": 1, "at": {"y": 1}, "tags": [1, None], "_reason": None},
        {"id": 2, "n": None, "at": None, "tags": None, "_reason": None},
        {"id": 3, "n": None, "at": None, "tags": None, "_reason": None},
        {"id": None, "n": None, "at": None, "tags": None, "_reason": 'unparseable: column "id" wants BIGINT'},
    ]
    assert [repr(x) for x in found.column("x").to_pylist()] == ["nan", "None", "None", "None"]
    # Without what only Spark converts, the tasks that judge give the same.
    relation = taken(columns[:2])
    found, values = by_spark(session, relation, values[1:], looks=True), values[1:]
    reader = pickle.loads(pickle.dumps(json_reader(relation, looks=True)))
    own = read(reader, values)
    assert rows(own) == rows(found)
    (text,) = own.column(LOOKED).drop_null().to_pylist()
    assert Members.from_text(text).found["new"] == (1, "bigint")
    assert Members.from_text(text).rows == 3


def by_from_json(session: Session, relation: Relation, values: Sequence[bytes | None]) -> pa.Table:
    """The relation's columns as Spark's parser reads them."""
    from pyspark.sql import functions as F

    schema = ", ".join(f"{c.name} {c.type}" for c in relation.columns) + ", _broken string"
    frame = session.spark.createDataFrame(pa.Table.from_batches([batch(values)])).coalesce(1)
    options = {"columnNameOfCorruptRecord": "_broken"}
    row = F.from_json(F.col("value").cast("string"), schema, options)
    return frame.select(row.alias("row"), "_offset").select("row.*", "_offset").toArrow()


def is_text(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True


def not_refused(value: bytes) -> bool:
    try:
        text_oracle.json_object(value)
    except text_oracle.Refused:
        return False
    return True


POISON = {
    "cut off": (b'{"n": 1, "s": "a"', "not valid JSON"),
    "of two halves": (b'{"n": 1}{"n": 2}', "more text behind the JSON object"),
    "of two lines": (b'{"n": 1}\n{"n": 2}', "more text behind the JSON object"),
    "two, where the next is cut by a NUL": (b'{"n": 1}{"n": 2}\0{}', "more text behind the JSON object"),
    "an unclosed object": (b'{"more": {"n": 1}', "not valid JSON"),
    "an unclosed text": (b'{"n": 1, "s": "}', "not valid JSON"),
    "an array": (b'[{"n": 1}]', "not one JSON object"),
    "a number": (b"1", "not one JSON object"),
    "nothing": (b"", "not one JSON object"),
    "a text where a number belongs": (b'{"n": "1"}', 'column "n" wants BIGINT'),
    "a fraction where an integer belongs": (b'{"n": 1.0}', 'column "n" wants BIGINT'),
    "a column that is there twice": (b'{"n": 1, "n": 2}', 'column "n" is there twice'),
    "a name that is there twice": (b'{"more": 1, "more": 2}', "a name is there twice in an object"),
    "an integer too large": (b'{"n": 9223372036854775808}', 'column "n" wants BIGINT'),
    "a number that is none": (b'{"x": NaN}', "not valid JSON"),
    "another number that is none": (b'{"more": [-NaN]}', "not valid JSON"),
    "a number beyond all bounds": (b'{"x": 1e400}', 'column "x" wants DOUBLE'),
    "more digits than the precision": (b'{"m": 1234567890.123}', 'column "m" wants DECIMAL(12, 3)'),
    "a day that is none": (b'{"ts": "2026-02-30 10:00:00"}', 'column "ts" wants TIMESTAMP'),
    "a time of day": (b'{"z": "10:11:12"}', 'column "z" wants TIMESTAMPTZ'),
    "a flag in quotes": (b'{"b": "true"}', 'column "b" wants BOOLEAN'),
}


@pytest.mark.parametrize("name", POISON)
def test_W5_a_poisonous_message_is_rejected_and_its_neighbours_are_read_with_it(name: str) -> None:
    poison, problem = POISON[name]
    good = ("{" + ",".join(f'"{n}":{v}' for n, v in GOOD.items()) + "}").encode()
    clean = rows(read(json_reader(source()), [good]))[0]
    for place in range(3):
        values = [good, good, good]
        values[place] = poison
        found = rows(read(json_reader(source()), values))
        bad = found.pop(place)
        assert (bad["_reason"], bad["_raw"]) == (f"unparseable: {problem}", poison.decode())
        assert found == [clean, clean]


@pytest.mark.parametrize("left", [b'{"z": "2026-01-02 10-08:30"}', b'{"x": "NaN"}', b'{"ts": 1700000000}'])
def test_W4_what_spark_has_to_convert_is_left_to_it(left: bytes) -> None:
    with pytest.raises(NeedsSpark):
        read(json_reader(source()), [b"{}", left])


def test_X5_names_are_compared_as_the_option_says() -> None:
    messages = [b'{"N": 1, "s": "a"}', b'{"n": 2}', b'{"N": 3, "n": 4}']
    for options, expected in (
        ("", [(None, None), (2, None), (4, None)]),
        (" (case = 'sensitive')", [(None, None), (2, None), (4, None)]),
        (" (case = 'Insensitive')", [(1, None), (2, None), (None, 'unparseable: column "n" is there twice')]),
    ):
        relation = source("n BIGINT, s VARCHAR", "JSON" + options)
        assert supports(relation)
        for reader in (json_reader(relation),) * 2:  # one that has learned, too
            found = rows(read(reader, messages))
            assert [(row["n"], row["_reason"]) for row in found] == expected


def test_rows_come_in_their_order_whatever_pieces_a_batch_is_read_in(monkeypatch: pytest.MonkeyPatch) -> None:
    reader = json_reader(source("n BIGINT, z TIMESTAMPTZ, s VARCHAR"))
    zones = ["", "Z", "+02:00", ".5"]
    values: list[bytes | None] = [
        json.dumps({"n": i, "z": f"2026-01-02 10:00:{i:02}{zones[i % 4]}", "s": "é" * i}).encode()
        for i in range(40)
    ]
    values[3] = values[17] = values[39] = None
    whole = read(reader, values)
    monkeypatch.setattr("tidegate.tasks.decode.text.bulk.ROWS", 7)
    monkeypatch.setattr("tidegate.tasks.decode.text.bulk.BYTES", 300)
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
    reader = json_reader(source("n BIGINT NOT NULL, ts TIMESTAMP, WATERMARK FOR ts AS ts"))
    values = [
        None,
        b'{"n": 1}',
        b'{"n": 1, "ts": "2026-01-02 10:00:00"}',
        b'{"ts": "2026-01-02 10:00:00"}',
        b"{}",
    ]
    reasons = read(reader, values)["_reason"].to_pylist()
    assert reasons == [
        "null_value",
        "null_event_time",
        None,
        'not_null: column "n" is NULL',
        "null_event_time",
    ]


def test_changes_by_key_are_upserts() -> None:
    sql = (
        "CREATE TABLE s (n BIGINT, PRIMARY KEY (n)) WITH (connector = 'kafka', topic = 't', "
        "properties.bootstrap.server = 'nowhere:1') FORMAT PLAIN ENCODE JSON"
    )
    relation = load_catalog([("s.sql", sql)]).get("s")
    assert supports(relation)  # type: ignore[arg-type]
    assert read(json_reader(relation), [b'{"n": 1}'])["_op"].to_pylist() == ["upsert"]  # type: ignore[arg-type]


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
    turns, tried = DecodingBackOff(), []
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
