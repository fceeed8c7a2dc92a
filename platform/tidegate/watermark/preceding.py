"""Windows over the preceding rows of a partition in arrival order, inside a strategy (W11): outlier removal.

The rows are those that were judged, late ones included and rejected ones not (W2). What later rows need of them is
remembered with the partition's state (R1): the last values of each argument, nothing else.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass, field

import numpy as np

from tidegate.watermark.memory import StrategyMemory

FUNCTIONS = ("max", "min", "sum", "count", "avg", "lag", "first_value")

_INT64 = np.iinfo(np.int64)


@dataclass(frozen=True)
class PrecedingRows:
    """`function(argument) OVER (ROWS BETWEEN start PRECEDING AND end PRECEDING)`; `end` 0 is CURRENT ROW.

    `argument`: Spark SQL over the row. `type`: its Spark type, an integer, a double, a time or a date. `result_type`:
    Spark type of the result. Of `lag`, `start` and `end` are both the number of rows that it looks back. `safe`: the
    argument so that it fails on no row (C7), where that is another text.
    """

    function: str
    argument: str
    start: int
    end: int
    type: str
    result_type: str
    # No part of what memories and logs are compared with (R1, R4): they are of the time before there was one, too.
    safe: str | None = field(default=None, repr=False)

    @property
    def sql(self) -> str:
        """What Spark is asked for the argument."""
        return self.safe or self.argument

    @property
    def is_float(self) -> bool:
        """Whether the argument's values are float64, not int64."""
        return self.type == "double"


@dataclass(frozen=True)
class Values:
    """A column: `numbers` int64[n] or float64[n], meaningful where `valid` bool[n]; elsewhere NULL."""

    numbers: np.ndarray
    valid: np.ndarray

    def take(self, rows: np.ndarray) -> Values:
        """Those at the indices, or where the mask is true."""
        return Values(self.numbers[rows], self.valid[rows])


def recall(windows: tuple[PrecedingRows, ...], memory: StrategyMemory | None) -> list[Values]:
    """The last values of each window's argument that `remember` stored, oldest first; none for another memory."""
    numbers = memory.of(_tag(windows)) if memory is not None else None
    if numbers is None:
        none = np.empty(0, dtype=bool)
        return [Values(np.empty(0, dtype=_dtype(w)), none) for w in windows]
    out: list[Values] = []
    at = 0
    for window in windows:
        n = int(numbers[at])
        values: np.ndarray = numbers[at + 1 : at + 1 + n].view(_dtype(window))
        out.append(Values(values, numbers[at + 1 + n : at + 1 + 2 * n].astype(bool)))
        at += 1 + 2 * n
    return out


def remember(
    windows: tuple[PrecedingRows, ...], memory: StrategyMemory | None, judged: list[Values]
) -> StrategyMemory:
    """The memory after these rows of one partition, which were all judged; one column for each window."""
    parts = [np.array([_tag(windows)], dtype=np.int64)]
    for window, before, new in zip(windows, recall(windows, memory), judged, strict=True):
        keep = window.start
        numbers = np.concatenate((before.numbers, new.numbers))
        valid = np.concatenate((before.valid, new.valid))
        numbers, valid = (
            numbers[len(numbers) - min(keep, len(numbers)) :],
            valid[len(valid) - min(keep, len(valid)) :],
        )
        parts += [np.array([len(numbers)]), numbers.view(np.int64), valid.astype(np.int64)]
    return StrategyMemory(np.concatenate(parts))


def over(window: PrecedingRows, before: Values, judged: Values) -> Values:
    """The window's value for each of a partition's consecutive judged rows; `before`: what was remembered (`recall`).

    NULLs are left out, as in SQL (`lag` and `first_value` return them); an empty frame gives NULL, of `count` 0.
    """
    n, length = len(judged.numbers), window.start - window.end + 1
    numbers = np.concatenate((before.numbers, judged.numbers))
    valid = np.concatenate((before.valid, judged.valid))
    known = len(numbers)
    if window.function in ("lag", "first_value"):
        # The oldest row of each frame: `start` back, or the first row that there is.
        last = np.arange(len(before.numbers), known) - window.end
        oldest = last + window.end - window.start
        at = oldest if window.function == "lag" else np.maximum(oldest, 0)
        inside = (at >= 0) & (last >= 0)
        taken = Values(numbers, valid).take(np.where(inside, at, 0)) if known else judged
        return Values(taken.numbers, taken.valid & inside)
    # Rows before the first are as good as NULLs; so is the end of a frame that stops short of the current row.
    missing = max(window.start - len(before.numbers), 0)
    skip = len(before.numbers) + missing - window.start
    numbers = np.concatenate((np.zeros(missing, dtype=numbers.dtype), numbers))[skip:]
    valid = np.concatenate((np.zeros(missing, dtype=bool), valid))[skip:]
    numbers, valid = numbers[: n + length - 1], valid[: n + length - 1]
    counts = np.concatenate(([0], np.cumsum(valid)))
    count = counts[length : length + n] - counts[:n]
    if window.function == "count":
        return Values(count, np.ones(n, dtype=bool))
    some = count > 0
    if window.function in ("max", "min"):
        return Values(_extreme(numbers, valid, length, n, window.function == "max"), some)
    total, fits = _sum(np.where(valid, numbers, 0), length, n, exact=window.function == "sum")
    if window.function == "sum":
        return Values(total, some & fits)
    return Values(total / np.maximum(count, 1), some)


def _extreme(numbers: np.ndarray, valid: np.ndarray, length: int, n: int, largest: bool) -> np.ndarray:
    """The largest or smallest number of each frame: frames of doubled length, twice over each other at the end."""
    is_float = numbers.dtype == np.float64
    keys = _keys(numbers) if is_float else numbers
    pick = np.maximum if largest else np.minimum
    level = np.where(valid, keys, _INT64.min if largest else _INT64.max)
    width = 1
    while width * 2 <= length:
        level = pick(level[:-width], level[width:])
        width *= 2
    out = pick(level[:n], level[length - width : length - width + n])
    return _flipped(out).view(np.float64) if is_float else out


def _keys(numbers: np.ndarray) -> np.ndarray:
    """int64 in the order of these float64, NaN as the largest (as in Spark)."""
    return _flipped(np.where(np.isnan(numbers), np.nan, numbers).view(np.int64))


def _flipped(bits: np.ndarray) -> np.ndarray:
    """Between the bits of float64 and integers in the same order: of negative numbers, all bits but the sign."""
    return np.where(bits < 0, bits ^ _INT64.max, bits)


def _sum(numbers: np.ndarray, length: int, n: int, exact: bool) -> tuple[np.ndarray, np.ndarray]:
    """The sum of each frame, added from the oldest row to the newest whatever the batch (W4), and where it fits into
    64 bits. `exact`: integers stay integers."""
    total, shadow = np.zeros(n, dtype=numbers.dtype), np.zeros(n)
    with np.errstate(over="ignore", invalid="ignore"):
        for place in range(length):
            total += numbers[place : place + n]
            shadow += numbers[place : place + n]
    if numbers.dtype == np.float64 or not exact:
        return shadow, np.ones(n, dtype=bool)
    # Wrapped around, the integer is off by a multiple of 2^64; the floating-point sum is never off by so much.
    return total, np.abs(shadow - total.astype(np.float64)) < 2.0**62


def _dtype(window: PrecedingRows) -> type:
    return np.float64 if window.is_float else np.int64


def _tag(windows: tuple[PrecedingRows, ...]) -> int:
    """First number of the memory, so that what another strategy left is not taken for this one's."""
    return zlib.crc32(repr(windows).encode())
