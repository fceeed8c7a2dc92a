"""Why rows are rejected (W5); of those that were parsed said in Arrow as `shape.reason` says it in Spark. Executor
side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

#: Of a message.
NULL_VALUE, INVALID_UTF8 = "null_value", "invalid_utf8"
#: Of a row that was put aside, since it ends the process that decodes it (X2).
CRASHED = "crashed_decoder"


def reasons(
    rows: int, columns: Mapping[str, pa.Array], time_column: str | None, required: Sequence[str]
) -> pa.Array:
    """`null_event_time`, then `not_null: …`, for each of `rows` rows; NULL for one that is accepted."""
    found = pa.nulls(rows, pa.string())
    checks = [(name, not_null(name)) for name in reversed(required)]
    if time_column is not None:
        checks.append((time_column, "null_event_time"))
    for name, reason in checks:
        found = where_null(columns[name], reason, found)
    return found


def misfit(column: str, kind: str) -> str:
    """The reason of a row with a value that its column can't hold. The value itself stands in the raw text alone."""
    return f'unparseable: column "{column}" wants {kind}'


def not_null(column: str) -> str:
    """The reason of a row without a value that it must have."""
    return f'not_null: column "{column}" is NULL'


def twice(column: str) -> str:
    """The reason of rows that say a column twice."""
    return f'unparseable: column "{column}" is there twice'


def where_null(column: pa.Array, reason: str, otherwise: pa.Array) -> pa.Array:
    """`reason` where the column is NULL."""
    return pc.if_else(column.is_null(), reason, otherwise) if column.null_count else otherwise
