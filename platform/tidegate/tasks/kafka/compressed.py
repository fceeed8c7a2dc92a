"""What producers compress record batches with. Executor side."""

from __future__ import annotations

import gzip
import struct
import zlib

import pyarrow as pa

from tidegate.tasks.reading import NeedsJava

GZIP, SNAPPY, LZ4, ZSTD = 1, 2, 3, 4

#: A record batch that becomes larger is left to Java.
LARGEST = 1 << 29
#: How xerial's snappy, which Java's producers use, begins: its name, then two numbers of its version.
_XERIAL = b"\x82SNAPPY\0"
_XERIAL_HEAD = len(_XERIAL) + 8


def uncompressed(codec: int, data: bytes) -> bytes:
    """The records of a batch. Raises NeedsJava for a codec that is not known here, and for data that is no such."""
    try:
        if codec == GZIP:
            return gzip.decompress(data)
        if codec == SNAPPY:
            return _snappy(data)
        if codec in (LZ4, ZSTD):
            return _streamed(data, "lz4" if codec == LZ4 else "zstd")
    except (OSError, EOFError, ValueError, IndexError, struct.error, zlib.error, pa.ArrowException) as error:
        raise NeedsJava(f"a record batch that can't be decompressed ({type(error).__name__})") from None
    raise NeedsJava(f"a record batch with compression {codec}")


def _streamed(data: bytes, codec: str) -> bytes:
    with pa.CompressedInputStream(pa.BufferReader(data), codec) as stream:
        found: bytes = stream.read(LARGEST + 1)
    if len(found) > LARGEST:
        raise NeedsJava("a large record batch")
    return found


def _snappy(data: bytes) -> bytes:
    if not data.startswith(_XERIAL):
        return _snappy_block(data)
    blocks, at = [], _XERIAL_HEAD
    while at < len(data):
        (size,) = struct.unpack_from(">i", data, at)
        at += 4
        if size < 0 or at + size > len(data):
            raise ValueError
        blocks.append(_snappy_block(data[at : at + size]))
        at += size
    return b"".join(blocks)


def _snappy_block(block: bytes) -> bytes:
    # It begins with the size of what it becomes, seven bits in a byte.
    size = shift = at = 0
    while True:
        byte = block[at]
        size |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            break
    if size > LARGEST:
        raise NeedsJava("a large record batch")
    found: bytes = pa.decompress(block, size, "snappy", asbytes=True)
    return found
