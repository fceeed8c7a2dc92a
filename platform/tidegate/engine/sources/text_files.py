"""Files of JSON lines and of CSV, read by the decoder of messages (X5): a line is one row, a record of CSV is one row.

A file of JSON is split between tasks at line breaks. A CSV file is read by one task from its beginning: whether a line
break ends a record depends on all that stands before it. Each CSV file has its own header: columns go by name, what no
column is called is left out, and a column that a file does not have is NULL.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import quote as percent_encoded

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow.fs import FileSystem

from tidegate.engine.sources.bulk import as_text, parsed, parsed_fields
from tidegate.engine.sources.reasons import twice
from tidegate.engine.sources.strict_csv import TOO_LONG, Records, fields
from tidegate.engine.sources.strict_json import NotStrict
from tidegate.engine.sources.tasks import tasks_of
from tidegate.engine.sources.text import CsvDecoder, text_decoder
from tidegate.engine.sources.values import Target

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tidegate.sql.catalog import Relation

_CHUNK = 4 << 20
_NO_COLUMN = "unparseable: the header of the file has none of the columns"
_NO_HEADER = "unparseable: the header of the file is not CSV"


def read_text_files(
    spark: SparkSession,
    relation: Relation,
    uris: Sequence[str],
    patterns: Sequence[str],
    paths: Sequence[str],
    filesystem: FileSystem,
) -> DataFrame:
    """Rows of the files with `_raw` and `_why` (of what is no row), and their positions `_path`, `_block`, `_row`.
    `patterns`: of the same files, for Spark; `paths`: as `filesystem` has them."""
    from pyspark.sql import functions as F

    from tidegate.engine.sources.decode import converted, decode_text

    assert relation.format is not None
    if relation.format.encode == "json":
        lines = spark.read.text(list(patterns))
        # An empty line is no row.
        lines = lines.where(F.trim("value", F.lit(" \t\r\n")) != "").select(
            F.col("value").cast("binary").alias("value"),
            F.col("_metadata.file_path").alias("_path"),
            F.col("_metadata.file_block_start").alias("_block"),
            F.monotonically_increasing_id().alias("_row"),
        )
        return decode_text(lines, relation)
    decoder = text_decoder(relation)
    assert isinstance(decoder, CsvDecoder)
    dealt = tasks_of(
        [(path, [path]) for path in paths], [1] * len(paths), spark.sparkContext.defaultParallelism
    )
    named = dict(zip(paths, uris, strict=True))
    tasks = tuple(tuple((path, named[path]) for path in task) for task in dealt)
    header = relation.format.options.get("without_header", "false") != "true"
    reader = CsvFiles(filesystem, decoder, tasks, header)
    schema = ", ".join(f"{name} {kind}" for name, kind in [*parsed_fields(decoder.targets), *_PLACE.items()])
    rows = spark.range(0, len(tasks), 1, len(tasks)).mapInArrow(reader, schema)
    return converted(rows, relation, list(_PLACE))


_PLACE = {"_path": "string", "_block": "bigint", "_row": "bigint"}


@dataclass(frozen=True)
class CsvFiles:
    """Turns numbers of `tasks` (files as path and URI) into the `parsed` columns of their records, with `_path`
    (percent-encoded, as Spark has it), `_block` and `_row`. `header`: whether each begins with one."""

    filesystem: FileSystem
    decoder: CsvDecoder
    tasks: tuple[tuple[tuple[str, str], ...], ...]
    header: bool

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for task in batch.column(0).to_pylist():
                for path, uri in self.tasks[task]:
                    yield from self._file(path, percent_encoded(uri, safe="/:"))

    def _file(self, path: str, name: str) -> Iterator[pa.RecordBatch]:
        with self.filesystem.open_input_stream(path) as stream:
            row = 0
            for columns in self.rows(iter(lambda: stream.read(_CHUNK), b"")):
                count = len(columns["_why"])
                numbers = pa.array(np.arange(row, row + count))
                place = [pa.repeat(name, count), pa.repeat(pa.scalar(0, pa.int64()), count), numbers]
                row += count
                yield pa.RecordBatch.from_arrays([*columns.values(), *place], names=[*columns, *_PLACE])

    def rows(self, chunks: Iterator[bytes]) -> Iterator[dict[str, pa.Array]]:
        """The `parsed` columns of a file's records, in their order; empty lines are none."""
        decoder = None if self.header else self.decoder
        wrong: str | None = None
        for records, pieces in Records(self.decoder.delimiter)(_without_mark(chunks)):
            marked = set(pieces)
            kept = [(r, i in marked) for i, r in enumerate(records) if r or i in marked]
            if decoder is None and kept:
                decoder, wrong = self._of_header(kept.pop(0)[0])
            if not kept or decoder is None:
                continue
            columns = parsed(decoder, pa.array([r for r, _ in kept], pa.binary()))
            if wrong is not None or marked:
                mask = pa.array([wrong is not None or long for _, long in kept])
                columns = _rejected(columns, mask, wrong or TOO_LONG, [r for r, _ in kept])
            yield columns

    def _of_header(self, record: bytes) -> tuple[CsvDecoder, str | None]:
        """The decoder of a file with this header, and why all of its records are rejected (None: they are not)."""
        targets, delimiter = self.decoder.targets, self.decoder.delimiter
        try:
            names = fields(record.decode(errors="replace"), delimiter, "", None)
        except NotStrict:
            return self.decoder, _NO_HEADER
        places, problem = by_name([name or "" for name in names], targets)
        if problem is None and not any(place is not None for place in places):
            problem = _NO_COLUMN
        return CsvDecoder(targets, tuple(places), delimiter, self.decoder.null), problem


def by_name(names: Sequence[str], targets: Sequence[Target]) -> tuple[list[int | None], str | None]:
    """Which target each field of a header fills: the one of its name, else of its name in another case. And why it
    can't be told, if it can't."""
    places: list[int | None] = [None] * len(names)
    for place, target in enumerate(targets):
        found = [i for i, name in enumerate(names) if name == target.name]
        found = found or [i for i, name in enumerate(names) if name.casefold() == target.name.casefold()]
        if len(found) > 1:
            return places, twice(target.name)
        if found:
            places[found[0]] = place
    return places, None


def _without_mark(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """Without the byte order mark that may begin a file."""
    first = b""
    while len(first) < len(codecs.BOM_UTF8) and (chunk := next(chunks, b"")):
        first += chunk
    yield first.removeprefix(codecs.BOM_UTF8)
    yield from chunks


def _rejected(
    columns: dict[str, pa.Array], mask: pa.Array, reason: str, records: list[bytes]
) -> dict[str, pa.Array]:
    """The rows of the mask rejected for this reason, without any values."""
    out = {}
    for name, column in columns.items():
        if name == "_why":
            column = pc.if_else(mask, reason, column)
        elif name == "_raw":
            column = pc.if_else(mask, pa.array([as_text(r) for r in records], pa.string()), column)
        else:
            column = pc.if_else(mask, pa.scalar(None, column.type), column)
        out[name] = column
    return out
