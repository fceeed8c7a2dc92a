"""SOURCE_WATERMARK() (S1-S4): a watermark that trails the newest event time by what the rows' own disorder asks for."""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from tidegate.watermark.memory import StrategyMemory
from tidegate.watermark.timekind import TimeKind

_INT64 = np.iinfo(np.int64)
#: Stands for "undefined" among event times; nothing is below it.
_NONE = _INT64.min


@dataclass(frozen=True)
class SourceWatermark:
    """`WATERMARK FOR c AS SOURCE_WATERMARK()`; delays are in the unit of the column's kind.

    `window`: out-of-ordernesses kept (S1). `quantile`: of them, by nearest rank (S2). `interval`: rows from one
    estimate to the next (S4). `min_delay`, `max_delay`: the clamp (S2). `warm_up`: (last row, margin), ascending (S3).
    Raises ValueError for numbers that make no sense together.
    """

    window: int
    quantile: float
    interval: int
    min_delay: int
    max_delay: int
    warm_up: tuple[tuple[int, int], ...]

    def __post_init__(self) -> None:
        if self.window < 1 or self.interval < 1 or not 0 < self.quantile <= 1:
            raise ValueError(
                "window and interval are at least one row, the quantile is above 0 and at most 1"
            )
        if not 0 <= self.min_delay <= self.max_delay:
            raise ValueError("the shortest delay is at least 0 and at most the longest")
        bounds = [row for row, _ in self.warm_up]
        if bounds != sorted(set(bounds)) or any(row < 1 or margin < 0 for row, margin in self.warm_up):
            raise ValueError("the rows of the warm-up must increase, and its margins can't be negative")

    def describe(self, column: str, kind: TimeKind) -> str:
        """As SQL."""
        return "SOURCE_WATERMARK()"

    def offer(
        self, memory: StrategyMemory | None, event_time: np.ndarray, accepted: np.ndarray, leads: np.ndarray
    ) -> Offer:
        """The strategy's value for each of a partition's consecutive rows, and what to remember after them.

        `memory`: what an earlier call returned, None at first. `event_time` int64[n]. `accepted` bool[n]: rows that
        count (late ones included, W2). `leads` bool[n]: those of them that may raise the largest event time (not a
        row too far in the future, W9).
        """
        known = _Known.read(self, memory)
        newest = np.empty(len(event_time) + 1, dtype=np.int64)
        newest[0] = _NONE if known.newest is None else known.newest
        newest[1:] = np.where(leads, event_time, _NONE)
        np.maximum.accumulate(newest, out=newest)
        largest = newest[1:]
        valid = np.full(len(event_time), known.newest is not None) | np.logical_or.accumulate(leads)

        behind = _behind(largest, event_time)
        # A future row is ahead of the largest event time instead of behind it, and before the first row there is none.
        behind[~valid | (event_time > largest)] = 0
        history = np.concatenate((known.behind, behind[accepted]))
        row = known.rows + np.cumsum(accepted)
        rows = known.rows + int(np.count_nonzero(accepted))
        quantiles = np.array([known.quantile, *self._estimates(history, known, rows)], dtype=np.int64)

        bounds = np.array([bound for bound, _ in self.warm_up], dtype=np.int64)
        margins = np.array([margin for _, margin in self.warm_up] + [0], dtype=np.int64)
        used = (np.maximum(row, known.rows + 1) - 1) // self.interval - known.rows // self.interval
        delay = _plus(quantiles[used], margins[np.searchsorted(bounds, row)])
        delay = np.clip(delay, self.min_delay, self.max_delay)
        values = np.maximum(largest, _INT64.min + delay) - delay
        newest_now = int(newest[-1]) if known.newest is not None or valid[-1:].any() else None
        after = _Known(rows, int(quantiles[-1]), newest_now, history[-self.window :])
        return Offer(values, valid, after.write())

    def rows(self, memory: StrategyMemory | None) -> int:
        """How many rows the estimate rests on, or will."""
        tag, rows = (*memory.head, 0, 0)[:2] if memory is not None else (0, 0)
        return rows if tag == _TAG else 0

    def delay(self, memory: StrategyMemory | None) -> int:
        """How far the next row's value will trail the newest event time (S2, S3)."""
        known = _Known.read(self, memory)
        margin = next((margin for bound, margin in self.warm_up if known.rows < bound), 0)
        return min(max(known.quantile + margin, self.min_delay), self.max_delay)

    def resumed(self, rows: int, newest: int | None) -> StrategyMemory:
        """A memory to go on from in the middle of a partition, for estimates over a sample: rows seen and the newest
        event time are known, the rows' out-of-orderness is not, and is learned anew."""
        return _Known(rows, 0, newest, np.empty(0, dtype=np.int64)).write()

    def _estimates(self, history: np.ndarray, known: _Known, rows: int) -> Iterator[int]:
        """S4: the quantile after every `interval`th row of the partition that is among these."""
        first = known.rows // self.interval + 1
        for count in range(first * self.interval, rows + 1, self.interval):
            end = len(known.behind) + count - known.rows
            last = history[max(end - self.window, 0) : end]
            # As a fraction of what was written: 0.95 has no exact binary form, and 0.95 * 20 must be 19.
            rank = math.ceil(Fraction(repr(self.quantile)) * len(last))
            yield int(np.partition(last, rank - 1)[rank - 1])


class Offer(NamedTuple):
    """`values` int64[n], meaningful where `valid` bool[n]; `memory` after the last row."""

    values: np.ndarray
    valid: np.ndarray
    memory: StrategyMemory


#: First number of the memory, so that what another strategy left is not taken for this one's.
_TAG = zlib.crc32(b"out-of-orderness 1")


@dataclass(frozen=True)
class _Known:
    """Rows seen, the estimate in use, the largest event time (None: none yet), the last out-of-ordernesses."""

    rows: int
    quantile: int
    newest: int | None
    behind: np.ndarray

    @classmethod
    def read(cls, strategy: SourceWatermark, memory: StrategyMemory | None) -> _Known:
        numbers = memory.of(_TAG) if memory is not None else None
        if numbers is None:
            return cls(0, 0, None, np.empty(0, dtype=np.int64))
        newest = int(numbers[3]) if numbers[2] else None
        return cls(int(numbers[0]), int(numbers[1]), newest, numbers[4:][-strategy.window :])

    def write(self) -> StrategyMemory:
        head = np.array(
            [_TAG, self.rows, self.quantile, self.newest is not None, self.newest or 0], dtype=np.int64
        )
        return StrategyMemory(np.concatenate((head, self.behind)))


def _behind(largest: np.ndarray, event_time: np.ndarray) -> np.ndarray:
    """largest - event_time where it is positive, stopping at the end of int64 instead of wrapping around."""
    with np.errstate(over="ignore"):
        difference: np.ndarray = largest - event_time
    difference[(largest >= event_time) & (difference < 0)] = _INT64.max
    return difference


def _plus(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The sum of numbers that are not negative, stopping at the end of int64."""
    total: np.ndarray = np.minimum(a, _INT64.max - b) + b
    return total
