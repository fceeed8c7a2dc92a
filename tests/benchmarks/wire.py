"""Messages put into Kafka with next to no CPU: record batches are made beforehand, sending them is writing bytes.

A client in Python spends on 20,000 rows a second what the measured engine should have. So this speaks the protocol
itself, as far as it is needed: record batches of version 2, Produce version 3, one broker, no compression.
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Sequence
from functools import cache

import numpy as np

_POLYNOMIAL = 0x82F63B78
_PRODUCE, _VERSION = 0, 3
#: Unknown topic or partition, no leader, not the leader: of a topic that was just made; nothing is written.
_NOT_YET, _PATIENCE_S = (3, 5, 6), 30.0


def crc32c(data: bytes) -> int:
    """CRC-32C (Castagnoli), by numpy: the bytes are cut into lanes that advance together, then put together."""
    table = _table()
    # The register starts as all ones, which is the same as four bytes turned over and a register of zeros.
    lanes = 1 << max(0, (len(data) // 64).bit_length() - 1)
    width = max(4, -(-len(data) // lanes))
    padded = np.zeros(lanes * width, np.uint8)
    if len(data) < 4:
        return _plain(data)
    padded[-len(data) :] = np.frombuffer(data, np.uint8)
    padded[-len(data) : len(padded) - len(data) + 4] ^= 0xFF
    rows = padded.reshape(lanes, width)
    register = np.zeros(lanes, np.uint32)
    for column in range(width):
        register = table[(register ^ rows[:, column]) & 0xFF] ^ (register >> 8)
    while len(register) > 1:
        register = _shifted(register[0::2], width) ^ register[1::2]
        width *= 2
    return int(register[0]) ^ 0xFFFFFFFF


def _plain(data: bytes) -> int:
    register = 0xFFFFFFFF
    for byte in data:
        register = int(_table()[(register ^ byte) & 0xFF]) ^ (register >> 8)
    return register ^ 0xFFFFFFFF


@cache
def _table() -> np.ndarray:
    table = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        table = np.where(table & 1, (table >> 1) ^ np.uint32(_POLYNOMIAL), table >> 1).astype(np.uint32)
    return table


@cache
def _shift(width: int) -> np.ndarray:
    """What `width` zero bytes make of each byte of a register: 4 tables of 256."""
    bits = np.uint32(1) << np.arange(32, dtype=np.uint32)
    if width % 2 == 0:
        bits = _shifted(_shifted(bits, width // 2), width // 2)
    else:
        for _ in range(width):
            bits = _table()[bits & 0xFF] ^ (bits >> 8)
    tables = np.zeros((4, 256), np.uint32)
    values = np.arange(256)
    for byte in range(4):
        for bit in range(8):
            tables[byte] ^= np.where(values >> bit & 1, bits[8 * byte + bit], 0).astype(np.uint32)
    return tables


def _shifted(register: np.ndarray, width: int) -> np.ndarray:
    tables = _shift(width)
    return (
        tables[0][register & 0xFF]
        ^ tables[1][register >> 8 & 0xFF]
        ^ tables[2][register >> 16 & 0xFF]
        ^ tables[3][register >> 24]
    )


def varint(value: int) -> bytes:
    """Zigzag, little end first, seven bits in a byte."""
    value = (value << 1) ^ (value >> 63)
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def batch(values: Sequence[bytes], timestamp_ms: int) -> bytes:
    """One record batch: values without keys, all of one timestamp."""
    records = []
    for at, value in enumerate(values):
        # Attributes, timestamp and offset as differences, no key, the value, no headers.
        body = b"\0\0" + _varint(at) + b"\1" + _varint(len(value)) + value + b"\0"
        records.append(_varint(len(body)) + body)
    last = len(values) - 1
    tail = struct.pack(">hiqqqhii", 0, last, timestamp_ms, timestamp_ms, -1, -1, -1, len(values))
    tail += b"".join(records)
    # Base offset, length, leader epoch, magic, checksum.
    return struct.pack(">qiibI", 0, len(tail) + 9, -1, 2, crc32c(tail)) + tail


_varint = cache(varint)


class Wire:
    """A connection to the one broker. Nothing is sent twice: a broken connection is an error."""

    def __init__(self, bootstrap: str) -> None:
        host, _, port = bootstrap.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), 30)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._number = 0

    def send(self, topic: str, batches: dict[int, bytes]) -> float:
        """One record batch for each of these partitions; returns when all are acknowledged: the latest time (s since
        1970) that the broker gave one of them, where its topic has LogAppendTime, else -0.001.

        Partitions of a new topic that have no leader yet are waited for. Raises ConnectionError if the broker refuses.
        """
        deadline, appended = time.monotonic() + _PATIENCE_S, -1
        while batches:
            codes, last = self._produce(topic, batches)
            refused, appended = {part: code for part, code in codes.items() if code}, max(appended, last)
            final = {part: code for part, code in refused.items() if code not in _NOT_YET}
            if final or (refused and time.monotonic() > deadline):
                raise ConnectionError(f"{topic}: the broker refuses (partition: error) {final or refused}")
            batches = {part: data for part, data in batches.items() if part in refused}
            if batches:
                time.sleep(0.1)
        return appended / 1000

    def _produce(self, topic: str, batches: dict[int, bytes]) -> tuple[dict[int, int], int]:
        """Partition to error code, 0 where it is written; the latest time of the broker's, in ms."""
        self._number += 1
        name = topic.encode()
        # No transaction, acknowledged by all replicas, within 30 s.
        body = struct.pack(">hhi", -1, -1, 30_000)
        body += struct.pack(">ih", 1, len(name)) + name + struct.pack(">i", len(batches))
        for partition, data in batches.items():
            body += struct.pack(">ii", partition, len(data)) + data
        head = struct.pack(">hhih", _PRODUCE, _VERSION, self._number, 5) + b"bench"
        self._socket.sendall(struct.pack(">i", len(head) + len(body)) + head + body)
        answer = self._exactly(struct.unpack(">i", self._exactly(4))[0])
        codes, appended = {}, -1
        at = 4 + 4 + 2 + len(name) + 4
        for _ in batches:
            partition, code, _, stamp = struct.unpack_from(">ihqq", answer, at)
            codes[partition], appended = code, max(appended, stamp)
            at += 4 + 2 + 8 + 8
        return codes, appended

    def _exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            more = self._socket.recv(size - len(data))
            if not more:
                raise ConnectionError("the broker has closed the connection")
            data += more
        return data

    def close(self) -> None:
        self._socket.close()
