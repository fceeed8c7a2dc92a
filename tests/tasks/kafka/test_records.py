"""Record batches into Arrow (`tasks/kafka/records.py`): what kafka-python's own builder has put into them."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatchBuilder

from tidegate.tasks.kafka.compressed import LZ4, SNAPPY, ZSTD, uncompressed
from tidegate.tasks.kafka.records import Aborted, decoded
from tidegate.tasks.reading import NeedsJava

Row = tuple[int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]

#: Times that a row of 64 bits has, and texts around the lengths at which a number gets one more byte.
TIMES = st.integers(min_value=-1, max_value=9_000_000_000_000_000)
TEXTS = st.none() | st.binary(max_size=70) | st.integers(8_180, 8_200).map(bytes)
HEADERS = st.lists(st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=5)), max_size=3)
ROWS = st.lists(st.tuples(TIMES, TEXTS, TEXTS, HEADERS), min_size=1, max_size=8)


def batch(
    first: int, rows: list[Row], transactional: bool = False, producer: int = -1, gzip: bool = False
) -> bytes:
    made = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=1 if gzip else 0,
        is_transactional=transactional,
        producer_id=producer,
        producer_epoch=0,
        base_sequence=0,
        batch_size=1 << 30,
    )
    for offset, (at, key, value, headers) in enumerate(rows):
        made.append(offset, at, key, value, headers)
    data = bytearray(made.build())
    data[:8] = first.to_bytes(8, "big")
    return bytes(data)


def array(data: bytes) -> Any:
    return np.frombuffer(data, np.uint8)


def rows_of(found: pa.RecordBatch | None) -> list[dict[str, Any]]:
    if found is None:
        return []
    times = found.column("_rowtime").cast(pa.int64()).to_pylist()
    plain = found.drop_columns("_rowtime").to_pylist()
    return [row | {"_rowtime": at} for row, at in zip(plain, times, strict=True)]


@given(batches=st.lists(st.tuples(ROWS, st.booleans()), min_size=1, max_size=4), data=st.data())
def test_messages_are_what_was_put_into_them(
    batches: list[tuple[list[Row], bool]], data: st.DataObject
) -> None:
    expected, sent, at = [], b"", 5
    for rows, gzip in batches:
        sent += batch(at, rows, gzip=gzip)
        for offset, (time, key, value, headers) in enumerate(rows, at):
            named = [{"key": name, "value": text} for name, text in headers]
            expected.append(
                {"value": value, "_key": key, "_headers": named or None, "_partition": 7, "_offset": offset}
                | {"_rowtime": time * 1000, "_long": False}
            )
        at += len(rows)
    since = data.draw(st.integers(5, at - 1))
    until = data.draw(st.integers(since + 1, at))
    found = decoded(array(sent), 7, since, until)
    assert rows_of(found.rows) == [row for row in expected if since <= row["_offset"] < until]
    assert found.next == until
    # Of what is cut off as much is taken as is whole, and reading goes on behind it.
    cut = data.draw(st.integers(0, len(sent)))
    part = decoded(array(sent[:cut]), 7, since, until)
    rest = decoded(array(sent), 7, part.next, until) if part.next < until else None
    assert rows_of(part.rows) + (rows_of(rest.rows) if rest else []) == rows_of(found.rows)


@given(rows=ROWS, at=st.integers(0), bit=st.integers(0, 7))
def test_X2_a_changed_bit_is_found(rows: list[Row], at: int, bit: int) -> None:
    sent = bytearray(batch(0, rows))
    # Behind the fields that the checksum is not made of.
    place = 21 + at % (len(sent) - 21)
    sent[place] ^= 1 << bit
    with pytest.raises(NeedsJava):
        decoded(array(bytes(sent)), 0, 0, len(rows))


@given(noise=st.binary(max_size=200))
def test_X2_noise_is_left_to_java_or_gives_nothing(noise: bytes) -> None:
    try:
        found = decoded(array(noise), 0, 0, 10)
    except NeedsJava:
        return
    assert found.rows is None


def test_W5_messages_of_aborted_transactions_are_left_out_for_those_who_read_committed_ones() -> None:
    def row(text: str) -> list[Row]:
        return [(1, None, text.encode(), [])]

    sent = batch(0, row("a"), True, producer=1) + batch(1, row("b"), True, producer=2) + batch(2, row("c"))
    everything = decoded(array(sent), 0, 0, 3)
    assert [r["value"] for r in rows_of(everything.rows)] == [b"a", b"b", b"c"]
    found = decoded(array(sent), 0, 0, 3, [Aborted(1, 0)])
    assert [r["value"] for r in rows_of(found.rows)] == [b"b", b"c"]
    none = decoded(array(sent[: len(batch(0, row("a"), True, producer=1))]), 0, 0, 1, [Aborted(1, 0)])
    assert (none.rows, none.next) == (None, 1)


@pytest.mark.parametrize(("codec", "name"), [(LZ4, "lz4"), (ZSTD, "zstd")])
def test_what_is_compressed_by_frames_is_taken(codec: int, name: str) -> None:
    data = random.Random(3).randbytes(1000) * 50
    packed = pa.BufferOutputStream()
    with pa.CompressedOutputStream(packed, name) as stream:
        stream.write(data)
    assert uncompressed(codec, packed.getvalue().to_pybytes()) == data
    with pytest.raises(NeedsJava):
        uncompressed(codec, b"nothing of the kind")


def test_snappy_is_taken_with_and_without_the_blocks_of_java() -> None:
    data = b"0123456789" * 1000
    block = pa.compress(data, "snappy", asbytes=True)
    assert uncompressed(SNAPPY, block) == data
    head = b"\x82SNAPPY\0" + (1).to_bytes(4, "big") * 2
    blocks = len(block).to_bytes(4, "big") + block
    assert uncompressed(SNAPPY, head + blocks * 2) == data * 2
    for broken in (b"", head + blocks[:-1], b"\xff" * 20, head + b"\xff" * 4):
        with pytest.raises(NeedsJava):
            uncompressed(SNAPPY, broken) if broken != b"" else uncompressed(SNAPPY, b"\x80")
    with pytest.raises(NeedsJava):
        uncompressed(7, data)
