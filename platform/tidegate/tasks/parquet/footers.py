"""A first look at files, before anything of them is planned: their edges, and footers of Parquet. Executor side, too:
numpy and pyarrow only."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow.fs import FileSystem

from tidegate.plan.columns.undeclared import Telling
from tidegate.tasks.decode.columns import Wanted
from tidegate.tasks.decode.fitting import TWICE, find, surely_fits
from tidegate.tasks.decode.folders import of_folders
from tidegate.tasks.decode.limits import STANDARD, Limits
from tidegate.tasks.decode.opening import DAMAGED, compressed, still_there
from tidegate.tasks.decode.text.files import CsvFiles
from tidegate.tasks.decode.text.json_members import JsonNames, undeclared_members
from tidegate.tasks.parquet.chunks import RowGroup, footer_of
from tidegate.tasks.parquet.column_types import spark_type
from tidegate.tasks.parquet.parquet import partition_names, partitions_of, read_rows
from tidegate.tasks.parquet.parquet_layout import Layout
from tidegate.tasks.parquet.row_groups import open_file, way_to_read

#: What is read of a file to know it again: so many bytes of its beginning and of its end.
EDGE = 64 << 10
#: Bytes that are decompressed at a time.
_CHUNK = 1 << 20

#: Of each source partition in a file, the lowest and the highest offset ((0, -1) if it has none).
Ranges = dict[str, tuple[int, int]]


@dataclass(frozen=True)
class FileLook:
    """What a file is. `content` tells it from others, whatever its name (None: it is gone); `rows` and `ranges` where
    its format and columns say them. `error`: why it is no Parquet file; `present`: its columns, if one is missing.
    `unread`: only its rows say its `ranges`, and they were not read.
    `undeclared`: columns that it has beside those of the source, where its header or footer names them, with the Spark
    types that hold their values (None: none does).
    `unpacked`: as many bytes a file of gzip says that it has when it is decompressed (modulo 2^32; in a file of several
    parts it is the size of the last one)."""

    path: str
    content: str | None
    rows: int = -1
    ranges: Ranges | None = None
    error: str | None = None
    present: tuple[str, ...] | None = None
    undeclared: Mapping[str, str | None] = field(default_factory=dict)
    unread: bool = False
    unpacked: int | None = None


@dataclass(frozen=True)
class Looker:
    """Looks at files of `filesystem`, given as (path, size). `wanted`: the columns that a Parquet file must have (None:
    it is of another format). `layout`: for a source whose columns say partition and order. `headers`: what reads CSV
    files that have one; `members`: of JSON, the names that are known. `reads`: rows, too, where only
    they say their place, but for those that have `crashed`, as (from, until) by path."""

    filesystem: FileSystem
    wanted: tuple[str, ...] | None = None
    layout: Layout | None = None
    headers: CsvFiles | None = None
    limits: Limits = STANDARD
    members: JsonNames | None = None
    reads: bool = False
    crashed: Mapping[str, Sequence[tuple[int, int]]] = field(default_factory=dict)

    def __call__(self, files: Iterable[tuple[str, int]]) -> Iterator[FileLook]:
        telling = Telling()
        for path, size in files:
            try:
                content, beginning, end = _looked_at(self.filesystem, path, size)
            except FileNotFoundError:
                yield FileLook(path, None)
                continue
            if self.wanted is not None:
                yield self._of_parquet(path, content, telling)
            else:
                # Its last four bytes (RFC 1952).
                unpacked = int.from_bytes(end[-4:], "little") if path.endswith(".gz") else None
                undeclared = self._in_text(path, beginning, telling)
                yield FileLook(path, content, undeclared=undeclared, unpacked=unpacked)

    def _in_text(self, path: str, beginning: bytes, telling: Telling) -> Mapping[str, str | None]:
        """The columns of a CSV or JSON file that are not declared. (What a field of CSV holds is text.)"""
        if self.members is not None:
            beginning = _unpacked(path, beginning) if compressed(path) else beginning
            members = undeclared_members(beginning, self.members)
            return telling.of([*members], [*members.values()].__getitem__)
        names = self.headers.undeclared(path) if self.headers is not None else ()
        return telling.of([*names], lambda _: "string")

    def _of_parquet(self, path: str, content: str, telling: Telling) -> FileLook:
        try:
            with open_file(self.filesystem, path) as file:
                metadata, names = file.metadata, file.schema_arrow.names
                groups = [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)]
                if min(groups, default=0) < 0 or sum(groups) != metadata.num_rows:
                    return FileLook(path, content, error="its footer contradicts itself")
                there = of_folders(path)
                assert self.wanted is not None
                chunks = footer_of(self.filesystem, path)
                way_to_read(file, chunks, self.wanted)  # all that is asked of the footer later can be had
                if any(find(names, name) is None and name.casefold() not in there for name in self.wanted):
                    return FileLook(path, content, present=tuple(names))
                ranges = None if self.layout is None else self._ranges(path, file, chunks, self.layout)
                wanted = {name.casefold() for name in self.wanted}
                others = [f for f in file.schema_arrow if f.name.casefold() not in wanted]
                undeclared = telling.of(
                    [f.name for f in others], lambda place: spark_type(others[place].type)
                )
                unread = self.layout is not None and ranges is None
                return FileLook(
                    path, content, metadata.num_rows, ranges, undeclared=undeclared, unread=unread
                )
        except pa.ArrowMemoryError:
            raise
        except DAMAGED as error:
            still_there(self.filesystem, path, error)
            return FileLook(path, content, error=str(error).partition("\n")[0])

    def _ranges(
        self, path: str, file: pq.ParquetFile, groups: list[RowGroup], layout: Layout
    ) -> Ranges | None:
        found: Ranges = {}
        # A row that is rejected is in none of the partitions that columns name.
        risky = [column for column in layout.wanted if not _surely_read(file.schema_arrow, column)]
        if not risky and self._from_statistics(file, groups, layout, found):
            return found
        if not self.reads:
            return None
        found.clear()
        needed = [*layout.placing, *(column for column in risky if column not in layout.placing)]
        for rows in read_rows(self.filesystem, path, needed, self.limits, self.crashed.get(path, ())):
            order = layout.order_column
            offsets = pa.array([0] * len(rows), pa.int64())
            if order is not None:
                offsets = rows.columns[order].cast(pa.int64())
            table = pa.table({"partition": partitions_of(rows, layout), "offset": offsets})
            bounds = table.group_by("partition", use_threads=False).aggregate([("offset", "min_max")])
            for row in bounds.to_pylist():
                both = row["offset_min_max"]
                low, high = (0, -1) if both["min"] is None else (both["min"], both["max"])
                _widen(found, row["partition"], low, high)
        return found

    def _from_statistics(
        self, file: pq.ParquetFile, groups: list[RowGroup], layout: Layout, found: Ranges
    ) -> bool:
        """Whether the footer says all: each row group is of one partition, a number."""
        stored = {}
        for column in layout.placing:
            place = find(file.schema_arrow.names, column.name)
            if place is None or file.schema_arrow.field(place).type != column.type:
                return False
            stored[column.name] = file.schema_arrow.names[place]
        for group in groups:
            bounds = {c.path: c for c in group.chunks if c.low is not None and c.high is not None}
            values = []
            for name in layout.partition_columns:
                chunk = bounds.get(stored[name])
                if chunk is None or chunk.low != chunk.high or chunk.nulls != 0:
                    return False
                values.append(pa.array([chunk.low]))
            low, high = 0, 0
            if layout.order_column is not None:
                chunk = bounds.get(stored[layout.order_column])
                if chunk is None or chunk.low is None or chunk.high is None:
                    return False
                low, high = chunk.low, chunk.high
            _widen(found, partition_names(values)[0].as_py(), low, high)
        return True


def _surely_read(schema: pa.Schema, column: Wanted) -> bool:
    place = find(schema.names, column.name)
    # What is in no column, but in the name of a folder, may be no value.
    return place is not None and place != TWICE and surely_fits(schema.field(place).type, column.type)


def content_of(filesystem: FileSystem, path: str, size: int) -> str:
    """What a file's edges are, and its ETag, where its store gives one."""
    return _looked_at(filesystem, path, size)[0]


def _unpacked(path: str, beginning: bytes) -> bytes:
    """What the beginning of a compressed file says; nothing if it is damaged: whoever reads the file says so."""
    try:
        codec = pa.Codec.detect(path).name
        found: bytes = pa.CompressedInputStream(pa.BufferReader(beginning), codec).read(EDGE)
    except DAMAGED:
        return b""
    return found


def _looked_at(filesystem: FileSystem, path: str, size: int) -> tuple[str, bytes, bytes]:
    """See `content_of`; and the first and the last bytes that were read for it."""
    digest = hashlib.blake2b(digest_size=16)
    with filesystem.open_input_file(path) as file:
        beginning = end = file.read(EDGE)
        digest.update(end)
        if size > EDGE:
            file.seek(max(size - EDGE, EDGE))
            last = file.read(EDGE)
            digest.update(last)
            end = end[-4:] + last
        etag = (file.metadata() or {}).get("ETag", b"").decode(errors="replace").strip('"')
    return f"{digest.hexdigest()}/{etag}" if etag else digest.hexdigest(), beginning, end


def unpacked_content(filesystem: FileSystem, path: str, size: int) -> str | None:
    """What the edges of a compressed file are when it is decompressed; None if it has not `size` bytes then, is damaged
    or is gone."""
    digest, place = hashlib.blake2b(digest_size=16), 0
    # Of each piece that is read, what is in one of the edges (see `content_of`).
    last = max(size - EDGE, EDGE)
    try:
        with filesystem.open_input_stream(path) as stream:
            while place <= size and (chunk := stream.read(_CHUNK)):
                digest.update(chunk[: max(EDGE - place, 0)])
                digest.update(chunk[max(last - place, 0) :])
                place += len(chunk)
    except FileNotFoundError:
        return None
    except DAMAGED as error:
        still_there(filesystem, path, error)
        return None
    return digest.hexdigest() if place == size else None


def surely_same(one: str | None, other: str | None, size: int) -> bool:
    """Whether two files of one size are the same for certain: their edges are all of them, or their store says it."""
    if one is None or other is None:
        return False
    (edges, _, etag), (others, _, other_etag) = one.partition("/"), other.partition("/")
    return edges == others and (size <= 2 * EDGE or (etag != "" and etag == other_etag))


def _widen(ranges: Ranges, partition: str, low: int, high: int) -> None:
    known = ranges.get(partition)
    if known is None or known[1] < known[0]:
        ranges[partition] = (low, high)
    elif high >= low:
        ranges[partition] = (min(known[0], low), max(known[1], high))
