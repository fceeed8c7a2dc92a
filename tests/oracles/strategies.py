"""Strategies that remember rows, in plain Python (S1–S4, W11, W2): slow, and obviously right. Imports nothing of
tidegate.

One partition each; times are integers, for `SourceWatermark` milliseconds.
"""

from __future__ import annotations

from collections.abc import Callable
from math import ceil

DAY = 86_400_000
#: S3: (up to this many rows seen, margin in ms); then 0.
WARM_UP = ((250, 7 * DAY), (500, 30_000), (750, 10_000), (1000, 1_000))
REMEMBERED, EVERY, MIN_DELAY, MAX_DELAY = 5000, 250, 50, 7 * DAY


class SourceWatermark:
    """SOURCE_WATERMARK(): `see` takes every row that is judged, late ones too, and gives the strategy's value."""

    def __init__(self) -> None:
        self.maximum: int | None = None
        self.out_of_orderness: list[int] = []
        self.seen = 0
        self.q95 = 0

    def see(self, event_time: int) -> int:
        """The value for this row: max event time so far − delay (S2)."""
        self.maximum = event_time if self.maximum is None else max(self.maximum, event_time)
        self.out_of_orderness.append(self.maximum - event_time)  # S1
        self.seen += 1
        value = self.maximum - self.delay()
        if self.seen % EVERY == 0:  # S4: used from the next row on
            self.q95 = nearest_rank(self.out_of_orderness[-REMEMBERED:], 95)
        return value

    def delay(self) -> int:
        """S2: q95 + margin, within its bounds."""
        return min(max(self.q95 + self.margin(), MIN_DELAY), MAX_DELAY)

    def margin(self) -> int:
        """S3, by the rows seen, this one included."""
        return next((margin for up_to, margin in WARM_UP if self.seen <= up_to), 0)


class Preceding:
    """A strategy over the row and the `n` rows before it in order of arrival, late ones included (W11, W2)."""

    def __init__(self, n: int, strategy: Callable[[list[int]], int | None]) -> None:
        self.n, self.strategy = n, strategy
        self.rows: list[int] = []

    def see(self, event_time: int) -> int | None:
        """`strategy` of the frame, the current row last."""
        self.rows.append(event_time)
        return self.strategy(self.rows[-self.n - 1 :])


def nearest_rank(values: list[int], percent: int) -> int:
    """The smallest value that at least `percent` % of the values do not exceed."""
    return sorted(values)[ceil(len(values) * percent / 100) - 1]


class Partition:
    """The gate of one partition with such a strategy (W1, W2)."""

    def __init__(self, strategy: SourceWatermark | Preceding) -> None:
        self.strategy = strategy
        self.wp: int | None = None

    def read(self, event_time: int) -> tuple[str, int | None]:
        """(outcome, the watermark that a late row missed)."""
        value = self.strategy.see(event_time)
        if self.wp is not None and event_time < self.wp:
            return "late", self.wp
        if value is not None and (self.wp is None or value > self.wp):
            self.wp = value
        return "on_time", None
