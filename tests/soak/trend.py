"""Flat or growing: a straight line through a series of samples, and what it says. Plain Python."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Limit:
    """When a series counts as growing: its line rises, from the end of the warm-up to the end, by more than `share` of
    its level and by more than `amount` (in the series' unit), and by more than the samples scatter around it; and its
    peaks rise by as much. (Memory that is collected and files that are put together go up and down: the line through
    half a tooth of a saw rises, its peaks don't.)"""

    share: float = 0.10
    amount: float = 0.0


@dataclass(frozen=True)
class Trend:
    """The line through one series. `level`: its median. `per_hour`: the slope. `rise`: over the time that was
    looked at. `scatter`: how far the samples are from the line (standard deviation). `peaks`: by how much the highest
    tenth of the last third of the time begins above that of the first."""

    name: str
    unit: str
    samples: int
    level: float
    highest: float
    per_hour: float
    rise: float
    scatter: float
    peaks: float
    growing: bool

    @property
    def verdict(self) -> str:
        return "growing" if self.growing else "flat"


def trend(
    name: str, unit: str, seconds: Sequence[float], values: Sequence[float | None], limit: Limit
) -> Trend | None:
    """The trend of a series after its warm-up; None where there are fewer than three samples."""
    known = [(t, v) for t, v in zip(seconds, values, strict=True) if v is not None]
    if len(known) < 3:
        return None
    times, numbers = [t for t, _ in known], [float(v) for _, v in known]
    line = statistics.linear_regression(times, numbers)
    scatter = statistics.pstdev(
        v - line.slope * t - line.intercept for t, v in zip(times, numbers, strict=True)
    )
    level, rise = statistics.median(numbers), line.slope * (times[-1] - times[0])
    third = (times[-1] - times[0]) / 3
    first, last = (
        [v for t, v in known if t <= times[0] + third],
        [v for t, v in known if t >= times[-1] - third],
    )
    peaks = _peak(last) - _peak(first)
    much = max(limit.amount, limit.share * abs(level))
    growing = rise > max(much, scatter) and peaks > much
    return Trend(
        name, unit, len(known), level, max(numbers), line.slope * 3600, rise, scatter, peaks, growing
    )


def _peak(values: Sequence[float]) -> float:
    """Where the highest tenth begins: one odd sample is no peak."""
    ordered = sorted(values)
    return ordered[max(0, -(-9 * len(ordered) // 10) - 1)]
