"""The delays that are looked at: few enough to count rows for each of them, round enough for people to write."""

from __future__ import annotations

from functools import cache

import numpy as np

from tidegate.watermark import TimeKind

_MS, _SECOND = 1_000, 1_000_000
_MINUTE, _HOUR, _DAY = 60 * _SECOND, 3_600 * _SECOND, 86_400 * _SECOND

#: (up to, step) in microseconds, from 0 on: a delay is a tenth longer than it had to be at worst, mostly 1 %.
_MICROS = (
    (_MS, 100),
    (100 * _MS, _MS),
    (_SECOND, 10 * _MS),
    (10 * _SECOND, 100 * _MS),
    (_MINUTE, _SECOND),
    (10 * _MINUTE, 5 * _SECOND),
    (_HOUR, 30 * _SECOND),
    (6 * _HOUR, _MINUTE),
    (_DAY, 5 * _MINUTE),
    (7 * _DAY, _HOUR),
    (60 * _DAY, _DAY),
    (364 * _DAY, 8 * _DAY),
    (3_650 * _DAY, 30 * _DAY),
)
_DAYS = ((400, 1), (3_650, 30))
#: An integer column, whose unit nobody states: two digits that count.
_INTEGERS = ((100, 1), *((10**power, 10 ** (power - 2)) for power in range(3, 19)))


@cache
def delays(kind: TimeKind) -> np.ndarray:
    """int64[n], ascending from 0, in ticks of the kind; below 2,000 of them, whatever the data are."""
    steps = {TimeKind.DATE: _DAYS, TimeKind.EPOCH: _INTEGERS}.get(kind, _MICROS)
    parts, start = [], 0
    for end, step in steps:
        parts.append(np.arange(start, end, step, dtype=np.int64))
        start = end
    return np.concatenate([*parts, np.array([start], dtype=np.int64)])


def place(values: np.ndarray, points: np.ndarray) -> np.ndarray:
    """For each value (int64[n]) the index of the smallest point that is not below it; len(points) beyond the last."""
    return np.searchsorted(points, values, side="left")


def quantile(counts: np.ndarray, points: np.ndarray, share: float) -> int | None:
    """The nearest-rank quantile of counted values (`counts` int64[len(points) + 1 or more], the last ones beyond every
    point), rounded up to a point; None without values, or where it is beyond the last point."""
    total = int(counts.sum())
    if total == 0:
        return None
    rank = max(1, -(-round(share * 10_000) * total // 10_000))
    index = int(np.searchsorted(np.cumsum(counts), rank, side="left"))
    return int(points[index]) if index < len(points) else None
