"""Files of JSON lines and CSV, read without Spark: what is a row of them, and what their folders and headers say."""

from __future__ import annotations

import gzip
import json
import random
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from itertools import accumulate, pairwise
from pathlib import Path

import pyarrow as pa
import pyarrow.fs as pafs
import pytest

from tests.tasks.decode.test_property_decoders import decoder
from tidegate.ingest.sources.file_rows import PLACE, ROW
from tidegate.tasks.decode.limits import Limits
from tidegate.tasks.decode.text.bulk import parsed
from tidegate.tasks.decode.text.files import CsvFiles, FileSpan, JsonFiles


def test_W5_lines_of_blanks_are_none_and_all_others_are_rows() -> None:
    """Whatever else is space to Python or Unicode is text; a piece of a line that is too long is rejected."""
    r = random.Random(0)
    parts = [
        b"",
        b" ",
        b"\t",
        b"\x0b",
        b"\x0c",
        b"\x1c",
        b"\x85",
        b"\xc2\xa0",
        b"\xff",
        b"\0",
        b"{}",
        b" " * 30,
    ]
    lines = [b"".join(r.choices(parts, k=r.randrange(4))) for _ in range(2_000)]
    data = b"".join(line + r.choice([b"\n", b"\r\n"]) for line in lines)
    cuts = [0, *accumulate(r.choices([1, 5, 40, 2_000], k=200)), len(data)]
    chunks = [data[a:b] for a, b in pairwise(cuts)]

    def found(limit: int) -> list[tuple[bytes, str | None]]:
        files = JsonFiles(
            pafs.LocalFileSystem(),
            replace(decoder("JSON"), limits=Limits(row_bytes=limit)),
            (),
            place=tuple(PLACE),
        )
        return [
            (record, group.bad.get(place))
            for group in files.groups(iter(chunks))
            for place, record in enumerate(group.records.to_pylist())
        ]

    kept = [line for line in lines if line.strip(b" \t")]
    assert found(1_000) == [(line, None) for line in kept]
    pieces = found(20)
    assert {why for _, why in pieces} == {None, "unparseable: a row of more than 20 bytes"}
    assert all(record for record, _ in pieces)
    short = [record for record, why in pieces if why is None and len(record) <= 20]
    assert short == [line for line in kept if len(line) <= 20]


COLUMNS = "id INT, day DATE, n BIGINT, d DECIMAL(5, 2), b BOOLEAN, s VARCHAR, at TIMESTAMPTZ, ts TIMESTAMP, many INT[]"
#: What a folder says, and what it is (a name: the column that it does not fit).
SAID = [
    ("day=2026-01-01", date(2026, 1, 1)),
    ("Day=2026-01-01", date(2026, 1, 1)),
    ("day=__HIVE_DEFAULT_PARTITION__", None),
    ("day=tomorrow", ("day", "DATE")),
    ("n=007", 7),
    ("n=1.5", ("n", "BIGINT")),
    ("d=1.25", Decimal("1.25")),
    ("d=1000", ("d", "DECIMAL(5, 2)")),
    ("b=true", True),
    ("s=a%2Fb", "a/b"),
    ("s=", ""),
    ("at=2026-01-01 10%3A30%3A00", datetime(2026, 1, 1, 10, 30, tzinfo=UTC)),
    ("ts=2026-01-01", datetime(2026, 1, 1)),
    ("ts=9", ("ts", "TIMESTAMP")),
    ("many=1", ("many", "INT[]")),
]


@pytest.mark.parametrize(("folder", "value"), SAID, ids=[f for f, _ in SAID])
def test_X5_a_column_that_a_row_does_not_have_is_what_its_folder_says(folder: str, value: object) -> None:
    name, path = folder.partition("=")[0].casefold(), f"in/{folder}/a"
    place = ["id", "day", "n", "d", "b", "s", "at", "ts", "many"].index(name)
    own = {"day": "2026-02-02", "n": 1, "d": 2, "b": False, "s": "x", "at": "2026-02-02 00:00:00Z"}
    own |= {"ts": "2026-02-02 00:00:00", "many": [1]}
    # Missing, there, NULL, and there in spellings that are read one by one.
    rows = [{"id": 1}, {"id": 2, name: own[name]}, {"id": 3, name: None}, {name: own[name], "id": 4}] * 5
    texts = [json.dumps(row) for row in rows] + ['{"id": "x"}', '{ "id" :1E0}', "[]"]
    reader = JsonFiles(pafs.LocalFileSystem(), decoder("JSON", COLUMNS), (), place=tuple(PLACE))
    (found,) = reader.rows(iter(["\n".join([*texts, ""]).encode()]), path)
    unfit = f'unparseable: column "{value[0]}" wants {value[1]}' if isinstance(value, tuple) else None
    values = found[f"c{place}"].to_pylist() if f"c{place}" in found else []
    for i, row in enumerate(rows):
        missing = name not in row
        assert found["_why"][i].as_py() == (unfit if missing else None)
        if missing and not unfit:
            assert (values[i], found["c0"][i].as_py()) == (value, 1)
        elif name in row and values:
            assert (values[i] is None) == (row[name] is None)
    why = found["_why"].to_pylist()[len(rows) :]
    assert why[0] == 'unparseable: column "id" wants INT'
    assert (why[1], why[2]) == ('unparseable: column "id" wants INT', "unparseable: not one JSON object")

    files = CsvFiles(pafs.LocalFileSystem(), decoder("CSV", COLUMNS), (), place=tuple(PLACE))
    (found,) = files.rows(iter([b'id,more\n1,a\n2,"b"\nx,c\n3\n']), path)
    few = "unparseable: fewer fields than columns"
    assert found["_why"].to_pylist() == [unfit, unfit, 'unparseable: column "id" wants INT', few]
    if not unfit:
        assert found[f"c{place}"].to_pylist()[:2] == [value, value]
    # What the file itself has goes first.
    (found,) = files.rows(iter([f"id,{name}\n1,\n".encode()]), path)
    assert found["_why"].to_pylist() == [None]
    assert f"c{place}" not in found or found[f"c{place}"].to_pylist() == [None]


@pytest.mark.medium
@pytest.mark.parametrize("damage", ["cut", "changed", "none"])
@pytest.mark.parametrize("kind", ["JSON", "CSV"])
def test_X2_a_compressed_file_that_is_damaged_loses_no_row_before_and_does_not_stop_its_source(
    tmp_path: Path, kind: str, damage: str
) -> None:
    r, path = random.Random(1), tmp_path / "a.gz"
    rows = [f"{r.getrandbits(60)}" for _ in range(300_000)]
    lines = [f'{{"id": {row}}}' for row in rows] if kind == "JSON" else ["id", *rows]
    data = bytearray(gzip.compress("\n".join(lines).encode(), 1))
    if damage == "cut":
        del data[-1_000:]
    elif damage == "changed":
        data[-20_000:-19_000] = bytes(1_000)
    path.write_bytes(data)
    made = (JsonFiles if kind == "JSON" else CsvFiles)(
        pafs.LocalFileSystem(),
        decoder(kind, "id BIGINT"),
        ((FileSpan(str(path), path.as_uri()),),),
        place=tuple(PLACE),
    )
    found = pa.Table.from_batches(made(iter([pa.RecordBatch.from_arrays([pa.array([0])], ["id"])])))
    why = found.column("_why").to_pylist()
    if damage == "none":
        assert why == [None] * len(rows)
        return
    # What was decompressed before is read, to the megabyte.
    assert why[-1] == "unreadable: the compressed file is damaged from here on"
    assert 100_000 < len(why) <= len(rows)
    assert found.column("c0").to_pylist()[: len(why) - 2] == [int(row) for row in rows[: len(why) - 2]]
    assert found.column(ROW).to_pylist() == list(range(len(why)))

    path.unlink()
    with pytest.raises(OSError):
        list(made(iter([pa.RecordBatch.from_arrays([pa.array([0])], ["id"])])))


FIRST_LINE = (
    "unparseable: the first line of the file names no declared column "
    "(without_header = 'true' reads files without one)"
)
NO_COLUMN = "unparseable: the header of the file has none of the columns"
NO_CSV = "unparseable: the header of the file is not CSV"


@pytest.mark.parametrize(
    ("data", "wanted"),
    [
        (b"9,x,2026-01-01 10:00:00", [("9,x,2026-01-01 10:00:00", FIRST_LINE)]),
        (b"\n\n9,x\n\n10,y\n", [("9,x", FIRST_LINE), ("10,y", NO_COLUMN)]),
        (b"9,\xff\n10,y\n", [("base64:OSz/", FIRST_LINE), ("10,y", NO_COLUMN)]),
        (b'9,"x" y\n10,y\n', [('9,"x" y', NO_CSV), ("10,y", NO_CSV)]),
        (b"9" * 3_000 + b"\n10,y\n", [("9" * 3_000, NO_CSV), ("10,y", NO_CSV)]),
        (b"id,\xff\n9,y\n", [(None, None)]),
        (b"id,x,ID,id\n9,y,1,2\n", [("9,y,1,2", 'unparseable: column "id" is there twice')]),
        (b"id\n", []),
        (b"", []),
    ],
)
def test_W5_the_first_line_of_a_csv_file_is_a_row_unless_it_names_a_column(
    tmp_path: Path, data: bytes, wanted: list[tuple[str | None, str | None]]
) -> None:
    """Where nothing of a file can be read by its header, the header may be a row: it must not vanish."""
    path = tmp_path / "a.csv"
    path.write_bytes(data)
    small = replace(decoder("CSV", "id BIGINT, name VARCHAR"), limits=Limits(row_bytes=1_000))
    files = CsvFiles(
        pafs.LocalFileSystem(), small, ((FileSpan(str(path), path.as_uri()),),), place=tuple(PLACE)
    )
    batches = list(files(iter([pa.RecordBatch.from_arrays([pa.array([0])], ["id"])])))
    found = [row for batch in batches for row in batch.to_pylist()]
    assert [(row["_raw"], row["_why"]) for row in found] == wanted
    # A header that names a column is none of the rows.
    assert [row[ROW] for row in found] == list(range(len(wanted)))


def test_X4_no_value_of_a_csv_file_without_a_header_is_taken_for_a_name(tmp_path: Path) -> None:
    files = CsvFiles(
        pafs.LocalFileSystem(),
        decoder("CSV", "id BIGINT, name VARCHAR, kind VARCHAR"),
        (),
        place=tuple(PLACE),
    )

    def undeclared(header: str) -> list[str]:
        (tmp_path / "a.csv").write_text(f"{header}\n")
        return list(files.undeclared(str(tmp_path / "a.csv")))

    assert undeclared("id,name,more") == ["more"]
    # Text of a row may happen to be the name of a column.
    assert undeclared("4711,name,secret") == ["field 1 of 3", "field 3 of 3"]
    assert undeclared("4711,alice,secret") == []


@pytest.mark.parametrize("null", ["", "NA"])
def test_X5_csv_has_no_spelling_for_values_inside_of_values(null: str) -> None:
    """What is there and can't be read is rejected, and never NULL without a word."""
    columns = "id BIGINT, y BYTEA, ar INT[], st STRUCT<a INT>, m MAP<VARCHAR, INT>"
    decode = decoder(f"CSV (null_value = '{null}')" if null else "CSV", columns)
    wants = {2: ("ar", "INT[]"), 3: ("st", "STRUCT<a INT>"), 4: ("m", "MAP<VARCHAR, INT>")}
    for place, (name, kind) in wants.items():
        for text in ("1", "[]", '"[1,2]"', '"{""a"":1}"', " "):
            fields = ["1", "AP8=", "", null, ""]
            fields[place] = text
            found = parsed(decode, pa.array([",".join(fields).encode(), f"1,AA==,,,{null}".encode()]))
            assert found["_why"].to_pylist() == [f'unparseable: column "{name}" wants {kind}', None]
            assert found["_raw"][0].as_py() == ",".join(fields)
            assert (found["c0"][1].as_py(), found["t1"].to_pylist()[1]) == (1, "AA==")
    # Of a file whose header names such columns only, too.
    files = CsvFiles(pafs.LocalFileSystem(), decode, (), place=tuple(PLACE))
    (found,) = files.rows(iter([b'ar,st\n"",\n1,\n,\n']))
    unfit = 'unparseable: column "ar" wants INT[]'
    assert found["_why"].to_pylist() == ([unfit if null else None, unfit, None])
