"""Random good, damaged and hostile texts and messages: each is exactly what its format says, or is rejected with a
reason and its raw bytes (X5, W5); how they are put together, and what brings them, changes nothing.

`TIDEGATE_HYPOTHESIS=thorough` runs 100,000 cases, `TIDEGATE_CASES` as many as it says; `TIDEGATE_SEED` is the first
seed, and a failure names its own.
"""

from __future__ import annotations

import csv
import io
import json
import os
import pickle
import random
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.fs as pafs
import pytest

from tests.tasks.decode import hostile, text_oracle
from tests.tasks.decode.campaign import limited_memory, seeds
from tests.tasks.decode.hostile import COLUMNS, CSV_COLUMNS, CSV_DECLARED, DECLARED
from tests.tasks.decode.text_oracle import LEFT, MISFIT, Refused
from tidegate.ingest.sources.file_rows import PLACE
from tidegate.sql import load_catalog
from tidegate.tasks.decode.text.bulk import parsed
from tidegate.tasks.decode.text.decoders import text_decoder
from tidegate.tasks.decode.text.files import CsvFiles, JsonFiles

pytestmark = pytest.mark.medium

THOROUGH = os.environ.get("TIDEGATE_HYPOTHESIS") == "thorough"
CASES = int(os.environ.get("TIDEGATE_CASES", "100000" if THOROUGH else "1000"))
SEED = int(os.environ.get("TIDEGATE_SEED", "0"))
#: Texts of one batch.
BATCH = 40
#: Of columns by their names the type, and a value.
Declared = dict[str, tuple[str, str]]


def decoder(format_: str, columns: str = DECLARED) -> Any:
    """As a task gets it."""
    options = "connector = 'kafka', topic = 't', properties.bootstrap.server = 'nowhere:1'"
    sql = f"CREATE SOURCE s ({columns}) WITH ({options}) FORMAT PLAIN ENCODE {format_}"
    relation: Any = load_catalog([("s.sql", sql)]).get("s")
    return pickle.loads(pickle.dumps(text_decoder(relation)))


def rows_of(columns: dict[str, pa.Array], declared: Declared = COLUMNS) -> list[dict[str, Any]]:
    """Rows with their columns by name, times as numbers; what is left to Spark is in `left`."""
    lists = {}
    for name, array in columns.items():
        if pa.types.is_temporal(array.type):
            array = array.cast(pa.int32() if pa.types.is_date(array.type) else pa.int64())
        lists[name] = array.to_pylist()
    rows = []
    for i in range(len(lists["_why"])):
        row: dict[str, Any] = {"_why": lists["_why"][i], "_raw": lists["_raw"][i], "left": {}}
        for place, name in enumerate(declared):
            row[name] = lists[f"c{place}"][i] if f"c{place}" in lists else None
            left = lists.get(f"t{place}")
            if left is not None and left[i] is not None:
                row["left"][name] = left[i]
        rows.append(row)
    return rows


def decoded(decode: Any, values: list[bytes | None], declared: Declared = COLUMNS) -> list[dict[str, Any]]:
    return rows_of(parsed(decode, pa.array(values, pa.binary())), declared)


def batches(kind: str) -> Iterator[tuple[int, random.Random]]:
    for seed in seeds(kind.replace(" ", "-"), SEED, CASES // BATCH):
        yield seed, random.Random(f"{kind} {seed}")


def check(
    row: dict[str, Any], data: bytes | None, wanted: dict[str, Any] | None, declared: Declared = COLUMNS
) -> None:
    """`wanted`: what each column is; None: the text is no row."""
    if data is None:
        assert (row["_why"], row["_raw"]) == ("null_value", None)
        return
    if wanted is None:
        assert row["_why"], "accepted, and is no row"
        check_raw(row, data)
        assert all(row[name] is None for name in declared)
        return
    misfits = [name for name, value in wanted.items() if value is MISFIT]
    for name, value in wanted.items():
        if value is LEFT:
            assert row[name] is None
            # Spark may be asked, or it is known that it would refuse.
            if name not in row["left"] and name not in misfits:
                misfits.append(name)
            continue
        assert name not in row["left"]
        if value is MISFIT:
            assert row[name] is None
        elif name == "s" and not (value is None or type(value) is str):
            assert (
                json.loads(row[name], parse_int=text_oracle.Literal, parse_float=text_oracle.Literal) == value
            )
        else:
            assert text_oracle.same(row[name], text_oracle.micros(value)), name
    if not misfits:
        assert row["_why"] is None
        return
    first = min(misfits, key=list(declared).index)
    assert row["_why"] == f'unparseable: column "{first}" wants {declared[first][0]}'
    check_raw(row, data)


def check_raw(row: dict[str, Any], data: bytes) -> None:
    assert text_oracle.raw_bytes(row["_raw"]) == data
    # The reason says nothing of what is in the row, and there are few of them.
    assert len(row["_why"]) < 90


def json_wanted(data: bytes) -> dict[str, Any] | None:
    try:
        found = text_oracle.json_object(data)
    except Refused:
        return None
    return {name: text_oracle.of_json(kind, found.get(name)) for name, (kind, _) in COLUMNS.items()}


@limited_memory()
def test_X5_property_a_json_text_is_what_json_says_or_rejected() -> None:
    shared, accepted, tried = decoder("JSON"), 0, 0
    for seed, r in batches("json"):
        values = [hostile.json_message(r) for _ in range(BATCH)]
        # A decoder that has learned from all before, and one that knows nothing.
        together, alone = decoded(shared, values), decoder("JSON") if seed % 10 == 0 else None
        for data, row in zip(values, together, strict=True):
            where = f"TIDEGATE_SEED={seed}: {data!r:.300}"
            try:
                check(row, data, json_wanted(data) if data is not None else None)
            except AssertionError as wrong:
                raise AssertionError(where) from wrong
            if alone is not None:
                assert repr(decoded(alone, [data])) == repr([row]), where
            accepted, tried = accepted + (row["_why"] is None), tried + 1
    assert accepted >= 0.2 * tried


@limited_memory()
def test_X5_property_lines_of_a_json_file_are_those_of_messages() -> None:
    """A file of lines, read in pieces of any size, gives for each line what a message of its bytes gives."""
    shared = decoder("JSON")
    for seed, r in batches("json file"):
        made = [hostile.json_message(r) for _ in range(BATCH)]
        # What a line can't hold, or what says nothing, is no line.
        values = [
            v for v in made if v and v.strip() and not {b"\n", b"\r"} & {v[i : i + 1] for i in range(len(v))}
        ]
        end = r.choice([b"\n", b"\r\n"])
        data = end.join(values) + (end if r.random() < 0.7 else b"")
        size = r.choice([1, 2, 7, 64, 1000, 1 << 20])
        files = JsonFiles(pafs.LocalFileSystem(), decoder("JSON"), (), place=tuple(PLACE))
        found = [
            row
            for columns in files.rows(iter([data[i : i + size] for i in range(0, len(data), size)]))
            for row in rows_of(columns)
        ]
        assert repr(found) == repr(decoded(shared, [*values])), f"TIDEGATE_SEED={seed}"


def csv_wanted(data: bytes, names: list[str]) -> dict[str, Any] | None:
    try:
        fields = text_oracle.csv_fields(data)
    except Refused:
        return None
    if len(fields) != len(names):
        return None
    given = dict(zip(names, fields, strict=True))
    return {n: text_oracle.of_csv(kind, given.get(n, "")) for n, (kind, _) in CSV_COLUMNS.items()}


@limited_memory()
def test_X5_property_a_csv_message_is_what_rfc_4180_says_or_rejected() -> None:
    shared, accepted, tried, names = decoder("CSV", CSV_DECLARED), 0, 0, list(CSV_COLUMNS)
    for seed, r in batches("csv"):
        values = [hostile.csv_record(r, names) for _ in range(BATCH)]
        together = decoded(shared, [*values], CSV_COLUMNS)
        for data, row in zip(values, together, strict=True):
            where = f"TIDEGATE_SEED={seed}: {data!r:.300}"
            try:
                check(row, data, csv_wanted(data, names), CSV_COLUMNS)
            except AssertionError as wrong:
                raise AssertionError(where) from wrong
            accepted, tried = accepted + (row["_why"] is None), tried + 1
    assert accepted >= 0.2 * tried


@limited_memory()
def test_X5_property_records_of_a_csv_file_are_those_of_messages() -> None:
    """A file with its own header, cut anywhere, gives for each record what a message of its bytes gives."""
    for seed, r in batches("csv file"):
        names = r.sample(list(CSV_COLUMNS), r.randint(1, len(CSV_COLUMNS)))
        header = [*names, *r.sample(["more", "_raw", "x y", ""], r.randint(0, 3))]
        r.shuffle(header)
        records = [
            hostile.csv_record(r, [n if n in CSV_COLUMNS else "s" for n in header], tame=True)
            for _ in range(BATCH)
        ]
        if r.random() < 0.3:
            records.append(b'"open\n' + records[0].replace(b'"', b""))
        end = r.choice([b"\n", b"\r\n", b"\r"])
        lines = [(b"\xef\xbb\xbf" if r.random() < 0.2 else b"") + ",".join(header).encode(), *records]
        last = end if r.random() < 0.7 else b""
        data = end.join(lines) + last
        if b'"open' in records[-1]:
            # The break behind a quote that is never closed is inside of it.
            records[-1] += last
        size = r.choice([1, 2, 7, 64, 1000, 1 << 20])
        own = decoder("CSV", CSV_DECLARED)
        files = CsvFiles(pafs.LocalFileSystem(), own, (), header=True, place=tuple(PLACE))
        found = [
            row
            for columns in files.rows(iter([data[i : i + size] for i in range(0, len(data), size)]))
            for row in rows_of(columns, CSV_COLUMNS)
        ]
        where = f"TIDEGATE_SEED={seed}"
        assert len(found) == sum(bool(record) for record in records), where
        for record, row in zip(filter(None, records), found, strict=True):
            # The csv module's records of the whole file are these, too; its last may be without its end.
            try:
                wanted = csv_wanted(record, header) if b'"open' not in record else None
                check(row, record, wanted, CSV_COLUMNS)
            except AssertionError as wrong:
                raise AssertionError(f"{where}: {record!r:.300}") from wrong
        structure = data.removeprefix(b"\xef\xbb\xbf").decode("latin-1")
        count = sum(bool(x) for x in csv.reader(io.StringIO(structure, newline="")))
        assert count == 1 + len(found), where


@pytest.mark.parametrize("limit", [5, 50])
def test_a_record_that_never_ends_is_rejected_in_pieces_and_nothing_of_it_is_a_row(limit: int) -> None:
    from tidegate.tasks.decode.text.records import Records

    lines = [
        b"1,a\n",
        b'2,"open\n',
        *[b"3,in the quote\n"] * 20,
        b'the end"\n',
        b"4,b\n",
        b"5," + b"x" * 200,
        b"\n6,c\n",
    ]
    found = [
        (record, place in pieces)
        for records, pieces in Records(",", limit)(lines)
        for place, record in enumerate(records)
    ]
    assert [record for record, piece in found if not piece] == [b"1,a", b"4,b", b"6,c"]
    rest = b"".join(record for record, piece in found if piece)
    assert rest.replace(b"\n", b"") == b"".join(lines[1:-3] + lines[-3:-2] + lines[-2:-1]).replace(
        b"\n", b""
    ).replace(b"4,b", b"")
    assert max(len(record) for record, _ in found) <= limit + 210
