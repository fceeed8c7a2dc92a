"""Record batches as a broker has them (version 2) into Arrow, without an object for each message. Executor side.

Only the places where records begin are found one after the other, since each record tells where the next one is. All
other numbers are decoded for all records at once, and values, keys and headers are copied by Arrow.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from tidegate.tasks.kafka.compressed import uncompressed
from tidegate.tasks.reading import NeedsJava

_HEADER = pa.struct([("key", pa.string()), ("value", pa.binary())])
#: As Spark names its parts.
HEADERS = pa.list_(pa.field("element", _HEADER))
TIME = pa.timestamp("us", "UTC")

#: Base offset, length, leader's epoch, magic, checksum, attributes, last offset (as a difference), first and largest
#: timestamp, producer's id and epoch, first sequence number, records.
_BATCH = struct.Struct(">qiibIhiqqqhii")
#: Of which the length counts what follows it, and the checksum what follows that.
_TO_LENGTH, _TO_CHECKSUM = 12, 21
_MAGIC = 2
_CODEC, _APPEND_TIME, _TRANSACTIONAL, _CONTROL = 0x07, 0x08, 0x10, 0x20
#: The key of a control record: version, and type.
_MARKER, _ABORT = struct.Struct(">hh"), 0
#: Milliseconds beyond which a time in microseconds is no number of 64 bits.
_LATEST = 2**63 // 1000 - 1

Bytes = np.ndarray[tuple[int], np.dtype[np.uint8]]
Numbers = np.ndarray[tuple[int], np.dtype[np.int64]]


@dataclass(frozen=True)
class Aborted:
    """A transaction whose messages nobody who reads committed ones gets: of a producer, from an offset on."""

    producer: int
    first: int


@dataclass(frozen=True)
class FoundMessages:
    """`rows`: of the wanted offsets, None if there are none; `next`: the offset with which reading goes on; `size`: how
    many bytes the records had."""

    rows: pa.RecordBatch | None
    next: int
    size: int


@dataclass(frozen=True)
class _Batch:
    """`start`, `end`: where its records are in the bytes. `appended`: the one time of all, None if each has its own."""

    start: int
    end: int
    count: int
    offset: int
    time: int
    appended: int | None


def decoded(
    data: Bytes, partition: int, since: int, until: int, aborted: Sequence[Aborted] | None = None
) -> FoundMessages:
    """The messages with offsets [since, until) of a partition, from what a fetch answered. `aborted`: to leave out;
    None for those who read everything. Raises NeedsJava for what only Java's client reads."""
    batches: list[_Batch] = []
    inflated: list[bytes] = []
    skip = _Transactions(aborted)
    size, position = 0, since
    for head, start, end in _heads(data):
        offset, last, attributes = head[0], head[0] + head[6], head[5]
        if last < since:
            continue
        if offset >= until:
            position = until
            break
        _require_checksum(data[start - _BATCH.size + _TO_CHECKSUM : end], head[4])
        # The last offset is told, even if its message is not there any more.
        position = last + 1
        size += end - start
        if skip.leaves_out(head[9], last, attributes, data[start:end]):
            continue
        appended = head[8] if attributes & _APPEND_TIME else None
        if codec := attributes & _CODEC:
            inflated.append(uncompressed(codec, data[start:end].tobytes()))
            start, end = -1, len(inflated) - 1
        batches.append(_Batch(start, end, head[12], offset, head[7], appended))
    rows = _rows(*_in_one(data, batches, inflated), partition, since, until) if batches else None
    return FoundMessages(rows, min(position, until), size)


def _heads(data: Bytes) -> Iterator[tuple[tuple[int, ...], int, int]]:
    """The fields of each record batch, and where its records begin and end; without one that is cut off."""
    at = 0
    while at + _BATCH.size <= len(data):
        head = _BATCH.unpack_from(data.data, at)
        start, end = at + _BATCH.size, at + _TO_LENGTH + head[1]
        if head[3] != _MAGIC:
            raise NeedsJava("messages in the format of Kafka before 0.11")
        if end < start:
            raise NeedsJava("a record batch whose length is wrong")
        if end > len(data):
            return
        yield head, start, end
        at = end


def _require_checksum(data: Bytes, expected: int) -> None:
    # Without this package tasks read nothing; those who decode for other connectors do not need it.
    import google_crc32c

    if google_crc32c.value(data) != expected:
        raise NeedsJava("a record batch with a wrong checksum")


class _Transactions:
    """Which record batches hold no message for the reader: markers, and those of aborted transactions."""

    def __init__(self, aborted: Sequence[Aborted] | None) -> None:
        self._committed = aborted is not None
        self._coming = sorted(aborted or (), key=lambda one: one.first, reverse=True)
        self._open: set[int] = set()

    def leaves_out(self, producer: int, last: int, attributes: int, records: Bytes) -> bool:
        """Ask for one batch after the other."""
        if not self._committed:
            return bool(attributes & _CONTROL)
        while self._coming and self._coming[-1].first <= last:
            self._open.add(self._coming.pop().producer)
        if attributes & _CONTROL:
            if _is_abort(records):
                self._open.discard(producer)
            return True
        return bool(attributes & _TRANSACTIONAL) and producer in self._open


def _is_abort(records: Bytes) -> bool:
    """Whether a marker ends an aborted transaction; its batch has one record."""
    # Length, attributes, timestamp, offset, and the length of the key.
    try:
        _, at = _varints(records, np.zeros(1, np.int64))
        _, at = _varints(records, at + 1)
        _, at = _varints(records, at)
        _, at = _varints(records, at)
        return bool(_MARKER.unpack_from(records.data, int(at[0]))[1] == _ABORT)
    except (IndexError, struct.error):
        raise NeedsJava("a marker of a transaction that can't be read") from None


def _in_one(data: Bytes, batches: list[_Batch], inflated: list[bytes]) -> tuple[Bytes, list[_Batch]]:
    """All records in one array of bytes, and where they are in it."""
    if not inflated:
        return data, batches
    parts, moved, at = [], [], 0
    for one in batches:
        part = inflated[one.end] if one.start < 0 else data[one.start : one.end].tobytes()
        parts.append(part)
        moved.append(_Batch(at, at + len(part), one.count, one.offset, one.time, one.appended))
        at += len(part)
    if at >= 2**31:
        raise NeedsJava("large record batches")
    return np.frombuffer(b"".join(parts), np.uint8), moved


def _rows(
    data: Bytes, batches: list[_Batch], partition: int, since: int, until: int
) -> pa.RecordBatch | None:
    """The messages of these batches, as `SourceTopic.messages` has them."""
    try:
        return _columns(data, batches, partition, since, until)
    except (IndexError, pa.ArrowInvalid):
        raise NeedsJava("a record that can't be read") from None


def _columns(
    data: Bytes, batches: list[_Batch], partition: int, since: int, until: int
) -> pa.RecordBatch | None:
    starts, ends = _places(data, batches)
    counts = np.array([one.count for one in batches])
    # The attributes of a record are not used.
    times, at = _varints(data, starts + 1)
    offsets, at = _varints(data, at)
    key_sizes, at = _varints(data, at)
    keys, at = at, at + np.maximum(key_sizes, 0)
    value_sizes, at = _varints(data, at)
    values, at = at, at + np.maximum(value_sizes, 0)
    header_counts, at = _varints(data, at)
    offsets += np.repeat(np.array([one.offset for one in batches]), counts)
    times += np.repeat(np.array([one.time for one in batches]), counts)
    for one, end in zip(batches, np.cumsum(counts), strict=True):
        if one.appended is not None:
            times[end - one.count : end] = one.appended
    headers, at = _headers(data, at, header_counts)
    if not np.array_equal(at, ends) or np.any(np.diff(offsets) <= 0):
        raise NeedsJava("a record whose length is wrong")
    if np.any(np.abs(times) > _LATEST):
        raise NeedsJava("a message whose time is no time")
    first, last = np.searchsorted(offsets, (since, until))
    if first == last:
        return None
    part = slice(first, last)
    n = int(last - first)
    columns = {
        "value": _texts(data, values[part], value_sizes[part]),
        "_key": _texts(data, keys[part], key_sizes[part]),
        "_headers": headers[part],
        "_partition": pa.repeat(pa.scalar(partition, pa.int32()), n),
        "_offset": pa.array(offsets[part]),
        "_rowtime": pa.array(times[part] * 1000, TIME),
        "_long": pa.repeat(pa.scalar(False), n),
    }
    return pa.RecordBatch.from_pydict(columns)


def _places(data: Bytes, batches: list[_Batch]) -> tuple[Numbers, Numbers]:
    """Where each record begins behind its length, and where it ends."""
    raw = data.data
    places: list[int] = []
    found = places.append
    for one in batches:
        at = one.start
        for _ in range(one.count):
            found(at)
            size = raw[at]
            at += 1
            if size > 0x7F:
                # Nearly all records are between 64 bytes and 8 kB long.
                more = raw[at]
                at += 1
                size = size & 0x7F | more << 7
                if more > 0x7F:
                    size, at = _longer(raw, size & 0x3FFF, at)
            # A length is never negative, so its sign, in the lowest bit, is 0.
            at += size >> 1
        if at != one.end:
            raise NeedsJava("records whose lengths are wrong")
    sizes, starts = _varints(data, np.array(places, np.int64))
    return starts, starts + sizes


def _longer(raw: memoryview, size: int, at: int) -> tuple[int, int]:
    """A number of which the first 14 bits are known, and where it ends."""
    for shift in (14, 21, 28):
        byte = raw[at]
        at += 1
        size |= (byte & 0x7F) << shift
        if byte < 0x80:
            return size, at
    raise NeedsJava("a record whose length is wrong")


def _varints(data: Bytes, at: Numbers) -> tuple[Numbers, Numbers]:
    """The numbers that begin at these places (zigzag, seven bits in a byte, the lowest first), and where they end."""
    byte = data[at]
    value, at = (byte & 0x7F).astype(np.int64), at + 1
    more, shift = np.flatnonzero(byte > 0x7F), 7
    while len(more):
        if shift > 63:
            raise NeedsJava("a number that is too long")
        byte = data[at[more]]
        value[more] |= (byte & 0x7F).astype(np.int64) << shift
        at[more] += 1
        more, shift = more[byte > 0x7F], shift + 7
    # Shifted without the sign, which is one more bit of the number here.
    return (value.view(np.uint64) >> np.uint64(1)).view(np.int64) ^ -(value & 1), at


def _texts(data: Bytes, starts: Numbers, sizes: Numbers) -> pa.Array:
    """The bytes at these places, which come one behind the other; NULL where the size is negative."""
    n, absent = len(starts), sizes < 0
    if absent.all():
        return pa.nulls(n, pa.binary())
    ends = starts + np.maximum(sizes, 0)
    # What lies between them is an item, too, and each second one is taken.
    places = np.empty(2 * n + 1, np.int64)
    places[0], places[1::2], places[2::2] = 0, starts, ends
    if places[-1] > len(data) or np.any(np.diff(places) < 0):
        raise NeedsJava("a record whose length is wrong")
    offsets = pa.py_buffer(places.astype(np.int32))
    items = pa.Array.from_buffers(pa.binary(), 2 * n, [None, offsets, pa.py_buffer(data)])
    return items.take(pa.array(np.arange(1, 2 * n, 2, dtype=np.int64), mask=absent if absent.any() else None))


def _headers(data: Bytes, at: Numbers, counts: Numbers) -> tuple[pa.Array, Numbers]:
    """The headers that begin at these places, so many for each message (NULL for one without), and where they end."""
    n = len(counts)
    if np.any(counts < 0):
        raise NeedsJava("a record with a wrong number of headers")
    if not counts.any():
        return pa.nulls(n, HEADERS), at
    at = at.copy()
    rows = np.flatnonzero(counts)
    parts: list[tuple[Numbers, Numbers, Numbers, Numbers, Numbers]] = []
    left = counts[rows]
    while len(rows):
        key_sizes, keys = _varints(data, at[rows])
        if np.any(key_sizes < 0):
            raise NeedsJava("a header without a name")
        value_sizes, values = _varints(data, keys + key_sizes)
        at[rows] = values + np.maximum(value_sizes, 0)
        parts.append((rows, keys, key_sizes, values, value_sizes))
        rows, left = rows[left > 1], left[left > 1] - 1
    of, keys, key_sizes, values, value_sizes = (np.concatenate(part) for part in zip(*parts, strict=True))
    # The second header of a message was found after the first ones of all messages.
    order = np.argsort(of, kind="stable")
    names = _texts(data, keys[order], key_sizes[order]).cast(pa.string())
    texts = _texts(data, values[order], value_sizes[order])
    items = pa.StructArray.from_arrays([names, texts], fields=list(_HEADER))
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), items, type=HEADERS, mask=pa.array(counts == 0)), at
