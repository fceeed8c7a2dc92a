"""The types of the columns that hold the columns of a Parquet file. Executor side."""

from __future__ import annotations

import pyarrow as pa

from tidegate.plan.columns.undeclared import LONGEST_TYPE, is_inner_name

_PLAIN: dict[pa.DataType, str] = {
    pa.bool_(): "boolean",
    pa.int8(): "int",
    pa.int16(): "int",
    pa.int32(): "int",
    pa.uint8(): "int",
    pa.uint16(): "int",
    pa.int64(): "bigint",
    pa.uint32(): "bigint",
    pa.float16(): "float",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.string(): "string",
    pa.large_string(): "string",
    pa.binary(): "binary",
    pa.large_binary(): "binary",
    pa.date32(): "date",
}
#: Steps of one type: a stranger has made the file (X2).
_STEPS = 200


def spark_type(kind: pa.DataType) -> str | None:
    """The Spark type that has all values of an Arrow type, as a definition would say it; None if there is none."""
    found = _spark_type(kind, [_STEPS])
    return found if found is not None and len(found) <= LONGEST_TYPE else None


def _spark_type(kind: pa.DataType, left: list[int]) -> str | None:
    left[0] -= 1
    if left[0] < 0:
        return None
    if pa.types.is_dictionary(kind):
        return _spark_type(kind.value_type, left)
    if kind in _PLAIN:
        return _PLAIN[kind]
    if pa.types.is_timestamp(kind):
        # (Of nanoseconds not all are values of a column.)
        return None if kind.unit == "ns" else "timestamp" if kind.tz else "timestamp_ntz"
    if pa.types.is_decimal128(kind):
        return f"decimal({kind.precision},{kind.scale})" if 0 <= kind.scale <= kind.precision else None
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        item = _spark_type(kind.value_type, left)
        return None if item is None else f"array<{item}>"
    if pa.types.is_map(kind):
        key, item = _spark_type(kind.key_type, left), _spark_type(kind.item_type, left)
        return None if key != "string" or item is None else f"map<string,{item}>"
    return _struct(kind, left) if pa.types.is_struct(kind) else None


def _struct(kind: pa.StructType, left: list[int]) -> str | None:
    parts: dict[str, str] = {}
    for field in kind:
        inner = _spark_type(field.type, left)
        if inner is None or not is_inner_name(field.name):
            return None
        parts[field.name] = inner
    if not parts or len({name.casefold() for name in parts}) < kind.num_fields:
        return None
    return f"struct<{','.join(f'{name}:{inner}' for name, inner in parts.items())}>"
