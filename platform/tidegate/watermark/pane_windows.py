"""Windows, keys and aggregates of one relation, and nothing else: what can be put together from parts, without SQL."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import TypeAlias, Union

from tidegate.watermark.timekind import TimeKind
from tidegate.watermark.windows import Hop, Sessions, Tumble


@dataclass(frozen=True)
class Value:
    """A column of the relation, of a Spark type."""

    name: str
    type: str


@dataclass(frozen=True)
class Aggregate:
    """One column of the result: `function` is count, sum, avg, min or max of `value` (None: of rows), or what a group
    shares: key, window_start or window_end."""

    name: str
    function: str
    value: Value | None


@dataclass(frozen=True)
class RowCondition:
    """What rows have to fulfil, in the logic of three values. `operator` and its operands:

    `=`, `<>`, `<`, `<=`, `>`, `>=` of two; `%` of a value and a number above 0; `in` of a value and constants;
    `is null` of one; `and`, `or` of two; `not` of one. An operand is a column, a constant (in panes a whole number,
    text or boolean), or what another condition gives.
    """

    operator: str
    operands: tuple[Operand, ...]


#: Times are dates and datetimes, those with a time zone in UTC.
Constant: TypeAlias = int | str | bool | float | Decimal | date
Operand: TypeAlias = Union["RowCondition", Value, Constant]


@dataclass(frozen=True)
class PaneWindows:
    """Groups of each window's rows that agree in `keys`, and their aggregates. Times are of `kind`, a timestamp's;
    `condition`: of rows that take part (a column that is a boolean is one, too), None: all. Sessions are those of the
    rows that agree in `keys`, and without a condition."""

    window: Tumble | Hop | Sessions
    kind: TimeKind
    time_column: str
    keys: tuple[Value, ...]
    outputs: tuple[Aggregate, ...]
    condition: RowCondition | Value | None = None
