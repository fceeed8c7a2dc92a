"""Parquet files of all kinds, good, damaged and hostile, by seed; and what the format says of each row."""

from __future__ import annotations

import math
import random
import struct
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow.fs import LocalFileSystem

from tests.tasks.parquet import thrift
from tidegate.tasks.decode.columns import Wanted
from tidegate.tasks.parquet.chunks import footer_of

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
