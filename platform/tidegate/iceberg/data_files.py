"""Data files as Iceberg describes them in JSON, Arrow schemas as its tasks write them, and the small file of a log's
progress that each of its commits has."""

from __future__ import annotations

import struct
import uuid
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from tidegate.iceberg.layout import PROGRESS
from tidegate.project.object_store import make_folder, read_whole
from tidegate.tasks.writer import WriteTarget
from tidegate.watermark import TimeKind

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from tidegate.iceberg.protocol import Snapshot
    from tidegate.project import Storage

    Content = Mapping[str, Any]


def content_file(file: dict[str, Any], target: WriteTarget) -> dict[str, Any]:
    """Iceberg's JSON form of a data file (partition fields are numbered from 1000 by the specification)."""
    partition = {"1000": file["split"]}
    if target.day is not None:
        day = file["day"]
        partition["1001"] = None if day is None else TimeKind.format(TimeKind.DATE, day)
    low: dict[str, list[Any]] = {"keys": [], "values": []}
    high: dict[str, list[Any]] = {"keys": [], "values": []}
    for number, *packed in packed_bounds(file, target):
        for side, value in zip((low, high), packed, strict=True):
            side["keys"].append(number)
            side["values"].append(value.hex().upper())
    return {
        "spec-id": 0,
        "content": "data",
        "file-path": file["uri"],
        "file-format": "parquet",
        "partition": partition,
        "file-size-in-bytes": file["bytes"],
        "record-count": file["rows"],
        "lower-bounds": low,
        "upper-bounds": high,
    }


def in_spec(file: Content, number: int, fields: Sequence[int]) -> Content:
    """`content_file` for a table's partition spec of this number, whose fields have these ids: those of a view whose
    window ends have become another column have others than 1000 and 1001 (E2). A value under an id that the spec does
    not have would be NULL, and filters would leave out its file."""
    values = file["partition"].values()
    return {**file, "spec-id": number, "partition": dict(zip(map(str, fields), values, strict=False))}


def packed_bounds(file: dict[str, Any], target: WriteTarget) -> Iterator[tuple[int, bytes, bytes]]:
    """Of each column that a data file has bounds of: its id, and the least and the greatest value as Iceberg writes
    them."""
    for name, (least, greatest) in file["bounds"].items():
        narrow = pa.types.is_date(kind := target.schema.field(name).type) or pa.types.is_int32(kind)
        form = "<i" if narrow else "<q"
        yield target.field_id(name), struct.pack(form, least), struct.pack(form, greatest)


def target_in(
    location: str,
    schema: pa.Schema,
    storage: Storage,
    split: str,
    day: str | None,
    bounds: tuple[str, ...],
    reading: bool,
    elsewhere: str | None = None,
) -> WriteTarget:
    """How tasks write files for the table at `location`; or, `reading`, where its files are: then nothing is made.
    `schema`: pyiceberg's; `elsewhere`: the folder of the files, if that is not the table's own."""
    uri = elsewhere or f"{location}/data"
    filesystem, path = storage.filesystem(uri)
    if not reading:
        make_folder(filesystem, path)
    return WriteTarget(filesystem, path, uri, ordinary(schema), split, day, bounds)


@lru_cache(maxsize=256)
def schema_in(text: str) -> pa.Schema:
    """An Iceberg schema in JSON as pyiceberg's Arrow schema. A table's is asked for at each tick, and seldom
    changes."""
    from pyiceberg.io.pyarrow import schema_to_pyarrow
    from pyiceberg.schema import Schema

    return schema_to_pyarrow(Schema.model_validate_json(text))


def bound(bounds: dict[str, list[Any]] | None, column: int) -> int | None:
    """A column's bound in Iceberg's JSON form of a data file."""
    values = dict(zip(bounds["keys"], bounds["values"], strict=True)) if bounds else {}
    # Of 32 bits where the column was narrower when the file was written.
    return int.from_bytes(bytes.fromhex(values[column]), "little", signed=True) if column in values else None


def ordinary(schema: pa.Schema) -> pa.Schema:
    """pyiceberg's Arrow schema with ordinary strings, binaries and lists instead of the large ones."""

    def field(f: pa.Field) -> pa.Field:
        return f.with_type(kind(f.type))

    def kind(t: pa.DataType) -> pa.DataType:
        if pa.types.is_large_string(t):
            return pa.string()
        if pa.types.is_large_binary(t):
            return pa.binary()
        if pa.types.is_struct(t):
            return pa.struct([field(f) for f in t])
        if pa.types.is_large_list(t) or pa.types.is_list(t):
            return pa.list_(field(t.value_field))
        if pa.types.is_map(t):
            return pa.map_(field(t.key_field), field(t.item_field))
        return t

    return pa.schema([field(f) for f in schema])


def progress_again(snapshot: Snapshot, target: WriteTarget) -> dict[str, Any]:
    """The file of the newest commit's progress once more, for a commit of which that file is no part: a compaction has
    put its rows into another one. Its description."""
    epoch = snapshot.integer("tidegate.epoch")
    assert epoch is not None
    content = read_whole(target.filesystem, path_of(snapshot.summary["tidegate.progress"], target))
    name = progress_name(epoch)
    with target.filesystem.open_output_stream(f"{target.data_path}/{name}") as file:
        file.write(content)
    rows = pq.ParquetFile(pa.BufferReader(content)).metadata.num_rows
    return progress_file(target, name, epoch, rows)


def progress_name(epoch: int) -> str:
    """That nothing has had."""
    return f"progress-{epoch:08d}-{uuid.uuid4().hex[:12]}.parquet"


def path_of(uri: str, target: WriteTarget) -> str:
    """Of a file of a table, as `target.filesystem` knows it."""
    return target.data_path + uri.removeprefix(target.data_uri)


def progress_file(target: WriteTarget, name: str, epoch: int, rows: int) -> dict[str, Any]:
    """A file of progress rows, for the commit."""
    return {
        "uri": f"{target.data_uri}/{name}",
        "rows": rows,
        "bytes": target.filesystem.get_file_info(f"{target.data_path}/{name}").size,
        "split": PROGRESS,
        "day": None,
        "bounds": {"_epoch": [epoch, epoch]},
    }
