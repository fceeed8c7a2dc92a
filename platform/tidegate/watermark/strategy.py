"""Watermark strategies (W11): what a row says the watermark could be. Frozen configuration."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tidegate.watermark.outoforder import SourceWatermark
from tidegate.watermark.preceding import PrecedingRows
from tidegate.watermark.timekind import TimeKind

_INT64 = np.iinfo(np.int64)


@dataclass(frozen=True)
class Column:
    """`WATERMARK FOR c AS c`: the largest event time seen."""

    def describe(self, column: str, kind: TimeKind) -> str:
        """As SQL."""
        return column

    def values(self, event_time: np.ndarray) -> np.ndarray:
        """int64[n] in, the same values out."""
        return event_time


@dataclass(frozen=True)
class Delay:
    """`WATERMARK FOR c AS c - INTERVAL …`: `ticks` behind the largest event time seen, in the unit of the
    column's kind. Negative ticks run ahead of it (`c + INTERVAL …`). Raises ValueError beyond 64 bits.
    """

    ticks: int

    def __post_init__(self) -> None:
        if abs(self.ticks) > _INT64.max:
            raise ValueError(f"a delay of {self.ticks} does not fit into 64 bits")

    def describe(self, column: str, kind: TimeKind) -> str:
        """As SQL: `ts - INTERVAL '10 seconds'`, or `ts - 10` for an integer column."""
        if self.ticks == 0:
            return column
        length = kind.format_duration(abs(self.ticks))
        if kind is not TimeKind.EPOCH:
            length = f"INTERVAL '{length}'"
        return f"{column} {'-' if self.ticks > 0 else '+'} {length}"

    def values(self, event_time: np.ndarray) -> np.ndarray:
        """int64[n] in, int64[n] out. Stops at the ends of int64 instead of wrapping around: wrapped, an event
        time near the minimum would make every other row late.
        """
        bounded: np.ndarray
        if self.ticks >= 0:
            bounded = np.maximum(event_time, _INT64.min + self.ticks)
        else:
            bounded = np.minimum(event_time, _INT64.max + self.ticks)
        values: np.ndarray = bounded - self.ticks
        return values


@dataclass(frozen=True)
class Expression:
    """`WATERMARK FOR c AS <any expression over the row>`, as Spark SQL text. The engine evaluates it per
    row and hands the values to the gate; NULL raises nothing (W2).

    `sql` may name the column `PROC_TIME`, the batch's recorded clock; `preceding`: what it names as `preceding_column`.
    """

    sql: str
    preceding: tuple[PrecedingRows, ...] = ()

    def __repr__(self) -> str:
        # Part of what a stored log is compared with (R4): logs from before there were windows stay what they are.
        windows = f", preceding={self.preceding!r}" if self.preceding else ""
        return f"Expression(sql={self.sql!r}{windows})"

    def describe(self, column: str, kind: TimeKind) -> str:
        """As SQL."""
        return self.sql


Strategy = Column | Delay | Expression | SourceWatermark

#: Column of an `Expression` for PROC_TIME(): TIMESTAMPTZ, one value per micro-batch (W4, W11).
PROC_TIME = "_proc_time"


def preceding_column(index: int) -> str:
    """Column of an `Expression` for its window of this index."""
    return f"_preceding_{index}"
