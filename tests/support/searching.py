"""A search for a value in every file below a folder, decoded: compression hides it from a search of bytes.

Parquet by its rows and by the statistics of its footer, Avro by its records (bounds of columns in manifests are among
them), SQLite by its rows, gzip by what it holds; and the bytes of every file as they are.
"""

from __future__ import annotations

import gzip
import hashlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fastavro
import pyarrow.parquet as pq

#: Iceberg's bounds of a text have 16 characters, and the last one of an upper bound is the next greater one.
BOUND = 15
_DATABASE = b"SQLite format 3"
#: By the sum of a file's content, its ending and a value: the kinds of places in it.
_SEEN: dict[tuple[bytes, str, str], frozenset[str]] = {}


def places(root: Path, value: str) -> set[str]:
    """Where a longer text than `BOUND` ASCII characters is below a folder: the kind of place, and the file's path from
    there. What has its first characters counts, as a bound has them."""
    assert len(value) > BOUND
    assert value.isascii()
    found = set()
    for path in sorted(root.rglob("*")):
        if path.is_file():
            name = str(path.relative_to(root))
            found |= {f"{kind}: {name}" for kind in _kinds_in(path, value)}
            found |= {f"name: {name}"} if value in path.name else set()
    return found


def _kinds_in(path: Path, value: str) -> frozenset[str]:
    """The kinds of places of a file in which the value is. A content that was looked at is not decoded again, but for a
    database's, part of which may be in another file."""
    content = path.read_bytes()
    known = (hashlib.blake2b(content).digest(), path.name.rpartition(".")[2], value)
    kinds = None if content[:15] == _DATABASE else _SEEN.get(known)
    if kinds is None:
        decoded = _decoded(path, content)
        kinds = frozenset(kind for kind, texts in decoded if any(_has(text, value) for text in texts))
        _SEEN[known] = kinds
    return kinds


def kinds(found: set[str]) -> set[str]:
    """The kinds of these places."""
    return {place.partition(":")[0] for place in found}


def _has(text: Any, value: str) -> bool:
    if isinstance(text, dict):
        return any(_has(key, value) or _has(inner, value) for key, inner in text.items())
    if isinstance(text, list | tuple | set):
        return any(_has(inner, value) for inner in text)
    if isinstance(text, bytes):
        return value[:BOUND].encode() in text or value.encode("utf-16-le") in text
    return isinstance(text, str) and value[:BOUND] in text


def _decoded(path: Path, content: bytes) -> Iterator[tuple[str, Iterator[Any]]]:
    """What a file holds, by kinds."""
    kind = path.name.rpartition(".")[2]
    yield f"bytes of {kind}", iter([content])
    if content[:4] == b"PAR1":
        yield "rows", iter(pq.ParquetFile(path).read().to_pylist())
        yield "statistics", _statistics(path)
    elif content[:4] == b"Obj\x01":
        yield "manifest", _records(path)
    elif content[:15] == _DATABASE:
        yield "catalog", _rows(path)
    elif content[:2] == b"\x1f\x8b":
        yield "compressed", iter([gzip.decompress(content)])


def _statistics(path: Path) -> Iterator[Any]:
    metadata = pq.read_metadata(path)
    yield metadata.metadata
    for group in range(metadata.num_row_groups):
        for column in range(metadata.num_columns):
            found = metadata.row_group(group).column(column).statistics
            if found is not None and found.has_min_max:
                yield found.min, found.max


def _records(path: Path) -> Iterator[Any]:
    with path.open("rb") as file:
        reader = fastavro.reader(file)
        yield reader.metadata
        yield from reader


def _rows(path: Path) -> Iterator[Any]:
    with sqlite3.connect(path) as connection:
        for (table,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
            yield from connection.execute(f'SELECT * FROM "{table}"')
