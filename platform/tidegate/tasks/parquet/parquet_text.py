"""A row of a file as text, for the one that is rejected: its values as they are stored, as JSON. Executor side."""

from __future__ import annotations

import json
import math
from typing import Any

import pyarrow as pa

from tidegate.tasks.decode.raw_text import in_base64
from tidegate.tasks.parquet.parquet_limits import sizes

#: Of a value with more bytes, or more values in it, a text that is cut says only that.
_LARGE = 1 << 16


def row_text(batch: pa.RecordBatch, row: int, cut: bool = False) -> str:
    """A row's values as they are stored, as JSON. `cut`: of a large value only how large it is."""
    values = []
    for i, name in enumerate(batch.schema.names):
        one = batch.column(i).slice(row, 1)
        bytes_, count = (int(each[0]) for each in sizes(one)) if cut else (0, 0)
        large = bytes_ > _LARGE or count > _LARGE
        value = f"… {bytes_:,} bytes, {count:,} values" if large else _plain(one[0])
        # Two columns of a file may have the same name.
        values.append(f"{_json(name)}: {_json(value)}")
    return f"{{{', '.join(values)}}}"


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


def _plain(scalar: pa.Scalar) -> Any:
    """What JSON has for a value."""
    if isinstance(scalar, pa.DictionaryScalar):
        return _plain(scalar.value)
    if not scalar.is_valid:
        return None
    if isinstance(scalar, pa.StructScalar):
        return {name: _plain(scalar[i]) for i, name in enumerate(scalar.type.names)}
    if isinstance(scalar, pa.ListScalar | pa.LargeListScalar | pa.FixedSizeListScalar | pa.MapScalar):
        return [_plain(value) for value in scalar.values]
    try:
        if pa.types.is_temporal(scalar.type):
            return scalar.cast(pa.string()).as_py()
        value = scalar.as_py()
    except (ValueError, OverflowError, pa.ArrowException):
        # Text that is no UTF-8, a time beyond what Arrow writes.
        value = scalar.as_buffer().to_pybytes() if hasattr(scalar, "as_buffer") else scalar.value
    if isinstance(value, bytes):
        return in_base64(value)
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
