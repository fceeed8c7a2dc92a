"""Arrow's values as those of a SELECT, which `console/values.py` prints: structs with the names of their fields, maps
as dictionaries, and times outside of Python's calendar as texts."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from tidegate.watermark import TimeKind


class _Struct(tuple[Any, ...]):
    """A struct, as PySpark's Row has it: values in order, and the names of its fields."""

    __fields__: list[str]


def values_of(column: pa.ChunkedArray) -> list[Any]:
    """The values of a column. A time whose year Python does not have comes as text, as Spark writes it, and so do all
    that stand beside it in an array, a map or a struct."""
    if not pa.types.is_nested(column.type) and not pa.types.is_temporal(column.type):
        return list(column.to_pylist())
    return [_value(one) for one in column]


def _value(scalar: pa.Scalar) -> Any:
    try:
        return _python(scalar, False)
    except (ValueError, OverflowError):
        return _python(scalar, True)


def _python(scalar: pa.Scalar, in_text: bool) -> Any:
    if not scalar.is_valid:
        return None
    kind = scalar.type
    if pa.types.is_struct(kind):
        found = _Struct(_python(one, in_text) for one in scalar.values())
        found.__fields__ = [field.name for field in kind]
        return found
    if pa.types.is_map(kind):
        pairs = scalar.values
        keys, items = pairs.field(0), pairs.field(1)
        return {_python(k, in_text): _python(v, in_text) for k, v in zip(keys, items, strict=True)}
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return [_python(one, in_text) for one in scalar.values]
    if in_text and pa.types.is_timestamp(kind):
        return TimeKind.format(TimeKind.TIMESTAMP, scalar.value)
    if in_text and pa.types.is_date32(kind):
        return TimeKind.format(TimeKind.DATE, scalar.value)
    return scalar.as_py()
