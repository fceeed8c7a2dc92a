"""What a pane is made of: its columns, their names, and how those of several panes are put together. Executor side."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tidegate.tasks.reading import NeedsSpark
from tidegate.watermark import PaneWindows, RowCondition, Sessions, Value

#: Times and sums beyond it might leave 64 bits on their way.
SAFE = 1 << 62
#: Names inside: of the pane's start in ticks, of a session's last row (only there), and of how many rows it has.
PANE, LAST, ROWS = "_pane", "_last", "_rows"
#: Spark's types of keys and of what is aggregated (`sql/views/pane_windows.py`).
_ARROW = {
    "int": pa.int32(),
    "bigint": pa.int64(),
    "double": pa.float64(),
    "string": pa.string(),
    "boolean": pa.bool_(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}


@dataclass(frozen=True)
class PanePart:
    """One column of a pane: `function` over `column` of the rows, and how panes are put together (`merge`)."""

    name: str
    column: str
    function: str
    merge: str


@cache
def by_position(pane_windows: PaneWindows) -> tuple[PaneWindows, tuple[str, ...]]:
    """The same over columns called `c0`, `c1`, …, and what those are called in the log: a name that a user has chosen
    stands beside none of panes, and means no path to pyarrow."""
    names: dict[str, str] = {}

    def placed(name: str) -> str:
        return names.setdefault(name, f"c{len(names)}")

    def value(of: Value | None) -> Value | None:
        return None if of is None else Value(placed(of.name), of.type)

    def condition(of: Any) -> Any:
        if isinstance(of, Value):
            return value(of)
        return (
            replace(of, operands=tuple(map(condition, of.operands))) if isinstance(of, RowCondition) else of
        )

    found = replace(
        pane_windows,
        time_column=placed(pane_windows.time_column),
        keys=tuple(k for key in pane_windows.keys if (k := value(key)) is not None),
        outputs=tuple(replace(output, value=value(output.value)) for output in pane_windows.outputs),
        condition=condition(pane_windows.condition),
    )
    return found, tuple(names)


def parts_of(pane_windows: PaneWindows) -> tuple[PanePart, ...]:
    """The parts that a view's aggregates need, each once."""
    found = {}
    for output in pane_windows.outputs:
        if output.value is None or output.function == "key":
            continue
        for function in ("sum", "count") if output.function == "avg" else (output.function,):
            name = part_name(function, output.value.name)
            merge = function if function in ("min", "max") else "sum"
            found[name] = PanePart(name, output.value.name, function, merge)
    return tuple(found.values())


def part_name(function: str, column: str) -> str:
    """The name of a part."""
    return f"_{function}_{column}"


def key_names(pane_windows: PaneWindows) -> list[str]:
    """The keys in panes: a view's key may be called like a part."""
    return [f"_key_{k.name}" for k in pane_windows.keys]


def bound_names(pane_windows: PaneWindows) -> list[str]:
    """Where a pane is in time."""
    return [PANE, LAST] if isinstance(pane_windows.window, Sessions) else [PANE]


def pane_names(pane_windows: PaneWindows) -> list[str]:
    """The columns of panes."""
    return [
        *bound_names(pane_windows),
        *key_names(pane_windows),
        ROWS,
        *(p.name for p in parts_of(pane_windows)),
    ]


def pane_schema(pane_windows: PaneWindows) -> pa.Schema:
    """Of panes, as they are in Arrow."""
    kinds = (
        [pa.int64() for _ in bound_names(pane_windows)]
        + [_ARROW[k.type] for k in pane_windows.keys]
        + [pa.int64()]
    )
    columns = {o.value.name: o.value.type for o in pane_windows.outputs if o.value is not None}
    for part in parts_of(pane_windows):
        kind = columns[part.column]
        if part.function in ("min", "max"):
            kinds.append(_ARROW[kind])
        else:
            kinds.append(pa.float64() if part.function == "sum" and kind == "double" else pa.int64())
    return pa.schema(zip(pane_names(pane_windows), kinds, strict=True))


def unread_pane(pane_windows: PaneWindows) -> pa.RecordBatch:
    """A pane without a start says that its task met what only Spark computes."""
    schema = pane_schema(pane_windows)
    return pa.RecordBatch.from_arrays([pa.nulls(1, field.type) for field in schema], schema=schema)


def says_unread(panes: pa.RecordBatch) -> bool:
    """Whether one of these is an `unread_pane`."""
    return bool(panes.column(PANE).null_count > 0)


def check_sum(column: pa.ChunkedArray) -> None:
    """Raises NeedsSpark where a sum of these integers might leave 64 bits on its way."""
    if not pa.types.is_integer(column.type):
        return
    bounds = pc.min_max(column)
    low, high = bounds["min"].as_py(), bounds["max"].as_py()
    if low is not None and max(-low, high) * len(column) >= SAFE:
        raise NeedsSpark
