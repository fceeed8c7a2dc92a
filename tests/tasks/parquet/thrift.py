"""Thrift's compact protocol, read and written: by it footers and page headers of Parquet are damaged piece by piece."""

from __future__ import annotations

import random
from typing import Any

#: A value with its kind, as the protocol has it: [kind, value].
Node = list[Any]
_INTEGERS = (3, 4, 5, 6)
_EXTREMES = (0, 1, -1, 2, 7, 255, 2**15, 2**31 - 1, -(2**31), 2**31, 2**40, 2**63 - 1, -(2**63))


def read(data: bytes, at: int = 0) -> tuple[Node, int]:
    """The struct that begins at `at`, and where it ends."""
    fields: list[Any] = []
    number = 0
    while data[at] & 15:
        delta, kind = data[at] >> 4, data[at] & 15
        at += 1
        if delta:
            number += delta
        else:
            number, at = _integer(data, at)
        if kind in (1, 2):
            fields.append([number, [kind, None]])
        else:
            node, at = _read(data, at, kind)
            fields.append([number, node])
    return [12, fields], at + 1


def _read(data: bytes, at: int, kind: int) -> tuple[Node, int]:
    if kind in (1, 2, 3):
        return [kind, data[at]], at + 1
    if kind in _INTEGERS:
        value, at = _integer(data, at)
        return [kind, value], at
    if kind == 7:
        return [kind, data[at : at + 8]], at + 8
    if kind == 8:
        size, at = _varint(data, at)
        return [kind, data[at : at + size]], at + size
    if kind == 12:
        return read(data, at)
    assert kind in (9, 10)
    size, of = data[at] >> 4, data[at] & 15
    at += 1
    if size == 15:
        size, at = _varint(data, at)
    items = []
    for _ in range(size):
        node, at = _read(data, at, of)
        items.append(node)
    return [kind, [of, items]], at


def write(node: Node, in_list: bool = False) -> bytes:
    """The inverse of `read`."""
    kind, value = node
    if kind == 12:
        out, last = b"", 0
        for number, field in value:
            delta = number - last
            short = 0 < delta < 16
            out += bytes([(delta << 4 if short else 0) | field[0]])
            out += b"" if short else _varint_of(_zigzag(number))
            out += write(field)
            last = number
        return out + b"\0"
    if kind in (1, 2, 3):
        return b"" if value is None else bytes([value & 255])
    if kind in _INTEGERS:
        return _varint_of(_zigzag(value))
    if kind == 7:
        return bytes(value)
    if kind == 8:
        return _varint_of(len(value)) + value
    of, items = value
    head = bytes([len(items) << 4 | of]) if len(items) < 15 else bytes([0xF0 | of]) + _varint_of(len(items))
    return head + b"".join(write(item, True) for item in items)


def alter(draw: random.Random, root: Node) -> None:
    """Change a few pieces of a struct: to extremes, to those of others, doubled, or gone."""
    for _ in range(draw.choice([1, 1, 2, 5])):
        every = list(_nodes(root))
        node = draw.choice(every)
        kind, value = node
        if kind in _INTEGERS:
            near = draw.choice([value + 1, value - 1, value * 1000, value ^ 1 << draw.randrange(40)])
            node[1] = draw.choice([near, draw.choice(_EXTREMES)])
        elif kind == 8:
            other = draw.choice([n[1] for n in every if n[0] == 8])
            node[1] = draw.choice([b"", value[:-1], value + b"\xff", value * 50, other])
        elif kind in (9, 10) and value[1]:
            place = draw.randrange(len(value[1]))
            value[1][place : place + 1] = [value[1][place]] * draw.choice([0, 2, 2, 40])
        elif kind == 12 and value:
            place = draw.randrange(len(value))
            if draw.random() < 0.5:
                del value[place]
            else:
                value.insert(place, [draw.choice(value)[0], draw.choice(value)[1]])
        elif kind in (1, 2):
            node[0] = 3 - kind


def _nodes(node: Node) -> Any:
    yield node
    if node[0] == 12:
        for _, field in node[1]:
            yield from _nodes(field)
    elif node[0] in (9, 10):
        for item in node[1][1]:
            yield from _nodes(item)


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while data[at] & 128:
        value |= (data[at] & 127) << shift
        shift, at = shift + 7, at + 1
    return value | data[at] << shift, at + 1


def _integer(data: bytes, at: int) -> tuple[int, int]:
    value, at = _varint(data, at)
    return (value >> 1) ^ -(value & 1), at


def _zigzag(value: int) -> int:
    return (value << 1 ^ value >> 63) & (1 << 64) - 1


def _varint_of(value: int) -> bytes:
    out = b""
    while value > 127:
        out += bytes([value & 127 | 128])
        value >>= 7
    return out + bytes([value])
