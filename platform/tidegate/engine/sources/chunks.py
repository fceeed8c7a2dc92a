"""What the footer of a Parquet file says of its column chunks. Executor side: no library but pyarrow's file systems.

pyarrow says the same, but ends the whole process over a description that is damaged: what it throws there is caught by
nobody. A footer is one value of Thrift's compact protocol.
"""

from __future__ import annotations

import struct
from typing import Any, NamedTuple

from pyarrow.fs import FileSystem

#: Nesting of a footer: row group, chunk, its metadata, statistics, and what later versions may put there.
_DEEPEST = 16
_INTEGERS = {1: "<i", 2: "<q"}


class Chunk(NamedTuple):
    """One column of one row group. `path`: names joined by dots. `low`, `high`, `nulls`: of integers, where known."""

    path: str
    values: int
    uncompressed: int
    compressed: int
    dictionary: int | None
    data: int
    low: int | None
    high: int | None
    nulls: int | None


def chunks_of(filesystem: FileSystem, path: str) -> list[list[Chunk]]:
    """Of each row group its column chunks. Raises ValueError for a footer that is damaged."""
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
        return [[_chunk(chunk[3]) for chunk in group[1]] for group in document[4]]
    except (IndexError, KeyError, TypeError, struct.error):
        raise ValueError("its footer is damaged") from None


def _chunk(says: dict[int, Any]) -> Chunk:
    statistics = says.get(12, {})
    form = _INTEGERS.get(says[1])
    bounds = [statistics.get(new, statistics.get(old)) for new, old in ((6, 2), (5, 1))]
    low, high = (
        struct.unpack(form, bound)[0] if form is not None and bound is not None else None for bound in bounds
    )
    return Chunk(
        b".".join(says[3]).decode(),
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
