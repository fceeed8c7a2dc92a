"""Files of JSON lines and of CSV, read by the decoder of messages (X5): a line is one row, a record of CSV is one row.

A file of JSON is split between tasks at line breaks. A CSV file is read by one task from its beginning: whether a line
break ends a record depends on all that stands before it. Each CSV file has its own header: columns go by name, what no
column is called is left out, and a column that a file does not have is NULL. A record is never longer in memory than a
row may be: what is longer is rejected in pieces.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote as percent_encoded

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow.fs import FileSystem

from tidegate.tasks.decode.fitting import TWICE, find
from tidegate.tasks.decode.folders import constants
from tidegate.tasks.decode.limits import Limits
from tidegate.tasks.decode.opening import compressed, still_there
from tidegate.tasks.decode.raw_text import as_text
from tidegate.tasks.decode.reasons import CRASHED, twice
from tidegate.tasks.decode.tasks import of_tasks, tasks_of
from tidegate.tasks.decode.text.bulk import parsed, sparse
from tidegate.tasks.decode.text.decoders import CsvDecoder, JsonDecoder, text_decoder
from tidegate.tasks.decode.text.records import CHUNK, Records, chunks_of, lines_of
from tidegate.tasks.decode.text.strict_csv import fields
from tidegate.tasks.decode.text.strict_json import NotStrict
from tidegate.tasks.decode.values import DeclaredColumn

if TYPE_CHECKING:
    from tidegate.sql.catalog.objects import Relation

#: A file of JSON is split into parts of so many bytes. It is the same wherever a batch is tried, since a row is known
#: by its part (`crashed`).
_PART = 16 << 20
_BLANK = r"\A[ \t\r\n]*\z"
#: Bytes that are read at a time to find a header.
_HEADER = 1 << 16
_DAMAGED = "unreadable: the compressed file is damaged from here on"
_NO_COLUMN = "unparseable: the header of the file has none of the columns"
_NO_HEADER = "unparseable: the header of the file is not CSV"
#: Of the first line itself, which may be a row.
_FIRST_LINE = (
    "unparseable: the first line of the file names no declared column "
    "(without_header = 'true' reads files without one)"
)


class FileSpan(NamedTuple):
    """A part of a file for one task: the lines that begin in [start, end), all of them without an `end`. `uri`: as
    Spark would name the file."""

    path: str
    uri: str
    start: int = 0
    end: int | None = None


def headers_of(relation: Relation, filesystem: FileSystem, limits: Limits) -> CsvFiles | None:
    """What looks at the headers of a relation's files; None if they have none."""
    assert relation.format is not None
    if relation.format.encode != "csv" or not has_headers(relation):
        return None
    return CsvFiles(filesystem, text_decoder(relation, limits), (), place=())


def has_headers(relation: Relation) -> bool:
    """Whether each of a relation's CSV files begins with one."""
    assert relation.format is not None
    return relation.format.options.get("without_header", "false") != "true"


def spans_of(filesystem: FileSystem, files: Sequence[tuple[str, str]]) -> list[tuple[FileSpan, int]]:
    """The parts of JSON files (path, URI), each with its bytes. What is compressed can't be split."""
    sizes = [info.size or 0 for info in filesystem.get_file_info([path for path, _ in files])]
    found = []
    for (path, uri), size in zip(files, sizes, strict=True):
        if compressed(path):
            found.append((FileSpan(path, uri), size))
            continue
        for start in range(0, size, _PART):
            end = min(start + _PART, size)
            found.append((FileSpan(path, uri, start, end), end - start))
    return found


def dealt(spans: Sequence[tuple[FileSpan, int]], at_most: int) -> tuple[tuple[FileSpan, ...], ...]:
    """The spans of each task."""
    names = [(str(i), (str(i),)) for i in range(len(spans))]
    tasks = tasks_of(names, [size for _, size in spans], at_most)
    return tuple(tuple(spans[int(name)][0] for name in task) for task in tasks) or ((),)


class RecordGroup(NamedTuple):
    """Some consecutive records of a file (bytes) and their `decoder`. `bad`: why records are rejected without a look at
    them, by their places."""

    records: pa.Array
    bad: Mapping[int, str]
    decoder: JsonDecoder | CsvDecoder

    def parts(self, at_most: int | None) -> Iterator[RecordGroup]:
        """The same in groups of at most so many records."""
        for start in range(0, len(self.records), at_most or max(len(self.records), 1)):
            part = self.records.slice(start, at_most)
            bad = {i - start: why for i, why in self.bad.items() if start <= i < start + len(part)}
            yield self._replace(records=part, bad=bad)

    def texts(self) -> pa.Array:
        """What is decoded of the records: nothing of those that are rejected without a look."""
        return pc.if_else(sparse(self.bad, len(self.records)).is_valid(), b"", self.records)

    def parsed(self) -> dict[str, pa.Array]:
        """The `parsed` columns of the records."""
        if not self.bad:
            return parsed(self.decoder, self.records)
        return _rejected(parsed(self.decoder, self.texts()), self.bad, self.records)


@dataclass(frozen=True)
class TextFiles:
    """Turns numbers of `tasks` into the `parsed` columns of records, with those of `place`: the path (percent-encoded,
    as Spark has it), where the span begins, and the number of the record. `crashed`: records that no decoder may see,
    as (URI, block, row). `at_most`: records at a time."""

    filesystem: FileSystem
    decoder: JsonDecoder | CsvDecoder
    tasks: tuple[tuple[FileSpan, ...], ...]
    crashed: frozenset[tuple[str, int, int]] = frozenset()
    at_most: int | None = None
    place: tuple[str, ...] = field(kw_only=True)

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for span in of_tasks(batches, self.tasks):
            yield from self._of_span(span)

    def _of_span(self, span: FileSpan) -> Iterator[pa.RecordBatch]:
        name = percent_encoded(span.uri, safe="/:")
        for row, group in self.numbered(span):
            columns, count = group.parsed(), len(group.records)
            rows = pa.array(np.arange(row, row + count))
            place = [pa.repeat(name, count), pa.repeat(pa.scalar(span.start, pa.int64()), count), rows]
            yield pa.RecordBatch.from_arrays([*columns.values(), *place], names=[*columns, *self.place])

    def numbered(self, span: FileSpan) -> Iterator[tuple[int, RecordGroup]]:
        """The groups of a span, each with the number of its first row."""
        first = 0
        for group in (part for found in self._readable(span) for part in found.parts(self.at_most)):
            end = first + len(group.records)
            crashed = {
                row - first: CRASHED
                for uri, block, row in self.crashed
                if uri == span.uri and block == span.start and first <= row < end
            }
            yield first, group._replace(bad={**group.bad, **crashed})
            first = end

    def _readable(self, span: FileSpan) -> Iterator[RecordGroup]:
        """The groups of a span; where a compressed file is damaged, one rejected row stands for what is behind."""
        try:
            yield from self.groups(self._chunks(span), span.path)
        except OSError as error:
            if not compressed(span.path):
                raise
            still_there(self.filesystem, span.path, error)
            yield RecordGroup(pa.array([b""]), {0: _DAMAGED}, self.decoder)

    def _chunks(self, span: FileSpan) -> Iterator[bytes]:
        if span.end is None:
            with self.filesystem.open_input_stream(span.path) as stream:
                yield from _without_mark(iter(lambda: stream.read(CHUNK), b""))
            return
        with self.filesystem.open_input_file(span.path) as file:
            chunks = chunks_of(file, span.start, span.end)
            yield from _without_mark(chunks) if span.start == 0 else chunks

    def rows(self, chunks: Iterator[bytes], path: str = "") -> Iterator[dict[str, pa.Array]]:
        """The `parsed` columns of a file's records, in their order; empty lines are none."""
        for group in self.groups(_without_mark(chunks), path):
            yield group.parsed()

    def groups(self, chunks: Iterator[bytes], path: str = "") -> Iterator[RecordGroup]:
        """The records of a file, in their order; empty lines are none. A column that it does not have is told by the
        folders of its `path`, if one is called `day=2026-01-01`."""
        raise NotImplementedError


@dataclass(frozen=True)
class JsonFiles(TextFiles):
    """Of JSON lines."""

    def groups(self, chunks: Iterator[bytes], path: str = "") -> Iterator[RecordGroup]:
        limits, decoder = self.decoder.limits, self.decoder
        if folders := constants(path, decoder.targets):
            decoder = replace(decoder, folders=folders)
        for found, pieces in lines_of(chunks, limits.row_bytes):
            lines = pa.array(found, pa.binary())
            kept = ~np.asarray(pc.match_substring_regex(lines, _BLANK))
            # A piece of a line is no blank line, if there is anything in it.
            kept[[place for place in pieces if found[place]]] = True
            bad = {int(kept[:place].sum()): limits.too_long for place in pieces if kept[place]}
            if not kept.all():
                lines = lines.filter(pa.array(kept))
            if len(lines):
                yield RecordGroup(lines, bad, decoder)


@dataclass(frozen=True)
class CsvFiles(TextFiles):
    """Of CSV. `header`: whether each file begins with one."""

    header: bool = field(default=True, kw_only=True)

    def groups(self, chunks: Iterator[bytes], path: str = "") -> Iterator[RecordGroup]:
        assert isinstance(self.decoder, CsvDecoder)
        limits = self.decoder.limits
        decoder = None if self.header else self.decoder
        wrong: str | None = None
        for records, pieces in Records(self.decoder.delimiter, limits.row_bytes)(chunks):
            cut = set(pieces)
            kept = [(r, i in cut) for i, r in enumerate(records) if r or i in cut]
            first: dict[int, str] = {}
            if decoder is None and kept:
                decoder, wrong = self._of_header(kept[0][0], constants(path, self.decoder.targets))
                if wrong in (_NO_COLUMN, _NO_HEADER):
                    # By what is known of it, it is as well a row: nothing may vanish (W5).
                    first = {0: _FIRST_LINE if wrong == _NO_COLUMN else wrong}
                else:
                    del kept[0]
            if kept and decoder is not None:
                bad = {i: wrong or limits.too_long for i, (_, piece) in enumerate(kept) if wrong or piece}
                bad |= first
                yield RecordGroup(pa.array([r for r, _ in kept], pa.binary()), bad, decoder)

    def undeclared(self, path: str) -> Iterable[str]:
        """The names in a file's header that no column has. None of a header that does not tell the columns; of one that
        names half of them or fewer the places of the names: it may be a row, and a value stands in no log (X4). Raises
        FileNotFoundError."""
        assert isinstance(self.decoder, CsvDecoder)
        try:
            with self.filesystem.open_input_stream(path) as stream:
                chunks = _without_mark(iter(lambda: stream.read(_HEADER), b""))
                found = Records(self.decoder.delimiter, self.decoder.limits.row_bytes)(chunks)
                record = next((r for records, _ in found for r in records if r), b"")
        except FileNotFoundError:
            raise
        except OSError:
            return []  # whoever reads it says what is wrong
        names = self._names(record)
        places, problem = by_name(names or [], self.decoder.targets)
        known = _declared(places, self.decoder.targets)
        if problem or not known:
            return []
        sure = 2 * known > sum(not target.optional for target in self.decoder.targets)
        rest = [(n, name) for n, name in enumerate(names or [], 1) if places[n - 1] is None and name]
        return [name if sure else f"field {n} of {len(places)}" for n, name in rest]

    def _names(self, record: bytes) -> list[str] | None:
        """The names in a header; None if it is none."""
        own = self.decoder
        assert isinstance(own, CsvDecoder)
        if len(record) > own.limits.row_bytes or record.count(own.delimiter.encode()) >= own.limits.values:
            return None
        try:
            return [f or "" for f in fields(record.decode(errors="replace"), own.delimiter, "", None)]
        except NotStrict:
            return None

    def _of_header(
        self, record: bytes, folders: Mapping[int, pa.Scalar | None]
    ) -> tuple[CsvDecoder, str | None]:
        """The decoder of a file with this header, and why all of its records are rejected (None: they are not)."""
        own = self.decoder
        assert isinstance(own, CsvDecoder)
        names = self._names(record)
        if names is None:
            return own, _NO_HEADER
        places, problem = by_name(names, own.targets)
        if problem is None and not _declared(places, own.targets):
            problem = _NO_COLUMN
        return CsvDecoder(own.targets, tuple(places), own.delimiter, own.null, own.limits, folders), problem


def _declared(places: Iterable[int | None], targets: Sequence[DeclaredColumn]) -> int:
    """How many fields of a header are declared columns. (What was taken in does not make a line a header.)"""
    return sum(place is not None and not targets[place].optional for place in places)


def by_name(names: list[str], targets: Sequence[DeclaredColumn]) -> tuple[list[int | None], str | None]:
    """Which target each field of a header fills: the one of its name, else of its name in another case. And why it
    can't be told, if it can't."""
    places: list[int | None] = [None] * len(names)
    for place, target in enumerate(targets):
        found = find(names, target.name)
        if found == TWICE and not target.optional:
            return places, twice(target.name)
        if found is not None and found != TWICE:
            places[found] = place
    return places, None


def _without_mark(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """Without the byte order mark that may begin a file."""
    first = b""
    while len(first) < len(codecs.BOM_UTF8) and (chunk := next(chunks, b"")):
        first += chunk
    yield first.removeprefix(codecs.BOM_UTF8)
    yield from chunks


def _rejected(columns: dict[str, pa.Array], bad: Mapping[int, str], records: pa.Array) -> dict[str, pa.Array]:
    """The rows that have a reason rejected for it, without any values."""
    reasons = sparse(bad, len(records))
    mask, out = reasons.is_valid(), {}
    for name, column in columns.items():
        if name == "_why":
            out[name] = pc.if_else(mask, reasons, column)
        elif name == "_raw":
            raw = {place: as_text(records[place].as_py()) for place in bad}
            out[name] = pc.coalesce(sparse(raw, len(records)), column)
        else:
            out[name] = pc.if_else(mask, pa.scalar(None, column.type), column)
    return out
