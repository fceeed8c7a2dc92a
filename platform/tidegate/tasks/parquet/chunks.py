"""What the footer of a Parquet file says of its column chunks. Executor side: no library but pyarrow's file systems.

pyarrow says the same, but ends the whole process over a description that is damaged: what it throws there is caught by
nobody. A footer is one value of Thrift's compact protocol.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, NamedTuple

from pyarrow.fs import FileSystem

#: Nesting of a footer: row group, chunk, its metadata, statistics, and what later versions may put there.
_DEEPEST = 16
_INTEGERS = {1: "<i", 2: "<q"}
_BYTE_ARRAY, _DELTA_BYTE_ARRAY = 6, 7
#: Bytes that the header of a page has at most, statistics included.
_HEADER = 1 << 16


class Chunk(NamedTuple):
    """One leaf of a column in one row group. `path`: names joined by dots, `column`: the first of them. `has_lengths`:
    it is of texts or bytes; `repeats`: a value may take up from the one before it, so that few bytes stand for very
    many. `low`, `high`, `nulls`: of integers, where known."""

    path: str
    column: str
    has_lengths: bool
    repeats: bool
    values: int
    uncompressed: int
    compressed: int
    dictionary: int | None
    data: int
    low: int | None
    high: int | None
    nulls: int | None


class RowGroup(NamedTuple):
    """A row group: its rows, and its column chunks."""

    rows: int
    chunks: list[Chunk]

    def repeating(self, columns: Sequence[str]) -> int:
        """The most bytes that one value of those columns may stand for beside its own; 0 where none does."""
        return max((c.uncompressed for c in self.chunks if c.repeats and c.column in columns), default=0)


#: What reading says of something that is no such thing: it is too short, of another type, or nested without an end.
_NOT_THERE = (AttributeError, IndexError, KeyError, TypeError, RecursionError, OverflowError, struct.error)


def footer_of(filesystem: FileSystem, path: str) -> list[RowGroup]:
    """The row groups of a file. Raises ValueError for a footer that is damaged."""
    with filesystem.open_input_file(path) as file:
        size = file.size()
        file.seek(max(size - 8, 0))
        end = file.read(8)
        length = int.from_bytes(end[:4], "little")
        if end[4:] != b"PAR1" or length > size - 8:
            raise ValueError("it does not end with a footer")
        file.seek(size - 8 - length)
        footer = file.read(length)
    try:
        document = _Compact(footer).struct()
        groups = [RowGroup(group[3], [_chunk(chunk[3]) for chunk in group[1]]) for group in document[4]]
    except _NOT_THERE:
        raise ValueError("its footer is damaged") from None
    if min((group.rows for group in groups), default=0) < 0:
        raise ValueError("its footer contradicts itself")
    return groups


def largest_page(filesystem: FileSystem, path: str, chunk: Chunk) -> int:
    """The most bytes that a page has without its compression, as far as headers of pages can be read."""
    at, largest = min(chunk.data, chunk.dictionary or chunk.data), 0
    end = at + chunk.compressed
    with filesystem.open_input_file(path) as file:
        while at < end:
            file.seek(at)
            header = _Compact(file.read(_HEADER))
            try:
                says = header.struct()
                largest, at = max(largest, says[2]), at + header.at + max(says[3], 0)
            except (ValueError, *_NOT_THERE):
                break  # whoever reads it says so
    return largest


def _chunk(says: dict[int, Any]) -> Chunk:
    statistics = says.get(12, {})
    numbers = [says[1], says[5], says[6], says[7], says[9], says.get(11, 0), statistics.get(3, 0)]
    if not all(type(number) is int for number in numbers):
        raise TypeError
    form = _INTEGERS.get(says[1])
    bounds = [statistics.get(new, statistics.get(old)) for new, old in ((6, 2), (5, 1))]
    low, high = (
        struct.unpack(form, bound)[0] if form is not None and bound is not None else None for bound in bounds
    )
    return Chunk(
        b".".join(says[3]).decode(),
        says[3][0].decode(),
        says[1] == _BYTE_ARRAY,
        _DELTA_BYTE_ARRAY in says[2],
        says[5],
        says[6],
        says[7],
        says.get(11),
        says[9],
        low,
        high,
        statistics.get(3),
    )


class _Compact:
    """Thrift's compact protocol: a struct is a dictionary by the numbers of its fields."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    @property
    def at(self) -> int:
        """Bytes that were read."""
        return self._at

    def struct(self, depth: int = 0) -> dict[int, Any]:
        if depth > _DEEPEST:
            raise ValueError("its footer is damaged")
        fields: dict[int, Any] = {}
        number = 0
        while (header := self._byte()) & 15:
            number = number + (header >> 4) if header >> 4 else self._integer()
            kind = header & 15
            fields[number] = kind == 1 if kind in (1, 2) else self._value(kind, depth)
        return fields

    def _value(self, kind: int, depth: int) -> Any:
        if kind in (1, 2, 3):  # a boolean in a list is a byte
            return self._byte()
        if kind in (4, 5, 6):
            return self._integer()
        if kind == 7:
            return self._bytes(8)
        if kind == 8:
            return self._bytes(self._varint())
        if kind in (9, 10):
            header = self._byte()
            count = self._varint() if header >> 4 == 15 else header >> 4
            return [self._value(header & 15, depth) for _ in range(count)]
        if kind == 11:
            count = self._varint()
            kinds = self._byte() if count else 0
            return [(self._value(kinds >> 4, depth), self._value(kinds & 15, depth)) for _ in range(count)]
        if kind == 12:
            return self.struct(depth + 1)
        raise ValueError("its footer is damaged")

    def _byte(self) -> int:
        self._at += 1
        return self._data[self._at - 1]

    def _bytes(self, count: int) -> bytes:
        self._at += count
        if self._at > len(self._data):
            raise ValueError("its footer is damaged")
        return self._data[self._at - count : self._at]

    def _varint(self) -> int:
        value = shift = 0
        while (byte := self._byte()) & 128:
            value |= (byte & 127) << shift
            shift += 7
            if shift > 63:
                raise ValueError("its footer is damaged")
        return value | byte << shift

    def _integer(self) -> int:
        value = self._varint()
        return (value >> 1) ^ -(value & 1)
