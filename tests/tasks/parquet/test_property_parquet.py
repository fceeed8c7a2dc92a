"""Parquet files of all kinds, good, damaged and hostile: each row is exactly what the format says, or rejected with the
column and the type that it does not fit. Against plain Python, one value at a time.

`TIDEGATE_SEED` is the first case (0), `TIDEGATE_CASES` how many there are; a failing case names its seed.
"""

from __future__ import annotations

import os
import random
import time
from datetime import date, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow.fs import LocalFileSystem

from tests.tasks.decode.campaign import limited_memory, seeds
from tests.tasks.parquet.hostile import MISFIT, US, ZONED, Case, damage, make
from tidegate.tasks.crashes.parquet_crashes import put_aside
from tidegate.tasks.decode.columns import Wanted
from tidegate.tasks.decode.limits import STANDARD
from tidegate.tasks.parquet import row_groups
from tidegate.tasks.parquet.chunks import footer_of
from tidegate.tasks.parquet.footers import Looker
from tidegate.tasks.parquet.parquet import read_rows
from tidegate.tasks.parquet.row_groups import OpenParquetFile, ParquetRows

THOROUGH = os.environ.get("TIDEGATE_HYPOTHESIS") == "thorough"
SEED = int(os.environ.get("TIDEGATE_SEED", "0"))
CASES = int(os.environ.get("TIDEGATE_CASES", "100000" if THOROUGH else "100"))
#: No case may take more of the processor, or of memory (Arrow's).
SECONDS, BYTES = 20, 1 << 30

LIMITS = {name: getattr(row_groups, name) for name in ("_CHUNK_BYTES", "_BYTES", "_ROWS")}


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
            monkeypatch.setattr(row_groups, name, draw.choice([small, LIMITS[name]]))
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
