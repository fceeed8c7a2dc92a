"""Parquet files of all kinds, good, damaged and hostile: each row is exactly what the format says, or rejected with the
column and the type that it does not fit. Against plain Python, one value at a time.

`TIDEGATE_SEED` is the first case (0), `TIDEGATE_CASES` how many there are; a failing case names its seed.
"""

from __future__ import annotations

import math
import os
import random
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow.fs import LocalFileSystem

from tests.tasks.decode.campaign import limited_memory, seeds
from tests.tasks.parquet import thrift
from tidegate.tasks.crashes.parquet_crashes import put_aside
from tidegate.tasks.decode.columns import Wanted
from tidegate.tasks.decode.limits import STANDARD
from tidegate.tasks.parquet import parquet
from tidegate.tasks.parquet.chunks import footer_of
from tidegate.tasks.parquet.footers import Looker
from tidegate.tasks.parquet.parquet import OpenParquetFile, ParquetRows, read_rows

THOROUGH = os.environ.get("TIDEGATE_HYPOTHESIS") == "thorough"
SEED = int(os.environ.get("TIDEGATE_SEED", "0"))
CASES = int(os.environ.get("TIDEGATE_CASES", "100000" if THOROUGH else "100"))
#: No case may take more of the processor, or of memory (Arrow's).
SECONDS, BYTES = 20, 1 << 30

US, ZONED = pa.timestamp("us"), pa.timestamp("us", tz="UTC")
DECLARED = [
    *(pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.float32(), pa.float64(), pa.string()),
    *(pa.binary(), pa.date32(), US, ZONED, pa.decimal128(5, 2), pa.decimal128(28, 10), pa.decimal128(38, 0)),
]
STORED = [
    *DECLARED,
    *(pa.null(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64(), pa.float16(), pa.decimal128(4, 0)),
    *(pa.large_string(), pa.large_binary(), pa.binary(4), pa.decimal256(50, 12), pa.date64()),
    *(pa.time32("ms"), pa.time64("ns"), pa.timestamp("s"), pa.timestamp("ms"), pa.timestamp("ns")),
    *(pa.timestamp("ms", tz="UTC"), pa.timestamp("ns", tz="Europe/Berlin")),
]
#: Not inside of nested ones: pyarrow does not write them there.
ENCODED = [
    pa.dictionary(pa.int16(), pa.string()),
    pa.dictionary(pa.int8(), pa.large_binary()),
]
LIMITS = {name: getattr(parquet, name) for name in ("_CHUNK_BYTES", "_BYTES", "_ROWS")}
MISFIT = object()
DAY_US = 86_400_000_000
TICKS = {"s": 10**6, "ms": 10**3, "us": 1}


def nested(draw: random.Random, kind: pa.DataType, other: Callable[[], pa.DataType]) -> pa.DataType:
    """A nested type around `kind`."""
    around = draw.randrange(4)
    if around == 0:
        return pa.list_(kind)
    if around == 1:
        return pa.map_(pa.string(), kind)
    if around == 2:
        return pa.struct([("a", kind), ("B", other())])
    return pa.list_(pa.struct([("a", kind)]))


def like(draw: random.Random, declared: pa.DataType, inside: bool = True) -> pa.DataType:
    """A type to store, of the same shape as the declared one, most of the time."""
    if not inside and draw.random() < 0.05:
        return draw.choice(ENCODED)
    if draw.random() < 0.03:
        return nested(draw, draw.choice(STORED[:8]), lambda: pa.int32())
    if pa.types.is_map(declared):
        return pa.map_(pa.string(), like(draw, declared.item_type))
    if pa.types.is_list(declared):
        item = like(draw, declared.value_type)
        return draw.choice([pa.list_(item), pa.large_list(item)])
    if pa.types.is_struct(declared):
        fields = [(draw.choice([f.name, f.name.swapcase()]), like(draw, f.type)) for f in declared]
        return pa.struct(draw.sample(fields, draw.randint(1, len(fields))))
    return declared if draw.random() < 0.3 else draw.choice(STORED)


def value(draw: random.Random, kind: pa.DataType) -> Any:
    """A value of a stored type, extremes among them: times and days as integers of their unit."""
    if draw.random() < 0.2 or pa.types.is_null(kind):
        return None
    if pa.types.is_dictionary(kind):
        return value(draw, kind.value_type) or draw.choice(
            [None, b"x" if "binary" in str(kind.value_type) else "x"]
        )
    if pa.types.is_struct(kind):
        return {f.name: value(draw, f.type) for f in kind}
    if pa.types.is_map(kind):
        return [(f"k{i}", value(draw, kind.item_type)) for i in range(draw.randint(0, 3))]
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return [value(draw, kind.value_type) for _ in range(draw.randint(0, 3))]
    if pa.types.is_boolean(kind):
        return draw.random() < 0.5
    if pa.types.is_integer(kind):
        info = np.iinfo(kind.to_pandas_dtype())
        near = draw.choice([0, 1, 100, 128, 255, 2**15, 2**24, 2**31, 2**53, 2**63, info.min, info.max])
        return max(
            info.min, min(info.max, draw.choice([near, near - 1, near + 1, -near, draw.randint(-99, 99)]))
        )
    if pa.types.is_floating(kind):
        found = draw.choice(
            [0.0, -0.0, 1.0, 0.1, 1e30, 2.0**31, 2.0**63, -(2.0**63), 1.5, math.nan, math.inf, 7.0]
        )
        with np.errstate(over="ignore"):
            return float(kind.to_pandas_dtype()(found))
    if pa.types.is_decimal(kind):
        digits = draw.randint(0, 10 ** draw.choice([1, 3, kind.precision]) - 1)
        return (
            Decimal(draw.choice([1, -1]) * digits * 10 ** draw.choice([0, 0, 1])).scaleb(-kind.scale)
            if (digits * 10 < 10**kind.precision)
            else Decimal(digits).scaleb(-kind.scale)
        )
    if pa.types.is_fixed_size_binary(kind):
        return draw.choice([b"abcd", b"\xff\xff\xff\xff", "ähä"[:2].encode() + b"x"])
    if "binary" in str(kind):
        return draw.choice([b"", b"text", "ä".encode(), b"\xff\xfe", b"\xc3"])
    if "string" in str(kind):
        return draw.choice(["", "text", "ä\n\0", "1", "2026-01-01", "x" * 300])
    if pa.types.is_date32(kind):
        return draw.choice([0, 1, -1, 20_000, -719_162, 2_932_896])
    if pa.types.is_date64(kind):
        return draw.choice([0, 20_000, -719_162]) * 86_400_000
    if pa.types.is_time(kind):
        return draw.choice([0, 1000, 86_399_000])
    if pa.types.is_timestamp(kind):
        seconds = draw.choice([0, 1, -1, 1_767_225_600, 1_767_225_600 + 3, -2_000_000_000])
        per = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[kind.unit]
        return seconds * per + (draw.choice([0, 0, 1, 999, 1000]) if per > 1 else 0)
    return draw.randint(-5, 5)


def expected(found: Any, stored: pa.DataType, declared: pa.DataType) -> Any:
    """What a stored value is as one of the declared type (times and days as integers), or `MISFIT`."""
    if found is None:
        return None
    if pa.types.is_dictionary(stored):
        return expected(found, stored.value_type, declared)
    if pa.types.is_struct(declared) or pa.types.is_list(declared) or pa.types.is_map(declared):
        return expected_nested(found, stored, declared)
    if pa.types.is_nested(stored):
        return MISFIT
    if pa.types.is_string(declared) or pa.types.is_binary(declared):
        if isinstance(found, str):
            return found if pa.types.is_string(declared) else found.encode()
        if not isinstance(found, bytes):
            return MISFIT
        try:
            return found if pa.types.is_binary(declared) else found.decode()
        except UnicodeDecodeError:
            return MISFIT
    if pa.types.is_boolean(declared):
        return found if isinstance(found, bool) else MISFIT
    if isinstance(found, bool | str | bytes):
        return MISFIT
    if pa.types.is_timestamp(stored):
        return expected_time(found, stored, declared)
    if pa.types.is_date(stored):
        days = found // 86_400_000 if pa.types.is_date64(stored) else found
        if pa.types.is_date(declared):
            return days
        return days * DAY_US if declared == US else MISFIT
    if pa.types.is_temporal(stored) or pa.types.is_temporal(declared):
        return MISFIT
    return expected_number(found, declared)


def expected_time(found: int, stored: pa.DataType, declared: pa.DataType) -> Any:
    if stored.unit == "ns":
        if found % 1000:
            return MISFIT
        ticks = found // 1000
    else:
        ticks = found * TICKS[stored.unit]
    if declared == ZONED or (declared == US and stored.tz is None):
        return ticks
    return (
        ticks // DAY_US if declared == pa.date32() and stored.tz is None and ticks % DAY_US == 0 else MISFIT
    )


def expected_number(found: int | float | Decimal, declared: pa.DataType) -> Any:
    if pa.types.is_integer(declared):
        info = np.iinfo(declared.to_pandas_dtype())
        if isinstance(found, float) and not math.isfinite(found):
            return MISFIT
        return int(found) if found == int(found) and info.min <= found <= info.max else MISFIT
    if pa.types.is_floating(declared):
        if isinstance(found, Decimal):
            return MISFIT
        if isinstance(found, float) and not math.isfinite(found):
            return found
        if pa.types.is_float64(declared):
            return float(found) if float(found) == found else MISFIT
        try:
            narrow = struct.unpack("f", struct.pack("f", found))[0]
        except OverflowError:
            return MISFIT
        return narrow if narrow == found else MISFIT
    if pa.types.is_decimal(declared):
        if isinstance(found, float):
            return MISFIT
        scaled = Decimal(found).as_integer_ratio()
        units, rest = divmod(scaled[0] * 10**declared.scale, scaled[1])
        return MISFIT if rest or abs(units) >= 10**declared.precision else Decimal(found)
    return MISFIT


def expected_nested(found: Any, stored: pa.DataType, declared: pa.DataType) -> Any:
    if pa.types.is_struct(declared):
        if not pa.types.is_struct(stored):
            return MISFIT
        out = {}
        for field in declared:
            there = [f for f in stored if f.name.casefold() == field.name.casefold()]
            out[field.name] = expected(found[there[0].name], there[0].type, field.type) if there else None
        return MISFIT if MISFIT in out.values() else out
    if pa.types.is_map(declared) != pa.types.is_map(stored):
        return MISFIT
    if pa.types.is_map(declared):
        pairs = [(key, expected(item, stored.item_type, declared.item_type)) for key, item in found]
        return MISFIT if any(item is MISFIT for _, item in pairs) else pairs
    if not (pa.types.is_list(stored) or pa.types.is_large_list(stored)):
        return MISFIT
    items = [expected(item, stored.value_type, declared.value_type) for item in found]
    return MISFIT if any(item is MISFIT for item in items) else items


def array_of(values: list[Any], kind: pa.DataType) -> pa.Array:
    """Python's values (times as integers) as Arrow's, of any type."""
    if pa.types.is_dictionary(kind):
        found = pa.array(values, kind.value_type).dictionary_encode()
        return found.cast(kind) if len(found.dictionary) else pa.array(values, kind.value_type)
    return pa.array(values, kind)


def plain(scalar: Any, kind: pa.DataType) -> Any:
    """A value that was read, times and days as integers."""
    if isinstance(scalar, datetime):
        return round((scalar.replace(tzinfo=None) - datetime(1970, 1, 1)).total_seconds() * 10**6)
    if isinstance(scalar, date):
        return (scalar - date(1970, 1, 1)).days
    if isinstance(scalar, dict):
        return {f.name: plain(scalar[f.name], f.type) for f in kind}
    if isinstance(scalar, list):
        if pa.types.is_map(kind):
            return [(key, plain(item, kind.item_type)) for key, item in scalar]
        return [plain(item, kind.value_type) for item in scalar]
    return scalar


def as_python(array: pa.Array) -> list[Any]:
    if pa.types.is_timestamp(array.type):
        return array.cast(pa.int64()).to_pylist()
    if pa.types.is_date32(array.type):
        return array.cast(pa.int32()).to_pylist()
    return [plain(scalar, array.type) for scalar in array.to_pylist()]


@dataclass
class Case:
    """A file, and what must come out of it: for each column its values, or MISFIT."""

    data: bytes
    wanted: list[Wanted]
    columns: dict[str, list[Any]]
    rows: int


def make(draw: random.Random, path: Path) -> Case:
    """A good file."""
    rows = draw.choice([0, 1, 5, 40])
    wanted, arrays, columns = [], {}, {}
    for number in range(draw.randint(1, 4)):
        name = draw.choice([f"c{number}", f"C {number}", f"c{number}.x", f"ü{number}"])
        declared = draw.choice(DECLARED)
        if draw.random() < 0.25:
            declared = nested(draw, declared, lambda: draw.choice(DECLARED))
        stored = like(draw, declared, inside=False)
        values = [value(draw, stored) for _ in range(rows)]
        wanted.append(Wanted(name, declared, str(declared)))
        arrays[draw.choice([name, name, name.swapcase()])] = array_of(values, stored)
        columns[name] = [expected(v, stored, declared) for v in values]
    surplus = {"surplus": pa.array(range(rows), pa.int64())} if draw.random() < 0.3 else {}
    table = pa.table(arrays | surplus)
    pq.write_table(
        table.select(draw.sample(table.column_names, table.num_columns)),
        path,
        compression=draw.choice(["none", "snappy", "zstd", "gzip"]),
        use_dictionary=draw.random() < 0.5,
        row_group_size=draw.choice([1, 3, 1000]),
        # Small pages of repeated values are more than pyarrow 26 can read again.
        data_page_size=1 << 20
        if any(pa.types.is_nested(f.type) for f in table.schema)
        else draw.choice([64, 1000]),
        data_page_version=draw.choice(["1.0", "2.0"]),
        write_page_checksum=draw.random() < 0.5,
        store_schema=draw.random() < 0.5,
        write_statistics=draw.random() < 0.8,
    )
    return Case(path.read_bytes(), wanted, columns, rows)


def damage(draw: random.Random, path: Path, data: bytes) -> bytes:
    """The same file, not quite."""
    how = draw.randrange(10)
    if how > 6:
        return altered(draw, path, data, how == 7)
    if how == 0:
        return data[: draw.randrange(len(data))]
    if how == 1:
        return data[draw.randrange(1, len(data)) :]
    if how == 2:
        return draw.choice([b"", b"PAR1", b"PAR1PAR1", b"id,name\n1,x\n", bytes(100), b'{"id": 1}\n'])
    if how == 3:  # another length of the footer
        return data[:-8] + struct.pack("<I", draw.choice([0, 1, len(data), 2**31, 2**32 - 1])) + data[-4:]
    broken = bytearray(data)
    footer = len(data) - 8 - struct.unpack("<I", data[-8:-4])[0]
    start, end = draw.choice([(4, footer), (footer, len(data) - 8), (0, len(data))])
    for _ in range(draw.choice([1, 1, 3, 20])):
        if end > start:
            broken[draw.randrange(start, end)] = draw.choice([0, 255, 127, draw.randrange(256)])
    return bytes(broken)


def altered(draw: random.Random, path: Path, data: bytes, page: bool) -> bytes:
    """With another footer, or another header of a page, each of them in order as Thrift."""
    end = len(data) - 8
    footer = end - struct.unpack("<I", data[-8:-4])[0]
    if not page:
        root, _ = thrift.read(data, footer)
        thrift.alter(draw, root)
        new = thrift.write(root)
        return data[:footer] + new + struct.pack("<I", len(new)) + b"PAR1"
    chunks = [chunk for group in footer_of(LocalFileSystem(), str(path)) for chunk in group.chunks]
    if not chunks:
        return data
    chunk = draw.choice(chunks)
    start = draw.choice([chunk.data, chunk.dictionary or chunk.data])
    root, behind = thrift.read(data, start)
    thrift.alter(draw, root)
    new = thrift.write(root)
    # In its place if it fits there, else all behind it moves.
    return data[:start] + new + data[behind + (0 if draw.random() < 0.3 else len(new) - (behind - start)) :]


def narrowed(path: Path, wanted: list[Wanted]) -> list[tuple[int, int]]:
    """The rows that want more memory than there is, as a job beside the tasks finds them."""
    groups, found, first = footer_of(LocalFileSystem(), str(path)), [], 0
    for number, group in enumerate(groups):

        def ended(
            aside: list[tuple[int, int]], at_most: int | None, number=number, first=first
        ) -> int | None:  # type: ignore[no-untyped-def]
            done = first
            try:
                with OpenParquetFile(LocalFileSystem(), str(path), wanted, STANDARD, groups) as stored:
                    for rows in stored.rows(number, first, aside, at_most):
                        done = rows.first + len(rows)
            except pa.ArrowMemoryError:
                return done
            return None

        found += put_aside(first, first + group.rows, ended)
        first += group.rows
    return found


def read(path: Path, wanted: list[Wanted]) -> list[ParquetRows] | str:
    """All of the file's rows, or why it is set aside."""
    (look,) = Looker(LocalFileSystem(), tuple(w.name for w in wanted))([(str(path), path.stat().st_size)])
    if look.error is not None or look.present is not None:
        return look.error or f"has only {look.present}"
    try:
        parts = list(read_rows(LocalFileSystem(), str(path), wanted))
    except pa.ArrowMemoryError:
        parts = list(read_rows(LocalFileSystem(), str(path), wanted, crashed=narrowed(path, wanted)))
    assert [p.first for p in parts] == [sum(map(len, parts[:i])) for i in range(len(parts))]
    assert sum(map(len, parts)) == look.rows
    for part in parts:
        for array in (*part.columns.values(), part.raw, part.why):
            array.validate(full=True)
            assert len(array) == len(part)
        assert part.raw.is_null().equals(part.why.is_null())
        assert [a.type for a in part.columns.values()] == [w.type for w in wanted]
    return parts


def same(found: Any, wanted: Any) -> bool:
    if isinstance(found, float):
        return repr(found) == repr(wanted)
    if isinstance(found, list | tuple) and type(found) is type(wanted):
        return len(found) == len(wanted) and all(map(same, found, wanted))
    if isinstance(found, dict):
        return found.keys() == wanted.keys() and all(same(found[k], wanted[k]) for k in found)
    return bool(type(found) is type(wanted) and found == wanted)


def compare(case: Case, parts: list[ParquetRows]) -> None:
    assert sum(map(len, parts)) == case.rows
    why = [reason for part in parts for reason in part.why.to_pylist()]
    for row, reason in enumerate(why):
        wrong = [w for w in case.wanted if case.columns[w.name][row] is MISFIT]
        assert reason == (f'unparseable: column "{wrong[0].name}" wants {wrong[0].sql}' if wrong else None), (
            row,
            wrong,
        )
    for column in case.wanted:
        found = [v for part in parts for v in as_python(part.columns[column.name])]
        wanted = [None if v is MISFIT else v for v in case.columns[column.name]]
        assert all(map(same, found, wanted)), column


@pytest.mark.medium
@limited_memory()
def test_property_parquet_rows_are_what_the_format_says_or_rejected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x.parquet"
    tally = {"good": 0, "damaged": 0, "set aside": 0, "rows rejected": 0, "rows": 0}
    for seed in seeds("parquet", SEED, CASES):
        draw = random.Random(seed)
        # As if the file were large.
        for name, small in (("_CHUNK_BYTES", 0), ("_BYTES", 100), ("_ROWS", 2)):
            monkeypatch.setattr(parquet, name, draw.choice([small, LIMITS[name]]))
        began = time.process_time()
        try:
            case = make(draw, path)
            broken = damage(draw, path, case.data) if draw.random() < 0.5 else case.data
            path.write_bytes(broken)
            parts = read(path, case.wanted)
            if broken == case.data:
                assert not isinstance(parts, str), parts
                compare(case, parts)
            tally["good" if broken == case.data else "damaged"] += 1
            if isinstance(parts, str):
                tally["set aside"] += 1
            else:
                tally["rows"] += sum(map(len, parts))
                tally["rows rejected"] += sum(len(p) - p.why.null_count for p in parts)
            assert time.process_time() - began < SECONDS
            assert pa.default_memory_pool().max_memory() < BYTES
        except BaseException as error:
            error.add_note(f"TIDEGATE_SEED={seed} TIDEGATE_CASES=1 repeats this case")
            raise
    print(tally)
    assert sum(tally.values()) < 1_000 or all(tally.values())


@pytest.mark.medium
def test_parquet_of_any_size_is_read_with_bounded_memory(tmp_path: Path) -> None:
    """Few bytes that stand for very many: a value that a dictionary has once and many rows have; a row group of many
    rows."""
    path = tmp_path / "x.parquet"
    indices = pa.array(np.zeros(60, dtype=np.int32))
    for stored, rows in (
        (pa.DictionaryArray.from_arrays(indices, ["x" * (4 << 20)]), 60),
        (pa.array(np.zeros(1_000_000, dtype=np.int64)), 1_000_000),
    ):
        pq.write_table(pa.table({"a": stored}), path, compression="zstd", row_group_size=rows)
        declared = pa.string() if rows == 60 else pa.int32()
        assert path.stat().st_size < 100_000
        del stored
        before = pa.total_allocated_bytes()
        count = 0
        for part in read_rows(LocalFileSystem(), str(path), [Wanted("a", declared, "?")]):
            count += len(part)
            assert part.why.null_count == len(part)
            assert pa.total_allocated_bytes() - before < 128 << 20
        assert count == rows


def test_int96_is_a_time_without_a_zone_of_any_year(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    times = [datetime(1, 1, 1), datetime(1969, 12, 31, 23, 59, 59), datetime(9999, 12, 31, 1), None]
    table = pa.table({"t": pa.array(times, US)})
    pq.write_table(table, path, use_deprecated_int96_timestamps=True, store_schema=False)
    for declared in (US, ZONED):
        (part,) = read_rows(LocalFileSystem(), str(path), [Wanted("t", declared, "?")])
        assert part.columns["t"].cast(US).to_pylist() == times
        assert part.why.null_count == len(times)
