"""X2: what one row, page or row group of Parquet may be, and rows that end the process that reads them."""

from __future__ import annotations

import random
import re
from decimal import Decimal
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow.fs import LocalFileSystem

from tests.runtime.killing import KillingReading
from tests.tasks.parquet import hostile, thrift
from tidegate.plan.crashes import SPARED
from tidegate.tasks.crashes import parquet_crashes
from tidegate.tasks.crashes.parquet_crashes import ParquetCrashes, put_aside
from tidegate.tasks.decode.columns import Wanted
from tidegate.tasks.decode.fitting import fit
from tidegate.tasks.decode.limits import STANDARD, Limits
from tidegate.tasks.parquet.chunks import footer_of
from tidegate.tasks.parquet.parquet import Unit, read_rows
from tidegate.tasks.parquet.parquet_limits import sizes

TEXT = Wanted("s", pa.string(), "VARCHAR")


def reasons(path: Path, limits: Limits, *wanted: Wanted) -> list[tuple[str | None, str | None]]:
    parts = list(read_rows(LocalFileSystem(), str(path), wanted, limits))
    assert [p.first for p in parts] == [0, *accumulate(map(len, parts))][:-1]
    for part in parts:
        for column in part.columns.values():
            assert len(column) == len(part)
    return [pair for p in parts for pair in zip(p.why.to_pylist(), p.raw.to_pylist(), strict=True)]


def test_X2_rows_beyond_a_limit_are_rejected_alone_and_only_their_size_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "x"
    items = Wanted("a", pa.list_(pa.list_(pa.int64())), "BIGINT[][]")
    small, long, many = "x" * 10, "y" * 200_000, [[1] * 1_000] * 101
    table = pa.table({"s": [small, long, small, small], "a": [None, [], many, [[2], None]]})
    limits = Limits(values=100_000, row_bytes=100_000)
    for dictionary in (True, False):
        pq.write_table(table, path, use_dictionary=dictionary)
        found = reasons(path, limits, TEXT, items)
        assert [why for why, _ in found] == [
            *(None, "unparseable: a row of more than 100,000 bytes"),
            *("unparseable: a row of more than 100,000 bytes", None),
        ]
        assert found[1][1] == '{"s": "… 200,000 bytes, 1 values", "a": []}'
        (_, many_alone, *_) = reasons(path, Limits(values=100_000), items)[1:]
        assert many_alone == (
            "unparseable: more than 100,000 values in a row",
            '{"a": "… 808,000 bytes, 101,102 values"}',
        )
    assert reasons(path, STANDARD, TEXT, items) == [(None, None)] * 4


@pytest.mark.long_run
@pytest.mark.medium
def test_X2_a_value_that_many_rows_share_is_written_out_for_few_at_a_time(tmp_path: Path) -> None:
    """A dictionary has it once, also inside of lists; of what builds on the value before, few rows are decoded."""
    path = tmp_path / "x"
    large = "x" * (2 << 20)
    nested = Wanted("s", pa.list_(pa.struct([("a", pa.string())])), "?")
    for values, wanted, more in (
        ([[{"a": large}] * 4] * 40, nested, {"dictionary_pagesize_limit": 64 << 20}),
        ([large] * 160, TEXT, {"use_dictionary": False, "column_encoding": {"s": "DELTA_BYTE_ARRAY"}}),
    ):
        pq.write_table(pa.table({"s": values}), path, compression="zstd", **more)
        assert path.stat().st_size < 100_000
        before, count = pa.total_allocated_bytes(), 0
        for part in read_rows(LocalFileSystem(), str(path), [wanted]):
            count += len(part)
            assert part.why.null_count == len(part)
            assert pa.total_allocated_bytes() - before < 160 << 20
        assert count == len(values)
    pq.write_table(pa.table({"s": [[{"a": large}] * 4]}), path)
    assert reasons(path, Limits(row_bytes=8 << 20), nested) == [(None, None)]
    found = reasons(path, Limits(row_bytes=(8 << 20) - 1), nested)
    assert found == [
        ("unparseable: a row of more than 8,388,607 bytes", '{"s": "… 8,388,608 bytes, 5 values"}')
    ]


def test_X2_pages_row_groups_and_depths_beyond_a_limit_reject_their_rows(tmp_path: Path) -> None:
    path = tmp_path / "x"
    table = pa.table({"s": ["a", "b" * 3_000_000, "c", "d"], "n": [1, 2, 3, 4]})
    pq.write_table(table, path, row_group_size=2, compression="zstd")
    page = "unparseable: a page of more than 1 MB"
    assert [why for why, _ in reasons(path, Limits(page_bytes=1 << 20), TEXT)] == [page, page, None, None]
    # Pages of columns that nobody reads don't matter.
    number = Wanted("n", pa.int64(), "BIGINT")
    assert [why for why, _ in reasons(path, Limits(page_bytes=1 << 20), number)] == [None] * 4
    rows = "unparseable: a row group of more than 1 rows"
    assert [why for why, _ in reasons(path, Limits(group_rows=1), number)] == [rows] * 4
    deep = pa.int32()
    for _ in range(12):
        deep = pa.list_(deep)
    pq.write_table(pa.table({"s": pa.nulls(2, deep)}), path)
    assert [why for why, _ in reasons(path, Limits(depth=12), Wanted("s", deep, "?"))] == [None] * 2
    found = reasons(path, Limits(depth=11), Wanted("s", deep, "?"))
    assert [why for why, _ in found] == ["unparseable: nested more than 11 times"] * 2


@pytest.mark.medium
def test_X2_parts_of_arrays_of_any_type_are_measured_and_fitted_and_the_process_lives() -> None:
    """What pyarrow's cast makes of a part of an array of maps has ended processes."""
    r = random.Random(3)
    for _ in range(1_500):
        kind = r.choice(hostile.STORED)
        for _ in range(r.randrange(4)):
            kind = hostile.nested(r, kind, lambda: r.choice(hostile.STORED))
        array = hostile.array_of([hostile.value(r, kind) for _ in range(r.randrange(6))], kind)
        array = array.slice(r.randint(0, len(array)))
        both = sizes(array)
        fitted, _ = fit(array, kind)
        fitted.validate(full=True)
        assert len(fitted) == len(both[0]) == len(both[1]) == len(array)
        for row in range(len(array)):
            alone = sizes(array.slice(row, 1))
            assert [int(each[0]) for each in alone] == [int(each[row]) for each in both]


@pytest.mark.parametrize("seed", range(200))
def test_X2_narrowing_a_row_group_finds_the_rows_that_kill_and_those_behind_what_is_not_decoded(
    seed: int,
) -> None:
    """The model: each row is harmless, kills when it is judged, or hides all behind it; a large batch may kill, too."""
    r = random.Random(seed)
    first, n = r.choice([0, 70]), r.choice([1, 2, 30, 500])
    kinds = [
        r.choices(["", "judged", "hides"], [n, r.choice([0, 1, 3]), r.choice([0, 0, 1])])[0] for _ in range(n)
    ]
    most = r.choice([1 << 20, 1 << 20, 20])  # rows of a batch that a process survives

    def ended(aside: list[tuple[int, int]], at_most: int | None) -> int | None:
        size = at_most or 65_536
        tail = min((a - first for a, b in aside if b >= first + n), default=n)
        if 0 < tail < n:
            size = min(size, tail & -tail)
        for start in range(0, tail, size):
            batch = range(start, min(start + size, n))
            if len(batch) > most or any(kinds[i] == "hides" for i in batch):
                return first + start
            for i in batch:
                if kinds[i] == "judged" and not any(a <= first + i < b for a, b in aside):
                    return first + start
        return None

    found = put_aside(first, first + n, ended)
    hidden = kinds.index("hides") if "hides" in kinds else n
    killers = [first + i for i in range(hidden) if kinds[i] == "judged"]
    if most < n and n > 4096 // 16:
        return
    if len(killers) + (hidden < n) > 8:
        assert found == [(first, first + n)]
    elif most >= n:
        wanted = [(i, i + 1) for i in killers] + ([(first + hidden, first + n)] if hidden < n else [])
        assert sorted(found) == wanted
        assert ended(found, None) is None


@pytest.mark.medium
def test_X2_rows_that_kill_their_reader_are_put_aside_and_all_others_are_read(tmp_path: Path) -> None:
    values = [[f"{g} {i}" for i in range(10)] for g in range(4)]
    values[0][3] = values[0][7] = "KILL"
    values[2][6], values[3][0] = "HIDE", "HANG"
    files = {"a": values, "open": values[:1], "good": values[1:2]}
    units = []
    for name, groups in files.items():
        path = tmp_path / name
        pq.write_table(pa.table({"s": [v for group in groups for v in group]}), path, row_group_size=10)
        units.append(Unit(str(path), uri=path.as_uri()))
    numbers = pa.RecordBatch.from_arrays([pa.array([0])], ["id"])

    def crashes(units: list[Unit]) -> list[dict[str, Any]]:
        work = ParquetCrashes(
            LocalFileSystem(), (TEXT,), (tuple(units),), Limits(seconds=0.3), KillingReading
        )
        return [row for batch in work(iter([numbers])) for row in batch.to_pylist()]

    found = {(row["uri"], row["row"], row["until"]) for row in crashes(units)}
    a, whole = units[0].uri, units[1].uri
    assert found == {(a, 3, 4), (a, 7, 8), (a, 26, 30), (a, 30, 31), (whole, 0, 10)}
    aside = tuple((row, until) for uri, row, until in sorted(found) if uri == a)
    assert crashes([Unit(units[0].path, uri=a, crashed=aside), units[2]]) == []
    parts = list(read_rows(LocalFileSystem(), units[0].path, [TEXT], crashed=aside))
    assert [p.first for p in parts] == [0, *np.cumsum([len(p) for p in parts])][:-1]
    rows = [(v, w) for p in parts for v, w in zip(p.columns["s"].to_pylist(), p.why.to_pylist(), strict=True)]
    gone = {3, 7, *range(26, 31)}
    assert rows == [
        (None, "crashed_decoder") if i in gone else (values[i // 10][i % 10], None) for i in range(40)
    ]


@pytest.mark.long_run
@pytest.mark.medium
def test_X2_a_row_of_parquet_that_its_decoder_waits_over_is_put_aside_unless_the_file_system_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x"
    pq.write_table(pa.table({"s": ["a", "b", "SLEEP", "c"]}), path)
    unit = Unit(str(path), uri=path.as_uri())
    limits = Limits(elapsed_seconds=0.5)
    work = ParquetCrashes(LocalFileSystem(), (TEXT,), ((unit,),), limits, KillingReading)
    numbers = pa.RecordBatch.from_arrays([pa.array([0])], ["id"])
    found = [(row["row"], row["until"]) for batch in work(iter([numbers])) for row in batch.to_pylist()]
    assert found == [(2, 3)]

    def gone(*_: object) -> None:
        raise OSError("the store does not answer")

    monkeypatch.setattr(parquet_crashes, "still_there", gone)
    with pytest.raises(OSError, match="does not answer"):
        list(work(iter([numbers])))


def test_X2_a_footer_that_calls_a_chunk_otherwise_than_its_schema_does_stops_nothing(tmp_path: Path) -> None:
    path = tmp_path / "x"
    pq.write_table(pa.table({"s": ["x"] * 100}), path)
    data = path.read_bytes()
    footer = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    root, _ = thrift.read(data, footer)
    assert thrift.write(root) == data[footer:-8]

    def field(node: thrift.Node, number: int) -> thrift.Node:
        return next(value for i, value in node[1] if i == number)

    (group,) = field(root, 4)[1][1]
    (chunk,) = field(group, 1)[1][1]
    field(field(chunk, 3), 3)[1][1].append([8, b"x"])
    new = thrift.write(root)
    path.write_bytes(data[:footer] + new + len(new).to_bytes(4, "little") + b"PAR1")
    assert len(reasons(path, STANDARD, TEXT)) == 100


def test_X2_a_footer_with_another_type_than_it_must_have_rejects_its_file(tmp_path: Path) -> None:
    """The driver reads it while it plans: an error there would stop the source for ever."""
    path = tmp_path / "x"
    pq.write_table(pa.table({"s": ["x", "y"] * 100}), path)
    data = path.read_bytes()
    footer = len(data) - 8 - int.from_bytes(data[-8:-4], "little")

    def field(node: thrift.Node, number: int) -> thrift.Node:
        return next(value for i, value in node[1] if i == number)

    def refused(new: bytes) -> None:
        path.write_bytes(data[:footer] + new + len(new).to_bytes(4, "little") + b"PAR1")
        with pytest.raises(ValueError, match="its footer"):
            footer_of(LocalFileSystem(), str(path))

    for number in (1, 5, 6, 7, 9, 11, 12):
        for other in ([9, [8, []]], [8, b"x"], [12, []], [5, 7]):
            root, _ = thrift.read(data, footer)
            (group,) = field(root, 4)[1][1]
            (chunk,) = field(group, 1)[1][1]
            node = field(field(chunk, 3), number)
            if node[0] != other[0] and not (node[0] in (4, 5, 6) and other[0] == 5):
                node[:] = other
                refused(thrift.write(root))
    refused(b"\x19" * 1_000_000)


def test_W5_a_number_of_more_digits_than_its_stored_type_has_is_a_misfit() -> None:
    """pyarrow reads it from a damaged file without a word."""
    kind, number = pa.decimal128(5, 2), (123456).to_bytes(16, "little")
    array = pa.Array.from_buffers(kind, 2, [None, pa.py_buffer(number + (12345).to_bytes(16, "little"))])
    for wanted in (kind, pa.decimal128(6, 3), pa.decimal128(5, 2)):
        fitted, bad = fit(array, wanted)
        fitted.validate(full=True)
        assert bad is not None
        assert bad.tolist() == [True, False]
        assert fitted.to_pylist()[1] == Decimal("123.45")


def test_W5_a_key_that_does_not_fit_rejects_its_row() -> None:
    array = pa.array([[(b"a", 1), (b"\xff", 2)], None, [(b"b", 3)]], pa.map_(pa.binary(), pa.int32()))
    fitted, bad = fit(array, pa.map_(pa.string(), pa.int64()))
    fitted.validate(full=True)
    assert bad is not None
    assert (bad.tolist(), fitted.to_pylist()) == ([True, False, False], [None, None, [("b", 3)]])


def test_W5_of_a_column_that_is_there_twice_the_raw_text_has_all_values(tmp_path: Path) -> None:
    path = tmp_path / "x"
    names = ["Id", "s", "ID", "more"]
    pq.write_table(pa.Table.from_arrays([[1, 2], ["a", "b"], [None, 4], [5, 6]], names), path)
    number, twice = Wanted("id", pa.int64(), "BIGINT"), 'unparseable: column "id" is there twice'
    raw = ['{"s": "a", "Id": 1, "ID": null}', '{"s": "b", "Id": 2, "ID": 4}']
    for wanted in ([number, TEXT], [TEXT, number]):
        assert reasons(path, STANDARD, *wanted) == [(twice, text) for text in raw]
    only = [re.sub('"s": ".", ', "", text) for text in raw]
    assert reasons(path, STANDARD, number) == [(twice, text) for text in only]
    # The one that is written as declared counts.
    assert reasons(path, STANDARD, Wanted("Id", pa.int64(), "BIGINT"), TEXT) == [(None, None)] * 2
    pq.write_table(pa.Table.from_arrays([[1], [2]], ["id", "id"]), path)
    assert [why for why, _ in reasons(path, STANDARD, number)] == [twice]


MORE = Wanted("more", pa.string(), "VARCHAR", optional=True)


def both(path: Path, limits: Limits, more: Wanted = MORE, crashed: Any = ()) -> tuple[list[Any], list[Any]]:
    """What is read of a declared column, and of one that was taken in."""
    parts = list(read_rows(LocalFileSystem(), str(path), [TEXT, more], limits, crashed))
    assert [why for part in parts for why in part.why.to_pylist() if why is not None] == []
    found = [
        pa.chunked_array([part.columns[name] for part in parts]).to_pylist() for name in ("s", more.name)
    ]
    return found[0], found[1]


def test_W5_X2_what_was_taken_in_is_null_where_a_limit_or_damage_keeps_it_from_being_read(
    tmp_path: Path,
) -> None:
    path, texts = tmp_path / "x", ["a", "b", "c"]
    deep = Wanted("more", pa.list_(pa.list_(pa.int64())), "BIGINT[][]", optional=True)
    pq.write_table(pa.table({"s": texts, "more": pa.array([[[1]], [[2]], None], deep.type)}), path)
    assert both(path, Limits(depth=1), deep) == (texts, [None] * 3)
    assert both(path, Limits(depth=2), deep) == (texts, [[[1]], [[2]], None])
    # A page, then a row, that is too large with it.
    wide = pa.table({"s": texts, "more": ["x", "y" * 5000, "z"]})
    pq.write_table(wide, path)
    assert both(path, Limits(page_bytes=1000)) == (texts, [None] * 3)
    assert both(path, Limits(row_bytes=1000)) == (texts, ["x", None, "z"])
    assert both(path, Limits(row_bytes=5001)) == (texts, ["x", "y" * 5000, "z"])
    many = pa.table({"s": texts, "more": pa.array([[[1]], [[2] * 500], None], deep.type)})
    pq.write_table(many, path)
    assert both(path, Limits(values=100), deep) == (texts, [[[1]], None, None])
    # What a damaged column had before its damage is there, and so are all other columns.
    numbers = [str(i) for i in range(200_000)]
    table = pa.table({"s": numbers, "more": numbers, "also": numbers})
    given = {"use_dictionary": False, "compression": "none", "write_page_checksum": True}
    pq.write_table(table, path, row_group_size=150_000, **given)
    (chunk,) = (c for c in footer_of(LocalFileSystem(), str(path))[0].chunks if c.column == "more")
    content = bytearray(path.read_bytes())
    content[chunk.data + chunk.compressed - 20] ^= 1
    path.write_bytes(content)
    found, beside = both(path, STANDARD)
    assert found == numbers
    assert beside[150_000:] == numbers[150_000:]
    had = beside.index(None)
    assert had < 150_000
    assert beside[:150_000] == [*numbers[:had], *[None] * (150_000 - had)]
    assert both(path, STANDARD, MORE._replace(name="also")) == (numbers, numbers)


@pytest.mark.long_run
@pytest.mark.medium
def test_X2_no_row_is_rejected_for_what_was_taken_in_and_ends_the_process(tmp_path: Path) -> None:
    path, texts = tmp_path / "x", ["a", "KILL", "c"]
    numbers = pa.RecordBatch.from_arrays([pa.array([0])], ["id"])

    def crashes(crashed: Any = ()) -> set[tuple[int, int]]:
        unit = Unit(str(path), uri="u", crashed=crashed)
        work = ParquetCrashes(
            LocalFileSystem(), (TEXT, MORE), ((unit,),), Limits(seconds=0.3), KillingReading
        )
        found = [row for batch in work(iter([numbers])) for row in batch.to_pylist()]
        return {(row["row"], row["until"]) for row in found}

    pq.write_table(pa.table({"s": ["a", "b", "c"], "more": texts}), path)
    assert crashes() == {SPARED}
    assert crashes((SPARED,)) == set()
    assert both(path, STANDARD, crashed=(SPARED,)) == (["a", "b", "c"], [None] * 3)
    pq.write_table(pa.table({"s": texts, "more": ["x", "HIDE", "z"]}), path)
    assert crashes() == {SPARED, (1, 2)}
