"""How much a row, a page or a row group of Parquet may be (X2), found before it takes the memory. Executor side."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow.fs import FileSystem

from tidegate.tasks.decode.fitting import entries
from tidegate.tasks.decode.limits import Limits
from tidegate.tasks.parquet.chunks import RowGroup, largest_page


def too_deep(schema: pa.Schema, names: Sequence[str], limits: Limits) -> str | None:
    """Why no row of a file is read: one of the columns is nested too deeply."""
    return limits.too_deep if any(_depth(schema.field(n).type) > limits.depth for n in names) else None


def refusal(
    filesystem: FileSystem, path: str, group: RowGroup, names: Sequence[str], limits: Limits
) -> str | None:
    """Why no row of a row group is read. Pages are looked at only where all of them together are beyond the limit."""
    if group.rows > limits.group_rows:
        return limits.too_many_rows
    for chunk in group.chunks:
        large = chunk.column in names and chunk.uncompressed > limits.page_bytes
        if large and largest_page(filesystem, path, chunk) > limits.page_bytes:
            return limits.too_large_page
    return None


def in_bounds(
    batch: pa.RecordBatch, limits: Limits, most: int, beside: Sequence[str] = ()
) -> Iterator[tuple[pa.RecordBatch, str | None]]:
    """The batch in parts of about `most` bytes once their dictionaries are written out; a row that is beyond a limit is
    alone, with the reason. `beside`: columns whose values are NULL in a row that is beyond a limit with them. Raises
    ArrowIndexError for a value that its dictionary does not have."""
    nested = any(pa.types.is_nested(c.type) or pa.types.is_dictionary(c.type) for c in batch.columns)
    if not nested and batch.nbytes <= min(limits.row_bytes, most):
        yield batch, None
        return
    none = (np.zeros(batch.num_rows, dtype=np.int64),) * 2
    both = {name: sizes(batch.column(name)) for name in batch.schema.names}
    bytes_, values = map(_total, zip(none, *(both[n] for n in both if n not in beside), strict=True))
    long, many = bytes_ > limits.row_bytes, values > limits.values
    if beside:
        with_bytes, with_values = map(_total, zip(*both.values(), strict=True))
        emptied = (with_bytes > limits.row_bytes) | (with_values > limits.values)
        bytes_ = np.where(emptied, bytes_, with_bytes)
        rows = pa.array(np.arange(batch.num_rows), mask=emptied)
        for place in [i for i, name in enumerate(both) if name in beside and emptied.any()]:
            batch = batch.set_column(place, batch.schema.field(place), batch.column(place).take(rows))
    over = np.flatnonzero(long | many)
    cuts = np.flatnonzero(np.diff(np.cumsum(bytes_) // most)) + 1
    bounds = np.unique(np.concatenate([[0, batch.num_rows], cuts, over, over + 1]))
    for start, end in pairwise(bounds.tolist()):
        why = limits.too_long if long[start] else limits.too_many if many[start] else None
        yield batch.slice(start, end - start), why


def sizes(array: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """Of each value how many bytes it has as it is stored, and how many values it has in it."""
    kind = array.type
    if isinstance(kind, pa.ExtensionType):
        return sizes(array.storage)
    if pa.types.is_dictionary(kind):
        lengths, _ = sizes(array.dictionary)
        found = pa.array(lengths).take(array.indices)
        return _numbers(found), np.ones(len(array), dtype=np.int64)
    if pa.types.is_struct(kind):
        fields = [sizes(child) for child in array.flatten()] or [(np.zeros(len(array), dtype=np.int64),) * 2]
        bytes_, values = map(_total, zip(*fields, strict=True))
        return bytes_, values
    if pa.types.is_map(kind):
        offsets, (keys, items) = entries(array)
        return _of_items(offsets, *map(_total, zip(sizes(keys), sizes(items), strict=True)))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        offsets = np.asarray(array.offsets, dtype=np.int64)
        items = array.values.slice(offsets[0], offsets[-1] - offsets[0])
        return _of_items(offsets - offsets[0], *sizes(items))
    if pa.types.is_fixed_size_list(kind):
        lengths = _numbers(pc.list_value_length(array))
        return _of_items(np.concatenate([[0], np.cumsum(lengths)]), *sizes(array.flatten()))
    if pa.types.is_null(kind):
        return np.zeros(len(array), dtype=np.int64), np.ones(len(array), dtype=np.int64)
    if pa.types.is_primitive(kind) or pa.types.is_decimal(kind) or pa.types.is_fixed_size_binary(kind):
        size = (kind.bit_width + 7) // 8
        return np.full(len(array), size, dtype=np.int64), np.ones(len(array), dtype=np.int64)
    if pa.types.is_string_view(kind) or pa.types.is_binary_view(kind):
        array = array.cast(pa.large_binary())
    return _numbers(pc.binary_length(array)), np.ones(len(array), dtype=np.int64)


def _total(parts: Sequence[np.ndarray]) -> np.ndarray:
    """Of each row, over all parts."""
    total: np.ndarray = np.add.reduce(parts, axis=0, dtype=np.int64)
    return total


def _of_items(offsets: np.ndarray, bytes_: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Of each list, from those of its items."""
    own, inside = (np.diff(np.concatenate([[0], np.cumsum(each)])[offsets]) for each in (bytes_, values))
    return own, inside + 1


def _numbers(array: pa.Array) -> np.ndarray:
    return np.asarray(array.fill_null(0), dtype=np.int64)


def _depth(kind: pa.DataType) -> int:
    if isinstance(kind, pa.ExtensionType):
        return _depth(kind.storage_type)
    if pa.types.is_map(kind):
        return 1 + max(_depth(kind.key_type), _depth(kind.item_type))
    if not pa.types.is_nested(kind):
        return 0
    return 1 + max((_depth(kind.field(i).type) for i in range(kind.num_fields)), default=0)
