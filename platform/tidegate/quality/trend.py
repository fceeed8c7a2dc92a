"""Does the share of late rows grow? Pure arithmetic over one number for each day."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

#: Fewer days are no trend.
LEAST_DAYS = 7
#: One-sided 1 %: a series without a trend is called growing once in a hundred times.
_SURE = 2.326


@dataclass(frozen=True)
class Trend:
    """`growth`: by how much the share has grown from the first day to the last, 0 if it does not grow steadily; `slope`
    is per day (the median of all pairs, so single days don't make it); `z` is how sure (Mann–Kendall)."""

    days: int
    slope: float
    growth: float
    z: float


def trend(rates: Sequence[tuple[int, float]]) -> Trend | None:
    """Of (day, share of late rows), days ascending; None for fewer than `LEAST_DAYS`.

    Mann–Kendall's test asks whether later days are larger more often than chance explains; it needs no distribution,
    and one bad day does not trip it. The size of the growth is Theil and Sen's median slope.
    """
    n = len(rates)
    if n < LEAST_DAYS:
        return None
    pairs = [(b[0] - a[0], b[1] - a[1]) for i, a in enumerate(rates) for b in rates[i + 1 :]]
    score = sum((up > 0) - (up < 0) for _, up in pairs)
    ties = sum(c * (c - 1) * (2 * c + 5) for c in Counter(rate for _, rate in rates).values())
    variance = (n * (n - 1) * (2 * n + 5) - ties) / 18
    z = 0.0 if variance <= 0 or score == 0 else (score - math.copysign(1, score)) / math.sqrt(variance)
    slope = median(up / days for days, up in pairs)
    grown = slope * (rates[-1][0] - rates[0][0])
    return Trend(n, slope, max(grown, 0.0) if z > _SURE else 0.0, z)
